//! The caches of a model that says which accesses reach memory (`inject/exact/caches`), as the command line names them.

use std::fmt;
use std::str::FromStr;

use crate::machine::{Cpu, Machine};

/// Caches: L1 and L2 of each thread, a last level of each socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheModel {
    /// L1 of a thread.
    pub l1: Option<CacheShape>,
    /// L2 of a thread.
    pub l2: Option<CacheShape>,
    /// The cache in front of memory, one of each socket.
    pub llc: CacheShape,
    /// Bytes of a line.
    pub line: u32,
    /// What is brought into the caches before it is asked for.
    pub prefetch: Prefetch,
    /// Sockets: threads go to them in turn.
    pub sockets: u32,
}

/// A cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// Its size.
    pub bytes: u64,
    /// Lines that have the same set to lie in.
    pub ways: u32,
}

/// A prefetcher.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Prefetch {
    /// None.
    #[default]
    None,
    /// The line behind the one that L1 missed.
    Next,
    /// The line as far behind as the instruction has gone twice.
    Stride,
}

/// The caches of most processors.
const LINE: u32 = 64;

/// Most ways of a cache: a set is searched from end to end.
const MOST_WAYS: u32 = 64;
/// Most bytes of a cache.
const MOST_BYTES: u64 = 4 << 30;
const MOST_SOCKETS: u32 = 16;

const FORM: &str = "l1=32K:8,l2=1M:16,llc=32M:16[,line=64][,prefetch=next|stride|none][,sockets=N]";

impl CacheShape {
    /// How many sets it has.
    pub fn sets(self, line: u32) -> u64 {
        self.bytes / (u64::from(line) * u64::from(self.ways))
    }
}

impl CacheModel {
    /// The caches of a machine: those of its first CPU that tells of them. An error says what it does not tell.
    pub fn of(machine: &Machine) -> Result<Self, String> {
        let last = |cpu: &Cpu| cpu.caches.iter().rev().find(|cache| cache.kind != "Instruction").cloned();
        let (cpu, llc) = machine
            .cpus
            .iter()
            .find_map(|cpu| Some((cpu, last(cpu)?)))
            .ok_or("this machine does not tell its caches: name them")?;
        let shape = |level: u32| {
            let cache = cpu.caches.iter().find(|cache| cache.level == level && cache.kind != "Instruction")?;
            Some(CacheShape { bytes: cache.bytes?, ways: cache.ways.filter(|ways| *ways > 0)? })
        };
        let mut shared: Vec<Vec<u32>> = machine.cpus.iter().filter_map(last).map(|cache| cache.shared_by).collect();
        shared.sort();
        shared.dedup();
        let model = Self {
            l1: shape(1).filter(|_| llc.level > 1),
            l2: shape(2).filter(|_| llc.level > 2),
            llc: shape(llc.level)
                .ok_or_else(|| format!("this machine does not tell the ways of its L{}: name its caches", llc.level))?,
            line: llc.line_bytes.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(LINE),
            prefetch: Prefetch::None,
            sockets: u32::try_from(shared.len()).unwrap_or(u32::MAX).clamp(1, MOST_SOCKETS),
        };
        model.checked().map_err(|why| format!("this machine's caches cannot be modelled ({model}: {why}): name others"))
    }

    /// `auto` or a list such as `l1=32K:8,llc=8M:16`.
    pub fn parse(text: &str, machine: impl FnOnce() -> Machine) -> Result<Self, String> {
        if text == "auto" { Self::of(&machine()) } else { text.parse() }
    }

