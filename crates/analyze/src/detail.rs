//! The pages of an object, one by one, and its samples over time.

use numamma_attribute::Cursor;
use numamma_findings::{Detail, Findings, FirstTouch, Page, Point};
use numamma_symbols::origin::is_library;
use numamma_trace::{Access, ObjectKind, SampleRow, TraceError};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Analysis;
use crate::counters::{Counters, PageCount, Users};
use crate::first_touch::{Touch, Touches};
use crate::groups::{Group, GroupId, Groups, file_name};
use crate::instances;
use crate::pages::{PageAddress, PageKey, PageNodes, SMALL, page_key};
use crate::shared_memory::{Extent, place};
use crate::summary::{Tables, order};

/// A page of a group that was sampled or first touched.
#[derive(Debug, Default)]
pub struct GroupPage {
    pub key: PageKey,
    /// Where it lay when it was first sampled or touched.
    pub address: PageAddress,
    pub node: Option<i32>,
    pub samples: u64,
    pub users: Users,
    /// Accesses that reach memory, where that is known.
    pub memory: f64,
    pub first_touch: Option<Touch>,
    /// True if it was first touched as memory of an object that lay there before.
    pub recycled: bool,
}

/// The pages of each group, ascending.
pub fn pages_by_group(
    tables: &Tables,
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
            .map(|(&key, page): (&PageKey, &PageCount)| {
                let in_life = touched.remove(&key);
                let before = page.touched_before.filter(|_| in_life.is_none());
                GroupPage {
                    key,
                    address: page.address,
                    node: nodes.node(page.address),
                    samples: page.samples,
                    users: page.users.clone(),
                    memory: page.memory,
                    first_touch: in_life.or(before),
                    recycled: before.is_some_and(|touch| key.instance != SMALL && is_of_another(tables, &touch)),
                }
            })
            .collect();
        pages.extend(touched.into_iter().map(|(key, touch)| GroupPage {
            key,
            address: touch.address,
            first_touch: Some(touch),
            ..GroupPage::default()
        }));
        pages.sort_by_key(|page| page.key);
        all.push(pages);
    }
    all
}

/// True if a touch from before an object's time was one of memory that another object had. What a call that allocates
/// touches itself (the zeros of calloc, the allocator's header) is nobody's object yet.
fn is_of_another(tables: &Tables, touch: &Touch) -> bool {
    let kind = touch.object.and_then(|object| ObjectKind::from_name(&tables.objects[object as usize].kind));
    matches!(kind, Some(ObjectKind::Heap | ObjectKind::Stack | ObjectKind::Tls | ObjectKind::Annotated))
}

/// Distinct pages in memory: instances that live one after the other may lie in the same ones.
pub fn distinct(pages: &[GroupPage]) -> u64 {
    pages.iter().map(|page| page.address).collect::<FxHashSet<_>>().len() as u64
}

/// First touches by thread and source line, most pages first. Each touch counts once, however many instances have lain in
/// its page since.
pub fn first_touch_lines<'a>(tables: &Tables, pages: impl Iterator<Item = &'a GroupPage>) -> Vec<FirstTouch> {
    let mut lines: FxHashMap<(i32, TouchPlace, bool), u64> = FxHashMap::default();
    let mut seen: FxHashSet<(PageAddress, i64)> = FxHashSet::default();
    for page in pages {
        let Some(touch) = page.first_touch.filter(|touch| seen.insert((page.address, touch.time))) else { continue };
        *lines.entry((touch.thread, touch_place(tables, &touch), page.recycled)).or_default() += 1;
    }
    let mut lines: Vec<FirstTouch> = lines
        .into_iter()
        .map(|((thread, (function, file, line, via), recycled), pages)| FirstTouch {
            thread: thread.max(0) as usize,
            function,
            file,
            line: line.max(0) as u32,
            via,
            pages,
            recycled,
        })
        .collect();
    lines.sort_by(|a, b| {
        b.pages.cmp(&a.pages).then_with(|| (a.thread, &a.function, a.line).cmp(&(b.thread, &b.function, b.line)))
    });
    lines
}

/// Function, file, line, and the function of a run-time library that was called there.
pub type TouchPlace = (String, String, i32, String);

/// Where the program touched a page.
pub fn touch_place(tables: &Tables, touch: &Touch) -> TouchPlace {
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
    match tables.own_code(touch.process, if touch.caller != 0 { touch.caller } else { touch.ip }) {
        // A line of the C library's assembly code says nothing.
        Some(row) if row.file.ends_with(".S") => (plain_function(&row.function).into(), String::new(), 0, via),
        // Nor does one of a library: the line that calls it is not known.
        Some(row) if !row.function.is_empty() && is_library(&row.module, &row.function, &row.file) => {
            (plain_function(&row.function).into(), String::new(), 0, via)
        }
        Some(row) if !row.function.is_empty() => (row.function.clone(), row.file.clone(), row.line, via),
        Some(row) if !row.module.is_empty() => {
            (format!("{}+{:#x}", file_name(&row.module), row.module_offset), String::new(), 0, via)
        }
        _ => (String::new(), String::new(), 0, via),
    }
}

/// `memset` of `__memset_avx2_unaligned_erms`, for the C library has one for each kind of processor, and `read` of `__GI___libc_read`, its
/// own name of it.
fn plain_function(function: &str) -> &str {
    const KINDS: [&str; 7] = ["_sse", "_ssse", "_avx", "_evex", "_erms", "_unaligned", "_chk"];
    let plain = function.strip_prefix("__GI_").unwrap_or(function);
    let plain = plain.strip_prefix("__libc_").unwrap_or(plain).trim_start_matches('_');
    let end = KINDS.iter().filter_map(|kind| plain.find(kind)).min();
    plain[..end.unwrap_or(plain.len())].trim_end_matches('_')
}

