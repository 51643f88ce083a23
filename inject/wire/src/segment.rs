//! The shared segment: made by the recorder, mapped by every process of the recorded program.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::layout::{
    CLOCK_MONOTONIC, CLOCK_TSC, MAGIC, MAX_FRAMES, PAGE, RECENT, RING_EXTRA, RecentBlock, RingControl, SegmentHeader,
    WIRE_VERSION,
};
use crate::ring::{Ring, RingState};

/// The environment variable that names the segment to the recorded program.
pub const ENVIRONMENT: &str = "NUMAMMA_SEGMENT";

/// What events are stamped with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`, nanoseconds: half of what an event costs its writer.
    Monotonic,
    /// The processor's time stamp counter, in ticks. For machines whose kernel keeps its own time by it.
    Tsc,
}

impl Clock {
    /// The cheapest that is right here. The time stamp counters of all CPUs agree where the kernel itself keeps time by them.
    pub fn best() -> Clock {
        let tsc = cfg!(target_arch = "x86_64") && kernel_clock() == "tsc";
        if tsc { Clock::Tsc } else { Clock::Monotonic }
    }
}

/// What the kernel keeps time by; empty if it does not tell.
fn kernel_clock() -> String {
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    source.unwrap_or_default().trim().to_owned()
}

/// Clocks that programs read by themselves; with others (hpet, acpi_pm), each reading is a system call.
const READ_BY_PROGRAMS: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

/// What the recorder chooses. The segment is sparse: only what is written takes memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Threads that can live at once; more of them go unrecorded and are counted ([`Segment::lost_no_ring`]).
    pub ring_count: u32,
    /// Bytes of one ring: a power of two, at least a page.
    pub ring_bytes: u32,
    /// Deepest call stack, at most [`MAX_FRAMES`].
    pub max_frames: u32,
    /// Whether heap events are wanted.
    pub heap: bool,
    /// What events are stamped with.
    pub clock: Clock,
    /// Whether blocks that come and go may be sent as [`Event::Repeat`](crate::Event::Repeat).
    pub collapse: bool,
    /// Whether an emulator counts the accesses: the library tells it what happens (`numamma_note.h`).
    pub exact: bool,
    /// The model of caches of who counts accesses, if there is to be one.
    pub caches: Option<Caches>,
}

/// `struct nmm_caches`: sets and ways of L1, L2 and the last level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Caches {
    pub line: u32,
    pub prefetch: u32,
    pub sockets: u32,
    pub sets: [u32; 3],
    pub ways: [u32; 3],
}

impl Options {
    /// Bytes from one ring to the next.
    fn stride(self) -> usize {
        RING_EXTRA as usize + self.ring_bytes as usize
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            ring_count: 4096,
            ring_bytes: 256 * 1024,
            max_frames: 64,
            heap: true,
            clock: Clock::Monotonic,
            collapse: false,
            exact: false,
            caches: None,
        }
    }
}

/// The mapped segment, recorder's side.
pub struct Segment {
    file: File,
    base: NonNull<u8>,
    bytes: usize,
    // Our own copies: the ones in the shared page can be overwritten by the recorded program.
    options: Options,
    rings_offset: usize,
}

