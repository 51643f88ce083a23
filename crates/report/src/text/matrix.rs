//! Page x thread matrix: who uses which part of an object, who touched it first, where it lies.
//!
//! Rows are equal ranges of pages. A range is a power of two pages, so that blocks (which mostly are powers of two, too)
//! do not drift against the rows.

use std::collections::{BTreeMap, BTreeSet};

use numamma_findings::{Detail, Page as MemoryPage};

use super::{Page, style::Style, units};
use crate::rows::finite;

/// Rows at most.
const ROWS: u64 = 40;
/// Columns at most; above, several threads share one.
const COLUMNS: usize = 32;
/// Runs of this many rows without samples are folded into one.
const FOLD: usize = 3;

/// One range of pages.
#[derive(Default)]
struct Row {
    by_thread: BTreeMap<usize, f64>,
    samples: u64,
    first_touch: BTreeMap<usize, u64>,
    nodes: BTreeMap<i32, u64>,
}

impl Row {
    fn add(&mut self, page: &MemoryPage, by_cost: bool) {
        for (&thread, &n) in if by_cost { &page.cost_by_thread } else { &page.by_thread } {
            *self.by_thread.entry(thread).or_default() += finite(n);
        }
        self.samples += page.samples;
        if let Some(thread) = page.first_touch_thread {
            *self.first_touch.entry(thread).or_default() += 1;
        }
        if let Some(node) = page.node {
            *self.nodes.entry(node).or_default() += 1;
        }
    }

    fn owner(&self) -> String {
        let total: f64 = self.by_thread.values().sum();
        let most = self.by_thread.iter().max_by(|a, b| a.1.total_cmp(b.1)).filter(|(_, n)| **n > 0.0);
        most.map_or("-".to_string(), |(thread, n)| format!("T{thread} {} %", units::percent_whole(n / total)))
    }
}

/// The thread or node with most pages; its share where there are others.
fn leader<K: Copy + Ord>(pages: &BTreeMap<K, u64>, label: impl Fn(K) -> String) -> String {
    let total: u64 = pages.values().sum();
    let Some((&key, &most)) = pages.iter().max_by_key(|(_, pages)| **pages) else { return "-".to_string() };
    match pages.len() {
        1 => label(key),
        _ => format!("{} {} %", label(key), units::percent_whole(most as f64 / total.max(1) as f64)),
    }
}

/// Page x thread matrix of one object: of its cost, as all else that the report says of threads; of accesses where they were counted.
pub fn render(detail: &Detail, page: &Page, exact: bool) -> String {
    let Some(last) = detail.pages.iter().map(|page| page.page).max() else {
        return format!("\n{}", page.note("No page was sampled or first touched."));
    };
    let range = (last / ROWS + 1).next_power_of_two();
    let mut rows: Vec<Row> = (0..=last / range).map(|_| Row::default()).collect();
    for memory_page in &detail.pages {
        rows[(memory_page.page / range) as usize].add(memory_page, !exact);
    }
    let threads: BTreeSet<usize> = rows.iter().flat_map(|row| row.by_thread.keys().copied()).collect();
    let threads: Vec<usize> = threads.into_iter().collect();
    let layout = Layout::new(detail, range, &rows, threads.len(), page);
    let columns: Vec<&[usize]> = threads.chunks(layout.group).collect();
    let cells = |row: &Row| -> Vec<f64> {
        let sum = |group: &&[usize]| group.iter().filter_map(|thread| row.by_thread.get(thread)).sum();
        columns.iter().map(sum).collect()
    };
    let fullest = rows.iter().flat_map(&cells).fold(0.0, f64::max);

    let mut out = page.heading(if exact { "Accesses by page and thread" } else { "Cost by page and thread" });
    out += &layout.titles(&columns, page);
    let mut index = 0;
    while index < rows.len() {
        let empty = rows[index..].iter().take_while(|row| row.samples == 0 && row.first_touch.is_empty()).count();
        if empty >= FOLD && detail.page_basis != "address" {
            let pages = units::plural(empty as u64 * range, "page");
            let text = format!("{:>width$}  {pages} not seen", page.pen.pick("⋮", ":"), width = layout.label);
            out += &format!("{}\n", page.pen.paint(Style::Dim, &text));
            index += empty;
            continue;
        }
        out += &layout.row(index as u64 * range, &rows[index], &cells(&rows[index]), fullest, page);
        index += 1;
    }
    let fullest = if exact { format!("{} accesses", units::count(fullest)) } else { units::seconds(fullest) };
    out + &legend(detail, range, layout.group, &fullest, page)
}

/// Widths of the parts of a row.
struct Layout {
    /// True if there is room for offsets beside page numbers.
    offsets: bool,
    page_bytes: u64,
    label: usize,
    /// Threads of a column.
    group: usize,
    /// Width of a column.
    cell: usize,
    /// Width of all columns.
    picture: usize,
    owner: usize,
    first: usize,
}

