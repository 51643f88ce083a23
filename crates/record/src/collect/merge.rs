//! Events of all rings, one after the other in the order of their time.
//!
//! ```text
//!   scan 1     ring 0: 3 4 9    ring 1: 1 5            each scan gives a batch, each ring in it a run that is in order already;
//!   scan 2     ring 0: 11 12    ring 2: 6 7 10         the runs' first events say which one goes on: 1, 3 4, 5, 6 7, 9, 10, ...
//! ```
//!
//! Events are written once, where the ring is read, and read once. Batches that are done with are filled again, so that the
//! memory stays that of what really waits, and in the processor's caches where that is little.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use numamma_wire::Event;

/// Batches with room for so many events in all are kept for later scans: for what busy programs do in a tenth of a second.
const KEPT_EVENTS: usize = 256 << 10;

/// An event of the library: a stamp when it is read, then its time in nanoseconds.
#[derive(Debug)]
struct Told {
    time: i64,
    event: Event,
}

/// What an event takes in memory, in events of the usual size.
pub fn weight(event: &Event) -> usize {
    match event {
        Event::Accesses { counts, memory, .. } => 1 + (counts.len() + memory.len()) / 8,
        Event::Stack { frames, .. } => 1 + frames.len() / 8,
        _ => 1,
    }
}

/// Events of one ring.
#[derive(Clone, Copy, Debug)]
struct Run {
    pid: i32,
    tid: i32,
    /// The first and the one behind the last, in the batch.
    start: usize,
    end: usize,
    /// What they weigh together.
    weight: usize,
}

/// What one scan of the rings has read.
#[derive(Debug, Default)]
pub struct Batch {
    events: Vec<Told>,
    runs: Vec<Run>,
    /// What the events weigh together, and those of runs that have ended.
    weight: usize,
    weight_of_runs: usize,
}

impl Batch {
    /// Adds an event of the ring that is being read; `stamp` by the segment's clock.
    pub fn push(&mut self, stamp: u64, event: Event) {
        self.weight += weight(&event);
        self.events.push(Told { time: stamp as i64, event });
    }

    /// The ring of that thread is read.
    pub fn end_run(&mut self, pid: i32, tid: i32) {
        let (start, end) = (self.runs.last().map_or(0, |run| run.end), self.events.len());
        if start < end {
            let weight = self.weight - std::mem::replace(&mut self.weight_of_runs, self.weight);
            self.runs.push(Run { pid, tid, start, end, weight });
        }
    }

    /// Makes times of the stamps. Those of a ring come in order.
    pub fn set_times(&mut self, mut time: impl FnMut(u64) -> i64) {
        for run in &self.runs {
            let mut latest = i64::MIN;
            for told in &mut self.events[run.start..run.end] {
                latest = time(told.time as u64).max(latest);
                told.time = latest;
            }
        }
    }

    /// What its events weigh together.
    pub fn weight(&self) -> usize {
        self.weight
    }

    fn clear(&mut self) {
        self.events.clear();
        self.runs.clear();
        (self.weight, self.weight_of_runs) = (0, 0);
    }

    /// Drops those of some empty batches whose memory would lie idle.
    pub fn trim(spare: &mut Vec<Self>) {
        let mut kept = 0;
        spare.retain(|batch| {
            kept += batch.events.capacity();
            kept <= KEPT_EVENTS
        });
    }
}

/// Where a run goes on. The least one is next; of equal times, what was read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    time: i64,
    number: u64,
    batch: usize,
    run: usize,
    at: usize,
}

/// A batch that has runs to go.
#[derive(Debug, Default)]
struct Held {
    batch: Batch,
    runs_left: usize,
}

/// All events that wait for their turn.
#[derive(Debug, Default)]
pub struct Merge {
    held: Vec<Held>,
    /// Indexes in `held` that nothing is at.
    free: Vec<usize>,
    heads: BinaryHeap<Reverse<Head>>,
    runs_added: u64,
    done: Vec<Batch>,
}

