//! The text of `numamma doctor`.

use std::fmt::Write;

use serde::Serialize;

use crate::choose::{Choice, Kind, Sampler, State};
use crate::list;
use crate::machine::{Machine, Node};
use crate::probe::Probe;

/// Sentences longer than this continue on the next line.
const WIDTH: usize = 78;

/// What one sample costs on this machine, as measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TickCost {
    /// Nanoseconds that one sample takes from the program, the timer's tick included.
    pub ns: f64,
    /// The rate that a recording would use, in Hz.
    pub rate_hz: f64,
    /// The share of wall time that this rate takes.
    pub overhead: f64,
}

/// All of it, for `doctor --format json`.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Doctor<'a> {
    version: u32,
    machine: &'a Machine,
    probe: &'a Probe,
    choice: &'a Choice,
    measured: Option<TickCost>,
}

impl<'a> Doctor<'a> {
    /// Puts together what the doctor knows.
    pub fn new(machine: &'a Machine, probe: &'a Probe, choice: &'a Choice, measured: Option<TickCost>) -> Self {
        Self { version: 1, machine, probe, choice, measured }
    }
}

/// The same for people: ASCII, aligned, ends with a line feed.
pub fn render_doctor(machine: &Machine, probe: &Probe, choice: &Choice, measured: Option<TickCost>) -> String {
    let mut page = Page(String::new());
    page.title("Machine");
    page.row("processor", &processor(machine));
    page.row("system", &system(probe));
    page.row("memory", &memory(machine, probe));
    page.row("nodes", &nodes(machine));
    if machine.nodes.len() > 1 {
        page.table(&node_table(machine));
    }
    for (name, text) in restrictions(machine, probe) {
        page.row(name, &text);
    }
    page.title("Samplers");
    for &sampler in &choice.samplers {
        let used = sampler.kind == choice.kind;
        page.line(&format!("{} {:<6} {}", mark(used, sampler.state), sampler.kind, describe(sampler)));
    }
    let (mark, text) = exact(probe);
    page.line(&format!("{mark} exact  {text}"));
    page.row("permission", &permission(probe));
    page.row("functions", functions(probe));
    if let Some(cost) = measured {
        page.row("cost", &tick(cost));
    }
    page.title(&match choice.kind {
        Kind::None if probe.emulator && may_count(probe) => "Nothing can be sampled here".to_owned(),
        Kind::None => "Nothing can be recorded here".to_owned(),
        kind => format!("A recording would use: {kind}"),
    });
    for reason in &choice.why {
        page.sentence("- ", reason);
    }
    for advice in &choice.enable {
        page.title(&format!("To get {}", advice.gain));
        match advice.command.contains(' ') && advice.command.len() > WIDTH {
            // Words, no command to copy.
            true => page.sentence("  ", &advice.command),
            false => page.line(&format!("  {}", advice.command)),
        }
    }
    page.0
}

/// Text under construction: titles at the margin, everything else two columns in.
struct Page(String);

impl Page {
    fn title(&mut self, text: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.0, "{gap}{text}");
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.0, "  {}", text.trim_end());
    }

    fn row(&mut self, name: &str, text: &str) {
        self.sentence(&format!("{name:<11}"), text);
    }

    fn table(&mut self, rows: &[String]) {
        for row in rows {
            self.line(&format!("{:11}{row}", ""));
        }
    }

    /// Breaks `text` between words; later lines stand below its first word.
    fn sentence(&mut self, lead: &str, text: &str) {
        let mut line = lead.to_owned();
        for word in text.split_whitespace() {
            if line.len() > lead.len() && line.len() + 1 + word.len() > WIDTH {
                self.line(&line);
                line = " ".repeat(lead.len());
            }
            if line.len() > lead.len() {
                line.push(' ');
            }
            line.push_str(&ascii(word));
        }
        self.line(&line);
    }
}

/// Names come from firmware and may hold anything.
pub(crate) fn ascii(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect()
}

pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

