//! The node of each page: `move_pages` with nothing to move.

use numamma_trace::{LossKind, PageNodeRow};

use numamma_process::query;

use crate::session::Session;
use crate::tasks::ProcessId;

/// Pages of one question: it takes some milliseconds.
const MOST: usize = 1 << 14;

impl Session {
    /// Asks where the pages lie that have been touched since the last question.
    pub(crate) fn ask_nodes(&mut self, time: i64) {
        for (process, pages) in std::mem::take(&mut self.pages) {
            if !self.tasks.is_present(process) {
                continue;
            }
            let mut pages: Vec<u64> = pages.into_iter().collect();
            pages.sort_unstable();
            if pages.len() > MOST {
                self.pages.insert(process, pages.split_off(MOST).into_iter().collect());
            }
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
