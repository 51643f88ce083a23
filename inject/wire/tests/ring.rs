//! Rings, with a writer in Rust that keeps the header's rules (the real one is tested in numamma-preload).

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::{Duration, Instant};

use numamma_wire::layout::{
    RECENT, RECENT_FREED, RECENT_LIVE, RING_EXTRA, RING_OWNED, RecentBlock, RingControl, SegmentHeader, kind,
};
use numamma_wire::{Api, Event, Malformed, Options, Ring, RingState, Segment, Stamped, Woken};

/// The recorded program's view: the same file, mapped again.
struct Writer<'a> {
    header: &'a SegmentHeader,
    control: &'a RingControl,
    recent: &'a [RecentBlock],
    data: &'a [AtomicU64],
}

impl Writer<'_> {
    /// Maps the segment as a process would and claims a ring for a thread that does not exist.
    fn claim(segment: &Segment, index: usize) -> Writer<'static> {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(segment.path()).expect("open the segment");
        let bytes = file.metadata().expect("its size").len() as usize;
        use std::os::fd::AsRawFd;
        // SAFETY: a shared mapping of the whole file, never unmapped; the types consist of atomics alone, and offsets and
        // counts are the ones in the header.
        let writer = unsafe {
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            let base =
                libc::mmap(std::ptr::null_mut(), bytes, prot, libc::MAP_SHARED, file.as_raw_fd(), 0).cast::<u8>();
            assert_ne!(base.cast(), libc::MAP_FAILED);
            let header = &*base.cast::<SegmentHeader>();
            let controls = base.add(header.header_bytes.load(Relaxed) as usize).cast::<RingControl>();
            let ring_bytes = header.ring_bytes.load(Relaxed) as usize;
            let stride = RING_EXTRA as usize + ring_bytes;
            let ring = base.add(header.rings_offset.load(Relaxed) as usize + index * stride);
            let recent = std::slice::from_raw_parts(ring.cast::<RecentBlock>(), RECENT as usize);
            let data = ring.add(RING_EXTRA as usize).cast::<AtomicU64>();
            let data = std::slice::from_raw_parts(data, ring_bytes / 8);
            Writer { header, control: &*controls.add(index), recent, data }
        };
        writer.header.rings_used.fetch_max(index as u32 + 1, SeqCst);
        writer.control.state.store(RING_OWNED, SeqCst);
        // No thread has these ids: above the kernel's limit.
        writer.control.tid.store(1 << 30, Relaxed);
        writer.control.pid.store(1 << 30, Release);
        writer
    }

    /// Writes words behind the head without publishing; returns the new head.
    fn put(&self, words: &[u64]) -> u64 {
        let head = self.control.head.load(Relaxed);
        for (i, word) in words.iter().enumerate() {
            let position = head / 8 + i as u64;
            self.data[position as usize % self.data.len()].store(*word, Relaxed);
        }
        head + words.len() as u64 * 8
    }

    fn write(&self, words: &[u64]) {
        let head = self.put(words);
        self.control.head.store(head, Release);
    }

    fn has_room(&self, words: usize) -> bool {
        let used = self.control.head.load(Relaxed) - self.control.tail.load(Acquire);
        used + words as u64 * 8 <= self.data.len() as u64 * 8
    }
}

fn event(kind: u16, aux: u16, aux2: u16, time: u64, payload: &[u64]) -> Vec<u64> {
    let words = payload.len() as u64 + 2;
    let first = u64::from(aux) | u64::from(kind) << 16 | words << 32 | u64::from(aux2) << 48;
    [&[first, time], payload].concat()
}

fn segment() -> Segment {
    Segment::create(Options { ring_count: 4, ring_bytes: 4096, ..Options::default() }).expect("a segment")
}

fn ring(segment: &Segment, index: u32) -> Ring<'_> {
    segment.ring(index).expect("a ring")
}

/// Numbers that look random and are the same every time.
fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    }
}

