//! The first lines of a report: what ran, how it was sampled, how much of it is understood.

use numamma_findings::{Findings, Overhead};

use super::{
    Page, lists,
    style::{Style, clean, shell_word, width},
    units,
};
use crate::{
    rows::{attributes, finite, is_exact, lacks},
    warnings::data_samples,
};

/// The first lines of a report.
pub fn render(findings: &Findings, page: &Page) -> String {
    let words: Vec<String> = findings.run.command.iter().map(|word| shell_word(word)).collect();
    let command = clean(&words.join(" "), page.pen.unicode);
    let mut out = String::new();
    let line = format!("NumaMMA  {command}");
    out += &page.pen.paint(Style::Bold, &cut(&line, page.width, page.pen.ellipsis()));
    out.push('\n');
    out += &page.labelled("  run", &run(findings, page));
    out += &page.labelled("  sampler", &sampler(findings, page));
    let label = if is_exact(findings) { "  accesses" } else { "  samples" };
    out += &page.labelled(label, &samples(findings));
    if let Some(waiting) = waiting(findings, page) {
        out += &page.labelled("  waiting", &waiting);
    }
    if let Some(trace_windows) = trace_windows(findings, page) {
        out += &page.labelled("  windows", &trace_windows);
    }
    if let Some(trace) = trace(findings, page) {
        out += &page.labelled("  trace", &trace);
    }
    if let Some(kept) = kept(findings, page) {
        out += &page.labelled("  kept", &kept);
    }
    out
}

fn run(findings: &Findings, page: &Page) -> String {
    let run = &findings.run;
    let exit = match run.exit {
        None => "exit unknown".to_string(),
        Some(code @ 129..=192) => format!("ended by signal {}", code - 128),
        Some(code) => format!("exit {code}"),
    };
    let mut parts = Vec::new();
    // A recorder that was killed may have noted neither.
    if finite(run.wall_s) > 1e-3 || run.exit.is_some() {
        parts.push(units::seconds(run.wall_s));
    }
    if run.threads > 0 {
        parts.push(units::plural(run.threads as u64, "thread"));
    }
    if findings.processes.len() > 1 {
        parts.push(units::plural(findings.processes.len() as u64, "process"));
    }
    parts.push(exit);
    let mut machine = Vec::new();
    if run.nodes > 0 {
        machine.push(units::plural(run.nodes as u64, "node"));
    }
    if run.cpus > 0 {
        machine.push(units::plural(run.cpus as u64, "CPU"));
    }
    let host = if run.host.is_empty() { "the machine" } else { run.host.as_str() };
    if !machine.is_empty() {
        parts.push(format!("{} ({})", clean(host, page.pen.unicode), machine.join(", ")));
    }
    parts.join(page.pen.dot())
}

fn sampler(findings: &Findings, page: &Page) -> String {
    let sampler = &findings.sampler;
    let mut parts =
        vec![if sampler.kind.is_empty() { "unknown".to_string() } else { clean(&sampler.kind, page.pen.unicode) }];
    let rate = finite(sampler.rate_hz).round() as u64;
    if rate > 0 {
        parts.push(format!("{} Hz per thread", units::grouped(rate)));
    } else if sampler.period > 1 {
        parts.push(format!("every {} events", units::grouped(sampler.period)));
    }
    if let Some(only) = &sampler.only {
        parts.push(format!("{}s only", clean(only, page.pen.unicode)));
    }
    if !findings.run.heap_tracked {
        parts.push("no allocations".to_string());
    }
    if is_exact(findings) {
        parts.push(match sampler.hooks {
            true => "counted by the program's own hooks".to_string(),
            false => "every access counted".to_string(),
        });
        if sampler.hooks {
            parts.push("code compiled without them is not".to_string());
        }
        if let Some(caches) = &sampler.caches {
            parts.push(format!("memory behind {}", clean(caches, page.pen.unicode)));
        }
        parts.push("no time is measured".to_string());
        return parts.join(page.pen.dot());
    }
    match finite(sampler.overhead_estimate) {
        overhead if overhead > 0.0 => {
            let by_part = sampler.overhead.map_or(String::new(), overhead_by_part);
            parts.push(format!("overhead about {}{by_part}", units::percent(overhead)));
        }
        _ => parts.push("overhead unknown".to_string()),
    }
    parts.join(page.pen.dot())
}

/// ` (ticks 1.9 %, hooks 0.1 %; recorder 120 ms of CPU)`
fn overhead_by_part(of: Overhead) -> String {
    let parts = [("ticks", of.ticks_s), ("stopped", of.held_s), ("hooks", of.hooks_s)];
    let parts = parts.map(|(name, seconds)| (name, finite(seconds) / finite(of.thread_s).max(1e-9)));
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(_, share)| *share >= 0.0005)
        .map(|(name, share)| format!("{name} {}", units::percent(share)))
        .collect();
    let recorder = format!("recorder {} of CPU", units::seconds(finite(of.recorder_s)));
    if parts.is_empty() { format!(" ({recorder})") } else { format!(" ({}; {recorder})", parts.join(", ")) }
}

