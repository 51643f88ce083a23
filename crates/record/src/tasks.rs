//! Threads and processes of the recording, numbered in the order in which they appear.

use std::collections::BTreeMap;

use numamma_trace::{ProcessRow, ThreadRow};
use rustc_hash::FxHashMap;

use crate::space::Space;

/// Number of a thread in the dataset.
pub type ThreadId = usize;
/// Number of a process (one address space: an exec begins a new one) in the dataset.
pub type ProcessId = usize;

/// Something that each process has its own of: what a process ends with costs what it has, not what all have.
#[derive(Debug, Default)]
pub struct PerProcess<T>(Vec<T>);

impl<T: Default> PerProcess<T> {
    /// That of a process.
    pub fn of(&mut self, process: ProcessId) -> &mut T {
        if self.0.len() <= process {
            self.0.resize_with(process + 1, T::default);
        }
        &mut self.0[process]
    }

    /// That of a process, if it was ever asked for.
    pub fn get(&self, process: ProcessId) -> Option<&T> {
        self.0.get(process)
    }
}

/// A thread.
#[derive(Debug)]
pub struct Thread {
    pub row: ThreadRow,
    /// The thread pointer, if the library reported it.
    pub pointer: Option<u64>,
    /// When its thread-local storage began to be its own: before, the thread that made it has zeroed it.
    pub tls_since: i64,
    /// Lowest stack address seen in use.
    pub stack_touched: u64,
    /// True if the clock ever found it running, also where samples are not kept.
    pub seen: bool,
}

/// A process.
#[derive(Debug)]
pub struct Process {
    pub row: ProcessRow,
    pub space: Space,
    /// It was executed under another user than ours, so its library could not open the segment.
    pub is_other_users: bool,
    /// Time when a library was closed last; 0 if none was.
    pub closed: i64,
    /// First thread.
    pub main: ThreadId,
    /// Threads that have not ended.
    pub alive: usize,
    /// Stacks of its threads, by their ends.
    stacks: BTreeMap<u64, ThreadId>,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Tasks {
    pub threads: Vec<Thread>,
    pub processes: Vec<Process>,
    thread_of: FxHashMap<i32, ThreadId>,
    process_of: FxHashMap<i32, ProcessId>,
    /// The last process that ended, by kernel id.
    ended: FxHashMap<i32, ProcessId>,
}

impl Tasks {
    /// The present process with that kernel id; created if the kernel's record of its start was lost.
    pub fn process(&mut self, pid: i32, time: i64) -> ProcessId {
        match self.process_of.get(&pid) {
            Some(&process) => process,
            None => self.start_process(pid, 0, Space::default(), String::new(), time),
        }
    }

    /// The present process with that kernel id, if there is one.
    pub fn present(&self, pid: i32) -> Option<ProcessId> {
        self.process_of.get(&pid).copied()
    }

    /// The process with that kernel id, or the last that had it.
    pub fn latest(&self, pid: i32) -> Option<ProcessId> {
        self.present(pid).or_else(|| self.ended.get(&pid).copied())
    }

    /// The process that had that kernel id at `time`, the present one or the one before.
    pub fn at(&self, pid: i32, time: i64) -> Option<ProcessId> {
        let had_begun = |&process: &ProcessId| self.processes[process].row.start_time <= time;
        self.present(pid).filter(had_begun).or_else(|| self.ended.get(&pid).copied().filter(had_begun))
    }

    /// The present thread with that kernel id; created if unknown.
    pub fn thread(&mut self, pid: i32, tid: i32, time: i64) -> ThreadId {
        let process = self.process(pid, time);
        match self.thread_of.get(&tid) {
            Some(&thread) if self.threads[thread].row.process as ProcessId == process => thread,
            _ => self.start_thread(pid, tid, time),
        }
    }

    /// A thread that is known already.
    pub fn known_thread(&self, tid: i32) -> Option<ThreadId> {
        self.thread_of.get(&tid).copied()
    }

    /// The process of a thread.
    pub fn process_of(&self, thread: ThreadId) -> ProcessId {
        self.threads[thread].row.process as ProcessId
    }

    /// A new process with its first thread.
    pub fn start_process(&mut self, pid: i32, parent: i32, space: Space, command: String, time: i64) -> ProcessId {
        let process = self.processes.len();
        self.processes.push(Process {
            row: ProcessRow {
                process: process as i32,
                pid,
                parent,
                command,
                start_time: time,
                end_time: i64::MAX,
                tracked: 0,
                samples: 0,
            },
            space,
            is_other_users: false,
            closed: 0,
            main: self.threads.len(),
            alive: 0,
            stacks: BTreeMap::new(),
        });
        self.process_of.insert(pid, process);
        self.start_thread(pid, pid, time);
        process
    }

