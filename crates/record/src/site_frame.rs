//! Which frame of a call stack stands for the allocation: the first that the user wrote.

use numamma_trace::FrameRow;

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

/// Index of the frame that stands for the site: the innermost that is neither a library's nor a wrapper; if there is
/// none, the innermost of all.
pub fn choose(frames: &[FrameRow]) -> Option<usize> {
    let mine = frames.iter().position(|frame| {
        let module = frame.module.rsplit('/').next().unwrap_or_default();
        let function = frame.function.as_str();
        !(LIBRARIES.iter().any(|name| module.starts_with(name))
            || FUNCTIONS.iter().any(|name| function.starts_with(name))
            || returns_std(function)
            || WRAPPERS.contains(&function))
    });
    mine.or(if frames.is_empty() { None } else { Some(0) })
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

    fn frame(module: &str, function: &str) -> FrameRow {
        FrameRow {
            site: 0,
            depth: 0,
            ip: 0,
            module: module.into(),
            module_offset: 0,
            function: function.into(),
            file: String::new(),
            line: 0,
            inlined: 0,
        }
    }

    #[test]
    fn the_site_is_the_first_frame_that_the_user_wrote() {
        let frames = [
            frame("/lib/libstdc++.so.6", "operator new(unsigned long)"),
            frame("/home/me/app", "std::vector<int, std::allocator<int> >::push_back(int const&)"),
            frame("/home/me/app", "int* std::__copy_move_a<false, int*, int*>(int*, int*, int*)"),
            frame("/home/me/app", "load(std::string const&)"),
            frame("/home/me/app", "main"),
        ];
        assert_eq!(choose(&frames), Some(3));
    }

    #[test]
    fn a_stack_of_the_library_alone_still_has_a_site() {
        assert_eq!(choose(&[frame("/lib/libc.so.6", "fopen")]), Some(0));
        assert_eq!(choose(&[]), None);
    }
}
