//! The table of objects.

use numamma_findings::{CallSite, MemoryAccesses, Object};

use super::{
    Page,
    lists::call_site,
    more, shares,
    style::{Style, clean},
    table::{Cell, Column, Table},
    units,
};
use crate::{
    options::{Access, Sort},
    rows::{Selection, finite, is_exact, lacks, objects::first_touch_shares},
};

/// Columns of a cost bar.
const BAR: usize = 6;

/// In place of a number of accesses that would be a guess.
pub const COST_ONLY: &str = "cost only";

/// Meaning of a word that readers take for something else.
const COST: &str = "Cost: thread time at data accesses, also at those that a cache answers.";

/// The table of objects.
pub fn render(selection: &Selection, page: &Page) -> String {
    let cut = selection.objects();
    if cut.rows.is_empty() {
        return page.note("No object was accessed in a sample.");
    }
    let access = selection.options.access;
    let mut table = Table::new(vec![
        Column::right("#", 0),
        Column::name("Object", 25),
        Column::left("Allocated", 12),
        Column::left("Kind", 11),
        Column::right("Size", 10),
        Column::right("Inst.", 14),
        Column::right("Pages", 13),
        Column::left("", 3),
        Column::right("Cost", 0),
        Column::right("", 1),
        Column::right("Time", 2),
        Column::right("Reads", 4),
        Column::right("Writes", 4),
        Column::right("Access", 5),
        Column::right("Memory", 0),
        Column::right("Remote", 0),
        Column::left("Threads", 7),
        Column::left("First touch", 6),
        Column::left("Pattern", 8),
    ]);
    let share = |object: &Object| selection.share(object.cost.share, object.accesses.share);
    let largest = cut.rows.iter().map(|object| share(object)).fold(0.0, f64::max);
    let reads_of_all: f64 = selection.findings.objects.iter().map(|object| share_base(object, access)).sum();
    for object in &cut.rows {
        table.row(cells(selection, object, largest, reads_of_all, page));
    }
    let mut out = table.render(page.width, &page.pen);
    let rest =
        (selection.options.sort == Sort::Cost).then(|| cut.rest.iter().map(|object| finite(object.cost.share)).sum());
    out += &more(&cut, "object", rest, page);
    if !is_exact(selection.findings) && !lacks(selection.findings, "samples") {
        out += "\n";
        out += &page.note(COST);
    }
    out
}

/// Where it was allocated, unless that is its name.
fn allocated(object: &Object, page: &Page) -> Cell {
    let Some(site) = &object.site else { return Cell::default() };
    let file = site.file.rsplit('/').next().unwrap_or_default();
    let place = clean(&call_site(&CallSite { file: file.into(), ..site.clone() }), page.pen.unicode);
    let is_told = object.name.contains(place.rsplit(' ').next().unwrap_or_default());
    let text = match (is_told, site.via.is_empty()) {
        (true, true) => return Cell::default(),
        (true, false) => format!("by {}", clean(&site.via, page.pen.unicode)),
        (false, true) => format!("in {place}"),
        (false, false) => format!("in {place} by {}", clean(&site.via, page.pen.unicode)),
    };
    let phrase = format!("allocated {text}");
    Cell::new(text).phrase(phrase)
}

