//! Records of the kernel's rings.
//!
//! Every event of ours carries `SAMPLE_IDENTIFIER | IP | TID | TIME | CPU` and the sample id on all records, so the last
//! words of each record are at fixed distances from its end:
//!
//! ```text
//!   sample:      header(8) id(8) ip(8) pid,tid(8) time(8) [addr(8)] cpu,res(8) [abi(8) regs(8 x n)] [size(8) stack(size) used(8)]
//!   other:       header(8) body ...                          pid,tid(8) time(8) cpu,res(8) id(8)
//! ```

use std::collections::HashMap;

use crate::trace_windows::TraceWindow;

/// Registers of a sample in the order of [`REGISTER_MASK`]'s bits: see [`Registers`].
pub const REGISTER_MASK: u64 = if cfg!(target_arch = "x86_64") { 0xff_03ff } else { 0x1_ffff_ffff };

/// Number of general registers kept per sample.
pub const GENERAL: usize = 32;

/// The register file at a sample: general registers in the architecture's own numbering (x86-64: rax 0, rcx 1, rdx 2,
/// rbx 3, rsp 4, rbp 5, rsi 6, rdi 7, r8..r15), and the flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Registers {
    pub general: [u64; GENERAL],
    pub flags: u64,
}

/// What an event of ours is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Clock,
    /// A page fault on a CPU.
    PageFault {
        cpu: i32,
    },
    /// A probe, by its number; with all registers, or with the stack pointer alone.
    Probe {
        number: u32,
        registers: bool,
    },
}

/// Memory that processes share, as the kernel tells it from others: a file, or one that the kernel has made for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedMemory {
    /// Major and minor number.
    pub device: (u32, u32),
    pub inode: u64,
    /// Tells files apart that had the same inode one after the other.
    pub generation: u64,
}

/// A record, with the time at which the kernel made it.
#[derive(Debug, PartialEq)]
pub enum Record {
    Sample {
        time: i64,
        pid: i32,
        tid: i32,
        cpu: i32,
        ip: u64,
        registers: Box<Registers>,
        /// Bytes from the stack pointer on, as many as there were.
        stack: Box<[u8]>,
    },
    /// A page fault in user code: `addr` is the address, `ip` the user's instruction.
    Fault {
        time: i64,
        pid: i32,
        tid: i32,
        cpu: i32,
        ip: u64,
        addr: u64,
        /// The word at the stack pointer.
        top: Option<u64>,
    },
    /// A thread came by a probe. Of the registers there is the stack pointer at least.
    Probe {
        time: i64,
        pid: i32,
        tid: i32,
        ip: u64,
        number: u32,
        registers: Box<Registers>,
    },
    Map {
        time: i64,
        pid: i32,
        start: u64,
        len: u64,
        offset: u64,
        prot: u32,
        path: String,
        /// The memory, if other processes can map it too and see writes to it.
        shared: Option<SharedMemory>,
    },
    Name {
        time: i64,
        pid: i32,
        tid: i32,
        exec: bool,
        name: String,
    },
    /// `parent` and `creator`: process and thread that called fork or clone.
    Fork {
        time: i64,
        pid: i32,
        tid: i32,
        parent: i32,
        creator: i32,
    },
    Exit {
        time: i64,
        pid: i32,
        tid: i32,
    },
    Lost {
        count: u64,
    },
    Throttled,
    /// What a thread did for a moment: not the kernel's word, but told in the same order.
    TraceWindow {
        time: i64,
        pid: i32,
        tid: i32,
        cpu: i32,
        trace_window: Box<TraceWindow>,
    },
    /// A sample without user registers (the thread had none, or it is a 32-bit program).
    NoRegisters {
        time: i64,
        pid: i32,
        tid: i32,
    },
}

const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const THROTTLE: u32 = 5;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;

const MISC_COMM_EXEC: u16 = 1 << 13;
/// A build id stands in place of device and inode.
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
const ABI_NONE: u64 = 0;
const ABI_64: u64 = 2;

/// Decodes the records in `bytes` (whole records, as the kernel wrote them) into `out`. `sources` maps event ids. Records
/// of unknown types and unknown events are skipped; a record that is cut or whose size is absurd ends the decoding.
pub fn decode(bytes: &[u8], sources: &HashMap<u64, Source>, out: &mut Vec<Record>) {
    let mut rest = bytes;
    while rest.len() >= 8 {
        let kind = u32_at(rest, 0).unwrap_or_default();
        let misc = (u32_at(rest, 4).unwrap_or_default() & 0xffff) as u16;
        let size = (u32_at(rest, 4).unwrap_or_default() >> 16) as usize;
        if size < 8 || size > rest.len() {
            return;
        }
        let (record, next) = rest.split_at(size);
        rest = next;
        if let Some(record) = one(kind, misc, &record[8..], sources) {
            out.push(record);
        }
    }
}