impl Layout {
    fn new(detail: &Detail, range: u64, rows: &[Row], threads: usize, page: &Page) -> Self {
        let start = (rows.len() as u64 - 1) * range;
        let pages = units::grouped(start).len().max(4);
        let offsets = detail.page_basis == "offset" && page.width >= 72;
        let label = if offsets { pages + 2 + 8 } else { pages };
        let longest = |text: &dyn Fn(&Row) -> String, title: &str| {
            rows.iter().map(|row| text(row).chars().count()).max().unwrap_or(0).max(title.len())
        };
        let owner = longest(&|row| row.owner(), "Owner");
        let first = longest(&|row| leader(&row.first_touch, |thread| format!("T{thread}")), "First");
        let node = longest(&|row| leader(&row.nodes, |node| node.to_string()), "Node");
        // Two frames, the samples (7) and the gaps between the parts.
        let room = page.width.saturating_sub(label + 1 + 2 + 2 + 7 + 2 + owner + 2 + first + 2 + node);
        let group = threads.div_ceil(COLUMNS.min(room.max(8))).max(1);
        let columns = threads.div_ceil(group);
        let cell = (room / columns.max(1)).clamp(1, 8);
        // A narrow picture still has room for its heading.
        let picture = (cell * columns).max(7);
        Self { offsets, page_bytes: detail.page_bytes, label, group, cell, picture, owner, first }
    }

    /// Thread numbers over the columns, as many as have room, and the titles of the rest.
    fn titles(&self, columns: &[&[usize]], page: &Page) -> String {
        let numbers: Vec<String> = columns.iter().map(|group| format!("T{}", group[0])).collect();
        let longest = numbers.iter().map(String::len).max().unwrap_or(1) + 1;
        let step = longest.div_ceil(self.cell);
        let mut ruler = String::new();
        for (index, number) in numbers.iter().enumerate().step_by(step) {
            if index > 0 && index * self.cell + number.len() > self.picture {
                break;
            }
            ruler += &" ".repeat((index * self.cell).saturating_sub(ruler.len()));
            ruler += number;
        }
        let label = if self.offsets {
            format!("{:>8}  {:>pages$}", "Offset", "Page", pages = self.label - 10)
        } else {
            format!("{:>label$}", "Page", label = self.label)
        };
        let (picture, owner, first) = (self.picture, self.owner, self.first);
        let line =
            format!("{label}  {ruler:picture$}   {:>7}  {:owner$}  {:first$}  Node", "Samples", "Owner", "First");
        format!("{}\n", page.pen.paint(Style::Bold, line.trim_end()))
    }

    fn row(&self, start: u64, row: &Row, cells: &[f64], fullest: f64, page: &Page) -> String {
        let start_text = units::grouped(start);
        let label = if self.offsets {
            format!("{:>8}  {start_text:>pages$}", units::bytes(start * self.page_bytes), pages = self.label - 10)
        } else {
            format!("{start_text:>label$}", label = self.label)
        };
        let shade = |n: &f64| page.pen.shade(n / fullest.max(f64::MIN_POSITIVE)).to_string().repeat(self.cell);
        let picture: String = cells.iter().map(shade).collect();
        let pad = " ".repeat(self.picture - self.cell * cells.len());
        let frame = page.pen.paint(Style::Dim, page.pen.pick("│", "|"));
        let first = leader(&row.first_touch, |thread| format!("T{thread}"));
        let node = leader(&row.nodes, |node| node.to_string());
        let (owner, first_width) = (self.owner, self.first);
        let tail =
            format!("{:>7}  {:owner$}  {first:first_width$}  {node}", units::count(row.samples as f64), row.owner());
        let picture = page.pen.paint(Style::Accent, &picture);
        format!("{} {frame}{picture}{frame}{pad} {}\n", page.pen.paint(Style::Dim, &label), tail.trim_end())
    }
}

fn legend(detail: &Detail, range: u64, group: usize, fullest: &str, page: &Page) -> String {
    let shades: String = [0.25, 0.5, 0.75, 1.0].map(|part| page.pen.shade(part)).iter().collect();
    let each = units::bytes(range * detail.page_bytes);
    let pages = match range {
        1 => format!("a row is one page of {}", units::bytes(detail.page_bytes)),
        n => format!("a row is {} of {} ({each})", units::plural(n, "page"), units::bytes(detail.page_bytes)),
    };
    let mut parts = vec![format!("{shades} up to 25, 50, 75, 100 % of the fullest cell ({fullest})"), pages];
    if group > 1 {
        parts.push(format!("a column is {group} threads from the one named"));
    }
    match detail.page_basis.as_str() {
        "address" => parts.push("pages of all instances in order of address".to_string()),
        "instances" => parts.push("pages of all instances, one instance behind the other, oldest first".to_string()),
        _ => {}
    }
    page.note(&parts.join("; "))
}
