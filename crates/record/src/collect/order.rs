//! Objects are never taken for their predecessors or successors at the same address.
//!
//! `order.c` is a program that does what confuses them, and keeps its own log. Here its events go through the rings, the reader
//! and the session as in a recording, and the table of live objects is compared with the log at each of them:
//!
//! ```text
//!   log, one address:   acquired 39 by thread 7 at site 2 | released by 9 | acquired 71 by 8 at site 0 | ...
//!   session:            Made (39, 7, stack)               | Released (9)  | Made (71, 8, stack)         | ...
//! ```
//!
//! Each entry must be met by the same change in the session, none may be missing and none may be there that is not in the log.
//! Call sites are known by their stacks: a stack must always come with the same site. Where blocks that come and go are
//! collapsed, the log may have a block of the same thread, size and site several times where the session has it once; how
//! often, the events must say. A release may be implied by the next allocation, and be told late or not at all.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use numamma_trace::{DatasetWriter, LossKind};
use numamma_wire::{Clock, ENVIRONMENT, Event, Options, Segment, is_younger};

use super::merge::Merge;
use super::{LibraryReader, now};
use crate::session::Session;
use crate::sink::Sink;
use crate::space::Live;

/// `struct entry` of the program.
const ENTRY_BYTES: usize = 32;
const ACQUIRED: u32 = 1;

/// What the log says of one moment of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Logged {
    Acquired(Made),
    Released { thread: u32 },
}

/// A block as it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    size: u32,
    thread: u32,
    site: u32,
}

/// What an event changes about a heap address. The only place that knows how events tell it.
#[derive(Clone, Copy, Debug)]
enum Change {
    Made {
        address: u64,
        size: u64,
    },
    Released {
        address: u64,
        version: u32,
    },
    /// The last release did not happen.
    TakenBack {
        address: u64,
    },
}

impl Change {
    fn of(event: &Event) -> Option<Change> {
        match *event {
            Event::Alloc { address, size, .. } => Some(Change::Made { address, size }),
            Event::Free { address, version, .. } => Some(Change::Released { address, version }),
            Event::Unfree { address } => Some(Change::TakenBack { address }),
            _ => None,
        }
    }
}

/// The program's own blocks; libc's have other sizes.
fn is_ours(size: u64) -> bool {
    size % 16 == 7
}

/// A live object as the session knows it.
fn live(session: &Session, pid: i32, address: u64) -> Option<Live> {
    let process = &session.tasks.processes[session.tasks.present(pid)?];
    let (start, object) = process.space.heap.find(address)?;
    (start == address).then_some(object)
}

/// What the log says of one address, and how far it has been met.
#[derive(Default)]
struct Moments {
    log: Vec<Logged>,
    met: usize,
    /// The last block that was made there; of a forked process at first none, since the session knows not what it inherited.
    last: Option<Made>,
    version: u32,
    /// True if the log has its release yet to come.
    lives: bool,
    /// The last moment's `lives` and `met`, should it be taken back.
    before: (bool, usize),
    /// Releases that the next allocation has implied, and that may be told late.
    implied: u32,
}

impl Moments {
    /// The last block was released, by thread `tid` if that is known. Returns how often it had come anew before.
    fn released(&mut self, tid: Option<i32>, at: &str) -> u64 {
        self.before = (self.lives, self.met);
        let mut repeats = 0;
        while let [Logged::Released { thread }, Logged::Acquired(made), ..] =
            self.log.get(self.met..).unwrap_or_default()
            && tid.is_some_and(|tid| tid != *thread as i32)
            && self.last == Some(*made)
            && *thread == made.thread
        {
            self.met += 2;
            repeats += 1;
        }
        let logged = self.log.get(self.met);
        let is_it = |thread: u32| tid.is_none_or(|tid| tid == thread as i32);
        assert!(matches!(logged, Some(Logged::Released { thread }) if is_it(*thread)), "the log has {logged:?}: {at}");
        self.met += 1;
        self.lives = false;
        repeats
    }

    /// The same of a block that is still there.
    fn skip_to_the_end(&mut self) -> u64 {
        let mut repeats = 0;
        while let (true, [Logged::Released { thread }, Logged::Acquired(made), ..]) =
            (self.lives, self.log.get(self.met..).unwrap_or_default())
            && self.last == Some(*made)
            && *thread == made.thread
        {
            self.met += 2;
            repeats += 1;
        }
        repeats
    }

