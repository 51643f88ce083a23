//! The end of a recording: what is known by number and address gets its names, and the parts become tables.

use std::rc::Rc;
use std::time::{Duration, Instant};

use numamma_symbols::Frame;
use numamma_trace::{
    CodeRow, FirstTouchRow, FrameRow, LossKind, MarkerRow, Meta, ModuleRow, NONE, ObjectRow, PageNodeRow, ProcessRow,
    SampleRow, SiteRow, ThreadRow, TraceError,
};

use crate::collect::now;
use crate::session::Session;
use crate::sites::{Place, SiteKind};
use crate::space::mappings::{Mapping, PathId};

/// When names were last written for readers of an unfinished recording, and when they will be next. The interval doubles,
/// so that a long recording does not spend its time on what it may never need.
#[derive(Debug)]
pub struct Checkpoints {
    next: Instant,
    interval: Duration,
}

impl Checkpoints {
    /// The first is due after `interval`.
    pub fn new(interval: Duration) -> Self {
        Self { next: Instant::now() + interval, interval }
    }

    /// Whether one is due.
    pub fn due(&self) -> bool {
        Instant::now() >= self.next
    }

    fn done(&mut self) {
        self.interval *= 2;
        self.next = Instant::now() + self.interval;
    }
}

/// Writes what there is so far, so that a recorder that is killed leaves a readable dataset: all rows, and, when that is
/// due, what names them.
pub fn checkpoint(session: &mut Session, meta: &mut Meta, names: &mut Checkpoints) {
    meta.end = now();
    meta.losses = session.losses.clone();
    meta.losses.add(LossKind::Incomplete, 1);
    session.sink.flush();
    // A full disk shows in the flush above; the tables below are written again at the end, so their failures wait.
    let _ = write_tasks(session).and_then(|()| session.sink.writer().write_meta(meta));
    if names.due() {
        let mut objects: Vec<ObjectRow> = Vec::new();
        for process in 0..session.tasks.processes.len() {
            if session.tasks.is_present(process) {
                objects.extend(session.present_objects(process, i64::MAX));
            }
        }
        session.sink.number(&mut objects);
        let _ = session.sink.writer().write_live(&objects).and_then(|()| write_names(session, false));
        names.done();
    }
}

fn write_tasks(session: &Session) -> Result<(), TraceError> {
    let threads: Vec<ThreadRow> = session.tasks.threads.iter().map(|t| t.row.clone()).collect();
    let processes: Vec<ProcessRow> = session.tasks.processes.iter().map(|p| p.row.clone()).collect();
    let writer = session.sink.writer();
    writer.write_table(&threads)?;
    writer.write_table(&processes)
}

fn write_names(session: &mut Session, whole: bool) -> Result<(), TraceError> {
    let (sites, frames) = sites(session, whole);
    let (code, modules) = (code(session), modules(session));
    let writer = session.sink.writer();
    writer.write_table(&sites)?;
    writer.write_table(&frames)?;
    writer.write_table(&code)?;
    writer.write_table(&modules)
}

/// Completes the dataset. `heap`: allocations were to be seen. What the user should know goes to `remarks`.
pub fn finish(mut session: Session, mut meta: Meta, heap: bool, remarks: &mut Vec<String>) -> Result<(), TraceError> {
    let end = meta.end;
    let present: Vec<usize> = (0..session.tasks.processes.len()).filter(|&p| session.tasks.is_present(p)).collect();
    session.losses.add(LossKind::LeftRunning, present.len() as u64);
    for process in present {
        session.emit_objects(process, i64::MAX);
    }
    if heap {
        let untracked = session.tasks.processes.iter().filter(|p| p.row.tracked == 0 && p.row.samples > 0).count();
        session.losses.add(LossKind::UntrackedProcess, untracked as u64);
    }
    let unsampled = session.tasks.threads.iter().filter(|t| t.row.samples == 0 && t.row.end_time < end).count();
    session.losses.add(LossKind::ShortThread, unsampled as u64);
    session.losses.add(LossKind::CutStack, session.stacks.cut);

    let named = write_tasks(&session).and_then(|()| write_names(&mut session, true));
    let unseen = session.callsites.unseen_wrappers();
    remarks.extend(unseen.map(|name| format!("--wrapper {name}: no allocation came from a function of that name")));
    session.sink.flush();
    let mut losses = std::mem::take(&mut session.losses);
    let (writer, failed) = session.sink.close(&mut losses);
    meta.losses = losses;
    let written = named.and_then(|()| {
        writer.write_table::<MarkerRow>(&[])?;
        writer.remove_live::<ObjectRow>()?;
        // By thread: then times and addresses step along instead of jumping between threads.
        writer.merge::<SampleRow>(|rows| rows.sort_by_key(|row| (row.thread, row.time)))?;
        writer.merge::<FirstTouchRow>(|rows| rows.sort_by_key(|row| (row.thread, row.time)))?;
        writer.merge::<ObjectRow>(|_| {})?;
        writer.merge::<PageNodeRow>(|_| {})?;
        meta.complete = true;
        writer.write_meta(&meta)?;
        writer.remove_parts::<SampleRow>()?;
        writer.remove_parts::<FirstTouchRow>()?;
        writer.remove_parts::<ObjectRow>()?;
        writer.remove_parts::<PageNodeRow>()
    });
    match failed {
        Some(error) => Err(error),
        None => written,
    }
}

