//! The pages of an object, one by one, and its samples over time.

use numamma_attribute::Cursor;
use numamma_findings::{Detail, Findings, FirstTouch, Page, Point};
use numamma_trace::{Access, SampleRow, TraceError};
use rustc_hash::FxHashMap;

use crate::Analysis;
use crate::counters::{Counters, PageCount, most};
use crate::first_touch::{Touch, Touches};
use crate::groups::{GroupId, Groups, file_name};
use crate::pages::{PageKey, PageNodes, page_key};
use crate::summary::{Tables, order};

/// A page of a group that was sampled or first touched.
#[derive(Debug, Default)]
pub struct GroupPage {
    pub key: PageKey,
    pub node: Option<i32>,
    pub samples: u64,
    /// Accesses that were seen.
    pub seen: u64,
    pub by_thread: Vec<(i32, f64)>,
    pub first_touch: Option<Touch>,
}

impl GroupPage {
    /// Thread with most accesses.
    pub fn owner(&self) -> Option<i32> {
        most(&self.by_thread)
    }

    /// Share of the accesses that are the owner's.
    pub fn exclusive(&self) -> f64 {
        let most = self.by_thread.iter().map(|(_, n)| *n).fold(0.0, f64::max);
        crate::statistics::ratio(most, self.by_thread.iter().map(|(_, n)| *n).sum())
    }
}

/// The pages of each group, ascending.
pub fn pages_by_group(
    groups: &Groups,
    counters: &Counters,
    touches: &Touches,
    nodes: &PageNodes,
) -> Vec<Vec<GroupPage>> {
    let mut touched: Vec<FxHashMap<PageKey, Touch>> = vec![FxHashMap::default(); groups.groups.len()];
    for (&(group, key), &touch) in &touches.in_life {
        touched[group as usize].insert(key, touch);
    }
    let mut all = Vec::with_capacity(groups.groups.len());
    for (count, mut touched) in counters.groups.iter().zip(touched) {
        let mut pages: Vec<GroupPage> = count
            .pages
            .iter()
            .map(|(&key, page): (&PageKey, &PageCount)| GroupPage {
                key,
                node: nodes.node(page.address),
                samples: page.samples,
                seen: page.seen,
                by_thread: page.by_thread.clone(),
                first_touch: touched.remove(&key).or(page.touched_before),
            })
            .collect();
        pages.extend(touched.into_iter().map(|(key, touch)| GroupPage {
            key,
            first_touch: Some(touch),
            ..GroupPage::default()
        }));
        pages.sort_by_key(|page| page.key);
        all.push(pages);
    }
    all
}

/// First touches by thread and source line, most pages first.
pub fn first_touch_lines(tables: &Tables, pages: &[GroupPage]) -> Vec<FirstTouch> {
    let mut lines: FxHashMap<(i32, TouchPlace), u64> = FxHashMap::default();
    for touch in pages.iter().filter_map(|page| page.first_touch) {
        *lines.entry((touch.thread, touch_place(tables, &touch))).or_default() += 1;
    }
    let mut lines: Vec<FirstTouch> = lines
        .into_iter()
        .map(|((thread, (function, file, line, via)), pages)| FirstTouch {
            thread: thread.max(0) as usize,
            function,
            file,
            line: line.max(0) as u32,
            via,
            pages,
        })
        .collect();
    lines.sort_by(|a, b| {
        b.pages.cmp(&a.pages).then_with(|| (a.thread, &a.function, a.line).cmp(&(b.thread, &b.function, b.line)))
    });
    lines
}

/// Function, file, line, and the function of a run-time library that was called there.
type TouchPlace = (String, String, i32, String);

/// Where the program touched a page.
fn touch_place(tables: &Tables, touch: &Touch) -> TouchPlace {
    let code = |ip| tables.code(touch.process, ip);
    let by = code(touch.ip);
    if by.is_some_and(|row| file_name(&row.module).starts_with("libnumamma")) {
        return ("[recorder]".into(), String::new(), 0, String::new());
    }
    let via = match by {
        Some(row) if touch.caller != 0 && row.function.is_empty() => file_name(&row.module).to_owned(),
        Some(row) if touch.caller != 0 => plain_function(&row.function).to_owned(),
        _ => String::new(),
    };
    match code(if touch.caller != 0 { touch.caller } else { touch.ip }) {
        // A line of the C library's assembly code says nothing.
        Some(row) if row.file.ends_with(".S") => (plain_function(&row.function).into(), String::new(), 0, via),
        Some(row) if !row.function.is_empty() => (row.function.clone(), row.file.clone(), row.line, via),
        Some(row) if !row.module.is_empty() => {
            (format!("{}+{:#x}", file_name(&row.module), row.module_offset), String::new(), 0, via)
        }
        _ => (String::new(), String::new(), 0, via),
    }
}

