//! The node of each page: `move_pages` with nothing to move.

use std::io;

use numamma_trace::{LossKind, PageNodeRow};

use crate::session::Session;
use crate::tasks::ProcessId;

/// Pages per call: 77-85 ns a page in sorted batches of this size, 458 ns one by one (FACTS 3).
const BATCH: usize = 4096;

impl Session {
    /// Asks where the pages lie that have been touched since the last question.
    pub(crate) fn ask_nodes(&mut self, time: i64) {
        for (process, pages) in std::mem::take(&mut self.pages) {
            if !self.tasks.is_present(process) {
                continue;
            }
            let mut pages: Vec<u64> = pages.into_iter().collect();
            pages.sort_unstable();
            let pid = self.tasks.processes[process].row.pid;
            let (rows, known) = (&mut self.sink.page_nodes, self.page_nodes.of(process));
            let asked = query(pid, &pages, |page, node| {
                if known.insert(page, node) != Some(node) {
                    rows.push(PageNodeRow { process: process as i32, page: page as i64, node, time });
                }
            });
            // The process may end at any moment.
            if asked.is_err() {
                self.nobody_to_ask(process, pages.into_iter());
            }
        }
    }

    /// A process has ended: nothing can be asked of it any more.
    pub(crate) fn forget_pages(&mut self, process: ProcessId) {
        let pages = self.pages.remove(&process).unwrap_or_default();
        self.nobody_to_ask(process, pages.into_iter());
        *self.page_nodes.of(process) = Default::default();
    }

    fn nobody_to_ask(&mut self, process: ProcessId, pages: impl Iterator<Item = u64>) {
        if self.several_nodes {
            let known = self.page_nodes.of(process);
            let unknown = pages.filter(|page| !known.contains_key(page)).count();
            self.losses.add(LossKind::PageNodes, unknown as u64);
        }
    }
}

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

#[cfg(test)]
mod tests {
    use numamma_trace::DatasetWriter;

    use super::*;
    use crate::perf::decode::Record;
    use crate::sink::Sink;

    #[test]
    fn pages_that_nobody_was_asked_about_are_counted() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let writer = DatasetWriter::create(&place.path().join("dataset"), false).expect("a new folder");
        let mut session = Session::new(Sink::new(writer), 1, 4096);
        session.several_nodes = true;
        let own = std::process::id() as i32;
        let process = session.tasks.process(own, 0);
        let page = (&raw const place) as u64 & !4095;
        session.pages.entry(process).or_default().insert(page);
        session.ask_nodes(1);
        assert_eq!(session.sink.page_nodes.len(), 1, "a page of our own stack lies somewhere");

        // One that is known, and two that are not.
        session.pages.entry(process).or_default().extend([page, page + 4096, page + 8192]);
        session.record(Record::Exit { time: 2, pid: own, tid: own });
        assert_eq!(session.losses.get(LossKind::PageNodes), 2);
    }
}
