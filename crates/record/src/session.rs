//! The recording as it grows: events in the order of their time, applied to what is known of the program.

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;

use numamma_trace::{Access, FirstTouchRow, LossKind, Losses, NONE, PartSampleRow, Rule, ThreadRow, UNKNOWN};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::caller::Leaves;
use crate::callsite::CallSites;
use crate::clock::code::{CodeCache, Located};
use crate::clock::counts::evidence::{Clock, Sample};
use crate::clock::lift::STACK_POINTER;
use crate::clock::machine::Machine;
use crate::clock::rules::{self, Found};
use crate::code_places::CodePlaces;
use crate::exact::{Counts, Emulated, Traced};
use crate::filter::{Filter, Verdict};
use crate::modules::{ModuleStore, VDSO};
use crate::objects::{Touched, is_ours};
use crate::perf::decode::{Record, Registers, SharedMemory};
use crate::sink::Sink;
use crate::sites::{SiteKind, Stacks};
use crate::space::Space;
use crate::space::mappings::{InMemory, Mapping, MappingKind, MemoryId, PathId};
use crate::tasks::{PerProcess, ProcessId, Tasks, Thread, ThreadId};
use crate::thinning::Thinning;
use crate::trace_windows::counts::Counts as Estimate;
use crate::trace_windows::survey::{Stretch, Survey};
use crate::tracked::{Evicted, Tentative};
use crate::watched::Watched;
use crate::window::Window;

/// How long after its end a process may still have something outstanding in its rings, nanoseconds: until they are read once
/// more, which is done at leisure.
const OUTSTANDING: i64 = 4_000_000_000;

/// PROT_EXEC of a mapping.
const PROT_EXEC: u32 = 4;

/// True if a process belongs to another user than we do; not if it is gone.
fn is_other_users(pid: i32) -> bool {
    let user = |process: &str| std::fs::metadata(format!("/proc/{process}")).map(|folder| folder.uid()).ok();
    user(&pid.to_string()).is_some_and(|other| Some(other) != user("self"))
}

/// A thread's row without what its old address space meant.
fn cleared(row: &ThreadRow) -> ThreadRow {
    ThreadRow { stack_low: 0, stack_high: 0, tls_low: 0, tls_high: 0, ..row.clone() }
}

