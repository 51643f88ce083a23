//! One recording from start to end.

use std::ffi::OsString;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use numamma_process::{
    Ended, Hooks, Library, Refused, Running, find_executable, hooks_of, library_refused, signals, suspended,
};
use numamma_topology::{CacheModel, Machine, Prefetch, Probe, Refusal};
use numamma_trace::{Access, Controls, FORMAT, Folder, LossKind, Losses, Meta, SamplerMeta, Trace, TraceError};
use numamma_wire::{ENVIRONMENT, Segment};

use crate::clock::tick;
use crate::collect::{Collector, LIBRARY_INTERVAL, LibraryReader, now};
use crate::cost;
use crate::error::RecordError;
use crate::exact::command::{self, Runnable};
use crate::exact::{Emulated, Tracing};
use crate::filter::Filter;
use crate::finish;
use crate::notice::Notice;
use crate::perf::events::{Events, Refused as NoEvents, Watch};
use crate::perf::glances::Glances;
use crate::probes;
use crate::progress::{Milestones, Progress};
use crate::session::Session;
use crate::sink::Sink;
use crate::thinning::Thinning;
use crate::trace_windows::{Shared, Taker, glance_period};
use crate::watched::Watched;
use crate::window::{self, Switch, Window};

/// Longest time between two looks at the rings.
const SCAN_INTERVAL: Duration = Duration::from_millis(50);
/// Time between two flushes to the dataset: what a killed recorder loses at most.
const FLUSH_INTERVAL: Duration = Duration::from_secs(2);
/// Time between two questions for the nodes of newly touched pages: nobody can be asked when the program has ended.
const NODES_INTERVAL: Duration = Duration::from_millis(50);
/// The most that the questions may take of the time, as a divisor: while the kernel answers, the program cannot map memory.
const NODES_SHARE: u32 = 100;
/// But never longer than this: a run of a few seconds is to be asked about more than once.
const NODES_LONGEST: Duration = Duration::from_secs(1);

/// Deepest call stack of an allocation: all that the wire can carry. Interpreters go deep.
const MAX_FRAMES: u32 = 128;

/// Bytes of a thread's ring: 13,000 allocations, which a reader that has to wait for a CPU needs. Only what a thread has
/// written takes memory.
const RING_BYTES: u32 = 512 << 10;

/// Longest time between two looks at the plug-in's counters: what it sends in one go fills its ring.
const COUNTS_INTERVAL: Duration = Duration::from_millis(2);
/// Bytes of a thread's ring of counters.
const COUNTS_RING_BYTES: u32 = 1 << 20;

/// What tells the library in a program that is executed later how to go over to the emulator.
const EMULATOR_VARIABLE: &str = "NUMAMMA_EMULATOR";
const PLUGIN_VARIABLE: &str = "NUMAMMA_PLUGIN";
/// What tells it where counts of the program's own hooks go.
const COUNTS_VARIABLE: &str = "NUMAMMA_COUNTS";

/// Longest time that a thread of an emulated program may be off its CPU without an event of its coming too late, nanoseconds.
const EMULATION_SLACK: i64 = 500_000_000;

