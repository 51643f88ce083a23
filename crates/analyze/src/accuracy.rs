//! How far shares of accesses may be off.
//!
//! ```text
//!   ground 7: this loop ran 2.1 G times, +- 1 %         every row of its instructions is off by the same part
//!   instruction a: 800 rows, 300 of them in object x    which object it accessed is drawn like balls from an urn
//!   instruction b: no ground                            its count follows from its time, which may be off by far
//! ```
//!
//! With W all weight, s the object's share and e a ground's relative error:
//!
//! ```text
//!   Var(s) W^2 = sum over grounds ((W_object,ground - s W_ground) e)^2
//!              + sum over instructions W_i^2 p (1 - p) / n            p: part of the n rows that are in the object
//!              + sum over instructions ((U_object,i - s U_i) E)^2      U: weight without ground, E its relative error
//! ```

use numamma_trace::{Dataset, GroundRow, TraceError};
use rustc_hash::FxHashMap;

use crate::counters::{Count, Counters};
use crate::groups::GroupId;

/// Relative standard error of a count that follows from time alone.
const GROUNDLESS: f64 = 0.7;
/// Half-width of a 95 % interval in standard errors.
const Z: f64 = 1.959_963_984_540_054;

/// What the errors of shares follow from.
#[derive(Debug, Default)]
pub struct Accuracy {
    /// All accesses.
    weight: f64,
    /// Relative errors of grounds.
    grounds: FxHashMap<i32, f64>,
    /// Weight on each ground.
    on: FxHashMap<i32, f64>,
    /// Of all instructions: squares of their weight without ground.
    groundless: f64,
    groups: FxHashMap<GroupId, Group>,
}

/// Sums over the instructions that access a group.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    drawn: f64,
    /// Of `u_object^2`, `u_object * u` and `u^2`.
    own: f64,
    both: f64,
    all: f64,
}

impl Accuracy {
    /// From a recording whose counts were estimated; `None` where they are in units of samples, or exact.
    pub fn of(dataset: &Dataset, counters: &Counters) -> Result<Option<Self>, TraceError> {
        if dataset.meta().sampler.counted.is_none() {
            return Ok(None);
        }
        let mut accuracy = Accuracy { weight: counters.data.accesses(), ..Accuracy::default() };
        accuracy.grounds = dataset.read::<GroundRow>()?.into_iter().map(|row| (row.ground, row.error)).collect();
        for group in &counters.groups {
            for (&ground, weight) in &group.grounds {
                *accuracy.on.entry(ground).or_default() += weight;
            }
        }
        for by_group in counters.code.values() {
            accuracy.instruction(by_group);
        }
        Ok(Some(accuracy))
    }

    fn instruction(&mut self, by_group: &FxHashMap<Option<GroupId>, Count>) {
        let weight: f64 = by_group.values().map(Count::accesses).sum();
        let rows: u64 = by_group.values().map(|count| count.rows).sum();
        let groundless: f64 = by_group.values().map(|count| count.groundless).sum();
        self.groundless += groundless * groundless;
        if weight <= 0.0 || rows == 0 {
            return;
        }
        for (group, count) in by_group {
            let Some(group) = group else { continue };
            let sums = self.groups.entry(*group).or_default();
            let part = count.accesses() / weight;
            sums.drawn += weight * weight * part * (1.0 - part) / rows as f64;
            sums.own += count.groundless * count.groundless;
            sums.both += count.groundless * groundless;
            sums.all += groundless * groundless;
        }
    }

    /// Half-width of the 95 % interval of a group's share.
    pub fn error(&self, group: GroupId, counters: &Counters) -> Option<f64> {
        let of = &counters.groups[group as usize];
        if self.weight <= 0.0 {
            return None;
        }
        let share = of.all.accesses() / self.weight;
        let sums = self.groups.get(&group).copied().unwrap_or_default();
        let grounds: f64 = self
            .on
            .iter()
            .map(|(ground, all)| {
                let own = of.grounds.get(ground).copied().unwrap_or(0.0);
                ((own - share * all) * self.grounds.get(ground).copied().unwrap_or(GROUNDLESS)).powi(2)
            })
            .sum();
        // Instructions that do not touch the group change its share too.
        let groundless = sums.own - 2.0 * share * sums.both + share * share * self.groundless;
        let variance = grounds + sums.drawn + groundless.max(0.0) * GROUNDLESS * GROUNDLESS;
        Some(Z * variance.sqrt() / self.weight)
    }

    /// The part (0..1) of a group's accesses whose count stands on a ground.
    pub fn ground(&self, group: GroupId, counters: &Counters) -> f64 {
        let of = &counters.groups[group as usize];
        crate::statistics::ratio(of.grounds.values().sum(), of.all.accesses())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::GroupCount;

    fn count(reads: f64, rows: u64, groundless: f64) -> Count {
        Count { reads, rows, groundless, ..Count::default() }
    }

    /// Two objects; instruction 1 reads the first only, on ground 0, instruction 2 both alike, without ground.
    fn counters() -> Counters {
        let group = |reads: f64, ground: f64| {
            let mut group = GroupCount::default();
            group.all = count(reads, 0, 0.0);
            group.grounds.extend((ground > 0.0).then_some((0, ground)));
            group
        };
        let code = [
            ((0, 1), [(Some(0), count(100.0, 50, 0.0))].into_iter().collect()),
            ((0, 2), [(Some(0), count(50.0, 100, 50.0)), (Some(1), count(50.0, 100, 50.0))].into_iter().collect()),
        ];
        Counters {
            groups: vec![group(150.0, 100.0), group(50.0, 0.0)],
            data: count(200.0, 0, 0.0),
            code: code.into_iter().collect(),
            ..Counters::default()
        }
    }

    #[test]
    fn the_error_adds_up_what_may_be_wrong() {
        let counters = counters();
        let mut accuracy = Accuracy {
            weight: 200.0,
            grounds: [(0, 0.1)].into_iter().collect(),
            on: [(0, 100.0)].into_iter().collect(),
            ..Accuracy::default()
        };
        counters.code.values().for_each(|by_group| accuracy.instruction(by_group));
        // s = 3/4. Ground: ((100 - 75) / 10)^2; drawn: 100^2 / 4 / 200; groundless: ((50 - 75) * 0.7)^2.
        let expected = Z * (2.5_f64.powi(2) + 12.5 + 17.5_f64.powi(2)).sqrt() / 200.0;
        let error = accuracy.error(0, &counters).unwrap();
        assert!((error - expected).abs() < 1e-12, "{error} {expected}");
        // The other share is 1 - s, and so is as far off.
        let other = accuracy.error(1, &counters).unwrap();
        assert!((other - expected).abs() < 1e-12, "{other} {expected}");
        assert_eq!(accuracy.ground(0, &counters), 100.0 / 150.0);
        assert_eq!(accuracy.ground(1, &counters), 0.0);
    }
}