/// One recording in progress.
#[derive(Debug)]
pub struct Session {
    pub tasks: Tasks,
    pub stacks: Stacks,
    pub modules: ModuleStore,
    pub sink: Sink,
    pub losses: Losses,
    /// Processes that have ended, when, and of which something may be outstanding.
    ended: VecDeque<(i64, ProcessId)>,
    /// Objects that ended because another took their place, and whose release has not come in late.
    pub(crate) evicted: Evicted,
    /// Nanoseconds of thread time that a sample stands for.
    period: i64,
    /// How samples of a thread follow each other.
    pub clock: Clock,
    /// Objects other than heap and mmap that were touched.
    pub(crate) named: PerProcess<FxHashMap<crate::objects::Key, numamma_trace::ObjectRow>>,
    /// Live heap and mmap objects that were touched: only those get a row when they go.
    pub(crate) touched: PerProcess<FxHashSet<(SiteKind, u64)>>,
    /// Those of them that processes share: where they lie in that memory.
    pub(crate) in_memory: PerProcess<FxHashMap<u64, InMemory>>,
    /// Numbers of memory that processes share.
    memories: FxHashMap<SharedMemory, MemoryId>,
    /// Live heap and mmap objects whose pages were another's: the number of its row.
    pub(crate) moved_from: PerProcess<FxHashMap<(SiteKind, u64), i32>>,
    /// Releases that may yet be taken back: those of each thread's last event.
    pub(crate) tentative: FxHashMap<ThreadId, Tentative>,
    /// Code addresses that occur, with the file that held them at the time.
    pub code_places: CodePlaces,
    /// Sampled pages whose node is to be asked for.
    pub pages: FxHashMap<ProcessId, FxHashSet<u64>>,
    /// Nodes of pages as they were written last.
    pub page_nodes: PerProcess<FxHashMap<u64, i32>>,
    /// What has been looked up of code addresses.
    pub(crate) callsites: CallSites,
    pub(crate) code: CodeCache,
    /// Where functions of libraries have no frame.
    pub(crate) leaves: Leaves,
    /// What trace windows tell, if they are asked for.
    pub trace_windows: bool,
    pub(crate) survey: Survey,
    /// Numbers of what was accessed, with trace windows.
    owners: FxHashMap<(ProcessId, Touched), i32>,
    /// Threads that had samples, with the time of the last one.
    pub(crate) recent: FxHashMap<(i32, i32), i64>,
    /// Samples that show a data access.
    data_samples: u64,
    found: Vec<Found>,
    pub page_bytes: u64,
    /// True if pages may lie on different nodes.
    pub several_nodes: bool,
    /// Keep only samples whose access reads (or writes).
    pub only: Option<Access>,
    /// Keep only samples of that time.
    pub window: Window,
    /// Keep only samples of processes that have said that they are wanted.
    pub marked: bool,
    /// One of them has.
    pub marks: bool,
    /// Keep only samples inside the functions that are watched; none: everywhere.
    pub watched: Option<Watched>,
    /// Keep only accesses to some objects.
    pub filter: Filter,
    /// Of each call site, whether the filter wants its objects; known at the end.
    pub wanted_sites: Vec<bool>,
    /// Samples that were left out by the filter.
    pub left_out: u64,
    /// Keeps the number of samples within bounds.
    pub thinning: Thinning,
    /// Every access is counted: what is known of the emulator.
    pub emulated: Option<Emulated>,
    pub(crate) counts: Counts,
    /// Accesses that are traced one by one.
    pub(crate) traced: Traced,
}

/// What all rows of a sample have in common.
#[derive(Clone, Copy, Debug)]
struct Taken {
    time: i64,
    thread: ThreadId,
    cpu: i32,
    /// Halvings that it survives.
    survives: u32,
}

impl Session {
    /// A recording that has not seen anything yet. `period` in nanoseconds.
    pub fn new(sink: Sink, period: u64, page_bytes: u64) -> Self {
        Self {
            tasks: Tasks::default(),
            stacks: Stacks::default(),
            modules: ModuleStore::default(),
            sink,
            losses: Losses::default(),
            ended: VecDeque::new(),
            evicted: Evicted::default(),
            period: period as i64,
            clock: Clock::default(),
            named: PerProcess::default(),
            touched: PerProcess::default(),
            in_memory: PerProcess::default(),
            memories: FxHashMap::default(),
            moved_from: PerProcess::default(),
            tentative: FxHashMap::default(),
            code_places: CodePlaces::default(),
            pages: FxHashMap::default(),
            page_nodes: PerProcess::default(),
            callsites: CallSites::default(),
            code: CodeCache::default(),
            leaves: Leaves::default(),
            trace_windows: false,
            survey: Survey::default(),
            owners: FxHashMap::default(),
            recent: FxHashMap::default(),
            data_samples: 0,
            found: Vec::new(),
            page_bytes,
            several_nodes: false,
            only: None,
            window: Window::default(),
            marked: false,
            marks: false,
            watched: None,
            filter: Filter::default(),
            wanted_sites: Vec::new(),
            left_out: 0,
            thinning: Thinning::new(u64::MAX),
            emulated: None,
            counts: Counts::default(),
            traced: Traced::default(),
        }
    }

