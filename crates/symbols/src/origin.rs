//! Whose code a frame is: frames that are known by name not to be the user's own, but libraries' and wrappers'.

/// Libraries whose frames never stand for a site, by the beginning of their file name.
pub const LIBRARIES: [&str; 12] = [
    "libc.so",
    "libc-2",
    "libstdc++.so",
    "libc++.so",
    "libc++abi",
    "libgfortran.so",
    "libquadmath.so",
    "libgomp.so",
    "libomp.so",
    "ld-linux",
    "libpthread",
    "libnumamma",
];

/// Beginnings of demangled names of the C++ library (instantiated in the user's own module) and of Rust's.
const FUNCTIONS: [&str; 14] = [
    "operator new",
    "std::",
    "__gnu_cxx::",
    "void std::",
    "void* std::",
    "__cxa_",
    "boost::container::",
    "alloc::",
    "<alloc::",
    "core::",
    "<core::",
    "hashbrown::",
    "__rust_",
    "__rdl_",
];

/// Parts of the paths of the C++ and the Rust library's sources: of what is inlined, the name alone is often not enough.
const SOURCES: [&str; 4] = ["/include/c++/", "/rustc/", "/rustlib/src/rust/library/", "/hashbrown-"];

/// Wrappers that programs put round malloc everywhere.
const WRAPPERS: [&str; 16] = [
    "xmalloc",
    "xcalloc",
    "xrealloc",
    "xstrdup",
    "xnmalloc",
    "x2nrealloc",
    "xmemdup",
    "xzalloc",
    "g_malloc",
    "g_malloc0",
    "g_realloc",
    "g_slice_alloc",
    "safe_malloc",
    "zmalloc",
    "zcalloc",
    "zrealloc",
];

/// True for a source file of the C++ or the Rust library.
pub fn is_library_source(source: &str) -> bool {
    SOURCES.iter().any(|part| source.contains(part))
}

/// True if a frame is a library's: the C, C++ or Rust library's, a compiler's run time's.
pub fn is_library(module: &str, function: &str, source: &str) -> bool {
    let module = module.rsplit('/').next().unwrap_or_default();
    is_library_source(source)
        || LIBRARIES.iter().any(|name| module.starts_with(name))
        || FUNCTIONS.iter().any(|name| function.starts_with(name))
        || returns_std(function)
}

/// True if a function is known to allocate for others.
pub fn is_wrapper(function: &str) -> bool {
    WRAPPERS.contains(&function)
}

/// True if a function is the one that the user means by `name`, which may lack the parameters, the arguments of templates and
/// the namespaces.
pub fn is_it(function: &str, name: &str) -> bool {
    let is_tail =
        |function: &str| function.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with("::"));
    if is_tail(function) {
        return true;
    }
    let plain = without_parameters(function);
    is_tail(plain) || (plain.contains('<') && is_tail(&without_templates(plain)))
}

/// A function without its parameters: `f<int (*)(int)>(long) const` is `f<int (*)(int)>`.
pub fn without_parameters(function: &str) -> &str {
    let mut depth = 0_usize;
    for (at, c) in function.char_indices() {
        match c {
            '<' if !ends_with_operator(&function[..at]) => depth += 1,
            '>' if depth > 0 && !function[..at].ends_with('-') => depth -= 1,
            // `operator()`, lambdas `{lambda(int)#1}` and `(anonymous namespace)` have brackets in their names.
            '(' if depth == 0
                && at > 0
                && !function[..at].ends_with("operator")
                && !function[..at].ends_with("{lambda")
                && !function[at..].starts_with("(anonymous namespace)") =>
            {
                return &function[..at];
            }
            _ => {}
        }
    }
    function
}

