//! The command line.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use numamma_report::{Access, By, Format, Sort};
use numamma_topology::CacheModel;

use crate::failure::OWN_FAILURE;

#[derive(Parser)]
#[command(
    name = "numamma",
    version,
    about = "Finds where a program's memory and threads should live on a NUMA machine",
    after_help = "Start with:  numamma record -- ./program    then:  numamma report program.numamma"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run a program and record which memory its threads touch
    Record(Box<Record>),
    /// Show what a recording found
    Report(Report),
    /// Show what differs between two recordings of one program
    Compare(Compare),
    /// Run a program with its memory and threads where a plan, or one policy, puts them
    Apply(Box<Apply>),
    /// Run a program under several policies in turn and compare the times
    Try(Try),
    /// Say where a recorded program's memory and threads should live on a machine, as a plan with reasons
    Plan(Box<Plan>),
    /// Say how long a recorded program would take on a machine, its memory placed in several ways
    Predict(Box<Predict>),
    /// Write a recording's report as one HTML file that opens offline
    Html(Html),
    /// Say what this machine offers to the recorder, and how to enable more
    Doctor(Doctor),
    /// Show a machine's nodes, caches, latencies and bandwidths; measure those of this one
    Machine(Machine),
}

#[derive(Args)]
pub struct Record {
    /// Directory of the recording [default: ./PROGRAM.numamma, numbered if taken]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace the recording that is in the output directory
    #[arg(long)]
    pub force: bool,
    /// How to sample: clock is what auto takes; exact counts every access in an emulator
    #[arg(long, value_name = "KIND", default_value = "auto", value_parser = samplers())]
    pub sampler: String,
    /// Samples per second of thread time [default: from --overhead]
    #[arg(long, value_name = "HZ", value_parser = positive, allow_negative_numbers = true)]
    pub rate: Option<f64>,
    /// Nanoseconds of thread time between two samples, instead of a rate
    #[arg(long, value_name = "N", conflicts_with = "rate", value_parser = positive, allow_negative_numbers = true)]
    pub period: Option<f64>,
    /// Record only samples of this access
    #[arg(long, value_name = "ACCESS", value_parser = ["read", "write"])]
    pub only: Option<String>,
    /// Record only accesses that took at least so many cycles (hardware samplers, which this version does not have)
    #[arg(long, value_name = "CYCLES", hide = true)]
    pub min_latency: Option<u32>,
    /// Percent of the program's time that sampling may cost
    #[arg(long, value_name = "PCT", default_value = "2", value_parser = percent, allow_negative_numbers = true)]
    pub overhead: f64,
    /// Sample from then on only, in time from the start: 10, 2.5s, 500ms, 2m; allocations are known from the start in any case
    #[arg(long, value_name = "SECONDS", value_parser = duration, allow_negative_numbers = true)]
    pub after: Option<Duration>,
    /// Sample for so long only; the program goes on to its end
    #[arg(long = "for", value_name = "SECONDS", value_parser = positive_duration, allow_negative_numbers = true)]
    pub lasting: Option<Duration>,
    /// Sample only between numamma_begin() and numamma_end() of the program (numamma.h)
    #[arg(long)]
    pub marked: bool,
    /// Sample only while the thread is inside this function, FUNCTION or FILE:FUNCTION; repeatable; needs root or CAP_PERFMON
    #[arg(long = "in", value_name = "FUNCTION", value_parser = NonEmptyStringValueParser::new())]
    pub functions: Vec<String>,
    /// Keep only accesses to objects of this name, of this variable or allocated by this function; repeatable
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub object: Vec<String>,
    /// Keep only accesses to these addresses, in hexadecimal, both included; repeatable
    #[arg(long, value_name = "LOW-HIGH", value_parser = range)]
    pub range: Vec<RangeInclusive<u64>>,
    /// Most samples of the recording: beyond it every second one goes, again and again, and the others count double
    #[arg(long, value_name = "N", default_value = "50000000", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_samples: u64,
    /// A function that allocates for others, as xmalloc does: objects are told by its callers; repeatable
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub wrapper: Vec<String>,
    /// Also trace short windows of execution, to estimate access counts in code that is not a simple counted loop: stops a thread
    /// for PCT percent of the time [default: 3]
    #[arg(long = "windows", alias = "bursts", value_name = "PCT", num_args = 0..=1, require_equals = true, default_missing_value = "3", value_parser = percent)]
    pub trace_windows: Option<f64>,
    /// With --sampler exact: also write down the accesses one by one, N of them from the start or --after on, until --for ends
    /// [default: 1000000]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1000000", value_parser = clap::value_parser!(u64).range(1..))]
    pub trace: Option<u64>,
    /// With --sampler exact: also count the accesses that reach memory, by a model of caches: auto is those of this machine; else
    /// l1=32K:8,l2=1M:16,llc=32M:16[,line=64][,prefetch=next|stride|none][,sockets=N], each a size and its ways; l1 and l2 may be left out
    #[arg(long, value_name = "SPEC", value_parser = caches)]
    pub caches: Option<CacheModel>,
    /// Do not track allocations: nothing is loaded into the program
    #[arg(long)]
    pub no_heap: bool,
    /// Say nothing but failures
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Args)]
pub struct Report {
    /// Directory of the recording
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// One row for each of these
    #[arg(long, default_value = "object", value_parser = PossibleValuesParser::new(By::NAMES).try_map(|s| s.parse::<By>()))]
    pub by: By,
    /// Number that the rows are sorted by
    #[arg(long, default_value = "cost", value_parser = PossibleValuesParser::new(Sort::NAMES).try_map(|s| s.parse::<Sort>()))]
    pub sort: Sort,
    /// Which accesses count
    #[arg(long, default_value = "all", value_parser = PossibleValuesParser::new(Access::NAMES).try_map(|s| s.parse::<Access>()))]
    pub access: Access,
    /// One object in detail: its name, a part of it or of its call site, or #NUMBER
    #[arg(long, value_name = "NAME")]
    pub object: Option<String>,
    /// With --object: one of its instances, by its number in the list of instances
    #[arg(long, value_name = "N", requires = "object")]
    pub instance: Option<u32>,
    /// Rows to show, 0 for all [default: 20 in text, all elsewhere]
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Form of the report
    #[arg(long, default_value = "text", value_parser = PossibleValuesParser::new(Format::NAMES).try_map(|s| s.parse::<Format>()))]
    pub format: Format,
}

