//! Probes in user code (uprobes): the kernel reports threads that come by a place in a file's code.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use crate::attr::{self, Attr};

/// The kernel's unit for them.
const PMU_TYPE: &str = "/sys/bus/event_source/devices/uprobe/type";

/// In place of a process's id: all of them.
const ANY_PROCESS: i32 = -1;

/// The type of the kernel's events for probes.
///
/// # Errors
/// If it has none.
pub fn pmu_type() -> io::Result<u32> {
    let text = std::fs::read_to_string(PMU_TYPE)?;
    text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Opens a probe at `offset` of a file on a CPU; `rest` says what its records hold.
///
/// In every process: a thread that inherits such an event makes the kernel read the name of the file from the memory of the program, at
/// the address where it was in ours, and when that fails the program cannot make threads any more.
///
/// # Errors
/// If the kernel refuses it; without CAP_PERFMON it does.
pub fn open(kind: u32, file: &CStr, offset: u64, cpu: u32, rest: Attr) -> io::Result<OwnedFd> {
    let attr = Attr { kind, config: 0, config1: file.as_ptr() as u64, config2: offset, sample_period: 1, ..rest };
    attr::open(&attr, ANY_PROCESS, cpu as i32)
}

/// As many descriptors as may be had: there is one for each probe and CPU. Programs that were forked before keep their limit.
pub fn raise_file_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads into and sets from a live struct; a refusal shows when the descriptors run out.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