    /// Applies a record of the kernel's.
    pub fn record(&mut self, record: Record) {
        match record {
            Record::Sample { time, pid, tid, cpu, ip, registers, stack } => {
                self.sample(time, pid, tid, cpu, ip, &registers, &stack);
            }
            // The emulator tells of the program's own.
            Record::Fault { pid, .. } if self.emulated.as_ref().is_some_and(|emulated| emulated.is_emulator(pid)) => {}
            Record::Fault { time, pid, tid, cpu, ip, addr, top } => {
                self.fault(time, pid, tid, cpu, ip, addr, top);
            }
            Record::Probe { time, pid, tid, ip, number, registers } => {
                self.came_by(time, pid, tid, ip, number, &registers);
            }
            Record::Map { time, pid, start, len, offset, prot, path, shared } => {
                let process = self.tasks.process(pid, time);
                let kind = MappingKind::from_name(&path);
                let path_id = self.modules.intern(&path);
                // An emulator does not execute what it runs.
                let emulated = self.emulated.is_some() && kind == MappingKind::File;
                let executable = prot & PROT_EXEC != 0 || (emulated && self.modules.get(path_id).is_some());
                let command = &mut self.tasks.processes[process].row.command;
                // After exec the first code that is mapped is the executable's.
                if kind == MappingKind::File && executable && !command.starts_with('/') {
                    command.clone_from(&path);
                }
                let next = self.memories.len() as MemoryId;
                let memory = shared.map(|shared| *self.memories.entry(shared).or_insert(next));
                let end = start.saturating_add(len);
                let mapping = Mapping { end, offset, path: path_id, kind, executable, from: time, memory };
                let (gone, replaced) = self.tasks.processes[process].space.map(start, mapping);
                if !gone.is_empty() {
                    self.images_gone(process, &gone, time);
                }
                self.unmapped_unseen(process, &replaced, time);
            }
            Record::Name { time, pid, exec: true, name, .. } => {
                if let Some(emulated) = &mut self.emulated {
                    emulated.executes(pid, &name);
                }
                self.exec(pid, name, time);
            }
            Record::Name { time, pid, tid, exec: false, name } => {
                let thread = self.tasks.thread(pid, tid, time);
                self.tasks.threads[thread].row.name = name;
            }
            Record::Fork { time, pid, tid, parent, creator } => {
                if pid == parent {
                    match &mut self.emulated {
                        // The emulator's own threads begin before it counts.
                        Some(emulated) if !emulated.is_counting(pid) => drop(emulated.started.insert(tid, time)),
                        _ => drop(self.tasks.start_thread(pid, tid, time)),
                    }
                } else {
                    if let Some(emulated) = &mut self.emulated {
                        emulated.forks(parent, pid);
                    }
                    let of = self.tasks.process(parent, time);
                    let of = &mut self.tasks.processes[of];
                    let (space, command, tracked) = (of.space.fork(), of.row.command.clone(), of.row.tracked);
                    let child = self.tasks.start_process(pid, parent, space, command, time);
                    self.tasks.processes[child].row.tracked = tracked;
                    self.inherit_stack(creator, child);
                }
            }
            Record::Exit { time, pid, tid } => {
                self.recent.remove(&(pid, tid));
                if let Some(emulated) = &mut self.emulated
                    && emulated.started.remove(&tid).is_some()
                {
                    return;
                }
                let thread = self.tasks.end_thread(tid, time);
                if let (Some(thread), Some(watched)) = (thread, &mut self.watched) {
                    watched.inside.end(thread);
                }
                let process = self.tasks.process(pid, time);
                if self.tasks.processes[process].alive == 0 {
                    if let Some(emulated) = &mut self.emulated {
                        emulated.ends(pid);
                    }
                    self.end_process(pid, time);
                }
            }
            Record::TraceWindow { time, pid, tid, cpu, trace_window } => {
                self.trace_window(time, pid, tid, cpu, &trace_window)
            }
            Record::Lost { count } => self.losses.add(LossKind::PerfRing, count),
            Record::Throttled => self.losses.add(LossKind::Throttled, 1),
            Record::NoRegisters { time, pid, tid } => {
                if !self.window.contains(time) || self.watched.is_some() {
                    return;
                }
                let thread = self.tasks.thread(pid, tid, time);
                if self.is_wanted(self.tasks.process_of(thread))
                    && let Some(survives) = self.thinning.take(thread)
                {
                    self.push_unknown(Taken { time, thread, cpu: 0, survives }, 0, Rule::Unreadable);
                }
            }
        }
    }

