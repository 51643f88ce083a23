//! `numamma doctor`

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use numamma_record::{RecordError, try_events};
use numamma_topology::{Doctor, Machine, Probe, Refusal, TickCost, Trial, choose_sampler, render_doctor};

use crate::arguments;
use crate::commands::IMPLEMENTED;
use crate::failure::Failure;

/// The recorder's default budget.
const OVERHEAD: f64 = 0.02;

pub fn run(arguments: arguments::Doctor) -> Result<ExitCode, Failure> {
    let root = arguments.root.as_deref().unwrap_or(Path::new("/"));
    let (machine, mut probe) = (Machine::read(root), Probe::read(root));
    if arguments.root.is_none() {
        probe.trial = Some(tried(&machine, &probe));
    }
    let choice = choose_sampler(&probe, IMPLEMENTED);
    // Of a snapshot nothing can be measured.
    let measured = match arguments.root {
        Some(_) => None,
        None => numamma_record::measure_cost().ok().map(|ns| {
            let rate_hz = numamma_record::rate_for(OVERHEAD, ns, probe.max_sample_rate);
            TickCost { ns, rate_hz, overhead: ns * rate_hz / 1e9 }
        }),
    };
    let text = if arguments.format == "json" {
        serde_json::to_string_pretty(&Doctor::new(&machine, &probe, &choice, measured))? + "\n"
    } else {
        render_doctor(&machine, &probe, &choice, measured)
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// How a recording would go here.
fn tried(machine: &Machine, probe: &Probe) -> Trial {
    match try_events(machine, probe) {
        Ok(()) => Trial { opened: true, ..Trial::default() },
        Err(RecordError::NotPermitted(Refusal { reason, remedy })) => Trial { opened: false, reason, remedy },
        // It says itself what to do.
        Err(error) => Trial { opened: false, reason: error.to_string(), remedy: String::new() },
    }
}
