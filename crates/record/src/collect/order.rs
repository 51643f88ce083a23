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
//! Call sites are known by their stacks: a stack must always come with the same site.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use numamma_trace::{DatasetWriter, LossKind};
use numamma_wire::{ENVIRONMENT, Event, Options, Segment};

use super::{LibraryReader, What, now};
use crate::session::Session;
use crate::sink::Sink;

/// `struct entry` of the program.
const ENTRY_BYTES: usize = 32;
const ACQUIRED: u32 = 1;

/// What the log says of one moment of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Logged {
    Acquired { size: u32, thread: u32, site: u32 },
    Released { thread: u32 },
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
            Event::Free { address, .. } => Some(Change::Released { address }),
            Event::Unfree { address } => Some(Change::TakenBack { address }),
            _ => None,
        }
    }
}

/// The program's own blocks; libc's have other sizes.
fn is_ours(size: u64) -> bool {
    size % 16 == 7
}

/// A live object as the session knows it: size, stack, kernel's number of the thread.
fn live(session: &Session, pid: i32, address: u64) -> Option<(u64, u32, i32)> {
    let process = &session.tasks.processes[session.tasks.present(pid)?];
    let (start, object) = process.space.heap.find(address)?;
    (start == address).then(|| (object.bytes, object.stack, session.tasks.threads[object.thread as usize].row.tid))
}

