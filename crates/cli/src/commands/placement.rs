//! The section of `numamma html` about placement.

use numamma_analyze::Analysis;
use numamma_findings::{Commands, LoadedLatency, MachinePicture, PlacementAdvice, PlacementPage};
use numamma_report::{Format, shell_word};
use numamma_topology::{Contention, MachineModel, machines};

use crate::arguments::{Html, Question};
use crate::commands::question::Subject;
use crate::failure::Failure;

/// Advice with the defaults of `numamma plan` and `numamma predict`, or why there is none: a report is a report without it.
///
/// # Errors
/// If the machine that was asked for cannot be had.
pub fn page(analysis: &Analysis<'_>, arguments: &Html) -> Result<PlacementPage, Failure> {
    if let Some(name) = &arguments.machine {
        machines::load(name)?;
    }
    Ok(advice(analysis, arguments).map_or_else(|failure| PlacementPage::missing(failure.message()), PlacementPage::new))
}

fn advice(analysis: &Analysis<'_>, arguments: &Html) -> Result<PlacementAdvice, Failure> {
    let subject = Subject::of(analysis, &question(arguments))?;
    let advice = subject.plan()?;
    Ok(PlacementAdvice {
        predictions: subject.predict(Some(advice.plan))?,
        plan: advice.findings,
        machine: picture(&subject.machine),
        map: advice.map,
        commands: commands(arguments, &analysis.findings().run.command),
    })
}

fn question(arguments: &Html) -> Question {
    Question {
        dir: arguments.dir.clone(),
        machine: arguments.machine.clone(),
        recorded: None,
        threads: arguments.threads,
        pin: None,
        huge: false,
        calibrate: Vec::new(),
        format: Format::Json,
    }
}

fn picture(machine: &MachineModel) -> MachinePicture {
    let point = |point: &Contention| LoadedLatency { cpus: point.cpus, latency_ns: point.latency_ns };
    MachinePicture {
        name: machine.name.clone(),
        source: machine.source.clone(),
        cpus: machine.nodes.iter().map(|node| node.cpus).collect(),
        latency_ns: machine.latency_ns.clone(),
        bandwidth_gbs: machine.bandwidth_gbs.clone(),
        contention: machine.contention.iter().map(point).collect(),
    }
}

fn commands(arguments: &Html, program: &[String]) -> Commands {
    let recording = shell_word(&arguments.dir.to_string_lossy());
    let machine = arguments.machine.iter().map(|name| format!(" --machine {}", shell_word(name)));
    let threads = arguments.threads.iter().map(|threads| format!(" --threads {threads}"));
    let options: String = machine.chain(threads).collect();
    let program: Vec<String> = program.iter().map(|word| shell_word(word)).collect();
    Commands {
        plan: format!("numamma plan {recording}{options} -o plan.toml"),
        apply: format!("numamma apply plan.toml --record after.numamma -- {}", program.join(" ")),
        compare: format!("numamma compare {recording} after.numamma --plan plan.toml"),
        explain: format!("numamma plan {recording}{options} --explain "),
    }
}
