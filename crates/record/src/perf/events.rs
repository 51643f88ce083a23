//! Opens the events of a recording on a suspended process and its descendants.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use numamma_perf::attr::{self, Attr};
use numamma_perf::ring::Ring;
use numamma_perf::{id, probe};

use super::decode::{IP_MASK, REGISTER_MASK, Record, STACK_POINTER_MASK, Source, decode};
use super::rings::Rings;
use crate::probes::Probe;

/// Sizes of a CPU's ring, bytes, the largest first. 2048 pages hold 50,000 samples a second for a second; 512 KiB is what an
/// unprivileged user may lock everywhere (`kernel.perf_event_mlock_kb` is 516 by default, per CPU), unless another program has
/// locked some of it already. The smallest still holds some ten samples while the recorder wakes up.
const RING_BYTES: [usize; 11] =
    [8 << 20, 4 << 20, 2 << 20, 1 << 20, 512 << 10, 256 << 10, 128 << 10, 64 << 10, 32 << 10, 16 << 10, 8 << 10];

/// Bytes in a ring that wake up the recorder; half of a ring that is smaller than twice that.
const WAKE_UP: usize = 64 << 10;

/// The events of a recording, on all CPUs.
#[derive(Debug)]
pub struct Events {
    rings: Arc<Rings>,
    /// The CPU of each ring.
    cpus: Vec<u32>,
    /// The second clocks.
    seconds: Vec<OwnedFd>,
    /// Events without a ring of their own: open as long as the recording lasts.
    _redirected: Vec<OwnedFd>,
    sources: HashMap<u64, Source>,
    /// Why page faults are not recorded, if they are not.
    pub faults_refused: Option<io::Error>,
    /// True if faults inside the kernel are seen too.
    pub kernel_faults: bool,
    bytes: Vec<u8>,
}

/// Bytes of the stack that a sample brings: the frame of most functions.
const STACK_BYTES: u32 = 512;

/// Bytes of the stack that a page fault brings: where `memset` and its like return to.
const FAULT_STACK_BYTES: u32 = 8;

/// The clock event of a period in nanoseconds of thread time.
pub fn clock_attr(period: u64) -> Attr {
    Attr {
        kind: attr::TYPE_SOFTWARE,
        config: attr::SW_TASK_CLOCK,
        sample_period: period,
        sample_type: COMMON | attr::SAMPLE_REGS_USER | attr::SAMPLE_STACK_USER,
        sample_regs_user: REGISTER_MASK,
        sample_stack_user: STACK_BYTES,
        flags: FLAGS | attr::EXCLUDE_KERNEL,
        clockid: libc::CLOCK_MONOTONIC,
        wakeup: WAKE_UP as u32,
        ..Attr::default()
    }
}

const COMMON: u64 = attr::SAMPLE_IDENTIFIER | attr::SAMPLE_IP | attr::SAMPLE_TID | attr::SAMPLE_TIME | attr::SAMPLE_CPU;
const FLAGS: u64 = attr::DISABLED
    | attr::INHERIT
    | attr::ENABLE_ON_EXEC
    | attr::EXCLUDE_HV
    | attr::WATERMARK
    | attr::SAMPLE_ID_ALL
    | attr::USE_CLOCKID;

/// Why there are no events.
#[derive(Debug)]
pub enum Refused {
    /// The kernel refuses them.
    Event(io::Error),
    /// There is no memory for the smallest rings.
    Rings(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Event(error)
    }
}

/// What is to be told of a process, besides what becomes of its memory and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Nothing.
    Memory,
    /// Page faults.
    Faults,
    /// These too, and samples by two clocks with these periods.
    Clock([u64; 2]),
}

impl Events {
    /// Opens `what` on process `pid`, disabled until its next exec. `cpus` are the CPUs to watch. `waits`: the clocks are off until
    /// [`Self::enable_clock`]. The rings are the largest that the limits on locked memory allow for all CPUs alike: what the first
    /// takes is not there for the last.
    pub fn open(pid: i32, cpus: &[u32], what: Watch, waits: bool) -> Result<Self, Refused> {
        probe::raise_file_limit();
        let mut refused = Refused::Event(io::Error::other("no ring size to try"));
        for size in RING_BYTES {
            match Self::open_with(pid, cpus, what, waits, size) {
                Err(Refused::Rings(error)) => refused = Refused::Rings(error),
                other => return other,
            }
        }
        Err(refused)
    }

