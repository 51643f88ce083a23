//! Reports for a terminal or a pipe.

pub mod comparison;
mod footer;
mod header;
mod instances;
mod lists;
mod matrix;
mod names;
mod object;
mod objects;
mod pages;
pub mod plan;
pub mod predictions;
mod shares;
mod style;
mod table;
mod timeline;
pub mod units;

pub use lists::call_site;
pub use style::{clean, shell_word};

use crate::{
    error::ReportError,
    options::{Access, By, Options, Sort},
    rows::{Cut, Selection},
};
use style::{Pen, Style};

/// Narrower terminals get this width: tables have no sense below it.
const LEAST_WIDTH: usize = 60;
/// Wider ones get this: bars and pictures gain nothing above it.
const MOST_WIDTH: usize = 200;

/// Where a text goes to.
#[derive(Clone, Copy)]
struct Page {
    pen: Pen,
    width: usize,
}

impl Page {
    fn new(options: &Options) -> Self {
        let pen = Pen { color: options.color, unicode: options.unicode };
        Self { pen, width: options.width.clamp(LEAST_WIDTH, MOST_WIDTH) }
    }

    /// A heading over a part of the report.
    fn heading(&self, text: &str) -> String {
        format!("\n{}\n", self.pen.paint(Style::Bold, text))
    }

    /// Secondary text, broken into lines.
    fn note(&self, text: &str) -> String {
        style::wrap(text, self.width).iter().map(|line| format!("{}\n", self.pen.paint(Style::Dim, line))).collect()
    }

    /// `label  text`, lines after the first below the text.
    fn labelled(&self, label: &str, text: &str) -> String {
        const LABEL: usize = 12;
        let mut out = String::new();
        for (index, line) in style::wrap(text, self.width - LABEL).iter().enumerate() {
            let label = self.pen.paint(Style::Dim, &format!("{:LABEL$}", if index == 0 { label } else { "" }));
            out += &format!("{label}{line}\n");
        }
        out
    }
}

/// The report as text.
pub fn render(selection: &Selection) -> Result<String, ReportError> {
    let page = Page::new(selection.options);
    let body = match (selection.options.by, selection.object) {
        (By::Object, Some(object)) => object::render(selection, object, &page),
        (By::Object, None) => objects::render(selection, &page),
        (By::Site, _) => lists::sites(selection, &page),
        (By::Thread, _) => lists::threads(selection, &page),
        (By::Line, _) => lists::lines(selection, &page),
        (By::Page, _) => pages::pages(selection, &page)?,
        (By::Node, _) => pages::nodes(selection, &page),
    };
    let mut out = header::render(selection.findings, &page);
    out += &scope(selection, &page);
    out += &body;
    out += &footer::render(selection, &page);
    Ok(out)
}

/// Says what the rows are when they are not all accesses of all objects by cost.
fn scope(selection: &Selection, page: &Page) -> String {
    let options = selection.options;
    let mut said = Vec::new();
    if let (Some(object), false) = (selection.object, options.by == By::Object) {
        said.push(format!("only {}", clean(&object.name, page.pen.unicode)));
    }
    match options.access {
        Access::All => {}
        Access::Read => said.push("reads only".to_string()),
        Access::Write => said.push("writes only".to_string()),
    }
    if options.access != Access::All && options.sort == Sort::Cost {
        said.push("by the cost of reads and writes together (--sort accesses: by their number)".to_string());
    }
    if said.is_empty() { "\n".to_string() } else { format!("\n{}", page.note(&format!("Shown: {}.", said.join("; ")))) }
}

/// A name as a sentence can carry it.
pub fn short_name(name: &str) -> String {
    names::shorten(name, 40, &Pen { color: false, unicode: true }).replace('…', "..")
}

/// The line below a list that was cut: how many more, and how much they weigh together.
fn more<T>(cut: &Cut<T>, what: &str, weight: Option<f64>, page: &Page) -> String {
    if cut.rest.is_empty() {
        return String::new();
    }
    let weight = weight.map(|share| format!(" with {} of the cost", units::percent(share))).unwrap_or_default();
    let rest = units::plural(cut.rest.len() as u64, what);
    page.note(&format!("{} {rest} more{weight} (--top 0 shows all)", page.pen.ellipsis()))
}
