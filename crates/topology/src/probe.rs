//! Facilities of the kernel and the processor for a sampler.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::tree::{Tree, field};

/// Where packages and people install it.
const EMULATORS: [&str; 3] = ["usr/bin/qemu-x86_64", "usr/local/bin/qemu-x86_64", "bin/qemu-x86_64"];
const PMUS: &str = "sys/bus/event_source/devices";

/// The facts on which the choice of a sampler rests. `None` is "the system does not say".
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The kernel's release, `6.1.0-18-amd64`.
    pub kernel: Option<String>,
    /// `x86_64`, `aarch64`, ..
    pub arch: Option<String>,
    /// The hypervisor's name, or `unknown hypervisor`; `None` on bare metal.
    pub hypervisor: Option<String>,
    /// `kernel.perf_event_paranoid`. Without it the kernel has no perf events at all.
    pub paranoid: Option<i32>,
    /// `kernel.perf_event_max_sample_rate`, in Hz.
    pub max_sample_rate: Option<u64>,
    /// `kernel.perf_event_mlock_kb`: ring memory per CPU that every user may lock.
    pub mlock_kb: Option<u64>,
    /// The soft `RLIMIT_MEMLOCK`, which adds to that; `u64::MAX` is unlimited.
    pub memlock_bytes: Option<u64>,
    /// `kernel.kptr_restrict`.
    pub kptr_restrict: Option<i32>,
    /// The effective capabilities of this process.
    pub capabilities: Option<Capabilities>,
    /// True if capabilities count for the whole machine, not for a container only.
    pub initial_user_namespace: Option<bool>,
    /// True if a seccomp filter is active; the usual ones of containers refuse perf events.
    pub seccomp_filter: Option<bool>,
    /// The performance monitoring units, by name.
    pub pmus: Vec<Pmu>,
    /// The kernel's clock source.
    pub clocksource: Option<String>,
    /// `kernel.yama.ptrace_scope`.
    pub ptrace_scope: Option<i32>,
    /// `kernel.numa_balancing`: 0 off, 1 on, 2 tiering.
    pub numa_balancing: Option<i32>,
    /// The mode of transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// The CPUs this process may use.
    pub cpus_allowed: Option<Vec<u32>>,
    /// The nodes this process may allocate on.
    pub mems_allowed: Option<Vec<u32>>,
    /// True if QEMU's user mode is installed, in which accesses can be counted.
    #[serde(default)]
    pub emulator: bool,
    /// What came of opening the events of a recording here; `None` where nothing was tried, as on a copy of another machine.
    #[serde(default)]
    pub trial: Option<Trial>,
}

/// What came of opening the events of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// True if they could be opened.
    pub opened: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What would change that.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// The capabilities that change what can be seen or moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Perf events whatever the paranoid level.
    pub perfmon: bool,
    /// The same before Linux 5.8, and much more.
    pub sys_admin: bool,
    /// Processes of other users.
    pub sys_ptrace: bool,
    /// Moving shared pages and pages of other users.
    pub sys_nice: bool,
    /// Rings of any size.
    pub ipc_lock: bool,
}

/// One performance monitoring unit as sysfs describes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pmu {
    /// `cpu`, `ibs_op`, `arm_spe_0`, ..
    pub name: String,
    /// `type` of `perf_event_attr`.
    pub kind: Option<u32>,
    /// Named events and their encoding.
    pub events: BTreeMap<String, String>,
    /// Named fields and their bits.
    pub format: BTreeMap<String, String>,
    /// Capabilities of the unit.
    pub caps: BTreeMap<String, String>,
    /// The CPUs that have it, or that count for it; `None` if all do.
    pub cpus: Option<Vec<u32>>,
}

