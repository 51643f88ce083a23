//! Samples of one object over time: which part when, by whom.

use std::collections::BTreeMap;

use numamma_findings::{Detail, Point};

use super::{Page, style::Style, units};
use crate::rows::finite;

/// Rows of the time x offset picture, at most.
const ROWS: usize = 16;
/// Threads with a line of their own.
const LINES: usize = 8;
/// Marks of the threads in the picture.
const SYMBOLS: &str = "0123456789abcdefghijklmnopqrstuvwxyz";
/// Columns left of the pictures.
const LABEL: usize = 9;

/// Pictures of `points`; `shares` orders the threads.
pub fn render(points: &[Point], detail: &Detail, wall_s: f64, shares: &[(usize, f64)], page: &Page) -> String {
    if points.is_empty() {
        return String::new();
    }
    let end = points.iter().map(|point| finite(point.t)).fold(finite(wall_s), f64::max).max(1e-9);
    let columns = page.width - LABEL - 4 - 6;
    let column = |point: &Point| ((finite(point.t) / end * columns as f64) as usize).min(columns - 1);
    let count = if (points.len() as u64) < detail.points_of {
        format!(" ({} of {} that samples show)", units::grouped(points.len() as u64), units::grouped(detail.points_of))
    } else {
        String::new()
    };
    let mut out = page.heading(&format!("Accesses over time{count}"));
    out += &picture(points, detail, columns, &column, page);
    out += &axis(end, columns, page);
    out + &threads(points, shares, columns, &column, page)
}

/// Time x offset. A cell shows the thread with most samples in it.
fn picture(points: &[Point], detail: &Detail, columns: usize, column: &dyn Fn(&Point) -> usize, page: &Page) -> String {
    let span = points.iter().map(|point| point.offset + 1).fold(detail.span_bytes.max(1), u64::max);
    let mut threads: Vec<usize> = points.iter().map(|point| point.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    // A row begins where elements and pages begin.
    let height = span.div_ceil(ROWS as u64).next_power_of_two();
    let rows = span.div_ceil(height) as usize;
    let mut cells: Vec<Vec<BTreeMap<usize, u64>>> = vec![vec![BTreeMap::new(); columns]; rows];
    for point in points {
        let row = (point.offset / height) as usize;
        *cells[row][column(point)].entry(point.thread).or_default() += 1;
    }
    let sums = cells.iter().flatten().map(|cell| cell.values().sum::<u64>());
    let fullest = sums.max().unwrap_or(1) as f64;
    let by_thread = threads.len() <= SYMBOLS.len();
    let symbol = |cell: &BTreeMap<usize, u64>| -> char {
        let total: u64 = cell.values().sum();
        let Some((thread, most)) = cell.iter().max_by_key(|(_, n)| **n) else { return ' ' };
        match threads.binary_search(thread) {
            Ok(index) if by_thread && most * 2 > total => SYMBOLS.as_bytes()[index] as char,
            _ if by_thread => '*',
            _ => page.pen.shade(total as f64 / fullest),
        }
    };
    let frame = page.pen.paint(Style::Dim, page.pen.pick("│", "|"));
    let mut out = String::new();
    for (index, row) in cells.iter().enumerate() {
        let offset = index as u64 * height;
        let label = page.pen.paint(Style::Dim, &format!("{:>LABEL$}", units::bytes(offset)));
        let text: String = row.iter().map(symbol).collect();
        out += &format!("{label} {frame}{}{frame}\n", page.pen.paint(Style::Accent, &text));
    }
    out + &key(&threads, by_thread, page)
}

/// Legend of the picture.
fn key(threads: &[usize], by_thread: bool, page: &Page) -> String {
    if !by_thread {
        return String::new();
    }
    // Where the characters are the numbers, the numbers need no list.
    let same = threads.iter().enumerate().all(|(index, &thread)| index == thread && index < 10);
    let names = || threads.iter().enumerate().map(|(index, thread)| format!("{} T{thread}", &SYMBOLS[index..=index]));
    let list = if same { "numbers are threads".to_string() } else { names().collect::<Vec<_>>().join(", ") };
    let text = format!("{list}; * several; rows are offsets in the object");
    super::style::wrap(&text, page.width - LABEL - 2)
        .iter()
        .map(|line| format!("{:1$}{2}\n", "", LABEL + 2, page.pen.paint(Style::Dim, line)))
        .collect()
}

/// Begin, middle and end of the time.
fn axis(end: f64, columns: usize, page: &Page) -> String {
    let (middle, last) = (units::seconds(end / 2.0), units::seconds(end));
    let half = columns / 2;
    let rest = columns - half;
    let line = format!("{:1$}{2:half$}{middle:<space$}{last}", "", LABEL + 2, "0 s", space = rest - last.len());
    format!("{}\n", page.pen.paint(Style::Dim, &line))
}

/// One line per thread: samples over time, all on one scale.
fn threads(
    points: &[Point],
    shares: &[(usize, f64)],
    columns: usize,
    column: &dyn Fn(&Point) -> usize,
    page: &Page,
) -> String {
    let mut shown: Vec<usize> = shares.iter().take(LINES).map(|(thread, _)| *thread).collect();
    shown.sort_unstable();
    let others = shares.len() > shown.len();
    let mut lines = vec![vec![0u64; columns]; shown.len() + usize::from(others)];
    for point in points {
        match shown.binary_search(&point.thread) {
            Ok(index) => lines[index][column(point)] += 1,
            Err(_) if others => lines[shown.len()][column(point)] += 1,
            Err(_) => {}
        }
    }
    let fullest = |lines: &[Vec<u64>]| lines.iter().flatten().copied().max().unwrap_or(1).max(1) as f64;
    let (scale, others_scale) = (fullest(&lines[..shown.len()]), fullest(&lines[shown.len()..]));
    let frame = page.pen.paint(Style::Dim, page.pen.pick("│", "|"));
    let total = points.len().max(1) as f64;
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        let (label, scale) = match shown.get(index) {
            Some(thread) => (format!("T{thread}"), scale),
            None => ("others".to_string(), others_scale),
        };
        let text: String = line.iter().map(|n| page.pen.spark(*n as f64 / scale)).collect();
        let share = units::percent_whole(line.iter().sum::<u64>() as f64 / total);
        let label = page.pen.paint(Style::Dim, &format!("{label:>LABEL$}"));
        out += &format!("{label} {frame}{}{frame} {share:>3} %\n", page.pen.paint(Style::Accent, &text));
    }
    out
}
