//! The protocol between a writer and the recorder under a model checker: every order in which their accesses to shared words may
//! take effect, also those that this processor never shows.
//!
//! ```text
//!   emit/ring.c, emit/attach.c as they are     this file: inject/wire/src/ring.rs and bell.rs, access by access
//!           model/model.c: accesses ---> loom <--- accesses
//! ```
//!
//! The writers are the C code itself, its accesses to shared words handed over by `model/model.c`. The recorder's side is
//! repeated here, and `the_recorders_side_is_as_written` compares it with its source. Handlers that interrupt a writer are in
//! `stepping.rs`.

mod common;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_long, c_uint, c_void};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use common::Bench;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use numamma_wire::layout::{RING_FREE, RingControl, SegmentHeader};

/// What the C side calls.
#[repr(C)]
struct Checker {
    load: extern "C" fn(*const c_void, c_int) -> u64,
    store: extern "C" fn(*mut c_void, u64, c_int),
    add: extern "C" fn(*mut c_void, u64, c_int) -> u64,
    exchange: extern "C" fn(*mut c_void, u64, c_int) -> u64,
    swap: extern "C" fn(*mut c_void, u64, u64, c_int) -> u64,
    published: extern "C" fn(c_uint, u64, u64),
    system: extern "C" fn(c_long) -> c_long,
}

static CHECKER: Checker = Checker { load, store, add, exchange, swap, published, system };

/// What the C side offers.
#[derive(Clone, Copy)]
struct Library {
    reset: extern "C" fn(*const Checker, c_uint, c_uint),
    segment: extern "C" fn() -> *const SegmentHeader,
    ring: extern "C" fn(c_uint) -> *const RingControl,
    word: extern "C" fn(c_uint, u64) -> u64,
    claim: extern "C" fn(c_uint) -> c_int,
    emit: extern "C" fn(c_uint, u64) -> bool,
}

fn library() -> Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    *LIBRARY.get_or_init(|| {
        let bench = Bench::new();
        let path = bench.path("model.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model/model.c");
        let mut compiler = std::process::Command::new("gcc");
        compiler.args(["-std=gnu11", "-O1", "-fPIC", "-shared", "-pthread", "-o"]).arg(&path).arg(source);
        let output = compiler.output().expect("run gcc");
        assert!(output.status.success(), "{}", common::text(&output));
        let path = CString::new(path.to_str().expect("a path in UTF-8")).expect("a path");
        // SAFETY: a valid path; the library has no constructors. It stays loaded.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "the library does not load");
        let symbol = |name: &str| {
            let name = CString::new(name).expect("a name");
            // SAFETY: a live handle and a valid name.
            let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
            assert!(!found.is_null(), "{name:?}");
            found
        };
        // SAFETY: these are the functions of model.c, declared here as there.
        unsafe {
            Library {
                reset: std::mem::transmute::<*mut c_void, extern "C" fn(*const Checker, c_uint, c_uint)>(symbol(
                    "model_reset",
                )),
                segment: std::mem::transmute::<*mut c_void, extern "C" fn() -> *const SegmentHeader>(symbol(
                    "model_segment",
                )),
                ring: std::mem::transmute::<*mut c_void, extern "C" fn(c_uint) -> *const RingControl>(symbol(
                    "model_ring",
                )),
                word: std::mem::transmute::<*mut c_void, extern "C" fn(c_uint, u64) -> u64>(symbol("model_word")),
                claim: std::mem::transmute::<*mut c_void, extern "C" fn(c_uint) -> c_int>(symbol("model_claim")),
                emit: std::mem::transmute::<*mut c_void, extern "C" fn(c_uint, u64) -> bool>(symbol("model_emit")),
            }
        }
    })
}

/// The kernel's queue of one: whether who waits there was woken by the bell.
type Futex = (Mutex<bool>, Condvar);

/// One execution: the shared words by their addresses in the C side's memory, and the futex.
#[derive(Default)]
struct World {
    words: HashMap<usize, Arc<AtomicU64>>,
    /// By ring and place: written and read without atomics' help, so the checker complains of any that race.
    data: HashMap<(u32, u64), Rc<UnsafeCell<()>>>,
    ring_words: u64,
    futex: Option<Arc<Futex>>,
}

thread_local! {
    // Loom runs all threads of an execution on one thread of the system.
    static WORLD: RefCell<World> = RefCell::default();
}

