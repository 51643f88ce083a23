//! Annotations for NumaMMA, for programs in Rust: names of memory, phases, and the part of a run that is to be sampled. What they mean
//! is said in `numamma.h`, beside this crate.
//!
//! Where the program is not recorded and no plan is applied to it, each of these functions is a load and a test.
//!
//! ```
//! let grid = vec![0.0_f64; 1 << 20];
//! numamma_annotate::label(&grid, "grid");
//! numamma_annotate::phase(Some("solve"));
//! ```

#![no_std]

use core::ffi::{c_char, c_int, c_void};

/// Of a text that is passed on, with its end.
const MOST: usize = 257;

/// The address of a function of the library that `numamma` puts into the program; 0 where it is not there. The reference is weak, so
/// nothing is to be linked.
macro_rules! find {
    ($name:literal) => {{
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        {
            let found: usize;
            // SAFETY: loads the symbol's entry of the global offset table, which the linker makes.
            unsafe {
                core::arch::asm!(
                    concat!(".weak ", $name),
                    concat!("mov {}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                    out(reg) found,
                    options(nostack, pure, readonly, preserves_flags)
                );
            }
            found
        }
        #[cfg(all(target_os = "linux", target_arch = "aarch64"))]
        {
            let found: usize;
            // SAFETY: as above.
            unsafe {
                core::arch::asm!(
                    concat!(".weak ", $name),
                    concat!("adrp {0}, :got:", $name),
                    concat!("ldr {0}, [{0}, :got_lo12:", $name, "]"),
                    out(reg) found,
                    options(nostack, pure, readonly, preserves_flags)
                );
            }
            found
        }
        #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
        {
            0_usize
        }
    }};
}

/// From now on these elements are the object `name` (up to 256 bytes of it): until the name is taken back, another takes its place, or
/// the memory that they are in is freed.
pub fn label<T>(memory: &[T], name: &str) {
    let found = find!("numamma_v1_label");
    if found != 0 {
        // SAFETY: the library's function of that name, as `numamma.h` declares it.
        let function: extern "C" fn(*const c_void, usize, *const c_char) = unsafe { core::mem::transmute(found) };
        let text = terminated(name);
        function(memory.as_ptr().cast(), size_of_val(memory), text.as_ptr().cast());
    }
}

/// Takes the name back that begins where these elements do.
pub fn unlabel<T>(memory: &[T]) {
    let found = find!("numamma_v1_unlabel");
    if found != 0 {
        // SAFETY: as above.
        let function: extern "C" fn(*const c_void) = unsafe { core::mem::transmute(found) };
        function(memory.as_ptr().cast());
    }
}

/// A phase of the program begins, in all its threads; `None`: none is left. A plan may place objects anew here, which takes its time.
pub fn phase(name: Option<&str>) {
    let found = find!("numamma_v1_phase");
    if found != 0 {
        // SAFETY: as above.
        let function: extern "C" fn(*const c_char) = unsafe { core::mem::transmute(found) };
        let text = name.map(terminated);
        function(text.as_ref().map_or(core::ptr::null(), |text| text.as_ptr().cast()));
    }
}

/// The part of the run to be sampled begins, in all threads: `numamma record --marked`.
pub fn begin() {
    wanted(1);
}

/// It ends.
pub fn end() {
    wanted(0);
}

fn wanted(is: c_int) {
    let found = find!("numamma_v1_wanted");
    if found != 0 {
        // SAFETY: as above.
        let function: extern "C" fn(c_int) = unsafe { core::mem::transmute(found) };
        function(is);
    }
}

/// A text as C reads it, cut to what is passed on.
fn terminated(text: &str) -> [u8; MOST] {
    let mut bytes = [0; MOST];
    let length = text.len().min(MOST - 1);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}
