//! The same run with another number of threads.
//!
//! Work is divided among the threads in their order, as it was: of `n` threads, thread `t` has the part from `t/n` to `(t+1)/n`; a first
//! thread that waits for the others has none. A page of
//! a block lies at some place in its owner's part, which belongs to one of the new threads; a page that several threads share
//! goes to all of them. Private memory is not known for threads that were not there.

use std::borrow::Cow;

use numamma_findings::{InstanceUse, ObjectUse, PageThreadUse, PageUse, ThreadUse, Usage};

use crate::error::AdviseError;
use crate::evidence::Evidence;
use crate::random::Random;
use crate::runs::runs;

/// Most threads to predict for: Linux has 32,768 process ids by default.
const MOST: usize = 32_768;
/// A thread waits for the others if it does less than this part of what they do.
const WAITS: f64 = 0.1;
/// Parts of an instance whose owners are told apart.
const MOST_UNITS: usize = 8192;

/// The recording as of `count` threads, and what is assumed; itself if that is what it has.
pub fn extrapolate(usage: &Usage, count: Option<usize>) -> Result<(Cow<'_, Usage>, Vec<String>), AdviseError> {
    let Some(count) = count.filter(|&count| count != usage.threads.len()) else {
        return Ok((Cow::Borrowed(usage), Vec::new()));
    };
    if !(1..=MOST).contains(&count) || usage.threads.is_empty() {
        return Err(AdviseError::Option(format!("{count} threads: from 1 to {MOST} can be predicted")));
    }
    if usage.threads.iter().any(|thread| thread.process != usage.threads[0].process) {
        return Err(AdviseError::Option(format!(
            "a run of several processes cannot be predicted with {count} threads"
        )));
    }
    let mut notes = vec![format!(
        "Predicted with {count} threads, recorded with {}: work is taken to be divided among them in their order, as it was.",
        usage.threads.len()
    )];
    let division = Division::new(usage, count);
    let mut predicted = Usage { threads: threads(usage, &division), ..usage.clone() };
    times(usage, &mut predicted, &division);
    for object in &mut predicted.objects {
        if is_private(object) {
            let name = &object.name;
            notes.push(format!(
                "{name} is private to its threads: what others would have of it is not known, so it stays as it is."
            ));
        }
        for instance in &mut object.instances {
            divide(instance, &division);
        }
    }
    Ok((Cow::Owned(predicted), notes))
}

/// Which of the new threads do the work of which recorded one.
#[derive(Clone, Copy, Debug)]
struct Division {
    recorded: usize,
    count: usize,
    /// 1 if the first thread has no part of the common work, but waits for the others; else 0.
    apart: usize,
}

impl Division {
    fn new(usage: &Usage, count: usize) -> Self {
        let apart = usize::from(count > 1 && waits_for_others(usage));
        Self { recorded: usage.threads.len(), count, apart }
    }

    /// New threads for each recorded one.
    fn ratio(&self) -> f64 {
        (self.count - self.apart) as f64 / (self.recorded - self.apart) as f64
    }

    /// The new thread that has a place, from 0 to below 1, in the work of a recorded one.
    fn new_thread(&self, recorded: usize, place: f64) -> usize {
        if recorded < self.apart {
            return recorded;
        }
        let of_others = ((recorded - self.apart) as f64 + place) * self.ratio();
        (self.apart + of_others as usize).min(self.count - 1)
    }

    /// The recorded thread that a new one is like.
    fn like(&self, new: usize) -> usize {
        match new < self.apart {
            true => new,
            false => self.apart + (new - self.apart) * (self.recorded - self.apart) / (self.count - self.apart),
        }
    }

    /// Part of that thread's work that it has.
    fn share(&self, new: usize) -> f64 {
        if new < self.apart { 1.0 } else { self.ratio().recip() }
    }
}

/// True if the first of several threads does next to nothing where others work: it creates them and waits.
fn waits_for_others(usage: &Usage) -> bool {
    let mut busy = vec![0.0; usage.threads.len()];
    for phase in &usage.phases {
        let several = phase.busy_s.iter().skip(1).any(|&seconds| seconds > 0.0);
        for (sum, &seconds) in busy.iter_mut().zip(&phase.busy_s).filter(|_| several && usage.phases.len() > 1) {
            *sum += seconds;
        }
    }
    let others = busy.iter().skip(1).sum::<f64>() / busy.len().saturating_sub(1).max(1) as f64;
    busy[0] < WAITS * others
}

/// Each new thread is like the recorded one in the same place.
fn threads(usage: &Usage, division: &Division) -> Vec<ThreadUse> {
    let of = |thread: usize| {
        let (like, share) = (&usage.threads[division.like(thread)], division.share(thread));
        ThreadUse {
            thread,
            stall_s: like.stall_s.map(|s| s * share),
            stall_error_s: like.stall_error_s.map(|s| s * share),
            waiting_s: like.waiting_s * share,
            ..like.clone()
        }
    };
    (0..division.count).map(of).collect()
}

