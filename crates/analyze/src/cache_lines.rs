//! Threads that use one cache line: each its own bytes (false sharing), or the same ones (contended).
//!
//! Whichever thread writes takes the line away from the others, also where they need other bytes of it. Evidence is samples of two
//! workers or more, within the same time, of which at least one writes. A worker with hardly any samples of a line, such as the thread
//! that set it up, does not count.

use numamma_findings::LineSharing;
use numamma_trace::{Access, SampleRow};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::statistics::ratio;

/// Bytes of a line, of all processors that run this.
const LINE: u64 = 64;
/// In larger objects hardly any line is at the border of two threads' parts.
pub const MOST_BYTES: i64 = 64 << 10;
/// Samples of a line that a worker must have, and their part of all.
const SAMPLES: u64 = 5;
const PART: f64 = 0.05;
/// Share of the cost of the run that such lines must have.
const COSTLY: f64 = 0.05;
/// Share of the cost of the run that a contended line must have by itself. A schedule that deals an array out anew each time gives all of
/// its lines to all threads once in a while, and its cost is spread over them. Of 500 random programs, recorded for 2 to 3 s, seven had
/// an array that was called contended. Of four of them, shared histograms, each such line had 1.4 % or more on average. The rest had
/// 0.5 to 0.6 %: an array that is dealt out, a scatter into 128 lines, and a histogram of 32 lines, which is silent now. An array of less
/// than 100 lines that is dealt out is still called contended: samples are further apart than its threads' turns.
const HOT: f64 = 0.01;

/// A line: process, and address / [`LINE`].
pub type LineAddress = (i32, u64);

/// A cache line of an object.
#[derive(Clone, Debug, Default)]
pub struct CacheLine {
    cost: i64,
    users: Vec<User>,
}

/// Use of a line by a worker.
#[derive(Clone, Copy, Debug)]
struct User {
    worker: i32,
    /// Bytes of the line, one bit each.
    bytes: u64,
    writes: bool,
    samples: u64,
    first: i64,
    last: i64,
}

/// The line of an address.
pub fn line_of(process: i32, addr: u64) -> LineAddress {
    (process, addr / LINE)
}

impl CacheLine {
    /// Adds a row of a worker.
    pub fn add(&mut self, worker: i32, row: &SampleRow) {
        let at = match self.users.iter().position(|user| user.worker == worker) {
            Some(at) => at,
            None => {
                let (first, last) = (row.time, row.time);
                self.users.push(User { worker, bytes: 0, writes: false, samples: 0, first, last });
                self.users.len() - 1
            }
        };
        let user = &mut self.users[at];
        let length = row.bytes.clamp(1, LINE as i32) as u32;
        user.bytes |= (u64::MAX >> (64 - length)) << (row.addr as u64 % LINE);
        user.writes |= row.access & Access::Write as i32 != 0;
        user.samples += u64::from(row.cost > 0);
        (user.first, user.last) = (user.first.min(row.time), user.last.max(row.time));
        self.cost += row.cost;
    }

    /// The workers that use it within the same time, and whether each has its own bytes; `None` if they are not two, or none writes.
    fn shared(&self) -> Option<(Vec<User>, bool)> {
        let all: u64 = self.users.iter().map(|user| user.samples).sum();
        let counts = |user: &&User| user.samples >= SAMPLES && user.samples as f64 >= PART * all as f64;
        let users: Vec<User> = self.users.iter().filter(counts).copied().collect();
        let others = |user: &User| users.iter().filter(|of| of.worker != user.worker).copied().collect::<Vec<_>>();
        let at_once = |user: &&User| others(user).iter().any(|of| of.first < user.last && user.first < of.last);
        let users: Vec<User> = users.iter().filter(at_once).copied().collect();
        let is_own = users.iter().all(|user| others(user).iter().all(|of| of.bytes & user.bytes == 0));
        (users.len() > 1 && users.iter().any(|user| user.writes)).then_some((users, is_own))
    }
}

/// How workers share the lines of an object, if that costs enough. `run`: the cost of all data accesses, nanoseconds.
pub fn sharing(lines: &FxHashMap<LineAddress, CacheLine>, run: i64) -> Option<LineSharing> {
    let mut kinds = [Kind::default(), Kind::default()];
    let mut cost = [0, 0];
    for line in lines.values() {
        let Some((users, is_own)) = line.shared() else { continue };
        // Cold lines as well: where most are contended, a few of little use look false shared by chance.
        cost[usize::from(is_own)] += line.cost;
        if !is_own && ratio(line.cost as f64, run as f64) < HOT {
            continue;
        }
        let kind = &mut kinds[usize::from(is_own)];
        kind.lines += 1;
        kind.cost += line.cost;
        kind.threads.extend(users.iter().map(|user| user.worker));
        kind.writers.extend(users.iter().filter(|user| user.writes).map(|user| user.worker));
    }
    let is_own = cost[1] > cost[0];
    let of = &kinds[usize::from(is_own)];
    let cost_share = ratio(of.cost as f64, run as f64);
    (cost_share >= COSTLY).then(|| LineSharing {
        kind: if is_own { "false-sharing" } else { "contended" }.into(),
        lines: of.lines,
        line_bytes: LINE,
        threads: of.threads.len(),
        writers: of.writers.len(),
        cost_share,
        text: of.text(is_own),
    })
}

