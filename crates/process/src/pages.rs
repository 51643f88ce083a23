//! The node of each page (`move_pages` with nothing to move), and pages that are moved.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Pages per call: 77-85 ns a page in sorted batches of this size, 458 ns one by one.
const BATCH: usize = 4096;

/// Asks where `pages` (sorted addresses) of process `pid` lie and calls `each(page, node)` for those that are anywhere.
///
/// # Errors
/// If the process is gone or may not be asked about.
pub fn query(pid: i32, pages: &[u64], mut each: impl FnMut(u64, i32)) -> io::Result<()> {
    let mut status = vec![0_i32; BATCH.min(pages.len())];
    for batch in pages.chunks(BATCH) {
        // SAFETY: `batch` holds that many addresses and `status` has room for as many answers; with a null node list
        // nothing is moved.
        let done = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                pid,
                batch.len(),
                batch.as_ptr(),
                std::ptr::null::<i32>(),
                status.as_mut_ptr(),
                0,
            )
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        for (&page, &node) in batch.iter().zip(&status) {
            // Negative: -ENOENT for a page that is not there (any more), -EFAULT for one that cannot be.
            if node >= 0 {
                each(page, node);
            }
        }
    }
    Ok(())
}

/// Moves pages (sorted addresses) of process `pid` to nodes. What cannot be moved stays.
///
/// # Errors
/// If the process is gone, may not be touched, or may not use one of the nodes.
pub fn move_pages(pid: i32, moves: &[(u64, i32)]) -> io::Result<()> {
    const MOVE: i32 = 2;
    for batch in moves.chunks(BATCH) {
        let (pages, nodes): (Vec<u64>, Vec<i32>) = batch.iter().copied().unzip();
        let mut status = vec![0_i32; batch.len()];
        // SAFETY: three live arrays of that length; the kernel reads the first two and writes the third.
        let done = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                pid,
                batch.len(),
                pages.as_ptr(),
                nodes.as_ptr(),
                status.as_mut_ptr(),
                MOVE,
            )
        };
        // Positive: so many could not be moved.
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Breaks up the huge pages of process `pid` that these pages are in, so that their parts can be moved: a huge page moves as a whole. To
/// say of a part that it is not used soon makes the kernel do so. Where it does not (before Linux 5.10, or without CAP_SYS_NICE), they
/// stay huge.
pub fn break_up(pid: i32, pages: &[u64]) {
    const MADV_COLD: i32 = 20;
    /// Ranges per call (`UIO_MAXIOV`).
    const RANGES: usize = 1024;
    // SAFETY: takes two integers.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if process < 0 {
        return;
    }
    // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
    let process = unsafe { OwnedFd::from_raw_fd(process as i32) };
    let mut rest = pages;
    while !rest.is_empty() {
        let batch = &rest[..rest.len().min(RANGES)];
        let range = |&page: &u64| libc::iovec { iov_base: page as *mut libc::c_void, iov_len: 4096 };
        let ranges: Vec<libc::iovec> = batch.iter().map(range).collect();
        // SAFETY: a live array of that length; the addresses in it are the other process's.
        let done = unsafe {
            libc::syscall(libc::SYS_process_madvise, process.as_raw_fd(), ranges.as_ptr(), ranges.len(), MADV_COLD, 0)
        };
        // It stops at the first that is not there.
        let done = usize::try_from(done).unwrap_or(0) / 4096;
        rest = &rest[(done + usize::from(done < batch.len())).min(rest.len())..];
    }
}
