//! Which sampler a machine calls for, and why.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::probe::{Pmu, Probe, Trial};

/// A way to sample memory accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Intel's precise events.
    Pebs,
    /// AMD's instruction based sampling.
    Ibs,
    /// Arm's statistical profiling extension.
    Spe,
    /// Registers at every tick of a clock.
    Clock,
    /// Nothing can sample here.
    None,
}

impl Kind {
    const HARDWARE: [Self; 3] = [Self::Pebs, Self::Ibs, Self::Spe];
    const ALL: [Self; 4] = [Self::Pebs, Self::Ibs, Self::Spe, Self::Clock];

    /// The name on the command line and in every file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pebs => "pebs",
            Self::Ibs => "ibs",
            Self::Spe => "spe",
            Self::Clock => "clock",
            Self::None => "none",
        }
    }

    /// The name people know.
    fn title(self) -> &'static str {
        match self {
            Self::Pebs => "Intel PEBS",
            Self::Ibs => "AMD IBS",
            Self::Spe => "Arm SPE",
            Self::Clock => "the clock sampler",
            Self::None => "no sampler",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How far a sampler works here; ordered from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It works.
    Ready,
    /// The system refuses it to this user.
    Forbidden,
    /// The machine has it, this version of NumaMMA cannot use it.
    Unsupported,
    /// The machine does not have it.
    Absent,
}

/// One sampler on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampler {
    /// Which.
    pub kind: Kind,
    /// How far it works.
    pub state: State,
}

/// One thing that would improve what is seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// What it brings.
    pub gain: String,
    /// The one command to run.
    pub command: String,
}

/// The sampler to use here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The sampler to use.
    pub kind: Kind,
    /// What the processor has, usable or not.
    pub hardware: Option<Kind>,
    /// Every sampler and whether it works here.
    pub samplers: Vec<Sampler>,
    /// The reasons, one sentence each.
    pub why: Vec<String>,
    /// What would bring more, most valuable first.
    pub enable: Vec<Advice>,
}

/// Chooses among the samplers that this version implements.
pub fn choose_sampler(probe: &Probe, implemented: &[Kind]) -> Choice {
    let state = |kind| Sampler { kind, state: state(probe, kind, implemented) };
    let samplers: Vec<Sampler> = Kind::ALL.map(state).into();
    let ready = samplers.iter().find(|sampler| sampler.state == State::Ready);
    let kind = ready.map_or(Kind::None, |sampler| sampler.kind);
    let hardware = Kind::HARDWARE.into_iter().find(|&kind| offered(probe, kind));
    let mut choice = Choice { kind, hardware, samplers, why: Vec::new(), enable: Vec::new() };
    choice.why = why(probe, &choice);
    choice.enable = enable(probe, &choice);
    choice
}

fn state(probe: &Probe, kind: Kind, implemented: &[Kind]) -> State {
    if !offered(probe, kind) {
        State::Absent
    } else if !implemented.contains(&kind) {
        State::Unsupported
    } else if permitted(probe, kind) {
        State::Ready
    } else {
        State::Forbidden
    }
}

/// True if the machine has what `kind` needs.
fn offered(probe: &Probe, kind: Kind) -> bool {
    match kind {
        Kind::Pebs => ["cpu", "cpu_core"].iter().any(|name| probe.pmu(name).is_some_and(has_pebs)),
        Kind::Ibs => probe.pmu("ibs_op").is_some(),
        Kind::Spe => probe.pmus.iter().any(|pmu| pmu.name.starts_with("arm_spe")),
        // A container may hide the setting.
        Kind::Clock => probe.paranoid.is_some() || probe.trial.as_ref().is_some_and(|trial| trial.opened),
        Kind::None => false,
    }
}

/// A guest may list the events of a processor whose precise sampling its host keeps back.
fn has_pebs(pmu: &Pmu) -> bool {
    let precise = pmu.caps.get("max_precise").and_then(|text| text.parse::<u32>().ok());
    pmu.events.contains_key("mem-loads") && precise != Some(0)
}

/// True if this user may open the events of `kind` on own processes.
fn permitted(probe: &Probe, kind: Kind) -> bool {
    match kind {
        // IBS itself cannot leave out kernel mode; newer kernels filter for it.
        Kind::Ibs if !filters_ibs(probe) => probe.may_sample_kernel(),
        Kind::None => true,
        _ => probe.may_sample(),
    }
}

fn filters_ibs(probe: &Probe) -> bool {
    probe.pmu("ibs_op").is_some_and(|pmu| pmu.format.contains_key("swfilt"))
}