pub(crate) fn bytes(bytes: u64) -> String {
    let units = [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|&(_, unit)| bytes >= unit) {
        Some((name, unit)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

pub(crate) fn processor(machine: &Machine) -> String {
    let online = machine.online_cpus().count();
    let mut text = machine.model.clone().unwrap_or_else(|| "of unknown model".to_owned());
    let _ = write!(text, ", {}", count(online, "CPU", "CPUs"));
    let (packages, cores) = (machine.packages(), machine.cores());
    if packages > 0 && cores > 0 {
        let (sockets, cores) = (count(packages, "socket", "sockets"), count(cores, "core", "cores"));
        let _ = write!(text, " ({sockets}, {cores})");
    }
    let offline = machine.cpus.len().saturating_sub(online);
    if offline > 0 {
        let _ = write!(text, ", {offline} offline");
    }
    text
}

fn system(probe: &Probe) -> String {
    let kernel = probe.kernel.as_deref().unwrap_or("of unknown version");
    let arch = probe.arch.as_deref().unwrap_or("unknown architecture");
    let place = match probe.hypervisor.as_deref() {
        Some("unknown hypervisor") => ", in a virtual machine".to_owned(),
        Some(name) => format!(", in a virtual machine ({name})"),
        None => String::new(),
    };
    format!("Linux {kernel}, {arch}{place}")
}

fn memory(machine: &Machine, probe: &Probe) -> String {
    let mut text = machine.memory_bytes.map_or_else(|| "of unknown size".to_owned(), bytes);
    if let Some(page) = machine.page_bytes {
        let _ = write!(text, ", pages of {}", bytes(page));
    }
    let sizes: Vec<String> = machine.huge_page_bytes.iter().map(|&size| bytes(size)).collect();
    let huge = (!sizes.is_empty()).then(|| format!("huge {}", sizes.join(", ")));
    let mode = probe.transparent_huge_pages.as_ref().map(|mode| format!("transparent {mode}"));
    let notes: Vec<String> = huge.into_iter().chain(mode).collect();
    if !notes.is_empty() {
        let _ = write!(text, " ({})", notes.join("; "));
    }
    text
}

fn nodes(machine: &Machine) -> String {
    let nodes = &machine.nodes;
    match nodes.len() {
        0 => "unknown".to_owned(),
        1 => "1, so that no access can be remote here".to_owned(),
        n => {
            let memory_only = nodes.iter().filter(|node| node.memory_only).count();
            let offline = nodes.iter().filter(|node| !node.online).count();
            let mut text = n.to_string();
            for (number, what) in [(memory_only, "memory-only"), (offline, "offline")] {
                if number > 0 {
                    let _ = write!(text, ", {number} {what}");
                }
            }
            text
        }
    }
}

fn node_table(machine: &Machine) -> Vec<String> {
    let cpus = |node: &Node| match (node.online, node.cpus.is_empty()) {
        (false, _) => "offline".to_owned(),
        (true, true) => "none".to_owned(),
        (true, false) => list::format(&node.cpus),
    };
    let nodes = &machine.nodes;
    let width = nodes.iter().map(|node| cpus(node).len()).max().unwrap_or(0).max(4);
    let online = || nodes.iter().filter(|node| node.online).map(|node| node.id);
    let row = |id: &str, cpus: &str, memory: &str, distances: String| {
        format!("{id:>4}  {cpus:<width$}  {memory:>10}  {distances}")
    };
    let mut rows = vec![row("node", "CPUs", "memory", " distance to node".to_owned())];
    rows.push(row("", "", "", online().map(|id| format!("{id:>4}")).collect()));
    for node in nodes {
        let distance = |to| match node.distances.get(&to) {
            Some(distance) => format!("{distance:>4}"),
            None => format!("{:>4}", "-"),
        };
        let memory = node.memory_bytes.map_or_else(|| "-".to_owned(), bytes);
        rows.push(row(&node.id.to_string(), &cpus(node), &memory, online().map(distance).collect()));
    }
    rows
}

/// What limits or disturbs this process beyond the machine itself.
fn restrictions(machine: &Machine, probe: &Probe) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    let online: Vec<u32> = machine.online_cpus().collect();
    if let Some(cpus) = &probe.cpus_allowed
        && !online.is_empty()
        && online.iter().any(|cpu| cpus.binary_search(cpu).is_err())
    {
        let usable = online.iter().filter(|cpu| cpus.binary_search(cpu).is_ok()).count();
        rows.push(("confined", format!("to {usable} of {} CPUs ({})", online.len(), list::format(cpus))));
    }
    let with_memory: Vec<u32> =
        machine.nodes.iter().filter(|node| node.memory_bytes > Some(0)).map(|node| node.id).collect();
    if let Some(nodes) = &probe.mems_allowed
        && with_memory.iter().any(|node| nodes.binary_search(node).is_err())
    {
        rows.push(("confined", format!("to the memory of node {}", list::format(nodes))));
    }
    if probe.numa_balancing.is_some_and(|mode| mode != 0) {
        let text = "on: the kernel moves pages to threads while the program runs";
        rows.push(("AutoNUMA", text.to_owned()));
    }
    rows
}

fn mark(used: bool, state: State) -> &'static str {
    match (used, state) {
        (true, _) => "[x]",
        (false, State::Ready) => "[+]",
        (false, State::Forbidden | State::Unsupported) => "[!]",
        (false, State::Absent) => "[ ]",
    }
}

fn describe(sampler: Sampler) -> &'static str {
    match (sampler.state, sampler.kind) {
        (State::Ready, Kind::Clock) => "works: no PMU needed, cost and accesses with stated error",
        (State::Ready, _) => "works: address, memory level and latency in hardware",
        (State::Forbidden, _) => "there, but refused to this user",
        (State::Unsupported, _) => "there, but not usable by this version",
        (State::Absent, Kind::Clock) => "needs perf events, which this kernel does not show",
        (State::Absent, Kind::Pebs) => "not here: needs an Intel processor's PMU",
        (State::Absent, Kind::Ibs) => "not here: needs an AMD processor's PMU",
        (State::Absent, _) => "not here: needs an Arm processor's SPE",
    }
}

