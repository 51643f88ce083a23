//! From what a person means to numbers: nodes, CPUs, addresses in the program's files.

use std::cell::OnceCell;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use numamma_symbols::origin::{LIBRARIES, is_it, is_library, is_wrapper};
use numamma_symbols::{Frame, Module, Variable, VariableKind};
use numamma_topology::Machine;
use numamma_wire::plan as wire;

use crate::compiled::{Compiled, Marker, RuleName};
use crate::error::{Fault, PlanError};
use crate::model::{Gather, Nodes, Object, PageSize, Phase, Pin, Plan, Policy, Site, Target};
use crate::sites::{Sites, joined, means};
use crate::size::format_size;

/// Where libraries lie that a program does not say more of.
const LIBRARY_FOLDERS: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// Programs that are there to start others.
const LAUNCHERS: [&str; 22] = [
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "orterun",
    "prterun",
    "srun",
    "bash",
    "dash",
    "sh",
    "zsh",
    "env",
    "time",
    "timeout",
    "nice",
    "nohup",
    "taskset",
    "numactl",
    "setpriv",
    "su",
    "sudo",
    "xargs",
    "stdbuf",
];

const PAGE: u64 = 4096;

/// Where the plan is to be applied.
#[derive(Debug)]
pub struct Files<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// CPUs and nodes that this process may use.
    pub cpus: &'a [u32],
    /// See there.
    pub nodes: &'a [u32],
    /// The executable that the command names; none: a script, or something that is not there.
    pub program: Option<PathBuf>,
}

/// Compiles a plan.
///
/// # Errors
/// All that cannot be meant on this machine and for these files. Where the plan is not strict, what is missing in the program is
/// only remarked on, and left out.
pub fn resolve(plan: &Plan, files: &Files<'_>) -> Result<Compiled, PlanError> {
    let mut resolver = Resolver {
        plan,
        files,
        modules: Vec::new(),
        compiled: Compiled { strict: plan.strict, ..Compiled::default() },
        faults: Vec::new(),
        cpus_of_threads: Vec::new(),
        caller_count: 0,
    };
    resolver.overlaps();
    resolver.pin();
    for object in &plan.objects {
        resolver.object(object);
    }
    for (n, phase) in plan.phases.iter().enumerate() {
        resolver.phase(n, phase);
    }
    resolver.skipped();
    resolver.compiled.whole = LIBRARIES.map(String::from).to_vec();
    resolver.compiled.modules =
        resolver.modules.iter().map(|module| (module.device, module.inode, module.module.start())).collect();
    if resolver.faults.is_empty() {
        return Ok(resolver.compiled);
    }
    resolver.faults.sort_by_key(|fault| fault.line);
    Err(PlanError::Faulty { path: plan.path.clone(), faults: resolver.faults })
}

/// Code of a module and its rule; how far it reaches is known when all of it is.
fn place(low: u64, high: u64, module: u32, rule: u32) -> wire::Place {
    wire::Place { low, high, module, rule, reach: 0 }
}

struct Opened {
    path: PathBuf,
    module: Rc<Module>,
    device: u64,
    inode: u64,
    /// Read when a place in it is asked for.
    sites: OnceCell<Sites>,
}

struct Resolver<'a> {
    plan: &'a Plan,
    files: &'a Files<'a>,
    modules: Vec<Opened>,
    compiled: Compiled,
    faults: Vec<Fault>,
    cpus_of_threads: Vec<Vec<u32>>,
    /// Callers that have a number.
    caller_count: u32,
}