    /// Steps over blocks of which there was no event: as the last one, again and again, up to the one that is `wanted`.
    /// Returns how many.
    fn skip_repeats(&mut self, wanted: impl Fn(Made) -> bool) -> u64 {
        let mut repeats = 0;
        // The thread that had made it released it and made it anew; who released it then does not matter.
        while let Some([Logged::Released { thread }, Logged::Acquired(made), Logged::Released { .. }]) =
            self.met.checked_sub(1).and_then(|before| self.log.get(before..before + 3))
            && self.last == Some(*made)
            && *thread == made.thread
            && !wanted(*made)
        {
            self.met += 2;
            repeats += 1;
        }
        repeats
    }
}

/// The history of one process by addresses.
#[derive(Default)]
struct History {
    by_address: HashMap<u64, Moments>,
    /// Live blocks that are not the program's own.
    foreign: HashSet<u64>,
}

impl History {
    fn read(file: &Path) -> History {
        let bytes = fs::read(file).expect("the log");
        assert_eq!(bytes.len() % ENTRY_BYTES, 0, "the log is whole");
        let word = |entry: &[u8], at: usize| u64::from_ne_bytes(entry[at..at + 8].try_into().expect("eight bytes"));
        let half = |entry: &[u8], at: usize| u32::from_ne_bytes(entry[at..at + 4].try_into().expect("four bytes"));
        let mut entries: Vec<&[u8]> = bytes.chunks_exact(ENTRY_BYTES).collect();
        entries.sort_by_key(|entry| word(entry, 0));
        let mut history = History::default();
        for entry in entries {
            let (size, thread, site) = (half(entry, 16), half(entry, 20), half(entry, 24));
            let logged = match half(entry, 28) {
                ACQUIRED => Logged::Acquired(Made { size, thread, site }),
                _ => Logged::Released { thread },
            };
            history.by_address.entry(word(entry, 8)).or_default().log.push(logged);
        }
        history
    }

    fn entries(&self) -> usize {
        self.by_address.values().map(|moments| moments.log.len()).sum()
    }

    fn made(&self) -> usize {
        let all = self.by_address.values().flat_map(|moments| &moments.log);
        all.filter(|moment| matches!(moment, Logged::Acquired(_))).count()
    }
}

/// What a run of the program did, and what the reader made of it.
struct Recorded {
    status: ExitStatus,
    /// Time, pid, tid, event; in the order in which a recording applies them.
    events: Vec<(i64, i32, i32, Event)>,
    lost: u64,
    histories: HashMap<i32, History>,
}

/// Runs the program and reads its events as a recording does.
fn record(
    dir: &Path,
    program: &Path,
    arguments: &[String],
    environment: &[(&str, &str)],
    options: Options,
) -> Recorded {
    let library = dir.join("libnumamma.so");
    fs::write(&library, numamma_preload::LIBRARY).expect("write the library");
    let segment = Segment::create(options).expect("a segment");
    let log = dir.join("log");
    let mut command = Command::new(program);
    command.args(arguments).arg(&log).env("LD_PRELOAD", &library).env(ENVIRONMENT, segment.path());
    let mut child = command.envs(environment.iter().copied()).spawn().expect("start the program");

    let reader = LibraryReader::new(&segment);
    let (mut pending, mut events) = (Merge::default(), Vec::new());
    let mut apply = |pending: &mut Merge, limit: i64| {
        pending.each_until(limit, |time, pid, tid, event| events.push((time, pid, tid, event.clone())));
    };
    let status = std::thread::scope(|scope| {
        scope.spawn(|| reader.run(|| ()));
        // The slack that a recording has: what was stamped before the scan before last.
        let mut before = 0;
        let status = loop {
            let began = now();
            let limit = std::mem::replace(&mut before, began).min(reader.take(&mut pending));
            apply(&mut pending, limit);
            if let Some(status) = child.try_wait().expect("wait for the program") {
                break status;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        reader.stop();
        status
    });
    reader.scan(true);
    reader.take(&mut pending);
    apply(&mut pending, i64::MAX);
    let mut losses = numamma_trace::Losses::default();
    reader.close(&mut losses);
    let lost =
        [LossKind::HeapRing, LossKind::NoRing, LossKind::MalformedEvent].iter().map(|kind| losses.get(*kind)).sum();

    let mut histories = HashMap::new();
    for entry in fs::read_dir(dir).expect("the folder").flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.strip_prefix("log.")?.parse().ok()) {
            histories.insert(pid, History::read(&entry.path()));
            fs::remove_file(entry.path()).expect("remove the log");
        }
    }
    Recorded { status, events, lost, histories }
}

