//! The tables: each column beside its value.

use numamma_findings::{CallSite, Line, Object, Site};

use super::field::table;
use crate::rows::{NodeRow, PageRow, Selection, ThreadAccesses, ThreadRow, objects::first_touch_shares};

pub fn objects(selection: &Selection) -> String {
    let top = |object: &Object| selection.thread_shares(&object.threads).first().copied();
    let toucher = |object: &Object| first_touch_shares(&object.first_touch).first().copied();
    table::<&Object>(
        &selection.objects().rows,
        &[
            ("id", &|o| o.id.into()),
            ("name", &|o| o.name.as_str().into()),
            ("kind", &|o| o.kind.as_str().into()),
            ("module", &|o| o.module.as_deref().into()),
            ("function", &|o| o.site.as_ref().map(|site| site.function.as_str()).into()),
            ("file", &|o| o.site.as_ref().map(|site| site.file.as_str()).into()),
            ("line", &|o| o.site.as_ref().and_then(line).into()),
            ("via", &|o| o.site.as_ref().and_then(via).into()),
            ("instances", &|o| o.instances.into()),
            ("bytes", &|o| o.bytes.into()),
            ("pages", &|o| o.pages.into()),
            ("samples", &|o| selection.if_sampled(o.samples).into()),
            ("cost_seconds", &|o| selection.if_sampled(o.cost.seconds).into()),
            ("cost_share", &|o| selection.if_sampled(o.cost.share).into()),
            ("cost_error", &|o| o.cost.error.into()),
            ("reads", &|o| o.accesses.counted().map(|(reads, _)| reads).into()),
            ("writes", &|o| o.accesses.counted().map(|(_, writes)| writes).into()),
            ("access_share", &|o| o.accesses.stated().map(|of| of.share).into()),
            ("access_error", &|o| o.accesses.stated().and_then(|of| of.error).into()),
            ("access_basis", &|o| selection.if_sampled(o.accesses.basis).into()),
            ("remote_reads", &|o| o.remote.reads.and_then(|n| selection.if_sampled(n)).into()),
            ("remote_writes", &|o| o.remote.writes.and_then(|n| selection.if_sampled(n)).into()),
            ("remote_share", &|o| selection.if_sampled(o.remote.share).into()),
            ("remote_error", &|o| o.remote.error.into()),
            ("threads", &|o| selection.if_sampled(o.threads.len()).into()),
            ("top_thread", &|o| top(o).map(|(thread, _)| thread).into()),
            ("top_thread_share", &|o| top(o).map(|(_, share)| share).into()),
            ("first_touch_thread", &|o| toucher(o).map(|(thread, _)| thread).into()),
            ("first_touch_share", &|o| toucher(o).map(|(_, share)| share).into()),
            ("pattern", &|o| o.pattern.kind.as_str().into()),
            ("block_bytes", &|o| selection.if_sampled(o.pattern.block_bytes).into()),
            ("period_bytes", &|o| selection.if_sampled(o.pattern.period_bytes).into()),
            ("confidence", &|o| selection.if_sampled(o.pattern.confidence).into()),
            ("advice", &|o| o.advice.as_ref().map(|advice| advice.text.as_str()).into()),
            ("memory_reads", &|o| o.memory.map(|of| of.reads).into()),
            ("memory_writes", &|o| o.memory.map(|of| of.writes).into()),
            ("memory_share", &|o| o.memory.map(|of| of.share).into()),
        ],
    )
}

/// The line of a call site, if known.
fn line(site: &CallSite) -> Option<u32> {
    Some(site.line).filter(|line| *line > 0)
}

/// The wrapper that a call site called, if any.
fn via(site: &CallSite) -> Option<&str> {
    Some(site.via.as_str()).filter(|via| !via.is_empty())
}

pub fn sites(selection: &Selection) -> String {
    table::<(&Site, Option<&Object>)>(
        &selection.sites().rows,
        &[
            ("kind", &|(site, _)| site.kind.as_str().into()),
            ("function", &|(site, _)| site.site.function.as_str().into()),
            ("file", &|(site, _)| site.site.file.as_str().into()),
            ("line", &|(site, _)| line(&site.site).into()),
            ("via", &|(site, _)| via(&site.site).into()),
            ("variable", &|(site, _)| site.variable.as_deref().into()),
            ("allocations", &|(site, _)| site.count.into()),
            ("bytes", &|(site, _)| site.bytes.into()),
            ("freed", &|(site, _)| site.freed.into()),
            ("peak_bytes", &|(site, _)| site.peak_bytes.into()),
            ("lifetime_min_s", &|(site, _)| site.lifetime.map(|lifetime| lifetime.min_s).into()),
            ("lifetime_mean_s", &|(site, _)| site.lifetime.map(|lifetime| lifetime.mean_s).into()),
            ("lifetime_max_s", &|(site, _)| site.lifetime.map(|lifetime| lifetime.max_s).into()),
            ("nodes", &|(site, _)| joined(site.nodes.iter().map(|(node, pages)| format!("{node}={pages}"))).into()),
            ("object", &|(site, _)| site.object.into()),
            ("samples", &|(_, object)| object.and_then(|o| selection.if_sampled(o.samples)).into()),
            ("cost_seconds", &|(_, object)| object.and_then(|o| selection.if_sampled(o.cost.seconds)).into()),
            ("cost_share", &|(_, object)| object.and_then(|o| selection.if_sampled(o.cost.share)).into()),
            ("access_share", &|(_, object)| object.and_then(|o| o.accesses.stated()).map(|of| of.share).into()),
            ("stack", &|(site, _)| site.site.stack.join("; ").into()),
        ],
    )
}