impl Resolver<'_> {
    fn fault(&mut self, line: usize, message: impl Into<String>) {
        self.faults.push(Fault::new(line, message));
    }

    /// Where a launcher is the command, what it starts is meant.
    fn launcher_hint(&self, module: Option<&str>) -> String {
        let program = self.files.program.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
        match program.filter(|name| module.is_none() && self.plan.program.is_none() && LAUNCHERS.contains(name)) {
            Some(name) => {
                format!("; if {name} starts the program that is meant, say which at the top: program = \"PATH\"")
            }
            None => String::new(),
        }
    }

    /// A name that this program lacks is a fault of a strict plan; else the rest is applied.
    fn missing(&mut self, line: usize, message: String) {
        if self.plan.strict {
            self.fault(line, message);
        } else {
            self.compiled.remarks.push(Fault::new(line, message));
        }
    }

    /// Two objects that mean the same memory contradict each other; one for all the rest, behind the others, does not.
    fn overlaps(&mut self) {
        let objects = &self.plan.objects;
        for (n, object) in objects.iter().enumerate() {
            let same = |other: &&Object| {
                let sizes = other.bytes.start() <= object.bytes.end() && object.bytes.start() <= other.bytes.end();
                let instances = other.instances.start() <= object.instances.end()
                    && object.instances.start() <= other.instances.end();
                other.target == object.target
                    && other.module == object.module
                    && other.callers == object.callers
                    && sizes
                    && instances
            };
            if let Some(other) = objects[..n].iter().find(same) {
                let message = format!(
                    "overlaps the object of line {}: both mean {}; give them sizes or instances that exclude each other",
                    other.line,
                    object.title()
                );
                self.fault(object.line, message);
            }
        }
    }

    // ---- nodes and CPUs ----

    fn memory_nodes(&self) -> Vec<u32> {
        let has_memory = |node: &&numamma_topology::Node| node.online && node.memory_bytes != Some(0);
        let allowed = |id: &u32| self.files.nodes.is_empty() || self.files.nodes.contains(id);
        self.files.machine.nodes.iter().filter(has_memory).map(|node| node.id).filter(allowed).collect()
    }

    fn nodes(&mut self, line: usize, nodes: &Nodes) -> Vec<u32> {
        let there = self.memory_nodes();
        let is_memory_only = |id: &u32| self.files.machine.node(*id).is_some_and(|node| node.cpus.is_empty());
        let found: Vec<u32> = match nodes {
            Nodes::All => there,
            Nodes::WithCpus => there.into_iter().filter(|id| !is_memory_only(id)).collect(),
            Nodes::MemoryOnly => there.into_iter().filter(is_memory_only).collect(),
            Nodes::List(list) => {
                let names = numamma_topology::list::format(&there);
                for id in list.iter().filter(|id| !there.contains(id)) {
                    let message = format!("node {id}: this process can use the memory of node {names}");
                    self.faults.push(Fault::new(line, message));
                }
                list.iter().copied().filter(|id| there.contains(id)).collect()
            }
        };
        if found.is_empty() && !matches!(nodes, Nodes::List(_)) {
            self.fault(line, "this machine has no node of that kind");
        }
        found
    }

    fn pin(&mut self) {
        let machine = self.files.machine;
        let usable: Vec<u32> = self.files.cpus.to_vec();
        let node_of = |cpu: u32| machine.node_of_cpu(cpu).unwrap_or(0);
        // Node, socket, core, and which of the core's threads.
        let place = |id: u32| {
            let cpu = machine.cpus.iter().find(|cpu| cpu.id == id);
            let sibling = cpu.and_then(|cpu| cpu.siblings.iter().position(|&other| other == id)).unwrap_or(0);
            (node_of(id), cpu.and_then(|cpu| cpu.package), cpu.and_then(|cpu| cpu.core), sibling, id)
        };
        let lists = match &self.plan.pin {
            Pin::Free => Vec::new(),
            Pin::Compact => {
                let mut order = usable;
                order.sort_by_key(|&cpu| place(cpu));
                order.into_iter().map(|cpu| vec![cpu]).collect()
            }
            Pin::Scatter => {
                // The n-th of each node; within a node all cores before their second threads.
                let mut order = usable;
                order.sort_by_key(|&cpu| {
                    let (node, package, core, sibling, id) = place(cpu);
                    (node, sibling, package, core, id)
                });
                let mut rank = std::collections::BTreeMap::new();
                let mut ranked: Vec<(usize, u32, u32)> = order
                    .into_iter()
                    .map(|cpu| {
                        let n: &mut usize = rank.entry(node_of(cpu)).or_default();
                        *n += 1;
                        (*n, node_of(cpu), cpu)
                    })
                    .collect();
                ranked.sort_unstable();
                ranked.into_iter().map(|(.., cpu)| vec![cpu]).collect()
            }
            Pin::Places(places) => self.usable(places.cpus(machine, &usable)),
            Pin::List(lists) => self.usable(lists.clone()),
        };
        let mut nodes = lists.first().into_iter().flatten().map(|&cpu| machine.node_of_cpu(cpu));
        let first = nodes.next().flatten();
        self.compiled.main_node = first.filter(|_| nodes.all(|node| node == first));
        self.compiled.threads = lists.clone();
        self.cpus_of_threads = lists;
    }

    /// The same lists; CPUs that this process may not use are faults.
    fn usable(&mut self, lists: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
        let usable = self.files.cpus;
        for &cpu in lists.iter().flatten().filter(|cpu| !usable.contains(cpu)) {
            let names = numamma_topology::list::format(usable);
            self.faults.push(Fault::new(self.plan.pin_line, format!("CPU {cpu}: this process can use CPU {names}")));
        }
        lists
    }

    /// The node of a thread that the plan pins.
    fn node_of_thread(&mut self, line: usize, thread: u32) -> Option<u32> {
        if self.cpus_of_threads.is_empty() {
            self.fault(line, "follow-thread needs [threads] with pin = ..., or nobody knows where the thread will run");
            return None;
        }
        let cpus = &self.cpus_of_threads[thread as usize % self.cpus_of_threads.len()];
        let nodes: Vec<Option<u32>> = cpus.iter().map(|&cpu| self.files.machine.node_of_cpu(cpu)).collect();
        match nodes.first().copied().flatten() {
            Some(node) if nodes.iter().all(|other| *other == Some(node)) => Some(node),
            _ => {
                self.fault(line, format!("follow-thread: the CPUs of thread {thread} are not all of one node"));
                None
            }
        }
    }

    // ---- rules ----

    fn object(&mut self, object: &Object) {
        let Some(mut rule) = self.rule(object, &object.policy, object.line) else { return };
        let number = self.compiled.rules.len() as u32;
        rule.base = number;
        rule.phased = u32::from(!object.phases.is_empty());
        (rule.caller, rule.callers) = self.callers(object);
        match &object.target {
            Target::Static(name) => {
                rule.targets = wire::TARGET_STATIC;
                self.named_static(object, name, number);
            }
            Target::Heap(site) => {
                rule.targets = wire::TARGET_HEAP;
                rule.any_place = u32::from(site.is_none());
                self.places(object, site.as_ref(), number);
            }
            Target::Map(site) => {
                rule.targets = wire::TARGET_MAP;
                rule.any_place = u32::from(site.is_none());
                self.places(object, site.as_ref(), number);
            }
            Target::Label(name) => {
                rule.targets = wire::TARGET_LABEL;
                self.compiled.labels.push((name.clone(), number));
            }
            Target::Any => {
                rule.targets = wire::TARGET_STATIC | wire::TARGET_HEAP | wire::TARGET_MAP;
                rule.any_place = 1;
                self.all_statics(object, number);
            }
        }
        self.compiled.names.push(RuleName { title: object.title(), policy: object.policy.name(), line: object.line });
        self.compiled.rules.push(rule);
    }

    /// Where each object lies in a phase, and what begins it. There is a rule for each object by now, or a fault.
    fn phase(&mut self, number: usize, phase: &Phase) {
        let objects = &self.plan.objects;
        if self.compiled.rules.len() < objects.len() {
            return;
        }
        for (base, object) in objects.iter().enumerate() {
            let own = object.phases.iter().find(|own| own.phase == phase.name);
            let rule = own.and_then(|own| self.rule(object, &own.policy, own.line).map(|rule| (own, rule)));
            let stands_in = match rule {
                Some((own, mut rule)) => {
                    (rule.base, rule.phased) = (base as u32, 1);
                    let title = format!("{} in {}", object.title(), phase.name);
                    self.compiled.names.push(RuleName { title, policy: own.policy.name(), line: own.line });
                    self.compiled.rules.push(rule);
                    self.compiled.rules.len() as u32 - 1
                }
                None => base as u32,
            };
            self.compiled.overrides.push(stands_in);
        }
        self.compiled.phases.push((phase.name.clone(), phase.function.is_some(), phase.line));
        if let Some(function) = &phase.function {
            self.marker(number as u32, phase, function);
        }
    }

    /// The places where a function begins that begins a phase.
    fn marker(&mut self, number: u32, phase: &Phase, function: &str) {
        let Some((_, module)) = self.module(phase.line, phase.module.as_deref()) else { return };
        // gfortran appends an underscore to what is in no module.
        let found = module.functions_named(|name| is_it(name, function) || name.strip_suffix('_') == Some(function));
        let file = PathBuf::from(module.name());
        let path =
            self.modules.iter().find(|opened| Rc::ptr_eq(&opened.module, &module)).map_or(file, |o| o.path.clone());
        let whole = found.iter().filter(|function| !function.cold);
        let offsets: Vec<u64> = whole.filter_map(|function| module.file_offset(function.start)).collect();
        if offsets.is_empty() {
            let hint = "; it may be inlined, its name stripped, or in a library (module = \"...\")";
            self.missing(phase.line, format!("function \"{function}\": {} has no such function{hint}", module.name()));
        }
        let line = phase.line;
        self.compiled.markers.extend(offsets.into_iter().map(|offset| Marker {
            phase: number + 1,
            file: path.clone(),
            offset,
            line,
        }));
    }

    fn rule(&mut self, object: &Object, policy: &Policy, line: usize) -> Option<wire::Rule> {
        let faults = self.faults.len();
        let huge = object.page == Some(PageSize::Huge);
        if huge && !self.files.machine.huge_page_bytes.contains(&(2 << 20)) {
            self.missing(object.line, "page-size 2 MiB: this machine has no such pages; it gets those of 4 KiB".into());
        }
        let page = if huge { 2 << 20 } else { PAGE };
        let mut rule = wire::Rule {
            least: *object.bytes.start(),
            most: *object.bytes.end(),
            first: *object.instances.start(),
            last: *object.instances.end(),
            page_bytes: match object.page {
                None => 0,
                Some(PageSize::Small) => PAGE as u32,
                Some(PageSize::Huge) => 2 << 20,
            },
            ..wire::Rule::default()
        };
        let nodes = match policy {
            Policy::FirstTouch => {
                rule.policy = wire::POLICY_FIRST_TOUCH;
                // Where they are gathered by thread, that thread's node is among these.
                if object.gather.is_some() { self.memory_nodes() } else { Vec::new() }
            }
            Policy::Bind(nodes) => {
                rule.policy = wire::POLICY_BIND;
                self.nodes(line, nodes)
            }
            Policy::Preferred(nodes) => {
                rule.policy = wire::POLICY_PREFERRED;
                self.nodes(line, nodes)
            }
            Policy::Interleave(nodes) => {
                rule.policy = wire::POLICY_INTERLEAVE;
                self.nodes(line, nodes)
            }
            Policy::Weighted(nodes) => {
                rule.policy = wire::POLICY_WEIGHTED;
                self.nodes(line, nodes)
            }
            Policy::Block(nodes) => {
                rule.policy = wire::POLICY_BLOCK;
                self.nodes(line, nodes)
            }
            Policy::BlockCyclic { nodes, bytes } => {
                rule.policy = wire::POLICY_CYCLIC;
                rule.block_bytes = (bytes + page / 2) / page * page;
                rule.block_bytes = rule.block_bytes.max(page);
                if rule.block_bytes != *bytes {
                    let message = format!(
                        "block {}: pages have {}, so it is {}",
                        format_size(*bytes),
                        format_size(page),
                        format_size(rule.block_bytes)
                    );
                    self.compiled.remarks.push(Fault::new(line, message));
                }
                self.nodes(line, nodes)
            }
            Policy::Map { runs, repeat } => {
                rule.policy = wire::POLICY_MAP;
                rule.repeat = u32::from(*repeat);
                rule.run = self.compiled.runs.len() as u32;
                rule.runs = runs.len() as u32;
                let mut order: Vec<u32> = runs.iter().map(|(node, _)| *node).collect();
                order.sort_unstable();
                order.dedup();
                let order = self.nodes(line, &Nodes::List(order));
                let index = |node: u32| order.iter().position(|&other| other == node).unwrap_or(0) as u32;
                let runs = runs.iter().map(|&(node, pages)| wire::Run { pages, node: index(node), pad: 0 });
                self.compiled.runs.extend(runs);
                order
            }
            Policy::FollowThread(thread) => {
                rule.policy = wire::POLICY_BIND;
                self.node_of_thread(line, *thread).into_iter().collect()
            }
        };
        (rule.gather, rule.instances) = match object.gather {
            None => (wire::GATHER_NOT, 0),
            Some(Gather::ByThread) => (wire::GATHER_BY_THREAD, 0),
            Some(Gather::ByInstance(count)) => (wire::GATHER_BY_INSTANCE, count),
        };
        rule.node = self.compiled.nodes.len() as u32;
        rule.nodes = nodes.len() as u32;
        self.compiled.nodes.extend(nodes);
        (self.faults.len() == faults).then_some(rule)
    }

    // ---- modules ----

    /// The module that an object names, or the program.
    fn module(&mut self, line: usize, name: Option<&str>) -> Option<(u32, Rc<Module>)> {
        let path = match name {
            Some(name) => self.find(name),
            None => self.program(),
        };
        let Some(path) = path else {
            let message = match name {
                Some(name) => format!("module {name}: no such file, nor in the folders of libraries; give its path"),
                None => "the command is no executable file: name the one that is meant, program = \"PATH\"".into(),
            };
            self.missing(line, message);
            return None;
        };
        match self.open(&path) {
            Ok(opened) => Some(opened),
            Err(message) => {
                self.missing(line, message);
                None
            }
        }
    }

    fn program(&self) -> Option<PathBuf> {
        self.plan.program.clone().or_else(|| self.files.program.clone())
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        let as_is = Path::new(name);
        if as_is.components().count() > 1 || self.program().is_some_and(|p| p.file_name() == Some(as_is.as_os_str())) {
            let path = if as_is.components().count() > 1 { as_is.to_owned() } else { self.program()? };
            return path.is_file().then_some(path);
        }
        let beside = self.program().and_then(|program| Some(program.parent()?.to_owned()));
        let environment = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let named: Vec<PathBuf> = std::env::split_paths(&environment).collect();
        let folders = named.into_iter().chain(beside).chain(LIBRARY_FOLDERS.iter().map(PathBuf::from));
        folders.map(|folder| folder.join(name)).find(|path| path.is_file())
    }

    fn open(&mut self, path: &Path) -> Result<(u32, Rc<Module>), String> {
        let path = std::fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))?;
        if let Some(n) = self.modules.iter().position(|opened| opened.path == path) {
            return Ok((n as u32, self.modules[n].module.clone()));
        }
        let module = Rc::new(Module::open(&path).map_err(|error| error.to_string())?);
        let file = std::fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let opened =
            Opened { path, module: module.clone(), device: file.dev(), inode: file.ino(), sites: OnceCell::new() };
        self.modules.push(opened);
        Ok((self.modules.len() as u32 - 1, module))
    }

    // ---- static variables ----

    fn named_static(&mut self, object: &Object, name: &str, rule: u32) {
        let Some((number, module)) = self.module(object.line, object.module.as_deref()) else { return };
        let is_meant = |variable: &&Variable| {
            is_static(variable) && (variable.name == name || variable.symbol == name || is_it(&variable.name, name))
        };
        // A common block, or a member of one.
        let meant = |variable: &Variable| match is_meant(&variable) {
            true => vec![variable.clone()],
            false => variable.parts().filter(|part| part.name == name).collect(),
        };
        let mut found: Vec<Variable> = module.variables().flat_map(meant).collect();
        if found.is_empty() {
            let hint = self.launcher_hint(object.module.as_deref());
            self.missing(object.line, format!("static \"{name}\": {} has no such variable{hint}", module.name()));
            return;
        }
        // Several may have one name, in different files or functions: instances are counted by address.
        found.sort_by_key(|variable| variable.address);
        let sized: Vec<wire::Static> = found
            .iter()
            .filter(|variable| object.bytes.contains(&variable.size))
            .zip(0..)
            .filter(|(_, instance)| object.instances.contains(instance))
            .map(|(v, _)| wire::Static { address: v.address, bytes: v.size, module: number, rule })
            .collect();
        if sized.is_empty() {
            let message = format!(
                "static \"{name}\" has {}, which is not the size or instance asked for",
                format_size(found[0].size)
            );
            self.missing(object.line, message);
        }
        self.add_statics(object, sized);
    }

    fn all_statics(&mut self, object: &Object, rule: u32) {
        // Without an executable there are still the heap and mappings.
        let Some(path) = self.program() else { return };
        let Ok((number, module)) = self.open(&path) else { return };
        let large = module.variables().filter(|v| is_static(v) && v.writable && object.bytes.contains(&v.size));
        let statics = large.map(|v| wire::Static { address: v.address, bytes: v.size, module: number, rule }).collect();
        self.add_statics(object, statics);
    }

    /// The first rule for a variable decides.
    fn add_statics(&mut self, object: &Object, statics: Vec<wire::Static>) {
        for one in statics {
            let meets = |other: &wire::Static| {
                other.module == one.module
                    && one.address < other.address + other.bytes
                    && other.address < one.address + one.bytes
            };
            match self.compiled.statics.iter().find(|other| meets(other)).map(|other| other.rule) {
                None => self.compiled.statics.push(one),
                Some(rule) if object.target != Target::Any => {
                    let line = self.compiled.names.get(rule as usize).map_or(0, |name| name.line);
                    self.fault(
                        object.line,
                        format!("overlaps the object of line {line}: both mean memory of {}", object.title()),
                    );
                }
                Some(_) => {}
            }
        }
    }

    // ---- places in the code ----

    /// The code of an object's callers, numbered: the first number, and how many.
    fn callers(&mut self, object: &Object) -> (u32, u32) {
        let first = self.caller_count;
        for caller in &object.callers {
            let number = self.caller_count;
            self.caller_count += 1;
            // A library's place may be called by the library, or by the program.
            let mut modules = vec![self.module(object.line, object.module.as_deref())];
            if object.module.is_some() {
                modules.push(self.program().and_then(|path| self.open(&path).ok()));
            }
            let Site::Source { function, line } = caller else { continue };
            let mut places = Vec::new();
            for (module, _) in modules.into_iter().flatten() {
                let found = self.source_places(module, function.as_deref(), line.as_ref());
                let place = |(low, high)| place(low, high, module, wire::CALLER | number);
                places.extend(found.into_iter().map(place));
            }
            if places.is_empty() {
                self.missing(object.line, format!("callers: {caller}: no code is there"));
            }
            self.compiled.places.extend(places);
        }
        (first, self.caller_count - first)
    }

    fn places(&mut self, object: &Object, site: Option<&Site>, rule: u32) {
        let Some(site) = site else { return };
        match site {
            Site::Address(module, address) => {
                let named = object.module.as_deref().unwrap_or(module);
                let Some((number, _)) = self.module(object.line, Some(named)) else { return };
                // Reports name the instruction behind the call, or the last byte of the call.
                self.compiled.places.push(place(address.saturating_sub(1), address + 1, number, rule));
            }
            Site::Source { function, line } => {
                let Some((number, module)) = self.module(object.line, object.module.as_deref()) else { return };
                let found = self.source_places(number, function.as_deref(), line.as_ref());
                if found.is_empty() {
                    let launcher = self.launcher_hint(object.module.as_deref());
                    let hint = if !launcher.is_empty() {
                        launcher.as_str()
                    } else if line.is_some() && !module.has_debug_information() {
                        " (it has no debug information, so lines are not known)"
                    } else if object.module.is_none() {
                        "; if it is in a library, say module = \"...\""
                    } else {
                        ""
                    };
                    self.missing(object.line, format!("{site}: no code of {} is there{hint}", module.name()));
                }
                self.compiled.places.extend(found.into_iter().map(|(low, high)| place(low, high, number, rule)));
            }
        }
    }

    fn is_users(&self, frame: &Frame) -> bool {
        !is_library("", &frame.function, frame.file.as_deref().unwrap_or_default())
            && !is_wrapper(&frame.function)
            && !self.plan.wrappers.iter().any(|name| is_it(&frame.function, name))
    }

    /// Code whose first frame of the user's is the place: ranges of its bytes. Of a function without a line, also all that is inlined
    /// into it.
    fn source_places(&self, number: u32, function: Option<&str>, line: Option<&(String, u32)>) -> Vec<(u64, u64)> {
        let opened = &self.modules[number as usize];
        let sites = opened.sites.get_or_init(|| Sites::of(&opened.module, |frame| self.is_users(frame)));
        let mut ranges = sites.ranges(function, line);
        if let (Some(function), None) = (function, line) {
            let named = opened.module.functions_named(|name| means(name, function));
            ranges.extend(named.iter().map(|found| (found.start, found.end)));
        }
        joined(ranges)
    }

    /// Functions that allocate for others, in the modules that places are in.
    fn skipped(&mut self) {
        let mut skipped = Vec::new();
        for (number, opened) in self.modules.iter().enumerate() {
            let others = opened.module.functions_named(|name| {
                is_library("", name, "")
                    || is_wrapper(name)
                    || self.plan.wrappers.iter().any(|wrapper| is_it(name, wrapper))
            });
            let place = |low, high| place(low, high, number as u32, wire::SKIPPED);
            skipped.extend(others.iter().map(|function| place(function.start, function.end)));
        }
        if self.compiled.places.is_empty() {
            return;
        }
        self.compiled.places.extend(skipped);
    }
}

