//! Diagnosis of an object in a few words, and the line to change.

use numamma_findings::{FirstTouch, LineToChange, ObjectUse};

use crate::choose::{FEWEST_SAMPLES, Standing, Weight};
use crate::layout::Layout;
use crate::policy::words;
use crate::target::file_name;

/// Local share from which on an object lies well.
pub const LIES_WELL: f64 = 0.9;

/// Facts about an object that its diagnosis uses.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The object.
    pub object: &'a ObjectUse,
    /// Its weight in the run.
    pub weight: Weight,
    /// The chosen layout.
    pub layout: &'a Layout,
    /// True if a plan can place it.
    pub is_named: bool,
    /// Objects that are allocated by the same line.
    pub twins: &'a [String],
    /// Nodes of the machine.
    pub nodes: usize,
    /// Threads that use it.
    pub users: usize,
    /// Local share of its accesses without a plan, by owner and interleaved.
    pub local: [f64; 3],
}

/// The sentence.
pub fn sentence(case: &Case<'_>) -> String {
    let Case { object, weight, local, .. } = case;
    let name = &object.name;
    let of_memory = format!("{} of the accesses to memory", percent(weight.share));
    match weight.standing {
        Standing::Unplaceable => format!("{name} is a {}, which no plan places.", object.kind),
        Standing::Cold => format!("{name} has {of_memory}: its place hardly matters."),
        Standing::Small => format!("{name} is so small that caches hold it: its place hardly matters."),
        Standing::FewSamples => format!(
            "Only {} samples of {name} waited for memory, and {FEWEST_SAMPLES} are the least that tell how it is used there.",
            weight.samples
        ),
        Standing::Open if *case.layout == Layout::FirstTouch => match local[0] >= LIES_WELL {
            true => format!(
                "{name} lies well where it is touched first: {} of its accesses to memory are local.",
                percent(local[0])
            ),
            false => format!(
                "{name} stays where it is touched first, with {} of its accesses to memory local: no other place makes the run 1 % faster.",
                percent(local[0])
            ),
        },
        Standing::Open if !case.is_named => {
            let why = match (case.twins, &object.site) {
                ([], _) | (_, None) => "it has no name that tells it from other objects".to_owned(),
                (twins, Some(site)) => format!(
                    "{}:{} allocates {} too, which should lie elsewhere. Give each a line of its own",
                    file_name(&site.file),
                    site.line,
                    twins.join(" and ")
                ),
            };
            format!("{name} has {of_memory}, but no plan can place it: {why}.")
        }
        Standing::Open => {
            let remedy = match line(case) {
                Some(line) => format!("{}, or run it under this plan ({})", line.change, words(case.layout)),
                None => format!("run it under this plan ({})", words(case.layout)),
            };
            format!(
                "{name} is set up by {}{} and used {}. It has {of_memory}, of which {} would be remote on {} nodes: {remedy}.",
                named(&touchers(&object.first_touch)),
                // Blocks of less than a page: the allocator touches their pages.
                if matches!(case.layout, Layout::Gather(_)) {
                    String::new()
                } else {
                    place(object.first_touch.first())
                },
                users(case),
                percent(1.0 - local[0]),
                case.nodes,
            )
        }
    }
}

/// The line where it is touched first, and what to do there.
pub fn line(case: &Case<'_>) -> Option<LineToChange> {
    let touch = case.object.first_touch.first().filter(|touch| !touch.recycled && touch.line > 0)?;
    let at = format!("{}:{}", file_name(&touch.file), touch.line);
    let is_parallel = touchers(&case.object.first_touch).len() > 1;
    let change = match case.layout {
        Layout::Block(_) | Layout::Map { .. } | Layout::BlockCyclic { .. } if is_parallel => {
            format!(
                "initialise each part in the thread that uses it ({at} divides it among the threads in another way)"
            )
        }
        Layout::Block(_) | Layout::Map { .. } => {
            format!("initialise it in parallel ({at}: #pragma omp parallel for schedule(static))")
        }
        Layout::BlockCyclic { .. } => format!("initialise it in parallel, with the loop that uses it ({at})"),
        Layout::Bind(_) | Layout::Instances(_) => format!("let the thread that uses it initialise it ({at})"),
        Layout::Interleave(_) | Layout::Weighted(_) => format!("interleave it where it is allocated, before {at}"),
        _ => return None,
    };
    Some(LineToChange { function: touch.function.clone(), file: touch.file.clone(), line: touch.line, change })
}

/// Threads that set it up.
fn touchers(touches: &[FirstTouch]) -> Vec<usize> {
    let mut threads: Vec<usize> = touches.iter().map(|touch| touch.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    threads
}

fn named(touchers: &[usize]) -> String {
    match touchers[..] {
        [] => "a thread that was not seen".into(),
        [one] => format!("T{one}"),
        [..] => format!("{} threads", touchers.len()),
    }
}

fn place(touch: Option<&FirstTouch>) -> String {
    match touch {
        Some(touch) if touch.recycled => " when other objects lay there".into(),
        Some(touch) if touch.line > 0 && !touch.function.is_empty() => {
            format!(" in {} at {}:{}", function(&touch.function), file_name(&touch.file), touch.line)
        }
        Some(touch) if !touch.function.is_empty() => format!(" in {}", function(&touch.function)),
        _ => String::new(),
    }
}

/// A name that reads as a function.
fn function(name: &str) -> String {
    if name.ends_with(')') || name.contains('+') { name.to_owned() } else { format!("{name}()") }
}

fn users(case: &Case<'_>) -> String {
    let by = if case.users == 1 { "by one thread".into() } else { format!("by {} threads", case.users) };
    match case.layout {
        Layout::Block(nodes) => {
            let bytes = case.object.instances.first().map_or(0, |instance| instance.bytes) / nodes.len().max(1) as u64;
            format!("{by} in blocks of {} for each node", size(bytes))
        }
        Layout::BlockCyclic { bytes, .. } => format!("{by} in turn, in blocks of {} for each node", size(*bytes)),
        Layout::Map { .. } => format!("{by} in ranges"),
        Layout::Interleave(_) | Layout::Weighted(_) | Layout::Gather(_) => format!("{by}, each all of it"),
        Layout::Instances(_) => format!("{by}, each its own instances"),
        _ => by,
    }
}

/// A size with three digits.
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1023.5 && unit + 1 < units.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    match value {
        value if value.fract() == 0.0 || value >= 99.95 => format!("{value:.0} {}", units[unit]),
        value => format!("{value:.1} {}", units[unit]),
    }
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 0.5 => "under 1 %".into(),
        percent => format!("{percent:.0} %"),
    }
}
