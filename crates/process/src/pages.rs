//! The node of each page: `move_pages` with nothing to move.

use std::io;

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
