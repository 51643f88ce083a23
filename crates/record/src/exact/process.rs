//! What is known of the processes that are emulated, or should be.

use std::collections::BTreeSet;

use numamma_trace::{LossKind, Losses};
use rustc_hash::{FxHashMap, FxHashSet};

use super::command::EMULATOR;

/// What is known of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Something may be counted that was not sent.
    Counting,
    /// All was sent.
    Sent,
    /// It executes a program of that name, without the emulator as far as known.
    Native(String),
}

/// All that are emulated.
#[derive(Debug, Default)]
pub struct Emulated {
    processes: FxHashMap<i32, State>,
    /// Those that are the emulator.
    emulators: FxHashSet<i32>,
    /// Threads that were started before their process was known to be emulated, and when. Most are the emulator's own; a thread of
    /// the program will be heard of.
    pub started: FxHashMap<i32, i64>,
    /// True if some process was counted by its own hooks.
    pub has_hooks: bool,
    /// The last instruction that the emulator does not know: process and address.
    pub unknown_instruction: Option<(i32, u64)>,
    calls: BTreeSet<u64>,
    cut: u64,
    native: BTreeSet<String>,
    native_count: u64,
}

/// System calls for whose absence libraries are prepared: they use others then.
const OPTIONAL: [u64; 4] =
    [273 /* set_robust_list */, 334 /* rseq */, 435 /* clone3 */, 439 /* faccessat2 */];

impl Emulated {
    pub(super) fn counts(&mut self, pid: i32) {
        self.processes.insert(pid, State::Counting);
    }

    /// True if it is emulated: its threads are the program's from now on.
    pub fn is_counting(&self, pid: i32) -> bool {
        matches!(self.processes.get(&pid), Some(State::Counting | State::Sent))
    }

    pub(super) fn all_sent(&mut self, pid: i32) {
        self.processes.insert(pid, State::Sent);
    }

    pub(super) fn lacks(&mut self, call: u64) {
        if !OPTIONAL.contains(&call) {
            self.calls.insert(call);
        }
    }

    /// A process executes something.
    pub fn executes(&mut self, pid: i32, name: &str) {
        // It has gone over to the emulator before it did anything.
        let goes_over = name == EMULATOR && matches!(self.processes.get(&pid), Some(State::Native(_)));
        if goes_over {
            self.processes.remove(&pid);
        }
        self.ends(pid);
        if name == EMULATOR {
            self.emulators.insert(pid);
        } else {
            self.processes.insert(pid, State::Native(name.to_owned()));
        }
    }

    /// A process forks.
    pub fn forks(&mut self, parent: i32, pid: i32) {
        if self.emulators.contains(&parent) {
            self.emulators.insert(pid);
        }
    }

    /// True if a process is the emulator, and what the kernel tells of it may be its own doing.
    pub fn is_emulator(&self, pid: i32) -> bool {
        self.emulators.contains(&pid)
    }

    /// A process ends.
    pub fn ends(&mut self, pid: i32) {
        self.emulators.remove(&pid);
        match self.processes.remove(&pid) {
            Some(State::Counting) => self.cut += 1,
            Some(State::Native(name)) => {
                self.native.insert(name);
                self.native_count += 1;
            }
            _ => {}
        }
    }

    /// The end of the recording: what is missing, and what the user should know. `failed`: the program has.
    pub fn close(&mut self, losses: &mut Losses, failed: bool) -> Vec<String> {
        let pids: Vec<i32> = self.processes.keys().copied().collect();
        pids.into_iter().for_each(|pid| self.ends(pid));
        losses.add(LossKind::CountsCut, self.cut);
        losses.add(LossKind::NotEmulated, self.native_count);
        let mut remarks = Vec::new();
        if !self.native.is_empty() {
            let names: Vec<&str> = self.native.iter().map(String::as_str).collect();
            remarks
                .push(format!("not counted, for the program executed it: {}; record it by itself", names.join(", ")));
        }
        if failed && !self.calls.is_empty() {
            let calls: Vec<String> = self.calls.iter().map(u64::to_string).collect();
            remarks.push(format!(
                "{EMULATOR} does not have the system calls that the program asked for: {}",
                calls.join(", ")
            ));
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_counted() {
        let mut emulated = Emulated::default();
        // The program itself, which ends well.
        emulated.executes(1, EMULATOR);
        emulated.counts(1);
        emulated.all_sent(1);
        emulated.ends(1);
        // A child that is killed; one that executes something else; one that is emulated after all.
        emulated.counts(2);
        emulated.ends(2);
        emulated.counts(3);
        emulated.all_sent(3);
        emulated.executes(3, "ls");
        emulated.ends(3);
        emulated.executes(4, "sh");
        emulated.executes(4, EMULATOR);
        emulated.counts(4);
        emulated.all_sent(4);
        emulated.lacks(435);
        emulated.lacks(1000);
        let mut losses = Losses::default();
        let remarks = emulated.close(&mut losses, true);
        assert_eq!((losses.get(LossKind::CountsCut), losses.get(LossKind::NotEmulated)), (1, 1));
        assert_eq!(remarks.len(), 2);
        assert!(remarks[0].contains(": ls;") && remarks[1].ends_with(": 1000"), "{remarks:?}");
    }
}
