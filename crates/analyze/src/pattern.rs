//! How the threads share one instance, or several that are judged together.
//!
//! ```text
//!   one thread has nearly all samples               -> private
//!   the owners of its pages make one run a thread   -> block
//!   the owners of its pages come again in turn      -> block-cyclic
//!   a page has no more of one thread than the whole -> shared
//!   a page has a main thread                        -> mixed
//!   the samples do not tell                         -> unknown, and how many would
//! ```
//!
//! A page with one sample always looks as if one thread had it alone. So evidence is pairs of samples in one page: the share
//! of pairs whose threads agree is an unbiased estimate of the sum of the squared shares of the page's threads, however few
//! samples a page has. Pairs anywhere in the instance give what chance would.
//!
//! A sample is an interrupt, and evidence by itself but once: if it shows several pages of an instance, or several instances that are judged
//! together, each of them counts as a part of it.
//!
//! Runs and periods are found as NumaMMA does (doi:10.1145/3225058.3225094): the thread with most accesses owns a page, runs of one owner are
//! merged over pages that were not sampled, and the period of the sequence of runs is the period of the distribution.

use numamma_findings::Pattern;
use rustc_hash::FxHashMap;

use crate::accuracy::Z;
use crate::counters::Users;
use crate::statistics::{interval, ratio};
use crate::summary::Tables;

/// Samples of the threads in one page. Threads that are one worker, one after the other, count as its first one.
#[derive(Clone, Debug)]
pub struct Used {
    /// Number of the page, from the start of the instance.
    pub page: u64,
    /// Samples by thread, in order of the threads.
    pub threads: Vec<(i32, u64)>,
}

impl Used {
    /// Of a page that was sampled.
    pub fn new(page: u64, users: &Users, tables: &Tables) -> Option<Self> {
        (users.samples() > 0).then(|| Self { page, threads: by_worker(users, tables) })
    }

    fn samples(&self) -> u64 {
        self.threads.iter().map(|(_, n)| n).sum()
    }

    /// The thread with most samples, the first of several, and how many it has.
    fn owner(&self) -> (i32, u64) {
        let most = self.threads.iter().max_by_key(|(thread, n)| (*n, std::cmp::Reverse(*thread)));
        most.copied().unwrap_or((-1, 0))
    }
}

/// Samples of one instance.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// Ascending.
    pages: Vec<Used>,
    /// Samples by thread: one that shows several pages is one.
    threads: Vec<(i32, u64)>,
}

impl Sampled {
    /// Of the instance that has these pages and users.
    pub fn new(pages: Vec<Used>, users: &Users, tables: &Tables) -> Self {
        Self { pages, threads: by_worker(users, tables) }
    }

    /// Of all threads.
    pub fn samples(&self) -> u64 {
        self.threads.iter().map(|(_, n)| n).sum()
    }
}

/// Samples by worker, in order of the workers.
pub fn by_worker(users: &Users, tables: &Tables) -> Vec<(i32, u64)> {
    let mut threads: Vec<(i32, u64)> = users.threads.iter().map(|of| (tables.worker(of.thread), of.samples)).collect();
    threads.sort_unstable();
    threads.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        kept.1 += if is_same { next.1 } else { 0 };
        is_same
    });
    threads
}

/// Fewer sampled pages than this have no blocks.
const FEWEST_PAGES: usize = 8;
/// Sampled pages that a run of one owner must have, as a mean, to be more than chance.
const PAGES_OF_RUN: usize = 4;
/// Share of the samples that one thread has of what is private.
const PRIVATE: f64 = 0.95;
/// Least lower end of that share's interval; also the least share that must agree with blocks.
const AGREEMENT: f64 = 0.8;
/// Pages are shared if threads are separated less than this: 0 where a page has the threads of the whole, 1 where it has
/// one thread. Two threads of which each is 77 % of its pages, or four of which each is 66 %, are separated by 0.3.
const SEPARATED: f64 = 0.3;
/// With so many pairs of samples the estimate decides, also close to the limit.
const PAIRS: f64 = 1000.0;
/// Block sizes that are tried for block-cyclic patterns, at most.
const BLOCKS: u64 = 4096;