fn word(address: *const c_void) -> Arc<AtomicU64> {
    // The borrow ends before the access, at which loom may switch to another thread.
    WORLD.with_borrow_mut(|world| {
        world.words.entry(address as usize).or_insert_with(|| Arc::new(AtomicU64::new(0))).clone()
    })
}

fn cell(ring: u32, position: u64) -> Rc<UnsafeCell<()>> {
    WORLD.with_borrow_mut(|world| {
        let place = position / 8 % world.ring_words;
        world.data[&(ring, place)].clone()
    })
}

const SEQ_CST: c_int = 5;

/// The compiler's number of a memory order. What is sequentially consistent is given its fences by the callers: loom has those,
/// but not such accesses.
fn order(number: c_int, at_most: Ordering) -> Ordering {
    match (number, at_most) {
        (0, _) => Ordering::Relaxed,
        (SEQ_CST, strongest) => strongest,
        (2, _) => Ordering::Acquire,
        (3, _) => Ordering::Release,
        (4, _) => Ordering::AcqRel,
        _ => panic!("no memory order {number}"),
    }
}

/// As a processor does it that orders all its writes before a later read only if told to: fences about the writing accesses.
fn around<T>(number: c_int, access: impl FnOnce() -> T) -> T {
    if number == SEQ_CST {
        fence(Ordering::SeqCst);
    }
    let result = access();
    if number == SEQ_CST {
        fence(Ordering::SeqCst);
    }
    result
}

extern "C" fn load(address: *const c_void, number: c_int) -> u64 {
    word(address).load(order(number, Ordering::Acquire))
}

extern "C" fn store(address: *mut c_void, value: u64, number: c_int) {
    around(number, || word(address).store(value, order(number, Ordering::Release)));
}

extern "C" fn add(address: *mut c_void, value: u64, number: c_int) -> u64 {
    around(number, || word(address).fetch_add(value, order(number, Ordering::AcqRel)))
}

extern "C" fn exchange(address: *mut c_void, value: u64, number: c_int) -> u64 {
    around(number, || word(address).swap(value, order(number, Ordering::AcqRel)))
}

extern "C" fn swap(address: *mut c_void, expected: u64, desired: u64, number: c_int) -> u64 {
    let order = order(number, Ordering::AcqRel);
    let done = around(number, || word(address).compare_exchange(expected, desired, order, Ordering::Relaxed));
    done.unwrap_or_else(|before| before)
}

/// These words were written by the calling thread.
extern "C" fn published(ring: c_uint, begin: u64, end: u64) {
    for position in (begin..end).step_by(8) {
        cell(ring, position).with_mut(|_| ());
    }
}

extern "C" fn system(number: c_long) -> c_long {
    match number {
        libc::SYS_futex => {
            let futex = futex();
            *futex.0.lock().expect("a lock that nobody breaks") = true;
            futex.1.notify_all();
        }
        libc::SYS_nanosleep => thread::yield_now(),
        _ => {}
    }
    0
}

fn futex() -> Arc<Futex> {
    WORLD.with_borrow(|world| world.futex.clone()).expect("the futex of this execution")
}

/// The recorder's side of one ring.
#[derive(Clone, Copy)]
struct Reader {
    library: Library,
    ring: u32,
}

impl Reader {
    fn control(&self) -> *const RingControl {
        (self.library.ring)(self.ring)
    }

    /// The model's word for a field of the control block.
    fn field<T>(&self, of: impl Fn(&RingControl) -> &T) -> Arc<AtomicU64> {
        // SAFETY: static memory of the C side; only the address of a field is taken.
        word(std::ptr::from_ref(of(unsafe { &*self.control() })).cast())
    }

    fn read(&self, position: u64) -> u64 {
        cell(self.ring, position).with(|_| ());
        (self.library.word)(self.ring, position)
    }

    /// As `Ring::drain`: the values of the events that were there. Room is given back after each event.
    fn drain(&self, values: &mut Vec<u64>) {
        let mut tail = self.field(|c| &c.tail).load(Ordering::Relaxed);
        let head = self.field(|c| &c.head).load(Ordering::Acquire);
        while tail != head {
            let words = self.read(tail) >> 32 & 0xffff;
            assert_eq!(words, 3, "an event of {words} words at {tail}, published up to {head}");
            self.read(tail + 8);
            values.push(self.read(tail + 16));
            tail += words * 8;
            self.field(|c| &c.tail).store(tail, Ordering::Release);
        }
        self.field(|c| &c.tail).store(head, Ordering::Release);
    }

