//! The header's structures and constants, field by field. Nothing here is documented twice: see `numamma_wire.h`.
#![allow(missing_docs)]

use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU16, AtomicU32, AtomicU64};

pub const WIRE_VERSION: u32 = 11;
/// "NUMAMMA"
pub const MAGIC: u64 = 0x41_4d4d_414d_554e;
pub const PAGE: u32 = 4096;
pub const MAX_FRAMES: u32 = 128;
pub const TEXT_WORDS: u32 = 32;
pub const RECENT: u32 = 64;
pub const RING_EXTRA: u32 = 2 * PAGE;

pub const CLOCK_MONOTONIC: u32 = 0;
pub const CLOCK_TSC: u32 = 1;

/// `struct nmm_segment`. All fields are atomics: the page is shared with programs that may write anything.
#[repr(C)]
pub struct SegmentHeader {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub header_bytes: AtomicU32,
    pub ring_count: AtomicU32,
    pub ring_bytes: AtomicU32,
    pub rings_offset: AtomicU64,
    pub recorder_pid: AtomicI32,
    pub max_frames: AtomicU32,
    pub heap: AtomicU32,
    pub closed: AtomicU32,
    pub clock: AtomicU32,
    pub collapse: AtomicU32,
    pub exact: AtomicU32,
    pub vdso_clock: AtomicU32,
    pub sleeping: AtomicU32,
    pub doorbell: AtomicU32,
    pub next_ring: AtomicU32,
    pub rings_used: AtomicU32,
    pub lost_no_ring: AtomicU64,
    pub lost_no_map: AtomicU64,
    pub muted: AtomicU64,
    pub no_ring: AtomicU32,
    pub pad1: AtomicU32,
    pub lost_filtered: AtomicU64,
    pub trace_left: AtomicI64,
    pub caches: Caches,
    pub reserved: [AtomicU64; 43],
}

/// `struct nmm_caches`.
#[repr(C)]
pub struct Caches {
    pub line: AtomicU32,
    pub prefetch: AtomicU32,
    pub sockets: AtomicU32,
    pub pad: AtomicU32,
    pub sets: [AtomicU32; 3],
    pub ways: [AtomicU32; 3],
}

/// `struct nmm_ring`.
#[repr(C)]
pub struct RingControl {
    pub state: AtomicU32,
    pub pid: AtomicI32,
    pub tid: AtomicI32,
    pub pad0: AtomicU32,
    pub pad1: [AtomicU64; 6],
    pub head: AtomicU64,
    pub lost_full: AtomicU64,
    pub lost_frees: AtomicU64,
    pub waits: AtomicU64,
    pub pad2: [AtomicU64; 4],
    pub tail: AtomicU64,
    pub pad3: [AtomicU64; 7],
}

/// `struct nmm_recent`.
#[repr(C)]
pub struct RecentBlock {
    pub address: AtomicU64,
    pub stack: AtomicU64,
    pub size: AtomicU32,
    pub api: AtomicU16,
    pub state: AtomicU16,
    pub version: AtomicU32,
    pub repeats: AtomicU32,
    pub carving: AtomicU32,
    pub pad: AtomicU32,
}

pub const RECENT_NONE: u16 = 0;
pub const RECENT_LIVE: u16 = 1;
pub const RECENT_FREED: u16 = 2;

/// `struct nmm_event`: the first two words of each event.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct EventHeader {
    pub aux: u16,
    pub kind: u16,
    pub words: u16,
    pub aux2: u16,
    pub time: u64,
}

/// Words of an [`EventHeader`].
pub const EVENT_WORDS: u16 = 2;

pub const RING_FREE: u32 = 0;
pub const RING_OWNED: u32 = 1;
pub const RING_ENDED: u32 = 2;

/// `enum nmm_event_type`.
pub mod kind {
    pub const PROCESS: u16 = 1;
    pub const THREAD_START: u16 = 2;
    pub const THREAD_END: u16 = 3;
    pub const STACK: u16 = 4;
    pub const ALLOC: u16 = 5;
    pub const FREE: u16 = 6;
    pub const UNFREE: u16 = 7;
    pub const MAP: u16 = 8;
    pub const UNMAP: u16 = 9;
    pub const UNUNMAP: u16 = 10;
    pub const REPEAT: u16 = 11;
    pub const BREAK: u16 = 12;
    pub const DLCLOSE: u16 = 13;
    pub const COUNTING: u16 = 14;
    pub const ACCESSES: u16 = 15;
    pub const COUNTED: u16 = 16;
    pub const TOUCH: u16 = 17;
    pub const UNSUPPORTED: u16 = 18;
    pub const LABEL: u16 = 19;
    pub const UNLABEL: u16 = 20;
    pub const PHASE: u16 = 21;
    pub const WANTED: u16 = 22;
    pub const ACCESS: u16 = 23;
    pub const ACCESS_MORE: u16 = 24;
}