#[derive(Args)]
pub struct Compare {
    /// Directories of two recordings, A and B; a positive difference means that B has more. Before `--`: those of A alone
    #[arg(value_names = ["A", "B"], num_args = 1.., required = true)]
    recordings: Vec<PathBuf>,
    /// After `--`: directories of the recordings of B, where there are several of one; errors hold the spread between runs
    #[arg(value_name = "B", last = true)]
    more: Vec<PathBuf>,
    /// Recording that owners of pages are measured by; fuller is the one with more samples
    #[arg(long, value_name = "WHICH", default_value = "fuller", value_parser = ["fuller", "a", "b"])]
    pub reference: String,
    /// The plan that B ran under: what it promised, and what was reached
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Rows of each table, 0 for all [default: 20]
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Form of the comparison
    #[arg(long, default_value = "text", value_parser = PossibleValuesParser::new(["text", "json"]).try_map(|s| s.parse::<Format>()))]
    pub format: Format,
}

impl Compare {
    /// The recordings of each side; `None` if it is not clear which those are.
    pub fn sides(&self) -> Option<(&[PathBuf], &[PathBuf])> {
        match (self.recordings.len(), self.more.is_empty()) {
            (2, true) => Some(self.recordings.split_at(1)),
            (_, true) => None,
            (_, false) => Some((&self.recordings, &self.more)),
        }
    }
}

#[derive(Args)]
pub struct Apply {
    /// The plan, a TOML file
    #[arg(value_name = "PLAN", required_unless_present = "policy")]
    pub plan: Option<PathBuf>,
    /// One policy for all large objects instead of a plan: first-touch, interleave, weighted, block, block-cyclic=SIZE, bind=NODES, preferred=NODES
    #[arg(long, value_name = "POLICY", conflicts_with = "plan")]
    pub policy: Option<String>,
    /// With --policy: objects smaller than this stay as they are
    #[arg(long, value_name = "SIZE", default_value = "64 KiB", value_parser = size)]
    pub min_size: u64,
    /// Where threads run, whatever the plan says: compact, scatter, or the CPUs of each thread: 0,1,4-7
    #[arg(long, value_name = "WAY")]
    pub pin: Option<String>,
    /// End the program if a policy cannot be had, whatever the plan says
    #[arg(long)]
    pub strict: bool,
    /// Record the program meanwhile
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Replace the recording that is in the directory of --record
    #[arg(long, requires = "record")]
    pub force: bool,
    /// Write what became of the plan to a file, as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Say nothing about it
    #[arg(short, long)]
    pub quiet: bool,
    /// Check the plan against the program and print the same for OpenMP, numactl and C; nothing runs
    #[arg(long)]
    pub show: bool,
    /// With --show: for another machine, of which this folder has a copy of /proc and /sys
    #[arg(long, value_name = "DIR", requires = "show")]
    pub machine: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Args)]