/// Functions at a code address, innermost first, with module and address in it.
fn source(session: &mut Session, image: Option<(PathId, u64)>) -> (&str, i64, Rc<[Frame]>) {
    let Some((path, vaddr)) = image else { return ("", 0, Rc::default()) };
    let frames = session.callsites.functions(&mut session.modules, (path, vaddr));
    (session.modules.path(path), vaddr as i64, frames)
}

/// The sites and their stacks; `whole`: with what takes a look at the code and the debug information.
fn sites(session: &mut Session, whole: bool) -> (Vec<SiteRow>, Vec<FrameRow>) {
    let (modules, stacks) = (&mut session.modules, &session.stacks);
    let places: Vec<&[Place]> = stacks.stacks.iter().map(|stack| stacks.frames(stack)).collect();
    let named = match whole {
        true => session.callsites.name(modules, &places),
        false => session.callsites.outline(modules, &places),
    };
    let (mut sites, mut frames) = (Vec::new(), Vec::new());
    for (number, ((stack, places), named)) in stacks.stacks.iter().zip(&places).zip(named).enumerate() {
        frames.extend(places.iter().enumerate().map(|(depth, place)| FrameRow {
            site: number as i32,
            depth: depth as i32,
            ip: place.call() as i64,
        }));
        let depth = named.frame.as_ref().map(|(depth, _)| *depth);
        let function = named.frame.and_then(|(_, function)| function).unwrap_or_default();
        sites.push(SiteRow {
            site: number as i32,
            process: stack.process as i32,
            kind: match stack.kind {
                SiteKind::Heap => "heap",
                SiteKind::Mmap => "mmap",
            }
            .into(),
            function: function.function,
            file: function.file.unwrap_or_default(),
            line: function.line as i32,
            ip: depth.map_or(0, |depth| places[depth].call() as i64),
            depth: depth.map_or(NONE, |depth| depth as i32),
            via: named.via,
            name: named.variable,
            count: stack.count as i64,
            bytes: stack.bytes as i64,
            freed: stack.freed as i64,
            peak_bytes: stack.peak_bytes as i64,
            lifetime_min: stack.lifetimes.shortest,
            lifetime_max: stack.lifetimes.longest,
            lifetime_total: stack.lifetimes.total,
        });
    }
    (sites, frames)
}

/// Source of all code addresses that occur.
fn code(session: &mut Session) -> Vec<CodeRow> {
    let mut places: Vec<_> = session.code_places.iter().map(|(&at, &image)| (at, image)).collect();
    for stack in &session.stacks.stacks {
        places.extend(session.stacks.frames(stack).iter().map(|p| ((stack.process, p.call()), p.image)));
    }
    places.sort_unstable();
    places.dedup_by_key(|(at, _)| *at);
    let mut rows = Vec::with_capacity(places.len());
    for ((process, ip), image) in places {
        let (module, module_offset, functions) = source(session, image);
        let row = CodeRow {
            process: process as i32,
            ip: ip as i64,
            depth: 0,
            module: module.to_owned(),
            module_offset,
            function: String::new(),
            file: String::new(),
            line: 0,
        };
        if functions.is_empty() {
            rows.push(row);
            continue;
        }
        rows.extend(functions.iter().enumerate().map(|(depth, f)| CodeRow {
            depth: depth as i32,
            function: f.function.clone(),
            file: f.file.clone().unwrap_or_default(),
            line: f.line as i32,
            ..row.clone()
        }));
    }
    rows
}

/// Mappings of files and of code; data mappings without a name say nothing that objects do not.
fn modules(session: &mut Session) -> Vec<ModuleRow> {
    let mut rows = Vec::new();
    for process in 0..session.tasks.processes.len() {
        let mappings = session.tasks.processes[process].space.mappings.clone();
        let present = mappings.iter().map(|(start, m)| (start, *m, i64::MAX));
        let past = mappings.past_code().iter().map(|p| (p.start, p.mapping, p.until));
        for (start, mapping, until) in present.chain(past) {
            if mapping.is_file() || mapping.executable {
                rows.push(module_row(session, process, start, &mapping, until));
            }
        }
    }
    rows
}

fn module_row(session: &mut Session, process: usize, start: u64, mapping: &Mapping, until: i64) -> ModuleRow {
    let named = mapping.is_file() || session.modules.path(mapping.path).starts_with('[');
    let path = if named { session.modules.path(mapping.path).to_owned() } else { "[jit]".to_owned() };
    let build_id = session
        .modules
        .get(mapping.path)
        .and_then(|module| module.build_id().map(|id| id.iter().map(|b| format!("{b:02x}")).collect()))
        .unwrap_or_default();
    ModuleRow {
        process: process as i32,
        path,
        build_id,
        start_addr: start as i64,
        end_addr: mapping.end as i64,
        file_offset: mapping.offset as i64,
        executable: mapping.executable.into(),
        map_time: mapping.from,
        unmap_time: until,
    }
}
