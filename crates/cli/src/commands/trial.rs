//! `numamma try`

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use numamma_analyze::Analysis;
use numamma_apply::{Candidate, Placement, Tried, try_all};
use numamma_findings::Object;
use numamma_plan::Plan;
use numamma_process::Ended;
use numamma_record::record;
use numamma_trace::Dataset;

use super::apply::{pin, recording};
use crate::arguments::Try;
use crate::failure::{Failure, OWN_FAILURE};

/// The run that the others are compared with.
const AS_IS: &str = "as it is";

pub fn run(arguments: Try) -> Result<ExitCode, Failure> {
    let candidates = candidates(&arguments)?;
    if arguments.dir.exists() {
        return Err(Failure::new(format!("{}: is there already; name another directory", arguments.dir.display())));
    }
    // A plan that cannot be meant is found out before the first run.
    for plan in candidates.iter().filter_map(|candidate| candidate.plan.as_ref()) {
        Placement::prepare(plan, &arguments.command).map_err(|error| Failure::with_code(&error, error.exit_code()))?;
    }
    std::fs::create_dir_all(&arguments.dir)
        .map_err(|error| Failure::new(format!("{}: {error}", arguments.dir.display())))?;
    let (rounds, progress) = (arguments.rounds as usize, std::io::stderr().is_terminal());
    let (mut failed, mut done) = (None, 0_usize);
    let mut tried = try_all(&candidates, &arguments.command, rounds, |round, n, ended| {
        // A line of its own: whatever the program writes comes between.
        done += 1;
        if progress && done.is_multiple_of(candidates.len()) {
            eprintln!("numamma: {} of {rounds} rounds done", round + 1);
        }
        if ended != Ended::Code(0) && failed.is_none() {
            failed = Some((candidates[n].name.clone(), ended));
        }
    })
    .map_err(|error| Failure::with_code(&error, error.exit_code()))?;
    let nodes = numamma_topology::Machine::read(Path::new("/")).nodes.len();
    if nodes > 1 {
        for (candidate, tried) in candidates.iter().zip(&mut tried) {
            tried.remote = remote(candidate, &arguments)?;
        }
    }
    let json = serde_json::json!({ "version": 1, "nodes": nodes, "rounds": rounds, "candidates": tried });
    let file = arguments.dir.join("try.json");
    std::fs::write(&file, serde_json::to_string_pretty(&json)? + "\n")
        .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
    match arguments.format.as_str() {
        "json" => println!("{json:#}"),
        _ => print!("{}", table(&tried, nodes)),
    }
    if let Some((name, ended)) = failed {
        eprintln!(
            "numamma: the program did not succeed under \"{name}\" (status {}): its time may mean nothing",
            ended.status()
        );
        return Ok(ExitCode::from(OWN_FAILURE));
    }
    Ok(ExitCode::SUCCESS)
}

fn candidates(arguments: &Try) -> Result<Vec<Candidate>, Failure> {
    let mut candidates = vec![Candidate { name: AS_IS.into(), plan: None }];
    let usual = ["interleave".to_owned(), "block".to_owned()];
    let policies = if arguments.policies.is_empty() { &usual[..] } else { &arguments.policies };
    for policy in policies {
        let path = Path::new(policy);
        let mut plan = match Plan::whole(policy, arguments.min_size) {
            Ok(plan) => plan,
            Err(_) if path.is_file() => Plan::read(path)?,
            Err(error) => return Err(Failure::new(format!("--policy {error}, or a plan's file"))),
        };
        if let Some(way) = &arguments.pin {
            plan.pin = pin(way)?;
        }
        candidates.push(Candidate { name: policy.clone(), plan: Some(plan) });
    }
    Ok(candidates)
}

/// The part of the accesses that are remote, by a recording of one more run.
fn remote(candidate: &Candidate, arguments: &Try) -> Result<Option<f64>, Failure> {
    let name: String = candidate.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let dir = arguments.dir.join(name).with_extension("numamma");
    let under = |environment: Vec<(OsString, OsString)>| {
        record(&recording(&arguments.command, &dir, false, environment))
            .map_err(|error| Failure::with_code(&error, error.exit_code()))
    };
    match &candidate.plan {
        None => drop(under(Vec::new())?),
        Some(plan) => {
            let mut placement = Placement::prepare(plan, &arguments.command)
                .map_err(|error| Failure::with_code(&error, error.exit_code()))?;
            let watch = placement.watch();
            let recorded = under(placement.environment());
            placement.achieved(watch);
            drop(recorded?);
        }
    }
    let dataset = Dataset::open(&dir)?;
    let analysis = Analysis::new(&dataset)?;
    Ok(remote_share(&analysis.findings().objects))
}

/// The part of the time at data accesses that is remote, of objects of which the node of some page was seen; `None` if there are none.
fn remote_share(objects: &[Object]) -> Option<f64> {
    let known = || objects.iter().filter(|object| !object.nodes.is_empty());
    let all: f64 = known().map(|object| object.cost.seconds).sum();
    let remote: f64 = known().map(|object| object.cost.seconds * object.remote.share).sum();
    (all > 0.0).then(|| remote / all)
}

fn table(tried: &[Tried], nodes: usize) -> String {
    let width = tried.iter().map(|tried| tried.name.chars().count()).max().unwrap_or(0).max(6);
    let mut text = format!("{:width$}  {:>9}  {:>26}  {:>7}", "policy", "time", "of the time as it is", "placed");
    text += if nodes > 1 { "  remote\n" } else { "\n" };
    for one in tried {
        let ratio = one.ratio.map_or(String::new(), |r| format!("{:.3}  ({:.3} to {:.3})", r.median, r.low, r.high));
        let percent = |part: Option<f64>| part.map_or("-".into(), |part| format!("{:.1} %", part * 100.0));
        // Writing to a string cannot fail.
        let _ = write!(text, "{:width$}  {:>7.3} s  {ratio:>26}  {:>7}", one.name, one.median_s, percent(one.achieved));
        if nodes > 1 {
            let _ = write!(text, "  {:>6}", percent(one.remote));
        }
        text.push('\n');
    }
    let runs = tried.first().map_or(0, |one| one.seconds.len());
    let _ =
        writeln!(text, "Medians of {runs} runs, in turn; ratios of runs of the same round with their 95 % interval.");
    if runs < 6 {
        text += "The interval of fewer than 6 runs is less certain: it is all that was seen.\n";
    }
    if nodes == 1 {
        text += "This machine has one node: no policy can make a difference here.\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use numamma_findings::{Cost, Remote};

    use super::*;

    #[test]
    fn without_a_node_nothing_is_said_of_remote_accesses() {
        let cost = Cost { seconds: 2.0, ..Cost::default() };
        let unseen = Object { cost, ..Object::default() };
        assert_eq!(remote_share(&[]), None);
        assert_eq!(remote_share(std::slice::from_ref(&unseen)), None);
        let remote = Remote { reads: Some(30.0), writes: Some(0.0), share: 0.3, error: Some(0.0) };
        let seen = Object { cost, remote, nodes: [(1, 4)].into(), ..Object::default() };
        assert_eq!(remote_share(&[unseen, seen]), Some(0.3));
    }
}
