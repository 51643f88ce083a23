//! What the emulator tells of a thread's next instructions, in order, until it is counted.

use numamma_emulator::{Access, Observer};
use rustc_hash::FxHashMap;

use super::spans::pick;
use super::{Seen, Timed, TraceWindow};
use crate::clock::counts::resample::Random;

/// Accesses of an instruction that is not a repeated one.
pub(super) const MOST_ACCESSES: usize = 4;
/// Instructions that take as long as an access of a repeated string instruction: that is of 32 bytes, which takes a cycle, and others come
/// four in a cycle.
const WHILE_REPEATED: f64 = 4.0;

/// Bytes of a string that is copied or filled by one instruction which are one access, as where every access is counted
/// (`inject/exact/count/count.h`): libc's vectors have as many.
const UNIT: u64 = 32;

/// Where a repeated string instruction is.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// In another round than the first.
    goes_on: bool,
    /// Of its reads and writes: where the next round's access is, and where the unit ends that it is of.
    units: [(u64, u64); 2],
}

impl Rounds {
    /// Another instruction begins.
    pub fn end(&mut self) {
        self.goes_on = false;
    }

    /// Another round does.
    pub fn go_on(&mut self) {
        self.goes_on = true;
    }

    /// True if what is accessed is of no unit that was accessed before.
    pub fn is_new(&mut self, access: &Access) -> bool {
        let (next, end) = &mut self.units[usize::from(access.write)];
        let follows = self.goes_on && access.address == *next && access.address < *end;
        *next = access.address.wrapping_add(u64::from(access.size));
        if !follows {
            *end = access.address.saturating_add(UNIT).min((access.address | 4095).saturating_add(1));
        }
        !follows
    }
}

/// Of the time of a thread that stands at the end of a system call, the part (0..1) that was its own: not known, and samples tell how
/// much each stretch of its code has.
const OWN_BEFORE_CALLS: f64 = 0.5;

/// As so many other instructions accesses of string instructions take time that are beyond what other instructions have.
pub(super) fn repetitions(accesses: usize) -> f64 {
    accesses as f64 * WHILE_REPEATED
}

/// Where a thread stood, and what it came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Behind the system call that it came to.
    pub call: Option<u64>,
    /// True if it stood at the end of one.
    pub behind_call: bool,
    /// True if it stood where the kernel was about to provide a page.
    pub absent: bool,
    /// How fast the thread had just been, if that was measured.
    pub timed: Option<Timed>,
}

/// A thread's next instructions.
#[derive(Debug, Default)]
pub struct Trace {
    /// Their addresses.
    instructions: Vec<u64>,
    /// Their accesses, each with the place of its instruction among these.
    accesses: Vec<(usize, Access)>,
    rounds: Rounds,
}

impl Trace {
    pub fn clear(&mut self) {
        self.instructions.clear();
        self.accesses.clear();
        self.rounds.end();
    }

    /// Counts it all, which stands for `time`.
    pub fn trace_windows(&self, at: &Moment, time: f64, random: &mut Random) -> Vec<TraceWindow> {
        let length = self.instructions.len();
        let anywhere = random.below(length);
        let mut trace_window = |first, time| TraceWindow { time, call: at.call, ..self.trace_window(first, random) };
        // The time of a system call or of a page fault is not the program's own.
        let mut trace_windows = vec![trace_window(0, if at.behind_call || at.absent { 0.0 } else { time })];
        trace_windows[0].timed = at.timed;
        if at.behind_call && !at.absent && length > 0 {
            // Who is told to stop while he executes code of his own stands at the end of a system call all the same, if that comes before
            // the interrupt does. He was anywhere between two of them then.
            trace_windows.push(trace_window(anywhere, time * OWN_BEFORE_CALLS));
        }
        trace_windows
    }

    /// Counts what comes from the `first` instruction on.
    fn trace_window(&self, first: usize, random: &mut Random) -> TraceWindow {
        let followed = self.instructions.get(first..).unwrap_or_default();
        let mut instructions: FxHashMap<u64, u32> = FxHashMap::default();
        followed.iter().for_each(|&ip| *instructions.entry(ip).or_default() += 1);
        let accesses = &self.accesses[self.accesses.partition_point(|(of, _)| *of < first)..];
        // By instruction, page and whether it writes.
        let mut seen: FxHashMap<(u64, u64, bool), Seen> = FxHashMap::default();
        for &(_, Access { ip, address, size, write }) in accesses {
            let first = Seen { ip, addr: address, bytes: size, write, count: 0 };
            seen.entry((ip, address >> 12, write)).or_insert(first).count += 1;
        }
        let of_one = accesses.chunk_by(|(one, _), (other, _)| one == other);
        let repeated: usize = of_one.map(|accesses| accesses.len().saturating_sub(MOST_ACCESSES)).sum();
        TraceWindow {
            ip: followed.first().copied().unwrap_or(0),
            length: followed.len() as u64,
            repetitions: repetitions(repeated),
            instructions: instructions.into_iter().collect(),
            accesses: seen.into_values().collect(),
            spans: pick(followed, random),
            ..TraceWindow::default()
        }
    }
}