/// How to sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampler {
    /// Registers at every tick of a clock.
    #[default]
    Clock,
    /// Every access counted, by the program's own hooks or in an emulator.
    Exact,
}

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// How to sample.
    pub sampler: Sampler,
    /// Directory of the dataset; made from the program's name if absent.
    pub output: Option<PathBuf>,
    /// Replace a recording that is there.
    pub force: bool,
    /// Samples per second of thread time; chosen from `overhead` if absent.
    pub rate: Option<f64>,
    /// Keep only samples whose access reads (or writes); absent: all.
    pub only: Option<Access>,
    /// Share of the program's time that sampling may cost, 0..1.
    pub overhead: f64,
    /// True if to see allocations (needs the library in the program).
    pub heap: bool,
    /// Functions that allocate for their callers, which their objects are to be told by.
    pub wrappers: Vec<String>,
    /// Time from the start of the program to the first sample.
    pub after: Duration,
    /// Time from there to the last; absent: to the end of the program.
    pub lasting: Option<Duration>,
    /// Sample only between `numamma_begin` and `numamma_end` of the program.
    pub marked: bool,
    /// Keep only samples inside these functions, each `FUNCTION` or `FILE:FUNCTION`; none: everywhere.
    pub functions: Vec<String>,
    /// Keep only accesses to objects of these names, and in `ranges`; neither: all.
    pub objects: Vec<String>,
    /// Addresses, both ends included.
    pub ranges: Vec<RangeInclusive<u64>>,
    /// Most samples that the recording may have.
    pub max_samples: u64,
    /// Part (0..1) of the time that threads may be stopped to be followed; absent: none is.
    pub trace_windows: Option<f64>,
    /// Accesses to be traced one by one, where every access is counted: `after` and `lasting` are then when.
    pub trace: Option<u64>,
    /// The caches of a model that says which accesses reach memory, where every access is counted.
    pub caches: Option<CacheModel>,
    /// Variables added to the program's environment, for what else the library is to do in it.
    pub environment: Vec<(OsString, OsString)>,
    /// Told now and then how far a long recording is.
    pub progress: Option<fn(Progress)>,
}

/// A finished recording.
#[derive(Debug)]
pub struct Outcome {
    /// Directory of the dataset.
    pub dir: PathBuf,
    /// How the program ended.
    pub ended: Ended,
    /// Samples that the dataset has, or accesses, if all were counted.
    pub samples: u64,
    /// True if all accesses were counted.
    pub exact: bool,
    /// What is missing from it.
    pub losses: Losses,
    /// The signal that ended the writing of the dataset, if one did: it has all rows, but not all names.
    pub stopped: Option<i32>,
    /// Why the dataset is not whole, if it is not. The program ran to its end nevertheless.
    pub failure: Option<RecordError>,
    /// Things the user should know, one line each.
    pub remarks: Vec<String>,
}