fn is_static(variable: &Variable) -> bool {
    matches!(variable.kind, VariableKind::Object | VariableKind::CommonBlock)
}

#[cfg(test)]
mod tests {
    use numamma_topology::{Cpu, Node};

    use super::*;

    /// Two nodes of two cores with two threads each, as Linux numbers them: CPUs 0-3 the cores' first threads, 4-7 their second.
    /// A third node has memory alone.
    fn machine() -> Machine {
        let node = |id, cpus: &[u32]| Node {
            id,
            online: true,
            cpus: cpus.to_vec(),
            memory_bytes: Some(1 << 30),
            memory_only: cpus.is_empty(),
            ..Node::default()
        };
        let cpu = |id: u32| Cpu {
            id,
            online: true,
            node: Some(id % 4 / 2),
            package: Some(id % 4 / 2),
            core: Some(id % 4 % 2),
            siblings: vec![id % 4, id % 4 + 4],
            ..Cpu::default()
        };
        let nodes = vec![node(0, &[0, 1, 4, 5]), node(1, &[2, 3, 6, 7]), node(2, &[])];
        Machine { nodes, cpus: (0..8).map(cpu).collect(), page_bytes: Some(4096), ..Machine::default() }
    }

    fn compile(text: &str, cpus: &[u32]) -> Result<Compiled, String> {
        let plan = Plan::parse(&format!("version = 1\n{text}"), Path::new("plan.toml")).expect("a plan");
        let files = Files { machine: &machine(), cpus, nodes: &[], program: None };
        resolve(&plan, &files).map_err(|error| error.to_string())
    }

