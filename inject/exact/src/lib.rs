//! The plug-in of QEMU's user mode that counts every data access, as bytes.
//!
//! It is written in C (`plugin/` beside this crate), since QEMU's interface is. `build.rs` compiles it.
#![forbid(unsafe_code)]

/// `libnumamma_exact.so`: write it to a file and name that, and a segment of `numamma-wire`, to
/// `qemu-x86_64 -plugin FILE,segment=PATH`. Empty where it cannot be: it counts on x86-64 alone.
pub const PLUGIN: &[u8] = include_bytes!(env!("NUMAMMA_EXACT_PLUGIN"));