/// Runs a program and records it.
///
/// # Errors
/// If the recording cannot begin: nothing has run then.
pub fn record(options: &Options) -> Result<Outcome, RecordError> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(RecordError::Architecture(std::env::consts::ARCH.into()));
    }
    signals::survive_file_limit();
    let program = &options.command[0];
    let executable = find_executable(program)?;
    let probe = Probe::read(Path::new("/"));
    let machine = Machine::read(Path::new("/"));
    let exact = options.sampler == Sampler::Exact;
    let runnable = if exact { Some(Runnable::find(&executable, &options.command)?) } else { None };
    let hooks = runnable.as_ref().map_or(Ok(Hooks::None), |runnable| hooks_that_serve(runnable, options))?;
    let by_hooks = matches!(hooks, Hooks::Offered(_));
    let emulator = match exact {
        true => command::emulator(),
        false => None,
    };
    if exact && !by_hooks && emulator.is_none() {
        return Err(RecordError::NoEmulator);
    }
    let sampler = if exact { every_access(options) } else { choose_rate(options, &probe)? };
    let probes = find_probes(options, &executable)?;
    // Until the program runs, a failure leaves the folder as it was.
    let (folder, mut remarks) = (create_output(options, program)?, Vec::new());

    // What the program gets: the library and the segment, unless they would do it harm or no good.
    let examined = runnable.as_ref().map_or(&executable, |runnable| &runnable.executable);
    // What counts takes the place of the runtime that would mind.
    let refused = options.heap.then(|| library_refused(examined)).flatten().filter(|_| !by_hooks);
    let mut tracking =
        if options.heap && refused.is_none() { Some(Tracking::new(exact.then_some(&hooks))?) } else { None };
    let mut environment = tracking.as_ref().map_or(Vec::new(), Tracking::environment);
    environment.extend(options.environment.iter().cloned());
    let mut counting = match &runnable {
        Some(runnable) => {
            Some(Counting::new(runnable, emulator.as_deref(), (by_hooks, options.caches), &mut environment)?)
        }
        None => None,
    };
    let command = counting.as_ref().and_then(|counting| counting.command.as_ref()).unwrap_or(&options.command);

    signals::install();
    let suspended = suspended(command, &environment).map_err(RecordError::system("fork"))?;
    let cpus: Vec<u32> = machine.online_cpus().collect();
    let periods = (!exact).then(|| tick::beat(sampler.period));
    let what = match periods {
        Some(periods) => Watch::Clock(periods),
        None if by_hooks => Watch::Faults,
        None => Watch::Memory,
    };
    // It can be done without. Before the others, which take all the memory that may be locked.
    let period = glance_period(sampler.tick_cost);
    let glances = options.trace_windows.and_then(|_| Glances::open(suspended.pid(), &cpus, period).ok());
    let late = window::begins_late(options.after);
    let opened = Events::open(suspended.pid(), &cpus, what, late)
        .map_err(|error| no_events(error, &probe, cpus.len()))
        .and_then(|mut events| {
            if let Some((kind, probes)) = &probes {
                events.probe(*kind, probes).map_err(|error| probes_refused(&error))?;
            }
            Ok(events)
        });
    let mut events = match opened {
        Ok(events) => events,
        Err(error) => {
            suspended.cancel();
            return Err(error);
        }
    };

    let mut meta = describe(options, &machine, &probe, sampler);
    let mut session = Session::new(Sink::new(folder.writer()), meta.sampler.period, meta.page_bytes);
    session.only = options.only;
    session.clock = tick::clock_of(meta.sampler.period, meta.sampler.tick_cost);
    session.emulated = exact.then(Emulated::default);
    session.counts.memory_known = options.caches.is_some();
    session.several_nodes = meta.nodes > 1;
    session.callsites.wrappers.clone_from(&options.wrappers);
    session.watched = probes.map(|(_, probes)| Watched::new(probes, options.functions.len()));
    session.marked = options.marked;
    session.filter = Filter::new(&options.objects, &options.ranges);
    session.thinning = Thinning::new(options.max_samples);
    if let Some(Refused::Sanitizer(why)) = &refused {
        session.losses.add(LossKind::Sanitizer, 1);
        remarks.push(format!("allocations are not tracked: {why}"));
    }
    if events.faults_refused.is_some() {
        session.losses.add(LossKind::FirstTouch, 1);
    }
    // Until it is finished, it is cut: whatever ends us.
    let cut = Meta { losses: [(LossKind::Incomplete, 1)].into_iter().collect(), ..meta.clone() };
    session.sink.writer().write_meta(&cut)?;

    let tracing = options.trace.zip(counting.as_ref());
    let tracing = tracing.map(|(most, counting)| Tracing::new(&counting.segment, most));
    if options.after.is_zero() {
        tracing.iter().for_each(|tracing| tracing.switch(true));
    }
    let mut running = suspended.run(program)?;
    folder.keep();
    signals::set_program(running.pid);
    meta.start = now();
    let window = Window::new(meta.start, options.after, options.lasting);
    // Counts are of the whole run.
    session.window = if exact { Window::default() } else { window };
    session.traced.window = window;
    let mut collector = Collector::default();
    collector.slack = if exact { EMULATION_SLACK } else { 0 };
    let counts = counting.iter().map(|c| &c.segment);
    let segments: Vec<&Segment> = counts.chain(tracking.iter().map(|t| &t.segment)).collect();
    let interval = if exact { COUNTS_INTERVAL } else { LIBRARY_INTERVAL };
    let reader = (!segments.is_empty()).then(|| LibraryReader::of(segments, interval));
    let trace_windows = options.trace_windows.map(|_| Arc::new(Shared::default()));
    session.trace_windows = trace_windows.is_some();
    trace_windows
        .iter()
        .for_each(|trace_windows| session.offer_threads(trace_windows, Some((running.pid, running.pid))));
    let taker = trace_windows.as_ref().zip(options.trace_windows).map(|(shared, share)| {
        let taker = Taker { shared: shared.clone(), share, tick: meta.sampler.tick_cost, glances };
        std::thread::spawn(move || taker.run())
    });
    let sources = Sources {
        events: &mut events,
        reader: reader.as_ref(),
        trace_windows: trace_windows.as_deref(),
        tracing: tracing.as_ref(),
    };
    let cpu_time = cost::own_cpu_time();
    let mut milestones = Milestones::new(options.progress);
    let ended = watch(&mut running, sources, &mut collector, &mut session, &mut meta, &mut milestones);
    milestones.ended();
    let trace_used_up = tracing.is_some_and(Tracing::end);
    if let (Some(shared), Some(taker)) = (&trace_windows, taker) {
        shared.stop();
        // It panics for nothing; if it did, there are no more trace windows.
        let _ = taker.join();
        let (tally, refused) = shared.tally();
        remarks.extend(refused.map(|why| format!("--windows: {why}")));
        meta.sampler.trace_windows = Some(tally);
    }

    // What was written before the end is in the rings; descendants that live on are not waited for.
    loop {
        let waiting = reader.as_ref().map_or(0, |reader| reader.scan(true));
        collector.scan(&mut events, reader.as_ref(), trace_windows.as_deref(), &mut session);
        if waiting < crate::collect::MOST_WAITING {
            break;
        }
    }
    collector.finish(&mut session);
    if let Some(reader) = &reader {
        reader.close(&mut session.losses);
    }
    // Before the events are closed: with probes that takes the kernel a while.
    meta.end = now();
    if !exact {
        meta.sampler.cost = Some(cost::of(&meta, events.clock_time(), cpu_time));
    }
    drop(events);
    if session.tasks.are_present() || tracking.as_ref().is_some_and(Tracking::is_written) {
        // They look for it whenever they execute something.
        let files = counting.iter_mut().filter_map(|counting| counting.files.as_mut());
        files.chain(tracking.iter_mut().map(|tracking| &mut tracking.library)).for_each(Library::keep);
    }
    meta.exit = Some(ended.status());
    if let Some(trace) = &mut meta.sampler.trace {
        trace.accesses = session.traced.accesses;
        trace.used_up = trace_used_up;
        if trace.used_up {
            remarks.push(format!("--trace: it ends after {} accesses; --trace=N has more", trace.accesses));
        }
    }
    meta.sampler.hooks = session.emulated.as_ref().is_some_and(|emulated| emulated.has_hooks);
    let not_emulated = close_emulation(&mut session, ended, &mut remarks);
    let dir = session.sink.dir().to_owned();
    let counted: u64 = session.tasks.threads.iter().map(|t| t.row.samples as u64).sum();
    let finished = finish::finish(session, &mut meta, options.heap, &mut remarks, || signals::to_end().is_some());
    let stopped = signals::to_end().filter(|_| matches!(finished, Err(TraceError::Stopped)));
    let samples = if exact { counted } else { *finished.as_ref().unwrap_or(&0) };
    let failure = finished.err().filter(|_| stopped.is_none()).map(RecordError::from).or(not_emulated);
    Ok(Outcome { dir, ended, samples, exact, losses: meta.losses, stopped, failure, remarks })
}

