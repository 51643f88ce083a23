//! The library that is injected into the recorded program, as bytes.
//!
//! It is written in C (`base/`, `emit/`, `hooks/`, `unwind/` beside this crate), because stable Rust has no initial-exec
//! thread-local storage and a Rust library brings libgcc and a new glibc into the program. `build.rs` compiles it.
#![forbid(unsafe_code)]

/// `libnumamma_preload.so`: write it to a file and name that in `LD_PRELOAD`. It does nothing but forward unless the
/// environment names a segment of `numamma-wire`.
pub const LIBRARY: &[u8] = include_bytes!(env!("NUMAMMA_PRELOAD_LIBRARY"));
