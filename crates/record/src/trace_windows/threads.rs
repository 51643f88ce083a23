//! Which threads run at this moment.

use std::fs::{self, File};
use std::io::Read;

use crate::clock::counts::resample::Random;

/// Threads that are looked at, at most, for one that runs.
const LOOKS: usize = 16;

/// Threads that the kernel is asked for, at most.
const MOST_LISTED: usize = 256;

/// A thread that runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    pub pid: i32,
    pub tid: i32,
    /// The CPU that it is on.
    pub cpu: i32,
    /// How many threads run, of which it is one taken at random: an estimate, where only some were looked at.
    pub of: f64,
}

/// All threads of these threads' processes, and where those are too many to ask the kernel each time, only these: some threads live
/// for less than it takes until their samples are read.
pub fn with_new_ones(threads: &[(i32, i32)]) -> Vec<(i32, i32)> {
    let mut pids: Vec<i32> = threads.iter().map(|(pid, _)| *pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let mut all = Vec::new();
    for pid in pids {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        let tids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
        all.extend(tids.take(MOST_LISTED + 1).map(|tid| (pid, tid)));
        if all.len() > MOST_LISTED {
            return threads.to_vec();
        }
    }
    all
}

/// One of `threads` that runs, each with equal chance; none if none does.
pub fn choose(threads: &[(i32, i32)], random: &mut Random) -> Option<Candidate> {
    let mut order: Vec<usize> = (0..threads.len()).collect();
    let looks = LOOKS.min(order.len());
    let mut running = Vec::new();
    for n in 0..looks {
        let other = n + random.below(order.len() - n);
        order.swap(n, other);
        let (pid, tid) = threads[order[n]];
        if let Some(cpu) = running_on(pid, tid) {
            running.push(Candidate { pid, tid, cpu, of: 1.0 });
        }
    }
    let of = running.len() as f64 * threads.len() as f64 / looks.max(1) as f64;
    let chosen = *running.get(random.below(running.len().max(1)))?;
    Some(Candidate { of, ..chosen })
}

/// The CPU that a thread runs on, or waits for; `None` if it sleeps or is gone.
pub fn running_on(pid: i32, tid: i32) -> Option<i32> {
    let mut bytes = [0_u8; 1024];
    let length = File::open(format!("/proc/{pid}/task/{tid}/stat")).ok()?.read(&mut bytes).ok()?;
    cpu_of(std::str::from_utf8(bytes.get(..length)?).ok()?)
}

/// From the text of `stat` (proc(5)); the name in parentheses may hold anything.
fn cpu_of(stat: &str) -> Option<i32> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    (fields.next()? == "R").then_some(())?;
    // The 39th; the state was the third.
    fields.nth(39 - 4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_told_of_those_that_run() {
        let rest = (4..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(cpu_of(&format!("17 (a) b (c) R {rest}")), Some(39));
        assert_eq!(cpu_of(&format!("17 (R) S {rest}")), None);
        assert_eq!(cpu_of("17 (cut"), None);
    }

    #[test]
    fn of_all_threads_those_that_run_have_a_chance() {
        // SAFETY: asks for an id.
        let (pid, tid) = (std::process::id() as i32, unsafe { libc::gettid() });
        let mut random = Random::new(1);
        let gone = i32::MAX;
        let found = choose(&[(gone, gone), (pid, tid)], &mut random).expect("this thread runs");
        assert_eq!((found.pid, found.tid, found.of), (pid, tid, 1.0));
        assert_eq!(choose(&[(gone, gone)], &mut random), None);
        assert_eq!(choose(&[], &mut random), None);
        let all = with_new_ones(&[(pid, pid), (gone, gone)]);
        assert!(all.contains(&(pid, tid)) && !all.contains(&(gone, gone)), "{all:?}");
    }
}
