//! Compile a small program, run it under the library with a segment, and see what came through the rings.
#![allow(dead_code)]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use numamma_wire::{Clock, ENVIRONMENT, Event, Losses, Malformed, Options, Segment, Stamped, is_younger};
use tempfile::TempDir;

/// No program of these tests runs anywhere near this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// An allocator that a signal handler may interrupt and call: glibc's would deadlock or break, with or without us.
pub const ALLOCATOR: &str = r#"
#include <stddef.h>
#include <string.h>
static char pool[64 << 20];
static size_t used;
static volatile int busy;
void *malloc(size_t n) { for (busy = 0; busy < 20; busy++) ; return pool + __atomic_fetch_add(&used, (n + 31) & ~(size_t)15, __ATOMIC_RELAXED) % (60 << 20); }
void free(void *p) { (void)p; for (busy = 0; busy < 20; busy++) ; }
void *calloc(size_t n, size_t m) { return memset(malloc(n * m), 0, n * m); }
void *realloc(void *p, size_t n) { void *q = malloc(n); if (p) memcpy(q, p, n); return q; }
"#;

/// A program that handlers of three timers interrupt for a while, with periods that drift against each other and against its
/// loop. Behind it stand what they do, `in_handler`, and what the loop does, `in_loop`. It prints how often each was called.
pub const STORM: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static void in_handler(void);
static void in_loop(int i);
static volatile long handled, looped; /* a handler may interrupt another */
static void handler(int n) { (void)n; in_handler(); __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED); }
int main(void)
{
    struct sigaction act = {.sa_handler = handler};
    for (int i = 0; i < 3; i++) {
        timer_t timer;
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + i};
        struct itimerspec period = {{0, 150000 + 1777 * i}, {0, 50000}};
        sigaction(SIGRTMIN + i, &act, 0);
        if (timer_create(CLOCK_MONOTONIC, &event, &timer)) return 1;
        timer_settime(timer, 0, &period, 0);
    }
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        for (int i = 0; i < 100; i++) { in_loop(i); looped++; }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (handled < 5000 && now.tv_sec - begin.tv_sec < 20);
    for (int i = 0; i < 3; i++) signal(SIGRTMIN + i, SIG_IGN);
    printf("handled %ld\nlooped %ld\n", handled, looped);
    return 0;
}
"#;

/// A directory with the library in it, and the programs compiled for one test.
pub struct Bench {
    pub folder: TempDir,
    pub options: Options,
}

/// What a program did, as seen by the recorder.
#[derive(Debug, Default)]
pub struct Recording {
    pub output: String,
    pub errors: String,
    pub exit: Option<i32>,
    pub threads: Vec<Thread>,
    pub malformed: Vec<Malformed>,
    pub lost_no_ring: u64,
}

/// Everything one thread wrote: one claim of one ring.
#[derive(Debug, Default)]
pub struct Thread {
    pub pid: i32,
    pub tid: i32,
    pub events: Vec<Stamped>,
    pub losses: Losses,
}

impl Bench {
    pub fn new() -> Bench {
        let folder = tempfile::tempdir().expect("a temporary directory");
        fs::write(folder.path().join("libnumamma_preload.so"), numamma_preload::LIBRARY).expect("write the library");
        Bench { folder, options: Options { ring_count: 512, ..Options::default() } }
    }

    /// Where the library keeps blocks that come and go to itself.
    pub fn collapsing() -> Bench {
        let bench = Bench::new();
        Bench { options: Options { collapse: true, clock: Clock::best(), ..bench.options }, ..bench }
    }

    pub fn library(&self) -> PathBuf {
        self.folder.path().join("libnumamma_preload.so")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles `source` with gcc, or g++ if it is C++ (begins with `// C++`).
    pub fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let cpp = source.trim_start().starts_with("// C++");
        let file = self.path(&format!("{name}.{}", if cpp { "cpp" } else { "c" }));
        let program = self.path(name);
        fs::write(&file, source).expect("write the source");
        let mut command = Command::new(if cpp { "g++" } else { "gcc" });
        // -fno-builtin: the compiler would remove a malloc and free that nobody looks at.
        command.args(["-g", "-fno-builtin", "-pthread"]).arg(&file).arg("-o").arg(&program).args(flags);
        let output = command.output().expect("run the compiler");
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        program
    }

    /// Compiles and runs.
    pub fn run(&self, source: &str, flags: &[&str]) -> Recording {
        let program = self.compile("program", source, flags);
        self.record(&mut Command::new(program))
    }

    /// Compiles and runs with an allocator of the program's own, such as [`ALLOCATOR`].
    pub fn run_with_allocator(&self, allocator: &str, source: &str, flags: &[&str]) -> Recording {
        let allocator = self.compile("liballocator.so", allocator, &["-O1", "-shared", "-fPIC"]);
        let allocator = allocator.display().to_string();
        self.run(source, &[&["-O1", "-Wl,--no-as-needed", allocator.as_str()], flags].concat())
    }

    /// Runs a command under the library, draining all the while.
    pub fn record(&self, command: &mut Command) -> Recording {
        let segment = Segment::create(self.options).expect("a segment");
        let (mut child, log) = self.start(command, &segment);
        let mut recording = Recording::default();
        let mut open: HashMap<u32, Thread> = HashMap::new();
        let begin = Instant::now();
        loop {
            let bell = segment.bell();
            let ended = child.try_wait().expect("wait for the program");
            drain(&segment, &mut open, &mut recording);
            if let Some(status) = ended {
                recording.exit = status.code();
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "the program hangs: {}", fs::read_to_string(&log).unwrap_or_default());
            segment.wait(bell, Duration::from_millis(2));
        }
        drain(&segment, &mut open, &mut recording);
        recording.threads.extend(open.into_values());
        recording.threads.sort_by_key(|thread| thread.events.first().map(|event| event.time));
        recording.lost_no_ring = segment.lost_no_ring();
        recording.output = fs::read_to_string(&log).expect("the program's output");
        recording.errors = fs::read_to_string(log.with_extension("err")).expect("the program's errors");
        recording
    }

