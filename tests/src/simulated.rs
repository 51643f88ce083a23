//! Predictions against the lab: a program is recorded here, on one node, and runs in guests of several nodes whose accesses to memory wait.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::guest::{lab, matrix};
use crate::{Run, build};

/// Caches of the recording and of the guest: small, so that small inputs reach memory.
const CACHES: &str = "l1=4K:8,l2=8K:8,llc=32K:16";

/// A placement: as predictions call it, and as `numamma apply --policy` does.
pub const POLICIES: [(&str, &str); 3] =
    [("first touch", "first-touch"), ("interleave", "interleave"), ("block", "block")];

/// Seconds that a run in a guest may take.
const LIMIT: u64 = 200;

/// A guest: one CPU on each node.
#[derive(Clone, Copy, Debug)]
pub struct Lab {
    /// What to call it.
    pub name: &'static str,
    /// Nodes.
    pub nodes: u32,
    /// `--dist`.
    pub distance: &'static str,
    /// Nanoseconds of a hop.
    pub delay: u32,
    /// Nanoseconds that a node serves an access.
    pub queue: u32,
}

/// A program to predict and to run.
#[derive(Clone, Debug)]
pub struct Program {
    /// What to call it.
    pub name: String,
    /// Path of the program, and arguments. `{N}` is the number of threads.
    pub command: Vec<String>,
}

/// A run in the lab.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// Part of the accesses to memory that went to another node.
    pub remote: f64,
    /// Wall time.
    pub seconds: f64,
}

/// What `numamma predict` says of a placement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// Part of the accesses to memory that go to another node.
    pub remote: f64,
    /// Wall time, and the ends of its interval.
    pub seconds: [f64; 3],
}

impl Program {
    fn with(&self, threads: u32) -> Vec<String> {
        self.command.iter().map(|argument| argument.replace("{N}", &threads.to_string())).collect()
    }
}

impl Lab {
    /// `lab/run` with this guest's options.
    fn run(&self, dir: &Path) -> Run {
        let [nodes, delay, queue] = [self.nodes, self.delay, self.queue].map(|number| number.to_string());
        let run = lab().args(["--nodes", &nodes, "--dist", self.distance, "--delay", &delay, "--queue", &queue]);
        let run = run.args(["--caches", CACHES, "--timeout", &LIMIT.to_string(), "--share"]).arg(dir);
        let run = run.env("OMP_NUM_THREADS", &nodes).env("OMP_WAIT_POLICY", "passive");
        run.dir(dir).limit(2 * LIMIT)
    }

    /// A machine file of the guest, from its rules: a node serves an access for `queue`, the way to it takes `delay` for each hop.
    pub fn machine(&self, dir: &Path) -> PathBuf {
        let nodes = self.nodes as usize;
        let rows: Vec<Vec<u32>> =
            (0..nodes).map(|from| (0..nodes).map(|to| self.latency_ns(from, to)).collect()).collect();
        // A line of 64 bytes at a time.
        let node = format!("{{ cpus = 1, bandwidth_gbs = {} }}", 64.0 / f64::from(self.queue));
        let point = |cpus| format!("{{ cpus = {cpus}, latency_ns = {:.0} }}", self.loaded_ns(cpus));
        let text = format!(
            "name = \"{}\"\nsource = \"docs/LAB.md\"\npage_bytes = 4096\nnodes = [{}]\nlatency_ns = {rows:?}\ncontention = [{}]\n",
            self.name,
            vec![node; nodes].join(", "),
            (1..=nodes).map(point).collect::<Vec<_>>().join(", ")
        );
        let file = dir.join("machine.toml");
        fs::write(&file, text).expect("write the machine file");
        file
    }

    fn latency_ns(&self, from: usize, to: usize) -> u32 {
        let (nodes, apart) = (self.nodes as usize, from.abs_diff(to));
        let hops = match self.distance {
            "flat" => apart.min(1),
            "ring" => apart.min(nodes - apart),
            _ => (to + nodes - from) % nodes,
        };
        self.queue + self.delay * hops as u32
    }

