//! Tables of pages and of nodes.

use super::{
    Page, more,
    style::Style,
    table::{Cell, Column, Table},
    units,
};
use crate::{
    error::ReportError,
    rows::{Selection, is_exact},
};

/// Pages of all objects, or of one.
pub fn pages(selection: &Selection, page: &Page) -> Result<String, ReportError> {
    let cut = selection.pages()?;
    if cut.rows.is_empty() {
        return Ok(page.note("No page was sampled or first touched."));
    }
    let mut table = Table::new(vec![
        Column::name("Object", 20),
        Column::right("Page", 0),
        Column::right("Offset", 2),
        Column::right("Page size", 4),
        Column::right("Node", 0),
        Column::left("", 3),
        Column::right(if is_exact(selection.findings) { "Accesses" } else { "Samples" }, 0),
        Column::right("Memory", 0),
        Column::left("Owner", 0),
        Column::right("Threads", 0),
        Column::left("First touch", 1),
    ]);
    let largest = cut.rows.iter().map(|row| row.page.samples).max().unwrap_or(0).max(1);
    for row in &cut.rows {
        let share =
            row.owner_share().map(|(share, _)| format!(" {} %", units::percent_whole(share))).unwrap_or_default();
        let owner = row.page.owner.map_or("-".to_string(), |owner| format!("T{owner}{share}"));
        let toucher = row.page.first_touch_thread.map_or("-".to_string(), |thread| format!("T{thread}"));
        // Pages of many small instances are counted, so their number gives no offset.
        let number = row.in_instance();
        let offset = number.map_or("-".to_string(), |page| units::bytes(page * row.detail.page_bytes));
        let name = match row.page.instance {
            Some(instance) => format!("{} instance {instance}", row.object.name),
            None => row.object.name.clone(),
        };
        table.row(vec![
            Cell::new(name).style(Style::Bold),
            Cell::new(units::grouped(number.unwrap_or(row.page.page))),
            Cell::new(&offset).phrase(if number.is_some() { format!("at {offset}") } else { String::new() }),
            Cell::new(units::bytes(row.detail.page_bytes)),
            Cell::new(row.page.node.map_or("-".to_string(), |node| node.to_string())),
            Cell::new(page.pen.bar(row.page.samples as f64 / largest as f64, 6)).style(Style::Accent),
            Cell::new(selection.if_sampled(units::count(row.page.samples as f64)).unwrap_or_default()),
            Cell::new(row.page.memory.map(units::count).unwrap_or_default()),
            Cell::new(owner),
            Cell::new(selection.if_sampled(units::grouped(row.page.by_thread.len() as u64)).unwrap_or_default()),
            Cell::new(&toucher).phrase(format!("first touch {toucher}")),
        ]);
    }
    Ok(table.render(page.width, &page.pen) + &more(&cut, "page", None, page))
}

/// Nodes and what lies on them.
pub fn nodes(selection: &Selection, page: &Page) -> String {
    let cut = selection.nodes();
    if cut.rows.is_empty() {
        return page.note("No page was sampled or first touched.");
    }
    let mut table = Table::new(vec![
        Column::left("Node", 0),
        Column::left("", 3),
        Column::right("Pages", 0),
        Column::right("", 0),
        Column::right("Size", 2),
        Column::right("Objects", 1),
        Column::right(if is_exact(selection.findings) { "Accesses" } else { "Samples" }, 0),
        Column::right("Threads", 0),
        Column::name("Largest object", 16),
    ]);
    for row in &cut.rows {
        let name = row.largest.map(|(object, _)| object.name.clone()).unwrap_or_default();
        table.row(vec![
            Cell::new(row.node.map_or("not seen".to_string(), |node| node.to_string())).style(Style::Bold),
            Cell::new(page.pen.bar(row.page_share, 10)).style(Style::Accent),
            Cell::new(units::count(row.pages as f64)),
            Cell::new(units::percent(row.page_share)),
            Cell::new(units::bytes(row.bytes)).phrase(units::bytes(row.bytes)),
            Cell::new(units::grouped(row.objects as u64)).phrase(units::plural(row.objects as u64, "object")),
            Cell::new(
                row.samples.and_then(|n| selection.if_sampled(n)).map(|n| units::count(n as f64)).unwrap_or_default(),
            ),
            Cell::new(
                row.threads.and_then(|n| selection.if_sampled(n)).map(|n| units::grouped(n as u64)).unwrap_or_default(),
            ),
            Cell::new(name),
        ]);
    }
    table.render(page.width, &page.pen) + &more(&cut, "node", None, page)
}