/// What the emulator could not do, if the program ended for that.
fn close_emulation(session: &mut Session, ended: Ended, remarks: &mut Vec<String>) -> Option<RecordError> {
    let mut emulated = session.emulated.take()?;
    remarks.extend(emulated.close(&mut session.losses, ended.status() != 0));
    let unknown = emulated.unknown_instruction;
    session.emulated = Some(emulated);
    let (pid, ip) = unknown.filter(|_| ended == Ended::Signal(libc::SIGILL))?;
    let place = session.tasks.latest(pid).and_then(|process| session.place(process, ip));
    let place =
        place.map_or(format!("{ip:#x}"), |(path, offset)| format!("{}+{offset:#x}", session.modules.path(path)));
    Some(RecordError::Emulation(format!(
        "{} cannot run this program: the instruction at {place} is one of AVX-512; build it without",
        command::EMULATOR
    )))
}

/// The program's own hooks, if they are to count.
fn hooks_that_serve(runnable: &Runnable, options: &Options) -> Result<Hooks, RecordError> {
    let hooks = hooks_of(&runnable.executable);
    if let Hooks::Bound(why) = &hooks {
        let program = options.command[0].to_string_lossy();
        return Err(RecordError::Emulation(format!("{program} was compiled with -fsanitize=thread, but {why}")));
    }
    if !options.heap && hooks != Hooks::None {
        return Err(RecordError::Emulation(
            "a program that counts by itself needs the library in it: leave out --no-heap".into(),
        ));
    }
    Ok(hooks)
}

