//! What a reader should know before believing or acting on a report.

use std::fmt;

use numamma_findings::{Findings, Object, WITHOUT_ACCESS};

use crate::rows::{finite, is_exact, objects::first_touch_shares};
use crate::text::units;

/// Fewer samples than this say little beyond the first object.
const FEW: u64 = 1000;
/// Fewer than this say nothing of other objects, however certain the first share is.
const VERY_FEW: u64 = 100;

/// Something that a reader should know, most important first.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// No data access was sampled.
    NoSamples {
        /// Seconds that the program ran.
        wall_s: f64,
        /// Samples per second, 0 if the sampler has no rate that can be set.
        rate_hz: f64,
    },
    /// No sample in the part of the run that was asked for.
    EmptyPart {
        /// Which part that was, and how to ask for another.
        part: String,
    },
    /// Too few samples for the shares to mean much.
    FewSamples {
        /// Data accesses that were sampled.
        samples: u64,
        /// Samples per second, 0 if the sampler has no rate that can be set.
        rate_hz: f64,
        /// Half-width of the interval of the largest share, if known.
        error: Option<f64>,
    },
    /// Costly objects that one thread touched first and others use: they all lie on that thread's node.
    FirstTouchedByOne {
        /// Names, most costly first.
        objects: Vec<String>,
        /// The thread that touched most of the first of them.
        thread: usize,
        /// Share of the cost of the run that they have together.
        cost: f64,
        /// Whether that is a share of the accesses: they were counted, and there is no cost.
        counted: bool,
        /// Whether each thread uses a range of its own of the first of them.
        blocks: bool,
        /// Nodes of the machine of the recording.
        nodes: usize,
    },
    /// Processes whose allocations were not seen.
    Untracked {
        /// Their executables.
        commands: Vec<String>,
        /// Share of all samples that they have.
        samples: f64,
        /// Whether that is for a sanitizer.
        sanitizer: bool,
    },
    /// Allocations were not to be seen.
    HeapOff {
        /// What stands for the objects that nobody can tell apart.
        objects: Vec<String>,
        /// Share of the cost of the run that they have together.
        cost: f64,
    },
    /// A good part of the data accesses belongs to no object.
    LittleAttributed {
        /// Share that does.
        share: f64,
        /// Most frequent reason.
        reason: String,
    },
    /// Sampling took more of the run than a report should cost.
    Slow {
        /// Share of the run time.
        overhead: f64,
    },
    /// The recording ended before the program.
    Unfinished,
}

/// What `findings` give reason to warn of, most important first.
pub fn warnings(findings: &Findings) -> Vec<Warning> {
    let found =
        [samples(findings), first_touch(findings, None), untracked(findings), attribution(findings), rest(findings)];
    found.into_iter().flatten().collect()
}

/// Samples that stand for a data access.
pub fn data_samples(findings: &Findings) -> u64 {
    findings.samples.recorded.saturating_sub(findings.samples.without_access)
}

fn samples(findings: &Findings) -> Option<Warning> {
    let settable = !matches!(findings.sampler.kind.as_str(), "exact" | "import");
    let rate_hz = if settable { finite(findings.sampler.rate_hz) } else { 0.0 };
    let samples = data_samples(findings);
    if samples == 0 && findings.sampler.controls.is_part() {
        return Some(Warning::EmptyPart { part: part(findings) });
    }
    if samples == 0 {
        return Some(Warning::NoSamples { wall_s: finite(findings.run.wall_s), rate_hz });
    }
    let error = findings.objects.first().and_then(|object| object.cost.error).filter(|error| error.is_finite());
    // Where it is known how far a share may be off, that decides.
    let few = samples < VERY_FEW || settable && error.map_or(samples < FEW, |error| error > 0.05);
    few.then_some(Warning::FewSamples { samples, rate_hz, error })
}