fn cells(selection: &Selection, object: &Object, largest: f64, base: f64, page: &Page) -> Vec<Cell> {
    let access = selection.options.access;
    let count = |n: Option<f64>, what: &str| match n {
        Some(n) => Cell::new(units::count(n)).phrase(format!("{} {what}", units::count(n))),
        None => Cell::default(),
    };
    let (reads, writes) = object.accesses.counted().unzip();
    // The share of all accesses is given; that of all reads or writes follows from those that objects have.
    let access_share = match access {
        Access::All => finite(object.accesses.share),
        _ => share_base(object, access) / if base > 0.0 { base } else { 1.0 },
    };
    let instances = if object.instances > 1 { units::count(object.instances as f64) } else { String::new() };
    let sizes = if object.instances > 1 { "up to " } else { "" };
    let time = selection.of_cost(units::seconds(object.cost.seconds));
    let share = selection.share(object.cost.share, object.accesses.share);
    let threads = shares::of_threads(selection, &object.threads, page);
    let touch = shares::short(&first_touch_shares(&object.first_touch), page);
    let pattern = shares::pattern(object);
    let kind = if object.kind.is_empty() { "unknown" } else { &object.kind };
    vec![
        Cell::new(object.id.to_string()).style(Style::Dim),
        Cell::new(&object.name).style(Style::Bold),
        allocated(object, page),
        Cell::new(kind).phrase(kind),
        Cell::new(units::bytes(object.bytes)).phrase(format!("{sizes}{}", units::bytes(object.bytes))),
        Cell::new(&instances).phrase(if instances.is_empty() {
            String::new()
        } else {
            format!("{instances} instances")
        }),
        Cell::new(units::count(object.pages as f64)).phrase(units::plural(object.pages, "page")),
        Cell::new(page.pen.bar(share / largest.max(f64::MIN_POSITIVE), BAR)).style(Style::Accent),
        Cell::new(selection.of_cost(units::percent(object.cost.share))),
        Cell::new(selection.of_cost(error(object.cost.error, page))).style(Style::Dim),
        Cell::new(&time).phrase(&time),
        count(reads.filter(|_| access != Access::Write), "reads"),
        count(writes.filter(|_| access != Access::Read), "writes"),
        match object.accesses.is_cost_only() {
            true => Cell::missing(COST_ONLY),
            // The error of a share of the reads, or of the writes, is not known.
            false if access != Access::All && reads.is_none() => Cell::default(),
            false => {
                let half = object.accesses.error.filter(|half| *half >= 0.0005);
                let text = format!("{} {}", units::percent(access_share), error(half, page));
                Cell::new(text.trim_end()).phrase(format!("{} of {}", text.trim_end(), noun(access)))
            }
        },
        Cell::new(object.memory.map(|of| memory(&of)).unwrap_or_default()),
        remote(selection, object, page),
        Cell::new(&threads).phrase(format!("{} {threads}", shares::noun(object.threads.len()))),
        Cell::new(&touch).phrase(if touch == "-" {
            "first touch not seen".to_string()
        } else {
            format!("first touch {touch}")
        }),
        Cell::new(pattern.strip_prefix("pattern ").unwrap_or(&pattern)).phrase(&pattern),
    ]
}

/// `1.2 M 34.5 %`: accesses that reach memory, and their share of those of the run.
fn memory(of: &MemoryAccesses) -> String {
    format!("{} {}", units::count(of.total), units::percent(of.share))
}

fn noun(access: Access) -> &'static str {
    match access {
        Access::All => "accesses",
        Access::Read => "reads",
        Access::Write => "writes",
    }
}

fn share_base(object: &Object, access: Access) -> f64 {
    match access {
        Access::Write => finite(object.accesses.writes),
        _ => finite(object.accesses.reads),
    }
}

/// `±0.4`: half-width of the interval, in points.
pub fn error(error: Option<f64>, page: &Page) -> String {
    match error.filter(|error| error.is_finite()) {
        Some(error) => format!("{}{:.1}", page.pen.plus_minus(), error * 100.0),
        None => String::new(),
    }
}

/// True if no page's node is known.
pub fn is_nowhere(object: &Object) -> bool {
    object.nodes.is_empty() && object.remote.error.is_none() && object.remote.share == 0.0
}

/// A machine with one node has nothing remote; counts do not know the CPU; and of some objects no page's node is known.
fn remote(selection: &Selection, object: &Object, page: &Page) -> Cell {
    if selection.findings.run.nodes <= 1 || is_exact(selection.findings) || is_nowhere(object) {
        return Cell::missing("-");
    }
    let style = if finite(object.remote.share) >= 0.3 { Style::Warn } else { Style::Plain };
    let half = error(object.remote.error.filter(|half| *half >= 0.0005), page);
    let text = format!("{} {half}", units::percent(object.remote.share));
    Cell::new(text.trim_end()).style(style)
}