#[test]
fn every_event_is_decoded() {
    let segment = segment();
    let writer = Writer::claim(&segment, 0);
    let cases: Vec<(Vec<u64>, Event)> = vec![
        (
            event(kind::PROCESS, 1, 1, 1, &[7, 6]),
            Event::Process { pid: 7, parent: 6, forked: true, own_allocator: true },
        ),
        (
            event(kind::THREAD_START, 1, 0, 2, &[7, 1, 2, 3, 4, 5]),
            Event::ThreadStart {
                tid: 7,
                main: true,
                stack_low: 1,
                stack_high: 2,
                tls_low: 3,
                thread_pointer: 4,
                start_routine: 5,
            },
        ),
        (event(kind::THREAD_END, 0, 0, 3, &[7]), Event::ThreadEnd { tid: 7 }),
        (event(kind::STACK, 1, 0, 4, &[9, 11, 12, 13]), Event::Stack { hash: 9, frames: vec![11, 12, 13], cut: true }),
        (event(kind::STACK, 0, 0, 4, &[9]), Event::Stack { hash: 9, frames: vec![], cut: false }),
        (
            event(kind::ALLOC, 5, 1, 5, &[4096, 33, 9, 77]),
            Event::Alloc { api: Api::PosixMemalign, address: 4096, size: 33, stack: 9, version: 77, replaces: true },
        ),
        (
            event(kind::FREE, 3, 1, 6, &[4096, 78]),
            Event::Free { api: Api::Realloc, address: 4096, tentative: true, version: 78 },
        ),
        (event(kind::UNFREE, 0, 0, 7, &[4096]), Event::Unfree { address: 4096 }),
        (
            event(kind::MAP, 3, 1, 8, &[1, 2, 3, 4, 5]),
            Event::Map { address: 1, length: 2, prot: 3, file_backed: true, stack: 3, offset: 4, flags: 5 },
        ),
        (event(kind::UNMAP, 0, 1, 9, &[1, 2]), Event::Unmap { address: 1, length: 2, tentative: true }),
        (event(kind::UNUNMAP, 0, 0, 10, &[1, 2]), Event::Ununmap { address: 1, length: 2 }),
        (event(kind::REPEAT, 0, 0, 11, &[9, 33, 1000]), Event::Repeat { stack: 9, size: 33, count: 1000 }),
        (event(kind::BREAK, 0, 0, 12, &[1, 2, 3]), Event::Break { old: 1, new: 2, stack: 3 }),
        (event(kind::DLCLOSE, 0, 0, 13, &[]), Event::Dlclose),
    ];
    for (words, wanted) in cases {
        writer.write(&words);
        let mut got = Vec::new();
        ring(&segment, 0).drain_to(&mut got);
        assert_eq!(got, [Ok(Stamped { time: words[1], event: wanted })]);
    }
}

#[test]
fn events_wrap_round_the_end_at_every_position() {
    let segment = segment();
    let writer = Writer::claim(&segment, 0);
    let ring = ring(&segment, 0);
    let mut random = numbers(1);
    let mut expected = Vec::new();
    let mut got = Vec::new();
    for sent in 0..20_000u64 {
        let frames: Vec<u64> = (0..random(60)).map(|i| sent * 100 + i).collect();
        let words = event(kind::STACK, 0, 0, sent, &[&[sent], &frames[..]].concat());
        if !writer.has_room(words.len()) || random(7) == 0 {
            ring.drain_to(&mut got);
        }
        writer.write(&words);
        expected.push(Ok(Stamped { time: sent, event: Event::Stack { hash: sent, frames, cut: false } }));
    }
    ring.drain_to(&mut got);
    assert!(got == expected);
    assert_eq!(ring.pending(), 0);
}

#[test]
fn a_writer_and_a_reader_at_once() {
    let segment = segment();
    let writer = Writer::claim(&segment, 2);
    const EVENTS: u64 = 300_000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..EVENTS {
                let words = event(kind::ALLOC, 1, 0, i, &[i, !i, i * i, i >> 1]);
                while !writer.has_room(words.len()) {
                    std::thread::yield_now();
                }
                writer.write(&words);
            }
        });
        let mut next = 0;
        while next < EVENTS {
            let drained = ring(&segment, 2).drain(|got| {
                let i = next;
                let event = Event::Alloc {
                    api: Api::Malloc,
                    address: i,
                    size: !i,
                    stack: i * i,
                    version: (i >> 1) as u32,
                    replaces: false,
                };
                assert_eq!(got, Ok(Stamped { time: i, event }));
                next += 1;
            });
            if drained.events == 0 {
                std::thread::yield_now();
            }
        }
    });
}

#[test]
fn what_is_not_published_is_not_seen() {
    let segment = segment();
    let writer = Writer::claim(&segment, 0);
    writer.put(&event(kind::DLCLOSE, 0, 0, 1, &[]));
    assert_eq!(ring(&segment, 0).drain(|_| panic!("not published")).events, 0);
}