/// Places of spin loops that are named.
const WAITING_PLACES: usize = 3;

/// Time in loops that wait for another thread: where, and which part of each thread's time.
fn waiting(findings: &Findings, page: &Page) -> Option<String> {
    let waiting = findings.waiting.as_ref()?;
    let mut parts =
        vec![format!("{} of thread time in loops that wait for another thread", units::percent(finite(waiting.share)))];
    parts.extend(waiting.places.iter().take(WAITING_PLACES).map(|of| {
        let is_known = !of.function.is_empty() || !of.file.is_empty();
        let place =
            if is_known { format!(" in {}", lists::place(&of.function, &of.file, of.line)) } else { String::new() };
        format!("T{} {}{}", of.thread, units::percent(finite(of.share)), clean(&place, page.pen.unicode))
    }));
    if let Some(rest @ [_, ..]) = waiting.places.get(WAITING_PLACES..) {
        parts.push(units::plural(rest.len() as u64, "more place"));
    }
    Some(parts.join(page.pen.dot()))
}

/// Moments for which threads were followed.
fn trace_windows(findings: &Findings, page: &Page) -> Option<String> {
    let trace_windows = findings.sampler.trace_windows?;
    if trace_windows.taken == 0 {
        return Some("none, the program was too short or threads may not be traced".to_owned());
    }
    let each = trace_windows.instructions / trace_windows.taken;
    let parts = [
        format!("{} of {} instructions", units::grouped(trace_windows.taken), units::grouped(each)),
        format!("threads stopped for {}", units::seconds(finite(trace_windows.stopped_s))),
    ];
    Some(parts.join(page.pen.dot()))
}

/// Accesses that are in the dataset one by one.
fn trace(findings: &Findings, page: &Page) -> Option<String> {
    let trace = findings.sampler.trace?;
    let from = finite(trace.after_s);
    let mut parts = vec![
        format!("{} accesses one by one, in trace.parquet", units::grouped(trace.accesses)),
        if from > 0.0 { format!("from {}", units::seconds(from)) } else { "from the start".to_owned() },
    ];
    parts.extend(trace.for_s.map(|time| format!("for {}", units::seconds(finite(time)))));
    if trace.used_up {
        parts.push("as many as were wanted".to_owned());
    }
    Some(parts.join(page.pen.dot()))
}

/// Which part of the run the numbers are of, if not of all of it.
fn kept(findings: &Findings, page: &Page) -> Option<String> {
    let controls = &findings.sampler.controls;
    let names = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| clean(name, page.pen.unicode)).collect();
        names.join(", ")
    };
    let mut parts = Vec::new();
    let from = (finite(controls.after_s) > 0.0).then(|| format!("from {}", units::seconds(controls.after_s)));
    let lasting = controls.for_s.map(|time| format!("for {}", units::seconds(finite(time))));
    match (from, lasting) {
        (None, None) => {}
        (from, lasting) => parts.push(from.into_iter().chain(lasting).collect::<Vec<_>>().join(" ") + " of the run"),
    }
    if controls.marked {
        parts.push("where the program says so".to_owned());
    }
    if !controls.functions.is_empty() {
        parts.push(format!("inside {}", names(&controls.functions)));
    }
    let wanted: Vec<String> = controls.objects.iter().chain(&controls.ranges).cloned().collect();
    if !wanted.is_empty() {
        let left_out = units::plural(controls.left_out, "sample");
        parts.push(format!("accesses to {} ({left_out} left out)", names(&wanted)));
    }
    if controls.thinned > 1 {
        parts.push(format!("thinned {}x", units::grouped(controls.thinned)));
    }
    (!parts.is_empty()).then(|| parts.join(page.pen.dot()))
}

fn samples(findings: &Findings) -> String {
    let samples = &findings.samples;
    if lacks(findings, "samples") {
        return "not known".to_string();
    }
    if !attributes(findings) {
        return format!("{} taken", units::grouped(samples.recorded));
    }
    let data = data_samples(findings);
    if samples.recorded == 0 {
        return "none".to_string();
    }
    let share = samples.attributed as f64 / data.max(1) as f64;
    if is_exact(findings) {
        return format!(
            "{} counted, {} attributed to {}",
            units::grouped(samples.recorded),
            units::percent(share),
            units::plural(findings.objects.len() as u64, "object"),
        );
    }
    format!(
        "{} taken, {} at data accesses, {} attributed to {}",
        units::grouped(samples.recorded),
        units::grouped(data),
        units::percent(share),
        units::plural(findings.objects.len() as u64, "object"),
    )
}

/// The begin of a line that is too long.
fn cut(line: &str, limit: usize, ellipsis: &str) -> String {
    if width(line) <= limit {
        return line.to_string();
    }
    let mut text = String::new();
    for c in line.chars() {
        text.push(c);
        if width(&text) + width(ellipsis) > limit {
            text.pop();
            break;
        }
    }
    text + ellipsis
}
