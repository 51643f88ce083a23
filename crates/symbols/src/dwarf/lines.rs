//! From an instruction to its source line and the functions inlined there.

use std::sync::{Mutex, PoisonError};

use addr2line::Context;

use super::load::{DebugSections, SharedReader};
use crate::names::demangle;
use crate::{Frame, LineRow};

/// Inlining deeper than this is a damaged tree.
const MOST_FRAMES: usize = 256;

/// The line tables of a module. Each unit's is parsed at the first question about it; the lock is there because that
/// parsing changes it.
pub(crate) struct Lines(Mutex<Context<SharedReader>>);

impl std::fmt::Debug for Lines {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Lines")
    }
}

impl Lines {
    /// None when the units' table is damaged.
    pub fn new(sections: &DebugSections) -> Option<Self> {
        Some(Self(Mutex::new(Context::from_dwarf(sections.shared()).ok()?)))
    }

    /// What the tables say from `low` up to `high`.
    pub fn rows(&self, low: u64, high: u64) -> Vec<LineRow> {
        let context = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(rows) = context.find_location_range(low, high) else { return Vec::new() };
        rows.map(|(start, length, location)| LineRow {
            start,
            end: start.saturating_add(length),
            file: location.file.unwrap_or_default().to_owned(),
            line: location.line.unwrap_or(0),
        })
        .collect()
    }

    /// Innermost first; empty when debug information does not cover the address.
    pub fn frames(&self, address: u64) -> Vec<Frame> {
        // The search looks at the byte after, too.
        if address == u64::MAX {
            return Vec::new();
        }
        // A panic in between leaves at worst a unit that is parsed again.
        let context = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(mut found) = context.find_frames(address).skip_all_loads() else {
            return Vec::new();
        };
        let mut frames = Vec::new();
        while frames.len() < MOST_FRAMES {
            let Ok(Some(frame)) = found.next() else {
                break;
            };
            let location = frame.location.as_ref();
            frames.push(Frame {
                function: frame.function.as_ref().map(function_name).unwrap_or_default(),
                file: location.and_then(|location| location.file).map(str::to_owned),
                line: location.and_then(|location| location.line).unwrap_or(0),
                inlined: true,
            });
        }
        if let Some(outermost) = frames.last_mut() {
            outermost.inlined = false;
        }
        frames
    }
}

fn function_name(name: &addr2line::FunctionName<SharedReader>) -> String {
    let is_fortran = name.language.is_some_and(super::is_fortran);
    let raw = name.raw_name().unwrap_or_default();
    match demangle(&raw) {
        // An external procedure's symbol has an underscore more than its name.
        plain if is_fortran && plain == raw && plain != "MAIN__" => plain.trim_end_matches('_').to_owned(),
        name => name,
    }
}