/// How the pages of a group are numbered in its detail.
struct Numbering {
    /// As [`Detail::page_basis`].
    basis: &'static str,
    /// Number of the first page of each instance whose pages are its own.
    first: FxHashMap<u32, u64>,
    /// Numbers of the pages that small instances share.
    small: FxHashMap<PageKey, u64>,
    /// Largest offset.
    span_bytes: u64,
}

impl Numbering {
    /// `only`: of one instance alone.
    fn new(analysis: &Analysis<'_>, id: GroupId, pages: &[GroupPage], only: Option<u32>) -> Self {
        let Analysis { tables, groups, .. } = analysis;
        let group = &groups.groups[id as usize];
        let mut paged: Vec<usize> = groups
            .instances_of(id)
            .filter(|&object| is_paged(group, groups.extent(tables, object), tables.page_bytes))
            .filter(|&object| only.is_none_or(|only| groups.instance[object] == only))
            .collect();
        paged.sort_by_key(|&object| groups.instance[object]);
        let mut first = FxHashMap::default();
        let mut next = 0;
        for &object in &paged {
            first.insert(groups.instance[object], next);
            next += instances::pages_of(groups.extent(tables, object), tables.page_bytes);
        }
        let shared = pages.iter().map(|page| page.key).filter(|key| key.instance == SMALL && only.is_none());
        let small: FxHashMap<PageKey, u64> = shared.enumerate().map(|(n, key)| (key, next + n as u64)).collect();
        let one = group.touched == 1 || only.is_some();
        let basis = match (one, paged.is_empty()) {
            (true, _) => "offset",
            (false, false) => "instances",
            (false, true) => "address",
        };
        let span_bytes = match (one, paged.first()) {
            (true, Some(&object)) => groups.extent(tables, object).bytes,
            _ => (next + small.len() as u64) * tables.page_bytes,
        };
        Self { basis, first, small, span_bytes }
    }

    fn page(&self, key: PageKey) -> Option<u64> {
        match key.instance {
            SMALL => self.small.get(&key).copied(),
            instance => Some(self.first.get(&instance)? + key.page),
        }
    }
}

/// True if an instance's pages are told apart from those of others of its group.
pub fn is_paged(group: &Group, extent: Extent, page_bytes: u64) -> bool {
    group.touched == 1 || extent.bytes >= page_bytes
}

/// Fills in the details of the objects with those ids; `instance`: of that instance alone.
pub fn fill(
    analysis: &Analysis<'_>,
    findings: &mut Findings,
    ids: &[usize],
    instance: Option<u32>,
    most: usize,
) -> Result<(), TraceError> {
    let (tables, groups) = (&analysis.tables, &analysis.groups);
    let nodes = PageNodes::read(analysis.dataset, tables, groups)?;
    let mut pages = pages_by_group(tables, groups, &analysis.counters, &analysis.touches, &nodes);
    let order = order(groups, &analysis.counters, &pages);
    let wanted: FxHashMap<GroupId, usize> = ids.iter().filter_map(|&id| Some((*order.get(id)?, id))).collect();
    let numberings: FxHashMap<GroupId, Numbering> = wanted
        .keys()
        .map(|&group| (group, Numbering::new(analysis, group, &pages[group as usize], instance)))
        .collect();
    let mut points = points(analysis, &numberings, instance, most)?;
    for (&group, &id) in &wanted {
        let numbering = &numberings[&group];
        let own = std::mem::take(&mut pages[group as usize]);
        let (drawn, of) = points.remove(&group).unwrap_or_default();
        let several = groups.groups[group as usize].touched > 1;
        let listed = match several {
            true => instances::list(analysis, group, &own, &numbering.first),
            false => Vec::new(),
        };
        let object = &mut findings.objects[id];
        object.detail = Some(Detail {
            page_bytes: tables.page_bytes,
            page_basis: numbering.basis.into(),
            span_bytes: numbering.span_bytes,
            instances_of: u64::from(groups.groups[group as usize].touched),
            instances: listed,
            pages: own
                .into_iter()
                .filter_map(|page| {
                    Some(Page {
                        page: numbering.page(page.key)?,
                        instance: (several && page.key.instance != SMALL).then_some(page.key.instance.into()),
                        node: page.node,
                        owner: page.users.owner().map(|t| t.max(0) as usize),
                        samples: page.samples,
                        first_touch_thread: page.first_touch.map(|t| t.thread.max(0) as usize),
                        by_thread: page
                            .users
                            .threads
                            .iter()
                            .map(|of| (of.thread.max(0) as usize, of.accesses))
                            .collect(),
                        cost_by_thread: page
                            .users
                            .threads
                            .iter()
                            .filter(|of| of.cost > 0)
                            .map(|of| (of.thread.max(0) as usize, of.cost as f64 / 1e9))
                            .collect(),
                        memory: analysis.counters.memory_known.then_some(page.memory),
                    })
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
    numberings: &FxHashMap<GroupId, Numbering>,
    instance: Option<u32>,
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
            let Some(group) = groups.of_object[object] else { continue };
            let Some(numbering) = numberings.get(&group) else { continue };
            if instance.is_some_and(|instance| groups.instance[object] != instance) {
                continue;
            }
            let key = page_key(groups, tables, object, addr);
            let offset = match numbering.first.get(&key.instance) {
                Some(first) => {
                    let (_, at) = place(&tables.objects[object], addr);
                    first * tables.page_bytes + (at - groups.extent(tables, object).addr)
                }
                None => match numbering.page(key) {
                    Some(page) => page * tables.page_bytes + addr % tables.page_bytes,
                    None => continue,
                },
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