/// The classic: one thread initialises, all compute, and every page lies on the first one's node. Of all objects, or of one.
pub fn first_touch(findings: &Findings, only: Option<&Object>) -> Option<Warning> {
    let asked = findings.objects.iter().filter(|object| only.is_none_or(|only| only.id == object.id));
    let mut objects: Vec<&Object> =
        asked.filter(|object| is_first_touched_by_one(object, is_exact(findings))).collect();
    let counted = is_exact(findings);
    let share = |object: &Object| finite(if counted { object.accesses.share } else { object.cost.share });
    objects.sort_by(|a, b| share(b).total_cmp(&share(a)));
    let first = objects.first()?;
    Some(Warning::FirstTouchedByOne {
        thread: first_touch_shares(first)[0].0,
        cost: objects.iter().map(|object| share(object)).sum(),
        counted,
        blocks: first.pattern.kind.starts_with("block"),
        nodes: findings.run.nodes,
        objects: objects.iter().map(|object| object.name.clone()).collect(),
    })
}

fn is_first_touched_by_one(object: &Object, counted: bool) -> bool {
    let Some(&(toucher, part)) = first_touch_shares(object).first() else { return false };
    let part_of =
        |share: &numamma_findings::ThreadShare| finite(if counted { share.access_share } else { share.cost_share });
    let own: f64 = object.threads.iter().filter(|share| share.thread == toucher).map(part_of).sum();
    let on_nodes: u64 = object.nodes.values().sum();
    let fullest = object.nodes.values().max().copied().unwrap_or(0);
    let spread = on_nodes > 0 && (fullest as f64) < 0.75 * on_nodes as f64;
    finite(if counted { object.accesses.share } else { object.cost.share }) >= 0.05
        && object.pages > 1
        && part >= 0.9
        && own < 0.75
        && object.threads.len() > 1
        && !spread
}

fn untracked(findings: &Findings) -> Option<Warning> {
    if !findings.run.heap_tracked {
        let whole = |object: &&Object| object.kind == "mmap" && object.site.is_none() && object.name.starts_with('[');
        let objects: Vec<&Object> = findings.objects.iter().filter(whole).collect();
        let share = |object: &&Object| finite(object.cost.share.max(object.accesses.share));
        let cost = objects.iter().map(share).sum();
        let objects = objects.iter().map(|object| object.name.clone()).collect();
        return (cost >= 0.05).then_some(Warning::HeapOff { objects, cost });
    }
    let sanitizer = findings.losses.iter().any(|loss| loss.kind == "sanitizer");
    let missing: Vec<_> = findings.processes.iter().filter(|process| !process.tracked && process.samples > 0).collect();
    let samples: u64 = missing.iter().map(|process| process.samples).sum();
    let share = samples as f64 / findings.samples.recorded.max(1) as f64;
    let mut commands: Vec<String> = missing.iter().map(|process| process.command.clone()).collect();
    commands.dedup();
    (share >= 0.001).then_some(Warning::Untracked { commands, samples: share, sanitizer })
}

fn attribution(findings: &Findings) -> Option<Warning> {
    let share = findings.samples.attributed as f64 / data_samples(findings).max(1) as f64;
    let reasons = findings.samples.unattributed.iter().filter(|(name, _)| !WITHOUT_ACCESS.contains(&name.as_str()));
    let (reason, _) = reasons.max_by_key(|(_, count)| **count)?;
    (data_samples(findings) > 0 && share < 0.9)
        .then(|| Warning::LittleAttributed { share, reason: reason.replace('_', " ") })
}

