//! How far shares of accesses may be off.
//!
//! ```text
//!   basis 7: this loop ran 2.1 G times, +- 1 %         every row of its instructions is off by the same part
//!   instruction a: 800 rows, 300 of them in object x    which object it accessed is drawn like balls from an urn
//!   instruction b: no basis                            its count follows from its time, which may be off by far
//! ```
//!
//! With W all weight, s the object's share and e a basis's relative error, of one loop in all threads:
//!
//! ```text
//!   Var(s) W^2 = sum over loops and trace windows ((W_object,loop - s W_loop) e)^2
//!              + sum over instructions W_i^2 p (1 - p) / n            p: part of the n rows that are in the object
//!              + sum over instructions ((U_object,i - s U_i) E)^2      U: weight without a basis, E its relative error
//! ```
//!
//! Three things more may be wrong, and far from linearly:
//!
//! - How fast the code of a region group of trace windows is may be off by a factor, the same for all of them. So s is computed once more for each region group,
//!   with as many accesses more, or fewer, as a normal distribution of the logarithm has in its 95 %.
//! - The time of instructions without a basis is one assumption for all of them. So s is computed once more with all U larger, and
//!   smaller, by what that may be off ([`GUESS_UP`], [`GUESS_DOWN`]).
//! - Accesses that no sample saw (`sampler.unseen`) may all be in the object, or all elsewhere.
//!
//! Their distances from s and the half-width of the above add up as squares, with what no sample tells of: how far s is off if the object's
//! code is faster or slower than it is taken to be ([`SPEED`]), if an instruction is faster on one object than on another ([`MIXED_SPEED`]),
//! and how far it is from the object's share of the time.

use numamma_trace::{BasisRow, Dataset};
use rustc_hash::FxHashMap;

use crate::counters::{Count, Counters};
use crate::groups::GroupId;

/// Relative standard error of a count that follows from time alone.
const WITHOUT_BASIS: f64 = 0.7;
/// Counts from time alone may be so many times too small, all of them: code is taken to run no faster than a sampled loop, or at
/// one instruction a nanosecond where it is seldom sampled; the fastest loops take a quarter of that.
const GUESS_UP: f64 = 4.0;
/// But for code in a cache, which is faster by far: a thread may make so many accesses in a nanosecond (two loads a cycle, which processors of
/// the last ten years have ports for, at 3 GHz).
const FASTEST: f64 = 6.0;
/// And so many times too large: code that waits for memory is taken to make an access in 3 ns, and may make one in 50.
const GUESS_DOWN: f64 = 1.0 / 16.0;
/// The code that accesses an object may be so many times as fast beside other code as it is taken to be. Fitted on random programs of even
/// seeds (`make judge JUDGE=--even`).
const SPEED: f64 = 2.0;
/// An instruction that accesses several objects, one after the other, may be so many times as fast on one as on another: one lies in a
/// cache, another in memory. Its samples tell of time.
const MIXED_SPEED: f64 = 8.0;
/// A share that may be off by more is no finding.
const MOST_ERROR: f64 = 0.25;
/// At least that part of the accesses must have a basis.
const LEAST_BASIS: f64 = 0.9;
/// Reports state nothing of which less than half has a basis.
const UNSTATED: f64 = 0.49;
/// Half-width of a 95 % interval in standard errors.
pub(crate) const Z: f64 = 1.959_963_984_540_054;

/// Sources of the errors of shares.
#[derive(Debug, Default)]
pub struct Accuracy {
    /// All accesses.
    weight: f64,
    /// By basis: what it is off by together with others, a loop or a trace window, and the region group of a trace window.
    causes: FxHashMap<i32, (Cause, Option<Cause>)>,
    /// Relative errors of loops and trace windows.
    errors: FxHashMap<Cause, f64>,
    /// Factors by which region groups may be off.
    factors: FxHashMap<Cause, f64>,
    /// Weight on each of all these.
    on: FxHashMap<Cause, f64>,
    /// Of loops and trace windows: squares of what is wrong with all accesses.
    wrong: f64,
    /// Of region groups: squares of what a share without any of it may be off by, as a part of it.
    diluted: f64,
    /// Of all instructions: squares of their weight without a basis.
    without_basis: f64,
    /// Accesses that no row stands for, as a standard error.
    unseen: f64,
    groups: FxHashMap<GroupId, Group>,
}

