//! The comparison of two recordings for a terminal or a pipe.

mod change;
mod objects;
mod pages;
mod promise;

use numamma_findings::{Comparison, Recording};

use super::{
    Page,
    style::{Style, clean, shell_word, width, wrap},
    table::{Cell, Column, Table},
    units,
};
use crate::{options::Options, rows::finite};

/// The comparison as text.
pub fn render(comparison: &Comparison, options: &Options) -> String {
    let page = Page::new(options);
    let mut out = page.pen.paint(Style::Bold, title(comparison)) + "\n";
    for (label, of, more) in [("  A", &comparison.a, &comparison.more_a), ("  B", &comparison.b, &comparison.more_b)] {
        out += &page.labelled(label, &recording(of, &page));
        if !more.is_empty() {
            out += &page.labelled("", &clean(&format!("and {}", more.join(", ")), page.pen.unicode));
        }
    }
    out += &page.labelled("  in common", &in_common(comparison));
    out += "\n";
    out += &total(comparison, &page);
    out += &promise::render(comparison, &page);
    out += &objects::both(comparison, options, &page);
    out += &objects::alone("In A alone", &comparison.only_a, options, &page);
    out += &objects::alone("In B alone", &comparison.only_b, options, &page);
    out += &pages::render(comparison, &page);
    out + &footer(comparison, &page)
}

fn title(comparison: &Comparison) -> &'static str {
    match runs(comparison) {
        1 => "NumaMMA  comparison of two recordings",
        _ => "NumaMMA  comparison of recordings: means over runs",
    }
}

/// Recordings of the side that has more of them.
fn runs(comparison: &Comparison) -> usize {
    1 + comparison.more_a.len().max(comparison.more_b.len())
}

fn recording(of: &Recording, page: &Page) -> String {
    let words: Vec<String> = of.command.iter().map(|word| shell_word(word)).collect();
    let mut parts = vec![
        format!("{}: {}", of.path, words.join(" ")),
        units::seconds(of.wall_s),
        units::plural(of.threads as u64, "thread"),
    ];
    let rate = finite(of.sampler.rate_hz).round() as u64;
    parts.push(match rate {
        0 => of.sampler.kind.clone(),
        rate => format!("{} {} Hz", of.sampler.kind, units::grouped(rate)),
    });
    parts.push(format!("{} at data accesses", units::plural(of.data_samples, "sample")));
    clean(&parts.join(page.pen.dot()), page.pen.unicode)
}

fn in_common(comparison: &Comparison) -> String {
    let (a, b) = (&comparison.a, &comparison.b);
    let (what, in_a, in_b) = match comparison.comparable.cost {
        true => ("cost", a.matched_cost, b.matched_cost),
        false => ("accesses", a.matched_accesses, b.matched_accesses),
    };
    format!(
        "{}, with {} of the {what} of A and {} of B",
        units::plural(comparison.objects.len() as u64, "object"),
        units::percent(in_a),
        units::percent(in_b),
    )
}

fn total(comparison: &Comparison, page: &Page) -> String {
    let total = &comparison.total;
    let mut table = Table::new(vec![
        Column::left("", 0),
        Column::right("A", 0),
        Column::right("", 0),
        Column::right("B", 0),
        Column::right("", 0),
        Column::right("B - A", 0),
    ]);
    if comparison.comparable.cost {
        let cost = &total.cost;
        table.row(vec![
            Cell::new("time at data accesses"),
            Cell::new(units::seconds(cost.a)),
            Cell::new(change::time_error(cost.a_error, page)).style(Style::Dim),
            Cell::new(units::seconds(cost.b)),
            Cell::new(change::time_error(cost.b_error, page)).style(Style::Dim),
            change::time(cost, page),
        ]);
    }
    let wall = &total.wall_time;
    table.row(vec![
        Cell::new("wall time"),
        Cell::new(units::seconds(wall.a)),
        Cell::new(change::time_error(wall.a_error, page)).style(Style::Dim),
        Cell::new(units::seconds(wall.b)),
        Cell::new(change::time_error(wall.b_error, page)).style(Style::Dim),
        change::time(wall, page),
    ]);
    if let Some(remote) = &total.remote {
        table.row(vec![
            Cell::new("remote accesses"),
            Cell::new(units::percent(remote.a)),
            Cell::new(super::objects::error(remote.a_error, page)).style(Style::Dim),
            Cell::new(units::percent(remote.b)),
            Cell::new(super::objects::error(remote.b_error, page)).style(Style::Dim),
            change::points(remote, page),
        ]);
    }
    table.render(page.width, &page.pen)
}

/// Legend of the marks, losses, and facts to know.
fn footer(comparison: &Comparison, page: &Page) -> String {
    let text = match runs(comparison) {
        1 => {
            "* is beyond the 95 % error of the sampling. Chance between runs is not in that error, and times and costs differ \
             by it most: they are marked where several recordings are compared (numamma compare A1 A2 A3 -- B1 B2 B3). \
             Shares differ in points."
        }
        _ => "* is beyond the 95 % error, which holds how much the runs differ. Shares differ in points.",
    };
    let mut out = format!("\n{}", page.note(text));
    for (side, of) in [("A", &comparison.a), ("B", &comparison.b)] {
        for loss in of.losses.iter().filter(|loss| loss.count > 0) {
            let kind = loss.kind.replace('_', " ");
            out += &marked(&format!("{side} lost {}: {kind}: {}", units::grouped(loss.count), loss.remedy), page);
        }
    }
    if comparison.a.losses.iter().chain(&comparison.b.losses).all(|loss| loss.count == 0) {
        out += "Losses: none in both\n";
    }
    comparison.notes.iter().fold(out, |out, note| out + &marked(&note.text, page))
}

/// A line that deserves attention.
fn marked(text: &str, page: &Page) -> String {
    let mark = page.pen.pick("→ ", "> ");
    let lines = wrap(&clean(text, page.pen.unicode), page.width - width(mark));
    let line = |(index, line): (usize, &String)| {
        let mark = page.pen.paint(Style::Warn, if index == 0 { mark } else { "  " });
        format!("{mark}{line}\n")
    };
    lines.iter().enumerate().map(line).collect()
}