/// What counts the accesses, and the rings that it writes to.
struct Counting {
    segment: Segment,
    /// Command line of the emulator, if it runs the program.
    command: Option<Vec<OsString>>,
    files: Option<Library>,
}

impl Counting {
    /// `environment` is what the program is to have; the emulator itself gets no library of ours.
    fn new(
        runnable: &Runnable,
        emulator: Option<&Path>,
        (by_hooks, caches): (bool, Option<CacheModel>),
        environment: &mut Vec<(OsString, OsString)>,
    ) -> Result<Self, RecordError> {
        let segment = Segment::create(numamma_wire::Options {
            ring_bytes: COUNTS_RING_BYTES,
            clock: numamma_wire::Clock::best(),
            caches: caches.as_ref().map(compiled),
            ..Default::default()
        })
        .map_err(RecordError::system("creating shared memory for counters"))?;
        environment.push((COUNTS_VARIABLE.into(), segment.path().into()));
        let Some(emulator) = emulator else { return Ok(Self { segment, command: None, files: None }) };
        let files = Library::write().map_err(RecordError::system("writing the emulator's plug-in"))?;
        let plugin = files.write_plugin().map_err(RecordError::system("writing the emulator's plug-in"))?;
        // For what the program executes: the library goes over to the emulator.
        environment.push((EMULATOR_VARIABLE.into(), emulator.into()));
        environment.push((PLUGIN_VARIABLE.into(), command::plugin_option(&plugin, &segment.path())));
        if by_hooks {
            return Ok(Self { segment, command: None, files: Some(files) });
        }
        let own = environment.iter().find(|(name, _)| name == "LD_PRELOAD").map(|(_, value)| value.clone());
        let preload = own.or_else(|| std::env::var_os("LD_PRELOAD").filter(|value| !value.is_empty()));
        environment.retain(|(name, _)| name != "LD_PRELOAD");
        environment.push(("LD_PRELOAD".into(), "".into()));
        let command = runnable.command(emulator, &plugin, &segment.path(), preload.as_deref())?;
        Ok(Self { segment, command: Some(command), files: Some(files) })
    }
}

/// A model of caches as who counts gets it.
fn compiled(caches: &CacheModel) -> numamma_wire::Caches {
    let prefetch = match caches.prefetch {
        Prefetch::None => 0,
        Prefetch::Next => 1,
        Prefetch::Stride => 2,
    };
    let (sets, ways) = (caches.sets(), caches.ways());
    numamma_wire::Caches { line: caches.line, prefetch, sockets: caches.sockets, sets, ways }
}

/// The library in the program and the rings it writes to.
struct Tracking {
    library: Library,
    segment: Segment,
}

