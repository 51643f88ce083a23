//! What is mapped where, as the kernel reports it. The kernel reports no unmapping: a mapping lasts until another takes
//! its addresses.

use std::rc::Rc;

use super::ordered::OrderedMap;

/// Number of an interned path.
pub type PathId = u32;

/// One mapping; its first address is its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub end: u64,
    pub offset: u64,
    pub path: PathId,
    pub kind: MappingKind,
    pub executable: bool,
    /// Time it appeared.
    pub from: i64,
    /// Number of the memory behind it, if processes share that.
    pub memory: Option<MemoryId>,
}

/// Number of memory that processes share.
pub type MemoryId = u32;

/// Where something lies in memory that processes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InMemory {
    pub memory: MemoryId,
    /// Bytes from the start of the memory.
    pub offset: u64,
}

/// What the kernel calls a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingKind {
    File,
    Anonymous,
    /// `[heap]`: the break.
    Break,
    /// `[stack]` of the main thread.
    Stack,
    /// `[vdso]` and others of the kernel's own.
    Kernel,
}

impl MappingKind {
    /// From the name in a kernel record.
    pub fn from_name(name: &str) -> Self {
        match name {
            "[heap]" => Self::Break,
            "[stack]" => Self::Stack,
            "//anon" | "" => Self::Anonymous,
            _ if name.starts_with('[') => Self::Kernel,
            // Shared anonymous memory and huge pages appear as these deleted files.
            _ if ["/dev/zero", "/SYSV", "/anon_hugepage"].iter().any(|shown| name.starts_with(shown)) => {
                Self::Anonymous
            }
            _ if name.starts_with('/') => Self::File,
            _ => Self::Anonymous,
        }
    }
}

impl Mapping {
    /// True if a file (that may be an image) is behind it.
    pub fn is_file(&self) -> bool {
        self.kind == MappingKind::File
    }

    /// True if this mapping at `start` shows what `other` at `at` shows: the kernel reports a mapping again when its protection
    /// changes or when it grows.
    fn shows_the_same(&self, start: u64, other: &Self, at: u64) -> bool {
        let linear = |start: u64, offset: u64| start.wrapping_sub(offset);
        if self.memory != other.memory {
            return false;
        }
        match (self.is_file(), other.is_file()) {
            (true, true) => self.path == other.path && linear(start, self.offset) == linear(at, other.offset),
            (false, false) => true,
            _ => false,
        }
    }
}

/// A mapping that is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    pub start: u64,
    pub mapping: Mapping,
    /// Time it went.
    pub until: i64,
}

/// The mappings of one address space. A copy shares what stays the same.
#[derive(Clone, Debug, Default)]
pub struct Mappings {
    by_start: OrderedMap<Mapping>,
    /// Past mappings of code: samples that name them must stay readable. Data mappings of the past are not kept, so that
    /// a program that maps and unmaps for days does not fill the recorder.
    past_code: Rc<Vec<Past>>,
}

impl Mappings {
    /// Puts a mapping in place, cutting what it covers. Returns the address ranges that held something else: it has been
    /// unmapped, which the kernel does not report.
    pub fn insert(&mut self, start: u64, mapping: Mapping) -> Vec<(u64, u64)> {
        let others = self.over(start, mapping.end).filter(|(at, old)| !mapping.shows_the_same(start, old, *at));
        let replaced = others.map(|(at, old)| (at.max(start), old.end.min(mapping.end))).collect();
        self.remove(start, mapping.end, mapping.from);
        self.by_start.insert(start, mapping);
        replaced
    }

    /// The mappings that reach into `start..end`, from the last to the first.
    pub fn over(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &Mapping)> {
        let below = std::iter::successors(self.by_start.below(end), |(at, _)| self.by_start.below(*at));
        below.take_while(move |(_, mapping)| mapping.end > start)
    }

    /// Takes `start..end` out; mappings that reach beyond it keep the rest.
    pub fn remove(&mut self, start: u64, end: u64, time: i64) {
        while let Some((at, &old)) = self.by_start.below(end) {
            if old.end <= start {
                break;
            }
            self.by_start.remove(at);
            if old.executable {
                Rc::make_mut(&mut self.past_code).push(Past { start: at, mapping: old, until: time });
            }
            if old.end > end {
                let offset = old.offset + (end - at);
                self.by_start.insert(end, Mapping { offset, ..old });
            }
            if at < start {
                self.by_start.insert(at, Mapping { end: start, ..old });
                break;
            }
        }
    }

    /// The mapping that holds `addr`, with its first address.
    pub fn find(&self, addr: u64) -> Option<(u64, &Mapping)> {
        self.by_start.at_or_below(addr).filter(|(_, m)| addr < m.end)
    }

    /// Where `addr` lies in memory that processes share.
    pub fn in_memory(&self, addr: u64) -> Option<InMemory> {
        let (start, mapping) = self.find(addr)?;
        Some(InMemory { memory: mapping.memory?, offset: mapping.offset.wrapping_add(addr - start) })
    }

    /// All present mappings, from the last address to the first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Mapping)> {
        self.by_start.descending()
    }

    /// Mappings of code that are no more.
    pub fn past_code(&self) -> &[Past] {
        &self.past_code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anonymous(end: u64, from: i64) -> Mapping {
        Mapping { end, offset: 0, path: 0, kind: MappingKind::Anonymous, executable: true, from, memory: None }
    }

    fn ranges(mappings: &Mappings) -> Vec<(u64, u64, i64)> {
        let mut ranges: Vec<_> = mappings.iter().map(|(start, m)| (start, m.end, m.from)).collect();
        ranges.reverse();
        ranges
    }

    #[test]
    fn a_mapping_in_the_middle_cuts_another_in_two() {
        let mut mappings = Mappings::default();
        mappings.insert(0x1000, anonymous(0x9000, 1));
        mappings.insert(0x3000, anonymous(0x4000, 2));
        assert_eq!(ranges(&mappings), [(0x1000, 0x3000, 1), (0x3000, 0x4000, 2), (0x4000, 0x9000, 1)]);
        assert_eq!(mappings.find(0x4000).unwrap().1.offset, 0x3000);
        assert_eq!(mappings.past_code().len(), 1);
    }

    #[test]
    fn a_mapping_over_several_replaces_them() {
        let mut mappings = Mappings::default();
        mappings.insert(0x1000, anonymous(0x2000, 1));
        mappings.insert(0x2000, anonymous(0x3000, 1));
        mappings.insert(0x4000, anonymous(0x6000, 1));
        mappings.insert(0x1800, anonymous(0x5000, 2));
        assert_eq!(ranges(&mappings), [(0x1000, 0x1800, 1), (0x1800, 0x5000, 2), (0x5000, 0x6000, 1)]);
        assert!(mappings.find(0x6000).is_none());
    }
}