    #[test]
    fn neighbours_are_near_or_far() {
        let pinned = |way: &str| {
            compile(&format!("threads.pin = \"{way}\""), &[0, 1, 2, 3, 4, 5, 6, 7]).map(|c| c.threads.concat())
        };
        assert_eq!(pinned("compact"), Ok(vec![0, 4, 1, 5, 2, 6, 3, 7]));
        assert_eq!(pinned("scatter"), Ok(vec![0, 2, 1, 3, 4, 6, 5, 7]));
        // Of the CPUs that this process may use.
        let few = compile("threads.pin = \"scatter\"", &[1, 2, 3]).map(|compiled| compiled.threads.concat());
        assert_eq!(few, Ok(vec![1, 2, 3]));
    }

    #[test]
    fn places_of_openmp() {
        let pinned = |places: &str| {
            compile(&format!("threads.pin = \"{places}\""), &[0, 1, 2, 3, 4, 5, 6, 7]).map(|c| c.threads)
        };
        assert_eq!(pinned("cores"), Ok(vec![vec![0, 4], vec![1, 5], vec![2, 6], vec![3, 7]]));
        assert_eq!(pinned("numa_domains(1)"), Ok(vec![vec![0, 1, 4, 5]]));
        assert_eq!(pinned("threads(2)"), Ok(vec![vec![0], vec![4]]));
        assert_eq!(pinned("{0,4},{2:2}"), Ok(vec![vec![0, 4], vec![2, 3]]));
        let beyond = pinned("{7:2}").expect_err("there is no CPU 8");
        assert!(beyond.contains("plan.toml:2: CPU 8: this process can use CPU 0-7"), "{beyond}");
    }