/// An error of counts, the same part of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Cause {
    /// How often a loop ran, by the address of its first instruction.
    Loop(i64),
    /// That a trace window was taken at all, by its basis.
    TraceWindow(i32),
    /// How fast the code of a region group is.
    RegionGroup(i32),
}

/// Sums over the instructions that access a group.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    drawn: f64,
    /// How far its accesses would be off, were each instruction faster or slower on it than on other objects.
    mixed: f64,
    /// Of `u_object^2`, `u_object * u` and `u^2`.
    own: f64,
    both: f64,
    all: f64,
}

impl Accuracy {
    /// From a recording whose counts were estimated; `None` where they are in units of samples, or exact.
    pub fn of(dataset: &Dataset, counters: &Counters, bases: &[BasisRow]) -> Option<Self> {
        // Some recordings of the exact sampler say that none of their samples had a basis.
        if counters.exact || dataset.meta().sampler.counted.is_none() {
            return None;
        }
        let unseen = dataset.meta().sampler.unseen.max(0.0);
        let mut accuracy = Accuracy { weight: counters.data.accesses(), unseen, ..Accuracy::default() };
        for row in bases {
            let cause = if row.ip < 0 { Cause::TraceWindow(row.basis) } else { Cause::Loop(row.ip) };
            let region_group = (row.region_group >= 0).then_some(Cause::RegionGroup(row.region_group));
            accuracy.causes.insert(row.basis, (cause, region_group));
            let error = accuracy.errors.entry(cause).or_default();
            *error = error.max(row.error);
            if let Some(region_group) = region_group {
                let factor = accuracy.factors.entry(region_group).or_insert(1.0);
                *factor = factor.max((Z * row.region_group_error).exp());
            }
        }
        for group in &counters.groups {
            for (of, weight) in accuracy.by_cause(&group.bases) {
                *accuracy.on.entry(of).or_default() += weight;
            }
        }
        accuracy.sum_up();
        for by_group in counters.code.values() {
            accuracy.instruction(by_group);
        }
        Some(accuracy)
    }

    /// Sums over all causes, which have their weight.
    fn sum_up(&mut self) {
        self.wrong = self.on.iter().map(|(cause, all)| (all * self.error_of(cause)).powi(2)).sum();
        self.diluted = self.on.keys().map(|cause| self.off_by_region_group(cause, 0.0, self.weight, 1.0).powi(2)).sum();
    }

    /// Relative standard error of what a loop or a trace window tells.
    fn error_of(&self, cause: &Cause) -> f64 {
        match cause {
            Cause::RegionGroup(_) => 0.0,
            Cause::Loop(_) | Cause::TraceWindow(_) => self.errors.get(cause).copied().unwrap_or(WITHOUT_BASIS),
        }
    }

    fn instruction(&mut self, by_group: &FxHashMap<Option<GroupId>, Count>) {
        let drawn = |count: &Count| count.accesses() - count.followed;
        let weight: f64 = by_group.values().map(drawn).sum();
        let rows: u64 = by_group.values().map(|count| count.rows).sum();
        let without_basis: f64 = by_group.values().map(|count| count.without_basis).sum();
        self.without_basis += without_basis * without_basis;
        self.mix(by_group);
        if weight <= 0.0 || rows == 0 {
            return;
        }
        for (group, count) in by_group {
            let Some(group) = group else { continue };
            let sums = self.groups.entry(*group).or_default();
            let part = drawn(count) / weight;
            sums.drawn += weight * weight * part * (1.0 - part) / rows as f64;
            sums.own += count.without_basis * count.without_basis;
            sums.both += count.without_basis * without_basis;
            sums.all += without_basis * without_basis;
        }
    }

    /// Of several objects, samples of an instruction tell how much of its time it spent with each.
    fn mix(&mut self, by_group: &FxHashMap<Option<GroupId>, Count>) {
        let weight: f64 = by_group.values().map(Count::accesses).sum();
        for (group, count) in by_group {
            let Some(group) = group.filter(|_| weight > 0.0) else { continue };
            self.groups.entry(group).or_default().mixed +=
                weight * off_by_speed(count.accesses() / weight, MIXED_SPEED);
        }
    }

