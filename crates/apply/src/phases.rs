//! A phase begins in a process: what is placed there is moved to where it is wanted now.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use numamma_plan::Compiled;
use numamma_process::{break_up, move_pages};
use numamma_wire::{SharedPlan, plan as wire};

use crate::readback::{misplaced, read_one};

/// Places a process as the last of `phases` wants it, which began one after the other: as the library does it for phases that the program
/// itself announces (`inject/preload/place/phase.c`), but for policies of memory, which another process cannot set. What is used for the
/// first time from now on still goes where the former phase wanted it.
pub(crate) fn begin(shared: &SharedPlan, compiled: &Compiled, pid: i32, phases: &[u32]) {
    // Probes are in all processes that execute the file.
    let Some(process) = process(shared, pid) else { return };
    for phase in phases.iter().filter_map(|&phase| shared.phases().get((phase as usize).checked_sub(1)?)) {
        phase.begun.fetch_add(1, Relaxed);
    }
    let Some(&phase) = phases.last() else { return };
    if process.phase.swap(phase, AcqRel) == phase {
        return;
    }
    for (n, placed) in shared.used().iter().enumerate() {
        if placed.state.load(Acquire) != wire::PLACED_LIVE
            || placed.pid.load(Relaxed) != pid
            || placed.node.load(Relaxed) >= 0
        {
            continue;
        }
        let before = placed.rule.load(Relaxed) as usize;
        let rule = compiled.rule_in(phase, before);
        let (Some(old), Some(new)) = (shared.rules().get(before), shared.rules().get(rule)) else { continue };
        if rule == before {
            continue;
        }
        // How it lay until now; it may end meanwhile, and then the library has read it.
        let (reading, address) = (read_one(shared, compiled, n), placed.address.load(Relaxed));
        if placed.rule.compare_exchange(before as u32, rule as u32, AcqRel, Relaxed).is_err()
            || placed.state.load(Acquire) != wire::PLACED_LIVE
            || placed.address.load(Relaxed) != address
        {
            continue;
        }
        if let Some(reading) = reading {
            old.right.fetch_add(reading.pages.right, Relaxed);
            old.elsewhere.fetch_add(reading.pages.elsewhere, Relaxed);
            old.absent.fetch_add(reading.pages.unused, Relaxed);
            for (node, pages) in &reading.by_node {
                if let Some(counter) = old.by_node.get(*node as usize) {
                    counter.fetch_add(*pages, Relaxed);
                }
            }
        }
        if rule != new.base as usize {
            new.matched.fetch_add(1, Relaxed);
            new.bytes.fetch_add(placed.bytes.load(Relaxed), Relaxed);
        }
        let Some(moves) = misplaced(shared, compiled, n) else { continue };
        break_up(pid, &moves.borders);
        if let Err(error) = move_pages(pid, &moves.pages) {
            new.failed.fetch_add(1, Relaxed);
            new.last_error.store(error.raw_os_error().unwrap_or_default() as u32, Relaxed);
        }
    }
}

/// The place of a process in the plan's table. A child of a fork that has placed nothing yet has none.
fn process(shared: &SharedPlan, pid: i32) -> Option<&wire::Process> {
    let known = shared.processes().iter().find(|process| process.pid.load(Acquire) == pid);
    if known.is_some() || !is_ours(shared, pid) {
        return known;
    }
    let mut free = shared.processes().iter().filter(|process| process.pid.load(Relaxed) == 0);
    let found = free.find(|process| process.pid.compare_exchange(0, pid, AcqRel, Relaxed).is_ok());
    if found.is_none() {
        shared.header().no_phase.fetch_add(1, Relaxed);
    }
    found
}

/// True if a process has the plan in its environment.
fn is_ours(shared: &SharedPlan, pid: i32) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let named = format!("{}={}", wire::ENVIRONMENT, shared.path().display());
    environment.split(|&byte| byte == 0).any(|variable| variable == named.as_bytes())
}