fn rest(findings: &Findings) -> Option<Warning> {
    let overhead = finite(findings.sampler.overhead_estimate);
    if overhead > 0.05 {
        return Some(Warning::Slow { overhead });
    }
    (findings.run.exit.is_none() && findings.sampler.kind != "import").then_some(Warning::Unfinished)
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSamples { wall_s, rate_hz } => {
                write!(f, "no data access was sampled in {}: ", units::seconds(*wall_s))?;
                f.write_str(&longer(*rate_hz))
            }
            Self::EmptyPart { part } => write!(f, "no data access was sampled {part}"),
            Self::FewSamples { samples, rate_hz, error } => {
                write!(f, "only {}", units::plural(*samples, "data sample"))?;
                if let Some(error) = error {
                    write!(f, ", so the first share is good to {:.1} points", error * 100.0)?;
                }
                write!(f, ": {}", longer(*rate_hz))
            }
            Self::FirstTouchedByOne { objects, thread, cost, counted, blocks, nodes } => {
                write!(f, "{} ", list(objects))?;
                f.write_str(if objects.len() == 1 { "is" } else { "are" })?;
                write!(
                    f,
                    " first touched by T{thread} but used by other threads ({} of the {}): ",
                    units::percent(*cost),
                    if *counted { "accesses" } else { "cost" }
                )?;
                f.write_str(if *nodes > 1 {
                    "all pages lie on its node"
                } else {
                    "on a NUMA machine all pages lie on its node"
                })?;
                f.write_str("; ")?;
                f.write_str(if *blocks {
                    "let each thread initialise the part it uses"
                } else {
                    "interleave, or initialise in the threads that use it"
                })
            }
            Self::Untracked { commands, samples, sanitizer } => {
                write!(
                    f,
                    "heap objects of {} are unknown ({} of the samples): ",
                    list(commands),
                    units::percent(*samples)
                )?;
                f.write_str(if *sanitizer {
                    "a sanitizer must load its own allocator first"
                } else {
                    "the recording library was not loaded there (static or set-user-id program?)"
                })
            }
            Self::HeapOff { objects, cost } => {
                let stand = if objects.len() == 1 { "stands" } else { "stand" };
                write!(
                    f,
                    "{} {stand} for all objects of the heap ({} of the cost): ",
                    list(objects),
                    units::percent(*cost)
                )?;
                f.write_str("record without --no-heap to tell them apart")
            }
            Self::LittleAttributed { share, reason } => {
                write!(f, "only {} of the data accesses belong to a known object; ", units::percent(*share))?;
                write!(f, "main reason: {reason}")
            }
            Self::Slow { overhead } => {
                write!(
                    f,
                    "sampling took about {} of the run time: lower --rate or --overhead",
                    units::percent(*overhead)
                )
            }
            Self::Unfinished => f.write_str("the recording ended before the program: what came later is not in it"),
        }
    }
}

/// The part of the run that was sampled, from the narrowest bound, and how to ask for another.
fn part(findings: &Findings) -> String {
    let controls = &findings.sampler.controls;
    let wanted: Vec<String> = controls.objects.iter().chain(&controls.ranges).cloned().collect();
    if !wanted.is_empty() {
        let elsewhere = match controls.left_out {
            0 => String::new(),
            n => format!(", {} elsewhere", units::grouped(n)),
        };
        return format!("at {}{elsewhere}: record without --object and --range to see what there is", list(&wanted));
    }
    if !controls.functions.is_empty() {
        return format!(
            "inside {}: no thread was in there when one was taken; name a function that calls it",
            list(&controls.functions)
        );
    }
    if controls.marked {
        return "where the program marks its run (--marked): mark more of it".to_owned();
    }
    let until = controls.for_s.map_or(String::new(), |time| format!(" for {}", units::seconds(finite(time))));
    format!(
        "from {} on{until}, of {}: choose another --after and --for",
        units::seconds(finite(controls.after_s)),
        units::seconds(finite(findings.run.wall_s))
    )
}

/// How to get more samples.
fn longer(rate_hz: f64) -> String {
    if rate_hz > 0.0 {
        format!("raise --rate (now {} Hz) or run longer", units::grouped(rate_hz.round() as u64))
    } else {
        "record a longer part of the run".to_string()
    }
}

/// The first names of a list and how many more there are.
fn list(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(3).map(|name| crate::text::short_name(name)).collect();
    match names.len() {
        0 | 1 => shown.concat(),
        2 | 3 => format!("{} and {}", shown[..shown.len() - 1].join(", "), shown[shown.len() - 1]),
        n => format!("{} and {} more", shown.join(", "), n - 3),
    }
}