    /// Weight by what may be wrong with it. The counters of all threads tell of one loop's rounds, so what is wrong there is wrong in
    /// all of them.
    fn by_cause(&self, bases: &FxHashMap<i32, f64>) -> FxHashMap<Cause, f64> {
        let mut by_cause = FxHashMap::default();
        for (basis, weight) in bases {
            // A recording that was cut short has no table of bases.
            let (cause, region_group) = self.causes.get(basis).copied().unwrap_or((Cause::Loop(0), None));
            *by_cause.entry(cause).or_default() += weight;
            region_group.into_iter().for_each(|region_group| *by_cause.entry(region_group).or_default() += weight);
        }
        by_cause
    }

    /// Half-width of the 95 % interval of a group's share.
    pub fn error(&self, group: GroupId, counters: &Counters) -> Option<f64> {
        let of = &counters.groups[group as usize];
        if self.weight <= 0.0 {
            return None;
        }
        let share = of.all.accesses() / self.weight;
        let sums = self.groups.get(&group).copied().unwrap_or_default();
        let own = self.by_cause(&of.bases);
        // The sum over all causes, of which there may be many more than the group has: ((own - share all) e)^2, where own is 0 for most.
        let bases: f64 = own
            .iter()
            .map(|(cause, own)| {
                let all = share * self.on.get(cause).copied().unwrap_or(0.0);
                ((own - all).powi(2) - all * all) * self.error_of(cause).powi(2)
            })
            .sum();
        let bases = (share * share * self.wrong + bases).max(0.0);
        // Instructions that do not touch the group change its share too.
        let without_basis = sums.own - 2.0 * share * sums.both + share * share * self.without_basis;
        let variance = bases + sums.drawn + without_basis.max(0.0) * WITHOUT_BASIS * WITHOUT_BASIS;
        let half = Z * variance.sqrt() / self.weight;
        let of_without_basis = Part { own: of.all.without_basis, all: counters.data.without_basis };
        let up =
            (counters.data.without_basis_cost as f64 * FASTEST / counters.data.without_basis.max(1.0)).max(GUESS_UP);
        let whole = Part { own: of.all.accesses(), all: self.weight };
        let guess = off(of_without_basis, whole, share, [up, GUESS_DOWN]);
        let unseen = Z * self.unseen;
        let unseen = share.max(1.0 - share) * unseen / (self.weight + unseen);
        // Of a share, nothing is farther away than 0 and 1.
        let region_groups = self.off_by_region_groups(&own, of.all.accesses(), share);
        let estimate = half.hypot(guess).hypot(region_groups).hypot(unseen);
        // What no number above tells of: other code may be faster, one object may lie in a cache and another in memory. And where a share
        // of the accesses is far from that of the time, much rests on how fast code is.
        let of_time = crate::statistics::ratio(of.all.cost as f64, counters.data.cost as f64);
        let mixed = sums.mixed / self.weight;
        // Rounds that an induction variable counted do not rest on time.
        let apart = if counters.data.followed > 0.0 && counters.data.cost > 0 { share - of_time } else { 0.0 };
        let speed = off_by_speed(share, SPEED).hypot(mixed).hypot(apart);
        Some(estimate.hypot(speed).min(share.max(1.0 - share)))
    }

    /// How far a share is off if one region group after the other is faster or slower than it is taken to be. `own`: the group's weight by
    /// cause; `own_all`: all of it.
    fn off_by_region_groups(&self, own: &FxHashMap<Cause, f64>, own_all: f64, share: f64) -> f64 {
        // The group has no part of most region groups, of which there may be many.
        let of_own = own.iter().map(|(region_group, &own)| {
            let off = |own, own_all, share| self.off_by_region_group(region_group, own, own_all, share).powi(2);
            off(own, own_all, share) - share * share * off(0.0, self.weight, 1.0)
        });
        (share * share * self.diluted + of_own.sum::<f64>()).max(0.0).sqrt()
    }