    /// Each phase has a rule for each object: its own, or the one that it has always.
    #[test]
    fn another_rule_stands_in_for_an_object_in_a_phase() {
        let text = "[[phase]]\nname = \"a\"\n[[phase]]\nname = \"b\"\n\
                    [[object]]\nheap = \"*\"\nmin-size = \"1 MiB\"\npolicy = \"first-touch\"\n\
                    [object.phase.b]\npolicy = \"block\"\nnodes = [1, 0]\n[object.phase.a]\npolicy = \"interleave\"\n\
                    [[object]]\nlabel = \"part\"\npolicy = \"bind\"\nnodes = [2]\n[object.phase.a]\npolicy = \"first-touch\"\n";
        let compiled = compile(text, &[0]).expect("a plan");
        let titles: Vec<&str> = compiled.names.iter().map(|name| name.title.as_str()).collect();
        assert_eq!(titles, ["heap blocks", "part", "heap blocks in a", "part in a", "heap blocks in b"]);
        assert_eq!(compiled.overrides, [2, 3, 4, 1]);
        assert_eq!([0, 1, 2].map(|phase| compiled.rule_in(phase, 0)), [0, 2, 4]);
        assert_eq!([0, 1, 2].map(|phase| compiled.rule_in(phase, 1)), [1, 3, 1]);
        // From one phase to the next, or out of it.
        assert_eq!([0, 1, 2].map(|phase| compiled.rule_in(phase, 3)), [1, 3, 1]);
        assert_eq!(compiled.nodes_of(4), [1, 0]);
        let targets: Vec<u32> = compiled.rules.iter().map(|rule| rule.targets).collect();
        assert_eq!(targets, [wire::TARGET_HEAP, wire::TARGET_LABEL, 0, 0, 0]);
        let shared = compiled.share().expect("memory");
        assert_eq!((shared.phases().len(), shared.header().labels.count, shared.header().overrides.count), (2, 1, 4));
    }

