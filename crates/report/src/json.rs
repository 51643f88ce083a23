//! The JSON report: `docs/REPORT.md` documents every field.

use std::io;

use numamma_findings::{
    Findings, Instance, Line, Loss, MissingTable, Object, Page, Point, Process, Run, Sampler, Samples, Site, Thread,
    Waiting,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    error::ReportError,
    finite::Finite,
    options::By,
    rows::{NodeRow, PageRow, Selection, lacks},
};

/// The findings, and what options add to them. Named field by field, so that a new finding is a decision here.
#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    run: Run,
    sampler: Sampler,
    samples: &'a Samples,
    losses: &'a [Loss],
    objects: Vec<ObjectOut>,
    threads: Vec<Thread>,
    lines: Vec<Line>,
    sites: Vec<&'a Site>,
    processes: &'a [Process],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    missing: &'a [MissingTable],
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<Waiting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<Vec<PageOut>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<NodeOut>>,
}

#[derive(Serialize)]
struct ObjectOut {
    #[serde(flatten)]
    object: Object,
    #[serde(flatten)]
    detail: Option<DetailOut>,
}

#[derive(Serialize)]
struct DetailOut {
    page_bytes: u64,
    page_basis: String,
    page_table: Vec<Page>,
    instance_table: Vec<Instance>,
    instance_table_of: u64,
    span_bytes: u64,
    timeline: Vec<Point>,
    timeline_of: u64,
}

#[derive(Serialize)]
struct PageOut {
    object: usize,
    page_bytes: u64,
    page_basis: String,
    #[serde(flatten)]
    page: Page,
}

#[derive(Serialize)]
struct NodeOut {
    node: Option<i32>,
    pages: u64,
    page_share: f64,
    bytes: u64,
    objects: usize,
    samples: Option<u64>,
    threads: Option<usize>,
    largest_object: Option<usize>,
}

/// Writes the report: `--by` names the list that is ordered, filtered and cut; the others are whole.
pub fn render(selection: &Selection, out: &mut dyn io::Write) -> Result<(), ReportError> {
    let by = selection.options.by;
    let Findings {
        version,
        run,
        sampler,
        samples,
        losses,
        objects,
        threads,
        lines,
        sites,
        processes,
        missing,
        waiting,
    } = selection.findings;
    let objects: Vec<&Object> = match selection.object {
        Some(object) => vec![object],
        None if by == By::Object => selection.objects().rows,
        None => objects.iter().collect(),
    };
    let threads: Vec<&Thread> = match by {
        By::Thread => selection.threads().rows.iter().filter_map(|row| row.thread).collect(),
        _ => threads.iter().collect(),
    };
    let lines: Vec<&Line> = match by {
        By::Line => selection.lines().rows,
        _ => lines.iter().collect(),
    };
    let sites: Vec<&Site> = match by {
        By::Site => selection.sites().rows.into_iter().map(|(site, _)| site).collect(),
        _ => sites.iter().collect(),
    };
    let document = Document {
        version: *version,
        run: run.clone().made_finite(),
        sampler: sampler.clone().made_finite(),
        samples,
        losses,
        objects: objects.into_iter().map(|object| object_out(object, selection.object.is_some())).collect(),
        threads: threads.into_iter().map(|thread| thread.clone().made_finite()).collect(),
        lines: lines.into_iter().map(|line| line.clone().made_finite()).collect(),
        sites,
        processes,
        missing,
        waiting: waiting.clone().map(Finite::made_finite),
        pages: match by {
            By::Page => Some(selection.pages()?.rows.iter().map(page_out).collect()),
            _ => None,
        },
        nodes: (by == By::Node).then(|| selection.nodes().rows.iter().map(node_out).collect()),
    };
    if missing.is_empty() {
        serde_json::to_writer_pretty(&mut *out, &document)?;
    } else {
        serde_json::to_writer_pretty(&mut *out, &without_unknown(&document, selection.findings)?)?;
    }
    out.write_all(b"\n")?;
    Ok(())
}

/// The document with `null` in place of what tables that could not be read would tell.
fn without_unknown(document: &Document<'_>, findings: &Findings) -> Result<Value, ReportError> {
    let mut document = serde_json::to_value(document)?;
    if lacks(findings, "samples") {
        document["samples"] = Value::Null;
        let lists = [
            ("objects", &["samples", "cost", "accesses", "remote"][..]),
            ("threads", &["cost_s"]),
            ("pages", &["samples"]),
            ("nodes", &["samples", "threads"]),
        ];
        for (list, fields) in lists {
            for of in document.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                fields.iter().for_each(|&field| of[field] = Value::Null);
            }
        }
    }
    if lacks(findings, "threads") {
        document["run"]["threads"] = Value::Null;
    }
    Ok(document)
}

fn object_out(object: &Object, detailed: bool) -> ObjectOut {
    let mut object = object.clone().made_finite();
    let detail = object.detail.take().filter(|_| detailed).map(|detail| DetailOut {
        page_bytes: detail.page_bytes,
        page_basis: detail.page_basis,
        page_table: detail.pages,
        instance_table: detail.instances,
        instance_table_of: detail.instances_of,
        span_bytes: detail.span_bytes,
        timeline: detail.points,
        timeline_of: detail.points_of,
    });
    ObjectOut { object, detail }
}

fn page_out(row: &PageRow) -> PageOut {
    PageOut {
        object: row.object.id,
        page_bytes: row.detail.page_bytes,
        page_basis: row.detail.page_basis.clone(),
        page: row.page.clone().made_finite(),
    }
}

fn node_out(row: &NodeRow) -> NodeOut {
    NodeOut {
        node: row.node,
        pages: row.pages,
        page_share: row.page_share,
        bytes: row.bytes,
        objects: row.objects,
        samples: row.samples,
        threads: row.threads,
        largest_object: row.largest.map(|(object, _)| object.id),
    }
}
