//! Tables that fit: columns that have no room on a row's first line go, as phrases, on lines of their own below it.

use super::{
    names::shorten,
    style::{Pen, Style, width, wrap},
};

/// Between two columns.
const GAP: usize = 2;

/// One column.
#[derive(Clone, Debug)]
pub struct Column {
    title: &'static str,
    right: bool,
    /// Columns leave the first line in descending order of rank; 0 stays.
    rank: u8,
    /// The width down to which it gives way, if it does.
    least: Option<usize>,
}

impl Column {
    /// A column of text.
    pub fn left(title: &'static str, rank: u8) -> Self {
        Self { title, right: false, rank, least: None }
    }

    /// A column of numbers.
    pub fn right(title: &'static str, rank: u8) -> Self {
        Self { right: true, ..Self::left(title, rank) }
    }

    /// The column whose names are shortened, to `least` columns if need be.
    pub fn name(title: &'static str, least: usize) -> Self {
        Self { least: Some(least), ..Self::left(title, 0) }
    }
}

/// One cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    phrase: String,
    style: Style,
    is_missing: bool,
}

impl Cell {
    /// A cell that stays away from the lines below.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// In place of a value that this row has not; a column of nothing else has no place.
    pub fn missing(text: &str) -> Self {
        Self { is_missing: true, ..Self::new(text) }
    }

    /// Its text where it stands without its title.
    pub fn phrase(self, phrase: impl Into<String>) -> Self {
        Self { phrase: phrase.into(), ..self }
    }

    /// How it looks.
    pub fn style(self, style: Style) -> Self {
        Self { style, ..self }
    }
}

/// Columns and rows.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row of as many cells as there are columns.
    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// The table in at most `limit` columns, as far as the columns of rank 0 allow.
    pub fn render(&self, limit: usize, pen: &Pen) -> String {
        let natural: Vec<usize> = (0..self.columns.len()).map(|index| self.natural(index)).collect();
        let least = |index: usize| self.columns[index].least.map_or(natural[index], |least| natural[index].min(least));
        let mut shown: Vec<usize> = (0..self.columns.len()).filter(|&index| !self.is_empty(index)).collect();
        let total = |shown: &[usize]| shown.iter().map(|&index| least(index) + GAP).sum::<usize>().saturating_sub(GAP);
        while total(&shown) > limit {
            // Columns of one rank belong together.
            let rank = shown.iter().map(|&index| self.columns[index].rank).max().unwrap_or(0);
            if rank == 0 {
                break;
            }
            shown.retain(|&index| self.columns[index].rank != rank);
        }
        let slack = limit.saturating_sub(total(&shown));
        let widths: Vec<usize> = (0..natural.len()).map(|index| natural[index].min(least(index) + slack)).collect();
        let hidden: Vec<usize> = (0..natural.len()).filter(|index| !shown.contains(index)).collect();
        let name = shown.iter().position(|&index| self.columns[index].least.is_some());
        let indent: usize = shown[..name.unwrap_or(0)].iter().map(|&index| widths[index] + GAP).sum();

        let titles = |index: usize| Cell::new(self.columns[index].title).style(Style::Bold);
        let mut out = self.line(&shown, &widths, titles, pen);
        for row in &self.rows {
            out += &self.line(&shown, &widths, |index| row[index].clone(), pen);
            let phrases = hidden.iter().map(|&index| row[index].phrase.as_str()).filter(|phrase| !phrase.is_empty());
            for line in pack(phrases, limit.saturating_sub(indent), pen) {
                out += &format!("{:indent$}{}\n", "", pen.paint(Style::Dim, &line));
            }
        }
        out
    }

    fn line(&self, shown: &[usize], widths: &[usize], cell: impl Fn(usize) -> Cell, pen: &Pen) -> String {
        let mut out = String::new();
        for (position, &index) in shown.iter().enumerate() {
            let cell = cell(index);
            let text =
                if self.columns[index].least.is_some() { shorten(&cell.text, widths[index], pen) } else { cell.text };
            let pad = " ".repeat(widths[index].saturating_sub(width(&text)));
            let gap = if position == 0 { "" } else { "  " };
            let painted = pen.paint(cell.style, &text);
            out += &if self.columns[index].right {
                format!("{gap}{pad}{painted}")
            } else {
                format!("{gap}{painted}{pad}")
            };
        }
        format!("{}\n", out.trim_end())
    }

    /// Columns that nothing needs to be shortened in.
    fn natural(&self, index: usize) -> usize {
        let cells = self.rows.iter().map(|row| width(&row[index].text)).max().unwrap_or(0);
        cells.max(width(self.columns[index].title))
    }

    /// A column that says nothing in any row has no place.
    fn is_empty(&self, index: usize) -> bool {
        self.rows.iter().all(|row| row[index].text.is_empty() || row[index].is_missing)
    }
}

/// Phrases in lines of at most `limit` columns; one that is longer is broken at its spaces.
fn pack<'a>(phrases: impl Iterator<Item = &'a str>, limit: usize, pen: &Pen) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for phrase in phrases {
        match lines.last_mut() {
            Some(line) if width(line) + width(pen.dot()) + width(phrase) <= limit => {
                line.push_str(pen.dot());
                line.push_str(phrase);
            }
            _ => lines.extend(wrap(phrase, limit)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(vec![
            Column::right("#", 0),
            Column::name("Object", 6),
            Column::right("Size", 1),
            Column::left("Nothing", 0),
            Column::left("Pattern", 2),
        ]);
        let cells = |n: &str, name: &str, size: &str, pattern: &str| {
            vec![
                Cell::new(n),
                Cell::new(name),
                Cell::new(size).phrase(size),
                Cell::new(""),
                Cell::new(pattern).phrase(pattern),
            ]
        };
        table.row(cells("1", "alpha", "1 KiB", "shared"));
        table.row(cells("10", "a_longer_name", "12 KiB", "block-cyclic"));
        table
    }

    /// The table after an empty line, so that the expected ones stand unindented.
    fn shown(limit: usize) -> String {
        format!("\n{}", table().render(limit, &Pen { color: false, unicode: true }))
    }

    #[test]
    fn all_on_one_line_where_there_is_room() {
        let expected = "
 #  Object           Size  Pattern
 1  alpha           1 KiB  shared
10  a_longer_name  12 KiB  block-cyclic
";
        assert_eq!(shown(80), expected);
        assert_eq!(shown(expected.lines().last().unwrap().len()), expected);
    }

    #[test]
    fn columns_without_room_go_below() {
        let without_pattern = "
 #  Object      Size
 1  alpha      1 KiB
    shared
10  a_lo…ame  12 KiB
    block-cyclic
";
        assert_eq!(shown(20), without_pattern);
        let name_alone = "
 #  Object
 1  alpha
    1 KiB
    shared
10  a_long…_name
    12 KiB
    block-cyclic
";
        assert_eq!(shown(16), name_alone);
    }
}
