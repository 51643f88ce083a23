//! Warnings to read before acting on a report.

use std::fmt;

use numamma_findings::{Findings, Object, WITHOUT_ACCESS};

use crate::rows::{attributes, finite, is_exact};
use crate::text::units;

/// Fewer samples than this say little beyond the first object.
const FEW: u64 = 1000;
/// Fewer than this say nothing of other objects, however certain the first share is.
const VERY_FEW: u64 = 100;
/// Objects with less of the cost get no advice unless they are asked for.
const COSTLY: f64 = 0.05;
/// Objects that get advice in a report of all.
const ADVISED: usize = 3;

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
    /// An object that lies where one thread touched it first, and that others use.
    Misplaced {
        /// Its name.
        object: String,
        /// Share of the cost of the run that it has.
        cost: f64,
        /// True if that is a share of the accesses: they were counted, and there is no cost.
        counted: bool,
        /// The remedy, in a sentence.
        advice: String,
    },
    /// Processes whose allocations were not seen.
    Untracked {
        /// Their executables.
        commands: Vec<String>,
        /// Share of all samples that they have.
        samples: f64,
        /// True if that is for a sanitizer.
        sanitizer: bool,
    },
    /// Allocations were not to be seen.
    HeapOff {
        /// Name for the objects that cannot be told apart.
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
    /// Cache lines that several threads use.
    LinesShared {
        /// The object's name.
        object: String,
        /// Share of the cost of the run that these lines have.
        cost: f64,
        /// The remedy, in a sentence.
        text: String,
    },
    /// Recording took more of the run than a report should cost.
    Slow {
        /// Share of the threads' time.
        overhead: f64,
    },
    /// Most of that was to follow allocations.
    HooksSlow {
        /// Share of the threads' time.
        hooks: f64,
        /// Allocations.
        allocations: u64,
    },
    /// The recording ended before the program.
    Unfinished,
    /// The recorder was killed before it had written samples.
    NothingWritten,
    /// Tables that could not be read.
    Missing {
        /// Facts that cannot be shown without them.
        unknown: Vec<String>,
    },
}

/// Warnings that follow from `findings`, most important first.
pub fn warnings(findings: &Findings) -> Vec<Warning> {
    let mut found: Vec<Warning> = missing(findings).into_iter().collect();
    if !attributes(findings) {
        return found;
    }
    found.extend(samples(findings));
    found.extend(findings.objects.iter().filter_map(line_sharing));
    found.extend(misplaced(findings));
    found.extend([untracked(findings), attribution(findings), rest(findings)].into_iter().flatten());
    found
}

fn missing(findings: &Findings) -> Option<Warning> {
    let unknown = findings.missing.iter().map(|of| of.unknown.clone()).collect();
    (!findings.missing.is_empty()).then_some(Warning::Missing { unknown })
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
    // More samples a second would not have been kept either.
    if is_unfinished(findings) {
        return (samples == 0).then_some(Warning::NothingWritten);
    }
    if samples == 0 {
        return Some(Warning::NoSamples { wall_s: finite(findings.run.wall_s), rate_hz });
    }
    let error = findings.objects.first().and_then(|object| object.cost.error).filter(|error| error.is_finite());
    // Where it is known how far a share may be off, that decides.
    let few = samples < VERY_FEW || settable && error.map_or(samples < FEW, |error| error > 0.05);
    few.then_some(Warning::FewSamples { samples, rate_hz, error })
}

/// Advice about costly objects, most costly first.
fn misplaced(findings: &Findings) -> Vec<Warning> {
    let share = |object: &Object| finite(if is_exact(findings) { object.accesses.share } else { object.cost.share });
    let mut objects: Vec<&Object> = findings.objects.iter().filter(|object| share(object) >= COSTLY).collect();
    objects.sort_by(|a, b| share(b).total_cmp(&share(a)));
    objects.into_iter().filter_map(|object| advice(findings, object)).take(ADVISED).collect()
}

/// The cache lines of an object that several threads use, if they cost much.
pub fn line_sharing(object: &Object) -> Option<Warning> {
    let of = object.line_sharing.as_ref()?;
    Some(Warning::LinesShared { object: object.name.clone(), cost: finite(of.cost_share), text: of.text.clone() })
}

/// True if the recording ended before the program.
fn is_unfinished(findings: &Findings) -> bool {
    findings.run.exit.is_none() && findings.sampler.kind != "import"
}

/// The advice about an object, if there is any.
pub fn advice(findings: &Findings, object: &Object) -> Option<Warning> {
    let counted = is_exact(findings);
    Some(Warning::Misplaced {
        object: object.name.clone(),
        cost: finite(if counted { object.accesses.share } else { object.cost.share }),
        counted,
        advice: object.advice.as_ref()?.text.clone(),
    })
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
    let hooks = findings.sampler.overhead.map_or(0.0, |of| finite(of.hooks_s) / finite(of.thread_s).max(1e-9));
    if overhead > 0.05 && findings.run.heap_tracked && hooks > 0.5 * overhead {
        let allocations = findings.sites.iter().map(|site| site.count).sum();
        return Some(Warning::HooksSlow { hooks, allocations });
    }
    if overhead > 0.05 {
        return Some(Warning::Slow { overhead });
    }
    (is_unfinished(findings) && data_samples(findings) > 0).then_some(Warning::Unfinished)
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
            Self::Misplaced { object, cost, counted, advice } => {
                let what = if *counted { "accesses" } else { "cost" };
                write!(f, "{} ({} of the {what}): {advice}", crate::text::short_name(object), units::percent(*cost))
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
            Self::LinesShared { object, cost, text } => {
                write!(f, "{} ({} of the cost): {text}", crate::text::short_name(object), units::percent(*cost))
            }
            Self::HooksSlow { hooks, allocations } => {
                let followed = match allocations {
                    0 => "allocations".to_string(),
                    &n => format!("{} allocations", units::count(n as f64)),
                };
                write!(f, "following {followed} took {} of the threads' time: ", units::percent(*hooks))?;
                f.write_str("record without it (--no-heap) for costs that are nearer to those of the program alone")
            }
            Self::NothingWritten => {
                f.write_str("the recorder was killed before it had written samples: record again, and let it finish")
            }
            Self::Missing { unknown } => write!(
                f,
                "files of the recording are missing or damaged, so {} cannot be shown: record again",
                unknown.join("; ")
            ),
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
