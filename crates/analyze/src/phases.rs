//! Parts of a run in which memory is used differently: those that the program announces, else the parts in which one thread works and
//! those in which several do.

use numamma_findings::PhaseUse;
use numamma_trace::{MarkerRow, Meta};
use rustc_hash::FxHashMap;

/// Moments that a run is cut into, to see which threads work when.
const MOMENTS: usize = 256;
/// One thread works alone if it has that part of the work of a moment.
const ALONE: f64 = 0.95;

/// The phases of a run.
#[derive(Debug)]
pub struct Phases {
    start: i64,
    /// Nanoseconds of a moment.
    moment: i64,
    /// Phases that the program announced: when each begins.
    announced: Vec<(i64, usize)>,
    names: Vec<String>,
    /// Phase of each moment; empty where the program announces them.
    of_moment: Vec<usize>,
    /// Nanoseconds of work by moment and thread.
    work: Vec<FxHashMap<i32, i64>>,
    /// Nanoseconds of work by phase and thread.
    busy: Vec<Vec<i64>>,
    end: i64,
}

impl Phases {
    /// Of a run; [`Self::add`] its samples and [`Self::finish`].
    pub fn new(meta: &Meta, markers: &[MarkerRow], threads: usize) -> Self {
        let (start, end) = (meta.start, meta.end.max(meta.start + 1));
        let mut names: Vec<String> = Vec::new();
        let mut announced = Vec::new();
        if !markers.is_empty() {
            names.push(String::new());
            for marker in markers {
                let phase = names.iter().position(|name| *name == marker.name).unwrap_or_else(|| {
                    names.push(marker.name.clone());
                    names.len() - 1
                });
                announced.push((marker.time, phase));
            }
            announced.sort_by_key(|(time, _)| *time);
        }
        Self {
            start,
            moment: ((end - start) / MOMENTS as i64).max(1),
            announced,
            busy: vec![vec![0; threads]; names.len().max(2)],
            names,
            of_moment: Vec::new(),
            work: vec![FxHashMap::default(); MOMENTS + 1],
            end,
        }
    }

    /// Work of a thread, at a time.
    pub fn add(&mut self, time: i64, thread: i32, nanoseconds: i64) {
        if self.names.is_empty() {
            let moment = self.moment(time);
            *self.work[moment].entry(thread).or_default() += nanoseconds;
        } else {
            let phase = self.of(time);
            self.spend(phase, thread, nanoseconds);
        }
    }

    fn spend(&mut self, phase: usize, thread: i32, nanoseconds: i64) {
        if let Some(busy) = self.busy[phase].get_mut(thread.max(0) as usize) {
            *busy += nanoseconds;
        }
    }

    fn moment(&self, time: i64) -> usize {
        (((time - self.start) / self.moment).max(0) as usize).min(MOMENTS)
    }

    /// Tells parts with one working thread from others, where the program announced nothing.
    pub fn finish(&mut self) {
        if !self.names.is_empty() {
            return;
        }
        let work = std::mem::take(&mut self.work);
        let mut last = 0;
        let parallel = |of: &FxHashMap<i32, i64>| {
            let all: i64 = of.values().sum();
            let most = of.values().copied().max().unwrap_or(0);
            (most as f64) < ALONE * all as f64
        };
        self.of_moment = work
            .iter()
            .map(|of| {
                // A moment without work is of the phase before it.
                last = if of.is_empty() { last } else { usize::from(parallel(of)) };
                last
            })
            .collect();
        for (moment, of) in work.into_iter().enumerate() {
            of.into_iter().for_each(|(thread, time)| self.spend(self.of_moment[moment], thread, time));
        }
    }

    /// The phase of a time: an index of [`Self::uses`].
    pub fn of(&self, time: i64) -> usize {
        match self.of_moment.get(self.moment(time)) {
            Some(&phase) => phase,
            None => match self.announced.partition_point(|(begins, _)| *begins <= time) {
                0 => 0,
                n => self.announced[n - 1].1,
            },
        }
    }

    /// Seconds that a thread worked, in all phases.
    pub fn busy_s(&self, thread: i32) -> f64 {
        self.busy.iter().filter_map(|of| of.get(thread.max(0) as usize)).sum::<i64>() as f64 / 1e9
    }

    /// All phases.
    pub fn uses(&self) -> Vec<PhaseUse> {
        let names = match self.names.is_empty() {
            // Counts do not tell which threads work when.
            true if self.busy.iter().flatten().all(|&time| time == 0) => vec!["whole run".to_owned()],
            true => vec!["one thread works".to_owned(), "several threads work".to_owned()],
            false => self
                .names
                .iter()
                .map(|name| if name.is_empty() { "outside".to_owned() } else { name.clone() })
                .collect(),
        };
        let wall = self.wall();
        let uses = names.into_iter().zip(&self.busy).zip(wall);
        uses.map(|((name, busy), wall)| PhaseUse {
            name,
            wall_s: wall as f64 / 1e9,
            busy_s: busy.iter().map(|&time| time as f64 / 1e9).collect(),
        })
        .collect()
    }

    /// Nanoseconds of each phase.
    fn wall(&self) -> Vec<i64> {
        let mut wall = vec![0; self.busy.len()];
        if self.of_moment.is_empty() {
            let begins = std::iter::once((self.start, 0)).chain(self.announced.iter().copied());
            let ends = self.announced.iter().map(|(time, _)| *time).chain([self.end]);
            begins.zip(ends).for_each(|((from, phase), to)| wall[phase] += (to - from).max(0));
        } else {
            self.of_moment.iter().take(MOMENTS).for_each(|&phase| wall[phase] += self.moment);
        }
        wall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn meta() -> Meta {
        Meta { start: 0, end: 10 * SECOND, ..Meta::default() }
    }

    fn marker(time: i64, name: &str) -> MarkerRow {
        MarkerRow { time, thread: 0, name: name.into() }
    }

    #[test]
    fn a_serial_part_is_a_phase() {
        let mut phases = Phases::new(&meta(), &[], 2);
        (0..1000).for_each(|n| phases.add(n * SECOND / 100, 0, SECOND / 100));
        (400..1000).for_each(|n| phases.add(n * SECOND / 100, 1, SECOND / 100));
        phases.finish();
        let uses = phases.uses();
        assert!((uses[0].wall_s - 4.0).abs() < 0.1 && (uses[1].wall_s - 6.0).abs() < 0.1, "{uses:?}");
        assert!(uses[0].busy_s[1] < 0.1 && (uses[1].busy_s[1] - 6.0).abs() < 0.1, "{uses:?}");
        assert_eq!((phases.of(SECOND), phases.of(9 * SECOND)), (0, 1));
        assert!((phases.busy_s(0) - 10.0).abs() < 1e-6);
    }

    #[test]
    fn announced_phases_return() {
        let markers = [marker(SECOND, "a"), marker(2 * SECOND, "b"), marker(3 * SECOND, "a"), marker(4 * SECOND, "")];
        let mut phases = Phases::new(&meta(), &markers, 1);
        phases.add(5 * SECOND / 2, 0, SECOND);
        phases.finish();
        let uses = phases.uses();
        let named: Vec<(&str, f64)> = uses.iter().map(|of| (of.name.as_str(), of.wall_s)).collect();
        assert_eq!(named, [("outside", 7.0), ("a", 2.0), ("b", 1.0)]);
        assert_eq!(uses[2].busy_s, [1.0]);
        assert_eq!((phases.of(0), phases.of(SECOND), phases.of(7 * SECOND / 2)), (0, 1, 1));
    }
}