    fn checked(self) -> Result<Self, String> {
        if !self.line.is_power_of_two() || !(16..=4096).contains(&self.line) {
            return Err(format!("line={}: a power of two from 16 to 4096", self.line));
        }
        if !(1..=MOST_SOCKETS).contains(&self.sockets) {
            return Err(format!("sockets={}: from 1 to {MOST_SOCKETS}", self.sockets));
        }
        for (name, shape) in [("l1", self.l1), ("l2", self.l2), ("llc", Some(self.llc))] {
            let Some(shape) = shape else { continue };
            let fault = |why: String| Err(format!("{name}={shape}: {why}"));
            if !(1..=MOST_WAYS).contains(&shape.ways) {
                return fault(format!("from 1 to {MOST_WAYS} ways"));
            }
            let set = u64::from(self.line) * u64::from(shape.ways);
            if shape.bytes == 0 || shape.bytes > MOST_BYTES || !shape.bytes.is_multiple_of(set) {
                return fault(format!("a multiple of {set} bytes ({} ways of {}), at most 4G", shape.ways, self.line));
            }
            if name != "llc" && !shape.sets(self.line).is_power_of_two() {
                return fault(format!("{} sets, which is no power of two", shape.sets(self.line)));
            }
        }
        Ok(self)
    }

    /// Sets of L1, L2 and the last level; 0 of a cache that is not there.
    pub fn sets(&self) -> [u32; 3] {
        [self.l1, self.l2, Some(self.llc)].map(|shape| shape.map_or(0, |shape| shape.sets(self.line) as u32))
    }

    /// Ways of L1, L2 and the last level; 0 of a cache that is not there.
    pub fn ways(&self) -> [u32; 3] {
        [self.l1, self.l2, Some(self.llc)].map(|shape| shape.map_or(0, |shape| shape.ways))
    }
}

impl FromStr for CacheModel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut l1, mut l2, mut llc) = (None, None, None);
        let (mut line, mut prefetch, mut sockets) = (None, None, None);
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(|| format!("{part:?}: auto, or as in {FORM}"))?;
            let fault = |why: &str| format!("{part}: {why}");
            let number = || value.parse::<u32>().map_err(|_| fault("a number"));
            let shape = || shape(value).ok_or_else(|| fault("a size and a number of ways, as in 32K:8"));
            let again = match name {
                "l1" => l1.replace(shape()?).is_some(),
                "l2" => l2.replace(shape()?).is_some(),
                "llc" => llc.replace(shape()?).is_some(),
                "line" => line.replace(number()?).is_some(),
                "sockets" => sockets.replace(number()?).is_some(),
                "prefetch" => {
                    let kind = match value {
                        "none" => Prefetch::None,
                        "next" => Prefetch::Next,
                        "stride" => Prefetch::Stride,
                        _ => return Err(fault("none, next or stride")),
                    };
                    prefetch.replace(kind).is_some()
                }
                _ => return Err(fault("not one of l1, l2, llc, line, prefetch, sockets")),
            };
            if again {
                return Err(fault("it is there twice"));
            }
        }
        let llc = llc.ok_or_else(|| format!("llc=SIZE:WAYS is missing, the cache in front of memory: {FORM}"))?;
        let model = Self {
            l1,
            l2,
            llc,
            line: line.unwrap_or(LINE),
            prefetch: prefetch.unwrap_or_default(),
            sockets: sockets.unwrap_or(1),
        };
        model.checked()
    }
}

/// `32K:8`
fn shape(text: &str) -> Option<CacheShape> {
    let (size, ways) = text.split_once(':')?;
    let (number, shift) = match size.char_indices().last()? {
        (at, 'K' | 'k') => (&size[..at], 10),
        (at, 'M' | 'm') => (&size[..at], 20),
        (at, 'G' | 'g') => (&size[..at], 30),
        _ => (size, 0),
    };
    let bytes = number.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    Some(CacheShape { bytes, ways: ways.parse().ok()? })
}

impl fmt::Display for CacheShape {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (mut size, mut unit) = (self.bytes, "");
        for larger in ["K", "M", "G"] {
            if size != 0 && size.is_multiple_of(1024) {
                (size, unit) = (size / 1024, larger);
            }
        }
        write!(f, "{size}{unit}:{}", self.ways)
    }
}