    /// A process becomes another program: a new address space, a new main thread.
    fn exec(&mut self, pid: i32, name: String, time: i64) {
        // A child that was forked to execute something is not worth a process of its own in the report.
        let unused = self.tasks.present(pid).filter(|&process| self.tasks.processes[process].row.samples == 0);
        if let Some(process) = unused {
            self.forget_objects(process);
            let of = &mut self.tasks.processes[process];
            of.space = Space::default();
            of.is_other_users = is_other_users(pid);
            (of.row.command, of.row.tracked) = (name.clone(), 0);
            let main = of.main;
            self.tasks.set_stack(main, 0, 0);
            let main = &mut self.tasks.threads[main];
            let row = ThreadRow { name, ..cleared(&main.row) };
            *main = Thread { row, pointer: None, tls_since: i64::MAX, stack_touched: u64::MAX, seen: main.seen };
            self.no_longer_inside(pid);
            return;
        }
        self.no_longer_inside(pid);
        let parent = match self.end_process(pid, time) {
            Some(old) => self.tasks.processes[old].row.parent,
            None => 0,
        };
        let process = self.tasks.start_process(pid, parent, Space::default(), name.clone(), time);
        self.tasks.processes[process].is_other_users = is_other_users(pid);
        let main = self.tasks.processes[process].main;
        self.tasks.threads[main].row.name = name;
    }

    /// Drops what was noted of a process.
    pub(crate) fn forget_objects(&mut self, process: ProcessId) {
        *self.named.of(process) = FxHashMap::default();
        *self.touched.of(process) = FxHashSet::default();
        *self.in_memory.of(process) = FxHashMap::default();
        *self.moved_from.of(process) = FxHashMap::default();
        self.forget_pages(process);
    }

    fn end_process(&mut self, pid: i32, time: i64) -> Option<ProcessId> {
        let process = self.tasks.end_process(pid, time)?;
        self.emit_objects(process, time);
        self.code_places.end(process);
        self.ended.push_back((time, process));
        Some(process)
    }

    /// Nothing more will come of processes that ended well before `time`. Their tables are many.
    pub fn let_go(&mut self, time: i64) {
        while let Some(&(ended, process)) = self.ended.front()
            && ended < time.saturating_sub(OUTSTANDING)
        {
            self.ended.pop_front();
            self.stacks.end(process);
            let space = &mut self.tasks.processes[process].space;
            *space = Space { mappings: std::mem::take(&mut space.mappings), ..Space::default() };
        }
    }

    /// The forking thread goes on in the child on the same stack, with the same thread pointer.
    fn inherit_stack(&mut self, creator: i32, child: ProcessId) {
        let Some(from) = self.tasks.known_thread(creator) else { return };
        let (row, pointer) = (self.tasks.threads[from].row.clone(), self.tasks.threads[from].pointer);
        let main = self.tasks.processes[child].main;
        self.tasks.set_stack(main, row.stack_low as u64, row.stack_high as u64);
        let thread = &mut self.tasks.threads[main];
        (thread.row.tls_low, thread.row.tls_high) = (row.tls_low, row.tls_high);
        thread.pointer = pointer;
        thread.tls_since = thread.row.start_time;
        if let Some(watched) = &mut self.watched {
            watched.inside.fork(from, main);
        }
    }

    /// True if samples of a process are, as far as the program itself has a say in it.
    pub(crate) fn is_wanted(&self, process: ProcessId) -> bool {
        !self.marked || self.tasks.processes[process].space.wanted
    }

