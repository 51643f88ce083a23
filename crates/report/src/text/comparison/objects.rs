//! Tables of objects: those of both recordings, and those of one alone.

use numamma_findings::{AccessChange, Agreement, CallSite, Change, Comparison, ObjectChange, Unmatched};

use super::super::{
    Page,
    lists::call_site,
    objects::{COST_ONLY, error},
    style::{Style, clean},
    table::{Cell, Column, Table},
    units,
};
use super::change;
use crate::{options::Options, rows::finite};

/// Rows when nothing else was asked for.
const ROWS: usize = 20;

/// Shares below this print as nothing.
const NOTHING: f64 = 0.0005;

/// The rows that are shown and the others. Unless a number is asked for, rows at the end whose shares (the largest of
/// each) are next to nothing are among the others.
fn cut<'a, T>(rows: &'a [T], share: impl Fn(&T) -> f64, options: &Options) -> (&'a [T], &'a [T]) {
    let limit = match options.top {
        Some(0) => usize::MAX,
        Some(limit) => limit,
        None => ROWS.min(rows.iter().rposition(|row| share(row) >= NOTHING).map_or(0, |last| last + 1)),
    };
    rows.split_at(limit.min(rows.len()))
}

fn more(rest: usize, share: f64, what: &str, page: &Page) -> String {
    if rest == 0 {
        return String::new();
    }
    let objects = units::plural(rest as u64, "object");
    let share = units::percent(share);
    page.note(&format!("{} {objects} more with {share} of the {what} (--top 0 shows all)", page.pen.ellipsis()))
}

/// Objects of both recordings.
pub fn both(comparison: &Comparison, options: &Options, page: &Page) -> String {
    let mut out = page.heading("Objects of both");
    if comparison.objects.is_empty() {
        return out + &page.note("No object of one was found in the other.");
    }
    out += &most_changed(comparison, page);
    // The number that rows are sorted by stays on the first line.
    let (cost, access) = if comparison.comparable.cost { (0, 3) } else { (3, 0) };
    let mut table = Table::new(vec![
        Column::right("#", 0),
        Column::name("Object", 20),
        Column::left("Allocated", 6),
        Column::right("Cost A", cost),
        Column::right("B", cost),
        Column::right("B - A", cost),
        Column::right("Time A", 2),
        Column::right("B", 2),
        Column::right("B - A", 2),
        Column::right("Access A", access),
        Column::right("B", access),
        Column::right("B - A", access),
        Column::right("Remote A", 1),
        Column::right("B", 1),
        Column::right("B - A", 1),
        Column::right("Pages", 4),
        Column::right("covered", 4),
        Column::right("same owner", 4),
    ]);
    let larger = |change: &Change| finite(change.a.max(change.b));
    let largest = |object: &ObjectChange| larger(&object.cost.share).max(larger(&object.accesses.share));
    let (shown, rest) = cut(&comparison.objects, largest, options);
    for object in shown {
        table.row(cells(comparison, object, page));
    }
    out += &table.render(page.width, &page.pen);
    let (what, share) = match comparison.comparable.cost {
        true => ("cost at most", rest.iter().map(|object| larger(&object.cost.share)).sum()),
        false => ("accesses at most", rest.iter().map(|object| larger(&object.accesses.share)).sum()),
    };
    out + &more(rest.len(), share, what, page)
}

/// The objects that differ most and beyond their errors, in a sentence: the table is sorted by what matters, not by what
/// changed. Times tell it where there are several recordings of a side, else shares.
fn most_changed(comparison: &Comparison, page: &Page) -> String {
    const NAMED: usize = 3;
    let by_time = !comparison.more_a.is_empty() || !comparison.more_b.is_empty();
    let of = |object: &ObjectChange| if by_time { object.cost.seconds } else { object.cost.share };
    let by = |object: &ObjectChange| of(object).difference.map_or(0.0, f64::abs);
    let is_beyond = |change: Change| change.difference.zip(change.error).is_some_and(|(by, error)| by.abs() > error);
    let changed = comparison.objects.iter().filter(|object| is_beyond(of(object)));
    let mut changed: Vec<&ObjectChange> = changed.collect();
    changed.sort_by(|a, b| by(b).total_cmp(&by(a)));
    let named = changed.iter().take(NAMED).map(|object| {
        let of = of(object);
        let difference = of.difference.unwrap_or_default();
        let (difference, error) = match by_time {
            true => (change::signed_time(difference), change::time_error(of.error, page)),
            false => (change::signed_points(difference), error(of.error, page)),
        };
        format!("{} {difference} {error}", clean(&object.name, page.pen.unicode)).trim_end().to_owned()
    });
    let named: Vec<String> = named.collect();
    if named.is_empty() { String::new() } else { page.note(&format!("Changed most: {}.", named.join(", "))) }
}

