//! What became of a plan, for people.

use std::fmt::Write as _;

use numamma_plan::format_size;

use crate::achieved::{Achieved, RuleAchieved};

/// A few lines; they end with a line feed.
pub fn render(achieved: &Achieved) -> String {
    let mut text = String::new();
    let (pages, from) = (achieved.pages(), &achieved.plan);
    let matched = achieved.rules.iter().filter(|rule| rule.objects > 0).count();
    // Writing to a string cannot fail.
    let _ = write!(text, "Placement  {from}: {matched} of {} objects found", achieved.rules.len());
    if let Some(part) = pages.achieved() {
        let _ =
            write!(text, ", {} of {} pages where they are wanted ({})", pages.right, pages.present(), percent(part));
    }
    text.push('\n');
    if let Some(rule) = &achieved.stopped {
        let _ = writeln!(text, "  stopped: {rule} could not be placed, and the plan is strict");
    }
    let (shown, folded) = fold(&achieved.rules);
    let names: Vec<String> = shown.iter().map(|rule| shorten(&rule.object)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(6);
    if !achieved.rules.is_empty() {
        let _ = writeln!(
            text,
            "  {:width$}  {:19}  {:>7}  {:>9}  {:>9}  {:>7}  {:>9}  {:>8}",
            "object", "policy", "objects", "size", "pages", "right", "elsewhere", "unused"
        );
    }
    for (rule, name) in shown.iter().zip(&names) {
        let right = rule.pages.achieved().map_or("-".into(), percent);
        let _ = writeln!(
            text,
            "  {name:width$}  {:19}  {:>7}  {:>9}  {:>9}  {right:>7}  {:>9}  {:>8}",
            rule.policy,
            rule.objects,
            format_size(about(rule.bytes)),
            rule.pages.present(),
            rule.pages.elsewhere,
            rule.pages.unused
        );
        why(&mut text, rule);
    }
    if !folded.is_empty() {
        let _ = writeln!(text, "  {}", sum(&folded));
    }
    if achieved.pinned + achieved.not_pinned > 0 {
        let _ = write!(text, "  threads  {} pinned", achieved.pinned);
        if achieved.not_pinned > 0 {
            let _ = write!(text, ", {} not: the system refused", achieved.not_pinned);
        }
        text.push('\n');
    }
    for remark in achieved.remarks.iter().take(MOST_LINES) {
        let _ = writeln!(text, "  {remark}");
    }
    if achieved.remarks.len() > MOST_LINES {
        let _ = writeln!(text, "  ... and {} more remarks: --report FILE has all", achieved.remarks.len() - MOST_LINES);
    }
    text
}

/// Objects, and remarks, that are shown one by one.
const MOST_LINES: usize = 24;

/// The objects that are shown and the rest, both in the plan's order. Those come first that are not as they were asked for, then the
/// largest.
fn fold(rules: &[RuleAchieved]) -> (Vec<&RuleAchieved>, Vec<&RuleAchieved>) {
    let is_wrong = |rule: &RuleAchieved| rule.pages.elsewhere > 0 || rule.refused > 0 || rule.fell_back > 0;
    let mut order: Vec<usize> = (0..rules.len()).collect();
    order.sort_by_key(|&n| (!is_wrong(&rules[n]), std::cmp::Reverse(rules[n].bytes), n));
    order.truncate(MOST_LINES);
    let shown = |n: &usize| order.contains(n);
    let (first, rest): (Vec<usize>, Vec<usize>) = (0..rules.len()).partition(shown);
    let these = |numbers: Vec<usize>| numbers.into_iter().map(|n| &rules[n]).collect();
    (these(first), these(rest))
}

/// Many objects in one line.
fn sum(rules: &[&RuleAchieved]) -> String {
    let found = rules.iter().filter(|rule| rule.objects > 0).count();
    let (present, right) =
        rules.iter().fold((0, 0), |(present, right), rule| (present + rule.pages.present(), right + rule.pages.right));
    let pages = match present {
        0 => String::new(),
        _ => format!(", {present} pages, {} right", percent(right as f64 / present as f64)),
    };
    format!("... and {} more: {found} found{pages}; --report FILE has all", rules.len())
}

/// What is not as it was asked for, and why.
fn why(text: &mut String, rule: &RuleAchieved) {
    let mut line = |words: String| {
        let _ = writeln!(text, "    {words}");
    };
    if rule.by_node.len() > 1 || rule.pages.elsewhere > 0 {
        let nodes: Vec<String> = rule.by_node.iter().map(|(node, pages)| format!("node {node}: {pages}")).collect();
        if !nodes.is_empty() {
            line(format!("pages by node  {}", nodes.join(", ")));
        }
    }
    if let Some(sizes) = rule.page_sizes.filter(|sizes| sizes.used > 0) {
        let part = sizes.huge as f64 / sizes.used as f64;
        let why = if part < 0.5 { ": none were free, or the system gives none (transparent_hugepage)" } else { "" };
        line(format!("{} of it has pages of 2 MiB{why}", percent(part)));
    }
    if rule.objects == 0 {
        line("not found: the program has no such object, or has not come there".into());
    }
    if rule.too_small > 0 {
        line(format!(
            "{} without a whole page of their own stay where they are (gather = \"by-thread\" puts them together)",
            rule.too_small
        ));
    }
    if rule.fell_back > 0 {
        line(format!("{} times the next best policy: this kernel has not the one asked for", rule.fell_back));
    }
    if let Some(refusal) = &rule.refusal {
        line(format!("refused {} times: {refusal}", rule.refused));
    }
    if rule.pages.elsewhere > 0 && rule.refused == 0 {
        line("elsewhere: the node was full, or the pages were pinned or shared when they were to be moved".into());
    }
    if rule.unlisted > 0 {
        line(format!("{} placed, but not read back: too many at once", rule.unlisted));
    }
    if rule.pages.unread > 0 {
        line(format!("{} pages not read back: the program filters its system calls", rule.pages.unread));
    }
}

fn percent(part: f64) -> String {
    // Never rounded up to all.
    let shown = (part * 1e4).floor() / 100.0;
    if part >= 1.0 { "100 %".into() } else { format!("{shown:.2} %") }
}

/// Three digits.
fn about(bytes: u64) -> u64 {
    let unit = [30, 20, 10].into_iter().find(|shift| bytes >> shift >= 10).unwrap_or(0);
    (bytes >> unit) << unit
}

fn shorten(name: &str) -> String {
    const MOST: usize = 40;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    let end: String = name.chars().take(MOST - 1).collect();
    format!("{end}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::achieved::Pages;

    #[test]
    fn many_objects_are_folded() {
        let rule = |n: u64| RuleAchieved {
            object: format!("object {n}"),
            policy: "block".into(),
            line: n as usize,
            nodes: vec![0],
            objects: u64::from(n < 1990),
            bytes: n.min(1989) * 4096,
            too_small: 0,
            unlisted: 0,
            refused: 0,
            refusal: None,
            fell_back: 0,
            pages: Pages { right: 10, elsewhere: u64::from(n == 7), ..Pages::default() },
            page_sizes: None,
            by_node: Vec::new(),
        };
        let rules: Vec<RuleAchieved> = (0..2000).map(rule).collect();
        let remarks = (0..100).map(|n| format!("plan.toml:{n}: nothing")).collect();
        let text = render(&Achieved { rules: rules.clone(), remarks, ..Achieved::default() });
        assert!(text.lines().count() < 100, "{text}");
        assert!(text.contains("  object 7 ") && text.contains("  object 1989 "), "{text}");
        assert!(text.contains("... and 1976 more: 1976 found, 19760 pages, 100 % right"), "{text}");
        assert!(text.contains("... and 76 more remarks"), "{text}");
        let few = render(&Achieved { rules: rules[..20].to_vec(), ..Achieved::default() });
        assert!(!few.contains("more"), "{few}");
    }
}
