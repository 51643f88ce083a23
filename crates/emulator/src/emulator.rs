//! Runs code.

use std::io;

use crate::code::Cache;
use crate::context::Context;
use crate::features;
use crate::memory::{Memory, PAGE, Space};
use crate::observe::Observer;
use crate::runner::Runner;
use crate::state::State;
use crate::step::step;
use crate::stop::{Stop, Unsupported};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Why.
    pub stop: Stop,
    /// Instructions that were executed, with repetitions of string instructions unless those had a limit of their own.
    pub executed: u64,
}

/// When a run ends at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Instructions.
    pub instructions: u64,
    /// Repetitions of string instructions; none: each counts as an instruction.
    pub repetitions: Option<u64>,
    /// Where it ends if it comes to one of them, but for the place where it begins.
    pub until: [Option<Place>; 2],
}

/// A place in an execution: the next instruction and the general registers before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its address.
    pub ip: u64,
    /// In the processor's numbering, as in [`State`].
    pub general: [u64; 16],
}

/// No instruction begins there.
const NOWHERE: Place = Place { ip: u64::MAX, general: [0; 16] };

/// Executes code of processes other than this one. It keeps what it decoded for the next run; one emulator is best used for
/// the threads of one process.
pub struct Emulator {
    context: Box<Context>,
    space: Space,
    cache: Cache,
    address_bits: u32,
}

impl Emulator {
    /// An emulator that knows no code yet.
    ///
    /// # Errors
    /// If the kernel gives no memory that code can be put into, or the processor cannot save its registers as needed.
    pub fn new() -> io::Result<Self> {
        if crate::state::Layout::get().enabled == 0 {
            return Err(io::Error::other("the processor or the kernel does without XSAVE"));
        }
        Ok(Self {
            context: Box::new(Context::new()),
            space: Space::new(),
            cache: Cache::new()?,
            address_bits: features::address_bits(),
        })
    }

    /// Forgets all decoded code. Not needed for code that changes: every run looks whether what it executes is still the same.
    pub fn forget(&mut self) {
        self.cache.forget();
    }

    /// Executes up to `limit` instructions from `state` on, which is afterwards the one that was reached.
    ///
    /// Memory is read by whole pages as they are needed, each once; what is written is kept here, and gone with the run.
    pub fn run<M: Memory + ?Sized, O: Observer + ?Sized>(
        &mut self,
        state: &mut State,
        memory: &mut M,
        observer: &mut O,
        limit: u64,
    ) -> Run {
        self.begin();
        self.go_on(state, memory, observer, Limits { instructions: limit, repetitions: None, until: [None; 2] })
    }

    /// Forgets the memory of the run before.
    pub fn begin(&mut self) {
        self.space.begin();
        self.cache.begin();
    }

    /// As [`Self::run`], on memory as the run before left it.
    pub fn go_on<M: Memory + ?Sized, O: Observer + ?Sized>(
        &mut self,
        state: &mut State,
        memory: &mut M,
        observer: &mut O,
        limits: Limits,
    ) -> Run {
        let Limits { instructions: limit, repetitions, until } = limits;
        self.context.load(state);
        let (context, space) = (&mut *self.context, &mut self.space);
        let address_bits = self.address_bits;
        let mut runner = Runner {
            context,
            space,
            memory,
            observer,
            status: 0,
            other_flags: 0,
            address_bits,
            left: limit,
            repetitions,
        };
        runner.set_flags(state.flags);
        let stop = if runner.other_flags & crate::flags::STRANGE != 0 {
            Stop::Unsupported(Unsupported::Flags)
        } else {
            run(&mut runner, &mut self.cache, &mut state.ip, &until.map(|until| until.unwrap_or(NOWHERE)))
        };
        let executed = limit - runner.left;
        state.flags = runner.flags();
        self.context.store(state);
        Run { stop, executed }
    }

    /// Memory as the last run left it. False where that did not read it.
    pub fn memory_after(&mut self, address: u64, to: &mut [u8]) -> bool {
        self.space.copy_in(&mut |_: u64, _: &mut [u8; PAGE]| None, address, to).is_ok()
    }

    /// Has the processor execute all instructions that can be, those that are emulated by hand included.
    #[doc(hidden)]
    pub fn only_native(&mut self, on: bool) {
        self.cache.forget();
        self.cache.only_native = on;
    }
}

fn run<M, O>(runner: &mut Runner<'_, M, O>, cache: &mut Cache, ip: &mut u64, until: &[Place; 2]) -> Stop
where
    M: Memory + ?Sized,
    O: Observer + ?Sized,
{
    let mut next = *ip;
    let limit = runner.left;
    loop {
        if runner.left == 0 {
            *ip = next;
            return Stop::Limit;
        }
        let index = match cache.enter(runner.space, runner.memory, next) {
            Ok(index) => index,
            Err(stop) => {
                *ip = next;
                return stop;
            }
        };
        let cache = &*cache;
        for op in &*cache.block(index).ops {
            if runner.left == 0 {
                *ip = op.ip;
                return Stop::Limit;
            }
            let is_there = |until: &Place| op.ip == until.ip && runner.context.general[..16] == until.general;
            if until.iter().any(is_there) && runner.left < limit {
                *ip = op.ip;
                return Stop::Place;
            }
            runner.left -= 1;
            runner.observer.instruction(op.ip);
            match step(runner, cache, op) {
                Ok(after) => next = after,
                Err(stop) => {
                    *ip = op.ip;
                    if stop != Stop::Limit {
                        runner.left += 1;
                    }
                    return stop;
                }
            }
        }
    }
}