/// The pattern of what has none that could be found.
pub fn unknown() -> Pattern {
    Pattern { kind: "unknown".into(), ..Pattern::default() }
}

/// Judges an instance. `pages`: how many it has, if they are counted from its start.
pub fn judge(instance: &Sampled, page_bytes: u64, pages: Option<u64>) -> Pattern {
    judged(std::slice::from_ref(instance), page_bytes, pages, instance.samples())
}

/// Judges instances together, of which so many samples show any. Of several no more can be told than that each is private: of instances with a sample
/// or two each, some private and some not, pairs of samples agree as often as in shared ones.
pub fn judge_together(instances: &[Sampled], page_bytes: u64, samples: u64) -> Pattern {
    judged(instances, page_bytes, None, samples)
}

fn judged(instances: &[Sampled], page_bytes: u64, pages: Option<u64>, samples: u64) -> Pattern {
    let all = Evidence::of(instances, samples);
    let pattern = |kind: &str, block: u64, period: u64, confidence: f64| Pattern {
        kind: kind.into(),
        block_bytes: block * page_bytes,
        period_bytes: period * page_bytes,
        confidence,
        samples: all.samples,
        main_share: all.main_share(),
        samples_needed: None,
    };
    if all.samples == 0 {
        return unknown();
    }
    if let Some(share) = all.private() {
        return pattern("private", 0, 0, share);
    }
    if let ([one], Some(pages)) = (instances, pages)
        && all.threads > 1
        && let Some((kind, block, period, agreement)) = blocks(&one.pages, pages, all.each)
    {
        return pattern(kind, block, period, agreement);
    }
    match all.separated() {
        _ if all.threads == 1 => Pattern { samples_needed: Some(16), ..pattern("unknown", 0, 0, 0.0) },
        _ if instances.len() > 1 => Pattern { main_share: 0.0, ..pattern("unknown", 0, 0, 0.0) },
        Some(true) => pattern("mixed", 0, 0, all.main_share()),
        Some(false) => pattern("shared", 0, 0, 1.0 - all.separation().clamp(0.0, 1.0)),
        None => Pattern {
            samples_needed: Some(all.needed(pages.unwrap_or(all.pages))),
            main_share: 0.0,
            ..pattern("unknown", 0, 0, 0.0)
        },
    }
}

/// Evidence of samples on how threads share instances.
struct Evidence {
    samples: u64,
    /// What a sample of a page counts: less than one if samples show several pages.
    each: f64,
    /// Threads with a sample.
    threads: usize,
    /// Share of the samples of the thread that has most, if it is one instance.
    main: Option<(u64, u64)>,
    /// Pages with a sample.
    pages: u64,
    /// Pairs of samples in one page, and how many of them agree.
    page: Pairs,
    /// Pairs of samples in one instance.
    instance: Pairs,
}

/// Pairs of samples: a group of n has n - 1 that tell something of their own.
#[derive(Clone, Copy, Debug, Default)]
struct Pairs {
    pairs: f64,
    agreeing: f64,
}

impl Pairs {
    /// Adds a group, as so many: its pairs are the same samples' as those of other groups.
    fn add(&mut self, threads: impl Iterator<Item = u64> + Clone, each: f64) {
        let n: f64 = threads.clone().map(|n| n as f64).sum();
        if n >= 2.0 {
            let agree: f64 = threads.map(|of| of as f64 * (of as f64 - 1.0)).sum();
            self.pairs += each * (n - 1.0);
            self.agreeing += each * agree / n;
        }
    }

    fn share(&self) -> f64 {
        ratio(self.agreeing, self.pairs)
    }
}