/// How many of our blocks an event stands for.
fn made_by(event: &Event) -> u64 {
    match event {
        Event::Alloc { size, .. } if is_ours(*size) => 1,
        Event::Repeat { size, count, .. } if is_ours(*size) => *count,
        _ => 0,
    }
}

/// What is missing was counted: all that can be said of a run with losses.
fn check_losses(recorded: &Recorded) {
    let made: usize = recorded.histories.values().map(History::made).sum();
    let seen: u64 = recorded.events.iter().map(|(.., event)| made_by(event)).sum();
    assert!(seen + recorded.lost >= made as u64, "{seen} of {made} seen, {} lost", recorded.lost);
}

/// Applies the events and compares; returns how many entries of the log were met.
fn check(dir: &Path, mut recorded: Recorded) -> usize {
    let dataset = tempfile::tempdir_in(dir).expect("a folder");
    let writer = DatasetWriter::create(&dataset.path().join("run.numamma"), false).expect("a dataset");
    let mut session = Session::new(Sink::new(writer), 1_000_000, 4096);
    let events = std::mem::take(&mut recorded.events);
    let told: u64 = events.iter().map(|(.., event)| made_by(event)).sum();
    let allocations: u64 = events
        .iter()
        .filter(|(.., event)| matches!(event, Event::Alloc { .. }))
        .map(|(.., event)| made_by(event))
        .sum();
    let mut repeats = 0;
    let mut site_of: HashMap<u32, u32> = HashMap::new();
    // The first thread has stacks of its own: it came to the same calls another way.
    let mut stack_of: HashMap<(i32, bool, u32), u32> = HashMap::new();
    for (n, (time, pid, tid, event)) in events.into_iter().enumerate() {
        let change = Change::of(&event);
        let (Some(change), Some(history)) = (change, recorded.histories.get_mut(&pid)) else {
            session.event(time, pid, tid, &event);
            continue;
        };
        let at = format!("event {n}, {event:x?} of {pid}/{tid}");
        match change {
            Change::Made { address, size } if !is_ours(size) => {
                session.event(time, pid, tid, &event);
                history.foreign.insert(address);
            }
            Change::Made { address, size } => {
                let Event::Alloc { replaces, version, .. } = event else { unreachable!() };
                let moments = history.by_address.get_mut(&address).unwrap_or_else(|| panic!("not in the log: {at}"));
                session.event(time, pid, tid, &event);
                let object = live(&session, pid, address).unwrap_or_else(|| panic!("it does not live: {at}"));
                let maker = session.tasks.threads[object.thread as usize].row.tid;
                assert_eq!((size, tid), (object.bytes, maker), "{at}");
                if moments.lives {
                    repeats += moments.released(replaces.then_some(tid), &at);
                    moments.implied += u32::from(!replaces);
                }
                let known = site_of.get(&object.stack).copied();
                let is_it = |made: Made| {
                    let site =
                        known.map_or(!stack_of.contains_key(&(pid, pid == tid, made.site)), |site| site == made.site);
                    (u64::from(made.size), made.thread as i32) == (size, tid) && site
                };
                repeats += moments.skip_repeats(is_it);
                let logged = moments.log.get(moments.met).copied();
                let Some(Logged::Acquired(made)) =
                    logged.filter(|logged| matches!(logged, Logged::Acquired(made) if is_it(*made)))
                else {
                    panic!("the log has {logged:?}, known site {known:?}: {at}");
                };
                moments.before = (moments.lives, moments.met);
                moments.met += 1;
                (moments.last, moments.version, moments.lives) = (Some(made), version, true);
                site_of.insert(object.stack, made.site);
                stack_of.insert((pid, pid == tid, made.site), object.stack);
            }
            Change::Released { address, .. } if history.foreign.remove(&address) => {
                session.event(time, pid, tid, &event);
            }
            Change::Released { address, version } => {
                let tentative = matches!(event, Event::Free { tentative: true, .. });
                session.event(time, pid, tid, &event);
                let Some(moments) = history.by_address.get_mut(&address) else { continue };
                // What fails to be reallocated is released for a moment, and then again or never.
                if tentative && !matches!(moments.log.get(moments.met), Some(Logged::Released { .. })) {
                    moments.before = (moments.lives, moments.met);
                    continue;
                }
                if moments.last.is_some() && (!moments.lives || is_younger(moments.version, version)) {
                    // Its successor has implied it.
                    moments.implied = moments.implied.checked_sub(1).unwrap_or_else(|| panic!("of nothing: {at}"));
                } else {
                    assert_eq!(live(&session, pid, address), None, "it lives on: {at}");
                    repeats += moments.released(Some(tid), &at);
                }
            }
            Change::TakenBack { address } => {
                session.event(time, pid, tid, &event);
                if let Some(moments) = history.by_address.get_mut(&address) {
                    (moments.lives, moments.met) = moments.before;
                }
            }
        }
    }
    let (mut met_in_all, mut left_in_all) = (0, 0);
    for (pid, history) in &mut recorded.histories {
        for (address, moments) in &mut history.by_address {
            repeats += moments.skip_to_the_end() + moments.skip_repeats(|_| false);
            left_in_all += u64::from(moments.implied);
            let next = moments.log.get(moments.met);
            assert_eq!(moments.met, moments.log.len(), "process {pid}, {address:#x}: next is {next:?}");
            // In a child, what the parent left it is not in this session.
            let lives = matches!(moments.log.last(), Some(Logged::Acquired(_)));
            assert_eq!(live(&session, *pid, *address).is_some(), lives, "process {pid}, {address:#x} at the end");
        }
        met_in_all += history.entries();
    }
    assert_eq!(repeats, told - allocations, "blocks that came anew");
    assert_eq!((left_in_all, session.evicted.count()), (0, 0), "objects that were never released");
    assert!(recorded.histories.len() == 7, "the program and its six children: {}", recorded.histories.len());
    met_in_all
}

