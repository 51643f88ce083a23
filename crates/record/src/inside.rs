//! Threads that are inside a function that was named.
//!
//! Each entry is known by the stack pointer, which a return has again, whatever was called meanwhile:
//!
//! ```text
//!   stack   ^  caller            entry of f: sp            at a return of f: sp again
//!           |  ---- sp (return address)
//!           v  frame of f, and of all that it calls: below sp
//! ```
//!
//! A return may come to nothing here: an exception passes, `longjmp`, a record was dropped. But a thread whose stack pointer
//! stands above an entry's has left it, and so has one that entered another function at that very place of the stack. That is
//! seen at its next entry, return or sample, and counted. Until then it seems to be inside.

use rustc_hash::FxHashMap;

use crate::tasks::ThreadId;

/// An entry whose return has not come.
#[derive(Clone, Copy, Debug)]
struct Entry {
    function: u16,
    pointer: u64,
    /// End of the stack that it is on: the thread may go on on another one (coroutines, signal stacks).
    stack_high: u64,
}

/// The threads that are inside.
#[derive(Debug)]
pub struct Inside {
    threads: FxHashMap<ThreadId, Vec<Entry>>,
    /// True if each function was ever entered.
    entered: Vec<bool>,
    /// Entries that were left with no return seen.
    pub left_unseen: u64,
}

impl Inside {
    /// Nobody is inside any of that many functions.
    pub fn new(functions: usize) -> Self {
        Self { threads: FxHashMap::default(), entered: vec![false; functions], left_unseen: 0 }
    }

    /// A thread enters a function, on a stack that ends at `stack_high`.
    pub fn enter(&mut self, thread: ThreadId, function: u16, pointer: u64, stack_high: u64) {
        if let Some(entered) = self.entered.get_mut(usize::from(function)) {
            *entered = true;
        }
        let entries = self.threads.entry(thread).or_default();
        // A function that another one ends with (a tail call) has the same stack pointer; the same function cannot.
        let gone = |entry: &Entry| has_left(entry, pointer) || (entry.pointer, entry.function) == (pointer, function);
        let before = entries.len();
        entries.retain(|entry| !gone(entry));
        self.left_unseen += (before - entries.len()) as u64;
        entries.push(Entry { function, pointer, stack_high });
    }

    /// A thread returns from a function, its stack pointer being where it was on entry.
    pub fn leave(&mut self, thread: ThreadId, function: u16, pointer: u64) {
        let Some(entries) = self.threads.get_mut(&thread) else { return };
        let is_it = |entry: &Entry| (entry.function, entry.pointer) == (function, pointer);
        let Some(at) = entries.iter().rposition(is_it) else { return };
        let inner = entries.drain(at..).skip(1).filter(|entry| entry.pointer != pointer).count();
        self.left_unseen += inner as u64;
        if entries.is_empty() {
            self.threads.remove(&thread);
        }
    }

    /// True if a thread was ever inside and has not left: if not, [`Self::is_inside`] need not be asked.
    pub fn may_be_inside(&self, thread: ThreadId) -> bool {
        self.threads.contains_key(&thread)
    }

    /// True if a thread is inside any of the functions. `pointer`: its stack pointer when it entered the function that it is
    /// in, or, where that is not known, now. `is_in` says whether it is in one of the functions itself.
    pub fn is_inside(&mut self, thread: ThreadId, pointer: u64, is_in: impl Fn(u16) -> bool) -> bool {
        let Some(entries) = self.threads.get_mut(&thread) else { return false };
        let before = entries.len();
        // Where the function was entered another one has been entered since.
        let replaced = |entry: &Entry| entry.pointer == pointer && !is_in(entry.function);
        entries.retain(|entry| !has_left(entry, pointer) && !replaced(entry));
        self.left_unseen += (before - entries.len()) as u64;
        if entries.is_empty() {
            self.threads.remove(&thread);
            return false;
        }
        true
    }

    /// The first thread of a forked process goes on where the thread that forked it is.
    pub fn fork(&mut self, from: ThreadId, to: ThreadId) {
        if let Some(entries) = self.threads.get(&from).cloned() {
            self.threads.insert(to, entries);
        }
    }

    /// A thread ended, or became another program.
    pub fn end(&mut self, thread: ThreadId) {
        self.threads.remove(&thread);
    }

    /// Functions that no thread entered, by number.
    pub fn never_entered(&self) -> impl Iterator<Item = usize> {
        self.entered.iter().enumerate().filter_map(|(function, entered)| (!entered).then_some(function))
    }
}