    fn off_by_region_group(&self, region_group: &Cause, own: f64, own_all: f64, share: f64) -> f64 {
        let Some(&factor) = self.factors.get(region_group) else { return 0.0 };
        let all = self.on.get(region_group).copied().unwrap_or(0.0);
        off(Part { own, all }, Part { own: own_all, all: self.weight }, share, [factor, factor.recip()])
    }

    /// True if a group's share is stated: it has a basis, and its error is small enough.
    fn is_stated(&self, group: GroupId, counters: &Counters) -> bool {
        self.basis(group, counters) >= LEAST_BASIS
            && self.error(group, counters).is_some_and(|error| error <= MOST_ERROR)
    }

    /// [`Self::basis`]; where a share is no finding, less than what a report states.
    pub fn stated_basis(&self, group: GroupId, counters: &Counters) -> f64 {
        let basis = self.basis(group, counters);
        if self.is_stated(group, counters) { basis } else { basis.min(UNSTATED) }
    }

    /// The part (0..1) of what a group's share rests on that has a basis: of its accesses, or of all accesses if that is less. A
    /// known number of unknown ones is no share.
    fn basis(&self, group: GroupId, counters: &Counters) -> f64 {
        let of = &counters.groups[group as usize];
        let own = crate::statistics::ratio(of.bases.values().sum(), of.all.accesses());
        own.min(crate::statistics::ratio(self.weight - counters.data.without_basis, self.weight))
    }
}

/// Of accesses: those of a group, and those of all.
#[derive(Clone, Copy, Debug)]
struct Part {
    own: f64,
    all: f64,
}

/// How far a share is off if a part of the accesses, of which the group has its own, is too small or too large by one of two factors.
fn off(part: Part, whole: Part, share: f64, factors: [f64; 2]) -> f64 {
    let with = |factor: f64| {
        let all = whole.all + (factor - 1.0) * part.all;
        if all > 0.0 { (whole.own + (factor - 1.0) * part.own) / all } else { share }
    };
    factors.map(|factor| (with(factor) - share).abs()).into_iter().fold(0.0, f64::max)
}