    fn pending(&self) -> u64 {
        let head = self.field(|c| &c.head).load(Ordering::Acquire);
        head.wrapping_sub(self.field(|c| &c.tail).load(Ordering::Relaxed))
    }

    fn lost(&self) -> u64 {
        self.field(|c| &c.lost_full).load(Ordering::Relaxed)
    }

    /// As `Ring::release` of a ring that has ended: what its writer lost.
    fn release(&self) -> Option<u64> {
        if self.pending() != 0 {
            return None;
        }
        let lost = self.lost();
        self.field(|c| &c.head).store(0, Ordering::Relaxed);
        self.field(|c| &c.tail).store(0, Ordering::Relaxed);
        self.field(|c| &c.lost_full).store(0, Ordering::Relaxed);
        self.field(|c| &c.lost_frees).store(0, Ordering::Relaxed);
        self.field(|c| &c.waits).store(0, Ordering::Relaxed);
        self.field(|c| &c.pid).store(0, Ordering::Relaxed);
        self.field(|c| &c.tid).store(0, Ordering::Relaxed);
        self.field(|c| &c.state).store(u64::from(RING_FREE), Ordering::Release);
        let next = word(std::ptr::from_ref(&self.header().next_ring).cast());
        let ring = u64::from(self.ring);
        next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |hint| Some(hint.min(ring))).expect("always a value");
        word(std::ptr::from_ref(&self.header().no_ring).cast()).store(0, Ordering::Relaxed);
        Some(lost)
    }

    fn header(&self) -> &'static SegmentHeader {
        // SAFETY: static memory of the C side; only addresses of fields are taken.
        unsafe { &*(self.library.segment)() }
    }

    /// As `Segment::bell`.
    fn bell(&self) -> u64 {
        let doorbell = std::ptr::from_ref(&self.header().doorbell).cast();
        load(doorbell, SEQ_CST)
    }

    /// As `Segment::wait`, whose timeout comes when `over` says so. Whether it slept until then.
    fn wait(&self, bell: u64, over: &AtomicBool) -> bool {
        let sleeping: *mut c_void = std::ptr::from_ref(&self.header().sleeping).cast_mut().cast();
        let doorbell: *mut c_void = std::ptr::from_ref(&self.header().doorbell).cast_mut().cast();
        store(sleeping, 1, SEQ_CST);
        let futex = futex();
        let mut woken = futex.0.lock().expect("a lock that nobody breaks");
        // The kernel compares while nobody can wake, and sees the newest value.
        let sleeps = add(doorbell, 0, SEQ_CST) == bell;
        if sleeps && !over.load(Ordering::Acquire) {
            woken = futex.1.wait(woken).expect("a lock that nobody breaks");
        }
        let timed_out = sleeps && !*woken;
        drop(woken);
        store(sleeping, 0, SEQ_CST);
        timed_out
    }
}

/// Explores `body` with rings of so many bytes.
fn explore(ring_bytes: u32, ring_count: u32, body: impl Fn(Library) + Sync + Send + 'static) {
    // The C side has one memory for all.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let library = library();
    loom::model(move || {
        WORLD.set(World::default());
        let ring_words = u64::from(ring_bytes / 8);
        WORLD.with_borrow_mut(|world| {
            world.ring_words = ring_words;
            world.futex = Some(Arc::default());
            world.data = (0..ring_count)
                .flat_map(|ring| (0..ring_words).map(move |place| ((ring, place), Rc::new(UnsafeCell::new(())))))
                .collect();
        });
        (library.reset)(&raw const CHECKER, ring_bytes, ring_count);
        body(library);
        // Loom's objects must be gone when the execution is.
        WORLD.set(World::default());
    });
}

/// A ring with room for two events and three that are written: each arrives once and in order, or is counted. Four, and a reader
/// that comes once more, in `make soak`: a minute.
#[test]
fn events_arrive_once_and_in_order_or_are_counted() {
    let (events, drains) = if std::env::var_os("NUMAMMA_SOAK").is_some() { (4, 3) } else { (3, 2) };
    explore(64, 1, move |library| {
        assert_eq!((library.claim)(0), 0);
        let writer =
            thread::spawn(move || (1..=events).filter(|&value| (library.emit)(0, value)).collect::<Vec<u64>>());
        let reader = Reader { library, ring: 0 };
        let mut seen = Vec::new();
        for _ in 0..drains {
            reader.drain(&mut seen);
        }
        let written = writer.join().expect("the writer");
        reader.drain(&mut seen);
        assert_eq!(seen, written);
        assert_eq!(seen.len() as u64 + reader.lost(), events);
    });
}

