//! The end of a recording: what is known by number and address gets its names, and the parts become tables.

use std::rc::Rc;
use std::time::{Duration, Instant};

use numamma_symbols::Frame;
use numamma_trace::{
    BasisRow, CodeRow, FirstTouchRow, FrameRow, LossKind, MarkerRow, Meta, ModuleRow, NONE, ObjectRow, PageNodeRow,
    PartSampleRow, SampleRow, SiteRow, TraceError, TraceRow,
};

use crate::callsite::CallSite;
use crate::collect::now;
use crate::filter::Filter;
use crate::session::Session;
use crate::sink::Sink;
use crate::sites::{Place, SiteKind};
use crate::space::mappings::{Mapping, PathId};
use crate::watched::Watched;
use crate::window::Window;

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

    /// True if one is due.
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
    session.write_counts();
    meta.losses = session.losses.clone();
    meta.losses.add(LossKind::Incomplete, 1);
    meta.sampler.controls.left_out = session.left_out;
    meta.sampler.controls.thinned = session.thinning.factor();
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
    let writer = session.sink.writer();
    writer.write_rows(session.tasks.threads.iter().map(|thread| thread.row.clone()))?;
    writer.write_rows(session.tasks.processes.iter().map(|process| process.row.clone()))
}

/// These tables grow with the processes: their rows are made while they are written.
fn write_names(session: &mut Session, whole: bool) -> Result<(), TraceError> {
    let writer = session.sink.writer().clone();
    let named = call_sites(session, whole);
    if whole && !session.filter.keeps_all() {
        session.wanted_sites = named.iter().map(|site| is_wanted(&mut session.filter, site)).collect();
    }
    writer.write_rows(named.into_iter().enumerate().map(|(number, named)| site(session, number, named)))?;
    writer.write_rows((0..session.stacks.stacks.len()).flat_map(|number| frames(session, number)))?;
    let mut by_process: Vec<usize> = (0..session.stacks.stacks.len()).collect();
    by_process.sort_by_key(|&number| session.stacks.stacks[number].process);
    let mut stacks = by_process.as_slice();
    writer.write_rows((0..session.tasks.processes.len()).flat_map(|process| {
        let of = stacks.partition_point(|&number| session.stacks.stacks[number].process == process);
        let (own, others) = stacks.split_at(of);
        stacks = others;
        code(session, process, own)
    }))?;
    writer.write_rows((0..session.tasks.processes.len()).flat_map(|process| modules(session, process)))
}

/// Threads without a sample that have had no more than this part of the time of all others together are no loss worth a word: nearly
/// every pool and script has some.
const NEGLIGIBLE: f64 = 0.01;

