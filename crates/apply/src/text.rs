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
    let names: Vec<String> = achieved.rules.iter().map(|rule| shorten(&rule.object)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(6);
    if !achieved.rules.is_empty() {
        let _ = writeln!(
            text,
            "  {:width$}  {:19}  {:>7}  {:>9}  {:>9}  {:>7}  {:>9}  {:>8}",
            "object", "policy", "objects", "size", "pages", "right", "elsewhere", "unused"
        );
    }
    for (rule, name) in achieved.rules.iter().zip(&names) {
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
    if achieved.pinned + achieved.not_pinned > 0 {
        let _ = write!(text, "  threads  {} pinned", achieved.pinned);
        if achieved.not_pinned > 0 {
            let _ = write!(text, ", {} not: the system refused", achieved.not_pinned);
        }
        text.push('\n');
    }
    for remark in &achieved.remarks {
        let _ = writeln!(text, "  {remark}");
    }
    text
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
