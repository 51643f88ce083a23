//! Memory for code that we write: one mapping of it to write to, another one to execute.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// Room for some ten thousand pieces. Only what is used takes memory.
const BYTES: usize = 8 << 20;
/// Pieces begin at multiples of this.
const ALIGNMENT: usize = 16;

/// Code, appended to.
pub struct Arena {
    write: *mut u8,
    execute: *const u8,
    used: usize,
}

// SAFETY: both mappings belong to this value alone, and nothing about them is bound to a thread.
unsafe impl Send for Arena {}

impl Arena {
    pub fn new() -> io::Result<Self> {
        // SAFETY: a C string, and no other pointers.
        let fd = unsafe { libc::memfd_create(c"numamma-emulator".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: an open descriptor.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), BYTES as libc::off_t) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let write = map(&fd, libc::PROT_READ | libc::PROT_WRITE)?;
        match map(&fd, libc::PROT_READ | libc::PROT_EXEC) {
            Ok(execute) => Ok(Self { write, execute, used: 0 }),
            Err(error) => {
                // SAFETY: the mapping was just made, with this length, and is not used.
                unsafe { libc::munmap(write.cast(), BYTES) };
                Err(error)
            }
        }
    }

    /// Appends code; none: there is no room. Gives where it is.
    pub fn append(&mut self, code: &[u8]) -> Option<u32> {
        let at = self.used;
        if at + code.len() > BYTES {
            return None;
        }
        // SAFETY: the range is inside of the mapping (checked above), which nothing else refers to.
        unsafe { ptr::copy_nonoverlapping(code.as_ptr(), self.write.add(at), code.len()) };
        self.used = (at + code.len()).next_multiple_of(ALIGNMENT);
        Some(at as u32)
    }

    /// Where code at that place is executed.
    pub fn entry(&self, at: u32) -> *const u8 {
        debug_assert!((at as usize) < BYTES);
        self.execute.wrapping_add(at as usize)
    }

    /// True if the code of one more block might find no room.
    pub fn is_full(&self) -> bool {
        self.used + (1 << 16) > BYTES
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.used = 0;
        // What the processor has fetched of the old code must be gone before new code is written by way of another address.
        std::arch::x86_64::__cpuid(0);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: both were mapped with this length, and end with this value.
        unsafe {
            libc::munmap(self.write.cast(), BYTES);
            libc::munmap(self.execute.cast_mut().cast(), BYTES);
        }
    }
}

fn map(fd: &OwnedFd, protection: libc::c_int) -> io::Result<*mut u8> {
    // SAFETY: a new mapping at an address of the kernel's choice; it overlaps nothing of ours.
    let at = unsafe { libc::mmap(ptr::null_mut(), BYTES, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at.cast()) }
}