/// Completes the dataset, or, once `stop` says so, closes it as fast as that can be: all rows are there then, but not all
/// names. `heap`: allocations were to be seen. What the user should know goes to `remarks`. Returns how many samples there are.
pub fn finish(
    mut session: Session,
    meta: &mut Meta,
    heap: bool,
    remarks: &mut Vec<String>,
    stop: fn() -> bool,
) -> Result<u64, TraceError> {
    let end = meta.end;
    session.callsites.stop = Some(stop);
    session.write_counts();
    session.trace_ends();
    let present: Vec<usize> = (0..session.tasks.processes.len()).filter(|&p| session.tasks.is_present(p)).collect();
    session.losses.add(LossKind::LeftRunning, present.len() as u64);
    for process in present {
        session.emit_objects(process, i64::MAX);
    }
    if heap {
        // The command's own process, the first, also without a sample: the kernel samples no set-user-id program.
        let processes = session.tasks.processes.iter().enumerate();
        let untracked = processes.filter(|(n, p)| p.row.tracked == 0 && (p.row.samples > 0 || *n == 0));
        let (others, untracked): (Vec<_>, Vec<_>) = untracked.partition(|(_, p)| p.is_other_users);
        session.losses.add(LossKind::OtherUser, others.len() as u64);
        session.losses.add(LossKind::UntrackedProcess, untracked.len() as u64);
    }
    let Window { from, until } = session.window;
    let unsampled = session.tasks.threads.iter().filter(|t| !t.seen && t.row.end_time < end);
    let unsampled = unsampled.filter(|t| t.row.start_time < until && t.row.end_time > from);
    let (mut count, mut most) = (0, 0);
    for thread in unsampled {
        count += 1;
        most += (thread.row.end_time - thread.row.start_time).min(session.clock.longest);
    }
    let sampled: i64 = session.tasks.threads.iter().map(|t| t.row.samples * meta.sampler.period as i64).sum();
    // A thread that accessed nothing has no count, and nothing is missing.
    if session.emulated.is_none() && most as f64 > NEGLIGIBLE * sampled as f64 {
        session.losses.add(LossKind::ShortThread, count);
    }
    session.losses.add(LossKind::CutStack, session.stacks.cut);
    session.losses.add(LossKind::Overwritten, session.evicted.count());

    if let Some(Watched { inside, .. }) = &session.watched {
        session.losses.add(LossKind::LeftUnseen, inside.left_unseen);
        let functions = &meta.sampler.controls.functions;
        let never = inside.never_entered().filter_map(|number| functions.get(number));
        remarks.extend(never.map(|name| format!("--in {name}: no thread entered it")));
    }

    if session.marked && !session.marks {
        remarks.push("--marked: the program never said numamma_begin(), so nothing was sampled".into());
    }

    // First what cannot be made again.
    session.sink.flush();
    let named = write_tasks(&session).and_then(|()| write_names(&mut session, !stop()));
    if !stop() {
        let unseen = session.callsites.unseen_wrappers();
        remarks.extend(unseen.map(|name| format!("--wrapper {name}: no allocation came from a function of that name")));
        let unseen = session.filter.unseen();
        remarks.extend(unseen.map(|name| format!("--object {name}: nothing of that name was accessed or allocated")));
    }
    let mut settling = Settling::new(&session);
    let mut losses = std::mem::take(&mut session.losses);
    let empty = Sink::new(session.sink.writer().clone());
    let sink = std::mem::replace(&mut session.sink, empty);
    let (writer, failed) = sink.close(&mut losses);
    meta.losses = losses;
    session.survey.close();
    let counts = session.estimate(meta.sampler.trace_windows.map_or(0.0, |trace_windows| trace_windows.fastest));
    if session.emulated.is_none() {
        meta.sampler.counted = Some(session.share_of_data_samples(counts.covered()));
        meta.sampler.unseen = counts.unseen();
        if let Some(trace_windows) = &mut meta.sampler.trace_windows {
            trace_windows.assumed = counts.assumed();
            trace_windows.error = Some(counts.error());
        }
    }
    let merged = named.and_then(|()| {
        writer.write_table::<BasisRow>(counts.bases())?;
        writer.remove_live::<ObjectRow>()?;
        // By thread: then times and addresses step along instead of jumping between threads.
        writer.merge_as::<PartSampleRow, SampleRow>(stop, |rows| {
            let (rows, owners) = settling.settle(rows);
            let mut rows = counts.apply(rows, &owners, |row| session.tasks.process_of(row.thread as usize));
            rows.sort_by_key(|row| (row.thread, row.time));
            rows
        })?;
        writer.merge::<FirstTouchRow>(stop, |rows| rows.sort_by_key(|row| (row.thread, row.time)))?;
        writer.merge::<TraceRow>(stop, |rows| rows.sort_by_key(|row| (row.thread, row.time)))?;
        writer.merge::<ObjectRow>(stop, |_| {})?;
        writer.merge::<PageNodeRow>(stop, |_| {})?;
        writer.merge::<MarkerRow>(stop, |rows| rows.sort_by_key(|row| row.time))?;
        if stop() { Err(TraceError::Stopped) } else { Ok(()) }
    });
    meta.sampler.controls.left_out = settling.left_out;
    meta.sampler.controls.thinned = 1 << settling.halvings;
    if matches!(merged, Err(TraceError::Stopped)) {
        meta.losses.add(LossKind::WritingCut, 1);
        writer.write_meta(meta)?;
        return Err(failed.unwrap_or(TraceError::Stopped));
    }
    let written = merged.and_then(|()| {
        meta.complete = true;
        writer.write_meta(meta)?;
        writer.remove_parts::<SampleRow>()?;
        writer.remove_parts::<FirstTouchRow>()?;
        writer.remove_parts::<TraceRow>()?;
        writer.remove_parts::<ObjectRow>()?;
        writer.remove_parts::<PageNodeRow>()?;
        writer.remove_parts::<MarkerRow>()
    });
    let Some(error) = failed.or(written.err()) else { return Ok(settling.samples) };
    // It was not cut: the program has ended, and what could be written was.
    let kind = if matches!(error, TraceError::DiskFull { .. }) { LossKind::DiskFull } else { LossKind::NotWritten };
    meta.losses.add(kind, 1);
    writer.write_meta(meta)?;
    Err(error)
}

