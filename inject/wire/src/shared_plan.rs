//! A compiled plan in memory that is shared with the program.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use crate::plan::{Header, Phase, Placed, Process, Rule};

/// The memfd and its mapping.
#[derive(Debug)]
pub struct SharedPlan {
    file: OwnedFd,
    memory: *mut u8,
    bytes: usize,
    tables: Tables,
}

/// Where the tables begin that both sides use while the program runs, bytes from the start, and how many entries they have.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Tables {
    pub rules: (usize, usize),
    pub phases: (usize, usize),
    pub processes: (usize, usize),
    pub placed: (usize, usize),
}

// SAFETY: the mapping is only ever read through atomics once it is shared.
unsafe impl Send for SharedPlan {}
// SAFETY: as above.
unsafe impl Sync for SharedPlan {}

impl SharedPlan {
    /// Shares a plan; `bytes` begin with its header, whose tables lie within them.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new(bytes: &[u8], tables: Tables) -> io::Result<Self> {
        let fits = |(at, count): (usize, usize), size: usize| {
            at.is_multiple_of(8)
                && count.checked_mul(size).and_then(|length| length.checked_add(at)) <= Some(bytes.len())
        };
        assert!(
            size_of::<Header>() <= bytes.len()
                && fits(tables.rules, size_of::<Rule>())
                && fits(tables.phases, size_of::<Phase>())
                && fits(tables.processes, size_of::<Process>())
                && fits(tables.placed, size_of::<Placed>())
        );
        // SAFETY: a constant name; the descriptor is ours alone.
        let file = unsafe {
            let fd = libc::memfd_create(c"numamma-plan".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let file = File::from(file);
        file.set_len(bytes.len() as u64)?;
        std::io::Write::write_all(&mut &file, bytes)?;
        let file = OwnedFd::from(file);
        // SAFETY: a new shared mapping of our own file, of its whole length.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes.len(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { file, memory: memory.cast(), bytes: bytes.len(), tables })
    }

    /// How the program finds it, as long as this process lives.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// The header.
    pub fn header(&self) -> &Header {
        // SAFETY: `new` checked the length; the mapping is aligned to pages and lives as long as self; what the program changes are
        // atomics.
        unsafe { &*self.memory.cast() }
    }

    /// The rules.
    pub fn rules(&self) -> &[Rule] {
        // SAFETY: as above; `new` checked bounds and alignment.
        unsafe { std::slice::from_raw_parts(self.memory.add(self.tables.rules.0).cast(), self.tables.rules.1) }
    }

    /// The phases.
    pub fn phases(&self) -> &[Phase] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.memory.add(self.tables.phases.0).cast(), self.tables.phases.1) }
    }

    /// Processes and their phases.
    pub fn processes(&self) -> &[Process] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.memory.add(self.tables.processes.0).cast(), self.tables.processes.1) }
    }

    /// The part of the list of what is placed that has ever been used.
    pub fn used(&self) -> &[Placed] {
        let next = self.header().next_placed.load(std::sync::atomic::Ordering::Acquire);
        let tried = next.saturating_add(crate::plan::PLACED_TRIES) as usize;
        &self.placed()[..tried.min(self.tables.placed.1)]
    }

    /// The list of what is placed.
    pub fn placed(&self) -> &[Placed] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.memory.add(self.tables.placed.0).cast(), self.tables.placed.1) }
    }
}

impl Drop for SharedPlan {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made; no reference outlives self.
        unsafe { libc::munmap(self.memory.cast(), self.bytes) };
    }
}