impl Tracking {
    /// `hooks`: what is known of the program's own, if all accesses are counted.
    fn new(hooks: Option<&Hooks>) -> Result<Self, RecordError> {
        let mut library =
            Library::write().map_err(RecordError::system("writing the library that tracks allocations"))?;
        let exact = hooks.is_some();
        if let Some(hooks) = hooks {
            // Also where the emulator counts: what the program executes may have hooks.
            let runtime = if let Hooks::Offered(runtime) = hooks { runtime.as_deref() } else { None };
            library.write_hooks(runtime).map_err(RecordError::system("writing the library that counts accesses"))?;
        }
        let segment = Segment::create(numamma_wire::Options {
            max_frames: MAX_FRAMES,
            ring_bytes: RING_BYTES,
            clock: numamma_wire::Clock::best(),
            // Who counts must be told of every block.
            collapse: !exact,
            exact,
            ..Default::default()
        })
        .map_err(|error| {
            RecordError::system(match error.kind() {
                io::ErrorKind::FileTooLarge => {
                    "no shared memory for allocation events: raise the limit on the size of files (ulimit -f), or leave them out with --no-heap"
                }
                _ => "creating shared memory for allocation events",
            })(error)
        })?;
        Ok(Self { library, segment })
    }

    /// True if a thread still writes into it.
    fn is_written(&self) -> bool {
        self.segment.active_rings().any(|ring| !ring.has_ended())
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut environment = self.library.environment();
        environment.push((ENVIRONMENT.into(), self.segment.path().into()));
        environment
    }
}

/// Where events come from.
struct Sources<'a> {
    events: &'a mut Events,
    reader: Option<&'a LibraryReader<'a>>,
    trace_windows: Option<&'a Shared>,
    tracing: Option<&'a Tracing<'a>>,
}

/// Reads the rings until the program has ended.
fn watch(
    running: &mut Running,
    Sources { events, reader, trace_windows, tracing }: Sources<'_>,
    collector: &mut Collector,
    session: &mut Session,
    meta: &mut Meta,
    milestones: &mut Milestones,
) -> Ended {
    let (notice, wake) = (Notice::new(), Notice::new());
    let rings = events.rings();
    std::thread::scope(|scope| {
        let notify = || notice.iter().for_each(Notice::give);
        if let Some(reader) = reader {
            scope.spawn(move || reader.run(notify));
        }
        if let Some(wake) = &wake {
            let rings = &rings;
            scope.spawn(move || rings.run(wake, notify));
        }
        let mut fds: Vec<i32> = notice.iter().map(AsRawFd::as_raw_fd).collect();
        // SAFETY: asks for a descriptor of our own child, owned by nobody else; -1 on old kernels is ignored by poll.
        let exit = unsafe { libc::syscall(libc::SYS_pidfd_open, running.pid, 0) } as i32;
        // SAFETY: a new descriptor that is ours.
        let exit = (exit >= 0).then(|| unsafe { OwnedFd::from_raw_fd(exit) });
        fds.extend(exit.as_ref().map(AsRawFd::as_raw_fd));
        let mut polled: Vec<libc::pollfd> =
            fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
        let (mut flushed, mut asked, mut ask_after) = (Instant::now(), Instant::now(), NODES_INTERVAL);
        let mut names = finish::Checkpoints::new(FLUSH_INTERVAL);
        let mut switch = match tracing {
            Some(_) => Switch::new(session.traced.window),
            None => Switch::of_clock(session.window),
        };
        let status = loop {
            let turn = |on| match tracing {
                Some(tracing) => tracing.switch(on),
                None => events.enable_clock(on),
            };
            let wait = switch.turn(now(), turn).min(SCAN_INTERVAL);
            // SAFETY: `polled` is a live array of that many entries.
            unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as _, wait.as_millis() as i32) };
            for entry in &mut polled {
                if entry.revents & (libc::POLLHUP | libc::POLLERR) != 0 {
                    entry.fd = -1;
                }
            }
            if let Some(notice) = &notice {
                notice.take();
            }
            let ended = running.ended();
            if ended.is_some() {
                // Its id may be another's from now on.
                signals::program_ended();
            }
            collector.scan(events, reader, trace_windows, session);
            if let Some(trace_windows) = trace_windows {
                session.offer_threads(trace_windows, ended.is_none().then_some((running.pid, running.pid)));
            }
            if asked.elapsed() >= ask_after {
                let began = Instant::now();
                session.ask_nodes(now());
                asked = Instant::now();
                ask_after = ((asked - began) * NODES_SHARE).clamp(NODES_INTERVAL, NODES_LONGEST);
            }
            if session.sink.is_full() || flushed.elapsed() >= FLUSH_INTERVAL {
                finish::checkpoint(session, meta, &mut names);
                flushed = Instant::now();
            }
            milestones.pass(session);
            if let Some(status) = ended {
                break status;
            }
        };
        if let Some(reader) = reader {
            reader.stop();
        }
        if let Some(wake) = &wake {
            rings.stop(wake);
        }
        Ended::from_wait_status(status)
    })
}