    /// As `numamma machine --measure` means it: a load of node 0 by its own CPU while the next CPUs, up to so many in all, load
    /// from it as fast as they can.
    fn loaded_ns(&self, cpus: usize) -> f64 {
        let service = f64::from(self.queue);
        let (mut ready, mut free, mut waited, mut loads) = (vec![0.0_f64; cpus], 0.0_f64, 0.0, 0.0);
        for _ in 0..1000 * cpus {
            let next = (0..cpus).min_by(|&a, &b| ready[a].total_cmp(&ready[b])).unwrap_or(0);
            let asked = ready[next];
            free = free.max(asked) + service;
            ready[next] = free + f64::from(self.latency_ns(next, 0)) - service;
            if next == 0 {
                (waited, loads) = (waited + ready[0] - asked, loads + 1.0);
            }
        }
        waited / loads
    }

    /// Records a program on this machine: every access to memory of as many caches as the guest has.
    ///
    /// # Errors
    /// Why it cannot be recorded.
    pub fn record(&self, program: &Program, dir: &Path) -> Result<PathBuf, String> {
        let dataset = dir.join("recorded");
        let run = Run::numamma().args(["record", "-q", "--force", "--sampler", "exact", "--caches"]);
        let run = run.arg(format!("{CACHES},sockets={}", self.nodes)).arg("-o").arg(&dataset).arg("--");
        let run = run.args(program.with(self.nodes)).dir(dir).limit(LIMIT);
        let run = run.env("OMP_NUM_THREADS", self.nodes.to_string()).env("OMP_WAIT_POLICY", "passive").run();
        if run.shell_status() == 0 { Ok(dataset) } else { Err(run.err()) }
    }

    /// Runs the program under `apply OPTIONS` in the guest.
    ///
    /// # Errors
    /// Why there is no result.
    pub fn reach(&self, program: &Program, options: &[&str], dir: &Path) -> Result<Reached, String> {
        let (counted, timed) = (dir.join("matrix.json"), build::helper("timed"));
        let run = self.run(dir).arg("--matrix").arg(&counted).arg("--").arg(&timed).arg("--uncounted");
        let run =
            run.arg(build::numamma()).args(["apply", "-q", "--pin", "compact"]).args(options).arg("--").arg(&timed);
        let outcome = run.args(program.with(self.nodes)).run();
        let err = outcome.err();
        let nanoseconds = err.lines().find_map(|line| line.strip_prefix("timed ")?.parse::<f64>().ok());
        match (outcome.shell_status(), nanoseconds) {
            (0, Some(nanoseconds)) => {
                let remote = matrix(&counted)["remote_share"].as_f64().ok_or("no share")?;
                Ok(Reached { remote, seconds: nanoseconds * 1e-9 })
            }
            (status, _) => Err(format!("{options:?}: status {status}: {}", err.trim().replace('\n', "; "))),
        }
    }
}

/// `numamma plan`: the plan's file, and how many objects it places.
pub fn plan(dataset: &Path, machine: &Path, program: &Program, calibration: &str, dir: &Path) -> (PathBuf, usize) {
    let file = dir.join("plan.toml");
    let run = Run::numamma().arg("plan").arg(dataset).arg("--machine").arg(machine).args(["--pin", "compact"]);
    run.args(["--calibrate", calibration, "--force", "-o"]).arg(&file).limit(LIMIT).run().success();
    let text = fs::read_to_string(&file).expect("the plan");
    // What `apply` starts is `timed`.
    fs::write(&file, format!("program = {:?}\n{text}", program.command[0])).expect("write the plan");
    (file, text.matches("[[object]]").count())
}

/// `numamma predict` of the usual placements and a plan, by name.
pub fn predict(dataset: &Path, machine: &Path, plan: &Path, calibration: &str) -> impl Fn(&str) -> Option<Predicted> {
    let run = Run::numamma().arg("predict").arg(dataset).arg("--machine").arg(machine).args(["--pin", "compact"]);
    let run =
        run.args(["--calibrate", calibration, "--format", "json", "--plan"]).arg(plan).limit(LIMIT).run().success();
    let answer: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    move |name| {
        let candidate = answer["candidates"].as_array()?.iter().find(|candidate| candidate["name"] == name)?;
        let number = |of: &str| candidate[of].as_f64();
        Some(Predicted {
            remote: number("remote_share")?,
            seconds: [number("time_s")?, number("low_s")?, number("high_s")?],
        })
    }
}
