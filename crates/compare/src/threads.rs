//! Which thread of one recording is which of the other.
//!
//! Threads are known by the order of their creation, but not over the whole run: a shell that starts one process more would
//! move all numbers behind it. So processes come first, the n-th of a program with the n-th of it; what is left (the
//! program was renamed) in the order in which it came. Within a process, the n-th thread is the n-th.

use numamma_findings::ForComparison;
use rustc_hash::FxHashMap;

/// The threads of both recordings, in one numbering.
#[derive(Debug)]
pub struct Threads {
    /// By thread of the second recording: the thread of the first.
    of_b: Vec<Option<i32>>,
    /// By thread of the first: whether the second has it.
    has_a: Vec<bool>,
}

impl Threads {
    /// Matches them.
    pub fn new(a: &ForComparison, b: &ForComparison) -> Self {
        let processes = processes(a, b);
        let by_place: FxHashMap<(usize, usize), usize> =
            places(a).enumerate().map(|(thread, place)| (place, thread)).collect();
        let mut of_b = Vec::with_capacity(b.threads.len());
        let mut has_a = vec![false; a.threads.len()];
        for (process, nth) in places(b) {
            let thread = processes.get(&process).and_then(|&process| by_place.get(&(process, nth)).copied());
            thread.inspect(|&thread| has_a[thread] = true);
            of_b.push(thread.map(|thread| thread as i32));
        }
        Self { of_b, has_a }
    }

    /// The number in the first recording of a thread of the second; one that the first has not is nobody there.
    pub fn in_a(&self, thread: i32) -> i32 {
        self.of_b.get(thread as usize).copied().flatten().unwrap_or(-1)
    }

    /// Threads of the first and of the second recording without a counterpart.
    pub fn alone(&self) -> (impl Iterator<Item = usize>, impl Iterator<Item = usize>) {
        let of_a = self.has_a.iter().enumerate().filter(|(_, has)| !**has).map(|(thread, _)| thread);
        let of_b = self.of_b.iter().enumerate().filter(|(_, of)| of.is_none()).map(|(thread, _)| thread);
        (of_a, of_b)
    }
}

/// Process of each thread, and which of its threads it is.
fn places(of: &ForComparison) -> impl Iterator<Item = (usize, usize)> {
    let mut count: FxHashMap<usize, usize> = FxHashMap::default();
    of.threads.iter().map(move |&process| {
        let next = count.entry(process).or_default();
        *next += 1;
        (process, *next - 1)
    })
}

/// The process of `a` that each process of `b` is.
fn processes(a: &ForComparison, b: &ForComparison) -> FxHashMap<usize, usize> {
    let mut by_name: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    for (process, program) in a.processes.iter().enumerate().rev() {
        by_name.entry(program).or_default().push(process);
    }
    let mut matched: FxHashMap<usize, usize> = FxHashMap::default();
    for (process, program) in b.processes.iter().enumerate() {
        if let Some(of_a) = by_name.get_mut(program.as_str()).and_then(Vec::pop) {
            matched.insert(process, of_a);
        }
    }
    let mut left: Vec<usize> = by_name.into_values().flatten().collect();
    left.sort_unstable_by(|x, y| y.cmp(x));
    for process in 0..b.processes.len() {
        if !matched.contains_key(&process)
            && let Some(of_a) = left.pop()
        {
            matched.insert(process, of_a);
        }
    }
    matched
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basis(processes: &[&str], threads: &[usize]) -> ForComparison {
        let processes = processes.iter().map(|name| (*name).to_owned()).collect();
        ForComparison { processes, threads: threads.to_vec(), ..ForComparison::default() }
    }

    fn numbers(a: &ForComparison, b: &ForComparison) -> Vec<i32> {
        let threads = Threads::new(a, b);
        (0..b.threads.len() as i32).map(|thread| threads.in_a(thread)).collect()
    }

    #[test]
    fn threads_of_one_process_keep_their_order() {
        let (two, four) = (basis(&["solver"], &[0, 0]), basis(&["solver"], &[0, 0, 0, 0]));
        assert_eq!(numbers(&four, &two), [0, 1]);
        assert_eq!(numbers(&two, &four), [0, 1, -1, -1]);
        let alone = Threads::new(&two, &four);
        let (of_a, of_b) = alone.alone();
        assert_eq!((of_a.count(), of_b.collect::<Vec<_>>()), (0, vec![2, 3]));
    }

    #[test]
    fn a_process_more_moves_nobody() {
        let a = basis(&["sh", "solver"], &[0, 1, 1]);
        let b = basis(&["sh", "sed", "solver"], &[0, 1, 2, 2]);
        assert_eq!(numbers(&a, &b), [0, -1, 1, 2]);
        let twice = basis(&["sh", "solver", "solver"], &[0, 1, 1, 2, 2]);
        assert_eq!(numbers(&twice, &twice), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_renamed_program_is_the_one_that_is_left() {
        let (a, b) = (basis(&["sh", "solver_1"], &[0, 1, 1]), basis(&["solver_2", "sh"], &[0, 0, 1]));
        assert_eq!(numbers(&a, &b), [1, 2, 0]);
    }

    #[test]
    fn a_thread_that_is_in_no_table_is_nobody() {
        let a = basis(&["solver"], &[0]);
        assert_eq!(Threads::new(&a, &a).in_a(7), -1);
        assert_eq!(Threads::new(&a, &a).in_a(-1), -1);
    }
}
