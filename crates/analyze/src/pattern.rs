//! How the threads share an object, from the owners of its pages.
//!
//! How the block size is found: the thread with most accesses owns a page, runs of one owner are
//! merged over pages that were not sampled, and the period of the sequence of runs is the period of the distribution.

use numamma_findings::Pattern;
use rustc_hash::FxHashMap;

/// A page's owner and how much of the page's accesses are its own (0..1).
#[derive(Clone, Copy, Debug)]
pub struct Owned {
    pub page: u64,
    pub owner: i32,
    pub exclusive: f64,
    /// Samples in the page.
    pub samples: u64,
}

/// Fewer sampled pages than this tell nothing.
const FEWEST_PAGES: usize = 8;
/// Share of accesses that makes a page its owner's alone.
const EXCLUSIVE: f64 = 0.8;
/// Samples that tell whether a stretch of pages is one thread's alone; a page with one sample always looks as if it were.
const TELLING: u64 = 8;
/// Share of pages that must agree for a pattern to be named.
const AGREEMENT: f64 = 0.8;

/// The pattern of what has none that could be found.
pub fn unknown() -> Pattern {
    Pattern { kind: "unknown".into(), ..Pattern::default() }
}

/// Finds the pattern. `pages` ascending; `bytes`: size of the object if pages are counted from its start.
pub fn find(pages: &[Owned], page_bytes: u64, threads: usize, bytes: Option<u64>) -> Pattern {
    let pattern = |kind: &str, block: u64, period: u64, confidence: f64| Pattern {
        kind: kind.into(),
        block_bytes: block * page_bytes,
        period_bytes: period * page_bytes,
        confidence,
    };
    if threads == 1 && !pages.is_empty() {
        return pattern("private", 0, 0, 1.0);
    }
    if pages.len() < FEWEST_PAGES {
        return unknown();
    }
    let first = pages[0].owner;
    let one_owner = pages.iter().filter(|p| p.owner == first && p.exclusive >= EXCLUSIVE).count();
    if one_owner as f64 >= 0.95 * pages.len() as f64 {
        return pattern("private", 0, 0, one_owner as f64 / pages.len() as f64);
    }
    let mut owners: Vec<i32> = pages.iter().map(|page| page.owner).collect();
    owners.sort_unstable();
    owners.dedup();
    let exclusive = pages.iter().filter(|p| p.exclusive >= EXCLUSIVE).count() as f64 / pages.len() as f64;
    if let Some(bytes) = bytes.filter(|_| exclusive >= AGREEMENT) {
        let runs = runs(pages);
        if runs.len() <= owners.len() + owners.len() / 8 {
            return pattern("block", block(&runs, bytes.div_ceil(page_bytes)), 0, exclusive);
        }
        if let Some((block, period, agreement)) = period(pages, &runs, owners.len())
            && agreement >= AGREEMENT
        {
            return pattern("block-cyclic", block, period, agreement);
        }
    }
    let alone = alone(pages);
    if alone < AGREEMENT { pattern("shared", 0, 0, 1.0 - alone) } else { pattern("mixed", 0, 0, alone) }
}

/// Share of stretches of neighbouring pages, each with enough samples to tell, that are one thread's alone.
fn alone(pages: &[Owned]) -> f64 {
    let (mut stretches, mut exclusive) = (0_u32, 0_u32);
    let mut by_thread: Vec<(i32, f64)> = Vec::new();
    let mut samples = 0;
    for page in pages {
        samples += page.samples;
        let own = page.samples as f64 * page.exclusive;
        let others = page.samples as f64 - own;
        // Whose the rest is does not matter: it is not the owner's.
        for (thread, n) in [(page.owner, own), (i32::MIN, others)] {
            match by_thread.iter_mut().find(|(t, _)| *t == thread) {
                Some((_, sum)) => *sum += n,
                None => by_thread.push((thread, n)),
            }
        }
        if samples >= TELLING {
            let most = by_thread.iter().filter(|(t, _)| *t != i32::MIN).map(|(_, n)| *n).fold(0.0, f64::max);
            stretches += 1;
            exclusive += u32::from(most >= EXCLUSIVE * samples as f64);
            samples = 0;
            by_thread.clear();
        }
    }
    crate::statistics::ratio(exclusive.into(), stretches.into())
}

