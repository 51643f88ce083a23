//! What a trace window saw becomes rows of the dataset: at the objects that are there at that moment.

use numamma_trace::{Access, PartSampleRow, Rule};

use super::survey::Stretch;
use super::{Shared, TraceWindow};
use crate::clock::code::CodeSite;
use crate::clock::counts::Instruction;
use crate::collect::now;
use crate::objects::is_ours;
use crate::session::Session;
use crate::tasks::ProcessId;

/// Code where no function is known is told apart by pages.
const CODE_PAGE: u64 = 4096;
/// Threads without a sample for so long are not looked at, nanoseconds.
const LATELY: i64 = 1_000_000_000;

impl Session {
    /// The stretch of code that an address is in, and the instruction, if its function is known.
    pub(crate) fn find_stretch(&mut self, process: ProcessId, ip: u64) -> (usize, Option<Instruction>) {
        if let Some(known) = self.survey.known(process, ip) {
            return known;
        }
        let place = self.place(process, ip);
        let found = place.and_then(|place| self.code.site(&mut self.modules, place));
        let (stretch, instruction) = match found {
            Some(CodeSite { function, index, innermost }) => {
                (Stretch::Function(function, innermost), index.map(|index| (function, index)))
            }
            None => (Stretch::Page(process, ip / CODE_PAGE), None),
        };
        // What our own library does for the recording is not the program's.
        let own = place.is_some_and(|(path, _)| is_ours(self.modules.path(path)));
        let number = self.survey.stretch(stretch, own);
        self.survey.learn(process, ip, (number, instruction));
        (number, instruction)
    }

    /// Says which threads have run lately; `first`: that of the program while this runs, whose first samples come later than it does.
    pub(crate) fn offer_threads(&mut self, trace_windows: &Shared, first: Option<(i32, i32)>) {
        let now = now();
        self.recent.retain(|_, &mut last| last > now - LATELY);
        let known = self.recent.keys().copied();
        let first = first.filter(|_| self.survey.has_no_samples());
        trace_windows.set_threads(known.chain(first).filter(|_| self.window.contains(now)));
    }

    /// Applies a trace window.
    pub(crate) fn trace_window(&mut self, time: i64, pid: i32, tid: i32, cpu: i32, trace_window: &TraceWindow) {
        if !self.window.contains(time) {
            return;
        }
        let thread = self.tasks.thread(pid, tid, time);
        let process = self.tasks.process_of(thread);
        if !self.is_wanted(process) {
            return;
        }
        self.find_stretch(process, trace_window.ip);
        for ip in trace_window.instructions.iter().map(|(ip, _)| *ip).chain(trace_window.timed.map(|of| of.ip)) {
            self.find_stretch(process, ip);
        }
        let Some(number) = self.survey.add(process, thread as i32, trace_window) else { return };
        for seen in &trace_window.accesses {
            if self.survey.is_own(process, seen.ip) {
                continue;
            }
            let access = if seen.write { Access::Write } else { Access::Read };
            if self.only.is_some_and(|only| only != access) {
                continue;
            }
            let (touched, _) = self.touch(process, thread, seen.addr, time);
            let Some(site) = self.judge(process, seen.addr, touched, false) else { continue };
            let owner = self.owner_number(process, touched);
            let place = self.place(process, seen.ip);
            self.code_places.note(process, seen.ip, place);
            self.sink.samples.push(PartSampleRow {
                time,
                thread: thread as i32,
                cpu,
                ip: seen.ip as i64,
                addr: seen.addr as i64,
                bytes: seen.bytes as i32,
                access: access as i32,
                rule: Rule::TraceWindow as i32,
                cost: 0,
                accesses: seen.count as f32,
                // There are few; they stay when samples are thinned, and weigh the same.
                survives: i32::MAX,
                thinned: i32::MAX,
                site,
                trace_window: number as i32,
                owner,
            });
        }
    }
}