    /// A new thread of a process.
    pub fn start_thread(&mut self, pid: i32, tid: i32, time: i64) -> ThreadId {
        let process = self.process(pid, time);
        // Creating the process may have created this very thread.
        if let Some(&thread) = self.thread_of.get(&tid)
            && self.threads[thread].row.process as ProcessId == process
            && self.threads[thread].row.end_time == i64::MAX
            && tid == pid
        {
            return thread;
        }
        let thread = self.threads.len();
        let name = self.threads.get(self.processes[process].main).map_or(String::new(), |t| t.row.name.clone());
        self.threads.push(Thread {
            row: ThreadRow {
                thread: thread as i32,
                process: process as i32,
                pid,
                tid,
                name,
                start_time: time,
                end_time: i64::MAX,
                stack_low: 0,
                stack_high: 0,
                tls_low: 0,
                tls_high: 0,
                samples: 0,
            },
            pointer: None,
            tls_since: i64::MAX,
            stack_touched: u64::MAX,
            seen: false,
        });
        self.processes[process].alive += 1;
        if let Some(old) = self.thread_of.insert(tid, thread) {
            // The kernel has given its id away, so it has ended unseen.
            self.end(old, time);
        }
        thread
    }

    fn end(&mut self, thread: ThreadId, time: i64) {
        let row = &mut self.threads[thread].row;
        if row.end_time != i64::MAX {
            return;
        }
        row.end_time = time;
        let of = &mut self.processes[row.process as ProcessId];
        of.alive -= 1;
        if of.stacks.get(&(row.stack_high as u64)) == Some(&thread) {
            of.stacks.remove(&(row.stack_high as u64));
        }
    }

    /// Notes where a thread's stack lies. Of two threads with one stack the later one has it.
    pub fn set_stack(&mut self, thread: ThreadId, low: u64, high: u64) {
        let row = &mut self.threads[thread].row;
        let of = &mut self.processes[row.process as ProcessId];
        if of.stacks.get(&(row.stack_high as u64)) == Some(&thread) {
            of.stacks.remove(&(row.stack_high as u64));
        }
        (row.stack_low, row.stack_high) = (low as i64, high as i64);
        if low != 0 && row.end_time == i64::MAX {
            of.stacks.insert(high, thread);
        }
    }

    /// First address of the next stack of a process above `addr`.
    pub fn stack_above(&self, process: ProcessId, addr: u64) -> Option<u64> {
        let above = self.processes[process].stacks.range(addr.checked_add(1)?..);
        above.map(|(_, &thread)| self.threads[thread].row.stack_low as u64).find(|&low| low > addr)
    }

    /// The thread of a process whose stack holds `addr`.
    pub fn stack_at(&self, process: ProcessId, addr: u64) -> Option<ThreadId> {
        let (_, &thread) = self.processes[process].stacks.range(addr.checked_add(1)?..).next()?;
        (self.threads[thread].row.stack_low as u64 <= addr).then_some(thread)
    }

    /// A thread ended. Returns it.
    pub fn end_thread(&mut self, tid: i32, time: i64) -> Option<ThreadId> {
        let thread = self.thread_of.remove(&tid)?;
        self.end(thread, time);
        Some(thread)
    }

    /// The process with that kernel id is gone (or has become another by exec). Returns it.
    pub fn end_process(&mut self, pid: i32, time: i64) -> Option<ProcessId> {
        let process = self.process_of.remove(&pid)?;
        self.ended.insert(pid, process);
        self.processes[process].row.end_time = time;
        // Its threads came after its first.
        let mut thread = self.processes[process].main;
        while self.processes[process].alive > 0 && thread < self.threads.len() {
            if self.process_of(thread) == process {
                self.end(thread, time);
            }
            thread += 1;
        }
        Some(process)
    }

    /// True if any process still runs.
    pub fn are_present(&self) -> bool {
        !self.process_of.is_empty()
    }

    /// True if a process is the present one of its kernel id.
    pub fn is_present(&self, process: ProcessId) -> bool {
        self.process_of.get(&self.processes[process].row.pid) == Some(&process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process with a first thread and one for each of `tids`.
    fn process(tids: std::ops::Range<i32>) -> (Tasks, ProcessId) {
        let mut tasks = Tasks::default();
        let process = tasks.start_process(1, 0, Space::default(), String::new(), 0);
        tids.for_each(|tid| {
            tasks.start_thread(1, tid, 0);
        });
        (tasks, process)
    }

    #[test]
    fn a_stack_belongs_to_the_thread_that_has_it_now() {
        let (mut tasks, process) = process(2..4);
        tasks.set_stack(1, 0x1000, 0x3000);
        tasks.set_stack(2, 0x4000, 0x6000);
        assert_eq!(tasks.stack_at(process, 0x2fff), Some(1));
        assert_eq!(tasks.stack_at(process, 0x3000), None);
        assert_eq!(tasks.stack_at(process, 0x4000), Some(2));
        // The C library gives the stack of a thread that has ended to the next one.
        tasks.end_thread(2, 1);
        assert_eq!(tasks.stack_at(process, 0x2000), None);
        let next = tasks.start_thread(1, 4, 2);
        tasks.set_stack(next, 0x1000, 0x3000);
        assert_eq!(tasks.stack_at(process, 0x2000), Some(next));
    }

    #[test]
    fn a_process_knows_how_many_of_its_threads_live() {
        let (mut tasks, process) = process(2..5);
        assert_eq!(tasks.processes[process].alive, 4);
        tasks.end_thread(3, 1);
        // Thread 4 ended unseen: its id is another's now.
        tasks.start_thread(1, 4, 2);
        assert_eq!(tasks.processes[process].alive, 3);
        assert_eq!(tasks.threads[3].row.end_time, 2);
        tasks.end_process(1, 5);
        assert_eq!(tasks.processes[process].alive, 0);
        assert!(tasks.threads.iter().all(|thread| thread.row.end_time <= 5));
    }
}