/// As it is read.
impl fmt::Display for CacheModel {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (name, shape) in [("l1", self.l1), ("l2", self.l2)] {
            if let Some(shape) = shape {
                write!(f, "{name}={shape},")?;
            }
        }
        let prefetch = match self.prefetch {
            Prefetch::None => "none",
            Prefetch::Next => "next",
            Prefetch::Stride => "stride",
        };
        write!(f, "llc={},line={},prefetch={prefetch},sockets={}", self.llc, self.line, self.sockets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Cache;

    #[test]
    fn a_model_is_written_as_it_is_read() {
        for (text, whole) in [
            ("llc=32M:16", "llc=32M:16,line=64,prefetch=none,sockets=1"),
            (
                "l1=48K:12,l2=1280K:20,llc=36608K:11",
                "l1=48K:12,l2=1280K:20,llc=36608K:11,line=64,prefetch=none,sockets=1",
            ),
            ("prefetch=stride,llc=1M:4,line=128,sockets=2", "llc=1M:4,line=128,prefetch=stride,sockets=2"),
        ] {
            let model: CacheModel = text.parse().unwrap();
            assert_eq!(model.to_string(), whole);
            assert_eq!(whole.parse(), Ok(model));
        }
    }

    #[test]
    fn sets_and_ways() {
        let model: CacheModel = "l1=32K:8,llc=30M:20".parse().unwrap();
        assert_eq!((model.sets(), model.ways()), ([64, 0, 24576], [8, 0, 20]));
    }

    #[test]
    fn faults_are_named() {
        for (text, word) in [
            ("", "auto"),
            ("l1=32K:8", "llc=SIZE:WAYS"),
            ("llc=32M", "a size and a number of ways"),
            ("llc=32M:0", "ways"),
            ("llc=32M:65", "ways"),
            ("llc=1000:2", "multiple of 128"),
            ("llc=8G:16", "at most 4G"),
            ("l1=48K:8,llc=1M:16", "96 sets"),
            ("llc=1M:16,line=60", "power of two"),
            ("llc=1M:16,l3=1M:16", "not one of"),
            ("llc=1M:16,prefetch=both", "none, next or stride"),
            ("llc=1M:16,llc=1M:16", "twice"),
            ("llc=1M:16,sockets=0", "sockets"),
            ("llc=99999999999999999999G:1", "a size"),
        ] {
            let why = text.parse::<CacheModel>().unwrap_err();
            assert!(why.contains(word) && !why.contains('\n'), "{text}: {why}");
        }
    }

    #[test]
    fn a_machine_tells_its_caches() {
        let cache = |level, kind: &str, bytes, ways, shared: &[u32]| Cache {
            level,
            kind: kind.into(),
            bytes: Some(bytes),
            line_bytes: Some(64),
            ways,
            shared_by: shared.to_vec(),
        };
        let cpu = |id: u32, ways| Cpu {
            id,
            caches: vec![
                cache(1, "Data", 32 << 10, Some(8), &[id]),
                cache(1, "Instruction", 64 << 10, Some(4), &[id]),
                cache(2, "Unified", 1 << 20, Some(8), &[id]),
                cache(3, "Unified", 32 << 20, ways, &[id / 2 * 2, id / 2 * 2 + 1]),
            ],
            ..Cpu::default()
        };
        let machine = |ways| Machine { cpus: (0..4).map(|id| cpu(id, ways)).collect(), ..Machine::default() };
        let model = CacheModel::parse("auto", || machine(Some(16))).unwrap();
        assert_eq!(model.to_string(), "l1=32K:8,l2=1M:8,llc=32M:16,line=64,prefetch=none,sockets=2");
        assert!(CacheModel::of(&machine(None)).unwrap_err().contains("ways of its L3"));
        assert!(CacheModel::of(&Machine::default()).unwrap_err().contains("name them"));
    }
}
