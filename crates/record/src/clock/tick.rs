//! What one sample costs on this machine, and the rate that keeps within an overhead budget.
//!
//! The cost is the timer tick itself, recorded or not: 1-2 us on bare metal, 16-22 us in a nested VM. So it is
//! measured at each start: the same loop of work with and without sampling, in turns, and the medians compared.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use numamma_perf::attr;

use super::counts::evidence::Clock;
use crate::perf::events::clock_attr;

/// Sampling period while measuring: fast enough to see the cost, slow enough not to stop the machine.
const PROBE_PERIOD: u64 = 50_000;
/// Time of one turn of work, roughly.
const TURN: Duration = Duration::from_millis(2);
/// Turns that are taken at least, and at most.
const TURNS: std::ops::RangeInclusive<usize> = 3..=16;
/// Quickest turns and medians that differ by no more than this part were not disturbed.
const AGREE: f64 = 0.1;
/// No machine takes an interrupt and writes a record in less, nanoseconds: what is measured below is noise.
const LEAST_COST: f64 = 1000.0;

/// Rates that are ever chosen by themselves, in Hz.
pub const RATES: std::ops::RangeInclusive<f64> = 50.0..=5_000.0;

/// Measures the cost of one sample in nanoseconds of the sampled thread's time. Takes 15 ms, or up to 80 on a busy
/// machine.
///
/// # Errors
/// If the kernel refuses the clock event.
pub fn measure_cost() -> io::Result<f64> {
    let mut attr = clock_attr(PROBE_PERIOD);
    // On the recorder's own thread, enabled by hand, into no ring: the tick is what costs.
    attr.flags &= !(attr::INHERIT | attr::ENABLE_ON_EXEC);
    let event = attr::open(&attr, 0, -1)?;
    let mut rounds = 20_000;
    while work(rounds) < TURN {
        rounds *= 2;
    }
    let (mut with, mut without) = (Vec::new(), Vec::new());
    loop {
        without.push(work(rounds));
        attr::enable(&event, true)?;
        with.push(work(rounds));
        attr::enable(&event, false)?;
        // On a busy machine single turns are too long by anything. The quickest turns were disturbed least; the medians
        // say the same when nothing disturbs. The larger answer is the safe one: it samples less.
        let quickest = cost_of(with.iter().min(), without.iter().min());
        let usual = cost_of(Some(&median(&mut with)), Some(&median(&mut without)));
        let cost = quickest.max(usual).max(LEAST_COST);
        let agree = (quickest - usual).abs() <= AGREE * cost;
        if with.len() >= *TURNS.end() || with.len() >= *TURNS.start() && agree {
            return Ok(cost);
        }
    }
}

/// The rate in Hz at which sampling costs `overhead` (0..1) of the program's time, within [`RATES`] and what the kernel
/// allows.
pub fn rate_for(overhead: f64, cost_ns: f64, max_rate: Option<u64>) -> f64 {
    let rate = (overhead * 1e9 / cost_ns).clamp(*RATES.start(), *RATES.end());
    max_rate.map_or(rate, |max| rate.min(max as f64))
}

/// The period of a rate: a prime number of microseconds near it, so that samples do not march in step with a program that
/// does something every millisecond.
pub fn period_of(rate_hz: f64) -> u64 {
    let wanted = (1e6 / rate_hz).round().max(10.0) as u64;
    let prime = |n: &u64| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (wanted..).find(prime).unwrap_or(wanted) * 1000
}

/// The periods of two clocks that together sample once in `period` nanoseconds: the first takes four of five samples, so that a
/// short thread is seen almost as early as by one clock; the second comes at any time between two of the first, so that what
/// happens in a fraction of the period is seen too.
pub fn beat(period: u64) -> [u64; 2] {
    // Not quite 5/4 and 5: samples of one clock drift through the gaps of the other.
    [1.2444, 5.093].map(|part| (period as f64 * part / 1000.0).round().max(10.0) as u64 * 1000)
}

/// How samples of a thread follow each other at that period, when one costs `cost` nanoseconds.
pub fn clock_of(period: u64, cost: f64) -> Clock {
    // Ticks come a little late now and then.
    const LATE: i64 = 50_000;
    Clock { longest: beat(period)[0] as i64 + LATE, cost: cost as i64 }
}

/// Nanoseconds per sample, from a turn with sampling and one without.
fn cost_of(with: Option<&Duration>, without: Option<&Duration>) -> f64 {
    let (Some(with), Some(without)) = (with, without) else { return 0.0 };
    let samples = with.as_nanos() as f64 / PROBE_PERIOD as f64;
    (with.as_nanos() as f64 - without.as_nanos() as f64) / samples
}

fn work(rounds: u64) -> Duration {
    let start = Instant::now();
    let mut state = 1_u64;
    for _ in 0..rounds {
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    black_box(state);
    start.elapsed()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_spends_the_budget_and_no_more() {
        assert_eq!(rate_for(0.02, 20_000.0, None), 1000.0);
        assert_eq!(rate_for(0.02, 1.0, None), *RATES.end());
        assert_eq!(rate_for(0.0001, 20_000.0, None), *RATES.start());
        assert_eq!(rate_for(0.02, 1000.0, Some(3000)), 3000.0);
    }

    #[test]
    fn two_clocks_take_as_many_samples_as_one() {
        for period in [211_000, 709_000, 10_000_000] {
            let [a, b] = beat(period).map(|period| 1e9 / period as f64);
            assert!(((a + b) / (1e9 / period as f64) - 1.0).abs() < 0.01);
            assert!(a != b);
        }
    }

    #[test]
    fn a_period_is_a_prime_number_of_microseconds_near_its_rate() {
        assert_eq!(period_of(1000.0), 1_009_000);
        assert_eq!(period_of(5000.0), 211_000);
    }
}