/// A recorder that sleeps until the bell never sleeps while a ring is more than half full.
#[test]
fn no_bell_is_slept_through() {
    explore(64, 1, |library| {
        assert_eq!((library.claim)(0), 0);
        let over = Arc::new(AtomicBool::new(false));
        let writer = {
            let over = over.clone();
            thread::spawn(move || {
                (library.emit)(0, 1);
                (library.emit)(0, 2);
                // Stands for the timeout, after which the recorder looks by itself.
                let futex = futex();
                let queue = futex.0.lock().expect("a lock that nobody breaks");
                over.store(true, Ordering::Release);
                futex.1.notify_all();
                drop(queue);
            })
        };
        let reader = Reader { library, ring: 0 };
        let mut seen = Vec::new();
        let bell = reader.bell();
        reader.drain(&mut seen);
        let half = 32;
        if reader.wait(bell, &over) {
            assert!(reader.pending() <= half, "asleep with {} bytes pending", reader.pending());
        }
        writer.join().expect("the writer");
        reader.drain(&mut seen);
        assert_eq!(seen, [1, 2]);
    });
}

/// The only ring goes from a thread that has ended to another, by way of the recorder.
#[test]
fn a_ring_changes_hands() {
    explore(64, 1, |library| {
        assert_eq!((library.claim)(0), 0);
        let gone = Arc::new(AtomicBool::new(false));
        let first = {
            let gone = gone.clone();
            thread::spawn(move || {
                assert!((library.emit)(0, 1));
                // The kernel forgets the thread.
                gone.store(true, Ordering::Release);
            })
        };
        let second = thread::spawn(move || {
            let claimed = (library.claim)(1) == 0 || (library.claim)(1) == 0;
            claimed && (library.emit)(1, 2)
        });
        let reader = Reader { library, ring: 0 };
        let (mut seen, mut released) = (Vec::new(), None);
        for _ in 0..2 {
            let ended = gone.load(Ordering::Acquire);
            reader.drain(&mut seen);
            if ended && released.is_none() {
                released = reader.release();
            }
        }
        let claimed = second.join().expect("the second thread");
        first.join().expect("the first thread");
        reader.drain(&mut seen);
        let mut wanted = vec![1];
        wanted.extend(claimed.then_some(2));
        assert_eq!(seen, wanted);
        assert_eq!(released.unwrap_or(0), 0, "losses");
        assert!(released.is_some() || !claimed, "nobody claims a ring that was not given back");
    });
}

/// The accesses of a function of the recorder, as its source has them: field, kind, order.
fn accesses(source: &str, function: &str) -> Vec<String> {
    let body = source.split_once(&format!("fn {function}(")).expect("the function").1;
    let body = &body[..body.find("\n    }\n").expect("its end")];
    let mut found = Vec::new();
    for line in body.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        for kind in [".load(", ".store(", ".fetch_min("] {
            if let Some((before, after)) = line.split_once(kind) {
                let field = before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
                let order = after.split(')').next().unwrap_or_default().rsplit([' ', '(']).next().unwrap_or_default();
                found.push(format!("{field}{kind}{order})"));
            }
        }
    }
    found
}

/// What this file repeats is what the recorder does.
#[test]
fn the_recorders_side_is_as_written() {
    let (ring, bell) = (include_str!("../../wire/src/ring.rs"), include_str!("../../wire/src/bell.rs"));
    let drain = [
        "tail.load(Relaxed)",
        "head.load(Acquire)",
        "tail.store(Release)", // positions that make no sense
        "tail.store(Release)", // on the way
        "tail.store(Release)",
    ];
    assert_eq!(accesses(ring, "drain"), drain);
    assert_eq!(
        accesses(ring, "release"),
        [
            "word.store(Relaxed)",
            "pid.store(Relaxed)",
            "tid.store(Relaxed)",
            "state.store(Release)",
            "next_ring.fetch_min(Relaxed)",
            "no_ring.store(Relaxed)"
        ]
    );
    assert_eq!(accesses(ring, "word"), ["].load(Relaxed)"].map(|_| ".load(Relaxed)"));
    assert_eq!(accesses(bell, "bell"), ["doorbell.load(SeqCst)"]);
    assert_eq!(accesses(bell, "wait"), ["sleeping.store(SeqCst)", "sleeping.store(SeqCst)"]);
}