fn one(kind: u32, misc: u16, body: &[u8], sources: &HashMap<u64, Source>) -> Option<Record> {
    // Time stands in the sample id at the end of everything but samples.
    let time = || i64_at(body, body.len().checked_sub(24)?);
    Some(match kind {
        SAMPLE => return sample(body, sources),
        MMAP2 => Record::Map {
            time: time()?,
            pid: i32_at(body, 0)?,
            start: u64_at(body, 8)?,
            len: u64_at(body, 16)?,
            offset: u64_at(body, 24)?,
            prot: u32_at(body, 56)?,
            path: text(body.get(64..body.len().checked_sub(32)?)?),
            shared: shared_memory(misc, body),
        },
        COMM => Record::Name {
            time: time()?,
            pid: i32_at(body, 0)?,
            tid: i32_at(body, 4)?,
            exec: misc & MISC_COMM_EXEC != 0,
            name: text(body.get(8..body.len().checked_sub(32)?)?),
        },
        // pid, ppid, tid, ptid, time
        FORK => Record::Fork {
            time: i64_at(body, 16)?,
            pid: i32_at(body, 0)?,
            parent: i32_at(body, 4)?,
            tid: i32_at(body, 8)?,
            creator: i32_at(body, 12)?,
        },
        EXIT => Record::Exit { time: i64_at(body, 16)?, pid: i32_at(body, 0)?, tid: i32_at(body, 8)? },
        LOST => Record::Lost { count: u64_at(body, 8)? },
        LOST_SAMPLES => Record::Lost { count: u64_at(body, 0)? },
        THROTTLE => Record::Throttled,
        _ => return None,
    })
}

/// The memory that a record of a mapping is of, unless writing makes a copy.
fn shared_memory(misc: u16, body: &[u8]) -> Option<SharedMemory> {
    let flags = u32_at(body, 60)?;
    if misc & MISC_MMAP_BUILD_ID != 0 || flags & libc::MAP_SHARED as u32 == 0 {
        return None;
    }
    let memory = SharedMemory {
        device: (u32_at(body, 32)?, u32_at(body, 36)?),
        inode: u64_at(body, 40)?,
        generation: u64_at(body, 48)?,
    };
    (memory.inode != 0).then_some(memory)
}

fn sample(body: &[u8], sources: &HashMap<u64, Source>) -> Option<Record> {
    let source = *sources.get(&u64_at(body, 0)?)?;
    if let Source::PageFault { cpu } = source {
        return fault(body, cpu);
    }
    let (ip, pid, tid, time) = (u64_at(body, 8)?, i32_at(body, 16)?, i32_at(body, 20)?, i64_at(body, 24)?);
    match source {
        Source::PageFault { .. } => None,
        Source::Clock => {
            let cpu = i32_at(body, 32)?;
            if u64_at(body, 40)? != ABI_64 {
                return Some(Record::NoRegisters { time, pid, tid });
            }
            let registers = Box::new(registers(body.get(48..)?)?);
            let stack = body.get(48 + 8 * REGISTER_MASK.count_ones() as usize..).map_or(&[][..], stack).into();
            Some(Record::Sample { time, pid, tid, cpu, ip, registers, stack })
        }
        Source::Probe { number, registers: all } => {
            let registers = match all {
                true => registers(body.get(48..)?)?,
                false => {
                    let mut general = [0; GENERAL];
                    general[STACK_POINTER] = u64_at(body, 48)?;
                    Registers { general, flags: 0 }
                }
            };
            Some(Record::Probe { time, pid, tid, ip, number, registers: Box::new(registers) })
        }
    }
}

/// A page fault. Where the kernel faulted for the program (read() into a fresh buffer), the registers are those of the program all the
/// same.
fn fault(body: &[u8], cpu: i32) -> Option<Record> {
    let (pid, tid, time, addr) = (i32_at(body, 8)?, i32_at(body, 12)?, i64_at(body, 16)?, u64_at(body, 24)?);
    let abi = u64_at(body, 32)?;
    let ip = u64_at(body, 40).filter(|_| abi != ABI_NONE);
    let top = body.get(48..).filter(|_| abi == ABI_64).and_then(|words| u64_at(stack(words), 0));
    Some(Record::Fault { time, pid, tid, cpu, ip: ip.unwrap_or(0), addr, top })
}

/// The bytes of the stack in the words behind the registers; none if the kernel could not read any.
fn stack(words: &[u8]) -> &[u8] {
    let Some(size) = u64_at(words, 0).and_then(|size| usize::try_from(size).ok()) else { return &[] };
    let used = size.checked_add(8).and_then(|at| u64_at(words, at)).and_then(|used| usize::try_from(used).ok());
    words.get(8..).and_then(|bytes| bytes.get(..used.unwrap_or(0).min(size))).unwrap_or_default()
}

/// Bit of the instruction pointer in the register mask: what page faults ask for.
pub const IP_MASK: u64 = if cfg!(target_arch = "x86_64") { 1 << 8 } else { 1 << 32 };

/// Bit of the stack pointer in the register mask: what probes ask for.
pub const STACK_POINTER_MASK: u64 = if cfg!(target_arch = "x86_64") { 1 << 7 } else { 1 << 31 };
/// The stack pointer in [`Registers`].
const STACK_POINTER: usize = if cfg!(target_arch = "x86_64") { 4 } else { 31 };

