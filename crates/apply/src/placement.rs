//! A plan on its way into a program, and back.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use numamma_plan::{Compiled, Files, Plan, resolve};
use numamma_process::{Ended, Library, Refused, find_executable, library_refused, signals, suspended};
use numamma_topology::{Machine, list};
use numamma_wire::{SharedPlan, plan as wire};

use crate::achieved::{Achieved, Pages, RuleAchieved};
use crate::error::ApplyError;
use crate::marker::Markers;
use crate::readback::{Readings, Watch};

/// A plan that is ready for a program.
#[derive(Debug)]
pub struct Placement {
    compiled: Arc<Compiled>,
    shared: Arc<SharedPlan>,
    plan: String,
    markers: Option<Markers>,
    /// What could not be had.
    remarks: Vec<String>,
}

/// What became of a program under a plan.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// How long it ran.
    pub took: Duration,
    /// What became of the plan.
    pub achieved: Achieved,
}

impl Placement {
    /// Compiles a plan for `command` on this machine.
    ///
    /// # Errors
    /// If the plan cannot be meant, the command is not found, or the library cannot be put into it.
    pub fn prepare(plan: &Plan, command: &[OsString]) -> Result<Self, ApplyError> {
        let program = find_executable(&command[0])?;
        match library_refused(&program) {
            Some(Refused::Static) => {
                return Err(ApplyError::Refused(format!(
                    "{} is statically linked: nothing can be loaded into it, so no plan can be applied; for a policy of the whole process use numactl",
                    program.display()
                )));
            }
            Some(Refused::Sanitizer(why)) => return Err(ApplyError::Refused(format!("no plan can be applied: {why}"))),
            None => {}
        }
        let machine = Machine::read(Path::new("/"));
        let (cpus, nodes) = allowed(&machine);
        let compiled = compile(plan, program, &machine, (&cpus, &nodes))?;
        let shared = compiled
            .share()
            .map_err(|source| ApplyError::System { what: "creating shared memory for the plan", source })?;
        let plan = plan.path.to_string_lossy().into_owned();
        let remarks = user_changer(&command[0]).into_iter().collect();
        let mut placement =
            Self { compiled: Arc::new(compiled), shared: Arc::new(shared), plan, markers: None, remarks };
        placement.watch_functions(&machine.online_cpus().collect::<Vec<u32>>())?;
        Ok(placement)
    }

    /// Phases that begin with functions.
    fn watch_functions(&mut self, cpus: &[u32]) -> Result<(), ApplyError> {
        match Markers::begin(Arc::clone(&self.shared), Arc::clone(&self.compiled), cpus) {
            Ok(markers) => self.markers = markers,
            Err(error) => {
                let why = match error.kind() {
                    io::ErrorKind::PermissionDenied => {
                        "only root, or who has the capability CAP_PERFMON, may watch functions".to_owned()
                    }
                    io::ErrorKind::NotFound => {
                        "this kernel has no probes in user code (CONFIG_UPROBE_EVENTS)".to_owned()
                    }
                    _ => error.to_string(),
                };
                let message = format!(
                    "phases that begin with a function cannot be had: {why}; announce them in the program instead (numamma_phase)"
                );
                if self.shared.header().strict != 0 {
                    return Err(ApplyError::Refused(message));
                }
                self.remarks.push(message);
            }
        }
        Ok(())
    }

    /// The plan as it was compiled.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// What names the plan to the library: variables and their values.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        vec![(wire::ENVIRONMENT.into(), self.shared.path().into())]
    }

    /// Begins to read back. A strict plan that fails ends the program that signals are passed on to.
    pub fn watch(&self) -> Watch {
        Watch::begin(Arc::clone(&self.shared), Arc::clone(&self.compiled), signals::end_program)
    }

    /// What became of the plan, when the program has ended.
    pub fn achieved(&mut self, watch: Watch) -> Achieved {
        let said = self.markers.take().map(Markers::end).unwrap_or_default();
        self.remarks.extend(said);
        let readings = watch.end();
        let header = self.shared.header();
        let mut remarks: Vec<String> =
            self.compiled.remarks.iter().map(|fault| self.remark(fault.line, &fault.message)).collect();
        remarks.extend(self.remarks.iter().cloned());
        for ((name, line), phase) in self.compiled.phases().zip(self.shared.phases()) {
            if phase.begun.load(Relaxed) == 0 {
                remarks.push(self.remark(line, &format!("phase \"{name}\" never began")));
            }
        }
        let lost = header.no_phase.load(Relaxed);
        if lost > 0 {
            remarks.push(format!("{lost} processes were in no phase: there are too many at once"));
        }
        let processes = header.joined.load(Relaxed);
        if processes == 0 {
            remarks.push(
                "no process of the program took the plan: it may be statically linked, executed under another user, or in a sandbox that hides /dev/shm"
                    .into(),
            );
        }
        let stopped =
            header.stopped.load(Relaxed).checked_sub(1).and_then(|rule| self.compiled.names.get(rule as usize));
        let rules = (0..self.compiled.names.len()).map(|rule| self.rule(rule, &readings)).collect();
        Achieved {
            version: 1,
            plan: self.plan.clone(),
            processes,
            pinned: header.pinned.load(Relaxed),
            not_pinned: header.not_pinned.load(Relaxed),
            stopped: stopped.map(|name| name.title.clone()),
            rules,
            remarks,
        }
    }

    fn remark(&self, line: usize, message: &str) -> String {
        match line {
            0 => message.to_owned(),
            _ => format!("{}:{line}: {message}", self.plan),
        }
    }

    fn rule(&self, n: usize, readings: &Readings) -> RuleAchieved {
        let (rule, name) = (&self.shared.rules()[n], &self.compiled.names[n]);
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed);
        let mut pages = Pages {
            right: read(&rule.right),
            elsewhere: read(&rule.elsewhere),
            unused: read(&rule.absent),
            unread: read(&rule.unread),
        };
        let mut by_node: BTreeMap<u32, u64> =
            (0..).zip(&rule.by_node).map(|(node, pages)| (node, read(pages))).filter(|(_, pages)| *pages > 0).collect();
        let left = readings.live.values().chain(&readings.left);
        for reading in left.filter(|reading| reading.rule == n) {
            pages.add(reading.pages);
            reading.by_node.iter().for_each(|(node, pages)| *by_node.entry(*node).or_default() += pages);
        }
        let refused = read(&rule.failed);
        RuleAchieved {
            object: name.title.clone(),
            policy: name.policy.into(),
            line: name.line,
            nodes: self.compiled.nodes_of(n).to_vec(),
            objects: read(&rule.matched),
            bytes: read(&rule.bytes),
            too_small: read(&rule.too_small),
            unlisted: read(&rule.unlisted),
            refused,
            refusal: (refused > 0).then(|| refusal(rule.last_error.load(Relaxed))),
            fell_back: read(&rule.fell_back),
            pages,
            page_sizes: readings.page_sizes.get(&n).copied().filter(|sizes| sizes.used > 0),
            by_node: by_node.into_iter().collect(),
        }
    }
}