/// How far a share is off if what has it is so many times as fast beside the rest as it is taken to be, or as slow.
fn off_by_speed(share: f64, factor: f64) -> f64 {
    let with = |factor: f64| share * factor / (share * factor + 1.0 - share);
    (with(factor) - share).max(share - with(factor.recip()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::GroupCount;

    fn count(reads: f64, rows: u64, without_basis: f64) -> Count {
        Count { reads, rows, without_basis, ..Count::default() }
    }

    /// Two objects; instruction 1 reads the first only, on basis 0, instruction 2 both alike, without a basis.
    fn counters() -> Counters {
        let group = |reads: f64, basis: f64| {
            let mut group = GroupCount::default();
            group.all = count(reads, 0, reads - basis);
            group.bases.extend((basis > 0.0).then_some((0, basis)));
            group
        };
        let code = [
            ((0, 1), [(Some(0), count(100.0, 50, 0.0))].into_iter().collect()),
            ((0, 2), [(Some(0), count(50.0, 100, 50.0)), (Some(1), count(50.0, 100, 50.0))].into_iter().collect()),
        ];
        Counters {
            groups: vec![group(150.0, 100.0), group(50.0, 0.0)],
            data: count(200.0, 0, 100.0),
            code: code.into_iter().collect(),
            ..Counters::default()
        }
    }

    fn accuracy(counters: &Counters) -> Accuracy {
        let mut accuracy = Accuracy {
            weight: 200.0,
            causes: [(0, (Cause::Loop(0x40), None))].into_iter().collect(),
            errors: [(Cause::Loop(0x40), 0.1)].into_iter().collect(),
            on: [(Cause::Loop(0x40), 100.0)].into_iter().collect(),
            wrong: 100.0,
            ..Accuracy::default()
        };
        counters.code.values().for_each(|by_group| accuracy.instruction(by_group));
        accuracy
    }

    #[test]
    fn the_error_adds_up_what_may_be_wrong() {
        let counters = counters();
        let accuracy = accuracy(&counters);
        // s = 3/4. Basis: ((100 - 75) / 10)^2; drawn: 100^2 / 4 / 200; without_basis: ((50 - 75) * 0.7)^2.
        let linear = Z * (2.5_f64.powi(2) + 12.5 + 17.5_f64.powi(2)).sqrt() / 200.0;
        // Four times as many without a basis: 300 of 500. A sixteenth: 103.125 of 106.25, which is farther away.
        let guess = 103.125 / 106.25 - 0.75;
        // Twice as fast or as slow as it is taken to be. Instruction 2 eight times as fast on one of two objects: 8/9 of 100 accesses, not 1/2.
        let speed = off_by_speed(0.75, SPEED).hypot((8.0 / 9.0 - 0.5) * 100.0 / 200.0);
        let expected = linear.hypot(guess).hypot(speed);
        let error = accuracy.error(0, &counters).unwrap();
        assert!((error - expected).abs() < 1e-12, "{error} {expected}");
        // The other share is 1 - s, and so is as far off.
        let other = accuracy.error(1, &counters).unwrap();
        assert!((other - expected).abs() < 1e-12, "{other} {expected}");
        // Two of three, but of all accesses one of two.
        assert_eq!(accuracy.basis(0, &counters), 0.5);
        assert_eq!(accuracy.basis(1, &counters), 0.0);
    }

    /// A small array that lies in a cache took 2 % of the time, without a basis, and had a quarter of the accesses.
    #[test]
    fn little_time_may_be_many_accesses() {
        let error = |cost: i64| {
            let group = |reads: f64| {
                let mut group = GroupCount::default();
                group.all = count(reads, 0, 0.0);
                group
            };
            let counters = Counters {
                groups: vec![group(160e6), group(3e6)],
                data: Count { without_basis_cost: cost, ..count(163e6, 0, 3e6) },
                ..Counters::default()
            };
            let accuracy = Accuracy { weight: 163e6, ..Accuracy::default() };
            accuracy.error(0, &counters).unwrap()
        };
        // Six accesses in a nanosecond: 160 of 160 + 270.
        assert!(error(45_000_000) > 0.5, "{}", error(45_000_000));
        assert!(error(100_000) < 0.15, "{}", error(100_000));
    }

    /// One function goes over a large array, slowly, and a small one, fast: 88 % of its time is with the large one, of its accesses 50 %.
    #[test]
    fn time_within_an_instruction_is_no_count() {
        let group = |reads: f64| {
            let mut group = GroupCount::default();
            group.all = Count { cost: reads as i64, ..count(reads, 0, 0.0) };
            group.bases.insert(0, reads);
            group
        };
        let alone = |group: GroupId, reads: f64| {
            ((0, 8 + i64::from(group)), [(Some(group), count(reads, 50, 0.0))].into_iter().collect())
        };
        let both = [(Some(0), count(88.0, 88, 0.0)), (Some(1), count(12.0, 12, 0.0))].into_iter().collect();
        type Code = ((i32, i64), FxHashMap<Option<GroupId>, Count>);
        let stated = |code: Vec<Code>| {
            let counters = Counters {
                groups: vec![group(88.0), group(12.0)],
                data: Count { cost: 100, ..count(100.0, 0, 0.0) },
                code: code.into_iter().collect(),
                ..Counters::default()
            };
            let mut accuracy = Accuracy {
                weight: 100.0,
                causes: [(0, (Cause::Loop(0x40), None))].into_iter().collect(),
                errors: [(Cause::Loop(0x40), 0.01)].into_iter().collect(),
                on: [(Cause::Loop(0x40), 100.0)].into_iter().collect(),
                wrong: 1.0,
                ..Accuracy::default()
            };
            counters.code.values().for_each(|by_group| accuracy.instruction(by_group));
            accuracy.is_stated(0, &counters)
        };
        assert!(stated(vec![alone(0, 88.0), alone(1, 12.0)]));
        assert!(!stated(vec![((0, 8), both)]));
    }

    #[test]
    fn what_no_sample_saw_may_be_in_any_object() {
        let counters = counters();
        let mut accuracy = accuracy(&counters);
        let before = accuracy.error(1, &counters).unwrap();
        accuracy.unseen = 10.0;
        // All of it elsewhere makes 3/4 of 200 accesses less than if all were in it.
        let expected = before.hypot(0.75 * 10.0 * Z / (200.0 + 10.0 * Z));
        assert!((accuracy.error(1, &counters).unwrap() - expected).abs() < 1e-12);
        accuracy.unseen = 1e9;
        assert_eq!(accuracy.error(1, &counters), Some(0.75), "a share is between 0 and 1");
    }

    #[test]
    fn threads_that_share_a_loop_share_its_error() {
        let mut accuracy = Accuracy::default();
        let of = |address| (Cause::Loop(address), None);
        accuracy.causes.extend([(0, of(0x40)), (1, of(0x40)), (2, of(0x80))]);
        let bases = [(0, 1.0), (1, 2.0), (2, 4.0)].into_iter().collect();
        let by_cause = accuracy.by_cause(&bases);
        assert_eq!((by_cause[&Cause::Loop(0x40)], by_cause[&Cause::Loop(0x80)]), (3.0, 4.0));
    }

    /// A region group that all is of may be off by any part: shares are not.
    #[test]
    fn what_is_wrong_with_a_region_group_is_wrong_with_all_of_it() {
        let error = |group_of_second: i32| {
            let mut counters = counters();
            for (number, (group, weight)) in counters.groups.iter_mut().zip([150.0, 50.0]).enumerate() {
                group.bases = [(number as i32, weight)].into_iter().collect();
                group.all.without_basis = 0.0;
            }
            counters.data.without_basis = 0.0;
            let causes = [
                (0, (Cause::TraceWindow(0), Some(Cause::RegionGroup(0)))),
                (1, (Cause::TraceWindow(1), Some(Cause::RegionGroup(group_of_second)))),
            ];
            let mut accuracy = Accuracy { weight: 200.0, causes: causes.into_iter().collect(), ..Accuracy::default() };
            accuracy.factors = [(Cause::RegionGroup(0), 2.0), (Cause::RegionGroup(1), 2.0)].into_iter().collect();
            for group in &counters.groups {
                for (cause, weight) in accuracy.by_cause(&group.bases) {
                    *accuracy.on.entry(cause).or_default() += weight;
                }
            }
            // That of the trace windows themselves is left out here.
            accuracy.errors.extend([(Cause::TraceWindow(0), 0.0), (Cause::TraceWindow(1), 0.0)]);
            accuracy.sum_up();
            accuracy.error(0, &counters).unwrap()
        };
        let speed = off_by_speed(0.75, SPEED);
        assert!((error(0) - speed).abs() < 1e-12, "{}", error(0));
        // Half as many in the first are 75 of 125; twice as many in the second leave it 150 of 250.
        let expected = 0.15_f64.hypot(0.15).hypot(speed);
        assert!((error(1) - expected).abs() < 1e-12, "{}", error(1));
    }

    /// Of 150 accesses in one region group and 50 in another, which may be four times as fast.
    #[test]
    fn a_region_group_may_be_off_by_a_factor() {
        let mut accuracy = Accuracy {
            weight: 200.0,
            on: [(Cause::RegionGroup(0), 150.0), (Cause::RegionGroup(1), 50.0)].into_iter().collect(),
            factors: [(Cause::RegionGroup(0), 1.0), (Cause::RegionGroup(1), 4.0)].into_iter().collect(),
            ..Accuracy::default()
        };
        accuracy.sum_up();
        let off = |own: &[(Cause, f64)], share| {
            accuracy.off_by_region_groups(&own.iter().copied().collect(), own.iter().map(|(_, own)| own).sum(), share)
        };
        assert!((off(&[(Cause::RegionGroup(0), 150.0)], 0.75) - (0.75 - 150.0 / 350.0)).abs() < 1e-12);
        assert!((off(&[(Cause::RegionGroup(1), 50.0)], 0.25) - (200.0 / 350.0 - 0.25)).abs() < 1e-12);
        // What has its part of both is off by nothing.
        assert!(off(&[(Cause::RegionGroup(0), 15.0), (Cause::RegionGroup(1), 5.0)], 0.1) < 1e-12);
    }
}
