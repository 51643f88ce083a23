//! The last lines of a report: what is not in it, and what to do next.

use numamma_findings::{Findings, WITHOUT_ACCESS};

use super::{
    Page,
    style::{Style, clean, width, wrap},
    units,
};
use crate::{
    rows::{Selection, attributes, is_exact},
    warnings::{Warning, advice, data_samples, line_sharing, warnings},
};

/// Warnings that a report ends with.
const HINTS: usize = 5;
/// Reasons that are listed.
const REASONS: usize = 8;

/// Losses and next steps; for one object, those that concern it.
pub fn render(selection: &Selection, page: &Page) -> String {
    let findings = selection.findings;
    let hints = match selection.object {
        Some(object) => line_sharing(object).into_iter().chain(advice(findings, object)).collect(),
        None => warnings(findings),
    };
    let unattributed = if attributes(findings) { unattributed(findings, page) } else { String::new() };
    unattributed + &uncounted(selection, page) + &losses(findings, page) + &hint_lines(&hints, page)
}

/// Which options count accesses where samples alone cannot.
pub const COUNTING: &str =
    "samples tell of time; record with --windows to estimate shares of accesses, with --sampler exact to count them";

/// Why a table has no numbers of accesses.
fn uncounted(selection: &Selection, page: &Page) -> String {
    let lacking = selection.object.is_none()
        && !is_exact(selection.findings)
        && selection.findings.objects.iter().any(|object| object.samples > 0 && object.accesses.is_cost_only());
    match lacking {
        true => format!("\n{}", page.note(&format!("Accesses that are not shown are not known: {COUNTING}."))),
        false => String::new(),
    }
}

/// Samples without object, by reason.
fn unattributed(findings: &Findings, page: &Page) -> String {
    let samples = &findings.samples;
    let data = data_samples(findings);
    let mut reasons: Vec<(&str, u64)> = Vec::new();
    for (name, &count) in &samples.unattributed {
        // Samples at no data access are no gap in the answer; they are named apart.
        if count > 0 && !WITHOUT_ACCESS.contains(&name.as_str()) {
            reasons.push((name, count));
        }
    }
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut rows: Vec<(u64, String)> =
        reasons.iter().take(REASONS).map(|(name, n)| (*n, clean(&name.replace('_', " "), page.pen.unicode))).collect();
    if let Some(rest @ [_, ..]) = reasons.get(REASONS..) {
        rows.push((rest.iter().map(|(_, n)| n).sum(), units::plural(rest.len() as u64, "other reason")));
    }
    let share = |n: u64| units::percent(n as f64 / data.max(1) as f64);
    let mut out = String::new();
    if !rows.is_empty() {
        let total: u64 = rows.iter().map(|(n, _)| n).sum();
        out += &page.heading(&format!("Not attributed: {} of the data accesses", share(total)));
        let digits = rows.iter().map(|(n, _)| units::grouped(*n).len()).max().unwrap_or(0);
        for (n, reason) in &rows {
            out += &format!("  {:>6}  {:>digits$}  {reason}\n", share(*n), units::grouped(*n));
        }
    }
    if samples.without_access > 0 {
        let of = |reason: &str| samples.unattributed.get(reason).copied().unwrap_or_default();
        let (waiting, own) = (of("spin_wait"), of("recorder"));
        let noun = if is_exact(findings) { "access" } else { "sample" };
        let share = |n: u64| units::percent(n as f64 / samples.recorded.max(1) as f64);
        let parts: Vec<String> = [
            (waiting, "waiting in a spin loop for another thread"),
            (samples.without_access.saturating_sub(waiting + own), "at no data access"),
            (own, "in the recorder's own code in the program"),
        ]
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{} ({}) {what}", units::plural(*n, noun), share(*n)))
        .collect();
        let text = format!("Not data accesses of the program: {}.", parts.join(", "));
        out += if out.is_empty() { "\n" } else { "" };
        out += &page.note(&text);
    }
    out
}

/// Losses of the recording.
fn losses(findings: &Findings, page: &Page) -> String {
    let losses: Vec<_> = findings.losses.iter().filter(|loss| loss.count > 0).collect();
    if losses.is_empty() {
        return "\nLosses: none\n".to_string();
    }
    let mut out = page.heading("Losses");
    let digits = losses.iter().map(|loss| units::grouped(loss.count).len()).max().unwrap_or(0);
    for loss in losses {
        let kind = clean(&loss.kind.replace('_', " "), page.pen.unicode);
        let remedy = clean(&loss.remedy, page.pen.unicode);
        let text = if remedy.is_empty() { kind } else { format!("{kind}: {remedy}") };
        for (index, line) in wrap(&text, page.width - digits - 4).iter().enumerate() {
            let count = if index == 0 { units::grouped(loss.count) } else { String::new() };
            out += &format!("  {}  {line}\n", page.pen.paint(Style::Warn, &format!("{count:>digits$}")));
        }
    }
    out
}

fn hint_lines(hints: &[Warning], page: &Page) -> String {
    let mut out = String::new();
    for warning in hints.iter().take(HINTS) {
        let mark = page.pen.pick("→ ", "> ");
        let text = clean(&warning.to_string(), page.pen.unicode);
        for (index, line) in wrap(&text, page.width - width(mark)).iter().enumerate() {
            let mark = page.pen.paint(Style::Warn, if index == 0 { mark } else { "  " });
            out += &format!("{mark}{line}\n");
        }
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}
