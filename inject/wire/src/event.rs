//! Events: words in, meaning out. Pure; knows nothing of rings.

use crate::layout::{EVENT_WORDS, kind};

/// An event and when it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamped {
    /// By the segment's clock ([`crate::Clock`]).
    pub time: u64,
    /// What happened.
    pub event: Event,
}

/// What the recorded program did. Sizes and lengths in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Event {
    /// A process mapped the segment: `forked` as the child of a fork, else after exec. `own_allocator`: the executable
    /// brings an allocator whose calls are not seen.
    Process {
        pid: i32,
        parent: i32,
        forked: bool,
        own_allocator: bool,
    },
    /// A thread began. `stack_low` and `tls_low` are 0 if unknown.
    ThreadStart {
        tid: i32,
        main: bool,
        stack_low: u64,
        stack_high: u64,
        tls_low: u64,
        thread_pointer: u64,
        start_routine: u64,
    },
    /// The start routine returned; destructors of thread-specific data may still follow.
    ThreadEnd {
        tid: i32,
    },
    /// Return addresses, innermost first. `cut`: there were more.
    Stack {
        hash: u64,
        frames: Vec<u64>,
        cut: bool,
    },
    /// `stack` is the hash of a [`Event::Stack`], 0 for none. `version`: see [`Event::Free`]. `replaces`: the block that was
    /// last at this address had been released, of which there is no event.
    Alloc {
        api: Api,
        address: u64,
        size: u64,
        stack: u64,
        version: u32,
        replaces: bool,
    },
    /// `tentative`: may be taken back by [`Event::Unfree`]. Of the block at that address whose version is not younger than
    /// `version` ([`is_younger`]).
    Free {
        api: Api,
        address: u64,
        tentative: bool,
        version: u32,
    },
    Unfree {
        address: u64,
    },
    Map {
        address: u64,
        length: u64,
        prot: u16,
        file_backed: bool,
        stack: u64,
        offset: u64,
        flags: u64,
    },
    /// `tentative`: may be taken back by [`Event::Ununmap`].
    Unmap {
        address: u64,
        length: u64,
        tentative: bool,
    },
    Ununmap {
        address: u64,
        length: u64,
    },
    /// A block of `size` bytes came and went `count` times in addition to what was sent.
    Repeat {
        stack: u64,
        size: u64,
        count: u64,
    },
    Break {
        old: u64,
        new: u64,
        stack: u64,
    },
    /// A library was closed: from here on, code addresses may mean something else.
    Dlclose,
    /// Counting begins in a process, in the emulator or by the program's own hooks. `executable`: path of what the emulator runs;
    /// empty in the child of a fork.
    Counting {
        executable: Vec<u8>,
        by_hooks: bool,
    },
    /// Accesses of thread `tid` to each four bytes from `address` on, since they were told of last. `memory`: those of them that reach
    /// memory; empty where there is no model of caches.
    Accesses {
        address: u64,
        tid: i32,
        counts: Vec<Accessed>,
        memory: Vec<Accessed>,
    },
    /// All that was counted in the process until now has been told.
    Counted,
    /// The program accessed a page for the first time since it was mapped; `ip`: by which instruction.
    Touch {
        address: u64,
        ip: u64,
        write: bool,
    },
    /// The emulator cannot do what the program asked for.
    Unsupported(Unsupported),
    /// The program names memory.
    Label {
        address: u64,
        bytes: u64,
        name: Vec<u8>,
    },
    /// It takes the name of that memory back.
    Unlabel {
        address: u64,
    },
    /// A phase of the program begins; empty: none is left.
    Phase {
        name: Vec<u8>,
    },
    /// Samples are wanted from here on, or no longer.
    Wanted(bool),
    /// An access by itself.
    Access(AccessAt),
    /// More of the access that the thread told of last.
    AccessMore(AccessAt),
}

