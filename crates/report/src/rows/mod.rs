//! Which rows a report shows, and in which order: the same for every format.

mod nodes;
pub mod objects;
mod pages;
mod threads;

use numamma_findings::{Findings, Line, Object, Site};

pub use nodes::NodeRow;
pub use pages::PageRow;
pub use threads::{ThreadAccesses, ThreadRow};

use crate::{
    error::ReportError,
    lookup::find_object,
    options::{Access, By, Format, Options, Sort},
};

/// Rows of a text report when nothing else was asked for.
const TEXT_ROWS: usize = 20;

/// Findings and what is asked of them.
pub struct Selection<'a> {
    /// Everything that was found.
    pub findings: &'a Findings,
    /// Options of the report.
    pub options: &'a Options,
    /// The one object that `--object` names.
    pub object: Option<&'a Object>,
}

/// The first rows of a longer list.
pub struct Cut<T> {
    /// The rows that are shown.
    pub rows: Vec<T>,
    /// The rows that are not, in the same order.
    pub rest: Vec<T>,
}

/// Refuses combinations of options that have no answer.
pub fn check(options: &Options) -> Result<(), ReportError> {
    let paged = matches!(options.by, By::Page | By::Node);
    if options.sort == Sort::Remote && matches!(options.by, By::Thread | By::Page | By::Node | By::Line) {
        let what = "remote accesses are counted per object, not per thread, page, node or line";
        return Err(ReportError::Unsupported { what, remedy: "use --by object or --by site, or another --sort" });
    }
    if options.sort == Sort::Memory && matches!(options.by, By::Node | By::Line) {
        let what = "accesses that reach memory are counted per object, thread and page, not per node or line";
        return Err(ReportError::Unsupported { what, remedy: "use --by object, thread or page, or another --sort" });
    }
    if options.access != Access::All && paged {
        let what = "pages do not tell reads from writes";
        return Err(ReportError::Unsupported { what, remedy: "leave out --access, or use another --by" });
    }
    Ok(())
}

/// True if all accesses were counted: then they are exact, and there is no cost.
pub fn is_exact(findings: &Findings) -> bool {
    findings.sampler.kind == "exact"
}

/// True if a table of the recording could not be read.
pub fn lacks(findings: &Findings, table: &str) -> bool {
    findings.missing.iter().any(|of| of.table == table)
}

/// True if all tables are there that tell which object and thread a sample is of.
pub fn attributes(findings: &Findings) -> bool {
    !["samples", "objects", "modules", "threads", "processes"].iter().any(|table| lacks(findings, table))
}

impl<'a> Selection<'a> {
    /// Looks up the object that the options name.
    pub fn new(findings: &'a Findings, options: &'a Options) -> Result<Self, ReportError> {
        check(options)?;
        if options.sort == Sort::Memory && findings.sampler.caches.is_none() {
            let what = "the recording does not tell which accesses reach memory";
            let remedy = "record with --sampler exact --caches auto, or use another --sort";
            return Err(ReportError::Unsupported { what, remedy });
        }
        let object = match &options.object {
            Some(name) => Some(&findings.objects[find_object(findings, name)?]),
            None => None,
        };
        if let (Some(object), Some(instance)) = (object, options.instance)
            && let Some(detail) = object.detail.as_ref().filter(|detail| instance >= detail.instances_of)
        {
            return Err(ReportError::NoInstance { instance, object: object.name.clone(), count: detail.instances_of });
        }
        Ok(Self { findings, options, object })
    }

    /// The objects that rows are drawn from.
    fn scope(&self) -> impl Iterator<Item = &'a Object> + use<'a> {
        let only = self.object.map(|object| object.id);
        self.findings.objects.iter().filter(move |object| only.is_none_or(|id| id == object.id))
    }

    /// Source lines.
    pub fn lines(&self) -> Cut<&'a Line> {
        let only = self.object.map(|object| object.id);
        let rows = self.findings.lines.iter().filter(|line| {
            only.is_none_or(|id| line.objects.contains(&id)) && self.wanted(line.accesses.reads, line.accesses.writes)
        });
        self.order(rows.collect(), |line| match self.options.sort {
            Sort::Cost => line.cost.seconds,
            _ => self.count(line.accesses.reads, line.accesses.writes),
        })
    }

    /// Allocation call sites, each with the object that stands for it. Sites that were never sampled come last, most
    /// bytes first.
    pub fn sites(&self) -> Cut<(&'a Site, Option<&'a Object>)> {
        let by_id: std::collections::HashMap<usize, &Object> = self.scope().map(|object| (object.id, object)).collect();
        let rows = self.findings.sites.iter().map(|site| (site, site.object.and_then(|id| by_id.get(&id).copied())));
        let rows = rows.filter(|(_, object)| match object {
            Some(object) => self.wanted(object.accesses.reads, object.accesses.writes),
            None => self.object.is_none() && self.options.access == Access::All,
        });
        self.order(rows.collect(), |(_, object)| object.map_or(-1.0, |object| self.weight(object)))
    }

    /// Text about cost; empty where none is known.
    pub fn of_cost(&self, text: String) -> String {
        if is_exact(self.findings) || lacks(self.findings, "samples") { String::new() } else { text }
    }

    /// A value that follows from the samples; `None` if they could not be read.
    pub fn if_sampled<T>(&self, value: T) -> Option<T> {
        (!lacks(self.findings, "samples")).then_some(value)
    }

    /// Share of an object, line or thread in what the recording measures: cost, or accesses where they were counted.
    pub fn share(&self, cost: f64, accesses: f64) -> f64 {
        finite(if is_exact(self.findings) { accesses } else { cost })
    }

    /// Key by which rows with these reads and writes are ordered when counts are asked for.
    pub fn count(&self, reads: f64, writes: f64) -> f64 {
        match self.options.access {
            Access::All => finite(reads) + finite(writes),
            Access::Read => finite(reads),
            Access::Write => finite(writes),
        }
    }

    /// True if a row has accesses of the kind that is asked for.
    fn wanted(&self, reads: f64, writes: f64) -> bool {
        self.options.access == Access::All || self.count(reads, writes) > 0.0
    }

    /// Sorts by `key`, largest first, equal ones in the order of the findings; cuts to the rows that are asked for.
    fn order<T>(&self, mut rows: Vec<T>, key: impl Fn(&T) -> f64) -> Cut<T> {
        rows.sort_by(|a, b| finite(key(b)).total_cmp(&finite(key(a))));
        let limit = match self.options.top {
            Some(0) => usize::MAX,
            Some(limit) => limit,
            None if self.options.format == Format::Text => TEXT_ROWS,
            None => usize::MAX,
        };
        let rest = rows.split_off(limit.min(rows.len()));
        Cut { rows, rest }
    }
}

/// `value`, or 0 where it is not a number: a report never shows or sorts by NaN.
pub fn finite(value: f64) -> f64 {
    // Nor -0.
    if value.is_finite() { value + 0.0 } else { 0.0 }
}