/// Never chosen by itself: it is asked for.
fn exact(probe: &Probe) -> (&'static str, &'static str) {
    if !may_count(probe) {
        return ("[!]", "needs perf events too, for what a program maps; they are refused here");
    }
    match probe.emulator {
        true => ("[+]", "works: every access counted in an emulator (record --sampler exact)"),
        false => ("[ ]", "programs built with -fsanitize=thread only: others need qemu-user"),
    }
}

/// True if the exact sampler has the events that it needs.
fn may_count(probe: &Probe) -> bool {
    probe.trial.as_ref().is_none_or(|trial| trial.opened)
}

fn permission(probe: &Probe) -> String {
    let level = match probe.paranoid {
        Some(level) => format!("perf_event_paranoid {level}: "),
        None => "perf_event_paranoid unknown: ".to_owned(),
    };
    if let Some(trial) = probe.trial.as_ref().filter(|trial| !trial.opened) {
        return format!("none: {}", trial.reason);
    }
    let may = if probe.may_watch_cpus() {
        "own programs, kernel, whole CPUs"
    } else if probe.may_sample_kernel() {
        "own programs, kernel"
    } else if probe.may_sample() {
        "own programs in user mode, which is enough"
    } else {
        "nothing"
    };
    let by = match probe.capabilities {
        Some(caps) if probe.paranoid > Some(0) && probe.may_watch_cpus() => {
            if caps.sys_admin {
                " (CAP_SYS_ADMIN)"
            } else {
                " (CAP_PERFMON)"
            }
        }
        _ => "",
    };
    format!("{level}{may}{by}")
}

fn functions(probe: &Probe) -> &'static str {
    match probe.may_watch_functions() {
        Some(true) => "can be watched (record --in)",
        Some(false) => "cannot be watched (record --in): only root may, or who has CAP_PERFMON",
        None => "cannot be watched (record --in): this kernel has no uprobes",
    }
}

fn tick(cost: TickCost) -> String {
    let (us, rate, percent) = (cost.ns / 1e3, cost.rate_hz, cost.overhead * 100.0);
    format!("{us:.1} us a sample as measured: {rate:.0} Hz takes {percent:.1} % of the time")
}
