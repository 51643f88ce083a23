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

/// A call stack with its account.
#[derive(Debug)]
pub struct Stack {
    pub process: ProcessId,
    pub kind: SiteKind,
    /// Hash under which the library sent it; 0 for "unknown".
    pub hash: u64,
    pub count: u64,
    pub bytes: u64,
    pub freed: u64,
    live_bytes: u64,
    pub peak_bytes: u64,
}

/// All call stacks of a recording.
#[derive(Debug, Default)]
pub struct Stacks {
    pub stacks: Vec<Stack>,
    index: PerProcess<FxHashMap<(SiteKind, u64), u32>>,
    /// Frames by hash, as they were sent: a stack may arrive after the first allocation that names it.
    by_hash: FxHashMap<u64, StackId>,
    frames: FrameTree,
    /// Stacks that could not be followed to their end.
    pub cut: u64,
}

impl Stacks {
    /// Number of the stack with that hash in that process.
    pub fn number(&mut self, process: ProcessId, kind: SiteKind, hash: u64) -> u32 {
        *self.index.of(process).entry((kind, hash)).or_insert_with(|| {
            self.stacks.push(Stack { process, kind, hash, count: 0, bytes: 0, freed: 0, live_bytes: 0, peak_bytes: 0 });
            self.stacks.len() as u32 - 1
        })
    }

    /// A process has ended: it makes no more objects.
    pub fn end(&mut self, process: ProcessId) {
        *self.index.of(process) = FxHashMap::default();
    }

    /// Books an allocation.
    pub fn allocated(&mut self, stack: u32, bytes: u64) {
        let stack = &mut self.stacks[stack as usize];
        stack.count += 1;
        stack.bytes += bytes;
        stack.live_bytes += bytes;
        stack.peak_bytes = stack.peak_bytes.max(stack.live_bytes);
    }

    /// Books a release of `bytes`; `last` if nothing of the object is left.
    pub fn released(&mut self, stack: u32, bytes: u64, last: bool) {
        let stack = &mut self.stacks[stack as usize];
        stack.freed += u64::from(last);
        stack.live_bytes = stack.live_bytes.saturating_sub(bytes);
    }

    /// Takes a release back.
    pub fn revived(&mut self, stack: u32, bytes: u64) {
        let stack = &mut self.stacks[stack as usize];
        stack.freed = stack.freed.saturating_sub(1);
        stack.live_bytes += bytes;
    }

    /// Whether the frames of that hash are known.
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
