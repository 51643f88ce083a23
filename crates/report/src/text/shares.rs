//! Threads and patterns in a few words.

use numamma_findings::Pattern;

use super::{Page, units};

/// A thread with this share stands for all.
const NEARLY_ALL: f64 = 0.9;

/// Who has how much, largest first: `T0 97 %`, `4 (26/25/25/24 %)`, `16 (5-7 %)`, `16 (41/22/9.. %)`.
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

/// Who has how much, by name: `4: T0 26 %, T1 25 %, ...`.
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

/// `block 191 MiB`, `block-cyclic 256 KiB (72 %)`: with the confidence where it is not near certainty.
pub fn pattern(pattern: &Pattern) -> String {
    let kind = if pattern.kind.is_empty() { "unknown" } else { pattern.kind.as_str() };
    let block = if pattern.block_bytes > 0 { format!(" {}", units::bytes(pattern.block_bytes)) } else { String::new() };
    let sure = kind == "unknown" || pattern.confidence >= 0.95 || !pattern.confidence.is_finite();
    let confidence = if sure { String::new() } else { format!(" ({} %)", units::percent_whole(pattern.confidence)) };
    format!("{kind}{block}{confidence}")
}

/// The pattern in a sentence.
pub fn pattern_long(pattern: &Pattern) -> String {
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
        "shared" => "shared: many threads use the same pages".to_string(),
        "mixed" => "mixed: no one pattern".to_string(),
        "" | "unknown" => return "unknown: too few samples".to_string(),
        other => other.to_string(),
    };
    format!("{what} ({} of the sampled pages agree)", units::percent(pattern.confidence))
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
    fn patterns() {
        let block =
            Pattern { kind: "block-cyclic".into(), block_bytes: 1 << 18, period_bytes: 1 << 20, confidence: 0.72 };
        assert_eq!(pattern(&block), "block-cyclic 256 KiB (72 %)");
        assert_eq!(
            pattern_long(&block),
            "block-cyclic: ranges of 256 KiB, in turn every 1 MiB (72.0 % of the sampled pages agree)"
        );
        assert_eq!(pattern(&Pattern::default()), "unknown");
    }
}