/// Compiles a plan for `command` on another machine, which may be smaller or larger: of that, the folder `root` holds /proc and /sys.
///
/// # Errors
/// If the plan cannot be meant there, there is no machine, or the command is not found here.
pub fn compile_elsewhere(plan: &Plan, command: &[OsString], root: &Path) -> Result<Compiled, ApplyError> {
    let program = find_executable(&command[0])?;
    let machine = Machine::read(root);
    let cpus: Vec<u32> = machine.online_cpus().collect();
    if cpus.is_empty() {
        let message = format!("{}: no copy of a machine's /proc and /sys: no CPU is in it", root.display());
        return Err(ApplyError::Refused(message));
    }
    compile(plan, program, &machine, (&cpus, &[]))
}

fn compile(plan: &Plan, program: PathBuf, machine: &Machine, may: (&[u32], &[u32])) -> Result<Compiled, ApplyError> {
    // A script is run by its interpreter, and what is meant is what that runs.
    let is_script = std::fs::read(&program).is_ok_and(|bytes| bytes.starts_with(b"#!"));
    let files = Files { machine, cpus: may.0, nodes: may.1, program: (!is_script).then_some(program) };
    Ok(resolve(plan, &files)?)
}

/// What to say of a command that executes another under another user.
fn user_changer(command: &OsString) -> Option<String> {
    let name = Path::new(command).file_name()?.to_str()?;
    ["su", "sudo", "setpriv", "runuser", "doas", "gosu", "chpst"].contains(&name).then(|| {
        format!("what {name} executes under another user cannot open the plan: put numamma apply behind it, {name} ... numamma apply ...")
    })
}

/// CPUs and nodes that this process, and so the program, may use.
fn allowed(machine: &Machine) -> (Vec<u32>, Vec<u32>) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let read = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.and_then(list::parse).unwrap_or_default()
    };
    let mut cpus: Vec<u32> = machine.online_cpus().collect();
    let may = read("Cpus_allowed_list");
    if !may.is_empty() {
        cpus.retain(|cpu| may.contains(cpu));
    }
    (cpus, read("Mems_allowed_list"))
}

fn refusal(error: u32) -> String {
    /// errno of `mbind`, by the meaning that it has there.
    const MEANINGS: [(u32, &str); 4] = [
        (1, "not permitted (CAP_SYS_NICE, or a filter of system calls)"),
        (7, "more than 16384 pieces of placed memory: raise min-size, or choose larger blocks"),
        (12, "no memory for the kernel's own tables, or too many mappings (vm.max_map_count)"),
        (22, "this kernel does not know the policy, or the process may not use the nodes (cpuset)"),
    ];
    match MEANINGS.iter().find(|(number, _)| *number == error) {
        Some((_, meaning)) => (*meaning).into(),
        None => io::Error::from_raw_os_error(error as i32).to_string(),
    }
}

/// Runs a command under a plan.
///
/// # Errors
/// If it does not run.
pub fn apply(placement: &mut Placement, command: &[OsString]) -> Result<Outcome, ApplyError> {
    let mut library = Library::write()
        .map_err(|source| ApplyError::System { what: "writing the library that places memory", source })?;
    let mut environment = library.environment();
    environment.extend(placement.environment());
    signals::install();
    let suspended = suspended(command, &environment).map_err(|source| ApplyError::System { what: "fork", source })?;
    let began = Instant::now();
    let mut running = suspended.run(&command[0])?;
    signals::set_program(running.pid);
    let watch = placement.watch();
    let status = running.wait().unwrap_or_default();
    let took = began.elapsed();
    signals::program_ended();
    // What it left running has the library in its environment.
    if placement.shared.header().joined.load(Relaxed) > 1 {
        library.keep();
    }
    Ok(Outcome { ended: Ended::from_wait_status(status), took, achieved: placement.achieved(watch) })
}