#[cfg(target_arch = "x86_64")]
fn registers(words: &[u8]) -> Option<Registers> {
    // The kernel's order: ax bx cx dx si di bp sp ip flags r8..r15; the processor's numbering is another.
    const NUMBER: [usize; 8] = [0, 3, 1, 2, 6, 7, 5, 4];
    let mut general = [0; GENERAL];
    for (word, number) in NUMBER.into_iter().enumerate() {
        general[number] = u64_at(words, word * 8)?;
    }
    for (r, value) in general.iter_mut().enumerate().take(16).skip(8) {
        *value = u64_at(words, (r + 2) * 8)?;
    }
    Some(Registers { general, flags: u64_at(words, 72)? })
}

#[cfg(not(target_arch = "x86_64"))]
fn registers(words: &[u8]) -> Option<Registers> {
    let mut general = [0; GENERAL];
    for (r, value) in general.iter_mut().enumerate() {
        *value = u64_at(words, r * 8)?;
    }
    Some(Registers { general, flags: 0 })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    u32_at(bytes, at).map(|v| v as i32)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    u64_at(bytes, at).map(|v| v as i64)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl Record {
    /// Time of the record; 0 for losses, which have none that matters.
    pub fn time(&self) -> i64 {
        match *self {
            Self::Sample { time, .. }
            | Self::Fault { time, .. }
            | Self::Probe { time, .. }
            | Self::Map { time, .. }
            | Self::Name { time, .. }
            | Self::Fork { time, .. }
            | Self::Exit { time, .. }
            | Self::TraceWindow { time, .. }
            | Self::NoRegisters { time, .. } => time,
            Self::Lost { .. } | Self::Throttled => 0,
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// A clock's sample with so many bytes of the stack, of which the kernel could read some.
    fn sample_of(size: u64, used: u64) -> Vec<u8> {
        let mut words = vec![77, 0x1000, 5 | 6 << 32, 900, 1, ABI_64];
        words.extend(0..u64::from(REGISTER_MASK.count_ones()));
        words.push(size);
        words.extend((0..size / 8).map(|word| 0x0101_0101_0101_0101 * word));
        if size > 0 {
            words.push(used);
        }
        let head = u64::from(SAMPLE) | ((words.len() as u64 + 1) * 8) << 48;
        [vec![head], words].concat().iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// A mapping of /dev/zero with these flags, as the kernel reports it.
    fn mapping(misc: u32, flags: u64) -> Vec<u8> {
        let name = u64::from_ne_bytes(*b"/zero\0\0\0");
        let words = [
            7 | 7 << 32,
            0x10_0000,
            0x8000,
            0x3000,
            1 | 5 << 32,
            99,
            12,
            3 | flags << 32,
            name,
            7 | 7 << 32,
            500,
            0,
            1,
        ];
        let head = u64::from(MMAP2) | u64::from(misc) << 32 | ((words.len() as u64 + 1) * 8) << 48;
        [&[head], &words[..]].concat().iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn memory_that_processes_share_has_device_inode_and_generation() {
        let shared = |misc, flags| {
            let mut records = Vec::new();
            decode(&mapping(misc, flags), &HashMap::new(), &mut records);
            match records.pop() {
                Some(Record::Map { start: 0x10_0000, offset: 0x3000, time: 500, shared, .. }) => shared,
                other => panic!("{other:?}"),
            }
        };
        let memory = SharedMemory { device: (1, 5), inode: 99, generation: 12 };
        assert_eq!(shared(0, libc::MAP_SHARED as u64), Some(memory));
        assert_eq!(shared(0, libc::MAP_PRIVATE as u64), None);
        assert_eq!(shared(u32::from(MISC_MMAP_BUILD_ID), libc::MAP_SHARED as u64), None);
    }

    #[test]
    fn samples_bring_the_bytes_of_the_stack() {
        let sources = HashMap::from([(77, Source::Clock)]);
        let stack_of = |bytes: &[u8]| {
            let mut records = Vec::new();
            decode(bytes, &sources, &mut records);
            match records.pop() {
                Some(Record::Sample { stack, registers, .. }) => Some((stack.len(), registers.general[4])),
                _ => None,
            }
        };
        // Register 7 of the kernel's order is the stack pointer.
        assert_eq!(stack_of(&sample_of(64, 64)), Some((64, 7)));
        assert_eq!(stack_of(&sample_of(64, 24)), Some((24, 7)));
        assert_eq!(stack_of(&sample_of(64, 9000)), Some((64, 7)));
        assert_eq!(stack_of(&sample_of(0, 0)), Some((0, 7)));
        // Cut anywhere, and with any size: no panic.
        let whole = sample_of(64, 64);
        for length in 0..whole.len() {
            let mut cut = whole[..length].to_vec();
            if length >= 8 {
                cut[6..8].copy_from_slice(&(length as u16).to_ne_bytes());
            }
            stack_of(&cut);
        }
        let mut absurd = whole.clone();
        let at = absurd.len() - 8 - 64 - 8;
        absurd[at..at + 8].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(stack_of(&absurd), Some((0, 7)));
    }
}