fn compile(dir: &Path) -> PathBuf {
    let (source, program) = (dir.join("order.c"), dir.join("order"));
    fs::write(&source, include_str!("order.c")).expect("write the source");
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-g", "-fno-builtin", "-pthread", "-o"]).arg(&program).arg(source);
    let output = compiler.output().expect("run gcc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Allocators that give an address to the next who asks, or to the same thread first.
const ALLOCATORS: [&[(&str, &str)]; 2] =
    [&[], &[("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1")]];

/// Short rounds; with `NUMAMMA_SOAK` seconds (`make soak`), long ones of ten million entries for as long as that.
#[test]
fn objects_keep_their_order() {
    let soak: Option<u64> = std::env::var("NUMAMMA_SOAK").ok().map(|text| text.parse().expect("seconds"));
    let (begun, dir) = (Instant::now(), tempfile::tempdir().expect("a folder"));
    let program = compile(dir.path());
    let mut met = 0;
    for round in 0.. {
        let done = soak.map_or(round == 4, |seconds| begun.elapsed().as_secs() >= seconds);
        if done {
            break;
        }
        // In a long round, rings with room for what comes while other work has all CPUs: rounds with losses say less.
        let (threads, entries, ring_bytes) = match soak {
            Some(_) => (2 + round % 7, 8_000_000, 8 << 20),
            None => (4, 80_000, Options::default().ring_bytes),
        };
        let arguments = [threads, entries / threads, round].map(|number| number.to_string());
        let environment = ALLOCATORS[round as usize % ALLOCATORS.len()];
        // As a recording has it, and with each event by itself.
        let collapse = round / 2 % 2 == 0;
        let options = Options { ring_count: 64, ring_bytes, clock: Clock::best(), collapse, ..Options::default() };
        let recorded = record(dir.path(), &program, &arguments, environment, options);
        assert!(recorded.status.success(), "{}", recorded.status);
        check_losses(&recorded);
        if recorded.lost > 0 {
            // Other work had all CPUs for longer than a writer waits.
            assert!(soak.is_some(), "{} lost", recorded.lost);
            eprintln!("round {round}: {} events lost and counted; not compared", recorded.lost);
            continue;
        }
        met += check(dir.path(), recorded);
        if soak.is_some() {
            eprintln!("round {round}: {met} entries in all after {:.0?}", begun.elapsed());
        }
    }
    assert!(met >= 200_000, "{met}");
}