/// The history of one process by addresses, and how far each has been met.
#[derive(Default)]
struct History {
    by_address: HashMap<u64, (Vec<Logged>, usize)>,
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
                ACQUIRED => Logged::Acquired { size, thread, site },
                _ => Logged::Released { thread },
            };
            history.by_address.entry(word(entry, 8)).or_default().0.push(logged);
        }
        history
    }

    /// The next moment of that address, if the log has one.
    fn next(&mut self, address: u64) -> Option<Logged> {
        let (moments, met) = self.by_address.get_mut(&address)?;
        let moment = moments.get(*met).copied();
        *met += 1;
        moment
    }

    fn entries(&self) -> usize {
        self.by_address.values().map(|(moments, _)| moments.len()).sum()
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
fn record(dir: &Path, program: &Path, arguments: &[String], environment: &[(&str, &str)], ring_bytes: u32) -> Recorded {
    let library = dir.join("libnumamma.so");
    fs::write(&library, numamma_preload::LIBRARY).expect("write the library");
    let segment = Segment::create(Options { ring_count: 64, ring_bytes, ..Options::default() }).expect("a segment");
    let log = dir.join("log");
    let mut command = Command::new(program);
    command.args(arguments).arg(&log).env("LD_PRELOAD", &library).env(ENVIRONMENT, segment.path());
    let mut child = command.envs(environment.iter().copied()).spawn().expect("start the program");

    let reader = LibraryReader::new(&segment);
    let (mut pending, mut events) = (Vec::new(), Vec::new());
    let mut apply = |pending: &mut Vec<(i64, What)>, limit: i64| {
        pending.sort_by_key(|(time, _)| *time);
        let ready = pending.partition_point(|(time, _)| *time < limit);
        for (time, what) in pending.drain(..ready) {
            let What::Library { pid, tid, event } = what else { unreachable!("nothing else was asked for") };
            events.push((time, pid, tid, event));
        }
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

/// What is missing was counted: all that can be said of a run with losses.
fn check_losses(recorded: &Recorded) {
    let moments = recorded.histories.values().flat_map(|history| history.by_address.values());
    let made =
        moments.flat_map(|(moments, _)| moments).filter(|moment| matches!(moment, Logged::Acquired { .. })).count();
    let is_made = |event: &Event| matches!(Change::of(event), Some(Change::Made { size, .. }) if is_ours(size));
    let seen = recorded.events.iter().filter(|(.., event)| is_made(event)).count();
    assert!(seen as u64 + recorded.lost >= made as u64, "{seen} of {made} seen, {} lost", recorded.lost);
}

/// Applies the events and compares; returns how many entries of the log were met.
fn check(dir: &Path, mut recorded: Recorded) -> usize {
    let dataset = tempfile::tempdir_in(dir).expect("a folder");
    let writer = DatasetWriter::create(&dataset.path().join("run.numamma"), false).expect("a dataset");
    let mut session = Session::new(Sink::new(writer), 1_000_000, 4096);
    let mut sites: HashMap<u32, u32> = HashMap::new();
    for (n, (time, pid, tid, event)) in std::mem::take(&mut recorded.events).into_iter().enumerate() {
        let change = Change::of(&event);
        let (Some(change), Some(history)) = (change, recorded.histories.get_mut(&pid)) else {
            session.event(time, pid, tid, event);
            continue;
        };
        let at = format!("event {n}, {event:x?} of {pid}/{tid}");
        match change {
            Change::Made { address, size } if !is_ours(size) => {
                session.event(time, pid, tid, event);
                history.foreign.insert(address);
            }
            Change::Made { address, size } => {
                assert_eq!(live(&session, pid, address), None, "made where something lives: {at}");
                session.event(time, pid, tid, event);
                let logged = history.next(address);
                let Some(Logged::Acquired { size: wanted, thread, site }) = logged else {
                    panic!("the log has {logged:?}: {at}");
                };
                let (bytes, stack, maker) =
                    live(&session, pid, address).unwrap_or_else(|| panic!("it does not live: {at}"));
                assert_eq!((size, bytes, maker), (wanted.into(), wanted.into(), thread as i32), "{at}");
                match sites.entry(stack) {
                    Entry::Vacant(vacant) => _ = vacant.insert(site),
                    Entry::Occupied(known) => assert_eq!(*known.get(), site, "made by another site: {at}"),
                }
            }
            Change::Released { address } if history.foreign.remove(&address) => {
                session.event(time, pid, tid, event);
            }
            Change::Released { address } => {
                // What failed to be reallocated is released for a moment, and then again by the same thread or never.
                let logged = history.next(address);
                let fails = matches!(event, Event::Free { tentative: true, .. }) && logged.is_none();
                let by_whom = matches!(logged, Some(Logged::Released { thread }) if thread as i32 == tid);
                assert!(fails || by_whom, "the log has {logged:?}: {at}");
                session.event(time, pid, tid, event);
                assert_eq!(live(&session, pid, address), None, "it lives on: {at}");
            }
            Change::TakenBack { address } => {
                session.event(time, pid, tid, event);
                if let Some((_, met)) = history.by_address.get_mut(&address) {
                    *met -= 1;
                }
            }
        }
    }
    assert_eq!(session.losses.get(LossKind::Overwritten), 0, "objects that were never released");
    let mut met_in_all = 0;
    for (pid, history) in &recorded.histories {
        for (address, (moments, met)) in &history.by_address {
            assert_eq!(*met, moments.len(), "process {pid}, {address:#x}: next is {:?}", moments.get(*met));
        }
        met_in_all += history.entries();
        // In a child, what the parent left it is not in this session.
        for (address, (moments, _)) in &history.by_address {
            let lives = matches!(moments.last(), Some(Logged::Acquired { .. }));
            assert_eq!(live(&session, *pid, *address).is_some(), lives, "process {pid}, {address:#x} at the end");
        }
    }
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

/// Two short rounds; with `NUMAMMA_SOAK` seconds (`make soak`), long ones of ten million entries for as long as that.
#[test]
fn objects_keep_their_order() {
    let soak: Option<u64> = std::env::var("NUMAMMA_SOAK").ok().map(|text| text.parse().expect("seconds"));
    let (begun, dir) = (Instant::now(), tempfile::tempdir().expect("a folder"));
    let program = compile(dir.path());
    let mut met = 0;
    for round in 0.. {
        let done = soak.map_or(round == ALLOCATORS.len() as u64, |seconds| begun.elapsed().as_secs() >= seconds);
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
        let recorded = record(dir.path(), &program, &arguments, environment, ring_bytes);
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