/// Lines that are shared in one way.
#[derive(Default)]
struct Kind {
    lines: u64,
    cost: i64,
    threads: FxHashSet<i32>,
    writers: FxHashSet<i32>,
}

impl Kind {
    fn text(&self, is_own: bool) -> String {
        let line = match self.lines {
            1 => format!("one cache line ({LINE} B)"),
            n => format!("the same cache lines ({n} of {LINE} B)"),
        };
        let (threads, writers) = (self.threads.len(), self.writers.len());
        let who = match threads == writers {
            true if is_own => format!("{threads} threads each write their own bytes of"),
            true => format!("{threads} threads write the same bytes of"),
            false => {
                let bytes = if is_own { "each use their own bytes" } else { "use the same bytes" };
                let verb = if writers == 1 { "writes" } else { "write" };
                format!("{threads} threads, of which {writers} {verb}, {bytes} of")
            }
        };
        match is_own {
            true => format!("false sharing: {who} {line}; pad each to {LINE} bytes"),
            false => {
                format!("contended: {who} {line}; let each thread work on its own copy, and combine them at the end")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each use: worker, first byte, whether it writes, samples, time of the first.
    fn said(uses: &[(i32, u64, bool, u64, i64)]) -> Option<String> {
        let mut lines: FxHashMap<LineAddress, CacheLine> = FxHashMap::default();
        let mut cost = 0;
        for &(worker, byte, writes, samples, time) in uses {
            for n in 0..samples {
                let access = if writes { Access::Write } else { Access::Read } as i32;
                let (addr, time) = (0x1000 + byte as i64, time + n as i64);
                let (thread, cpu, ip, bytes, rule, cost_of_one) = (worker, 0, 0, 8, 1, 10);
                let row = SampleRow {
                    time,
                    thread,
                    cpu,
                    ip,
                    addr,
                    bytes,
                    access,
                    rule,
                    cost: cost_of_one,
                    accesses: 1.0,
                    basis: -1,
                    memory: -1.0,
                };
                lines.entry(line_of(0, addr as u64)).or_default().add(worker, &row);
                cost += row.cost;
            }
        }
        sharing(&lines, cost).map(|of| of.text)
    }

    #[test]
    fn own_bytes_of_one_line_are_false_sharing() {
        let text = said(&[(0, 0, true, 2, 0), (0, 8, true, 2, 0), (1, 0, true, 100, 5), (2, 8, true, 90, 5)]);
        assert_eq!(
            text.as_deref(),
            Some("false sharing: 2 threads each write their own bytes of one cache line (64 B); pad each to 64 bytes")
        );
        let text = said(&[(1, 0, true, 100, 5), (2, 8, false, 90, 5), (3, 16, false, 90, 5)]).expect("one writes");
        assert!(text.starts_with("false sharing: 3 threads, of which 1 writes, each use their own bytes"), "{text}");
    }

    #[test]
    fn the_same_bytes_are_contended() {
        let text = said(&[(1, 0, true, 100, 5), (2, 0, true, 90, 5)]).expect("both write");
        assert!(text.starts_with("contended: 2 threads write the same bytes of one cache line (64 B)"), "{text}");
    }

    /// Each of 128 lines has less than 1 % of the cost.
    #[test]
    fn costs_that_are_spread_over_many_lines_are_not_contention() {
        let dealt_out = |apart: u64| -> Vec<_> {
            (0..128).flat_map(|n| [(1, n * 64, true, 10, 0), (2, n * 64 + apart, true, 10, 5)]).collect()
        };
        assert_eq!(said(&dealt_out(0)), None);
        let text = said(&dealt_out(8)).expect("each has its own bytes, also where that is of many lines");
        assert!(
            text.starts_with("false sharing: 2 threads each write their own bytes of the same cache lines (128"),
            "{text}"
        );
        // Nor are those false sharing in which by chance no byte was seen of two.
        let mut uses = dealt_out(0);
        uses.extend((128..150).flat_map(|n| [(1, n * 64, true, 10, 0), (2, n * 64 + 8, true, 10, 5)]));
        assert_eq!(said(&uses), None);
        // A hot line beside them is told alone.
        let mut uses = dealt_out(0);
        uses.extend([(1, 128 * 64, true, 200, 0), (2, 128 * 64, true, 200, 0)]);
        let text = said(&uses).expect("one line has a part of 400 in 2960 samples");
        assert!(text.starts_with("contended: 2 threads write the same bytes of one cache line (64 B)"), "{text}");
    }

    #[test]
    fn lines_without_sharing_are_not_named() {
        // Lines of their own, nobody writes, one after the other, and too few samples.
        assert_eq!(said(&[(1, 0, true, 100, 0), (2, 64, true, 100, 0)]), None);
        assert_eq!(said(&[(1, 0, false, 100, 0), (2, 8, false, 100, 0)]), None);
        assert_eq!(said(&[(1, 0, true, 100, 0), (2, 8, true, 100, 1000)]), None);
        assert_eq!(said(&[(1, 0, true, 100, 0), (2, 8, true, 4, 0)]), None);
    }
}
