//! Recordings that are made up, whose counts are known.

use super::*;
use crate::space::mappings::PathId;
use crate::trace_windows::{SPAN, Timed};

/// Bytes of a function.
const FUNCTION: u64 = 0x1000;
/// User time, nanoseconds.
const TIME: f64 = 1e9;

/// A recording of one process whose functions begin at multiples of [`FUNCTION`].
pub(super) struct Recording {
    pub survey: Survey,
    path: PathId,
    instructions: Vec<Vec<(u64, u32)>>,
}

impl Recording {
    pub fn new() -> Self {
        let path = crate::modules::ModuleStore::default().intern("/program");
        Self { survey: Survey::default(), path, instructions: Vec::new() }
    }

    /// Says where an instruction is: in this loop of its function, or in none.
    pub fn place(&mut self, ip: u64, innermost: Option<usize>) {
        let function = (self.path, ip / FUNCTION * FUNCTION);
        let stretch = self.survey.stretch(Stretch::Function(function, innermost), false);
        self.survey.learn(0, ip, (stretch, Some((function, (ip % FUNCTION) as usize))));
    }

    pub fn samples(&mut self, ip: u64, count: usize) {
        let place = self.survey.known(0, ip).expect("its place was said");
        (0..count).for_each(|_| self.survey.sample(place, true));
    }

    /// A trace window that began at `ip`, for these instructions.
    pub fn trace_window(&mut self, ip: u64, instructions: &[(u64, u32)]) {
        self.add(TraceWindow { ip, time: 1e6, instructions: instructions.to_vec(), ..TraceWindow::default() });
    }

    pub fn add(&mut self, trace_window: TraceWindow) {
        let length = trace_window.instructions.iter().map(|(_, count)| u64::from(*count)).sum();
        self.survey.add(0, 7, &TraceWindow { length, ..trace_window.clone() });
        self.instructions.push(trace_window.instructions);
    }

    pub fn solve(&mut self, runs: impl Fn(u64) -> Option<f64>, fastest: f64) -> Surveyed {
        self.survey.close();
        let found = self.survey.solve(|((_, function), at)| runs(function + at as u64), TIME, fastest);
        assert_eq!(found.trace_windows.len(), self.instructions.len());
        found
    }

    /// Executions of an instruction.
    pub fn executed(&self, found: &Surveyed, ip: u64) -> f64 {
        let of = |(instructions, of): (&Vec<(u64, u32)>, &Weighed)| {
            let count: u32 = instructions.iter().filter(|(other, _)| *other == ip).map(|(_, count)| count).sum();
            f64::from(count) * of.each
        };
        self.instructions.iter().zip(&found.trace_windows).map(of).sum()
    }

    fn all(&self, found: &Surveyed) -> f64 {
        let length =
            |instructions: &Vec<(u64, u32)>| instructions.iter().map(|(_, count)| f64::from(*count)).sum::<f64>();
        self.instructions
            .iter()
            .zip(&found.trace_windows)
            .map(|(instructions, of)| length(instructions) * of.each)
            .sum()
    }
}

const SLOW: u64 = 0x1000;
const FAST: u64 = 0x2000;

/// A program that goes round: `SLOW` is 1 of 10 instructions and takes 9 of 10 nanoseconds, `FAST` the others.
fn round(trace_windows: usize) -> Recording {
    let mut recording = Recording::new();
    recording.place(SLOW, None);
    recording.place(FAST, None);
    for n in 0..trace_windows {
        let in_slow = n % 10 != 0;
        let ip = if in_slow { SLOW } else { FAST };
        recording.samples(ip, 1);
        // A third of each trace window is where it began; the rest is as the program is.
        let of_slow = 200 + if in_slow { 1000 } else { 0 };
        recording.trace_window(ip, &[(SLOW, of_slow), (FAST, 3000 - of_slow)]);
    }
    recording
}

#[test]
fn slow_code_is_not_counted_more_often_for_being_slow() {
    let part_of_slow = |trace_windows| {
        let mut recording = round(trace_windows);
        let found = recording.solve(|_| None, 0.0);
        recording.executed(&found, SLOW) / recording.all(&found)
    };
    // By the trace windows as they are it would be 37 %.
    let found = part_of_slow(1000);
    assert!((0.095..0.125).contains(&found), "{found}");
    // Few trace windows are drawn to what is assumed.
    assert!(part_of_slow(10) > found);
}

#[test]
fn what_samples_count_sets_the_scale() {
    let mut recording = round(100);
    let assumed = recording.solve(|_| None, 0.0);
    assert!((recording.all(&assumed) / (TIME * pace::RATE) - 1.0).abs() < 1e-9 && assumed.assumed);
    let found = recording.solve(|ip| (ip == FAST).then_some(9e6), 0.0);
    let of_fast = recording.executed(&found, FAST);
    assert!((of_fast / 9e6 - 1.0).abs() < 0.02 && !found.assumed, "{of_fast}");
}

