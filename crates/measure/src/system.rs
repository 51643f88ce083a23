//! The system calls: which CPUs there are for us, running on one of them, the time it has, memory on a node.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// CPUs that a mask has room for.
const CPUS: usize = 1 << 14;
type Mask = [u64; CPUS / 64];

const MPOL_BIND: libc::c_int = 2;
/// Nodes that a mask has room for.
const NODES: usize = 1024;

/// The CPUs that the calling thread may run on, ascending.
pub(crate) fn allowed_cpus() -> io::Result<Vec<u32>> {
    let mut mask: Mask = [0; CPUS / 64];
    // SAFETY: the kernel writes at most as many bytes as it is told there are.
    let bytes = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of::<Mask>(), mask.as_mut_ptr()) };
    if bytes < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((0..CPUS as u32).filter(|&cpu| mask[cpu as usize / 64] >> (cpu % 64) & 1 == 1).collect())
}

/// Lets the calling thread run on one CPU only.
pub(crate) fn run_on(cpu: u32) -> io::Result<()> {
    let mut mask: Mask = [0; CPUS / 64];
    let word = mask.get_mut(cpu as usize / 64).ok_or(io::ErrorKind::InvalidInput)?;
    *word = 1 << (cpu % 64);
    // SAFETY: the kernel reads as many bytes as there are.
    let done = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of::<Mask>(), mask.as_ptr()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Time that the calling thread has run, which the time of others on its CPU is no part of; wall time where the kernel counts the
/// former in ticks only. Only differences within one thread mean something.
pub(crate) fn thread_time() -> Duration {
    static BEGIN: OnceLock<(Instant, bool)> = OnceLock::new();
    let &(begin, is_fine) = BEGIN.get_or_init(|| (Instant::now(), is_fine()));
    if is_fine { cpu_time() } else { begin.elapsed() }
}

/// True if the time advances in small steps.
fn is_fine() -> bool {
    const FINE: Duration = Duration::from_micros(20);
    (0..8).all(|_| {
        let (begin, wall) = (cpu_time(), Instant::now());
        while cpu_time() == begin && wall.elapsed() < FINE * 10 {}
        let step = cpu_time().saturating_sub(begin);
        !step.is_zero() && step < FINE
    })
}

fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the structure that it is given.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    if done != 0 {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Memory of one node, as words that are all zero.
pub(crate) struct Region {
    base: *mut libc::c_void,
    mapped: usize,
    start: *mut u64,
    words: usize,
}

// SAFETY: a region is memory of its own, reached only through references to it.
unsafe impl Send for Region {}
// SAFETY: see above; a shared region is only read.
unsafe impl Sync for Region {}

impl Region {
    /// Takes `bytes` of memory from `node` and nowhere else, with huge pages where the kernel gives them.
    pub(crate) fn on_node(bytes: usize, node: u32, huge_page: usize) -> io::Result<Self> {
        let huge_page = huge_page.max(1 << 12);
        let words = (bytes / size_of::<u64>()).max(512);
        let mapped = words * size_of::<u64>() + huge_page;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping wherever the kernel has room.
        let base = unsafe { libc::mmap(ptr::null_mut(), mapped, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = base.map_addr(|address| address.next_multiple_of(huge_page)).cast::<u64>();
        let mut region = Self { base, mapped, start, words };
        region.bind(node)?;
        // SAFETY: the range is the mapping just made. That the kernel has no huge pages is no failure.
        unsafe { libc::madvise(base, mapped, libc::MADV_HUGEPAGE) };
        region.iter_mut().step_by(512).for_each(|word| *word = 0);
        Ok(region)
    }

    fn bind(&self, node: u32) -> io::Result<()> {
        let mut nodes = [0u64; NODES / 64];
        *nodes.get_mut(node as usize / 64).ok_or(io::ErrorKind::InvalidInput)? = 1 << (node % 64);
        let (mask, bits) = (nodes.as_ptr(), NODES + 1);
        // SAFETY: the range is a mapping of ours; the kernel reads as many bits of the mask as there are (one less than told).
        let done = unsafe { libc::syscall(libc::SYS_mbind, self.base, self.mapped, MPOL_BIND, mask, bits, 0) };
        if done == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // Without nodes, or where a sandbox forbids the call, all memory of the only node is right.
        let refused = matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM));
        if refused && node == 0 && only_node() { Ok(()) } else { Err(error) }
    }
}

/// True if the kernel knows no second node.
fn only_node() -> bool {
    !std::path::Path::new("/sys/devices/system/node/node1").exists()
}

impl Deref for Region {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        // SAFETY: the mapping holds this many words from `start` on, zero or written through `deref_mut`.
        unsafe { std::slice::from_raw_parts(self.start, self.words) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above; the region is borrowed by nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.words) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives the region.
        unsafe { libc::munmap(self.base, self.mapped) };
    }
}

/// Runs `work` in a thread of its own on `cpu`; `None` if it cannot run there (any more).
pub(crate) fn on_cpu<T: Send>(cpu: u32, work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| run_on(cpu).ok().map(|()| deep(work)));
        thread.join().ok().flatten()
    })
}

/// Runs `work` on a part of the stack that nobody has used: its pages are then on this CPU's node.
#[inline(never)]
pub(crate) fn deep<T>(work: impl FnOnce() -> T) -> T {
    let unused = [0u8; 32 << 10];
    std::hint::black_box(&unused);
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_ours() {
        let mut region = Region::on_node(1 << 20, 0, 2 << 20).unwrap();
        assert_eq!(region.len(), 1 << 17);
        assert_eq!(region.as_ptr().addr() % (2 << 20), 0);
        assert!(region.iter().all(|&word| word == 0));
        region.fill(7);
        assert_eq!(region.iter().sum::<u64>(), 7 << 17);
        assert!(Region::on_node(1 << 20, 100_000, 0).is_err());
        assert!(Region::on_node(1 << 20, 1000, 0).is_err());
    }

    #[test]
    fn time_passes() {
        let begin = thread_time();
        let wall = Instant::now();
        while wall.elapsed() < Duration::from_millis(20) {
            std::hint::black_box(0);
        }
        let took = thread_time() - begin;
        assert!(!took.is_zero() && took <= wall.elapsed() + Duration::from_millis(5), "{took:?}");
    }

    #[test]
    fn threads_run_where_they_may() {
        let cpus = allowed_cpus().unwrap();
        assert!(!cpus.is_empty());
        for &cpu in &cpus {
            assert_eq!(on_cpu(cpu, || allowed_cpus().unwrap()), Some(vec![cpu]));
        }
        assert_eq!(on_cpu(16_000, || ()), None);
        assert_eq!(on_cpu(u32::MAX, || ()), None);
        assert_eq!(allowed_cpus().unwrap(), cpus);
    }
}
