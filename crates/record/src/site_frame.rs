//! Which frame of a call stack stands for the allocation: the first that the user wrote.

/// Libraries whose frames never stand for a site, by the beginning of their file name.
const LIBRARIES: [&str; 10] = [
    "libc.so",
    "libc-2",
    "libstdc++.so",
    "libc++.so",
    "libc++abi",
    "libgfortran.so",
    "libgomp.so",
    "libomp.so",
    "ld-linux",
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

/// Whether a frame may stand for a site: it is neither a library's nor a wrapper. The innermost that may does; if there is
/// none, the innermost of all.
pub fn stands(module: &str, function: &str) -> bool {
    let module = module.rsplit('/').next().unwrap_or_default();
    !(LIBRARIES.iter().any(|name| module.starts_with(name))
        || FUNCTIONS.iter().any(|name| function.starts_with(name))
        || returns_std(function)
        || WRAPPERS.contains(&function))
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
        assert_eq!(frames.iter().position(|(module, function)| stands(module, function)), Some(4));
    }

    #[test]
    fn a_module_without_names_stands_unless_it_is_a_library() {
        assert!(stands("/opt/tool", ""));
        assert!(!stands("/lib/x86_64-linux-gnu/libc.so.6", ""));
    }
}
