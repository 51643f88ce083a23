//! The instances of one object: who uses each, and who touched it first.

use numamma_findings::{Detail, Instance};

use super::{
    Page, shares,
    table::{Cell, Column, Table},
    units,
};
use crate::rows::{Selection, finite, is_exact, objects::first_touch_shares};

/// Instances that are listed: those with most samples.
const LISTED: usize = 12;

/// The list of instances, or the one that is asked for.
pub fn render(selection: &Selection, detail: &Detail, page: &Page) -> String {
    let only = selection.options.instance;
    if detail.instances.is_empty() {
        return String::new();
    }
    let mut rows: Vec<&Instance> =
        detail.instances.iter().filter(|of| only.is_none_or(|only| of.instance == only)).collect();
    let total: u64 = detail.instances.iter().map(|of| of.samples).sum();
    rows.sort_by_key(|of| (std::cmp::Reverse(of.samples), of.instance));
    rows.truncate(selection.options.top.unwrap_or(LISTED));
    rows.sort_by_key(|of| of.instance);
    let mut table = Table::new(vec![
        Column::right("Instance", 0),
        Column::right("Size", 5),
        Column::right("From", 7),
        Column::right("To", 7),
        Column::right(if is_exact(selection.findings) { "Accesses" } else { "Samples" }, 0),
        Column::right("", 0),
        Column::left("Threads", 3),
        Column::left("First touch", 2),
        Column::left("Pattern", 4),
    ]);
    for of in &rows {
        let end = of.end_s.map_or("end".to_string(), |end| units::seconds(finite(end)));
        let users = shares::of_threads(selection, &of.threads, page);
        let touchers = shares::short(&first_touch_shares(&of.first_touch), page);
        let pattern = shares::of_one(&of.pattern);
        table.row(vec![
            Cell::new(of.instance.to_string()),
            Cell::new(units::bytes(of.bytes)).phrase(units::bytes(of.bytes)),
            Cell::new(units::seconds(finite(of.start_s)))
                .phrase(format!("from {}", units::seconds(finite(of.start_s)))),
            Cell::new(&end).phrase(format!("to {end}")),
            Cell::new(units::count(of.samples as f64)),
            Cell::new(units::percent(of.samples as f64 / total.max(1) as f64)),
            Cell::new(&users).phrase(&users),
            Cell::new(&touchers).phrase(format!("first touch {touchers}")),
            Cell::new(pattern.strip_prefix("pattern ").unwrap_or(&pattern)).phrase(&pattern),
        ]);
    }
    let mut out = page.heading(if only.is_some() { "Instance" } else { "Instances" });
    out += &table.render(page.width, &page.pen);
    let rest = detail.instances_of.saturating_sub(rows.len() as u64);
    if only.is_none() {
        let more = match rest {
            0 => String::new(),
            n => {
                format!("{} {} more with fewer samples (--top N lists more); ", page.pen.ellipsis(), units::grouped(n))
            }
        };
        out += &page.note(&format!("{more}--instance N shows one alone"));
    }
    out
}