#[test]
fn nonsense_is_reported_and_skipped() {
    let good = event(kind::DLCLOSE, 0, 0, 5, &[]);
    let bad: [(Vec<u64>, Malformed); 5] = [
        (event(99, 0, 0, 1, &[1]), Malformed::Kind(99)),
        (event(kind::FREE, 1, 0, 1, &[]), Malformed::Payload { kind: kind::FREE, words: 2 }),
        (event(kind::FREE, 1, 0, 1, &[1]), Malformed::Payload { kind: kind::FREE, words: 3 }),
        (event(kind::ALLOC, 77, 0, 1, &[1, 2, 3, 4]), Malformed::Api(77)),
        (vec![u64::from(kind::DLCLOSE) << 16 | 1 << 32], Malformed::Payload { kind: kind::DLCLOSE, words: 1 }),
    ];
    let segment = segment();
    let writer = Writer::claim(&segment, 0);
    for (words, wanted) in bad {
        writer.write(&[&words[..], &good].concat());
        let mut got = Vec::new();
        let drained = ring(&segment, 0).drain_to(&mut got);
        assert_eq!(got, [Err(wanted), Ok(Stamped { time: 5, event: Event::Dlclose })]);
        assert_eq!((drained.events, drained.malformed), (1, 1));
    }
    // Where the length itself is wrong, what follows cannot be told apart.
    for words in [0u64, 3, 65535] {
        writer.write(&[words << 32 | u64::from(kind::DLCLOSE) << 16, 1]);
        let mut got = Vec::new();
        ring(&segment, 0).drain_to(&mut got);
        assert_eq!(got, [Err(Malformed::Length { words: words as u16, available: 2 })]);
        assert_eq!(ring(&segment, 0).pending(), 0);
    }
    // Positions that someone scribbled over.
    for head in [u64::MAX, 1 << 40, writer.control.head.load(Relaxed) + 12] {
        writer.control.head.store(head, Relaxed);
        let mut got = Vec::new();
        ring(&segment, 0).drain_to(&mut got);
        assert!(matches!(got[..], [Err(Malformed::Positions { .. })]), "{got:?}");
    }
}

#[test]
fn random_bytes_never_panic() {
    let segment = segment();
    let writer = Writer::claim(&segment, 0);
    let mut random = numbers(2);
    for _ in 0..3000 {
        // Half of them with a plausible first word, to get further.
        for word in writer.data {
            let plausible = random(3) | random(16) << 16 | random(12) << 32;
            let noise = random(1 << 31) << 33 ^ random(1 << 31);
            word.store(if random(2) == 0 { plausible } else { noise }, Relaxed);
        }
        writer.control.head.fetch_add(8 * random(513), Relaxed);
        ring(&segment, 0).drain(|_| ());
        assert_eq!(ring(&segment, 0).pending(), 0);
    }
}

#[test]
fn a_ring_is_released_when_its_thread_is_gone_and_it_is_drained() {
    let segment = segment();
    let writer = Writer::claim(&segment, 1);
    let ring = ring(&segment, 1);
    writer.write(&event(kind::DLCLOSE, 0, 0, 1, &[]));
    writer.control.lost_full.store(3, Relaxed);
    writer.control.lost_frees.store(2, Relaxed);
    assert_eq!(segment.active_rings().map(|ring| ring.index()).collect::<Vec<_>>(), [1]);

    // Alive: this very thread.
    // SAFETY: gettid has no preconditions.
    writer.control.tid.store(unsafe { libc::gettid() }, Relaxed);
    writer.control.pid.store(std::process::id() as i32, Relaxed);
    assert!(!ring.has_ended());
    assert_eq!(ring.release(), None);
    // Unknown: being claimed.
    writer.control.pid.store(0, Relaxed);
    assert!(!ring.has_ended());
    // Gone, but not drained.
    writer.control.pid.store(1 << 30, Relaxed);
    assert!(ring.has_ended());
    assert_eq!(ring.release(), None);

    assert_eq!(ring.drain(|_| ()).events, 1);
    writer.header.next_ring.store(3, Relaxed);
    let losses = ring.release().expect("released");
    assert_eq!((losses.full, losses.frees), (3, 2));
    assert_eq!(ring.state(), RingState::Free);
    assert_eq!(ring.losses(), Default::default());
    assert_eq!(writer.control.head.load(Relaxed), 0);
    assert!(writer.data.iter().all(|word| word.load(Relaxed) == 0), "its memory was given back");
    assert_eq!(segment.active_rings().count(), 0);
    assert_eq!(writer.header.next_ring.load(Relaxed), 1);
    assert_eq!(ring.release(), None, "only once");
}

