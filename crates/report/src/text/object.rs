//! One object in full.

use numamma_findings::{Detail, Object};

use super::{
    Page,
    footer::COUNTING,
    instances, lists, matrix,
    objects::{error, is_nowhere},
    shares,
    style::{Style, clean},
    table::{Cell, Column, Table},
    timeline, units,
};
use crate::rows::{Selection, is_exact, objects::first_touch_shares};

/// Lines of first touches that are listed.
const TOUCHES: usize = 12;
/// Frames of the call stack that are listed.
const FRAMES: usize = 24;
/// Threads that are named.
const THREADS: usize = 8;

/// One object in full.
pub fn render(selection: &Selection, object: &Object, page: &Page) -> String {
    let mut out = summary(selection, object, page);
    out += &stack(object, page);
    if let Some(detail) = &object.detail {
        out += &instances::render(selection, detail, page);
    }
    match &object.detail {
        Some(detail) => out += &matrix::render(detail, page, is_exact(selection.findings)),
        None => out += &format!("\n{}", page.note("These findings carry no pages of this object.")),
    }
    out += &first_touches(object, page);
    if let Some(detail) = &object.detail {
        out += &over_time(selection, object, detail, page);
    }
    out
}

fn summary(selection: &Selection, object: &Object, page: &Page) -> String {
    let dot = page.pen.dot();
    let mut what = vec![object.kind.clone()];
    what.extend(object.module.as_ref().map(|module| format!("in {}", clean(module, page.pen.unicode))));
    let most = if object.instances > 1 { "up to " } else { "" };
    what.push(format!("{most}{}", units::bytes(object.bytes)));
    if object.instances > 1 {
        what.push(units::plural(object.instances, "instance"));
    }
    what.push(format!("{} touched", units::plural(object.pages, "page")));
    let name = clean(&object.name, page.pen.unicode);
    let title = format!("#{} {name}", object.id);
    let mut out: String = super::style::wrap(&title, page.width)
        .iter()
        .map(|line| format!("{}\n", page.pen.paint(Style::Bold, line)))
        .collect();

    let with = |share: f64, half: Option<f64>| {
        let half = error(half.filter(|half| *half > 0.0), page);
        if half.is_empty() { units::percent(share) } else { format!("{} {half}", units::percent(share)) }
    };
    let cost = with(object.cost.share, object.cost.error);
    let samples = units::plural(object.samples, "sample");
    out += &page.labelled("  what", &what.join(dot));
    // Which part of the run was sampled stands at the top.
    let of = if selection.findings.sampler.controls.is_part() { "of what was kept" } else { "of the run" };
    if !is_exact(selection.findings) {
        let time = units::seconds(object.cost.seconds);
        out += &page.labelled("  cost", &[format!("{cost} {of}"), time, samples].join(dot));
    }
    let accesses = match object.accesses.stated() {
        Some(stated) => {
            let share = with(stated.share, stated.error);
            let counted = stated.counted().map(|(reads, writes)| {
                [format!("{} reads", units::count(reads)), format!("{} writes", units::count(writes))]
            });
            [format!("{share} {of}")].into_iter().chain(counted.into_iter().flatten()).collect::<Vec<_>>().join(dot)
        }
        None => format!("not known: {COUNTING}"),
    };
    out += &page.labelled("  accesses", &accesses);
    if selection.findings.run.nodes > 1 && !is_exact(selection.findings) && !is_nowhere(object) {
        let mut remote = vec![format!("{} of its accesses", with(object.remote.share, object.remote.error))];
        if let Some((reads, writes)) = object.remote.reads.zip(object.remote.writes) {
            remote.push(format!("{} reads", units::count(reads)));
            remote.push(format!("{} writes", units::count(writes)));
        }
        out += &page.labelled("  remote", &remote.join(dot));
    }
    let threads = selection.thread_shares(&object.threads);
    let count = units::plural(threads.len() as u64, "thread");
    out += &page.labelled("  threads", &format!("{count}: {}", shares::long(&threads, THREADS)));
    let touched = first_touch_shares(&object.first_touch);
    let text = if touched.is_empty() { "not seen".to_string() } else { shares::long(&touched, THREADS) };
    out +=
        &page.labelled("  touched", &format!("first by {text}").replace("first by not seen", "first touches not seen"));
    out += &page.labelled("  pattern", &shares::pattern_long(object));
    if !object.nodes.is_empty() {
        let total: u64 = object.nodes.values().sum();
        let nodes = object.nodes.iter().map(|(node, pages)| {
            format!("node {node} {} %", units::percent_whole(*pages as f64 / total.max(1) as f64))
        });
        let known = units::plural(total, "page");
        out += &page.labelled("  lies on", &format!("{} (of {known} seen)", nodes.collect::<Vec<_>>().join(", ")));
    }
    out
}

fn stack(object: &Object, page: &Page) -> String {
    let Some(site) = &object.site else { return String::new() };
    let mut frames = site.stack.clone();
    if frames.is_empty() {
        frames.push(lists::call_site(site));
    }
    let mut out = page.heading("Allocated at");
    for (index, frame) in frames.iter().take(FRAMES).enumerate() {
        let number = page.pen.paint(Style::Dim, &format!("  {index:>2}"));
        out += &format!("{number}  {}\n", super::names::shorten(frame, page.width - 6, &page.pen));
    }
    if frames.len() > FRAMES {
        out += &page.note(&format!("      {} more frames", frames.len() - FRAMES));
    }
    out
}

fn first_touches(object: &Object, page: &Page) -> String {
    if object.first_touch.is_empty() {
        return String::new();
    }
    let total: u64 = object.first_touch.iter().map(|touch| touch.pages).sum();
    let mut touches: Vec<_> = object.first_touch.iter().collect();
    touches.sort_by_key(|touch| std::cmp::Reverse(touch.pages));
    let mut table = Table::new(vec![
        Column::right("Pages", 0),
        Column::right("", 0),
        Column::left("Thread", 0),
        Column::name("Line", 30),
    ]);
    for touch in touches.iter().take(TOUCHES) {
        table.row(vec![
            Cell::new(format!("  {}", units::grouped(touch.pages))),
            Cell::new(units::percent(touch.pages as f64 / total.max(1) as f64)),
            Cell::new(format!("T{}", touch.thread)),
            Cell::new(match (lists::place(&touch.function, &touch.file, touch.line), touch.via.as_str()) {
                (place, _) if touch.recycled => format!("{place} (recycled: as memory of an earlier object)"),
                (place, "") => place,
                (place, via) => format!("{place} ({via})"),
            }),
        ]);
    }
    let mut out = page.heading("First touches") + &table.render(page.width, &page.pen);
    if let Some(rest @ [_, ..]) = touches.get(TOUCHES..) {
        let pages: u64 = rest.iter().map(|touch| touch.pages).sum();
        let (lines, pages) = (units::plural(rest.len() as u64, "line"), units::plural(pages, "page"));
        out += &page.note(&format!("{} {lines} more with {pages}", page.pen.ellipsis()));
    }
    out
}

fn over_time(selection: &Selection, object: &Object, detail: &Detail, page: &Page) -> String {
    let access = selection.options.access;
    let points: Vec<_> = detail.points.iter().filter(|point| access.includes(point.write)).copied().collect();
    timeline::render(&points, detail, selection.findings.run.wall_s, &selection.thread_shares(&object.threads), page)
}
