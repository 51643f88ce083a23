//! Functions that are watched, and samples that are inside them.

use crate::callsite::general;
use crate::clock::lift::STACK_POINTER;
use crate::inside::Inside;
use crate::perf::decode::Registers;
use crate::probes::{Probe, ProbeKind};
use crate::session::Session;
use crate::tasks::{ProcessId, ThreadId};

/// What is taken for one stack where nothing tells how far it goes (coroutines), bytes.
const UNKNOWN_STACK: u64 = 64 << 10;
/// Bytes of a return address, which a call leaves on the stack.
const RETURN_ADDRESS: u64 = 8;

/// What is watched, and who is inside.
#[derive(Debug)]
pub struct Watched {
    probes: Vec<Probe>,
    pub inside: Inside,
}

impl Watched {
    /// Watches that many functions by those probes.
    pub fn new(probes: Vec<Probe>, functions: usize) -> Self {
        Self { probes, inside: Inside::new(functions) }
    }
}

impl Session {
    /// A thread came by a probe.
    pub(crate) fn came_by(&mut self, time: i64, pid: i32, tid: i32, ip: u64, number: u32, registers: &Registers) {
        // The probes are in all processes that execute the file.
        if self.watched.is_none() || self.tasks.present(pid).is_none() {
            return;
        }
        let thread = self.tasks.thread(pid, tid, time);
        let pointer = registers.general[usize::from(STACK_POINTER)];
        self.learn_stack(thread, pointer);
        let row = &self.tasks.threads[thread].row;
        let own = (row.stack_low as u64..row.stack_high as u64).contains(&pointer);
        let stack_high = if own { row.stack_high as u64 } else { pointer.saturating_add(UNKNOWN_STACK) };
        let Some(Watched { probes, inside }) = &mut self.watched else { return };
        let Some(probe) = probes.get(number as usize) else { return };
        match probe.kind {
            ProbeKind::Enter => inside.enter(thread, probe.function, pointer, stack_high),
            ProbeKind::Leave(_) if probe.leaves(ip, registers) => inside.leave(thread, probe.function, pointer),
            ProbeKind::Leave(_) => {}
        }
    }

    /// True if a sample counts: nothing is watched, or its thread is inside what is.
    pub(crate) fn is_inside(&mut self, process: ProcessId, thread: ThreadId, ip: u64, registers: &Registers) -> bool {
        match &self.watched {
            None => return true,
            Some(watched) if !watched.inside.may_be_inside(thread) => return false,
            Some(_) => {}
        }
        let mapping = self.tasks.processes[process].space.mappings.find(ip);
        if mapping.is_some_and(|(_, mapping)| self.modules.path(mapping.path) == "[uprobes]") {
            // The kernel's copy of an instruction that a probe stands on: that time is the recorder's.
            return false;
        }
        let place = self.place(process, ip);
        let entry = place.and_then(|(path, address)| {
            let rule = self.modules.get(path)?.frame_rule(address)?;
            let base = registers.general[usize::from(general(rule.register)?)];
            base.wrapping_add_signed(rule.offset).checked_sub(RETURN_ADDRESS)
        });
        let pointer = entry.unwrap_or(registers.general[usize::from(STACK_POINTER)]);
        let place = place.map(|(path, address)| (self.modules.path(path), address));
        let Some(Watched { probes, inside }) = &mut self.watched else { return true };
        inside.is_inside(thread, pointer, |function| {
            place.is_some_and(|(path, address)| {
                let mut of_it = probes.iter().filter(|probe| probe.function == function);
                of_it.any(|probe| probe.is_in(address) && probe.file.as_os_str() == path)
            })
        })
    }

    /// A process became another program: its thread is where that begins.
    pub(crate) fn no_longer_inside(&mut self, pid: i32) {
        if let (Some(thread), Some(watched)) = (self.tasks.known_thread(pid), &mut self.watched) {
            watched.inside.end(thread);
        }
    }
}
