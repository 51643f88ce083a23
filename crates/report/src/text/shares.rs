//! Threads and patterns in a few words.

use numamma_findings::{InstancePattern, Object, Pattern, ThreadShare};

use super::{Page, units};
use crate::rows::{Selection, is_exact};

/// A thread with this share stands for all.
const NEARLY_ALL: f64 = 0.9;

/// Shares that may be off by more are not told.
const MOST_ERROR: f64 = 0.25;

/// Threads with their shares, as [`short`] has them, and what these may be off by: `4 (26/25/25/24 ±2 %)`.
pub fn of_threads(selection: &Selection, threads: &[ThreadShare], page: &Page) -> String {
    let shares = selection.thread_shares(threads);
    let count = units::grouped(shares.len() as u64);
    if !shares.is_empty() && shares.iter().all(|(_, share)| *share == 0.0) {
        return if shares.len() == 1 { format!("T{} (no cost)", shares[0].0) } else { format!("{count} (no cost)") };
    }
    let error = threads.iter().filter_map(|of| of.error).fold(0.0, f64::max);
    if error > MOST_ERROR && !is_exact(selection.findings) {
        return match &shares[..] {
            [(thread, _)] => format!("T{thread}"),
            _ => count,
        };
    }
    if let [(thread, share), _, ..] = &shares[..]
        && *share >= NEARLY_ALL
    {
        let half = match error >= 0.005 {
            true => format!(" {}{}", page.pen.plus_minus(), units::percent_whole(error)),
            false => String::new(),
        };
        return format!("{count}, mostly T{thread} ({}{half} %)", units::percent_whole(*share));
    }
    let text = short(&shares, page);
    match text.rsplit_once(" %").filter(|_| shares.len() > 1 && error >= 0.005) {
        Some((left, right)) => format!("{left} {}{} %{right}", page.pen.plus_minus(), units::percent_whole(error)),
        None => text,
    }
}

/// Shares of threads, largest first: `T0 97 %`, `4 (26/25/25/24 %)`, `16 (5-7 %)`, `16 (41/22/9.. %)`.
pub fn short(shares: &[(usize, f64)], page: &Page) -> String {
    let whole = |&(_, share): &(usize, f64)| units::percent_whole(share);
    match shares {
        [] => "-".to_string(),
        [(thread, share), rest @ ..] if rest.is_empty() || *share >= NEARLY_ALL => {
            format!("T{thread} {} %", units::percent_whole(*share))
        }
        few if few.len() <= 4 => format!("{} ({} %)", few.len(), few.iter().map(whole).collect::<Vec<_>>().join("/")),
        many => {
            let (most, least) = (whole(&many[0]), whole(&many[many.len() - 1]));
            let n = units::grouped(many.len() as u64);
            if most == least {
                format!("{n} ({most} % each)")
            } else if many[0].1 <= 1.6 * many[many.len() - 1].1 {
                format!("{n} ({least}-{most} %)")
            } else {
                let first: Vec<String> = many[..3].iter().map(whole).collect();
                format!("{n} ({}{} %)", first.join("/"), page.pen.ellipsis())
            }
        }
    }
}

/// `thread` or `threads`, before [`short`].
pub fn noun(threads: usize) -> &'static str {
    if threads == 1 { "thread" } else { "threads" }
}

/// Shares of threads, by name: `4: T0 26 %, T1 25 %, ...`.
pub fn long(shares: &[(usize, f64)], most: usize) -> String {
    let named: Vec<String> = shares
        .iter()
        .take(most)
        .map(|(thread, share)| format!("T{thread} {} %", units::percent_whole(*share)))
        .collect();
    let rest: f64 = shares.iter().skip(most).map(|(_, share)| share).sum();
    let others = match shares.len().saturating_sub(most) {
        0 => String::new(),
        n => format!(", {} others {} %", units::grouped(n as u64), units::percent_whole(rest)),
    };
    format!("{}{others}", named.join(", "))
}

/// `block 191 MiB`, `block-cyclic 256 KiB (72 %)`, `private, one each for 4 threads`: how threads share an object.
pub fn pattern(object: &Object) -> String {
    if object.instance_patterns.is_empty() { of_one(&object.pattern) } else { of_instances(object) }
}

