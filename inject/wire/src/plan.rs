//! The compiled plan, field by field. Nothing here is documented twice: see `numamma_plan.h`.
#![allow(missing_docs)]

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

pub const VERSION: u32 = 3;
/// "NMMPLAN"
pub const MAGIC: u64 = 0x4e_414c_504d_4d4e;
/// The variable of the environment that names it.
pub const ENVIRONMENT: &str = "NUMAMMA_PLAN";
pub const NODES: u32 = 1024;
pub const COUNTED: usize = 64;
pub const CPUS: u32 = 8192;
/// Of modules that a plan names.
pub const MODULES: usize = 256;

pub const TARGET_HEAP: u32 = 1;
pub const TARGET_MAP: u32 = 2;
pub const TARGET_STATIC: u32 = 4;
pub const TARGET_LABEL: u32 = 8;

pub const POLICY_FIRST_TOUCH: u32 = 0;
pub const POLICY_BIND: u32 = 1;
pub const POLICY_PREFERRED: u32 = 2;
pub const POLICY_INTERLEAVE: u32 = 3;
pub const POLICY_WEIGHTED: u32 = 4;
pub const POLICY_BLOCK: u32 = 5;
pub const POLICY_CYCLIC: u32 = 6;
pub const POLICY_MAP: u32 = 7;

pub const GATHER_NOT: u32 = 0;
pub const GATHER_BY_THREAD: u32 = 1;
pub const GATHER_BY_INSTANCE: u32 = 2;

pub const SKIPPED: u32 = u32::MAX;
pub const CALLER: u32 = 1 << 31;

pub const PLACED_FREE: u32 = 0;
pub const PLACED_LIVE: u32 = 1;
pub const PLACED_BUSY: u32 = 2;
pub const PLACED_LEFT: u32 = 3;
pub const PLACED_MOVING: u32 = 4;
pub const PLACED_ENDED: u32 = 5;
pub const PLACED_TRIES: u32 = 64;

/// `struct nmm_plan_rule`.
#[repr(C)]
#[derive(Debug)]
pub struct Rule {
    pub targets: u32,
    pub any_place: u32,
    pub least: u64,
    pub most: u64,
    pub first: u32,
    pub last: u32,
    pub policy: u32,
    pub page_bytes: u32,
    pub node: u32,
    pub nodes: u32,
    pub run: u32,
    pub runs: u32,
    pub repeat: u32,
    pub gather: u32,
    pub block_bytes: u64,
    pub instances: u32,
    pub caller: u32,
    pub callers: u32,
    pub base: u32,
    pub phased: u32,
    pub last_error: AtomicU32,
    pub matched: AtomicU64,
    pub bytes: AtomicU64,
    pub too_small: AtomicU64,
    pub failed: AtomicU64,
    pub fell_back: AtomicU64,
    pub unlisted: AtomicU64,
    pub right: AtomicU64,
    pub elsewhere: AtomicU64,
    pub absent: AtomicU64,
    pub unread: AtomicU64,
    pub by_node: [AtomicU64; COUNTED],
}

impl Default for Rule {
    fn default() -> Self {
        // SAFETY: integers, for which all zero is a value.
        unsafe { std::mem::zeroed() }
    }
}

/// `struct nmm_plan_module`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Module {
    pub device: u64,
    pub inode: u64,
    pub whole: u32,
    pub text: u32,
    pub start: u64,
    pub place: u32,
    pub places: u32,
}

/// `struct nmm_plan_place`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub low: u64,
    pub high: u64,
    pub reach: u64,
    pub module: u32,
    pub rule: u32,
}

/// `struct nmm_plan_static`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Static {
    pub address: u64,
    pub bytes: u64,
    pub module: u32,
    pub rule: u32,
}

/// `struct nmm_plan_run`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    pub pages: u64,
    pub node: u32,
    pub pad: u32,
}

/// `struct nmm_plan_thread`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    pub cpus: [u64; CPUS as usize / 64],
}

/// `struct nmm_plan_label`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    pub text: u32,
    pub rule: u32,
}

/// `struct nmm_plan_phase`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Phase {
    pub text: u32,
    pub by_function: u32,
    pub begun: AtomicU64,
}

/// `struct nmm_plan_process`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Process {
    pub pid: AtomicI32,
    pub phase: AtomicU32,
}

/// `struct nmm_placed`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Placed {
    pub address: AtomicU64,
    pub bytes: AtomicU64,
    pub base: AtomicU64,
    pub length: AtomicU64,
    pub rule: AtomicU32,
    pub pid: AtomicI32,
    pub state: AtomicU32,
    pub node: AtomicI32,
    pub pieces: AtomicU32,
    pub pad: AtomicU32,
}

/// `struct nmm_plan_table`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Table {
    pub at: u32,
    pub count: u32,
}

/// `struct nmm_plan`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Header {
    pub magic: u64,
    pub version: u32,
    pub strict: u32,
    pub bytes: u64,
    pub least_heap: u64,
    pub least_map: u64,
    pub main_node: u32,
    pub pad1: u32,
    pub rules: Table,
    pub modules: Table,
    pub places: Table,
    pub statics: Table,
    pub nodes: Table,
    pub runs: Table,
    pub threads: Table,
    pub labels: Table,
    pub phases: Table,
    pub overrides: Table,
    pub texts: Table,
    pub processes: Table,
    pub placed: Table,
    pub joined: AtomicU32,
    pub stopped: AtomicU32,
    pub next_placed: AtomicU32,
    pub no_phase: AtomicU32,
    pub pinned: AtomicU64,
    pub not_pinned: AtomicU64,
    pub pad2: [AtomicU64; 4],
}
