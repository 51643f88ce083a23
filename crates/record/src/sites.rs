//! Call stacks that allocated, and what each of them allocated.

use rustc_hash::FxHashMap;

use crate::frame_tree::{FrameTree, StackId};
use crate::space::mappings::PathId;
use crate::tasks::{PerProcess, ProcessId};

/// A file, and an address in the file's own address space.
pub type Image = (PathId, u64);

/// A return address, found again in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Run-time address.
    pub ip: u64,
    /// Where it is in a file, if one holds it.
    pub image: Option<Image>,
}

/// Kinds of objects that sites make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SiteKind {
    Heap,
    Mmap,
}

impl Place {
    /// An address inside the call that returns here.
    pub fn call(&self) -> u64 {
        self.ip.wrapping_sub(1)
    }
}

/// A call stack.
#[derive(Debug)]
pub struct Stack {
    pub process: ProcessId,
    pub kind: SiteKind,
    /// Hash under which the library sent it; 0 for "unknown".
    pub hash: u64,
}

/// What a call stack allocated. It is booked there for each event: a cache line of its own, and no more.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Account {
    pub count: u64,
    pub bytes: u64,
    pub freed: u64,
    live_bytes: u64,
    pub peak_bytes: u64,
    /// Of what was released; without meaning while `freed` is 0.
    pub lifetimes: Lifetimes,
}

/// How long objects lived, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    pub shortest: i64,
    pub longest: i64,
    pub total: i64,
}

/// Numbers of a process's stacks by their hashes. One table for each kind: it is asked for each allocation, and the smaller,
/// the more of it is in the processor's caches.
#[derive(Debug, Default)]
struct Index {
    heap: FxHashMap<u64, u32>,
    mmap: FxHashMap<u64, u32>,
}

/// All call stacks of a recording.
#[derive(Debug, Default)]
pub struct Stacks {
    pub stacks: Vec<Stack>,
    /// The account of each.
    pub accounts: Vec<Account>,
    index: PerProcess<Index>,
    /// Frames by hash, as they were sent: a stack may arrive after the first allocation that names it.
    by_hash: FxHashMap<u64, StackId>,
    frames: FrameTree,
    /// Stacks that could not be followed to their end.
    pub cut: u64,
}

impl Stacks {
    /// Number of the stack with that hash in that process.
    pub fn number(&mut self, process: ProcessId, kind: SiteKind, hash: u64) -> u32 {
        let index = self.index.of(process);
        let index = match kind {
            SiteKind::Heap => &mut index.heap,
            SiteKind::Mmap => &mut index.mmap,
        };
        *index.entry(hash).or_insert_with(|| {
            self.stacks.push(Stack { process, kind, hash });
            self.accounts.push(Account::default());
            self.stacks.len() as u32 - 1
        })
    }

    /// A process has ended: it makes no more objects.
    pub fn end(&mut self, process: ProcessId) {
        *self.index.of(process) = Index::default();
    }

    /// Books an allocation.
    pub fn allocated(&mut self, stack: u32, bytes: u64) {
        let account = &mut self.accounts[stack as usize];
        account.count = account.count.saturating_add(1);
        account.bytes = account.bytes.saturating_add(bytes);
        account.live_bytes = account.live_bytes.saturating_add(bytes);
        account.peak_bytes = account.peak_bytes.max(account.live_bytes);
    }

    /// Books a release of `bytes`; with the time that the object lived if nothing of it is left.
    pub fn released(&mut self, stack: u32, bytes: u64, lived: Option<i64>) {
        let account = &mut self.accounts[stack as usize];
        account.live_bytes = account.live_bytes.saturating_sub(bytes);
        let Some(lived) = lived.map(|lived| lived.max(0)) else { return };
        let lifetimes = &mut account.lifetimes;
        lifetimes.shortest = if account.freed == 0 { lived } else { lifetimes.shortest.min(lived) };
        lifetimes.longest = lifetimes.longest.max(lived);
        lifetimes.total = lifetimes.total.saturating_add(lived);
        account.freed = account.freed.saturating_add(1);
    }

    /// Books blocks of `bytes` each that came and went `count` times, one at a time.
    pub fn repeated(&mut self, stack: u32, bytes: u64, count: u64) {
        let account = &mut self.accounts[stack as usize];
        account.count = account.count.saturating_add(count);
        account.bytes = account.bytes.saturating_add(bytes.saturating_mul(count));
        account.freed = account.freed.saturating_add(count);
        // They were not timed one by one. Their time is that of the block which they repeated.
        account.lifetimes.shortest = 0;
    }

    /// Takes a release back. The shortest lifetime stays what the release made it: calls that fail after they seemed to
    /// release are too rare to keep what was before.
    pub fn revived(&mut self, stack: u32, bytes: u64, lived: Option<i64>) {
        let account = &mut self.accounts[stack as usize];
        account.live_bytes = account.live_bytes.saturating_add(bytes);
        if let Some(lived) = lived {
            account.freed = account.freed.saturating_sub(1);
            account.lifetimes.total = account.lifetimes.total.saturating_sub(lived.max(0));
        }
    }

    /// True if the frames of that hash are known.
    pub fn knows(&self, hash: u64) -> bool {
        self.by_hash.contains_key(&hash)
    }

    /// Notes the frames of a hash.
    pub fn define(&mut self, hash: u64, frames: &[Place], cut: bool) {
        let stack = self.frames.add(frames);
        if self.by_hash.insert(hash, stack).is_none() && cut {
            self.cut += 1;
        }
    }

    /// The places that occur in any of the stacks with those numbers, each once.
    pub fn places(&self, numbers: &[usize]) -> Vec<Place> {
        self.frames.places(numbers.iter().filter_map(|&number| self.by_hash.get(&self.stacks[number].hash)).copied())
    }

    /// Frames of a stack, innermost first.
    pub fn frames(&self, stack: &Stack) -> impl Iterator<Item = Place> {
        self.by_hash.get(&stack.hash).into_iter().flat_map(|&stack| self.frames.frames(stack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_knows_its_peak_and_how_long_its_objects_lived() {
        let mut stacks = Stacks::default();
        let stack = stacks.number(0, SiteKind::Heap, 7);
        stacks.allocated(stack, 100);
        stacks.allocated(stack, 50);
        stacks.released(stack, 100, Some(30));
        stacks.allocated(stack, 20);
        stacks.released(stack, 10, None);
        stacks.released(stack, 40, Some(10));
        let stack = &stacks.accounts[stack as usize];
        assert_eq!((stack.count, stack.bytes, stack.freed, stack.peak_bytes), (3, 170, 2, 150));
        assert_eq!(stack.lifetimes, Lifetimes { shortest: 10, longest: 30, total: 40 });
    }

    #[test]
    fn a_release_that_is_taken_back_does_not_count() {
        let mut stacks = Stacks::default();
        let stack = stacks.number(0, SiteKind::Heap, 7);
        stacks.allocated(stack, 100);
        stacks.released(stack, 100, Some(30));
        stacks.revived(stack, 100, Some(30));
        stacks.released(stack, 100, Some(90));
        let stack = &stacks.accounts[stack as usize];
        assert_eq!((stack.freed, stack.lifetimes.longest, stack.lifetimes.total), (1, 90, 90));
    }
}