    /// Starts a command under the library, its output in files.
    pub fn start(&self, command: &mut Command, segment: &Segment) -> (Child, PathBuf) {
        let log = self.path("output");
        let file = |path: &Path| fs::File::create(path).expect("an output file");
        command
            .env("LD_PRELOAD", self.library())
            .env(ENVIRONMENT, segment.path())
            .stdin(Stdio::null())
            .stdout(file(&log))
            .stderr(file(&log.with_extension("err")));
        (command.spawn().expect("start the program"), log)
    }
}

fn drain(segment: &Segment, open: &mut HashMap<u32, Thread>, recording: &mut Recording) {
    for ring in segment.active_rings() {
        let ended = ring.has_ended();
        let thread = open.entry(ring.index()).or_default();
        let owner = ring.owner();
        (thread.pid, thread.tid) = (owner.pid, owner.tid);
        thread.losses = ring.losses();
        ring.drain(|event| match event {
            Ok(event) => thread.events.push(event),
            Err(error) => recording.malformed.push(error),
        });
        if ended {
            let time = thread.events.last().map_or(0, |event| event.time);
            ring.outstanding(|event| thread.events.push(Stamped { time, event }));
        }
        if ended && let Some(losses) = ring.release() {
            thread.losses = losses;
            recording.threads.extend(open.remove(&ring.index()));
        }
    }
}

impl Recording {
    /// The program ended well, and nothing was lost or garbled.
    #[track_caller]
    pub fn check(self) -> Recording {
        assert_eq!(self.exit, Some(0), "exit; output: {} {}", self.output, self.errors);
        assert_eq!(self.malformed, []);
        assert_eq!(self.lost_no_ring, 0);
        assert_eq!(self.losses().full, 0);
        for thread in &self.threads {
            for pair in thread.events.windows(2) {
                assert!(pair[0].time <= pair[1].time, "time runs backwards in a ring: {pair:?}");
            }
        }
        self
    }

    pub fn losses(&self) -> Losses {
        let mut sum = Losses::default();
        for thread in &self.threads {
            sum.full += thread.losses.full;
            sum.frees += thread.losses.frees;
            sum.waits += thread.losses.waits;
        }
        sum
    }

    /// All events of all threads, by time.
    pub fn events(&self) -> Vec<Event> {
        let mut all: Vec<&Stamped> = self.threads.iter().flat_map(|thread| &thread.events).collect();
        all.sort_by_key(|event| event.time);
        all.into_iter().map(|stamped| stamped.event.clone()).collect()
    }

    /// The allocations of this size, in order.
    pub fn allocs(&self, wanted: u64) -> Vec<Event> {
        self.events()
            .into_iter()
            .filter(|event| matches!(event, Event::Alloc { size, .. } if *size == wanted))
            .collect()
    }

    /// Addresses of the allocations of this size, in order.
    pub fn addresses(&self, size: u64) -> Vec<u64> {
        let address = |event| match event {
            Event::Alloc { address, .. } => address,
            _ => 0,
        };
        self.allocs(size).into_iter().map(address).collect()
    }

    /// How often this address was released.
    pub fn frees(&self, wanted: u64) -> usize {
        self.events().iter().filter(|event| matches!(event, Event::Free { address, .. } if *address == wanted)).count()
    }

    /// Frames of a stack hash.
    pub fn stack(&self, wanted: u64) -> Option<(Vec<u64>, bool)> {
        self.events().into_iter().find_map(|event| match event {
            Event::Stack { hash, frames, cut } if hash == wanted => Some((frames, cut)),
            _ => None,
        })
    }

    /// `key value` lines that the program printed; values in any C notation.
    pub fn printed(&self, key: &str) -> u64 {
        let value =
            self.output.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')).unwrap_or_else(|| {
                panic!("the program did not print {key}: {:?} {:?}", self.output, self.errors);
            });
        let parsed = match value.trim().strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => value.trim().parse(),
        };
        parsed.unwrap_or_else(|error| panic!("{key} {value}: {error}"))
    }
}

/// Plays the events of one process as their versions order them: at each address, blocks come and go in turn. Returns the sizes
/// of those that are left.
pub fn replay(recording: &Recording) -> HashMap<u64, u64> {
    let mut of_address: HashMap<u64, Vec<(u32, Event)>> = HashMap::new();
    for event in recording.events() {
        if let Event::Alloc { address, version, .. } | Event::Free { address, version, .. } = event {
            of_address.entry(address).or_default().push((version, event));
        }
    }
    let mut left = HashMap::new();
    for (address, mut events) in of_address {
        // A late release has the version of its allocation, and comes after it.
        events.sort_by_key(|(version, event)| (*version, matches!(event, Event::Free { .. })));
        let mut live = None;
        for (version, event) in events {
            match event {
                Event::Alloc { size, replaces, .. } => {
                    assert_eq!(live.is_some(), replaces, "{address:x} {event:?} upon {live:?}");
                    live = Some((version, size));
                }
                _ => {
                    let (born, _) = live.take().unwrap_or_else(|| panic!("{address:x} {event:?} of nothing"));
                    assert!(!is_younger(born, version));
                }
            }
        }
        left.extend(live.map(|(_, size)| (address, size)));
    }
    left
}

/// Output of a finished command as text.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
