//! Time stamps of the injected library on the recording's clock.
//!
//! The library may stamp events with the processor's time stamp counter, which costs it half of what a clock reading does.
//! The kernel's clock runs by that counter too, at a rate that it corrects now and then; so between two moments at which
//! both were read, stamps are placed in proportion.

use std::collections::VecDeque;

use numamma_wire::Clock;

use crate::collect::now;

/// The counter and the clock at one moment.
#[derive(Clone, Copy, Debug)]
struct Moment {
    ticks: u64,
    time: i64,
}

/// Converts stamps to nanoseconds of `CLOCK_MONOTONIC`. A stamp keeps its time, whenever it is asked for: others may be put in
/// order by it meanwhile.
#[derive(Debug)]
pub struct Timebase {
    clock: Clock,
    first: Moment,
    /// The last ones, oldest first.
    moments: VecDeque<Moment>,
}

/// Moments that are kept: of minutes.
const KEPT: usize = 4096;

/// The counter is read before and after the clock; what comes between them (an interrupt, another guest) makes a moment
/// uncertain, so the narrowest of several is taken.
const TRIES: usize = 5;

impl Timebase {
    /// For stamps of `clock`. Before the first [`Self::advance`] it knows one moment only.
    pub fn new(clock: Clock) -> Self {
        let first = Moment::read();
        Self { clock, first, moments: VecDeque::from([first]) }
    }

    /// Takes note of the present. Stamps made until now have a time then.
    pub fn advance(&mut self) {
        if self.moments.len() == KEPT {
            self.moments.pop_front();
        }
        self.moments.push_back(Moment::read());
    }

    /// Nanoseconds of `CLOCK_MONOTONIC` for a stamp, one after the other: those that lie close together are the quicker.
    pub fn converter(&self) -> impl FnMut(u64) -> i64 {
        let mut last: Option<(Moment, Moment)> = None;
        move |stamp| match self.clock {
            Clock::Monotonic => stamp as i64,
            Clock::Tsc => {
                let (from, to) = match last {
                    Some((from, to)) if from.ticks < stamp && stamp <= to.ticks => (from, to),
                    _ => *last.insert(self.around(stamp)),
                };
                between(from, to, stamp)
            }
        }
    }

    /// The moments by which a stamp has its time.
    fn around(&self, stamp: u64) -> (Moment, Moment) {
        let after = self.moments.partition_point(|moment| moment.ticks < stamp).min(self.moments.len() - 1);
        match after {
            // Before anything: the program was faster than we.
            0 if self.moments[0].ticks == self.first.ticks => {
                (self.first, self.moments.get(1).copied().unwrap_or(self.first))
            }
            // Older than what is kept: the whole past says best at what rate.
            0 => (self.first, self.moments[0]),
            after => (self.moments[after - 1], self.moments[after]),
        }
    }
}

/// The time at `ticks`, by the line through two moments; also before and after them.
fn between(from: Moment, to: Moment, ticks: u64) -> i64 {
    let span = to.ticks.wrapping_sub(from.ticks).max(1);
    let (since, time) = (ticks.wrapping_sub(from.ticks) as i64, to.time - from.time);
    // Between two looks at the rings the product is small, and a division of 64 bits takes a fraction of one of 128.
    match (since.checked_mul(time), i64::try_from(span)) {
        (Some(product), Ok(span)) => from.time + product / span,
        _ => from.time + (i128::from(since) * i128::from(time) / i128::from(span)) as i64,
    }
}

impl Moment {
    fn read() -> Self {
        let read = |_| {
            let before = counter();
            let time = now();
            let after = counter();
            (after.wrapping_sub(before), Self { ticks: before + after.wrapping_sub(before) / 2, time })
        };
        (0..TRIES).map(read).min_by_key(|(width, _)| *width).map_or(Self { ticks: 0, time: 0 }, |(_, moment)| moment)
    }
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has it; a process that may not read it was not started by us.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    now() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Timebase {
        fn time(&self, stamp: u64) -> i64 {
            self.converter()(stamp)
        }
    }

    #[test]
    fn stamps_lie_in_proportion() {
        let (from, to) = (Moment { ticks: 1_000, time: 50 }, Moment { ticks: 4_000, time: 1_050 });
        let time = |ticks| between(from, to, ticks);
        assert_eq!((time(1_000), time(2_500), time(4_000)), (50, 550, 1_050));
        // A stamp that was made before, but published late; one that was made while the rings were read.
        assert_eq!((time(400), time(7_000)), (-150, 2_050));
        // The counter's whole range, a year between.
        let year = 365 * 86_400 * 1_000_000_000_i64;
        let (from, to) = (Moment { ticks: 0, time: 0 }, Moment { ticks: 5 * year as u64, time: year });
        assert_eq!(between(from, to, 5 * year as u64 / 2), year / 2);
        // Two readings at one moment.
        assert_eq!(between(from, from, 0), 0);
    }

    #[test]
    fn stamps_from_before_the_first_moment_keep_their_order() {
        if Clock::best() != Clock::Tsc {
            return;
        }
        // They all had the time of the first moment: a program that was faster than we had its first events in any order.
        let stamps = [counter(), counter(), counter()];
        let mut base = Timebase::new(Clock::Tsc);
        std::thread::sleep(std::time::Duration::from_millis(1));
        base.advance();
        let times = stamps.map(|stamp| base.time(stamp + 10 * (stamp - stamps[0])));
        assert!(times[0] < times[1] && times[1] < times[2] && times[0] < base.first.time, "{times:?}");
        base.advance();
        assert_eq!(base.time(stamps[0]), times[0]);
    }

    #[test]
    fn a_stamp_of_the_counter_agrees_with_the_clock() {
        if Clock::best() != Clock::Tsc {
            return;
        }
        let mut base = Timebase::new(Clock::Tsc);
        for _ in 0..20 {
            let before = now();
            let stamp = counter();
            let after = now();
            std::thread::sleep(std::time::Duration::from_millis(1));
            base.advance();
            let time = base.time(stamp);
            // Far less than the time between two samples; the machine may be busy.
            let slack = 20_000 + (after - before);
            assert!((before - slack..after + slack).contains(&time), "{before} {time} {after}");
        }
        // A stamp keeps its time when moments follow that lie close together, and when its own are forgotten.
        let (before, stamp) = (now(), counter());
        std::thread::sleep(std::time::Duration::from_millis(100));
        base.advance();
        let time = base.time(stamp);
        assert!((time - before).abs() < 100_000, "{time} {before}");
        for _ in 0..KEPT / 2 {
            base.advance();
        }
        assert_eq!(base.time(stamp), time);
        for _ in 0..KEPT {
            base.advance();
        }
        assert!((base.time(stamp) - before).abs() < 1_000_000, "{} {before}", base.time(stamp));
    }
}