pub struct Try {
    /// Directory for the results, and on a machine of several nodes for a recording under each policy
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// A way to place memory, tried beside the program as it is, repeatable: a policy as for `numamma apply --policy`, or a plan's file
    /// [default: interleave, block]
    #[arg(short, long = "policy", value_name = "POLICY")]
    pub policies: Vec<String>,
    /// Runs of each
    #[arg(short, long, value_name = "N", default_value = "6", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,
    /// Objects smaller than this stay as they are
    #[arg(long, value_name = "SIZE", default_value = "64 KiB", value_parser = size)]
    pub min_size: u64,
    /// Where threads run under the policies: compact, scatter, or the CPUs of each thread: 0,1,4-7
    #[arg(long, value_name = "WAY")]
    pub pin: Option<String>,
    /// Form of the table
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    pub format: String,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The run and the machine that a plan or a prediction is for.
#[derive(Args)]
pub struct Question {
    /// Directory of the recording
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Machine that is shipped (see docs/MACHINE.md), or a machine file [default: this one, as `numamma machine` knows it]
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: Option<String>,
    /// The machine of the recording, likewise [default: this one, if the run was recorded here and the machine was measured]
    #[arg(long, value_name = "NAME|FILE")]
    pub recorded: Option<String>,
    /// Number of threads, if another than recorded
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Where threads run: compact (node by node), scatter (from node to node) or as-recorded
    #[arg(long, value_name = "WAY", value_parser = ["compact", "scatter", "as-recorded"])]
    pub pin: Option<String>,
    /// Memory has pages of 2 MiB
    #[arg(long)]
    pub huge: bool,
    /// For recordings of counts: seconds that the program took on the machine under a placement, first-touch=81.2, or a recording
    /// of it there without a plan; repeatable
    #[arg(long, value_name = "PLACEMENT=SECONDS|DIR", value_parser = NonEmptyStringValueParser::new())]
    pub calibrate: Vec<String>,
    /// Form of the answer
    #[arg(long, default_value = "text", value_parser = PossibleValuesParser::new(["text", "json"]).try_map(|s| s.parse::<Format>()))]
    pub format: Format,
}

#[derive(Args)]
pub struct Plan {
    #[command(flatten)]
    pub question: Question,
    /// Write the plan to a file, for `numamma apply`
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file even if it is not a plan that `numamma plan` wrote
    #[arg(long)]
    pub force: bool,
    /// Show everything that was compared for one object
    #[arg(long, value_name = "OBJECT")]
    pub explain: Option<String>,
    /// Objects at most, 0 for all [default: 20]
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
}

#[derive(Args)]
pub struct Predict {
    #[command(flatten)]
    pub question: Question,
    /// A plan to predict beside the usual placements
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
}

#[derive(Args)]
pub struct Html {
    /// Directory of the recording
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// File to write, - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace the file even if it is not a page that `numamma html` wrote
    #[arg(long)]
    pub force: bool,
    /// Objects with pages and samples in the file, costliest first
    #[arg(long, value_name = "N", default_value = "40")]
    pub objects: usize,
    /// Machine that placement is advised for, as for `numamma plan` [default: this one]
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: Option<String>,
    /// Number of threads that placement is advised for, if another than recorded
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

#[derive(Args)]
pub struct Doctor {
    /// Form of the answer
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    pub format: String,
    /// Directory whose proc and sys are read instead of this machine's
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

#[derive(Args)]
pub struct Machine {
    /// Directory whose proc and sys are read instead of this machine's
    #[arg(long, value_name = "DIR", conflicts_with_all = ["hwloc", "machine", "measure"])]
    pub root: Option<PathBuf>,
    /// File of hwloc (lstopo FILE.xml) that is read instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["machine", "measure"])]
    pub hwloc: Option<PathBuf>,
    /// Machine that is shipped (see docs/MACHINE.md), or a machine file, instead of this one
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "measure")]
    pub machine: Option<String>,
    /// Measure latencies, bandwidths, contention and caches, and keep the result: quick takes about 10 s, full minutes
    #[arg(long, value_name = "EFFORT", num_args = 0..=1, require_equals = true, default_missing_value = "quick", value_parser = ["quick", "full"])]
    pub measure: Option<String>,
    /// Form of the answer: toml is a machine file, hwloc an XML file of hwloc 2
    #[arg(long, default_value = "text", value_parser = ["text", "toml", "hwloc", "json"])]
    pub format: String,
    /// File to write instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Parses the command line; on anything else than a command to run, says what is to be said and gives the exit status.
pub fn parse() -> Result<Command, ExitCode> {
    match Arguments::try_parse() {
        Ok(arguments) => Ok(arguments.command),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let _ = error.print();
            Err(ExitCode::SUCCESS)
        }
        Err(error) => {
            eprintln!("numamma: {}", one_line(&error));
            Err(ExitCode::from(OWN_FAILURE))
        }
    }
}

/// clap's message, which has a paragraph for everything, in one line.
fn one_line(error: &clap::Error) -> String {
    if matches!(error.kind(), ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand) {
        return "no command given; try `numamma record -- ./program`, or `numamma --help`".into();
    }
    let text = error.to_string();
    let mut parts: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with("Usage:") || line.starts_with("For more information") {
            continue;
        }
        parts.push(line.trim_start_matches("error: "));
    }
    let lacks = |what: &str| {
        let missing = error.get(clap::error::ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
        error.kind() == ErrorKind::MissingRequiredArgument && missing.contains(what)
    };
    let unknown = error.get(clap::error::ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    if error.kind() == ErrorKind::UnknownArgument && ["-p", "--pid", "--attach"].contains(&unknown.as_str()) {
        return format!(
            "{unknown}: a process that runs already cannot be recorded, for its allocations are past; start it with `numamma record -- COMMAND`, \
             where --after SECONDS leaves out its beginning"
        );
    }
    if lacks("<PLAN>") {
        return "apply what? try `numamma apply plan.toml -- ./program`, or `numamma apply --policy interleave -- ./program`".into();
    }
    if lacks("<COMMAND>") {
        let example = match std::env::args().nth(1).as_deref() {
            Some("apply") => "apply --policy interleave",
            Some("try") => "try DIR",
            _ => "record",
        };
        return format!("no program given; try `numamma {example} -- ./program`");
    }
    format!("{}; see `numamma --help`", parts.join(" "))
}

/// Those of other versions are known, and refused with a word of their own.
fn samplers() -> PossibleValuesParser {
    let other = ["pebs", "ibs", "spe"].map(|name| PossibleValue::new(name).hide(true));
    PossibleValuesParser::new(["auto", "clock", "exact"].map(PossibleValue::new).into_iter().chain(other))
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err("must be a number above 0".into()),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 100.0 => Ok(value),
        _ => Err("must be above 0 and at most 100".into()),
    }
}

fn size(text: &str) -> Result<u64, String> {
    numamma_plan::parse_size(text).ok_or_else(|| "must be a size such as 65536 or \"64 KiB\"".into())
}

/// `10`, `2.5s`, `500ms` or `2m`.
fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0)];
    let number = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)));
    let (number, unit) = number.unwrap_or((text, 1.0));
    let seconds = number.parse::<f64>().ok().map(|value| value * unit).filter(|value| *value >= 0.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "must be a time such as 10, 2.5s, 500ms or 2m".into())
}

fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time.is_zero() => Err("must be above 0".into()),
        time => Ok(time),
    }
}

fn caches(text: &str) -> Result<CacheModel, String> {
    CacheModel::parse(text, || numamma_topology::Machine::read(Path::new("/")))
}

/// `LOW-HIGH`, hexadecimal, with or without `0x`.
fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let address = |text: &str| {
        let digits = text.trim();
        let digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")).unwrap_or(digits);
        // from_str_radix takes a sign.
        u64::from_str_radix(digits, 16).ok().filter(|_| digits.starts_with(|c: char| c.is_ascii_hexdigit()))
    };
    let bounds = text.split_once('-').and_then(|(low, high)| Some((address(low)?, address(high)?)));
    match bounds {
        Some((low, high)) if low <= high => Ok(low..=high),
        Some(_) => Err("the second address is below the first".into()),
        None => Err("must be two hexadecimal addresses such as 0x7f0000000000-0x7f00000fffff".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, milliseconds) in [("10", 10_000), ("2.5s", 2500), ("500ms", 500), ("2m", 120_000), ("0", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "s", "ms", "-1", "soon", "1h", "nan", "inf", "1e300"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(positive_duration("0s").is_err());
    }

    #[test]
    fn predictions_of_whole_policies_know_the_least_size() {
        for command in
            [&["numamma", "apply", "--policy", "interleave", "--", "x"][..], &["numamma", "try", "dir", "--", "x"]]
        {
            let least = match Arguments::parse_from(command).command {
                Command::Apply(apply) => apply.min_size,
                Command::Try(tried) => tried.min_size,
                _ => unreachable!(),
            };
            assert_eq!(least, numamma_plan::WHOLE_LEAST_BYTES, "{command:?}");
        }
    }

    #[test]
    fn addresses_are_hexadecimal() {
        assert_eq!(range("0x1000-0x1fff"), Ok(0x1000..=0x1fff));
        assert_eq!(range("7F00-7f00"), Ok(0x7f00..=0x7f00));
        for text in ["", "1000", "0x2000-0x1000", "-", "x-y", "+1-+2", "1--2", "0x-0x"] {
            assert!(range(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