    /// The same with rings of that size.
    fn open_with(pid: i32, cpus: &[u32], what: Watch, waits: bool, size: usize) -> Result<Self, Refused> {
        let wakeup = WAKE_UP.min(size / 2) as u32;
        let periods = if let Watch::Clock(periods) = what { Some(periods) } else { None };
        let [clock, second] = periods.unwrap_or([1_000_000_000; 2]).map(|period| Attr { wakeup, ..clock_attr(period) });
        let sideband = Attr {
            kind: attr::TYPE_SOFTWARE,
            config: attr::SW_DUMMY,
            sample_type: COMMON,
            sample_stack_user: 0,
            flags: FLAGS
                | attr::EXCLUDE_KERNEL
                | attr::MMAP
                | attr::MMAP_DATA
                | attr::MMAP2
                | attr::COMM
                | attr::COMM_EXEC
                | attr::TASK,
            clockid: libc::CLOCK_MONOTONIC,
            ..clock.clone()
        };
        let mut faults = Attr {
            config: attr::SW_PAGE_FAULTS,
            sample_period: 1,
            // There may be a million a second: the instruction is in the registers, and the event is of one CPU.
            sample_type: (COMMON & !(attr::SAMPLE_IP | attr::SAMPLE_CPU))
                | attr::SAMPLE_ADDR
                | attr::SAMPLE_REGS_USER
                | attr::SAMPLE_STACK_USER,
            sample_regs_user: IP_MASK,
            sample_stack_user: FAULT_STACK_BYTES,
            flags: FLAGS,
            ..clock.clone()
        };
        let mut rings = Rings::default();
        let mut events = Self {
            rings: Arc::default(),
            cpus: Vec::new(),
            seconds: Vec::new(),
            _redirected: Vec::new(),
            sources: HashMap::new(),
            faults_refused: None,
            kernel_faults: true,
            bytes: Vec::new(),
        };
        let [clock, second] = [clock, second].map(|clock| match waits {
            true => Attr { flags: clock.flags & !attr::ENABLE_ON_EXEC, ..clock },
            false => clock,
        });
        for &cpu in cpus {
            let first = if periods.is_some() { &clock } else { &sideband };
            let fd = match attr::open(first, pid, cpu as i32) {
                Ok(fd) => fd,
                // A CPU that went offline since we looked.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                Err(error) => return Err(error.into()),
            };
            if what == Watch::Memory {
                rings.push(map(fd, size)?);
                continue;
            }
            if periods.is_some() {
                events.sources.insert(id(&fd)?, Source::Clock);
            }
            let ring = map(fd, size)?;
            if periods.is_some() {
                let beat = attr::open(&second, pid, cpu as i32)?;
                events.sources.insert(id(&beat)?, Source::Clock);
                ring.redirect(&beat)?;
                events.seconds.push(beat);
                let other = attr::open(&sideband, pid, cpu as i32)?;
                ring.redirect(&other)?;
                events._redirected.push(other);
            }
            if events.faults_refused.is_none() {
                match events.open_faults(&mut faults, pid, cpu as i32) {
                    Ok(fd) => {
                        ring.redirect(&fd)?;
                        events._redirected.push(fd);
                    }
                    Err(error) => events.faults_refused = Some(error),
                }
            }
            rings.push(ring);
            events.cpus.push(cpu);
        }
        if rings.len() == 0 {
            return Err(io::Error::other("no CPU could be watched").into());
        }
        events.rings = Arc::new(rings);
        Ok(events)
    }

    /// Watches `probes` too; `kind` is the type of the kernel's events for them.
    ///
    /// They are in every process: see [`probe::open`].
    ///
    /// # Errors
    /// If the kernel refuses one.
    pub fn probe(&mut self, kind: u32, probes: &[Probe]) -> io::Result<()> {
        probe::raise_file_limit();
        for (number, of) in probes.iter().enumerate() {
            let path = CString::new(of.file.as_os_str().as_bytes())?;
            let registers = of.needs_registers();
            let attr = Attr {
                sample_type: COMMON | attr::SAMPLE_REGS_USER,
                sample_regs_user: if registers { REGISTER_MASK } else { STACK_POINTER_MASK },
                flags: FLAGS & !(attr::DISABLED | attr::INHERIT | attr::ENABLE_ON_EXEC),
                clockid: libc::CLOCK_MONOTONIC,
                wakeup: 64 << 10,
                ..Attr::default()
            };
            for (at, &cpu) in self.cpus.iter().enumerate() {
                let fd = probe::open(kind, &path, of.offset, cpu, attr.clone())?;
                self.sources.insert(id(&fd)?, Source::Probe { number: number as u32, registers });
                self.rings.redirect(at, &fd)?;
                self._redirected.push(fd);
            }
        }
        Ok(())
    }

    /// Nanoseconds that threads have run while the clock was on.
    pub fn clock_time(&self) -> u64 {
        self.rings.each(Ring::count).sum()
    }

    /// Switches the clock on or off, in all threads.
    pub fn enable_clock(&self, on: bool) {
        self.rings.each(|ring| ring.enable(on)).for_each(drop);
        for clock in &self.seconds {
            // It is an event, so this cannot fail.
            let _ = attr::enable(clock, on);
        }
    }

    /// With faults inside the kernel if that is allowed, else without.
    fn open_faults(&mut self, faults: &mut Attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
        let fd = match attr::open(faults, pid, cpu) {
            Err(error) if error.raw_os_error() == Some(libc::EACCES) && faults.flags & attr::EXCLUDE_KERNEL == 0 => {
                faults.flags |= attr::EXCLUDE_KERNEL;
                self.kernel_faults = false;
                attr::open(faults, pid, cpu)?
            }
            other => other?,
        };
        self.sources.insert(id(&fd)?, Source::PageFault { cpu });
        Ok(fd)
    }

    /// The rings, to be emptied by another thread.
    pub fn rings(&self) -> Arc<Rings> {
        Arc::clone(&self.rings)
    }

    /// Appends the records that have come since the last call, CPU by CPU.
    pub fn drain(&mut self, records: &mut Vec<Record>) {
        for number in 0..self.rings.len() {
            self.rings.take(number, &mut self.bytes);
            decode(&self.bytes, &self.sources, records);
        }
    }
}

fn map(event: OwnedFd, size: usize) -> Result<Ring, Refused> {
    Ring::map(event, size).map_err(|(error, _)| Refused::Rings(error))
}