/// CPU times: what the first thread does beyond the median one is serial and stays.
fn times(usage: &Usage, predicted: &mut Usage, division: &Division) {
    let recorded = usage.threads.len();
    let divided = |busy: &[f64]| -> Vec<f64> {
        let mut sorted = busy.to_vec();
        sorted.sort_by(f64::total_cmp);
        let serial = (busy[0] - sorted[recorded / 2]).max(0.0);
        let of = |thread: usize| {
            let like = division.like(thread);
            let own = if like == 0 { busy[0] - serial } else { busy[like] };
            own * division.share(thread) + if thread == 0 { serial } else { 0.0 }
        };
        (0..predicted.threads.len()).map(of).collect()
    };
    let longest = |busy: &[f64]| busy.iter().copied().fold(0.0, f64::max);
    let busy: Option<Vec<f64>> = usage.threads.iter().map(|thread| thread.busy_s).collect();
    let all = busy.map(|busy| (longest(&busy), divided(&busy)));
    let phases: Vec<(f64, Vec<f64>)> = usage
        .phases
        .iter()
        .map(|phase| {
            let mut busy = phase.busy_s.clone();
            busy.resize(recorded, 0.0);
            (longest(&busy), divided(&busy))
        })
        .collect();
    if let Some((before, after)) = all {
        predicted.wall_s = (predicted.wall_s - before).max(0.0) + longest(&after);
        for (thread, busy) in predicted.threads.iter_mut().zip(after) {
            thread.busy_s = Some(busy);
        }
    }
    for (phase, (before, after)) in predicted.phases.iter_mut().zip(phases) {
        phase.wall_s = (phase.wall_s - before).max(0.0) + longest(&after);
        phase.busy_s = after;
    }
}

/// True if its instances have one user each, and there are several. Stacks always are, which needs no saying.
fn is_private(object: &ObjectUse) -> bool {
    let mut users: Vec<usize> = object.instances.iter().filter_map(only_user).collect();
    let all = users.len();
    users.sort_unstable();
    users.dedup();
    !matches!(object.kind.as_str(), "stack" | "tls") && users.len() > 1 && all == object.instances.len()
}

/// The thread that alone uses an instance.
fn only_user(instance: &InstanceUse) -> Option<usize> {
    let mut users = instance.pages.iter().flat_map(|page| &page.by_thread).map(|of| of.thread);
    let first = users.next()?;
    users.all(|user| user == first).then_some(first)
}

/// Gives the uses of an instance to the new threads.
fn divide(instance: &mut InstanceUse, division: &Division) {
    let one_user = only_user(instance);
    let owned = owned(instance, division.recorded);
    let touchers: Vec<Option<usize>> = instance.pages.iter().map(|page| page.first_touch).collect();
    let one_toucher = touchers.windows(2).all(|pair| pair[0] == pair[1]);
    let touch_places = places(&touchers);
    let mut random = Random::new(instance.instance);
    for (n, page) in instance.pages.iter_mut().enumerate() {
        let touch_place = if one_toucher { 0.0 } else { touch_places[n] };
        page.first_touch = page.first_touch.map(|thread| division.new_thread(thread, touch_place));
        let mut uses: Vec<PageThreadUse> = Vec::with_capacity(page.by_thread.len());
        for of in &page.by_thread {
            let place = match owned[n] {
                _ if one_user.is_some() => 0.0,
                Some((owner, place)) if owner == of.thread => place,
                _ => random.share(),
            };
            uses.push(PageThreadUse { thread: division.new_thread(of.thread, place), ..*of });
        }
        uses.sort_by_key(|of| (of.thread, of.phase));
        page.by_thread = uses;
    }
}

/// Of each page, the thread in whose range it lies and where in that range, from 0 to below 1; `None` where threads share it. A page with one
/// sample has one thread, and tells nothing by itself: pages of random accesses would all lie in the middle of a range of one page.
fn owned(instance: &InstanceUse, threads: usize) -> Vec<Option<(usize, f64)>> {
    let (evidence, each) = Evidence::of_threads(instance, threads, MOST_UNITS);
    let runs = runs(&evidence);
    let place = |page: &PageUse| {
        let at = (page.page as f64 + 0.5) / each as f64;
        let run = &runs[runs.partition_point(|run| run.end as f64 <= at)];
        Some((run.node?, (at - run.start as f64) / (run.end - run.start) as f64))
    };
    instance.pages.iter().map(place).collect()
}

/// Where each page lies among its neighbours of the same thread, from 0 to below 1.
fn places(threads: &[Option<usize>]) -> Vec<f64> {
    let mut places = Vec::with_capacity(threads.len());
    for run in threads.chunk_by(|a, b| a == b) {
        places.extend((0..run.len()).map(|n| (n as f64 + 0.5) / run.len() as f64));
    }
    places
}