impl Observer for Trace {
    fn instruction(&mut self, ip: u64) {
        self.instructions.push(ip);
        self.rounds.end();
    }

    fn goes_on(&mut self) {
        self.rounds.go_on();
    }

    fn access(&mut self, access: Access) {
        if self.rounds.is_new(&access) {
            // An instruction is told of before its accesses.
            self.accesses.push((self.instructions.len().saturating_sub(1), access));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load and, at each turn, ten accesses of a string instruction.
    #[test]
    fn what_comes_later_is_counted_by_itself() {
        let mut trace = Trace::default();
        for turn in 0..3 {
            trace.instruction(0x10);
            trace.access(Access { ip: 0x10, address: 0x7000, size: 8, write: false });
            trace.instruction(0x20);
            (0..10).for_each(|n| {
                trace.access(Access { ip: 0x20, address: 0x9000 + 0x1000 * turn + n, size: 1, write: true });
            });
        }
        let mut random = Random::new(1);
        let whole = trace.trace_window(0, &mut random);
        assert_eq!((whole.ip, whole.length, whole.repetitions), (0x10, 6, 18.0 * WHILE_REPEATED));
        let rest = trace.trace_window(3, &mut random);
        assert_eq!((rest.ip, rest.length, rest.repetitions), (0x20, 3, 12.0 * WHILE_REPEATED));
        let mut instructions = rest.instructions;
        instructions.sort_unstable();
        assert_eq!(instructions, [(0x10, 1), (0x20, 2)]);
        let mut pages: Vec<(u64, u32)> = rest.accesses.iter().map(|seen| (seen.addr, seen.count)).collect();
        pages.sort_unstable();
        assert_eq!(pages, [(0x7000, 1), (0xa000, 10), (0xb000, 10)]);
        trace.clear();
        assert_eq!(trace.trace_window(0, &mut random), TraceWindow::default());
    }

    /// A string that is copied: 32 bytes of it are an access, and no page is left out.
    #[test]
    fn rounds_that_follow_on_each_other_are_an_access_for_each_unit() {
        let mut trace = Trace::default();
        let mut copied = |bytes: u64, from: u64, to: u64| {
            trace.clear();
            trace.instruction(0x10);
            for n in 0..bytes {
                if n > 0 {
                    trace.goes_on();
                }
                trace.access(Access { ip: 0x10, address: from + n, size: 1, write: false });
                trace.access(Access { ip: 0x10, address: to + n, size: 1, write: true });
            }
            trace.instruction(0x20);
            // The next instruction's own, wherever it is.
            trace.access(Access { ip: 0x20, address: to + bytes, size: 8, write: true });
            let count = |write| trace.accesses.iter().filter(|(_, access)| access.write == write).count();
            (count(false), count(true) - 1)
        };
        assert_eq!(copied(1, 0x7000, 0x9000), (1, 1));
        assert_eq!(copied(32, 0x7000, 0x9010), (1, 1));
        assert_eq!(copied(100, 0x7001, 0x9000), (4, 4));
        assert_eq!(copied(100, 0x7ff8, 0x9000), (1 + 3, 4));
        assert_eq!(copied(4096, 0x7000, 0x9000), (128, 128));
    }

    #[test]
    fn who_stands_behind_a_call_was_anywhere_before_it() {
        let mut trace = Trace::default();
        (0..100).for_each(|ip| trace.instruction(ip));
        let mut random = Random::new(1);
        let mut told = |at: Moment| {
            let trace_windows = trace.trace_windows(&at, 8.0, &mut random);
            assert!(
                trace_windows
                    .iter()
                    .all(|trace_window| trace_window.call == at.call && trace_window.ip + trace_window.length == 100)
            );
            trace_windows.iter().map(|trace_window| (trace_window.ip, trace_window.time)).collect::<Vec<_>>()
        };
        let elsewhere = Moment { call: Some(7), ..Moment::default() };
        assert_eq!(told(elsewhere), [(0, 8.0)]);
        assert_eq!(told(Moment { absent: true, ..elsewhere }), [(0, 0.0)]);
        let begun: std::collections::BTreeSet<u64> = (0..200)
            .map(|_| {
                let [(0, 0.0), (begun, 4.0)] = told(Moment { behind_call: true, ..elsewhere })[..] else {
                    panic!("two")
                };
                begun
            })
            .collect();
        assert!(begun.len() > 50, "{begun:?}");
        assert_eq!(
            Trace::default().trace_windows(&Moment { behind_call: true, ..elsewhere }, 8.0, &mut random).len(),
            1
        );
    }
}