/// What decides about rows that are written already: how often the recording was halved in the end, and what call sites are
/// called.
struct Settling {
    halvings: i32,
    /// Of each call site, whether its objects were asked for.
    wanted: Vec<bool>,
    left_out: u64,
    samples: u64,
}

impl Settling {
    fn new(session: &Session) -> Self {
        let (halvings, wanted) = (session.thinning.halvings() as i32, session.wanted_sites.clone());
        Self { halvings, wanted, left_out: session.left_out, samples: 0 }
    }

    /// The rows that stay, and the owners of what they access.
    fn settle(&mut self, rows: &mut Vec<PartSampleRow>) -> (Vec<SampleRow>, Vec<i32>) {
        let (mut settled, mut owners) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for row in rows.drain(..).filter(|row| row.survives >= self.halvings) {
            let costs = u64::from(row.cost > 0);
            if row.site != NONE && !self.wanted.get(row.site as usize).copied().unwrap_or(false) {
                self.left_out += costs << self.halvings;
                continue;
            }
            self.samples += costs;
            owners.push(row.owner);
            settled.push(row.settled(self.halvings));
        }
        (settled, owners)
    }
}

/// Functions at a code address, innermost first, with module and address in it.
fn source(session: &mut Session, image: Option<(PathId, u64)>) -> (&str, i64, Rc<[Frame]>) {
    let Some((path, vaddr)) = image else { return ("", 0, Rc::default()) };
    let frames = session.callsites.functions(&mut session.modules, (path, vaddr));
    (session.modules.path(path), vaddr as i64, frames)
}

/// Which frame of each call stack is the call site, and what is known of it; `whole`: with what takes a look at the code and
/// the debug information.
fn call_sites(session: &mut Session, whole: bool) -> Vec<CallSite> {
    let (modules, stacks) = (&mut session.modules, &session.stacks);
    let places: Vec<Vec<Place>> = stacks.stacks.iter().map(|stack| stacks.frames(stack).collect()).collect();
    let places: Vec<&[Place]> = places.iter().map(Vec::as_slice).collect();
    match whole {
        true => session.callsites.name(modules, &places),
        false => session.callsites.outline(modules, &places),
    }
}

/// True if objects of a call site were asked for: by its variable, its function or its line.
fn is_wanted(filter: &mut Filter, site: &CallSite) -> bool {
    let function = site.frame.as_ref().and_then(|(_, function)| function.as_ref());
    let name = function.map_or("", |function| &function.function);
    let file = function.and_then(|function| function.file.as_deref()).unwrap_or_default();
    let line = match function {
        Some(function) if !file.is_empty() => {
            format!("{}:{}", file.rsplit('/').next().unwrap_or_default(), function.line)
        }
        _ => String::new(),
    };
    filter.wants(&[&site.variable, name, &line])
}

fn frames(session: &Session, number: usize) -> impl Iterator<Item = FrameRow> {
    let places = session.stacks.frames(&session.stacks.stacks[number]).enumerate();
    places.map(move |(depth, place)| FrameRow { site: number as i32, depth: depth as i32, ip: place.call() as i64 })
}

fn site(session: &Session, number: usize, named: CallSite) -> SiteRow {
    let (stack, account) = (&session.stacks.stacks[number], &session.stacks.accounts[number]);
    let depth = named.frame.as_ref().map(|(depth, _)| *depth);
    let call = depth.and_then(|depth| session.stacks.frames(stack).nth(depth));
    let function = named.frame.and_then(|(_, function)| function).unwrap_or_default();
    SiteRow {
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
        ip: call.map_or(0, |place| place.call() as i64),
        depth: depth.map_or(NONE, |depth| depth as i32),
        via: named.via,
        name: named.variable,
        count: account.count as i64,
        bytes: account.bytes as i64,
        freed: account.freed as i64,
        peak_bytes: account.peak_bytes as i64,
        lifetime_min: account.lifetimes.shortest,
        lifetime_max: account.lifetimes.longest,
        lifetime_total: account.lifetimes.total,
    }
}