/// How threads share one instance: with the share of samples that agree where it is not nearly all.
pub fn of_one(pattern: &Pattern) -> String {
    let block = if pattern.block_bytes > 0 { format!(" {}", units::bytes(pattern.block_bytes)) } else { String::new() };
    match pattern.kind.as_str() {
        "mixed" if pattern.main_share > 0.0 => main_user(pattern.main_share),
        "" | "unknown" => format!("pattern unknown{}", untold(pattern)),
        kind @ ("private" | "block" | "block-cyclic") if pattern.confidence < 0.95 => {
            format!("{kind}{block} ({} %)", units::percent_whole(pattern.confidence))
        }
        kind => format!("{kind}{block}"),
    }
}

fn main_user(share: f64) -> String {
    format!("mostly one thread a page ({} %)", units::percent_whole(share))
}

/// Fewer samples than this are not worth a hint: nothing is known of the object, and it costs nothing.
const HINTED: u64 = 30;

/// How many samples there are and about how many would tell.
fn untold(pattern: &Pattern) -> String {
    match pattern.samples_needed {
        Some(needed) if needed > pattern.samples && pattern.samples >= HINTED => {
            let samples = units::plural(pattern.samples, "sample");
            format!(": {samples}, about {} would tell", units::grouped(needed))
        }
        _ => String::new(),
    }
}

/// The patterns of several instances, added up.
fn of_instances(object: &Object) -> String {
    let patterns = &object.instance_patterns;
    let judged: u64 = patterns.iter().map(|of| of.instances).sum();
    let one = |of: &InstancePattern| {
        let block = if of.block_bytes > 0 { format!(" {}", units::bytes(of.block_bytes)) } else { String::new() };
        match of.kind.as_str() {
            "mixed" => "mostly one thread a page".to_string(),
            kind => format!("{kind}{block}"),
        }
    };
    match &patterns[..] {
        [of] if of.kind == "unknown" => format!("pattern unknown{}", untold(&object.pattern)),
        [of] if of.kind == "private" && of.threads == 1 => "private, all of one thread".to_string(),
        [of] if of.kind == "private" && of.threads == judged => {
            format!("private, one each for {}", units::plural(of.threads, "thread"))
        }
        [of] if of.kind == "private" => {
            let threads = units::plural(of.threads, "thread");
            format!("private, each of {} has one of {threads}", units::plural(judged, "instance"))
        }
        [of] => format!("{} in each of {}", one(of), units::plural(judged, "instance")),
        several => {
            let part = |of: &InstancePattern| format!("{} in {}", one(of), units::grouped(of.instances));
            let parts: Vec<String> = several.iter().take(3).map(part).collect();
            format!("{} of {}", parts.join(", "), units::plural(judged, "instance"))
        }
    }
}