/// Trace windows that end at a system call stand for what comes behind it, too, as other trace windows show it.
#[test]
fn what_samples_count_is_counted_once_behind_calls() {
    const CALL: u64 = 0x3000;
    let mut recording = round(100);
    recording.place(CALL, None);
    for _ in 0..50 {
        recording.samples(SLOW, 1);
        let (instructions, time) = (vec![(SLOW, 1000), (FAST, 500)], 1e6);
        recording.add(TraceWindow { ip: SLOW, time, call: Some(CALL), instructions, ..TraceWindow::default() });
        let instructions = vec![(CALL, 500), (FAST, 1500)];
        recording.add(TraceWindow { ip: CALL, time: 0.0, instructions, ..TraceWindow::default() });
    }
    let found = recording.solve(|ip| (ip == FAST).then_some(9e6), 0.0);
    let of_fast = recording.executed(&found, FAST);
    assert!((of_fast / 9e6 - 1.0).abs() < 0.02, "{of_fast}");
    assert!(recording.executed(&found, CALL) > 0.0);
    // They are as sure as those that came there.
    let (before, behind) = (found.trace_windows[100], found.trace_windows[101]);
    assert_eq!((behind.class, behind.class_error), (before.class, before.class_error));
}

/// Of two loops between which nothing goes each has half of the time; most trace windows came too late for the first.
fn phases() -> Recording {
    let mut recording = Recording::new();
    for (loop_of, ip, trace_windows) in [(0, 0x1000, 100), (1, 0x1100, 300)] {
        recording.place(ip, Some(loop_of));
        for n in 0..trace_windows {
            recording.samples(ip, (n + 1) * 1200 / trace_windows - n * 1200 / trace_windows);
            recording.trace_window(ip, &[(ip, 5000)]);
        }
    }
    recording
}

/// Executions in each of the loops, and how far they may be off.
fn by_phase(runs: impl Fn(u64) -> Option<f64>) -> [(f64, f64); 2] {
    let mut recording = phases();
    let found = recording.solve(runs, 0.0);
    [(0x1000, 0), (0x1100, 399)]
        .map(|(ip, trace_window)| (recording.executed(&found, ip), found.trace_windows[trace_window].class_error))
}

#[test]
fn samples_say_how_much_of_the_time_is_whose() {
    let [(first, _), (second, _)] = by_phase(|_| None);
    assert!((first / second - 1.0).abs() < 0.03, "{first} {second}");
}

#[test]
fn what_nothing_connects_is_as_fast_as_its_counters_say() {
    // Half a second each: four instructions a nanosecond in the first, two in the second.
    let found = by_phase(|ip| Some(if ip == 0x1000 { 2e9 } else { 1e9 }));
    assert!((found[0].0 / 2e9 - 1.0).abs() < 0.03 && (found[1].0 / 1e9 - 1.0).abs() < 0.03, "{found:?}");
    assert!(found.iter().all(|(_, error)| *error <= 0.11), "{found:?}");
    // Of the second nothing tells: it may be anything.
    let [(first, sure), (_, guessed)] = by_phase(|ip| (ip == 0x1000).then_some(2e9));
    assert!((first / 2e9 - 1.0).abs() < 0.03 && sure <= 0.11 && guessed >= 0.7, "{first} {sure} {guessed}");
}

#[test]
fn trace_windows_do_not_stand_for_what_they_should_have_met() {
    let mut recording = phases();
    recording.place(0x1200, Some(2));
    recording.samples(0x1200, 1200);
    // A sample in 3601: an eighth of a trace window.
    recording.place(0x1300, Some(3));
    recording.samples(0x1300, 1);
    let found = recording.solve(|_| None, 0.0);
    let third = recording.survey.known(0, 0x1200).map(|(stretch, _)| stretch);
    assert_eq!(found.missed.iter().copied().collect::<Vec<_>>(), third.into_iter().collect::<Vec<_>>());
    let all = recording.all(&found);
    assert!((all / (2.0 / 3.0 * TIME * pace::RATE) - 1.0).abs() < 0.01, "{all}");
}

/// The same loop all the time, which is in the kernel for four fifths of it in the end.
#[test]
fn trace_windows_have_as_much_time_as_samples() {
    let mut recording = Recording::new();
    recording.place(0x1000, None);
    for n in 0..80 {
        recording.samples(0x1000, if n < 40 { 10 } else { 2 });
        recording.trace_window(0x1000, &[(0x1000, 5000)]);
    }
    let found = recording.solve(|_| None, 0.0);
    let sum = |trace_windows: &[Weighed]| trace_windows.iter().map(|of| of.each).sum::<f64>();
    assert!((sum(&found.trace_windows[..40]) / sum(&found.trace_windows[40..]) - 5.0).abs() < 1e-6);
}