impl Merge {
    /// Adds what a later scan has read.
    pub fn add(&mut self, batch: Batch) {
        if batch.runs.is_empty() {
            self.keep(batch);
            return;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.held.push(Held::default());
            self.held.len() - 1
        });
        for (run, &Run { start, .. }) in batch.runs.iter().enumerate() {
            let (time, number) = (batch.events[start].time, self.runs_added);
            self.heads.push(Reverse(Head { time, number, batch: at, run, at: start }));
            self.runs_added += 1;
        }
        self.held[at] = Held { runs_left: batch.runs.len(), batch };
    }

    /// Batches to be filled again.
    pub fn done(&mut self) -> impl Iterator<Item = Batch> {
        self.done.drain(..)
    }

    /// What the events from before `limit` weigh together.
    pub fn weight_until(&self, limit: i64) -> usize {
        let before = |Reverse(head): &Reverse<Head>| {
            let batch = &self.held[head.batch].batch;
            let Run { start, end, weight: of_all, .. } = batch.runs[head.run];
            let rest = &batch.events[head.at..end];
            let count = rest.partition_point(|told| told.time < limit);
            // Where all are of the usual size, they need not be looked at.
            if of_all == end - start { count } else { rest[..count].iter().map(|told| weight(&told.event)).sum() }
        };
        self.heads.iter().map(before).sum()
    }

    /// Takes out all events from before `limit`: `each` is given time, process, thread and event.
    pub fn each_until(&mut self, limit: i64, mut each: impl FnMut(i64, i32, i32, &Event)) {
        while let Some(Reverse(head)) = self.heads.pop() {
            // It goes on until another run's turn comes.
            let (turn, after) =
                self.heads.peek().map_or((i64::MAX, u64::MAX), |Reverse(next)| (next.time, next.number));
            let batch = &self.held[head.batch].batch;
            let Run { pid, tid, end, .. } = batch.runs[head.run];
            let mut at = head.at;
            while at < end {
                let Told { time, event } = &batch.events[at];
                if *time >= limit || (*time, head.number) > (turn, after) {
                    break;
                }
                each(*time, pid, tid, event);
                at += 1;
            }
            if at == end {
                self.end_run(head.batch);
                continue;
            }
            let time = batch.events[at].time;
            self.heads.push(Reverse(Head { time, at, ..head }));
            if at == head.at {
                // Nothing is earlier than the first, and that has to wait.
                return;
            }
        }
    }

    fn end_run(&mut self, at: usize) {
        self.held[at].runs_left -= 1;
        if self.held[at].runs_left == 0 {
            let batch = std::mem::take(&mut self.held[at].batch);
            self.free.push(at);
            self.keep(batch);
        }
    }

    fn keep(&mut self, mut batch: Batch) {
        batch.clear();
        self.done.push(batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event that is known by a number.
    fn event(number: u64) -> Event {
        Event::Unfree { address: number }
    }

    fn batch(runs: &[(i32, &[(u64, u64)])]) -> Batch {
        let mut batch = Batch::default();
        for (tid, events) in runs {
            events.iter().for_each(|&(stamp, number)| batch.push(stamp, event(number)));
            batch.end_run(1, *tid);
        }
        batch.set_times(|stamp| stamp as i64);
        batch
    }

    fn taken(merge: &mut Merge, limit: i64) -> Vec<(i64, i32, u64)> {
        let mut taken = Vec::new();
        merge.each_until(limit, |time, _, tid, event| {
            let &Event::Unfree { address } = event else { unreachable!() };
            taken.push((time, tid, address));
        });
        taken
    }

    #[test]
    fn of_equal_times_what_was_read_first_comes_first() {
        let mut merge = Merge::default();
        merge.add(batch(&[(7, &[(5, 1), (5, 2), (9, 3)]), (8, &[(5, 4), (6, 5)])]));
        merge.add(batch(&[(7, &[(9, 6)]), (6, &[(5, 7)])]));
        assert_eq!(merge.weight_until(6), 4);
        assert_eq!(taken(&mut merge, 6), [(5, 7, 1), (5, 7, 2), (5, 8, 4), (5, 6, 7)]);
        assert_eq!(taken(&mut merge, 6), []);
        assert_eq!(taken(&mut merge, i64::MAX), [(6, 8, 5), (9, 7, 3), (9, 7, 6)]);
        assert_eq!((merge.done().count(), merge.weight_until(i64::MAX)), (2, 0));
    }

    #[test]
    fn an_event_weighs_what_it_takes_in_memory() {
        let accesses =
            |cells| Event::Accesses { address: 0, tid: 7, counts: vec![Default::default(); cells], memory: vec![] };
        let mut batch = Batch::default();
        for (at, of) in [(1, event(1)), (2, accesses(80)), (3, event(2)), (4, accesses(7))] {
            batch.push(at, of);
        }
        batch.end_run(1, 7);
        // Of a ring that had nothing, and of one with usual events.
        batch.end_run(1, 8);
        batch.push(2, event(3));
        batch.push(3, event(4));
        batch.end_run(1, 9);
        batch.set_times(|stamp| stamp as i64);
        assert_eq!(batch.weight(), 1 + 11 + 1 + 1 + 2);
        assert_eq!(weight(&Event::Stack { hash: 1, frames: vec![0; 120], cut: false }), 16);
        let mut merge = Merge::default();
        merge.add(batch);
        assert_eq!([1, 2, 3, 4, 5].map(|limit| merge.weight_until(limit)), [0, 1, 13, 15, 16]);
        let mut weights = Vec::new();
        merge.each_until(3, |_, _, _, event| weights.push(weight(event)));
        assert_eq!((weights, merge.weight_until(i64::MAX)), (vec![1, 11, 1], 3));
        merge.each_until(i64::MAX, |_, _, _, _| ());
        assert_eq!(merge.done().map(|batch| batch.weight()).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn idle_memory_is_given_back() {
        let with_room = |events| Batch { events: Vec::with_capacity(events), ..Batch::default() };
        let mut spare: Vec<Batch> = (0..100).map(|_| with_room(10_000)).chain([with_room(1_000_000)]).collect();
        Batch::trim(&mut spare);
        assert_eq!(spare.len(), KEPT_EVENTS / 10_000);
    }

    #[test]
    fn a_ring_stays_in_order_whatever_its_stamps_say() {
        let mut batch = batch(&[(1, &[(50, 1), (40, 2), (60, 3)])]);
        batch.set_times(|time| time as i64);
        let mut merge = Merge::default();
        merge.add(batch);
        assert_eq!(taken(&mut merge, i64::MAX), [(50, 1, 1), (50, 1, 2), (60, 1, 3)]);
    }

    #[test]
    fn it_is_the_order_of_a_stable_sort() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut number = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below
        };
        let (mut merge, mut waiting, mut told) = (Merge::default(), Vec::new(), 0);
        let mut clocks = [0_u64; 9];
        for scan in 0..400_u64 {
            let mut batch = merge.done().next().unwrap_or_default();
            for (tid, clock) in clocks.iter_mut().enumerate() {
                *clock = (*clock).max(scan * 50);
                for _ in 0..number(40) {
                    *clock += number(4);
                    told += 1;
                    batch.push(*clock, event(told));
                    waiting.push((*clock as i64, tid as i32, told));
                }
                batch.end_run(1, tid as i32);
            }
            batch.set_times(|stamp| stamp as i64);
            merge.add(batch);
            waiting.sort_by_key(|(time, ..)| *time);
            let limit = if scan % 7 == 0 { 0 } else { scan as i64 * 50 - 60 };
            let ready = waiting.partition_point(|(time, ..)| *time < limit);
            assert_eq!(merge.weight_until(limit), ready);
            assert_eq!(taken(&mut merge, limit), waiting.drain(..ready).collect::<Vec<_>>());
        }
        assert_eq!(taken(&mut merge, i64::MAX), waiting);
        assert!(told > 50_000 && merge.held.len() < 40, "{told} events, {} batches at once", merge.held.len());
    }
}