/// Source of all code addresses that occur in a process, with those of its call stacks.
fn code(session: &mut Session, process: usize, stacks: &[usize]) -> Vec<CodeRow> {
    let mut places: Vec<_> = session.code_places.of(process).collect();
    places.extend(session.stacks.places(stacks).iter().map(|place| (place.call(), place.image)));
    places.sort_unstable();
    places.dedup_by_key(|(ip, _)| *ip);
    let mut rows = Vec::with_capacity(places.len());
    for (ip, image) in places {
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
fn modules(session: &mut Session, process: usize) -> Vec<ModuleRow> {
    let mappings = session.tasks.processes[process].space.mappings.clone();
    let present = mappings.iter().map(|(start, m)| (start, *m, i64::MAX));
    let past = mappings.past_code().iter().map(|p| (p.start, p.mapping, p.until));
    let mut all: Vec<_> = present.collect();
    all.reverse();
    all.extend(past);
    let told = all.into_iter().filter(|(_, mapping, _)| mapping.is_file() || mapping.executable);
    told.map(|(start, mapping, until)| module_row(session, process, start, &mapping, until)).collect()
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use numamma_trace::{Dataset, DatasetWriter, UNKNOWN};

    use super::*;

    fn part(time: i64, survives: i32, thinned: i32, site: i32) -> PartSampleRow {
        PartSampleRow {
            time,
            thread: 0,
            cpu: 0,
            ip: 1,
            addr: 0,
            bytes: 0,
            access: 0,
            rule: 0,
            cost: 1 << thinned,
            accesses: 0.0,
            survives,
            thinned,
            site,
            trace_window: NONE,
            owner: NONE,
            memory: UNKNOWN,
        }
    }

    fn sample(time: i64) -> SampleRow {
        part(time, 0, 0, NONE).settled(0)
    }

    /// A recording of a process with samples in two parts, in code of this very file.
    fn session(dir: &Path) -> Session {
        let writer = DatasetWriter::create(dir, false).expect("a new folder");
        let mut session = Session::new(Sink::new(writer), 1, 4096);
        session.tasks.process(1, 0);
        session.sink.samples.extend([part(2, 0, 0, NONE), part(1, 0, 0, NONE)]);
        session.sink.flush();
        session.sink.samples.push(part(3, 0, 0, NONE));
        let maps = std::fs::read_to_string("/proc/self/maps").expect("proc");
        let start = u64::from_str_radix(maps.split('-').next().unwrap_or_default(), 16).expect("an address");
        let own = std::env::current_exe().expect("this program");
        let path = session.modules.intern(&own.to_string_lossy());
        session.code_places.note(0, 1, Some((path, is_code as fn() as usize as u64 - start)));
        session
    }

    #[inline(never)]
    fn is_code() {}

    #[test]
    fn who_is_told_to_stop_leaves_all_rows_and_looks_up_no_names() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let dir = place.path().join("stopped");
        let ended =
            finish(session(&dir), &mut Meta { exit: Some(3), ..Meta::default() }, true, &mut Vec::new(), || true);
        assert!(matches!(ended, Err(TraceError::Stopped)), "{ended:?}");
        let dataset = Dataset::open(&dir).expect("a dataset");
        assert_eq!((dataset.meta().complete, dataset.meta().exit), (false, Some(3)));
        assert_eq!(dataset.meta().losses.get(LossKind::WritingCut), 1);
        assert_eq!(dataset.read::<SampleRow>().expect("samples"), [sample(2), sample(1), sample(3)]);
        let code = dataset.read::<CodeRow>().expect("code");
        assert_eq!(code.iter().map(|row| row.function.as_str()).collect::<Vec<_>>(), [""]);
        assert!(code[0].module_offset > 0, "where it is in the file is known without looking");
    }

    #[test]
    fn what_was_written_before_the_last_halving_is_thinned_and_weighed_like_the_rest() {
        let mut settling = Settling { halvings: 2, wanted: vec![false, true], left_out: 5, samples: 0 };
        let mut rows =
            vec![part(1, 0, 0, NONE), part(2, 2, 0, NONE), part(3, 3, 1, 0), part(4, 2, 2, 1), part(5, 1, 1, 1)];
        let (settled, _) = settling.settle(&mut rows);
        assert_eq!(settled.iter().map(|row| (row.time, row.cost)).collect::<Vec<_>>(), [(2, 4), (4, 4)]);
        assert_eq!((settling.samples, settling.left_out), (2, 9));
    }

    #[test]
    fn who_is_not_leaves_a_whole_dataset() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let dir = place.path().join("whole");
        finish(session(&dir), &mut Meta::default(), true, &mut Vec::new(), || false).expect("a whole dataset");
        let dataset = Dataset::open(&dir).expect("a dataset");
        assert!(dataset.meta().complete);
        assert_eq!(dataset.read::<SampleRow>().expect("samples"), [sample(1), sample(2), sample(3)]);
        assert!(dataset.read::<CodeRow>().expect("code")[0].function.contains("is_code"));
    }
}
