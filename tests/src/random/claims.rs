//! What a report states of a program's accesses, beside what is true.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::exact::{Counts, Object, key};
use super::program::{Loop, Program, Schedule};

/// Shares below this, both true and stated, say nothing about intervals.
const SMALL: f64 = 0.005;

/// One number of a report.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What the number is.
    pub of: Of,
    /// The object's name, and the thread's number.
    pub name: String,
    /// Kinds of loops that use the object, each with how it is divided.
    pub loops: Vec<(&'static str, &'static str)>,
    /// The truth.
    pub exact: f64,
    /// What the report says, with its error; `None` if it is not stated.
    pub stated: Option<(f64, f64)>,
}

/// What numbers are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// An object's share of all accesses.
    Object,
    /// A thread's share of an object's accesses.
    ThreadOfObject,
    /// A thread's share of all accesses.
    Thread,
}

impl Claim {
    /// True if the truth lies within the stated interval. Not a number is no statement.
    pub fn holds(&self) -> Option<bool> {
        // The exact sampler and rounds that were added up are right to this.
        self.stated.map(|(value, error)| (value - self.exact).abs() <= error + 5e-4)
    }

    /// How far off the stated number is.
    pub fn off(&self) -> Option<f64> {
        self.stated.map(|(value, _)| (value - self.exact).abs())
    }
}

/// All that a report says of a program.
pub fn claims(program: &Program, report: &Value, exact: &Counts) -> Vec<Claim> {
    let mut claims = Vec::new();
    let none = Value::Null;
    let objects: BTreeMap<String, &Value> =
        report["objects"].as_array().into_iter().flatten().map(|object| (key(object), object)).collect();
    let names: BTreeSet<&String> = exact.objects.keys().chain(objects.keys()).collect();
    for name in names {
        let users: Vec<&Loop> = name.split_once(' ').map(|(_, name)| program.users(name).collect()).unwrap_or_default();
        let loops: Vec<_> = users.iter().map(|of| (of.kind.name, of.schedule.name())).collect();
        let (object, nothing) = (objects.get(name).copied().unwrap_or(&none), Object::default());
        let truth = exact.objects.get(name).unwrap_or(&nothing);
        let all = truth.reads + truth.writes;
        let claim = |of, name: String, exact: f64, stated| Claim { of, name, loops: loops.clone(), exact, stated };
        let accesses = &object["accesses"];
        let share = stated(accesses, "share", "error").filter(|_| accesses["basis"].as_f64().is_none_or(|g| g >= 0.5));
        let true_share = all / exact.total;
        if true_share.max(share.map_or(0.0, |(share, _)| share)) < SMALL {
            continue;
        }
        claims.push(claim(Of::Object, name.clone(), true_share, share));
        if users.is_empty() || users.iter().any(|of| is_dynamic(of)) || program.threads == 1 || all <= 0.0 {
            continue;
        }
        for thread in object["threads"].as_array().into_iter().flatten() {
            let number = thread["thread"].as_u64().unwrap_or_default();
            let truth = truth.threads.get(&number).copied().unwrap_or_default() / all;
            let stated = stated(thread, "access_share", "access_error");
            claims.push(claim(Of::ThreadOfObject, format!("{name}, thread {number}"), truth, stated));
        }
    }
    if program.loops.iter().any(is_dynamic) || program.threads == 1 {
        return claims;
    }
    let all: f64 = exact.threads.values().sum();
    for thread in report["threads"].as_array().into_iter().flatten() {
        let number = thread["thread"].as_u64().unwrap_or_default();
        let exact = exact.threads.get(&number).copied().unwrap_or_default() / all;
        let stated = stated(thread, "access_share", "access_error");
        let loops = program.loops.iter().map(|of| (of.kind.name, of.schedule.name())).collect();
        claims.push(Claim { of: Of::Thread, name: format!("thread {number}"), loops, exact, stated });
    }
    claims
}

/// Which thread does what depends on the weather.
fn is_dynamic(of: &Loop) -> bool {
    matches!(of.schedule, Schedule::Dynamic(_))
}

fn stated(of: &Value, value: &str, error: &str) -> Option<(f64, f64)> {
    Some((of[value].as_f64()?, of[error].as_f64()?))
}