/// True if a thread whose stack pointer is `pointer` has left an entry behind.
fn has_left(entry: &Entry, pointer: u64) -> bool {
    pointer > entry.pointer && pointer < entry.stack_high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// End of the threads' stacks.
    const HIGH: u64 = 0x1000;
    const F: u16 = 0;
    const G: u16 = 1;

    /// Asks while the thread is in a function that it called, or that comes later.
    fn in_callee(inside: &mut Inside, thread: ThreadId, pointer: u64) -> bool {
        inside.is_inside(thread, pointer, |_| false)
    }

    #[test]
    fn what_is_called_next_takes_the_place_on_the_stack() {
        let mut inside = Inside::new(1);
        inside.enter(1, F, 0x900, HIGH);
        assert!(inside.is_inside(1, 0x900, |function| function == F), "it is in the function itself");
        assert!(!in_callee(&mut inside, 1, 0x900) && !inside.may_be_inside(1));
        assert_eq!(inside.left_unseen, 1);
    }

    #[test]
    fn a_thread_is_inside_from_entry_to_return() {
        let mut inside = Inside::new(2);
        assert!(!in_callee(&mut inside, 1, 0x900));
        inside.enter(1, F, 0x900, HIGH);
        assert!(in_callee(&mut inside, 1, 0x880) && !in_callee(&mut inside, 2, 0x880));
        inside.leave(1, F, 0x900);
        assert!(!in_callee(&mut inside, 1, 0x700), "what is called next is not inside");
        assert_eq!((inside.left_unseen, inside.never_entered().collect::<Vec<_>>()), (0, vec![1]));
    }

    #[test]
    fn a_recursive_function_is_left_by_its_outermost_return() {
        let mut inside = Inside::new(1);
        for pointer in [0x900, 0x800, 0x700] {
            inside.enter(1, F, pointer, HIGH);
        }
        inside.leave(1, F, 0x700);
        inside.leave(1, F, 0x800);
        assert!(in_callee(&mut inside, 1, 0x880));
        inside.leave(1, F, 0x900);
        assert!(!in_callee(&mut inside, 1, 0x880));
        assert_eq!(inside.left_unseen, 0);
    }

    #[test]
    fn a_function_that_ends_with_another_one_hands_over() {
        let mut inside = Inside::new(2);
        inside.enter(1, F, 0x900, HIGH);
        // The jump is a return of f, and an entry of g.
        inside.leave(1, F, 0x900);
        inside.enter(1, G, 0x900, HIGH);
        assert!(in_callee(&mut inside, 1, 0x880));
        inside.leave(1, G, 0x900);
        assert!(!in_callee(&mut inside, 1, 0x880));
        assert_eq!(inside.left_unseen, 0);
    }

    #[test]
    fn who_jumps_out_is_found_out_and_counted() {
        let mut inside = Inside::new(2);
        inside.enter(1, F, 0x900, HIGH);
        inside.enter(1, G, 0x800, HIGH);
        assert!(!in_callee(&mut inside, 1, 0x980), "its stack shows that it left both");
        assert_eq!(inside.left_unseen, 2);
        // Over g alone: f still returns.
        inside.enter(1, F, 0x900, HIGH);
        inside.enter(1, G, 0x800, HIGH);
        inside.leave(1, F, 0x900);
        assert!(!in_callee(&mut inside, 1, 0x700));
        assert_eq!(inside.left_unseen, 3);
        // The same call again and again, jumped out of each time.
        for _ in 0..5 {
            inside.enter(1, F, 0x900, HIGH);
        }
        assert_eq!((inside.left_unseen, inside.threads[&1].len()), (7, 1));
    }

    #[test]
    fn a_signal_handler_on_a_stack_of_its_own_is_inside() {
        let mut inside = Inside::new(1);
        inside.enter(1, F, 0x900, HIGH);
        assert!(in_callee(&mut inside, 1, 0x2000) && in_callee(&mut inside, 1, 0x7fff_0000_0000));
        assert_eq!(inside.left_unseen, 0);
    }

    #[test]
    fn a_forked_process_goes_on_where_it_was() {
        let mut inside = Inside::new(1);
        inside.enter(1, F, 0x900, HIGH);
        inside.fork(1, 2);
        inside.end(1);
        assert!(in_callee(&mut inside, 2, 0x880) && !in_callee(&mut inside, 1, 0x880));
    }
}