fn only_name(options: &Options) -> Option<String> {
    options.only.map(|access| if access == Access::Read { "read" } else { "write" }.to_owned())
}

/// Nothing is sampled.
fn every_access(options: &Options) -> SamplerMeta {
    let trace = options.trace.map(|most| Trace {
        most,
        accesses: 0,
        used_up: false,
        after: nanoseconds(options.after),
        lasting: options.lasting.map(nanoseconds),
    });
    let caches = options.caches.map(|caches| caches.to_string());
    SamplerMeta { kind: "exact".into(), period: 1, only: only_name(options), trace, caches, ..SamplerMeta::default() }
}

fn choose_rate(options: &Options, probe: &Probe) -> Result<SamplerMeta, RecordError> {
    let cost = tick::measure_cost().map_err(|error| refusal(error, probe))?;
    let rate = match options.rate {
        None => tick::rate_for(options.overhead, cost, probe.max_sample_rate),
        Some(rate) => match probe.max_sample_rate {
            Some(max) if rate > max as f64 => return Err(RecordError::RateTooHigh { rate, max }),
            _ => rate,
        },
    };
    let period = tick::period_of(rate);
    let rate_hz = 1e9 / period as f64;
    let (only, overhead) = (only_name(options), cost * rate_hz / 1e9);
    Ok(SamplerMeta {
        kind: "clock".into(),
        period,
        rate_hz,
        tick_cost: cost,
        overhead,
        only,
        counted: None,
        hooks: false,
        caches: None,
        unseen: 0.0,
        controls: controls(options),
        trace_windows: None,
        trace: None,
        cost: None,
    })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn controls(options: &Options) -> Controls {
    Controls {
        after: nanoseconds(options.after),
        lasting: options.lasting.map(nanoseconds),
        marked: options.marked,
        functions: options.functions.clone(),
        objects: options.objects.clone(),
        ranges: options.ranges.iter().map(|range| format!("{:#x}-{:#x}", range.start(), range.end())).collect(),
        max_samples: options.max_samples,
        ..Controls::default()
    }
}

/// What is to be watched for `--in`, and the type of the kernel's events for it.
fn find_probes(options: &Options, executable: &Path) -> Result<Option<(u32, Vec<probes::Probe>)>, RecordError> {
    if options.functions.is_empty() {
        return Ok(None);
    }
    let kind = numamma_perf::probe::pmu_type().map_err(|_| {
        RecordError::NoProbes("this kernel has no probes in user code (CONFIG_UPROBE_EVENTS): leave it out".into())
    })?;
    Ok(Some((kind, probes::find(&options.functions, executable)?)))
}

fn probes_refused(error: &io::Error) -> RecordError {
    RecordError::NoProbes(match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "only root, or who has the capability CAP_PERFMON, may watch functions: run numamma with sudo, or leave it out".into()
        }
        _ if error.raw_os_error() == Some(libc::EMFILE) => {
            "too many places to watch for the limit on open files; raise it (ulimit -n), or name fewer functions".into()
        }
        _ => format!("the kernel refuses to watch that function ({error})"),
    })
}