/// An access, or a piece of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessAt {
    /// Where it begins.
    pub address: u64,
    /// Its width.
    pub bytes: u16,
    /// By which instruction; from hooks, the one that follows the call.
    pub ip: u64,
    /// Whether it writes.
    pub write: bool,
}

/// How often four bytes were accessed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Accessed {
    pub reads: u32,
    pub writes: u32,
}

/// What an emulator lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsupported {
    /// An AVX-512 instruction, at this address.
    Instruction(u64),
    /// The system call of this number.
    Call(u64),
}

/// Whether the version `a` of an address was given out after `b`: versions wrap.
pub fn is_younger(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// Which function made an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
#[repr(u16)]
pub enum Api {
    Malloc = 1,
    Calloc = 2,
    Realloc = 3,
    Reallocarray = 4,
    PosixMemalign = 5,
    AlignedAlloc = 6,
    Memalign = 7,
    Valloc = 8,
    Pvalloc = 9,
    /// Any form of C++'s operator, where the allocator has its own.
    New = 10,
}

impl Api {
    const ALL: [Api; 10] = [
        Api::Malloc,
        Api::Calloc,
        Api::Realloc,
        Api::Reallocarray,
        Api::PosixMemalign,
        Api::AlignedAlloc,
        Api::Memalign,
        Api::Valloc,
        Api::Pvalloc,
        Api::New,
    ];

    /// The function of this wire number.
    pub fn from_wire(value: u16) -> Option<Api> {
        Api::ALL.into_iter().find(|api| *api as u16 == value)
    }

    /// The function's name.
    pub fn name(self) -> &'static str {
        match self {
            Api::Malloc => "malloc",
            Api::Calloc => "calloc",
            Api::Realloc => "realloc",
            Api::Reallocarray => "reallocarray",
            Api::PosixMemalign => "posix_memalign",
            Api::AlignedAlloc => "aligned_alloc",
            Api::Memalign => "memalign",
            Api::Valloc => "valloc",
            Api::Pvalloc => "pvalloc",
            Api::New => "operator new",
        }
    }
}

/// Something in a ring that no writer writes. Data, not a failure: it is counted as a loss and reading goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Malformed {
    #[error("ring positions make no sense: tail {tail}, head {head}")]
    Positions { tail: u64, head: u64 },
    #[error("an event of {words} words where {available} are published")]
    Length { words: u16, available: u64 },
    #[error("unknown event type {0}")]
    Kind(u16),
    #[error("an event of type {kind} with {words} words")]
    Payload { kind: u16, words: u16 },
    #[error("unknown allocation function {0}")]
    Api(u16),
}

/// The fields of an event's first word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub aux: u16,
    pub kind: u16,
    pub words: u16,
    pub aux2: u16,
}

impl Head {
    pub fn unpack(word: u64) -> Head {
        let part = |shift: u32| (word >> shift) as u16;
        Head { aux: part(0), kind: part(16), words: part(32), aux2: part(48) }
    }
}