/// A name without the arguments of templates: `Pool<int>::take<8>` is `Pool::take`. One name for all that a template makes.
pub fn without_templates(function: &str) -> String {
    let (mut plain, mut depth) = (String::with_capacity(function.len()), 0_usize);
    for (at, c) in function.char_indices() {
        match c {
            '<' if depth > 0 || !(ends_with_operator(&function[..at]) || at == 0) => depth += 1,
            '>' if depth > 0 && !function[..at].ends_with('-') => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain
}

/// True if a function is the constructor of a class.
pub fn is_constructor(function: &str) -> bool {
    let plain = without_templates(without_parameters(function));
    let mut parts = plain.rsplit("::");
    matches!((parts.next(), parts.next()), (Some(name), Some(class)) if name == class && !name.is_empty())
}

/// True if what follows is a part of an operator's name: `operator<`, `operator<<`, `operator()`.
fn ends_with_operator(name: &str) -> bool {
    name.trim_end_matches('<').ends_with("operator")
}

/// True if a function may be the method of a container of the C++ library.
pub fn is_container(function: &str) -> bool {
    FUNCTIONS[1..5].iter().any(|name| function.starts_with(name)) || returns_std(function)
}

/// A template of the C++ library that is demangled with its return type: `T* std::__do_something<...>(...)`.
fn returns_std(function: &str) -> bool {
    let name = function.split(['(', '<']).next().unwrap_or_default();
    name.rsplit(' ').next().is_some_and(|last| last.starts_with("std::") || last.starts_with("__gnu_cxx::"))
        && name.contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_site_is_the_first_frame_that_the_user_wrote() {
        let frames = [
            ("/lib/libstdc++.so.6", "operator new(unsigned long)"),
            ("/home/me/app", "std::vector<int, std::allocator<int> >::push_back(int const&)"),
            ("/home/me/app", "int* std::__copy_move_a<false, int*, int*>(int*, int*, int*)"),
            ("/home/me/app", "xmalloc"),
            ("/home/me/app", "load(std::string const&)"),
            ("/home/me/app", "main"),
        ];
        let is_user = |(module, function): &(&str, &str)| !is_library(module, function, "") && !is_wrapper(function);
        assert_eq!(frames.iter().position(is_user), Some(4));
    }

    #[test]
    fn what_is_inlined_is_told_by_its_source() {
        assert!(is_library("/home/me/app", "reserve<Global>", "/rustc/59807616e1fa/library/alloc/src/raw_vec/mod.rs"));
        assert!(is_library("/home/me/app", "allocate", "/usr/include/c++/12/bits/new_allocator.h"));
        assert!(!is_library("/home/me/app", "allocate", "/home/me/library/pool.c"));
    }

    #[test]
    fn the_user_names_a_wrapper_as_the_source_does() {
        assert!(is_it("my_alloc", "my_alloc"));
        assert!(is_it("grid::Pool::take(unsigned long)", "Pool::take"));
        assert!(is_it("grid::Pool::take(unsigned long)", "grid::Pool::take(unsigned long)"));
        assert!(!is_it("my_alloc", "alloc"));
        assert!(!is_it("my_alloc_all", "my_alloc"));
    }

    #[test]
    fn a_name_means_whatever_a_template_makes_of_it() {
        for function in [
            "Allocate<double>",
            "Allocate<std::pair<int, long> >(unsigned long)",
            "grid::Allocate<(Kind)1>(int (*)(int))",
            "grid::Pool<int>::Allocate<8>(long) const",
            "(anonymous namespace)::Allocate(long)",
        ] {
            assert!(is_it(function, "Allocate"), "{function}");
            assert!(!is_it(function, "locate"), "{function}");
        }
        assert!(is_it("grid::Pool<int>::take(long)", "Pool::take"));
        assert!(is_it("grid::Pool<int>::take(long)", "Pool<int>::take"));
        assert!(!is_it("grid::Pool<int>::take(long)", "Pool<long>::take"));
        assert!(is_it("S::operator<<(int)", "operator<<"));
        assert!(is_it("S<int>::operator()(int)", "S::operator()"));
        assert!(!is_it("f(Allocate)", "Allocate"));
    }

    #[test]
    fn a_constructor_is_named_as_its_class() {
        assert!(is_constructor("pvector<double>::pvector"));
        assert!(is_constructor("(anonymous namespace)::Matrix::Matrix(unsigned long, int)"));
        assert!(!is_constructor("Matrix::resize(int)"));
        assert!(!is_constructor("Matrix"));
        assert!(!is_constructor("Matrix::~Matrix()"));
    }

    #[test]
    fn a_module_without_names_stands_unless_it_is_a_library() {
        assert!(!is_library("/opt/tool", "", ""));
        assert!(is_library("/lib/x86_64-linux-gnu/libc.so.6", "", ""));
    }
}
