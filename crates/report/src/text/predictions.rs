//! Predicted placements for a terminal or a pipe.

use numamma_findings::{NodeLoad, Prediction, Predictions};

use super::{
    Page,
    style::{Style, clean},
    table::{Cell, Column, Table},
    units,
};
use crate::options::Options;

/// The predictions as text.
pub fn render(predictions: &Predictions, options: &Options) -> String {
    let page = Page::new(options);
    let what = if predictions.memory_only { "accesses to memory" } else { "run time" };
    let machine = clean(&predictions.machine, page.pen.unicode);
    let title =
        format!("NumaMMA  {what} predicted for {machine}, {}", units::plural(predictions.threads as u64, "thread"));
    let mut out = page.pen.paint(Style::Bold, &title) + "\n";
    if let Some(measured) = predictions.measured_s {
        out += &page.labelled("  recorded", &units::seconds(measured));
    }
    out += "\n";
    out += &table(&predictions.candidates, &page);
    out + &assumptions(&predictions.assumptions, predictions.memory_only, &page)
}

/// One row for each placement; shares of time are of the first.
pub(super) fn table(candidates: &[Prediction], page: &Page) -> String {
    let mut table = Table::new(vec![
        Column::name("Placement", 12),
        Column::right("Time", 0),
        Column::right("95 %", 0),
        Column::right("Relative", 1),
        Column::right("Remote", 0),
        Column::right("Imbalance", 2),
        Column::left("Threads", 3),
        Column::left("Busiest node", 4),
    ]);
    let first = candidates.first().map_or(0.0, |first| first.time_s);
    let best = candidates.iter().map(|of| of.time_s).fold(f64::INFINITY, f64::min);
    for of in candidates {
        let relative = if first > 0.0 { format!("{:.0} %", 100.0 * of.time_s / first) } else { String::new() };
        let style = if of.time_s == best { Style::Bold } else { Style::Plain };
        let imbalance = format!("{:.0} %", 100.0 * of.imbalance);
        table.row(vec![
            Cell::new(clean(&of.name, page.pen.unicode)).style(style),
            Cell::new(units::seconds(of.time_s)).style(style),
            Cell::new(interval(of)).style(Style::Dim),
            Cell::new(relative.clone()).phrase(format!("{relative} of the first")),
            Cell::new(units::percent(of.remote_share)),
            Cell::new(imbalance.clone()).phrase(format!("imbalance {imbalance}")),
            Cell::new(of.threads.clone()).phrase(format!("threads {}", of.threads)),
            busiest(&of.nodes),
        ]);
    }
    table.render(page.width, &page.pen)
}

/// `11.2 s to 14 s`; what is known exactly has none.
fn interval(of: &Prediction) -> String {
    match of.high_s - of.low_s > 1e-3 * of.time_s {
        true => format!("{} to {}", units::seconds(of.low_s), units::seconds(of.high_s)),
        false => String::new(),
    }
}

fn busiest(nodes: &[NodeLoad]) -> Cell {
    let Some(most) = nodes.iter().max_by(|a, b| a.share.total_cmp(&b.share)) else { return Cell::default() };
    let text = format!("{}: {}", most.node, units::percent(most.share));
    Cell::new(text.clone()).phrase(format!("busiest node {text}"))
}

/// Assumptions, and the sources of error that the interval holds.
pub(super) fn assumptions(assumptions: &[String], memory_only: bool, page: &Page) -> String {
    let mut out = String::from("\n");
    for assumption in assumptions {
        out += &page.note(&clean(assumption, page.pen.unicode));
    }
    let what = if memory_only { "times" } else { "run times" };
    out + &page.note(&format!("Intervals hold errors of samples and stalls, and that {what} depend on how loads overlap and coincide. docs/MODEL.md has the model."))
}
