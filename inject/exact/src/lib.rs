//! What counts every data access, as bytes: the plug-in of QEMU's user mode, and the library of hooks for programs that tell of their
//! accesses by themselves.
//!
//! They are written in C (`plugin/`, `hooks/` and what both need, `count/`, beside this crate): QEMU's interface is, and the library
//! runs in programs of others. `build.rs` compiles them.
#![forbid(unsafe_code)]

/// `libnumamma_exact.so`: write it to a file and name that, and a segment of `numamma-wire`, to
/// `qemu-x86_64 -plugin FILE,segment=PATH`. Empty where it cannot be: it counts on x86-64 alone.
pub const PLUGIN: &[u8] = include_bytes!(env!("NUMAMMA_EXACT_PLUGIN"));

/// `libnumamma_hooks.so`: the functions that programs compiled with `-fsanitize=thread` call for each access. Named by `LD_PRELOAD`
/// it takes the place of ThreadSanitizer's runtime, whose name ([`RUNTIME`]) it bears. Empty where it cannot be.
pub const HOOKS: &[u8] = include_bytes!(env!("NUMAMMA_EXACT_HOOKS"));

/// The name (`DT_SONAME`) in [`HOOKS`]. Other versions of the runtime have another digit at its end.
pub const RUNTIME: &str = "libtsan.so.2";

/// Whether [`HOOKS`] has a function of that name.
pub fn has(name: &str) -> bool {
    // As a string of its symbol table: between two zeros.
    let wanted: Vec<u8> = [b"\0", name.as_bytes(), b"\0"].concat();
    HOOKS.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_has_its_name_once_and_what_compilers_call() {
        if HOOKS.is_empty() {
            return;
        }
        assert_eq!(HOOKS.windows(RUNTIME.len()).filter(|window| *window == RUNTIME.as_bytes()).count(), 1);
        for name in
            ["__tsan_read8", "__tsan_atomic128_compare_exchange_val", "__tsan_func_exit", "AnnotateHappensAfter"]
        {
            assert!(has(name), "{name}");
        }
        assert!(!has("__tsan_rea") && !has("__sanitizer_print_stack_trace"));
    }
}