/// The same dispatcher calls `0x2000` first and `0x3000` later, four times as fast.
#[test]
fn phases_that_share_code_have_speeds_of_their_own() {
    const FASTEST: f64 = 20.0;
    let mut recording = Recording::new();
    let functions = [0x2000_u64, 0x3000];
    let of = |function: u64| (0..40).map(move |n| if n < 20 { 0x1000 + n } else { function + n });
    functions.iter().flat_map(|&function| of(function)).for_each(|ip| recording.place(ip, None));
    for function in functions {
        // A round waits at its last instruction: 1 in 5 samples is elsewhere in the first phase, 4 in 5 in the second.
        let elsewhere = if function == 0x2000 { 1 } else { 4 };
        let order: Vec<u64> = of(function).collect();
        for n in 0..400_usize {
            recording.samples(order[39], 5 - elsewhere);
            (0..elsewhere).for_each(|k| recording.samples(order[(n * elsewhere + k) % 39], 1));
            if n % 5 == 0 {
                let instructions: Vec<(u64, u32)> = order.iter().map(|&ip| (ip, 125)).collect();
                let ip = if n % 2 == 0 { 0x1000 } else { order[39] };
                let span = |at: usize| std::array::from_fn(|k| order[(at + k) % 40]);
                let spans: Vec<[u64; SPAN]> = (0..40).map(span).collect();
                recording.add(TraceWindow { ip, time: 1e6, instructions, spans, ..TraceWindow::default() });
            }
        }
    }
    let found = recording.solve(|_| None, FASTEST);
    // Of half a second each, a fifth and four fifths are 39 instructions that wait for nothing: those are drawn to each other a little.
    let rounds = |part: f64| TIME / 2.0 * part * FASTEST / 39.0;
    let slow = recording.executed(&found, 0x2020) / rounds(0.2);
    let fast = recording.executed(&found, 0x3020) / rounds(0.8);
    assert!((0.9..2.0).contains(&slow) && (0.5..1.1).contains(&fast), "{slow} {fast}");
    // The second began where most of the time is.
    let error = found.trace_windows[1].class_error;
    assert!((0.3..0.6).contains(&error) && !found.assumed, "{error}");
}

/// Pages come, and threads are stopped where the kernel provides them, until trace windows stand for time again.
#[test]
fn samples_wait_for_trace_windows_that_stand_for_time() {
    let mut recording = Recording::new();
    recording.place(0x1000, None);
    let trace_window =
        |time| TraceWindow { ip: 0x1000, time, instructions: vec![(0x1000, 5000)], ..TraceWindow::default() };
    recording.samples(0x1000, 100);
    (0..64).for_each(|_| recording.add(trace_window(0.0)));
    for samples in [10, 110] {
        recording.samples(0x1000, samples);
        (0..8).for_each(|_| recording.add(trace_window(1e6)));
    }
    let found = recording.solve(|_| None, 0.0);
    assert!(
        (found.trace_windows[64].each / found.trace_windows[72].each - 1.0).abs() < 1e-9,
        "{:?}",
        &found.trace_windows[64..]
    );
}

/// Code that waits for nothing, from one system call to the next. What comes just before a call is in most trace windows, and is no cheaper for it.
#[test]
fn calls_make_nothing_cheap() {
    const FASTEST: f64 = 20.0;
    let ips: Vec<u64> = (0x1000..0x1000 + 4000).collect();
    let call = Some(ips[0]);
    let mut recording = Recording::new();
    ips.iter().for_each(|&ip| recording.place(ip, None));
    let trace_window = |from: usize, time| {
        let spans = ips[from..].chunks_exact(8 * 16).map(|all| std::array::from_fn(|n| all[n])).collect();
        let instructions = ips[from..].iter().map(|&ip| (ip, 1)).collect();
        TraceWindow { ip: ips[from], time, call, instructions, spans, ..TraceWindow::default() }
    };
    for n in 0..200 {
        (0..160).for_each(|k| recording.samples(ips[(n * 160 + k * 997) % 4000], 1));
        recording.add(trace_window(n * 977 % 3900, 1e6));
        recording.add(trace_window(0, 0.0));
    }
    let found = recording.solve(|_| None, FASTEST);
    let part = recording.all(&found) / (TIME * FASTEST);
    assert!((0.6..1.3).contains(&part), "{part}");
}

/// Nothing connects two loops and no counter tells of them; of the second a few moments do.
#[test]
fn classes_go_as_fast_as_they_were_timed() {
    let mut recording = Recording::new();
    for (loop_of, ip) in [(0, 0x1000), (1, 0x1100)] {
        recording.place(ip, Some(loop_of));
        for n in 0..400 {
            recording.samples(ip, 3);
            let timed = (n % 100 == 0 && loop_of == 1).then_some(Timed { ip, speed: 0.25 });
            recording.add(TraceWindow {
                ip,
                time: 1e6,
                timed,
                instructions: vec![(ip, 5000)],
                ..TraceWindow::default()
            });
        }
    }
    let found = recording.solve(|ip| (ip == 0x1000).then_some(5e9), 0.0);
    // Half a second each.
    let [first, second] = [0x1000, 0x1100].map(|ip| recording.executed(&found, ip));
    assert!((first / 5e9 - 1.0).abs() < 0.05 && (second / 0.125e9 - 1.0).abs() < 0.2, "{first} {second}");
    let (counted, timed) = (found.trace_windows[0].class_error, found.trace_windows[799].class_error);
    assert!(counted < 0.11 && (0.2..0.35).contains(&timed) && !found.assumed, "{counted} {timed}");
}
