//! `numamma machine`

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use numamma_measure::{Effort, Measurement, measure, render_measurement};
use numamma_topology::picture::{self, Style};
use numamma_topology::{Machine, MachineModel, hwloc, machines};
use serde::Serialize;

use crate::arguments;
use crate::commands::terminal;
use crate::failure::Failure;

/// A machine from any source, and what is known of its latencies.
#[derive(Serialize)]
struct Subject {
    version: u32,
    machine: Machine,
    model: MachineModel,
    /// Why the model has no latencies.
    unknown: Option<String>,
    measurement: Option<Measurement>,
}

pub fn run(arguments: arguments::Machine) -> Result<ExitCode, Failure> {
    let subject = match (&arguments.hwloc, &arguments.machine, arguments.measure.as_deref()) {
        (Some(file), ..) => from_hwloc(file)?,
        (_, Some(name), _) => from_file(name)?,
        (.., Some(effort)) => measured(if effort == "full" { Effort::Full } else { Effort::Quick })?,
        _ => described(arguments.root.as_deref())?,
    };
    let text = match arguments.format.as_str() {
        "toml" => machines::to_toml(&subject.model),
        "hwloc" => hwloc::to_xml(&subject.machine, Some(&subject.model)),
        "json" => serde_json::to_string_pretty(&subject)? + "\n",
        _ => text(&subject, arguments.output.is_some()),
    };
    match &arguments.output {
        Some(file) => fs::write(file, text).map_err(|error| unwritable(file, &error))?,
        None => match io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
            _ => {}
        },
    }
    Ok(ExitCode::SUCCESS)
}

fn unwritable(file: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", file.display()))
}

impl Subject {
    fn new(machine: Machine, model: MachineModel, unknown: Option<String>) -> Self {
        Self { version: 1, machine, model, unknown, measurement: None }
    }
}

fn from_hwloc(file: &Path) -> Result<Subject, Failure> {
    let hwloc::Described { machine, model } = hwloc::read(file)?;
    Ok(match model {
        Some(model) => Subject::new(machine, model, None),
        None => by_firmware(machine),
    })
}

fn from_file(name: &str) -> Result<Subject, Failure> {
    let model = machines::load(name)?;
    let unknown = model.latency_ns.is_empty().then(|| "the machine file states none".to_owned());
    Ok(Subject::new(model.to_machine(), model, unknown))
}

/// This machine as it was measured, else as its firmware describes it; another root as its firmware does.
fn described(root: Option<&Path>) -> Result<Subject, Failure> {
    let machine = Machine::read(root.unwrap_or(Path::new("/")));
    if machine.nodes.is_empty() {
        let root = root.unwrap_or(Path::new("/")).display();
        return Err(Failure::new(format!("{root}: neither sys/devices/system/node nor proc/meminfo is there")));
    }
    let kept = if root.is_none() { machines::current(&machine)? } else { None };
    Ok(match kept {
        Some(model) => Subject::new(machine, model, None),
        None => by_firmware(machine),
    })
}

fn by_firmware(machine: Machine) -> Subject {
    match MachineModel::from_machine(&machine) {
        Ok(model) => Subject::new(machine, model, None),
        Err(error) => {
            let model = MachineModel::without_latencies(&machine);
            Subject::new(machine, model, Some(error.reason))
        }
    }
}

fn measured(effort: Effort) -> Result<Subject, Failure> {
    let machine = Machine::read(Path::new("/"));
    let bar = bar();
    let measurement = measure(&machine, effort, &mut |done, next| {
        bar.set_position((done * 1000.0) as u64);
        bar.set_message(next.to_owned());
    });
    bar.finish_and_clear();
    let measurement = measurement?;
    let mut subject = match measurement.model(&machine) {
        Ok(model) => {
            match keep(&machine, &model) {
                Ok(path) => eprintln!("numamma: kept in {}", path.display()),
                Err(why) => eprintln!("numamma: not kept: {why}"),
            }
            Subject::new(machine, model, None)
        }
        Err(error) => {
            eprintln!("numamma: not kept: {}", error.reason);
            let model = MachineModel::without_latencies(&machine);
            Subject::new(machine, model, Some(error.reason))
        }
    };
    subject.measurement = Some(measurement);
    Ok(subject)
}

fn keep(machine: &Machine, model: &MachineModel) -> Result<PathBuf, String> {
    let folder = machines::folder().ok_or("neither XDG_CACHE_HOME nor HOME is set")?;
    machines::keep(machine, model, &folder).map_err(|error| error.to_string())
}

/// On a terminal only.
fn bar() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(1000);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    bar
}

fn text(subject: &Subject, is_file: bool) -> String {
    let options = terminal::options();
    let style = Style { width: options.width.clamp(80, 120), unicode: options.unicode || is_file };
    let mut text = picture::machine(&subject.machine, style);
    text.push('\n');
    match (&subject.measurement, &subject.unknown) {
        (Some(measurement), _) => text.push_str(&render_measurement(measurement, style)),
        (None, Some(reason)) => picture::row(&mut text, style, "latency", &format!("not known: {reason}")),
        (None, None) => text.push_str(&picture::model(&subject.model, style)),
    }
    text
}