/// Whether a page may be another owner's by chance: it is used by others too, or was hardly sampled, within a long run.
fn is_stray(page: &Owned, run: &(i32, u64, u64)) -> bool {
    const LONG: u64 = 8;
    page.exclusive < EXCLUSIVE || (page.samples <= 2 && run.2 - run.1 >= LONG)
}

/// Runs of one owner: owner, first page, last page. A single page of another owner inside a run is taken for a stray
/// sample if the run goes on behind it.
fn runs(pages: &[Owned]) -> Vec<(i32, u64, u64)> {
    let mut runs: Vec<(i32, u64, u64)> = Vec::new();
    for (n, page) in pages.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if run.0 == page.owner => run.2 = page.page,
            Some(run) if is_stray(page, run) && pages.get(n + 1).is_some_and(|p| p.owner == run.0) => {}
            _ => runs.push((page.owner, page.page, page.page)),
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

/// Block and period in pages, with the share of pages that agree. Runs end where sampled pages end, so their starts are
/// what is exact: the median distance between starts is tried, with its neighbours.
fn period(pages: &[Owned], runs: &[(i32, u64, u64)], owners: usize) -> Option<(u64, u64, f64)> {
    let mut steps: Vec<u64> = runs.windows(2).map(|w| w[1].1 - w[0].1).collect();
    steps.sort_unstable();
    let median = *steps.get(steps.len() / 2)?;
    let mut best = None;
    for block in median.saturating_sub(2).max(1)..=median + 2 {
        let period = block * owners as u64;
        // Who owns the k-th block of a period: most of its pages.
        let mut votes = vec![FxHashMap::<i32, u32>::default(); owners];
        for page in pages {
            *votes[(page.page % period / block) as usize].entry(page.owner).or_default() += 1;
        }
        let agreeing: u32 = votes.iter().filter_map(|v| v.values().max()).sum();
        let agreement = f64::from(agreeing) / pages.len() as f64;
        if best.is_none_or(|(_, _, a)| agreement > a) {
            best = Some((block, period, agreement));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(owner: impl Fn(u64) -> Option<i32>, count: u64) -> Vec<Owned> {
        (0..count).filter_map(|page| Some(Owned { page, owner: owner(page)?, exclusive: 1.0, samples: 1 })).collect()
    }

    #[test]
    fn a_quarter_each_is_block() {
        let found = find(&pages(|p| Some((p / 256) as i32), 1024), 4096, 4, Some(1024 * 4096));
        assert_eq!((found.kind.as_str(), found.block_bytes), ("block", 256 * 4096));
    }

    #[test]
    fn a_stray_page_makes_no_cycle_of_blocks() {
        let owner = |page| {
            Some(if page == 700 {
                3
            } else if page == 2900 {
                0
            } else {
                (page / 1024) as i32
            })
        };
        let found = find(&pages(owner, 4096), 4096, 4, Some(4097 * 4096));
        assert_eq!((found.kind.as_str(), found.period_bytes), ("block", 0), "{found:?}");
    }

    #[test]
    fn blocks_in_turn_are_block_cyclic_with_their_size() {
        // Every seventh page was not sampled.
        let found = find(&pages(|p| (p % 7 != 3).then_some((p / 64 % 3) as i32), 2000), 4096, 3, Some(2000 * 4096));
        assert_eq!(found.kind, "block-cyclic");
        assert_eq!((found.block_bytes, found.period_bytes), (64 * 4096, 192 * 4096));
    }

    #[test]
    fn pages_used_by_all_are_shared() {
        let pages: Vec<Owned> =
            (0..100).map(|page| Owned { page, owner: (page % 4) as i32, exclusive: 0.3, samples: 9 }).collect();
        assert_eq!(find(&pages, 4096, 4, Some(100 * 4096)).kind, "shared");
    }

    #[test]
    fn a_random_gather_is_shared_though_each_sampled_page_has_one_owner() {
        let owner = |p: u64| Some((p.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63) as i32);
        assert_eq!(find(&pages(owner, 3000), 4096, 2, Some(3000 * 4096)).kind, "shared");
    }

    #[test]
    fn few_pages_tell_nothing() {
        assert_eq!(find(&pages(|p| Some(p as i32), 3), 4096, 3, Some(3 * 4096)).kind, "unknown");
        assert_eq!(find(&pages(|_| Some(1), 3), 4096, 1, Some(3 * 4096)).kind, "private");
    }
}