    #[allow(clippy::too_many_arguments)]
    fn sample(&mut self, time: i64, pid: i32, tid: i32, cpu: i32, ip: u64, registers: &Registers, stack: &[u8]) {
        if !self.window.contains(time) {
            return;
        }
        let thread = self.tasks.thread(pid, tid, time);
        let process = self.tasks.process_of(thread);
        let pointer = registers.general[usize::from(STACK_POINTER)];
        self.tasks.threads[thread].seen = true;
        self.learn_stack(thread, pointer);
        if !self.is_wanted(process) || !self.is_inside(process, thread, ip, registers) {
            return;
        }
        self.tasks.threads[thread].row.samples += 1;
        self.tasks.processes[process].row.samples += 1;
        // Also those that do not stay tell how often code ran.
        let survives = self.thinning.take(thread);
        let taken = survives.map(|survives| Taken { time, thread, cpu, survives });

        let mut general = [0; 16];
        general.copy_from_slice(&registers.general[..16]);
        let place = self.place(process, ip);
        if self.is_own_code(place) {
            if self.trace_windows {
                let (stretch, _) = self.find_stretch(process, ip);
                self.survey.sample((stretch, None), false);
            }
            if let Some(taken) = taken {
                self.code_places.note(process, ip, place);
                self.push_unknown(taken, ip, Rule::Recorder);
            }
            return;
        }
        let Some(located) = self.code.locate(&mut self.modules, pid, ip, place) else {
            let Some(taken) = taken else { return };
            self.losses.add(LossKind::UnknownCode, 1);
            self.code_places.note(process, ip, place);
            self.push_unknown(taken, ip, Rule::Unreadable);
            return;
        };
        if let Some(head) = self.waiting_caller(process, place, &located, stack) {
            if let Some(taken) = taken {
                let ip = head.wrapping_add(located.bias);
                let place = self.place(process, ip);
                self.code_places.note(process, ip, place);
                self.push_unknown(taken, ip, Rule::SpinWait);
            }
            return;
        }
        let machine = Machine::new(general, registers.flags, located.bias, self.tasks.threads[thread].pointer);
        let mut found = std::mem::take(&mut self.found);
        let stretch = self.trace_windows.then(|| self.find_stretch(process, ip));
        let mut unit = located.unit.borrow_mut();
        let (code, recovery, learnt) = unit.parts();
        let rule = rules::accesses(code, recovery, located.index, (&machine, stack), &mut found);
        if code.whole {
            let before = found.first().filter(|_| rule == Rule::Before);
            let sample = Sample {
                at: located.index,
                center: before.map_or(located.index, |found| found.op),
                stalled: code.may_have_stalled(located.index),
                time,
                clock: self.clock,
                number: self.tasks.threads[thread].row.samples as u64,
                machine: &machine,
                stack,
            };
            learnt.add(code, thread as i32, sample);
        }
        let blamed = matches!(rule, Rule::Before | Rule::Forward);
        self.data_samples += u64::from(blamed);
        if let Some(place) = stretch {
            self.recent.insert((pid, tid), time);
            self.survey.sample(place, blamed);
        }
        let Some(taken) = taken else {
            drop(unit);
            self.found = found;
            return;
        };
        let wanted = |f: &Found| self.only.is_none_or(|only| f.operand.access as i32 & only as i32 != 0);
        // An access of the other kind takes its cost with it; the counts of the block's other accesses stay.
        let blamed = blamed && found.first().is_some_and(wanted);
        found.retain(wanted);
        if !matches!(rule, Rule::Before | Rule::Forward) {
            // Of a loop that waits, its first instruction: one place for all of it.
            let head = code.ops[located.index].spin.filter(|_| rule == Rule::SpinWait);
            let ip = head.map_or(ip, |head| code.ops[head as usize].ip.wrapping_add(located.bias));
            let place = self.place(process, ip);
            self.code_places.note(process, ip, place);
            self.push_unknown(taken, ip, rule);
        }
        let mut kept = false;
        for (n, access) in found.iter().enumerate() {
            let costs = blamed && n == 0;
            let (touched, _) = self.touch(process, thread, access.addr, time);
            let row_ip = code.ops[access.op].ip.wrapping_add(located.bias);
            if let Some((number, Some((function, _)))) = stretch {
                let of = Stretch::Function(function, learnt.innermost_loop(code, access.op));
                let number = self.survey.stretch_beside(number, of);
                self.survey.learn(process, row_ip, (number, Some((function, access.op))));
            }
            if access.accesses > 0.0 {
                let weight = access.accesses * self.thinning.factor() as f32;
                learnt.weigh((thread as i32, row_ip, access.operand.access as i32), access.op, weight);
            }
            let Some(site) = self.judge(process, access.addr, touched, costs) else { continue };
            let place = self.place(process, row_ip);
            self.code_places.note(process, row_ip, place);
            kept |= costs;
            let cost = if costs { self.period } else { 0 };
            let row = PartSampleRow {
                ip: row_ip as i64,
                addr: access.addr as i64,
                bytes: access.operand.bytes as i32,
                access: access.operand.access as i32,
                rule: access.rule as i32,
                accesses: access.accesses * self.thinning.factor() as f32,
                site,
                owner: self.owner_number(process, touched),
                ..self.row(taken, cost)
            };
            self.sink.samples.push(row);
        }
        if kept {
            self.thinning.keep(taken.survives);
        }
        drop(unit);
        self.found = found;
    }

