//! Makes `/sys` and `/proc` of machines that are not here.

use std::fs;
use std::path::Path;

use numamma_topology::{Choice, Kind, Machine, Probe, choose_sampler, list, render_doctor};
use tempfile::TempDir;

/// One node of a fixture: CPUs, GiB of memory, distances to all online nodes.
pub type NodeSpec<'a> = (&'a str, u64, &'a str);

/// A directory that looks like a machine's root.
pub struct Fixture {
    dir: TempDir,
}

impl Fixture {
    /// An x86 server with a usual kernel, an ordinary user, no CPU and no PMU yet.
    pub fn new() -> Self {
        let fixture = Self { dir: TempDir::new().unwrap() };
        fixture
            .put("proc/sys/kernel/osrelease", "6.1.0-18-amd64")
            .put("proc/sys/kernel/arch", "x86_64")
            .put("proc/sys/kernel/perf_event_paranoid", "2")
            .put("proc/sys/kernel/perf_event_max_sample_rate", "100000")
            .put("proc/sys/kernel/perf_event_mlock_kb", "516")
            .put("proc/sys/kernel/kptr_restrict", "0")
            .put("proc/sys/kernel/numa_balancing", "0")
            .put("proc/self/uid_map", "         0          0 4294967295")
            .put("proc/self/limits", LIMITS)
            .put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
            .put("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0")
            .put("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0")
            .put("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc")
            .put("proc/self/smaps", "00400000-00401000 r-xp\nSize: 4 kB\nKernelPageSize:        4 kB\n")
            .capabilities(0)
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn put(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub fn without(self, path: &str) -> Self {
        let path = self.root().join(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        self
    }

    pub fn paranoid(self, level: i32) -> Self {
        self.put("proc/sys/kernel/perf_event_paranoid", format!("{level}\n"))
    }

    /// The process's capabilities, by bit.
    pub fn capabilities(self, mask: u64) -> Self {
        let status = format!("Name:\tx\nCapEff:\t{mask:016x}\nSeccomp:\t0\n");
        self.put("proc/self/status", status)
    }

    pub fn cpuinfo(self, vendor: &str, model: &str, flags: &str) -> Self {
        let text = format!("processor\t: 0\nvendor_id\t: {vendor}\nmodel name\t: {model}\nflags\t\t: {flags}\n");
        self.put("proc/cpuinfo", text)
    }

    /// CPUs 0..n, with `packages` sockets and `threads` CPUs a core: siblings are n / threads apart.
    pub fn cpus(mut self, n: u32, packages: u32, threads: u32) -> Self {
        let cores = n / threads;
        for cpu in 0..n {
            let core = cpu % cores;
            let package = core * packages / cores;
            let siblings: Vec<u32> = (0..threads).map(|t| core + t * cores).collect();
            let dir = format!("sys/devices/system/cpu/cpu{cpu}");
            let l3: Vec<u32> = (0..n).filter(|c| (c % cores) * packages / cores == package).collect();
            self = self
                .put(&format!("{dir}/topology/physical_package_id"), package.to_string())
                .put(&format!("{dir}/topology/core_id"), (core % (cores / packages)).to_string())
                .put(&format!("{dir}/topology/core_cpus_list"), list::format(&siblings))
                .put(&format!("{dir}/cache/index3/level"), "3")
                .put(&format!("{dir}/cache/index3/type"), "Unified")
                .put(&format!("{dir}/cache/index3/size"), "32768K")
                .put(&format!("{dir}/cache/index3/coherency_line_size"), "64")
                .put(&format!("{dir}/cache/index3/shared_cpu_list"), list::format(&l3))
                .put(&format!("{dir}/cache/index0/level"), "1")
                .put(&format!("{dir}/cache/index0/type"), "Data")
                .put(&format!("{dir}/cache/index0/size"), "48K")
                .put(&format!("{dir}/cache/index0/shared_cpu_list"), list::format(&siblings));
        }
        self.put("sys/devices/system/cpu/online", format!("0-{}\n", n - 1))
            .put("sys/devices/system/cpu/cpufreq/x", "")
            .put("sys/devices/system/cpu/kernel_max", "8191")
    }

    pub fn nodes(mut self, nodes: &[NodeSpec]) -> Self {
        for (id, (cpus, gib, distances)) in nodes.iter().enumerate() {
            let dir = format!("sys/devices/system/node/node{id}");
            let meminfo = format!("\nNode {id} MemTotal:       {} kB\nNode {id} MemFree: 1 kB\n", gib << 20);
            self = self
                .put(&format!("{dir}/cpulist"), format!("{cpus}\n"))
                .put(&format!("{dir}/meminfo"), meminfo)
                .put(&format!("{dir}/distance"), format!("{distances}\n"));
        }
        let kb = nodes.iter().map(|(_, gib, _)| gib << 20).sum::<u64>();
        let online: Vec<u32> = (0..nodes.len() as u32).collect();
        self.put("sys/devices/system/node/online", list::format(&online))
            .put("proc/meminfo", format!("MemTotal:       {kb} kB\nMemFree:  1 kB\n"))
    }

    /// A unit with files, given as `events/mem-loads=event=0xcd`.
    pub fn pmu(mut self, name: &str, kind: u32, files: &[&str]) -> Self {
        let dir = format!("sys/bus/event_source/devices/{name}");
        self = self.put(&format!("{dir}/type"), kind.to_string());
        for file in files {
            let (path, text) = file.split_once('=').unwrap();
            self = self.put(&format!("{dir}/{path}"), text);
        }
        self
    }

    pub fn machine(&self) -> Machine {
        Machine::read(self.root())
    }

    pub fn probe(&self) -> Probe {
        Probe::read(self.root())
    }

    pub fn choose(&self, implemented: &[Kind]) -> Choice {
        choose_sampler(&self.probe(), implemented)
    }

    /// The doctor's words for this version; checks what holds for every machine.
    pub fn doctor(&self) -> String {
        let choice = self.choose(&[Kind::Clock]);
        let text = render_doctor(&self.machine(), &self.probe(), &choice, None);
        assert!(text.is_ascii(), "{text}");
        assert!(text.ends_with('\n'));
        for line in text.lines() {
            assert!(line.len() <= 110 && line.trim_end() == line, "{line:?}");
        }
        text
    }
}

const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units     \n\
Max open files            1024                 524288               files     \n\
Max locked memory         8388608              8388608              bytes     \n";