/// Opens the events of a recording on this process, to see whether that is permitted, and closes them again.
///
/// # Errors
/// Those that a recording would end with.
pub fn try_events(machine: &Machine, probe: &Probe) -> Result<(), RecordError> {
    let cpus: Vec<u32> = machine.online_cpus().collect();
    let what = Watch::Clock(tick::beat(tick::period_of(*tick::RATES.start())));
    // Off until this process executes something, which it does not.
    let events = Events::open(std::process::id() as i32, &cpus, what, false);
    events.map(drop).map_err(|error| no_events(error, probe, cpus.len()))
}

fn no_events(error: NoEvents, probe: &Probe, cpus: usize) -> RecordError {
    match error {
        NoEvents::Event(error) => refusal(error, probe),
        NoEvents::Rings(source) => RecordError::NoRings { source, cpus, limits: ring_limits(probe) },
    }
}

fn refusal(error: io::Error, probe: &Probe) -> RecordError {
    match Refusal::of(probe, &error) {
        Some(refusal) => RecordError::NotPermitted(refusal),
        None => RecordError::NoSampler(error),
    }
}

/// What limits the memory of rings.
fn ring_limits(probe: &Probe) -> String {
    let of_cpu = probe.mlock_kb.map_or_else(|| "unknown".to_owned(), |kb| kb.to_string());
    let of_user = match probe.memlock_bytes {
        Some(u64::MAX) => "unlimited".to_owned(),
        Some(bytes) => (bytes / 1024).to_string(),
        None => "unknown".to_owned(),
    };
    format!("kernel.perf_event_mlock_kb is {of_cpu}, and the limit on locked memory (`ulimit -l`) is {of_user} KiB")
}

/// Prepares the folder of the dataset: where `-o` says, or at the first free name after the program's.
fn create_output(options: &Options, program: &OsString) -> Result<Folder, RecordError> {
    if let Some(dir) = &options.output {
        return Ok(Folder::prepare(dir, options.force)?);
    }
    let name = Path::new(program).file_name().map_or("program".into(), |n| n.to_string_lossy().into_owned());
    let first = PathBuf::from(format!("{name}.numamma"));
    if options.force || !first.exists() {
        return Ok(Folder::prepare(&first, options.force)?);
    }
    let free = (2..).map(|n| PathBuf::from(format!("{name}-{n}.numamma"))).find(|dir| !dir.exists());
    Ok(Folder::prepare(&free.unwrap_or(first), false)?)
}

fn describe(options: &Options, machine: &Machine, probe: &Probe, sampler: SamplerMeta) -> Meta {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let cpus = machine.cpus.iter().map(|cpu| cpu.id + 1).max().unwrap_or(1);
    Meta {
        format: FORMAT,
        written_by: env!("CARGO_PKG_VERSION").into(),
        complete: false,
        command: options.command.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
        directory: std::env::current_dir().map_or(String::new(), |d| d.to_string_lossy().into_owned()),
        host,
        kernel: probe.kernel.clone().unwrap_or_default(),
        arch: std::env::consts::ARCH.into(),
        cpus: machine.online_cpus().count() as u32,
        cpu_nodes: (0..cpus).map(|cpu| machine.node_of_cpu(cpu).map_or(-1, |node| node as i32)).collect(),
        nodes: machine.nodes.len() as u32,
        page_bytes: machine.page_bytes.unwrap_or(4096),
        clock: "CLOCK_MONOTONIC".into(),
        start: now(),
        end: now(),
        started_unix: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as i64),
        exit: None,
        heap_tracked: Some(options.heap),
        sampler,
        losses: Default::default(),
    }
}