    /// The call site of an access that is kept where that decides later, else [`NONE`]; `None` if it is not kept.
    pub(crate) fn judge(&mut self, process: ProcessId, addr: u64, touched: Touched, costs: bool) -> Option<i32> {
        if self.filter.keeps_all() {
            return Some(NONE);
        }
        // The filter notes which names it saw, and the owner's name is the session's: they part for a moment.
        let mut filter = std::mem::take(&mut self.filter);
        let verdict = filter.judge(addr, self.owner(process, touched));
        self.filter = filter;
        match verdict {
            Verdict::Keep => Some(NONE),
            Verdict::AskSite(stack) => Some(stack as i32),
            Verdict::LeaveOut => {
                self.left_out += u64::from(costs) * self.thinning.factor();
                None
            }
        }
    }

    /// A row of a sample without an access.
    fn row(&self, Taken { time, thread, cpu, survives }: Taken, cost: i64) -> PartSampleRow {
        PartSampleRow {
            time,
            thread: thread as i32,
            cpu,
            ip: 0,
            addr: 0,
            bytes: 0,
            access: 0,
            rule: 0,
            cost: cost.saturating_mul(self.thinning.factor() as i64),
            accesses: 0.0,
            survives: survives as i32,
            thinned: self.thinning.halvings() as i32,
            site: NONE,
            trace_window: NONE,
            owner: NONE,
            memory: UNKNOWN,
        }
    }

    /// The number of what an address belongs to, where trace windows and samples of it are to be put together.
    pub(crate) fn owner_number(&mut self, process: ProcessId, touched: Touched) -> i32 {
        if !self.trace_windows {
            return NONE;
        }
        let next = self.owners.len() as i32;
        *self.owners.entry((process, touched)).or_insert(next)
    }

    /// Reads code that is in no file as soon as a sample of it arrives: when the sample's turn comes, its process may be
    /// gone, or the code another.
    pub fn save_code(&mut self, pid: i32, ip: u64) {
        if let Some(process) = self.tasks.present(pid)
            && self.place(process, ip).is_none()
        {
            self.code.save(pid, ip);
        }
    }