impl Evidence {
    fn of(instances: &[Sampled], samples: u64) -> Self {
        let of_pages: u64 = instances.iter().flat_map(|of| &of.pages).map(Used::samples).sum();
        let of_instances: u64 = instances.iter().map(Sampled::samples).sum();
        let each_instance = ratio(samples as f64, of_instances as f64);
        let mut all = Self {
            samples,
            each: ratio(samples as f64, of_pages as f64),
            threads: 0,
            main: None,
            pages: instances.iter().map(|of| of.pages.len() as u64).sum(),
            page: Pairs::default(),
            instance: Pairs::default(),
        };
        let mut threads: FxHashMap<i32, u64> = FxHashMap::default();
        for of in instances {
            for page in &of.pages {
                all.page.add(page.threads.iter().map(|(_, n)| *n), all.each);
            }
            all.instance.add(of.threads.iter().map(|(_, n)| *n), each_instance);
            for &(thread, n) in &of.threads {
                *threads.entry(thread).or_default() += n;
            }
        }
        all.threads = threads.values().filter(|&&n| n > 0).count();
        if let [_] = instances {
            all.main = threads.values().max().map(|&most| (most, samples));
        }
        all
    }

    /// The main thread's share of the samples, if it has them nearly alone in each instance.
    fn private(&self) -> Option<f64> {
        let (share, low) = match self.main {
            Some((most, samples)) => (ratio(most as f64, samples as f64), interval(most as f64, samples as f64).0),
            None if self.threads == 1 => (1.0, interval(self.samples as f64, self.samples as f64).0),
            None => {
                let share = agreeing_share(self.instance.share());
                let low = interval(self.instance.agreeing, self.instance.pairs).0;
                (share, agreeing_share(low))
            }
        };
        (share >= PRIVATE && low >= AGREEMENT).then_some(share)
    }

    /// How much more of one thread a page has than chance gives it: 0..1, may be off to either side.
    fn separation(&self) -> f64 {
        self.separation_at(self.page.share())
    }

    fn separation_at(&self, agreement: f64) -> f64 {
        let chance = self.instance.share();
        ratio(agreement - chance, 1.0 - chance)
    }

    /// True if each page has a main thread, if that can be told.
    fn separated(&self) -> Option<bool> {
        if self.page.pairs < 1.0 {
            return None;
        }
        // One thread that has most of the whole has most of each page.
        if self.main.is_some_and(|(most, samples)| interval(most as f64, samples as f64).0 >= AGREEMENT - 0.05) {
            return Some(true);
        }
        let (low, high) = interval(self.page.agreeing, self.page.pairs);
        let decided = self.page.pairs >= PAIRS;
        if self.separation_at(high) < SEPARATED || (decided && self.separation() < SEPARATED) {
            Some(false)
        } else if self.separation_at(low) > SEPARATED || decided {
            Some(true)
        } else {
            None
        }
    }

    /// The share that a page's main thread has of its samples, as pairs tell; the rest taken to be of one other thread.
    fn main_share(&self) -> f64 {
        agreeing_share(self.page.share())
    }

    /// About how many samples would tell, of an instance of so many pages: twice as many samples are four times as many pairs.
    fn needed(&self, pages: u64) -> u64 {
        let chance = self.instance.share();
        let agreement = if self.page.pairs > 0.0 { self.page.share() } else { chance }.clamp(0.05, 0.95);
        let margin = (self.separation_at(agreement) - SEPARATED).abs().max(0.1) * (1.0 - chance).max(0.1);
        let pairs = (Z * Z * agreement * (1.0 - agreement) / (margin * margin)).max(30.0);
        let by_size = (2.0 * self.each * pages.max(1) as f64 * pairs).sqrt();
        let more = if self.page.pairs > 0.0 {
            self.samples as f64 * (pairs / self.page.pairs).sqrt().max(1.2)
        } else {
            by_size.max(1.2 * self.samples as f64)
        };
        // One digit says all that is known.
        let digit = 10f64.powf(more.log10().floor());
        ((more / digit).ceil() * digit) as u64
    }
}

/// The larger of two shares of which pairs agree so often: `q^2 + (1 - q)^2`.
fn agreeing_share(agreement: f64) -> f64 {
    (1.0 + (2.0 * agreement - 1.0).max(0.0).sqrt()) / 2.0
}