    #[test]
    fn nodes_by_kind_and_by_thread() {
        let nodes = |policy: &str| {
            let text = format!("threads.pin = [\"0\", \"6\"]\n[[object]]\nheap = \"*\"\n{policy}");
            compile(&text, &[0, 6]).map(|compiled| compiled.nodes_of(0).to_vec())
        };
        assert_eq!(nodes("policy = \"interleave\""), Ok(vec![0, 1, 2]));
        assert_eq!(nodes("policy = \"interleave\"\nnodes = \"with-cpus\""), Ok(vec![0, 1]));
        assert_eq!(nodes("policy = \"bind\"\nnodes = \"memory-only\""), Ok(vec![2]));
        assert_eq!(nodes("policy = \"block\"\nnodes = [2, 0]"), Ok(vec![2, 0]));
        assert_eq!(nodes("policy = \"follow-thread\"\nthread = 1"), Ok(vec![1]));
        // A list that is too short begins anew.
        assert_eq!(nodes("policy = \"follow-thread\"\nthread = 2"), Ok(vec![0]));
        assert!(nodes("policy = \"bind\"\nnodes = [3]").is_err_and(|error| error.contains("node 3")));
    }

    #[test]
    fn blocks_are_rounded_to_pages_and_it_is_said() {
        let text = "[[object]]\nheap = \"*\"\npolicy = \"block-cyclic\"\nblock = 10000";
        let compiled = compile(text, &[0]).expect("a plan that can be meant");
        assert_eq!(compiled.rules[0].block_bytes, 8192);
        assert!(
            compiled.remarks.iter().any(|remark| remark.line == 2 && remark.message.contains("8 KiB")),
            "{:?}",
            compiled.remarks
        );
    }
}
