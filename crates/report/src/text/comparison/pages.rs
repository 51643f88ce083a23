//! How far both recordings agree on who owns which page.

use numamma_findings::{Agreement, Comparison, Ownership, Side, Uncompared};

use super::super::{
    Page,
    objects::error,
    style::Style,
    table::{Cell, Column, Table},
    units,
};

/// The table of coverage and accuracy; nothing where pages cannot be compared.
pub fn render(comparison: &Comparison, page: &Page) -> String {
    let Some(ownership) = &comparison.ownership else { return String::new() };
    let (reference, other) = match ownership.reference {
        Side::A => ("A", "B"),
        Side::B => ("B", "A"),
    };
    let mut out = page.heading(&format!("Owners of pages: {other} measured by {reference}"));
    if ownership.thread.reference == 0 {
        out += &page.note(&format!("No page of {reference} has an owner that could be looked for in {other}."));
    } else {
        out += &table(ownership, page).render(page.width, &page.pen);
        let text = format!(
            "Owner: who has most accesses. Coverage: pages of {reference} with an owner in {other} too. Accuracy: those of \
             them with the same one. Weighted: by the accesses in {reference}."
        );
        out += &page.note(&text);
    }
    let left_out: Vec<String> = ownership.uncompared.iter().map(uncompared).collect();
    if !left_out.is_empty() {
        out += &page.note(&format!("Not compared, of {reference}: {}.", left_out.join("; ")));
    }
    out
}

fn table(ownership: &Ownership, page: &Page) -> Table {
    let mut table = Table::new(vec![
        Column::left("Owner", 0),
        Column::right("Pages", 0),
        Column::right("answered", 0),
        Column::right("Coverage", 0),
        Column::right("weighted", 1),
        Column::right("Accuracy", 0),
        Column::right("", 0),
        Column::right("weighted", 1),
        Column::right("Pages beyond", 2),
    ]);
    let share = |of: Option<f64>| of.map_or("-".to_owned(), units::percent);
    let mut row = |owner: &str, of: &Agreement| {
        let beyond = units::grouped(of.beyond);
        table.row(vec![
            Cell::new(owner).style(Style::Bold),
            Cell::new(units::grouped(of.reference)),
            Cell::new(units::grouped(of.answered)),
            Cell::new(share(of.coverage)),
            Cell::new(share(of.coverage_by_accesses)).phrase(format!(
                "weighted {}, {}",
                share(of.coverage_by_accesses),
                share(of.accuracy_by_accesses)
            )),
            Cell::new(share(of.accuracy)),
            Cell::new(error(of.accuracy_error, page)).style(Style::Dim),
            Cell::new(share(of.accuracy_by_accesses)),
            Cell::new(&beyond).phrase(format!("{beyond} pages beyond")),
        ]);
    };
    row("thread", &ownership.thread);
    if let Some(node) = &ownership.node {
        row("node", node);
    }
    table
}

fn uncompared(part: &Uncompared) -> String {
    let why = match part.reason.as_str() {
        "several_instances" => "with several instances",
        "small_instances" => "with instances smaller than a page",
        "of_a_thread" => "in stacks and thread-local memory",
        "allocations_not_recorded" => "in mappings that nobody can tell apart",
        other => other,
    };
    let share = match part.access_share {
        Some(share) => format!("{} of the accesses", units::percent(share)),
        None => format!("{} of the cost", units::percent(part.cost_share)),
    };
    format!("{} {why} ({share})", units::plural(part.objects, "object"))
}