    /// What turns the rows into counts of accesses. `fastest`: see [`numamma_trace::TraceWindows`].
    pub fn estimate(&self, fastest: f64) -> Estimate<'_> {
        // At the shortest periods a sample costs as much as it stands for.
        let period = (self.period - self.clock.cost).max(self.period / 4);
        let factors = self.code.factors(period);
        // Trace windows stand for the processes that they were in.
        let followed = self.tasks.processes.iter().enumerate().filter(|(number, _)| self.survey.has_followed(*number));
        let samples: i64 = followed.map(|(_, process)| process.row.samples).sum();
        Estimate::new(factors, &self.survey, samples as f64 * period as f64, fastest)
    }

    /// A number of samples as a part (0..1) of those that show a data access.
    pub fn share_of_data_samples(&self, samples: u64) -> f64 {
        // Blocks with a basis have samples at instructions without access, too.
        (samples as f64 / self.data_samples.max(1) as f64).min(1.0)
    }

    /// The first instruction of the loop in a run time of OpenMP that calls the function of a sample to ask whether it still has to wait.
    fn waiting_caller(
        &mut self,
        process: ProcessId,
        place: Option<(PathId, u64)>,
        located: &Located,
        stack: &[u8],
    ) -> Option<u64> {
        if !located.unit.borrow().is_a_question() {
            return None;
        }
        let back = u64::from_le_bytes(*stack.first_chunk()?);
        let caller = self.place(process, back).filter(|(path, _)| place.is_some_and(|(own, _)| own == *path))?;
        self.code.waiting_loop(&mut self.modules, caller)
    }

    fn push_unknown(&mut self, taken: Taken, ip: u64, rule: Rule) {
        if !self.filter.keeps_all() {
            // It is at no object that anybody asked for.
            self.left_out += self.thinning.factor();
            return;
        }
        let row = PartSampleRow { ip: ip as i64, rule: rule as i32, ..self.row(taken, self.period) };
        self.sink.samples.push(row);
        self.thinning.keep(taken.survives);
    }

    /// True if code is in a library that we have put into the program.
    pub(crate) fn is_own_code(&self, place: Option<(PathId, u64)>) -> bool {
        place.is_some_and(|(path, _)| is_ours(self.modules.path(path)))
    }

    #[allow(clippy::too_many_arguments)]
    fn fault(&mut self, time: i64, pid: i32, tid: i32, cpu: i32, ip: u64, addr: u64, top: Option<u64>) {
        let thread = self.tasks.thread(pid, tid, time);
        let process = self.tasks.process_of(thread);
        let place = self.place(process, ip);
        // Our library reads tables of each file, in pages that also have constants of the program: that says nothing of the program.
        let by_us = place.is_some_and(|(path, _)| is_ours(self.modules.path(path)));
        let of_file = |(_, mapping): (u64, &Mapping)| mapping.kind == MappingKind::File;
        if by_us && self.tasks.processes[process].space.mappings.find(addr).is_some_and(of_file) {
            return;
        }
        self.code_places.note(process, ip, place);
        let access = self.code.access(&mut self.modules, pid, ip, place);
        let caller = top.and_then(|top| self.caller(process, place, top));
        if let Some(caller) = caller {
            let place = self.place(process, caller);
            self.code_places.note(process, caller, place);
        }
        self.sink.touches.push(FirstTouchRow {
            time,
            thread: thread as i32,
            cpu,
            ip: ip as i64,
            addr: addr as i64,
            access: access as i32,
            caller: caller.unwrap_or(0) as i64,
        });
        self.touch(process, thread, addr, time);
    }

    /// File and address in the file of a run-time address of code.
    pub fn place(&mut self, process: ProcessId, ip: u64) -> Option<(PathId, u64)> {
        let space = &self.tasks.processes[process].space;
        let Some((low, image)) = space.images.below(ip).filter(|(_, image)| ip < image.end) else {
            let (start, mapping) = space.mappings.find(ip)?;
            // The vdso is linked at address 0.
            return (self.modules.path(mapping.path) == VDSO).then_some((mapping.path, ip - start));
        };
        let (path, offset) = (image.path, image.offset);
        let bias = self.modules.get(path)?.bias_for_mapping(low, offset, numamma_symbols::Access::Unknown)?;
        Some((path, ip.wrapping_sub(bias)))
    }
}
