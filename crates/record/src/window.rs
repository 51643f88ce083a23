//! The stretch of time that is sampled.

use std::time::Duration;

/// How long before its window the clock is switched on, so that nothing at its beginning is missed.
const LEAD: Duration = Duration::from_millis(100);

/// The time of the samples that are kept, nanoseconds of the recording's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: i64,
    /// The first that is not kept any more.
    pub until: i64,
}

impl Default for Window {
    fn default() -> Self {
        Self { from: i64::MIN, until: i64::MAX }
    }
}

impl Window {
    /// The window of a recording that starts at `start`: it begins `after` that and is `lasting`, or has no end.
    pub fn new(start: i64, after: Duration, lasting: Option<Duration>) -> Self {
        let begin = later(start, after);
        Self {
            // What is sampled while the program starts belongs to it.
            from: if after.is_zero() { i64::MIN } else { begin },
            until: lasting.map_or(i64::MAX, |lasting| later(begin, lasting)),
        }
    }

    /// True if a sample of that time is kept.
    pub fn contains(&self, time: i64) -> bool {
        (self.from..self.until).contains(&time)
    }
}

/// True if the clock is to be off when the program starts.
pub fn begins_late(after: Duration) -> bool {
    after > LEAD
}

/// Switches the clock on and off where the window begins and ends, so that no time is spent on samples outside. That is not
/// exact, and need not be: samples that come too early or too late are dropped by their time. A trace of accesses begins and ends
/// likewise, but not before its time.
#[derive(Debug)]
pub struct Switch {
    /// When to switch and whether on, the next one last.
    next: Vec<(i64, bool)>,
}

impl Switch {
    /// The switch of the clock for a window. Where the clock runs from the start, switching it on changes nothing.
    pub fn of_clock(window: Window) -> Self {
        Self::new(Window { from: window.from.saturating_sub(LEAD.as_nanos() as i64), ..window })
    }

    /// The switch of what begins when the window does. What begins at the start of the program is on by then.
    pub fn new(window: Window) -> Self {
        let on = (window.from != i64::MIN).then_some((window.from, true));
        let off = (window.until != i64::MAX).then_some((window.until, false));
        Self { next: off.into_iter().chain(on).collect() }
    }

    /// Does what is due at `time`, and says how long nothing will be.
    pub fn turn(&mut self, time: i64, mut enable: impl FnMut(bool)) -> Duration {
        while let Some(&(at, on)) = self.next.last() {
            if time < at {
                // Rounded up: a poll that ends a moment too early would be followed by many short ones.
                return Duration::from_nanos((at - time) as u64) + Duration::from_millis(1);
            }
            enable(on);
            self.next.pop();
        }
        Duration::MAX
    }
}

/// A time, and so much later.
fn later(time: i64, by: Duration) -> i64 {
    time.saturating_add(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn a_window_begins_after_and_lasts() {
        let seconds = Duration::from_secs;
        let window = Window::new(5 * SECOND, seconds(2), Some(seconds(1)));
        assert_eq!(window, Window { from: 7 * SECOND, until: 8 * SECOND });
        assert!(window.contains(7 * SECOND) && !window.contains(8 * SECOND) && !window.contains(7 * SECOND - 1));
        assert_eq!(Window::new(5 * SECOND, seconds(0), None), Window::default());
        assert_eq!(Window::new(5, Duration::MAX, Some(seconds(1))).from, i64::MAX);
    }

    #[test]
    fn the_clock_is_on_in_the_window_and_a_moment_before() {
        let mut switch = Switch::of_clock(Window { from: 7 * SECOND, until: 8 * SECOND });
        let mut switched = Vec::new();
        let wait = switch.turn(6 * SECOND, |on| switched.push(on));
        assert_eq!((wait, switched.len()), (Duration::from_millis(901), 0));
        assert_eq!(switch.turn(6 * SECOND + wait.as_nanos() as i64, |on| switched.push(on)), seconds_and_a_bit());
        assert_eq!(switch.turn(9 * SECOND, |on| switched.push(on)), Duration::MAX);
        assert_eq!(switched, [true, false]);
    }

    /// From 6.901 s to the end of the window at 8 s, rounded up.
    fn seconds_and_a_bit() -> Duration {
        Duration::from_millis(1100)
    }

    #[test]
    fn a_recorder_that_comes_late_makes_up_for_it() {
        let mut switch = Switch::new(Window { from: 7 * SECOND, until: 8 * SECOND });
        let mut switched = Vec::new();
        switch.turn(10 * SECOND, |on| switched.push(on));
        assert_eq!(switched, [true, false]);
    }
}
