//! Counters, matrices, first touches and patterns out of a recording.
//!
//! ```text
//!   objects -> groups (one per call site or variable)
//!   samples -> attribute -> counters per group x thread, group x page x thread, thread, line
//!   first_touch, page_nodes -> pages of the groups
//! ```
//!
//! Memory grows with the objects and pages that were sampled, not with the number of samples.
#![forbid(unsafe_code)]

mod accuracy;
mod advice;
mod cache_lines;
mod counters;
mod detail;
mod first_touch;
mod for_comparison;
mod groups;
mod instances;
mod lines;
mod pages;
mod pattern;
mod phases;
mod shared_memory;
mod statistics;
mod summary;
mod usage;
mod waiting;
mod workers;

use numamma_findings::{Findings, ForComparison, Usage};
use numamma_trace::{Dataset, TraceError};

/// An analysed recording: its findings, and what is needed to go into detail.
#[derive(Debug)]
pub struct Analysis<'a> {
    dataset: &'a Dataset,
    tables: summary::Tables,
    groups: groups::Groups,
    counters: counters::Counters,
    touches: first_touch::Touches,
    findings: Findings,
}

impl<'a> Analysis<'a> {
    /// Analyses a recording.
    ///
    /// # Errors
    /// If a table cannot be read.
    pub fn new(dataset: &'a Dataset) -> Result<Self, TraceError> {
        let tables = summary::Tables::read(dataset)?;
        let groups = groups::Groups::new(&tables);
        let nodes = pages::PageNodes::read(dataset, &tables, &groups)?;
        let touches = first_touch::Touches::new(dataset, &tables, &groups)?;
        let counters = counters::count(dataset, &tables, &groups, &nodes, &touches)?;
        let findings = summary::findings(dataset, &tables, &groups, &counters, &touches, &nodes);
        Ok(Self { dataset, tables, groups, counters, touches, findings })
    }

    /// The findings, without details.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Input of a comparison with another recording, beside the findings.
    ///
    /// # Errors
    /// If a table cannot be read.
    pub fn for_comparison(&self) -> Result<ForComparison, TraceError> {
        for_comparison::for_comparison(self)
    }

    /// Which threads use which pages, and how long they wait there: what plans and predictions are made of.
    ///
    /// # Errors
    /// If a table cannot be read.
    pub fn usage(&self) -> Result<Usage, TraceError> {
        usage::usage(self)
    }

    /// The findings, with the details of the objects with those ids: their pages, and at most `points` samples over
    /// time of each. `instance`: of that instance alone, see [`numamma_findings::Instance::instance`].
    ///
    /// # Errors
    /// If a table cannot be read.
    pub fn detailed(&self, ids: &[usize], instance: Option<u32>, points: usize) -> Result<Findings, TraceError> {
        let mut findings = self.findings.clone();
        detail::fill(self, &mut findings, ids, instance, points)?;
        Ok(findings)
    }
}