/// Decodes one event. `word(i)` is its i-th word, asked only for `i < head.words`.
pub(crate) fn decode(head: Head, word: impl Fn(u16) -> u64) -> Result<Stamped, Malformed> {
    let payload = head.words.saturating_sub(EVENT_WORDS);
    let fixed = match head.kind {
        kind::DLCLOSE => 0,
        kind::THREAD_END | kind::UNFREE => 1,
        kind::PROCESS | kind::FREE | kind::UNMAP | kind::UNUNMAP => 2,
        kind::BREAK | kind::REPEAT => 3,
        kind::ALLOC => 4,
        kind::MAP => 5,
        kind::THREAD_START => 6,
        kind::STACK => payload.max(1),
        kind::COUNTED | kind::WANTED => 0,
        kind::UNSUPPORTED | kind::UNLABEL => 1,
        kind::TOUCH | kind::ACCESS | kind::ACCESS_MORE => 2,
        kind::ACCESSES => payload.max(2),
        kind::COUNTING | kind::PHASE => payload,
        kind::LABEL => payload.max(2),
        other => return Err(Malformed::Kind(other)),
    };
    if head.words < EVENT_WORDS || payload != fixed {
        return Err(Malformed::Payload { kind: head.kind, words: head.words });
    }
    let arg = |i: u16| word(EVENT_WORDS + i);
    let api = || Api::from_wire(head.aux).ok_or(Malformed::Api(head.aux));
    let text = |from: u16| {
        let mut text: Vec<u8> = (from..payload).flat_map(|i| arg(i).to_ne_bytes()).collect();
        text.truncate(text.iter().position(|&byte| byte == 0).unwrap_or(text.len()));
        text
    };
    let access = || AccessAt { address: arg(0), bytes: head.aux2, ip: arg(1), write: head.aux == 2 };
    let event = match head.kind {
        kind::PROCESS => Event::Process {
            pid: arg(0) as i32,
            parent: arg(1) as i32,
            forked: head.aux == 1,
            own_allocator: head.aux2 == 1,
        },
        kind::THREAD_START => Event::ThreadStart {
            tid: arg(0) as i32,
            main: head.aux == 1,
            stack_low: arg(1),
            stack_high: arg(2),
            tls_low: arg(3),
            thread_pointer: arg(4),
            start_routine: arg(5),
        },
        kind::THREAD_END => Event::ThreadEnd { tid: arg(0) as i32 },
        kind::STACK => Event::Stack { hash: arg(0), frames: (1..payload).map(arg).collect(), cut: head.aux == 1 },
        kind::ALLOC => Event::Alloc {
            api: api()?,
            address: arg(0),
            size: arg(1),
            stack: arg(2),
            version: arg(3) as u32,
            replaces: head.aux2 == 1,
        },
        kind::FREE => Event::Free { api: api()?, address: arg(0), tentative: head.aux2 == 1, version: arg(1) as u32 },
        kind::UNFREE => Event::Unfree { address: arg(0) },
        kind::MAP => Event::Map {
            address: arg(0),
            length: arg(1),
            prot: head.aux,
            file_backed: head.aux2 == 1,
            stack: arg(2),
            offset: arg(3),
            flags: arg(4),
        },
        kind::UNMAP => Event::Unmap { address: arg(0), length: arg(1), tentative: head.aux2 == 1 },
        kind::UNUNMAP => Event::Ununmap { address: arg(0), length: arg(1) },
        kind::REPEAT => Event::Repeat { stack: arg(0), size: arg(1), count: arg(2) },
        kind::BREAK => Event::Break { old: arg(0), new: arg(1), stack: arg(2) },
        kind::COUNTING => Event::Counting { executable: text(0), by_hooks: head.aux & 2 != 0 },
        kind::ACCESSES => {
            let counters = |from, end| {
                let accessed = |both| Accessed { reads: both as u32, writes: (both >> 32) as u32 };
                (from..end).map(arg).map(accessed).collect()
            };
            let end = if head.aux == 1 { 2 + (payload - 2) / 2 } else { payload };
            Event::Accesses {
                address: arg(0),
                tid: arg(1) as i32,
                counts: counters(2, end),
                memory: counters(end, payload),
            }
        }
        kind::COUNTED => Event::Counted,
        kind::TOUCH => Event::Touch { address: arg(0), ip: arg(1), write: head.aux == 2 },
        kind::UNSUPPORTED => Event::Unsupported(match head.aux {
            0 => Unsupported::Instruction(arg(0)),
            _ => Unsupported::Call(arg(0)),
        }),
        kind::LABEL => Event::Label { address: arg(0), bytes: arg(1), name: text(2) },
        kind::UNLABEL => Event::Unlabel { address: arg(0) },
        kind::PHASE => Event::Phase { name: text(0) },
        kind::WANTED => Event::Wanted(head.aux != 0),
        kind::ACCESS => Event::Access(access()),
        kind::ACCESS_MORE => Event::AccessMore(access()),
        _ => Event::Dlclose,
    };
    Ok(Stamped { time: word(1), event })
}