/// Blocks of one instance: kind, block and period in pages, and the share of samples that agree. `each`: what a sample of a page counts.
fn blocks(pages: &[Used], whole: u64, each: f64) -> Option<(&'static str, u64, u64, f64)> {
    if (pages.len() as f64 * each) < FEWEST_PAGES as f64 {
        return None;
    }
    let (owned, owners) = owned(pages);
    let found = ranges(pages, &owned, owners, whole, each)
        .or_else(|| ranges(pages, &smoothed(&owned, each), owners, whole, 1.0));
    if let Some((block, agreement)) = found {
        return Some(("block", block, 0, agreement));
    }
    let (block, agreement) = period(&owned, &runs(&owned), owners, whole)?;
    let period = block * owners as u64;
    match agreement >= AGREEMENT {
        true if owners < 2 => None,
        // One turn is no cycle.
        true if period + block / 2 > whole => Some(("block", block, 0, agreement)),
        true => Some(("block-cyclic", block, period, agreement)),
        false => None,
    }
}

/// The pages whose owner has a part, and how many owners have one. A thread that initialised an object owns a page here and there that
/// others hardly used.
fn owned(pages: &[Used]) -> (Vec<Used>, usize) {
    /// Of an equal share of the pages.
    const PART: usize = 4;
    let mut pages_of: FxHashMap<i32, usize> = FxHashMap::default();
    for page in pages {
        *pages_of.entry(page.owner().0).or_default() += 1;
    }
    let least = pages.len().div_ceil(PART * pages_of.len().max(1));
    pages_of.retain(|_, pages| *pages >= least);
    let owned = pages.iter().filter(|page| pages_of.contains_key(&page.owner().0)).cloned().collect();
    (owned, pages_of.len())
}

/// One range for each owner: the block, and the share of the samples of `pages` that agree. The owners are told by `told`, of which each page
/// counts as `each`.
fn ranges(pages: &[Used], told: &[Used], owners: usize, whole: u64, each: f64) -> Option<(u64, f64)> {
    let runs = runs(told);
    let too_few = each * (told.len() as f64) < (PAGES_OF_RUN * runs.len()) as f64;
    if runs.len() < 2 || runs.len() > owners + owners / 8 || too_few {
        return None;
    }
    let agreement = agreement(pages, |page| {
        let run = runs.partition_point(|run| run.1 <= page);
        run.checked_sub(1).map(|run| runs[run].0)
    });
    (agreement >= AGREEMENT).then(|| (block(&runs, whole), agreement))
}

/// Neighbouring pages taken together until they have enough samples for a stray one not to matter: a thread that initialised all of an
/// object has samples anywhere in it.
fn smoothed(pages: &[Used], each: f64) -> Vec<Used> {
    const ENOUGH: f64 = 8.0;
    let is_enough = |of: &Used| each * of.samples() as f64 >= ENOUGH;
    let mut all: Vec<Used> = Vec::new();
    for page in pages {
        match all.last_mut() {
            Some(last) if !is_enough(last) => {
                for &(thread, n) in &page.threads {
                    match last.threads.binary_search_by_key(&thread, |of| of.0) {
                        Ok(at) => last.threads[at].1 += n,
                        Err(at) => last.threads.insert(at, (thread, n)),
                    }
                }
            }
            _ => all.push(page.clone()),
        }
    }
    // A page across the border of two ranges is neither's, and the last pages may have few samples.
    all.retain(|of| is_enough(of) && 4 * of.owner().1 >= 3 * of.samples());
    all
}

/// Share of the samples that are of the thread which a pattern gives their page to.
fn agreement(pages: &[Used], owner: impl Fn(u64) -> Option<i32>) -> f64 {
    let (mut agreeing, mut samples) = (0, 0);
    for page in pages {
        let owner = owner(page.page);
        agreeing += page.threads.iter().filter(|(thread, _)| Some(*thread) == owner).map(|(_, n)| n).sum::<u64>();
        samples += page.samples();
    }
    ratio(agreeing as f64, samples as f64)
}

/// True if a page may be another owner's by chance: it is used by others too, or was hardly sampled, within a long run.
fn is_stray(page: &Used, run: &(i32, u64, u64)) -> bool {
    const LONG: u64 = 8;
    let (_, own) = page.owner();
    (own as f64) < AGREEMENT * page.samples() as f64 || (page.samples() <= 2 && run.2 - run.1 >= LONG)
}