/// `memset` of `__memset_avx2_unaligned_erms`: the C library has one for each kind of processor.
fn plain_function(function: &str) -> &str {
    const KINDS: [&str; 7] = ["_sse", "_ssse", "_avx", "_evex", "_erms", "_unaligned", "_chk"];
    let plain = function.trim_start_matches('_');
    let end = KINDS.iter().filter_map(|kind| plain.find(kind)).min();
    plain[..end.unwrap_or(plain.len())].trim_end_matches('_')
}

/// Fills in the details of the objects with those ids.
pub fn fill(analysis: &Analysis<'_>, findings: &mut Findings, ids: &[usize], most: usize) -> Result<(), TraceError> {
    let (tables, groups) = (&analysis.tables, &analysis.groups);
    let nodes = PageNodes::read(analysis.dataset, tables.page_bytes)?;
    let mut pages = pages_by_group(groups, &analysis.counters, &analysis.touches, &nodes);
    let order = order(groups, &analysis.counters, &pages);
    let wanted: FxHashMap<GroupId, usize> = ids.iter().filter_map(|&id| Some((*order.get(id)?, id))).collect();
    // Pages by address are numbered in their order; points need the numbers.
    let numbers: FxHashMap<GroupId, FxHashMap<PageKey, u64>> = wanted
        .keys()
        .map(|&group| {
            let pages = &pages[group as usize];
            (group, pages.iter().enumerate().map(|(n, page)| (page.key, n as u64)).collect())
        })
        .collect();
    let mut points = points(analysis, &wanted, &numbers, most)?;
    for (&group, &id) in &wanted {
        let by_offset = groups.groups[group as usize].by_offset;
        let own = std::mem::take(&mut pages[group as usize]);
        let (drawn, of) = points.remove(&group).unwrap_or_default();
        let count = own.len() as u64;
        let object = &mut findings.objects[id];
        object.detail = Some(Detail {
            page_bytes: tables.page_bytes,
            page_basis: if by_offset { "offset" } else { "address" }.into(),
            span_bytes: if by_offset { object.bytes } else { count * tables.page_bytes },
            pages: own
                .into_iter()
                .enumerate()
                .map(|(n, page)| Page {
                    page: if by_offset { page.key.page } else { n as u64 },
                    node: page.node,
                    owner: page.owner().map(|t| t.max(0) as usize),
                    samples: page.samples,
                    first_touch_thread: page.first_touch.map(|t| t.thread.max(0) as usize),
                    by_thread: page.by_thread.iter().map(|&(t, n)| (t.max(0) as usize, n)).collect(),
                })
                .collect(),
            points: drawn,
            points_of: of,
        });
    }
    Ok(())
}

/// Points drawn for a group, and of how many.
type Drawn = (Vec<Point>, u64);

/// Draws at most `most` samples of each wanted group, each with the same chance (algorithm R, Vitter 1985), always the
/// same ones.
fn points(
    analysis: &Analysis<'_>,
    wanted: &FxHashMap<GroupId, usize>,
    numbers: &FxHashMap<GroupId, FxHashMap<PageKey, u64>>,
    most: usize,
) -> Result<FxHashMap<GroupId, Drawn>, TraceError> {
    let (tables, groups) = (&analysis.tables, &analysis.groups);
    let mut drawn: FxHashMap<GroupId, Drawn> = FxHashMap::default();
    let mut cursor = Cursor::default();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let start = analysis.dataset.meta().start;
    analysis.dataset.visit(|rows: &mut Vec<SampleRow>| {
        for row in rows.iter().filter(|row| row.addr != 0) {
            let process = tables.process_of(row.thread);
            let addr = row.addr as u64;
            let Some(object) = groups.index.find(process, addr, row.time, &mut cursor) else { continue };
            let Some(group) = groups.of_object[object].filter(|group| wanted.contains_key(group)) else { continue };
            let row_of = &tables.objects[object];
            let key = page_key(&groups.groups[group as usize], row_of, addr, tables.page_bytes);
            let offset = match groups.groups[group as usize].by_offset {
                true => addr - row_of.addr as u64,
                false => {
                    numbers[&group].get(&key).copied().unwrap_or_default() * tables.page_bytes
                        + addr % tables.page_bytes
                }
            };
            let point = Point {
                t: (row.time - start) as f64 / 1e9,
                offset,
                thread: row.thread.max(0) as usize,
                write: row.access & Access::Write as i32 != 0,
            };
            let (points, of) = drawn.entry(group).or_default();
            *of += 1;
            if points.len() < most {
                points.push(point);
            } else {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let place = (state % *of) as usize;
                if place < most {
                    points[place] = point;
                }
            }
        }
    })?;
    for (points, _) in drawn.values_mut() {
        points.sort_by(|a, b| a.t.total_cmp(&b.t));
    }
    Ok(drawn)
}