fn cells(comparison: &Comparison, object: &ObjectChange, page: &Page) -> Vec<Cell> {
    let place = allocated(&object.name, object.site.as_ref(), page);
    let phrase = if place.is_empty() { String::new() } else { format!("allocated {place}") };
    let mut cells = vec![
        // As the report of A numbers it.
        Cell::new(object.matched.a.to_string()).style(Style::Dim),
        Cell::new(&object.name).style(Style::Bold),
        Cell::new(&place).phrase(phrase),
    ];
    let known = comparison.comparable;
    // Numbers that cannot be compared stay empty; a column without any text is not shown.
    let groups: [Option<[Cell; 3]>; 5] = [
        known.cost.then(|| shares("cost", &object.cost.share, page)),
        known.cost.then(|| times(&object.cost.seconds, page)),
        known.accesses.then(|| accesses(&object.accesses, page)),
        object.remote.as_ref().map(|remote| shares("remote", remote, page)),
        object.ownership.as_ref().map(pages),
    ];
    cells.extend(groups.into_iter().flat_map(Option::unwrap_or_default));
    cells
}

/// A share in both, and the difference.
fn shares(what: &str, of: &Change, page: &Page) -> [Cell; 3] {
    let (a, b) = (units::percent(of.a), units::percent(of.b));
    let difference = of.difference.map_or(String::new(), change::signed_points);
    let phrase = format!("{what} {a}, {b}: {difference} {}", error(of.error, page));
    [Cell::new(&a).phrase(phrase.trim_end()), Cell::new(&b), change::points(of, page)]
}

/// The same of accesses, as far as they have been counted.
fn accesses(of: &AccessChange, page: &Page) -> [Cell; 3] {
    if of.is_stated() {
        return shares("accesses", &of.share, page);
    }
    let cell = |cost_only, share| if cost_only { COST_ONLY.to_owned() } else { units::percent(share) };
    let a = cell(!of.is_stated_in_a(), of.share.a);
    let b = cell(!of.is_stated_in_b(), of.share.b);
    let phrase = format!("accesses {a}, {b}");
    [Cell::new(&a).phrase(phrase), Cell::new(&b), Cell::default()]
}

fn times(of: &Change, page: &Page) -> [Cell; 3] {
    let (a, b) = (units::seconds(of.a), units::seconds(of.b));
    let difference = of.difference.map_or(String::new(), change::signed_time);
    let mark = if of.significant == Some(true) { " *" } else { "" };
    let phrase = format!("time {a}, {b}: {difference} {}{mark}", change::time_error(of.error, page));
    [Cell::new(&a).phrase(phrase.trim_end()), Cell::new(&b), change::time(of, page)]
}

fn pages(of: &Agreement) -> [Cell; 3] {
    let (Some(coverage), pages) = (of.coverage, units::plural(of.reference, "page")) else {
        return Default::default();
    };
    let coverage = units::percent(coverage);
    let accuracy = of.accuracy.map_or("-".to_owned(), units::percent);
    let phrase = format!("{pages}, {coverage} covered, {accuracy} with the same owner");
    [Cell::new(units::count(of.reference as f64)).phrase(phrase), Cell::new(coverage), Cell::new(accuracy)]
}

/// Where it was allocated, unless that is its name.
fn allocated(name: &str, site: Option<&CallSite>, page: &Page) -> String {
    let Some(site) = site else { return String::new() };
    let file = site.file.rsplit('/').next().unwrap_or_default();
    let place = clean(&call_site(&CallSite { file: file.into(), ..site.clone() }), page.pen.unicode);
    let told = name.contains(place.rsplit(' ').next().unwrap_or_default());
    if told { String::new() } else { format!("in {place}") }
}

/// Objects of one recording alone; nothing if there are none.
pub fn alone(title: &str, objects: &[Unmatched], options: &Options, page: &Page) -> String {
    if objects.is_empty() {
        return String::new();
    }
    let mut table = Table::new(vec![
        Column::right("#", 0),
        Column::name("Object", 20),
        Column::left("Kind", 3),
        Column::right("Cost", 0),
        Column::right("", 0),
        Column::right("Time", 1),
        Column::right("Access", 0),
        Column::left("Allocated", 2),
    ]);
    let largest = |object: &Unmatched| finite(object.cost.share).max(finite(object.accesses.share));
    let (shown, rest) = cut(objects, largest, options);
    for object in shown {
        let place = allocated(&object.name, object.site.as_ref(), page);
        let phrase = if place.is_empty() { String::new() } else { format!("allocated {place}") };
        table.row(vec![
            Cell::new(object.id.to_string()).style(Style::Dim),
            Cell::new(&object.name).style(Style::Bold),
            Cell::new(&object.kind).phrase(&object.kind),
            Cell::new(units::percent(object.cost.share)),
            Cell::new(error(object.cost.error, page)).style(Style::Dim),
            Cell::new(units::seconds(object.cost.seconds)).phrase(units::seconds(object.cost.seconds)),
            Cell::new(match object.accesses.is_cost_only() {
                true => COST_ONLY.to_owned(),
                false => units::percent(object.accesses.share),
            }),
            Cell::new(&place).phrase(phrase),
        ]);
    }
    let share = rest.iter().map(|object| finite(object.cost.share)).sum();
    let rows = if shown.is_empty() { String::new() } else { table.render(page.width, &page.pen) };
    page.heading(title) + &rows + &more(rest.len(), share, "cost", page)
}