pub fn threads(selection: &Selection) -> String {
    let split = |row: &ThreadRow| match row.accesses {
        ThreadAccesses::Split(reads, writes) => (Some(reads), Some(writes), Some(reads + writes)),
        ThreadAccesses::Total(total) => (None, None, Some(total)),
        ThreadAccesses::Unknown => (None, None, None),
    };
    table::<ThreadRow>(
        &selection.threads().rows,
        &[
            ("thread", &|row| row.number.into()),
            ("tid", &|row| row.thread.map(|thread| thread.tid).into()),
            ("pid", &|row| row.thread.map(|thread| thread.pid).into()),
            ("name", &|row| row.thread.map(|thread| thread.name.as_str()).into()),
            ("start_s", &|row| row.thread.map(|thread| thread.start_s).into()),
            ("end_s", &|row| row.thread.and_then(|thread| thread.end_s).into()),
            ("samples", &|row| row.samples.into()),
            ("cost_seconds", &|row| selection.if_sampled(row.cost_s).into()),
            ("cost_share", &|row| selection.if_sampled(row.cost_share).into()),
            ("cost_error", &|row| row.cost_error.into()),
            ("reads", &|row| split(row).0.into()),
            ("writes", &|row| split(row).1.into()),
            ("accesses", &|row| split(row).2.into()),
            ("cpus", &|row| row.thread.map(|thread| joined(thread.cpus.keys())).into()),
            ("memory", &|row| row.memory.into()),
        ],
    )
}

pub fn pages(selection: &Selection, rows: &[PageRow]) -> String {
    table::<PageRow>(
        rows,
        &[
            ("object", &|row| row.object.id.into()),
            ("name", &|row| row.object.name.as_str().into()),
            ("page", &|row| row.page.page.into()),
            ("page_bytes", &|row| row.detail.page_bytes.into()),
            ("page_basis", &|row| row.detail.page_basis.as_str().into()),
            ("node", &|row| row.page.node.into()),
            ("owner", &|row| row.page.owner.into()),
            ("owner_share", &|row| row.owner_share().map(|(share, _)| share).into()),
            ("owner_error", &|row| row.owner_share().map(|(_, error)| error).into()),
            ("samples", &|row| selection.if_sampled(row.page.samples).into()),
            ("threads", &|row| selection.if_sampled(row.page.by_thread.len()).into()),
            ("first_touch_thread", &|row| row.page.first_touch_thread.into()),
            ("instance", &|row| row.page.instance.into()),
            ("by_thread", &|row| joined(row.page.by_thread.iter().map(|(thread, n)| format!("{thread}={n}"))).into()),
            ("memory", &|row| row.page.memory.into()),
        ],
    )
}

pub fn nodes(selection: &Selection) -> String {
    table::<NodeRow>(
        &selection.nodes().rows,
        &[
            ("node", &|row| row.node.into()),
            ("pages", &|row| row.pages.into()),
            ("page_share", &|row| row.page_share.into()),
            ("bytes", &|row| row.bytes.into()),
            ("objects", &|row| row.objects.into()),
            ("samples", &|row| row.samples.and_then(|n| selection.if_sampled(n)).into()),
            ("threads", &|row| row.threads.and_then(|n| selection.if_sampled(n)).into()),
            ("largest_object", &|row| row.largest.map(|(object, _)| object.name.as_str()).into()),
        ],
    )
}

pub fn lines(rows: &[&Line]) -> String {
    table::<&Line>(
        rows,
        &[
            ("function", &|line| line.function.as_str().into()),
            ("file", &|line| line.file.as_str().into()),
            ("line", &|line| Some(line.line).filter(|line| *line > 0).into()),
            ("module", &|line| line.module.as_str().into()),
            ("cost_seconds", &|line| line.cost.seconds.into()),
            ("cost_share", &|line| line.cost.share.into()),
            ("cost_error", &|line| line.cost.error.into()),
            ("reads", &|line| line.accesses.counted().map(|(reads, _)| reads).into()),
            ("writes", &|line| line.accesses.counted().map(|(_, writes)| writes).into()),
            ("access_share", &|line| line.accesses.stated().map(|of| of.share).into()),
            ("access_error", &|line| line.accesses.stated().and_then(|of| of.error).into()),
            ("objects", &|line| joined(line.objects.iter()).into()),
        ],
    )
}

/// Values of one field, a blank between them.
fn joined<T: ToString>(values: impl Iterator<Item = T>) -> String {
    values.map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
}
