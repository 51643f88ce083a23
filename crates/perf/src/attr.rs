//! `struct perf_event_attr` and the system call, as `linux/perf_event.h` has them, which says what the fields and constants mean.
#![allow(missing_docs)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `struct perf_event_attr` up to `PERF_ATTR_SIZE_VER7`.
#[repr(C)]
#[derive(Clone, Debug, Default)]
pub struct Attr {
    pub kind: u32,
    pub size: u32,
    pub config: u64,
    pub sample_period: u64,
    pub sample_type: u64,
    pub read_format: u64,
    pub flags: u64,
    pub wakeup: u32,
    pub bp_type: u32,
    pub config1: u64,
    pub config2: u64,
    pub branch_sample_type: u64,
    pub sample_regs_user: u64,
    pub sample_stack_user: u32,
    pub clockid: i32,
    pub sample_regs_intr: u64,
    pub aux_watermark: u32,
    pub sample_max_stack: u16,
    pub reserved_2: u16,
    pub aux_sample_size: u32,
    pub reserved_3: u32,
    pub sig_data: u64,
}

pub const TYPE_SOFTWARE: u32 = 1;
pub const SW_TASK_CLOCK: u64 = 1;
pub const SW_PAGE_FAULTS: u64 = 2;
pub const SW_DUMMY: u64 = 9;

pub const SAMPLE_IP: u64 = 1 << 0;
pub const SAMPLE_TID: u64 = 1 << 1;
pub const SAMPLE_TIME: u64 = 1 << 2;
pub const SAMPLE_ADDR: u64 = 1 << 3;
pub const SAMPLE_CPU: u64 = 1 << 7;
pub const SAMPLE_REGS_USER: u64 = 1 << 12;
pub const SAMPLE_STACK_USER: u64 = 1 << 13;
pub const SAMPLE_IDENTIFIER: u64 = 1 << 16;

pub const DISABLED: u64 = 1 << 0;
pub const INHERIT: u64 = 1 << 1;
pub const EXCLUDE_KERNEL: u64 = 1 << 5;
pub const EXCLUDE_HV: u64 = 1 << 6;
pub const MMAP: u64 = 1 << 8;
pub const COMM: u64 = 1 << 9;
pub const ENABLE_ON_EXEC: u64 = 1 << 12;
pub const TASK: u64 = 1 << 13;
pub const WATERMARK: u64 = 1 << 14;
pub const MMAP_DATA: u64 = 1 << 17;
pub const SAMPLE_ID_ALL: u64 = 1 << 18;
pub const MMAP2: u64 = 1 << 23;
pub const COMM_EXEC: u64 = 1 << 24;
pub const USE_CLOCKID: u64 = 1 << 25;

/// `PERF_FLAG_FD_CLOEXEC`
const FD_CLOEXEC: u64 = 8;

/// Switches an event on or off, in all threads that inherited it too.
///
/// # Errors
/// If it is none.
pub fn enable(event: &impl AsRawFd, on: bool) -> io::Result<()> {
    const ENABLE: u64 = 0x2400;
    const DISABLE: u64 = 0x2401;
    // SAFETY: an open perf event; the requests take no argument.
    let done = unsafe { libc::ioctl(event.as_raw_fd(), if on { ENABLE } else { DISABLE } as _, 0) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Opens `attr` on one thread (and, with `INHERIT`, what it creates) and one CPU.
///
/// # Errors
/// If the kernel refuses it.
pub fn open(attr: &Attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    let attr = Attr { size: size_of::<Attr>() as u32, ..attr.clone() };
    // SAFETY: attr is a valid perf_event_attr of the size it states; the kernel only reads it.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, pid, cpu, -1, FD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