fn why(probe: &Probe, choice: &Choice) -> Vec<String> {
    let mut why = Vec::new();
    match choice.hardware {
        Some(kind) => why.push(why_hardware(probe, choice, kind)),
        None if probe.hypervisor.is_some() => {
            why.push("no PMU samples memory here; a virtual machine has what its host passes on".to_owned())
        }
        None => why.push("no PMU samples memory here (PEBS, IBS or SPE)".to_owned()),
    }
    if probe.pmu("cpu_atom").is_some() && probe.pmu("cpu_core").is_some() {
        why.push("hybrid processor: its two kinds of cores need an event each".to_owned());
    }
    match (choice.kind, probe.paranoid) {
        (Kind::Clock, _) => why.push("the clock sampler needs no PMU: registers and code give each address".to_owned()),
        (Kind::None, _) if refused(probe).is_some() => why.extend(refused(probe).map(|trial| trial.reason.clone())),
        (Kind::None, None) => why.push("this kernel has no perf events, or /proc/sys is hidden".to_owned()),
        (Kind::None, Some(level)) if !probe.may_sample() => {
            why.push(format!("perf_event_paranoid is {level}: perf events are refused to users"));
        }
        (Kind::None, _) => why.push("this version has no sampler for this machine".to_owned()),
        _ => {}
    }
    if choice.kind == Kind::None && probe.emulator {
        why.push("`numamma record --sampler exact` counts every access in an emulator".to_owned());
    }
    if probe.seccomp_filter == Some(true) && probe.trial.is_none() {
        why.push("a seccomp filter is active; if it refuses, start the container with --cap-add PERFMON".to_owned());
    }
    why
}

/// The trial, if it has shown that events are refused.
fn refused(probe: &Probe) -> Option<&Trial> {
    probe.trial.as_ref().filter(|trial| !trial.opened)
}

fn why_hardware(probe: &Probe, choice: &Choice, kind: Kind) -> String {
    let title = kind.title();
    let sampler = choice.samplers.iter().find(|sampler| sampler.kind == kind);
    match sampler.map(|sampler| sampler.state) {
        Some(State::Ready) => {
            format!("{title} gives the address, memory level and latency of each sample")
        }
        Some(State::Forbidden) => {
            let level = probe.paranoid.map_or_else(|| "unknown".to_owned(), |level| level.to_string());
            format!("the processor has {title}, which perf_event_paranoid {level} refuses to users")
        }
        _ => format!("the processor has {title}, but this version of NumaMMA cannot use it yet"),
    }
}

fn enable(probe: &Probe, choice: &Choice) -> Vec<Advice> {
    let mut enable = Vec::new();
    if let Some(trial) = refused(probe) {
        // Nothing else matters before that.
        let remedy = Some(trial.remedy.clone()).filter(|remedy| !remedy.is_empty());
        return remedy.map(|command| Advice { gain: "recording at all".to_owned(), command }).into_iter().collect();
    }
    let forbidden = choice.samplers.iter().find(|sampler| sampler.state == State::Forbidden);
    if let Some(Sampler { kind, .. }) = forbidden {
        let gain = match kind {
            Kind::Clock => "recording at all".to_owned(),
            _ => format!("{}: address, memory level and latency of each sample", kind.title()),
        };
        let needs_kernel = *kind == Kind::Ibs && !filters_ibs(probe);
        enable.push(Advice { gain, command: permission(probe, needs_kernel) });
    }
    if choice.kind != Kind::None && short_of_ring_memory(probe) {
        enable.push(Advice {
            gain: "larger rings: floods of page faults lose no first touch".to_owned(),
            command: "sudo sysctl kernel.perf_event_mlock_kb=4096".to_owned(),
        });
    }
    enable
}

/// The mildest command that opens perf events: to this program alone where the kernel can
/// (`CAP_PERFMON` came with Linux 5.8) and user mode is not enough, else the level that is needed.
fn permission(probe: &Probe, needs_kernel: bool) -> String {
    let fine_grained = probe.kernel.as_deref().and_then(version).is_some_and(|v| v >= (5, 8));
    match (needs_kernel, fine_grained) {
        (true, true) => "sudo setcap cap_perfmon+ep \"$(command -v numamma)\"".to_owned(),
        (true, false) => "sudo sysctl kernel.perf_event_paranoid=1".to_owned(),
        (false, _) => "sudo sysctl kernel.perf_event_paranoid=2".to_owned(),
    }
}

/// Less than 2 MiB on each CPU and no large limit to add to it.
fn short_of_ring_memory(probe: &Probe) -> bool {
    const PER_CPU: u64 = 2 << 20;
    let cpus = probe.cpus_allowed.as_ref().map_or(1, |cpus| cpus.len().max(1) as u64);
    probe.ring_budget(cpus).is_some_and(|budget| budget < cpus * PER_CPU)
}

/// Major and minor number of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