/// The same in a sentence.
pub fn pattern_long(object: &Object) -> String {
    let pattern = &object.pattern;
    if !object.instance_patterns.is_empty() {
        return of_instances(object);
    }
    let block = units::bytes(pattern.block_bytes);
    let what = match pattern.kind.as_str() {
        "private" => "private: one thread uses it".to_string(),
        "block" if pattern.block_bytes > 0 => format!("block: each thread uses one range of {block}"),
        "block" => "block: each thread uses one range".to_string(),
        "block-cyclic" => {
            let period = if pattern.period_bytes > 0 {
                format!(", in turn every {}", units::bytes(pattern.period_bytes))
            } else {
                String::new()
            };
            format!("block-cyclic: ranges of {block}{period}")
        }
        "shared" => {
            return "shared: threads use each page as they use the whole".to_string();
        }
        "mixed" => return format!("mixed: {}, in no one order", main_user(pattern.main_share)),
        "" | "unknown" => return format!("unknown{}", untold(pattern)),
        other => other.to_string(),
    };
    format!("{what} ({} of its samples agree)", units::percent(pattern.confidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn threads_in_a_few_words() {
        let page = Page::new(&Options::default());
        let even = |n: usize| (0..n).map(|thread| (thread, 1.0 / n as f64)).collect::<Vec<_>>();
        assert_eq!(short(&[], &page), "-");
        assert_eq!(short(&[(7, 1.0)], &page), "T7 100 %");
        assert_eq!(short(&[(0, 0.97), (1, 0.03)], &page), "T0 97 %");
        assert_eq!(short(&[(0, 0.26), (1, 0.25), (3, 0.25), (2, 0.24)], &page), "4 (26/25/25/24 %)");
        assert_eq!(short(&even(16), &page), "16 (6 % each)");
        assert_eq!(short(&even(2000), &page), "2 000 (<1 % each)");
        assert_eq!(short(&[(0, 0.22), (1, 0.21), (2, 0.2), (3, 0.19), (4, 0.18)], &page), "5 (18-22 %)");
        assert_eq!(short(&[(0, 0.5), (1, 0.2), (2, 0.1), (3, 0.1), (4, 0.1)], &page), "5 (50/20/10… %)");
        assert_eq!(long(&even(3), 2), "T0 33 %, T1 33 %, 1 others 33 %");
    }

    #[test]
    fn threads_of_an_object() {
        let findings = numamma_findings::Findings::default();
        let options = Options::default();
        let (page, selection) = (Page::new(&options), Selection::new(&findings, &options).unwrap());
        let of = |shares: &[f64]| {
            let share = |(thread, &cost_share): (usize, &f64)| ThreadShare {
                thread,
                cost_share,
                access_share: None,
                error: Some(0.01),
            };
            of_threads(&selection, &shares.iter().enumerate().map(share).collect::<Vec<_>>(), &page)
        };
        assert_eq!(of(&[0.97, 0.02, 0.01, 0.0]), "4, mostly T0 (97 ±1 %)");
        assert_eq!(of(&[0.0, 0.0, 0.0, 0.0]), "4 (no cost)");
        assert_eq!(of(&[0.0]), "T0 (no cost)");
        assert_eq!(of(&[0.5, 0.5]), "2 (50/50 ±1 %)");
    }

    fn object(pattern: Pattern, instances: &[(&str, u64, u64)]) -> Object {
        let of = |&(kind, instances, threads): &(&str, u64, u64)| InstancePattern {
            kind: kind.into(),
            instances,
            threads,
            block_bytes: if kind == "block" { 1 << 20 } else { 0 },
            share: 0.5,
        };
        Object { pattern, instance_patterns: instances.iter().map(of).collect(), ..Object::default() }
    }

    #[test]
    fn patterns() {
        let kind = |kind: &str| Pattern { kind: kind.into(), confidence: 0.97, ..Pattern::default() };
        let cyclic = Pattern { block_bytes: 1 << 18, period_bytes: 1 << 20, confidence: 0.82, ..kind("block-cyclic") };
        assert_eq!(pattern(&object(cyclic.clone(), &[])), "block-cyclic 256 KiB (82 %)");
        assert_eq!(
            pattern_long(&object(cyclic, &[])),
            "block-cyclic: ranges of 256 KiB, in turn every 1 MiB (82.0 % of its samples agree)"
        );
        let mixed = Pattern { main_share: 0.85, ..kind("mixed") };
        assert_eq!(pattern(&object(mixed, &[])), "mostly one thread a page (85 %)");
        let unknown = Pattern { samples: 680, samples_needed: Some(2000), ..kind("unknown") };
        assert_eq!(pattern(&object(unknown, &[])), "pattern unknown: 680 samples, about 2 000 would tell");
        assert_eq!(pattern(&Object::default()), "pattern unknown");
    }

    #[test]
    fn patterns_of_several_instances_add_up_in_words() {
        let of = |instances: &[(&str, u64, u64)]| pattern(&object(Pattern::default(), instances));
        assert_eq!(of(&[("private", 4, 4)]), "private, one each for 4 threads");
        assert_eq!(of(&[("private", 37, 4)]), "private, each of 37 instances has one of 4 threads");
        assert_eq!(of(&[("private", 37, 1)]), "private, all of one thread");
        assert_eq!(of(&[("block", 12, 4)]), "block 1 MiB in each of 12 instances");
        assert_eq!(of(&[("private", 30, 4), ("shared", 7, 4)]), "private in 30, shared in 7 of 37 instances");
    }
}