// SAFETY: the mapping is shared memory that is only accessed through atomics; the file is only used for system calls.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Makes an empty segment.
    pub fn create(options: Options) -> io::Result<Segment> {
        let sane = options.ring_bytes.is_power_of_two()
            && options.ring_bytes >= PAGE
            && (1..=65536).contains(&options.ring_count)
            && (1..=MAX_FRAMES).contains(&options.max_frames);
        if !sane {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("segment cannot be made with {options:?}"),
            ));
        }
        let page = PAGE as usize;
        let controls = options.ring_count as usize * size_of::<RingControl>();
        let rings_offset = page + controls.next_multiple_of(page);
        let bytes = rings_offset + options.ring_count as usize * options.stride();

        // SAFETY: a valid C string and flags; the descriptor is ours from here on.
        let file = unsafe {
            let fd = libc::memfd_create(c"numamma".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            File::from(OwnedFd::from_raw_fd(fd))
        };
        file.set_len(bytes as u64)?;
        // A program that shrank the file would kill us with SIGBUS.
        // SAFETY: a system call on our own descriptor.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh shared mapping at an address of the kernel's choice.
        let base = unsafe {
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), bytes, prot, flags, file.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        let segment = Segment { file, base, bytes, options, rings_offset };

        let header = segment.header();
        header.version.store(WIRE_VERSION, Relaxed);
        header.header_bytes.store(PAGE, Relaxed);
        header.ring_count.store(options.ring_count, Relaxed);
        header.ring_bytes.store(options.ring_bytes, Relaxed);
        header.rings_offset.store(rings_offset as u64, Relaxed);
        header.recorder_pid.store(std::process::id() as i32, Relaxed);
        header.max_frames.store(options.max_frames, Relaxed);
        header.heap.store(options.heap.into(), Relaxed);
        let clock = match options.clock {
            Clock::Monotonic => CLOCK_MONOTONIC,
            Clock::Tsc => CLOCK_TSC,
        };
        header.clock.store(clock, Relaxed);
        header.collapse.store(options.collapse.into(), Relaxed);
        header.exact.store(options.exact.into(), Relaxed);
        header.vdso_clock.store(READ_BY_PROGRAMS.contains(&kernel_clock().as_str()).into(), Relaxed);
        if let Some(caches) = options.caches {
            header.caches.line.store(caches.line, Relaxed);
            header.caches.prefetch.store(caches.prefetch, Relaxed);
            header.caches.sockets.store(caches.sockets, Relaxed);
            for level in 0..3 {
                header.caches.sets[level].store(caches.sets[level], Relaxed);
                header.caches.ways[level].store(caches.ways[level], Relaxed);
            }
        }
        header.magic.store(MAGIC, SeqCst);
        Ok(segment)
    }

    /// The value of [`ENVIRONMENT`] for the recorded program. Works for every descendant while this process lives.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// What it was made with.
    pub fn options(&self) -> Options {
        self.options
    }

    /// Every ring that was ever claimed, those that are free again included.
    pub fn rings(&self) -> impl Iterator<Item = Ring<'_>> {
        let used = self.header().rings_used.load(SeqCst).min(self.options.ring_count);
        (0..used).filter_map(|index| self.ring(index))
    }

    /// Every ring that a thread owns or that is still to be released.
    pub fn active_rings(&self) -> impl Iterator<Item = Ring<'_>> {
        self.rings().filter(|ring| ring.state() != RingState::Free)
    }

    /// One ring.
    pub fn ring(&self, index: u32) -> Option<Ring<'_>> {
        if index >= self.options.ring_count {
            return None;
        }
        let words = self.options.ring_bytes as usize / 8;
        let ring = self.rings_offset + index as usize * self.options.stride();
        // SAFETY: `index` is in range, so all lie inside the mapping, which lives as long as `self`; all offsets are
        // multiples of 8; all-atomic types may be written by others at any time.
        let (control, recent, data) = unsafe {
            let controls = self.base.add(PAGE as usize).cast::<RingControl>();
            let recent = self.base.add(ring).cast::<RecentBlock>();
            let data = self.base.add(ring + RING_EXTRA as usize).cast::<AtomicU64>();
            (
                controls.add(index as usize).as_ref(),
                std::slice::from_raw_parts(recent.as_ptr(), RECENT as usize),
                std::slice::from_raw_parts(data.as_ptr(), words),
            )
        };
        Some(Ring { segment: self, index, control, recent, data })
    }

    /// Events dropped because every ring was taken.
    pub fn lost_no_ring(&self) -> u64 {
        self.header().lost_no_ring.load(Relaxed)
    }

    /// Events dropped because their thread could not map its ring.
    pub fn lost_no_map(&self) -> u64 {
        self.header().lost_no_map.load(Relaxed)
    }

    /// Events of threads that could not claim a ring, since their process had put itself under a filter of system calls.
    pub fn lost_filtered(&self) -> u64 {
        self.header().lost_filtered.load(Relaxed)
    }

    /// Processes that forbade themselves what recording needs, and were not recorded from then on.
    pub fn muted(&self) -> u64 {
        self.header().muted.load(Relaxed)
    }

    /// Asks that so many accesses be sent one by one from now on; 0: none any more.
    pub fn trace(&self, accesses: u64) {
        self.header().trace_left.store(i64::try_from(accesses).unwrap_or(i64::MAX), SeqCst);
    }

    /// Whether accesses are still asked for.
    pub fn is_traced(&self) -> bool {
        self.header().trace_left.load(SeqCst) > 0
    }

    /// Tells writers that nobody reads any more: they stop writing, and never wait. Done on drop too.
    pub fn close(&self) {
        self.header().closed.store(1, SeqCst);
    }

    /// The header page.
    pub fn header(&self) -> &SegmentHeader {
        // SAFETY: the mapping begins with a page for the header, lives as long as `self`, and is page-aligned; all
        // fields are atomics, which others may write at any time.
        unsafe { self.base.cast::<SegmentHeader>().as_ref() }
    }

    /// Gives the memory of a ring back to the kernel. A failure only costs memory.
    pub(crate) fn punch(&self, index: u32) {
        let stride = self.options.stride();
        let offset = self.rings_offset + index as usize * stride;
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: a system call on our own descriptor; holes read as zero, which is a valid value of each atomic.
        unsafe {
            libc::fallocate(self.file.as_raw_fd(), mode, offset as libc::off_t, stride as libc::off_t);
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.close();
        // SAFETY: our own mapping; rings borrow the segment, so none is left.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.bytes);
        }
    }
}