/// Runs of one owner: owner, first page, last page. A single page of another owner inside a run is taken for a stray
/// sample if the run goes on behind it.
fn runs(pages: &[Used]) -> Vec<(i32, u64, u64)> {
    let mut runs: Vec<(i32, u64, u64)> = Vec::new();
    for (n, page) in pages.iter().enumerate() {
        let owner = page.owner().0;
        match runs.last_mut() {
            Some(run) if run.0 == owner => run.2 = page.page,
            Some(run) if is_stray(page, run) && pages.get(n + 1).is_some_and(|p| p.owner().0 == run.0) => {}
            _ => runs.push((owner, page.page, page.page)),
        }
    }
    runs
}

/// Median length of the blocks in pages. A boundary between two runs lies somewhere between the pages that were sampled on
/// its two sides: the middle is taken.
fn block(runs: &[(i32, u64, u64)], pages: u64) -> u64 {
    let between = runs.windows(2).map(|w| (w[0].2 + w[1].1).div_ceil(2));
    let bounds: Vec<u64> = [0].into_iter().chain(between).chain([pages]).collect();
    let mut lengths: Vec<u64> = bounds.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
    lengths.sort_unstable();
    lengths[lengths.len() / 2]
}

/// Block size in pages, with the share of samples that agree: of every other page, by what the pages between them say, so
/// that no block size is better for having been tried. Runs end where sampled pages end, so their starts are
/// what is exact: the median distance between starts is tried, with its neighbours, then all sizes.
fn period(pages: &[Used], runs: &[(i32, u64, u64)], owners: usize, whole: u64) -> Option<(u64, f64)> {
    let mut steps: Vec<u64> = runs.windows(2).map(|w| w[1].1 - w[0].1).collect();
    steps.sort_unstable();
    let median = *steps.get(steps.len() / 2)?;
    let near = median.saturating_sub(2).max(1)..=median + 2;
    let half = |from: usize| -> Vec<Used> { pages.iter().skip(from).step_by(2).cloned().collect() };
    let (says, judged) = (half(0), half(1));
    let best = |blocks: std::ops::RangeInclusive<u64>| {
        let agreements = blocks.map(|block| (block, turn(&says, &judged, block, owners)));
        agreements.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let first = best(near).filter(|(_, agreement)| *agreement >= AGREEMENT);
    first.or_else(|| best(1..=(whole / (2 * owners as u64)).clamp(1, BLOCKS)))
}

/// How well the samples of some pages agree with blocks of that size, dealt out in turn as others say.
fn turn(says: &[Used], judged: &[Used], block: u64, owners: usize) -> f64 {
    let of = |page: u64| (page / block) as usize % owners;
    let mut votes = vec![FxHashMap::<i32, u64>::default(); owners];
    for page in says {
        for &(thread, n) in &page.threads {
            *votes[of(page.page)].entry(thread).or_default() += n;
        }
    }
    let most = |votes: &FxHashMap<i32, u64>| {
        votes.iter().max_by_key(|(thread, n)| (**n, std::cmp::Reverse(**thread))).map(|(thread, _)| *thread)
    };
    let elected: Vec<Option<i32>> = votes.iter().map(most).collect();
    agreement(judged, |page| elected[of(page)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws numbers, always the same ones (SplitMix64).
    struct Draw(u64);

    impl Draw {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) % n
        }
    }

    fn used(samples: impl Iterator<Item = (u64, i32)>) -> Vec<Used> {
        let mut pages: std::collections::BTreeMap<u64, std::collections::BTreeMap<i32, u64>> = Default::default();
        for (page, thread) in samples {
            *pages.entry(page).or_default().entry(thread).or_default() += 1;
        }
        pages.into_iter().map(|(page, threads)| Used { page, threads: threads.into_iter().collect() }).collect()
    }

    /// Of samples that each show one page.
    fn sampled(pages: &[Used]) -> Sampled {
        let mut threads: std::collections::BTreeMap<i32, u64> = Default::default();
        for &(thread, n) in pages.iter().flat_map(|page| &page.threads) {
            *threads.entry(thread).or_default() += n;
        }
        Sampled { pages: pages.to_vec(), threads: threads.into_iter().collect() }
    }

    fn one(pages: &[Used], whole: u64) -> Pattern {
        judge(&sampled(pages), 4096, Some(whole))
    }

    /// Each sample shows eight pages, next to each other or anywhere, or as many instances.
    #[test]
    fn what_one_sample_shows_is_one_piece_of_evidence() {
        let next = |n: u64| (0..8).map(move |page| (8 * n + page, n as i32));
        let of = |samples: &[(u64, i32)], threads: &[(i32, u64)]| Sampled {
            pages: used(samples.iter().copied()),
            threads: threads.to_vec(),
        };
        let two: Vec<(u64, i32)> = (0..2).flat_map(next).collect();
        let found = judge(&of(&two, &[(0, 1), (1, 1)]), 4096, Some(16));
        assert_eq!((found.kind.as_str(), found.samples), ("unknown", 2), "two samples are no blocks: {found:?}");
        assert_eq!(one(&used(two.into_iter()), 16).kind, "block");

        let pages: Vec<(u64, i32)> = (0..64).map(|page| (page, 1)).collect();
        assert_eq!(judge(&of(&pages, &[(1, 8)]), 4096, Some(64)).kind, "unknown", "eight samples");
        assert_eq!(one(&used(pages.into_iter()), 64).kind, "private");

        let twice: Vec<Sampled> = (0..40).map(|n| of(&[(0, n / 8), (0, n / 8)], &[(n / 8, 2)])).collect();
        assert_eq!(judge_together(&twice, 4096, 10).kind, "unknown", "five samples and what they show again");
        assert_eq!(judge_together(&twice, 4096, 80).kind, "private");
    }

    /// `samples` at pages drawn evenly, by the thread that `thread` gives.
    fn drawn(samples: u64, whole: u64, seed: u64, mut thread: impl FnMut(u64, &mut Draw) -> u64) -> Pattern {
        let mut draw = Draw(seed);
        let samples: Vec<(u64, i32)> = (0..samples)
            .map(|_| {
                let page = draw.below(whole);
                (page, thread(page, &mut draw) as i32)
            })
            .collect();
        one(&used(samples.into_iter()), whole)
    }

    #[test]
    fn a_quarter_each_is_block() {
        let found = one(&used((0..1024).map(|page| (page, (page / 256) as i32))), 1024);
        assert_eq!((found.kind.as_str(), found.block_bytes), ("block", 256 * 4096));
    }

    #[test]
    fn a_stray_page_makes_no_cycle_of_blocks() {
        let owner = |page| match page {
            700 => 3,
            2900 => 0,
            _ => (page / 1024) as i32,
        };
        let found = one(&used((0..4096).map(|page| (page, owner(page)))), 4097);
        assert_eq!((found.kind.as_str(), found.period_bytes), ("block", 0), "{found:?}");
    }

    /// A first thread that touched a page in a hundred, at the ends, made blocks of a third instead of a half.
    #[test]
    fn a_thread_with_a_page_in_a_hundred_owns_no_block() {
        let owner = |page: u64| match page {
            0..8 | 1190..1200 => 0,
            page => 3 + (page / 400 % 2) as i32,
        };
        let found = one(&used((0..1200).map(|page| (page, owner(page)))), 1200);
        assert_eq!((found.kind.as_str(), found.block_bytes), ("block-cyclic", 400 * 4096), "{found:?}");
    }

    #[test]
    fn halves_with_a_stray_end_are_no_cycle() {
        let owner = |page: u64| if page > 980 { 0 } else { (page / 500) as i32 };
        let found = one(&used((0..1000).map(|page| (page, owner(page)))), 1000);
        assert_eq!((found.kind.as_str(), found.period_bytes), ("block", 0), "{found:?}");
        assert!((497 * 4096..=503 * 4096).contains(&found.block_bytes), "{found:?}");
    }

    #[test]
    fn ranges_with_many_stray_samples_are_block() {
        // The first thread has initialised it all: a tenth of the samples, anywhere.
        for seed in 0..20 {
            let found = drawn(900, 4096, seed, |page, draw| if draw.below(10) == 0 { 0 } else { page / 1024 });
            assert_eq!((found.kind.as_str(), found.period_bytes), ("block", 0), "{seed}: {found:?}");
        }
    }

    #[test]
    fn blocks_in_turn_are_block_cyclic_with_their_size() {
        // Every seventh page was not sampled.
        let pages = (0..2000).filter(|page| page % 7 != 3).map(|page| (page, (page / 64 % 3) as i32));
        let found = one(&used(pages), 2000);
        assert_eq!(found.kind, "block-cyclic");
        assert_eq!((found.block_bytes, found.period_bytes), (64 * 4096, 192 * 4096));
    }

    #[test]
    fn blocks_in_turn_with_one_or_two_samples_each_are_never_called_shared() {
        for seed in 0..20 {
            let found = drawn(1200, 24_000, seed, |page, _| page / 37 % 4);
            assert!(matches!(found.kind.as_str(), "block-cyclic" | "unknown" | "mixed"), "{seed}: {found:?}");
            if found.kind == "block-cyclic" {
                assert_eq!(found.block_bytes, 37 * 4096, "{seed}");
            }
        }
    }

    #[test]
    fn pages_used_by_all_are_shared_in_each_recording() {
        for seed in 0..50 {
            assert_eq!(drawn(3000, 500, seed, |_, draw| draw.below(4)).kind, "shared", "{seed}");
            assert_eq!(drawn(3000, 500, seed, |_, draw| draw.below(2)).kind, "shared", "{seed}");
        }
    }

    #[test]
    fn a_main_thread_of_85_percent_in_each_page_is_never_shared() {
        for seed in 0..50 {
            let found = drawn(4000, 1000, seed, |page, draw| {
                let main = page.wrapping_mul(0x9e37_79b9) >> 7 & 3;
                if draw.below(100) < 85 { main } else { draw.below(4) }
            });
            assert_eq!(found.kind, "mixed", "{seed}: {found:?}");
            assert!((found.main_share - 0.88).abs() < 0.06, "{seed}: {found:?}");
        }
    }

    #[test]
    fn one_sample_a_page_is_no_verdict_but_says_how_many_samples_would_be() {
        let found = drawn(300, 24_000, 1, |_, draw| draw.below(4));
        assert_eq!(found.kind, "unknown");
        let needed = found.samples_needed.expect("samples would tell");
        assert!((600..=6000).contains(&needed), "{needed}");
        // With so many it is told.
        assert_eq!(drawn(needed * 2, 24_000, 2, |_, draw| draw.below(4)).kind, "shared");
    }

    #[test]
    fn few_samples_of_one_thread_are_not_yet_private() {
        assert_eq!(one(&used((0..3).map(|page| (page, 1))), 3).kind, "unknown");
        assert_eq!(one(&used((0..40).map(|n| (n % 3, 1))), 3).kind, "private");
    }

    #[test]
    fn instances_with_few_samples_are_judged_together() {
        let mut draw = Draw(7);
        let private: Vec<Vec<Used>> = (0..40).map(|n| used((0..3).map(|page| (page, n % 4)))).collect();
        let mixed: Vec<Vec<Used>> = (0..200)
            .map(|_| used((0..4).map(|n| (n % 2, draw.below(4) as i32)).collect::<Vec<_>>().into_iter()))
            .collect();
        let together = |of: &[Vec<Used>]| {
            let instances: Vec<Sampled> = of.iter().map(|pages| sampled(pages)).collect();
            judge_together(&instances, 4096, instances.iter().map(Sampled::samples).sum()).kind
        };
        assert_eq!(together(&private), "private");
        assert_eq!(together(&mixed), "unknown");
        // Half of them private, half used by all; an instance of one page says nothing of how pages differ.
        let some: Vec<Vec<Used>> = (0..400)
            .map(|n| {
                used(
                    (0..2)
                        .map(|_| (0, if n % 2 == 0 { 0 } else { draw.below(4) as i32 }))
                        .collect::<Vec<_>>()
                        .into_iter(),
                )
            })
            .collect();
        assert_eq!(together(&some), "unknown");
    }
}
