//! Tables of call sites, threads and source lines.

use std::collections::BTreeMap;

use numamma_findings::{CallSite, Lifetime, Line};

use super::{
    Page, more,
    objects::error,
    shares,
    style::{Style, clean, width},
    table::{Cell, Column, Table},
    units,
};
use crate::rows::{Selection, ThreadAccesses, ThreadRow, finite, is_exact, objects::first_touch_shares};

/// A cell that says `title` before its text where it stands alone.
fn titled(text: String, title: &str) -> Cell {
    let phrase = if text.is_empty() { String::new() } else { format!("{title} {text}") };
    Cell::new(text).phrase(phrase)
}

/// A cell whose text needs no title.
fn plain(text: String) -> Cell {
    let phrase = text.clone();
    Cell::new(text).phrase(phrase)
}

/// Allocation call sites.
pub fn sites(selection: &Selection, page: &Page) -> String {
    let cut = selection.sites();
    if cut.rows.is_empty() {
        return page.note("No allocation was seen.");
    }
    let mut table = Table::new(vec![
        Column::right("Object", 0),
        Column::name("Call site", 24),
        Column::left("Variable", 2),
        Column::left("Via", 5),
        Column::left("Kind", 11),
        Column::right("Cost", 0),
        Column::right("", 4),
        Column::right("Time", 7),
        Column::right("Access", 0),
        Column::right("Allocations", 0),
        Column::right("Bytes", 1),
        Column::right("Peak", 1),
        Column::right("Not freed", 3),
        Column::left("Lived", 6),
        Column::left("Nodes", 8),
        Column::left("Threads", 10),
        Column::left("First touch", 9),
    ]);
    for (site, object) in &cut.rows {
        let kept = site.count.saturating_sub(site.freed);
        let sampled = |text: &dyn Fn(&numamma_findings::Object) -> String| object.map(text).unwrap_or_default();
        table.row(vec![
            Cell::new(sampled(&|object| object.id.to_string())).style(Style::Dim),
            Cell::new(call_site(&site.site)).style(Style::Bold),
            plain(clean(site.variable.as_deref().unwrap_or_default(), page.pen.unicode)),
            titled(clean(&site.site.via, page.pen.unicode), "via"),
            plain(site.kind.clone()),
            Cell::new(selection.of_cost(object.map_or("-".to_string(), |object| units::percent(object.cost.share)))),
            Cell::new(sampled(&|object| error(object.cost.error, page))).style(Style::Dim),
            plain(selection.of_cost(sampled(&|object| units::seconds(object.cost.seconds)))),
            Cell::new(if is_exact(selection.findings) {
                object.map_or("-".to_string(), |object| units::percent(object.accesses.share))
            } else {
                String::new()
            }),
            Cell::new(units::count(site.count as f64)),
            Cell::new(units::bytes(site.bytes)).phrase(format!("{} in all", units::bytes(site.bytes))),
            titled(units::bytes(site.peak_bytes), "peak"),
            titled(units::count(kept as f64), "not freed"),
            titled(site.lifetime.as_ref().map(lifetime).unwrap_or_default(), "lived"),
            titled(nodes(&site.nodes), "pages on"),
            titled(
                sampled(&|object| shares::of_threads(selection, &object.threads, page)),
                shares::noun(object.map_or(0, |object| object.threads.len())),
            ),
            titled(sampled(&|object| shares::short(&first_touch_shares(&object.first_touch), page)), "first touch"),
        ]);
    }
    table.render(page.width, &page.pen) + &more(&cut, "call site", None, page)
}

/// `function file:line`, as far as known.
pub fn call_site(site: &CallSite) -> String {
    place(&site.function, &site.file, site.line)
}

/// The mean lifetime, and the range if there is one.
fn lifetime(lifetime: &Lifetime) -> String {
    let (mean, least, most) =
        (units::seconds(lifetime.mean_s), units::seconds(lifetime.min_s), units::seconds(lifetime.max_s));
    if least == most { mean } else { format!("{mean} ({least} to {most})") }
}

/// Pages by node: `N0 512, N1 512`.
fn nodes(pages: &BTreeMap<i32, u64>) -> String {
    pages.iter().map(|(node, n)| format!("N{node} {}", units::count(*n as f64))).collect::<Vec<_>>().join(", ")
}

/// `function file:line`, as far as known.
pub fn place(function: &str, file: &str, line: u32) -> String {
    match (function, file, line) {
        ("", "", _) => "unknown".to_string(),
        (function, "", _) => function.to_string(),
        ("", file, line) => format!("{file}:{line}"),
        (function, file, 0) => format!("{function} {file}"),
        (function, file, line) => format!("{function} {file}:{line}"),
    }
}