#[test]
fn what_a_thread_left_unsaid_of_its_recent_blocks_is_read_once() {
    let segment = segment();
    let writer = Writer::claim(&segment, 3);
    let fill = |at: usize, state: u16, repeats: u32| {
        let block = &writer.recent[at];
        block.address.store(at as u64 * 16, Relaxed);
        block.stack.store(9, Relaxed);
        block.size.store(40, Relaxed);
        block.api.store(Api::Calloc as u16, Relaxed);
        block.version.store(7, Relaxed);
        block.repeats.store(repeats, Relaxed);
        block.state.store(state, Relaxed);
    };
    fill(1, RECENT_LIVE, 0);
    fill(2, RECENT_LIVE, 5);
    fill(3, RECENT_FREED, 0);
    fill(63, RECENT_FREED, 6);
    let mut events = Vec::new();
    let ring = ring(&segment, 3);
    ring.outstanding(|event| events.push(event));
    let free = |address| Event::Free { api: Api::Calloc, address, tentative: false, version: 7 };
    let repeat = |count| Event::Repeat { stack: 9, size: 40, count };
    assert_eq!(events, [repeat(5), free(48), repeat(6), free(63 * 16)]);
    ring.outstanding(|event| panic!("again: {event:?}"));
    fill(3, RECENT_FREED, 0);
    ring.release().expect("released");
    ring.outstanding(|event| panic!("of the thread before: {event:?}"));
}

#[test]
fn the_bell_wakes_and_is_never_slept_through() {
    let segment = segment();
    let writer = Writer::claim(&segment, 0);
    let long = Duration::from_secs(60);

    let bell = segment.bell();
    let begin = Instant::now();
    assert_eq!(segment.wait(bell, Duration::from_millis(20)), Woken::TimedOut);
    assert!(begin.elapsed() >= Duration::from_millis(20));

    // Rung before the wait: no sleep.
    let bell = segment.bell();
    writer.header.doorbell.fetch_add(1, SeqCst);
    assert_eq!(segment.wait(bell, long), Woken::Rung);

    // Rung while asleep, by the header's protocol.
    let bell = segment.bell();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while writer.header.sleeping.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            writer.header.doorbell.fetch_add(1, SeqCst);
            if writer.header.sleeping.swap(0, SeqCst) == 1 {
                // SAFETY: the futex word is in a mapping that is never unmapped.
                unsafe { libc::syscall(libc::SYS_futex, writer.header.doorbell.as_ptr(), libc::FUTEX_WAKE, 1) };
            }
        });
        assert_eq!(segment.wait(bell, long), Woken::Rung);
    });
    assert!(begin.elapsed() < long);
    assert_eq!(writer.header.sleeping.load(SeqCst), 0);
}

#[test]
fn the_segment_is_sparse_sealed_and_says_when_it_closes() {
    let segment = Segment::create(Options::default()).expect("a segment");
    let writer = Writer::claim(&segment, 4095);
    let file = std::fs::OpenOptions::new().write(true).open(segment.path()).expect("open the segment");
    use std::os::unix::fs::MetadataExt;
    let metadata = file.metadata().expect("its size");
    assert!(metadata.len() > 1 << 30);
    assert!(metadata.blocks() * 512 < 1 << 20, "{} blocks", metadata.blocks());
    assert!(file.set_len(4096).is_err(), "a program cannot kill the recorder by shrinking it");
    assert_eq!(segment.rings().count(), 4096);
    assert!(segment.ring(4096).is_none());
    // A scribbled count does not lead out of the segment.
    writer.header.rings_used.store(u32::MAX, SeqCst);
    assert_eq!(segment.rings().count(), 4096);
    drop(segment);
    assert_eq!(writer.header.closed.load(SeqCst), 1);
}

#[test]
fn silly_options_are_refused() {
    let sane = Options::default();
    for options in [
        Options { ring_count: 0, ..sane },
        Options { ring_bytes: 0, ..sane },
        Options { ring_bytes: 5000, ..sane },
        Options { ring_bytes: 2048, ..sane },
        Options { max_frames: 0, ..sane },
        Options { max_frames: 129, ..sane },
    ] {
        assert!(Segment::create(options).is_err(), "{options:?}");
    }
}