impl Probe {
    /// Reads what the system below `root` offers. Facts about the process are those of the caller.
    pub fn read(root: &Path) -> Self {
        let tree = Tree::new(root);
        let status = tree.text("proc/self/status").unwrap_or_default();
        let allowed = |key: &str| crate::list::parse(field(&status, key)?);
        let kernel = |name: &str| format!("proc/sys/kernel/{name}");
        Self {
            kernel: tree.text(&kernel("osrelease")),
            arch: arch(&tree),
            hypervisor: hypervisor(&tree),
            paranoid: tree.number(&kernel("perf_event_paranoid")),
            max_sample_rate: tree.number(&kernel("perf_event_max_sample_rate")),
            mlock_kb: tree.number(&kernel("perf_event_mlock_kb")),
            memlock_bytes: memlock(&tree),
            kptr_restrict: tree.number(&kernel("kptr_restrict")),
            capabilities: field(&status, "CapEff").and_then(Capabilities::parse),
            initial_user_namespace: initial_user_namespace(&tree),
            seccomp_filter: field(&status, "Seccomp").map(|mode| mode == "2"),
            pmus: tree.names(PMUS).into_iter().map(|name| Pmu::read(&tree, name)).collect(),
            clocksource: tree.text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            ptrace_scope: tree.number(&kernel("yama/ptrace_scope")),
            numa_balancing: tree.number(&kernel("numa_balancing")),
            transparent_huge_pages: tree
                .text("sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| selected(&text)),
            cpus_allowed: allowed("Cpus_allowed_list"),
            mems_allowed: allowed("Mems_allowed_list"),
            emulator: EMULATORS.iter().any(|path| tree.bytes(path).is_some()),
            trial: None,
        }
    }

    /// The unit of that name.
    pub fn pmu(&self, name: &str) -> Option<&Pmu> {
        self.pmus.iter().find(|pmu| pmu.name == name)
    }

    /// True if perf events may be opened that look at user mode of own processes.
    /// Levels 3 (Debian) and 4 (Ubuntu) refuse all of them; other kernels take them for 2, so a trial knows better.
    pub fn may_sample(&self) -> bool {
        match &self.trial {
            Some(trial) => trial.opened,
            None => self.paranoid.is_some_and(|level| level <= 2 || self.privileged()),
        }
    }

    /// True if they may look at kernel mode too.
    pub fn may_sample_kernel(&self) -> bool {
        self.is_open() && self.paranoid.is_some_and(|level| level <= 1 || self.privileged())
    }

    /// True if they may look at whole CPUs, whoever runs there.
    pub fn may_watch_cpus(&self) -> bool {
        self.is_open() && self.paranoid.is_some_and(|level| level <= 0 || self.privileged())
    }

    /// True if entries and exits of functions may be watched; `None` if the kernel cannot.
    pub fn may_watch_functions(&self) -> Option<bool> {
        self.pmu("uprobe").map(|_| self.is_open() && self.privileged())
    }

    /// No trial has shown that all events are refused.
    fn is_open(&self) -> bool {
        self.trial.as_ref().is_none_or(|trial| trial.opened)
    }

    /// A capability opens perf events only when it was given in the initial user namespace.
    fn privileged(&self) -> bool {
        let holds = self.capabilities.is_some_and(|caps| caps.perfmon || caps.sys_admin);
        holds && self.initial_user_namespace != Some(false)
    }

    /// Ring memory in bytes that this user may lock on `cpus` CPUs; `None` for any amount.
    pub fn ring_budget(&self, cpus: u64) -> Option<u64> {
        let locks = self.capabilities.is_some_and(|caps| caps.ipc_lock);
        if (locks && self.initial_user_namespace != Some(false)) || self.paranoid == Some(-1) {
            return None;
        }
        let per_user = self.mlock_kb?.saturating_mul(1024).saturating_mul(cpus);
        let limit = self.memlock_bytes.unwrap_or(0);
        (limit != u64::MAX).then(|| per_user.saturating_add(limit))
    }
}

impl Capabilities {
    /// From the hexadecimal mask of `/proc/PID/status`.
    fn parse(mask: &str) -> Option<Self> {
        let mask = u64::from_str_radix(mask, 16).ok()?;
        let has = |bit: u32| mask >> bit & 1 == 1;
        Some(Self { ipc_lock: has(14), sys_ptrace: has(19), sys_admin: has(21), sys_nice: has(23), perfmon: has(38) })
    }
}

impl Pmu {
    fn read(tree: &Tree, name: String) -> Self {
        let dir = format!("{PMUS}/{name}");
        let table = |sub: &str| {
            let names = tree.names(&format!("{dir}/{sub}")).into_iter();
            names.filter_map(|n| tree.text(&format!("{dir}/{sub}/{n}")).map(|text| (n, text))).collect()
        };
        Self {
            kind: tree.number(&format!("{dir}/type")),
            events: table("events"),
            format: table("format"),
            caps: table("caps"),
            cpus: tree.list(&format!("{dir}/cpus")).or_else(|| tree.list(&format!("{dir}/cpumask"))),
            name,
        }
    }
}

fn arch(tree: &Tree) -> Option<String> {
    // The file exists since Linux 6.1. The program's own architecture is the machine's only here.
    tree.text("proc/sys/kernel/arch").or_else(|| {
        tree.is_live().then(|| std::env::consts::ARCH.to_owned()).or_else(|| {
            let cpuinfo = tree.text("proc/cpuinfo")?;
            let arch = if field(&cpuinfo, "vendor_id").is_some() {
                "x86_64"
            } else if field(&cpuinfo, "CPU implementer").is_some() {
                "aarch64"
            } else {
                return None;
            };
            Some(arch.to_owned())
        })
    })
}

/// Vendors and products that only hypervisors put into the firmware tables.
const HYPERVISORS: [(&str, &str); 11] = [
    ("QEMU", "QEMU"),
    ("KVM", "KVM"),
    ("VMware", "VMware"),
    ("VirtualBox", "VirtualBox"),
    ("innotek", "VirtualBox"),
    ("Xen", "Xen"),
    ("Virtual Machine", "Hyper-V"),
    ("Google Compute Engine", "Google Compute Engine"),
    ("Amazon EC2", "Amazon EC2"),
    ("OpenStack", "OpenStack"),
    ("Parallels", "Parallels"),
];

fn hypervisor(tree: &Tree) -> Option<String> {
    let cpuinfo = tree.text("proc/cpuinfo").unwrap_or_default();
    let flags = field(&cpuinfo, "flags").unwrap_or_default();
    let flagged = flags.split_whitespace().any(|flag| flag == "hypervisor");
    if let Some(name) = tree.text("sys/hypervisor/type") {
        // Dom0 of Xen sees the hypervisor but also the hardware; it is still not alone there.
        return Some(if name == "xen" { "Xen".to_owned() } else { name });
    }
    let firmware: Vec<String> = ["sys_vendor", "product_name", "board_vendor", "bios_vendor"]
        .iter()
        .filter_map(|name| tree.text(&format!("sys/class/dmi/id/{name}")))
        .chain(tree.text("sys/firmware/devicetree/base/hypervisor/compatible"))
        .collect();
    let known = HYPERVISORS
        .iter()
        .find(|(mark, _)| firmware.iter().any(|text| text.contains(mark)))
        .map(|(_, name)| (*name).to_owned());
    // x86 says so itself; a cloud's bare metal carries its vendor's name without the flag.
    let known = known.filter(|_| flagged || !firmware.iter().any(|text| text.contains(".metal")));
    match (flagged, field(&cpuinfo, "flags").is_some(), known) {
        (true, _, known) => Some(known.unwrap_or_else(|| "unknown hypervisor".to_owned())),
        (false, true, _) => None,
        (false, false, known) => known,
    }
}

/// The soft limit, from the table that stands for `getrlimit`.
fn memlock(tree: &Tree) -> Option<u64> {
    let limits = tree.text("proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        soft => soft.parse().ok(),
    }
}

/// Only the first namespace maps all ids to themselves.
fn initial_user_namespace(tree: &Tree) -> Option<bool> {
    let map = tree.text("proc/self/uid_map")?;
    Some(map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// The word in brackets of `always [madvise] never`.
fn selected(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    Some(word.to_owned())
}