/// Threads of the run, or of one object.
pub fn threads(selection: &Selection, page: &Page) -> String {
    let cut = selection.threads();
    if cut.rows.is_empty() {
        return page.note("No thread was sampled.");
    }
    let mut table = Table::new(vec![
        Column::left("Thread", 0),
        Column::name("Name", 10),
        Column::left("", 4),
        Column::right("Cost", 0),
        Column::right("", 1),
        Column::right("Time", 0),
        Column::right("Reads", 0),
        Column::right("Writes", 0),
        Column::right("Accesses", 0),
        Column::right("Memory", 0),
        Column::right("Samples", 5),
        Column::right("Lived", 6),
        Column::left("CPUs", 3),
        Column::right("Process", 8),
        Column::right("Tid", 7),
        Column::left("Most costly object", 1),
    ]);
    let share = |row: &ThreadRow| selection.share(row.cost_share, row.accesses.total());
    let largest = cut.rows.iter().map(share).fold(0.0, f64::max);
    let several = selection.findings.processes.len() > 1;
    for row in &cut.rows {
        let (reads, writes, total) = match row.accesses {
            ThreadAccesses::Split(reads, writes) => (units::count(reads), units::count(writes), String::new()),
            ThreadAccesses::Total(total) => (String::new(), String::new(), units::count(total)),
            ThreadAccesses::Unknown => (String::new(), String::new(), String::new()),
        };
        let known = |text: &dyn Fn(&numamma_findings::Thread) -> String| row.thread.map(text).unwrap_or_default();
        let hottest = row.hottest.map(|(object, share)| {
            let name = super::names::shorten(&object.name, 24, &page.pen);
            format!("{name} {} %", units::percent_whole(share))
        });
        table.row(vec![
            Cell::new(format!("T{}", row.number)).style(Style::Bold),
            Cell::new(known(&|thread| thread.name.clone())),
            Cell::new(page.pen.bar(share(row) / largest.max(f64::MIN_POSITIVE), 6)).style(Style::Accent),
            Cell::new(selection.of_cost(units::percent(row.cost_share))),
            Cell::new(selection.of_cost(error(row.cost_error, page))).style(Style::Dim),
            Cell::new(selection.of_cost(units::seconds(row.cost_s))),
            Cell::new(reads),
            Cell::new(writes),
            Cell::new(total),
            Cell::new(row.memory.map(units::count).unwrap_or_default()),
            titled(selection.of_cost(row.samples.map(|n| units::count(n as f64)).unwrap_or_default()), "samples"),
            titled(known(&|thread| lived(thread, selection.findings.run.wall_s)), "lived"),
            titled(known(&|thread| cpus(thread, page)), "CPUs"),
            titled(if several { known(&|thread| thread.pid.to_string()) } else { String::new() }, "process"),
            titled(known(&|thread| thread.tid.to_string()), "tid"),
            titled(selection.of_cost(hottest.unwrap_or_default()), "mostly"),
        ]);
    }
    let rest = (!is_exact(selection.findings)).then(|| cut.rest.iter().map(|row| row.cost_share).sum());
    table.render(page.width, &page.pen) + &more(&cut, "thread", rest, page)
}

fn lived(thread: &numamma_findings::Thread, wall_s: f64) -> String {
    units::seconds(thread.end_s.unwrap_or(wall_s) - finite(thread.start_s))
}

/// Where a thread ran: `3`, `0-3`, `0,2,4`, `0..62` for many in between.
fn cpus(thread: &numamma_findings::Thread, page: &Page) -> String {
    let cpus: Vec<i32> = thread.cpus.keys().copied().collect();
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for &cpu in &cpus {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let run = |&(first, last): &(i32, i32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    let listed = runs.iter().map(run).collect::<Vec<_>>().join(",");
    if width(&listed) <= 12 { listed } else { format!("{}{}{}", cpus[0], page.pen.ellipsis(), cpus[cpus.len() - 1]) }
}

/// Source lines that access memory.
pub fn lines(selection: &Selection, page: &Page) -> String {
    let cut = selection.lines();
    if is_exact(selection.findings) {
        return page.note("Accesses were counted by object and page, not by source line.");
    }
    if cut.rows.is_empty() {
        return page.note("No source line was sampled in a data access.");
    }
    let mut table = Table::new(vec![
        Column::left("", 5),
        Column::right("Cost", 0),
        Column::right("", 1),
        Column::right("Time", 2),
        Column::name("Line", 30),
        Column::left("Objects", 4),
        Column::left("Module", 6),
    ]);
    let largest = cut.rows.iter().map(|line| finite(line.cost.share)).fold(0.0, f64::max);
    for line in &cut.rows {
        table.row(vec![
            Cell::new(page.pen.bar(finite(line.cost.share) / largest.max(f64::MIN_POSITIVE), 6)).style(Style::Accent),
            Cell::new(units::percent(line.cost.share)),
            Cell::new(error(line.cost.error, page)).style(Style::Dim),
            plain(units::seconds(line.cost.seconds)),
            Cell::new(place(&line.function, &line.file, line.line)).style(Style::Bold),
            plain(names(selection, line, page)),
            titled(clean(&line.module, page.pen.unicode), "in"),
        ]);
    }
    let rest = cut.rest.iter().map(|line| finite(line.cost.share)).sum();
    table.render(page.width, &page.pen) + &more(&cut, "line", Some(rest), page)
}

/// The objects of a line; the first two by name.
fn names(selection: &Selection, line: &Line, page: &Page) -> String {
    let name = |id: &usize| {
        let object = selection.findings.objects.iter().find(|object| object.id == *id);
        object.map(|object| super::names::shorten(&object.name, 24, &page.pen))
    };
    let named: Vec<String> = line.objects.iter().take(2).filter_map(name).collect();
    let more = line.objects.len().saturating_sub(2);
    let tail = if more > 0 { format!(" +{more}") } else { String::new() };
    format!("{}{tail}", named.join(", "))
}
