//! Threads and processes of the recording, numbered in the order in which they appear.

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
    /// Lowest stack address seen in use.
    pub stack_touched: u64,
}

/// A process.
#[derive(Debug)]
pub struct Process {
    pub row: ProcessRow,
    pub space: Space,
    /// Time when a library was closed last; 0 if none was.
    pub closed: i64,
    /// First thread.
    pub main: ThreadId,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Tasks {
    pub threads: Vec<Thread>,
    pub processes: Vec<Process>,
    thread_of: FxHashMap<i32, ThreadId>,
    process_of: FxHashMap<i32, ProcessId>,
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
            closed: 0,
            main: self.threads.len(),
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
            stack_touched: u64::MAX,
        });
        self.thread_of.insert(tid, thread);
        thread
    }

    /// A thread ended. Returns it.
    pub fn end_thread(&mut self, tid: i32, time: i64) -> Option<ThreadId> {
        let thread = self.thread_of.remove(&tid)?;
        self.threads[thread].row.end_time = time;
        Some(thread)
    }

    /// The process with that kernel id is gone (or has become another by exec). Returns it.
    pub fn end_process(&mut self, pid: i32, time: i64) -> Option<ProcessId> {
        let process = self.process_of.remove(&pid)?;
        self.processes[process].row.end_time = time;
        // Its threads came after its first.
        for thread in &mut self.threads[self.processes[process].main..] {
            if thread.row.process as ProcessId == process && thread.row.end_time == i64::MAX {
                thread.row.end_time = time;
            }
        }
        Some(process)
    }

    /// Whether a process is the present one of its kernel id.
    pub fn is_present(&self, process: ProcessId) -> bool {
        self.process_of.get(&self.processes[process].row.pid) == Some(&process)
    }
}
