//! What is run under each tool.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::tools::{self, Tool};
use super::{number, redis};
use crate::{Bench, Failure, measure};

/// A program and how its time is taken.
#[derive(Debug)]
pub struct Program {
    pub name: &'static str,
    pub unit: &'static str,
    pub digits: usize,
    how: How,
}

#[derive(Debug)]
enum How {
    /// It says itself what a pair took.
    Pair { kind: &'static str, threads: &'static str },
    /// Its wall time, with the tool's start and end.
    Whole(Vec<OsString>),
    /// The time of a client's requests.
    Redis,
}

impl Program {
    /// A malloc and its free: what the budget is for.
    pub fn is_a_pair(&self) -> bool {
        matches!(self.how, How::Pair { .. })
    }

    /// One run under `tool`.
    pub fn time(&self, bench: &Bench, tool: &Tool) -> Result<f64, Failure> {
        match &self.how {
            How::Pair { kind, threads } => {
                let count = if bench.quick { 100_000 } else { 1_000_000 } / if tool.slow { 100 } else { 1 };
                let command: [OsString; 4] =
                    [bench.program("pairs").into(), kind.into(), threads.into(), count.to_string().into()];
                number(&measure::run(bench, None, &tool.before(&command))?.stdout, "ns")
            }
            How::Whole(command) => Ok(measure::run(bench, None, &tool.before(command))?.wall),
            How::Redis => redis::time(bench, tool),
        }
    }
}

/// All of them; the name instead of one that is not installed.
pub fn all(bench: &Bench) -> Result<Vec<Result<Program, &'static str>>, Failure> {
    let pair = |name, kind, threads| Ok(Program { name, unit: "ns", digits: 1, how: How::Pair { kind, threads } });
    let mut all = vec![
        pair("malloc and free, 12 frames deep", "fixed", "1"),
        pair("malloc and free, 12 frames deep, on 2 threads", "fixed", "2"),
        pair("malloc and free, mixed sizes and call sites", "mixed", "1"),
        pair("malloc and free, mixed sizes and call sites, on 2 threads", "mixed", "2"),
    ];
    let whole = |name, command| Ok(Program { name, unit: "s", digits: 3, how: How::Whole(command) });
    let rounds = if bench.quick { "2" } else { "40" };
    all.push(whole("C++ containers", vec![bench.program("containers").into(), rounds.into()]));

    match python() {
        Some(python) => {
            let script = |text: &str| vec![python.clone(), "-c".into(), text.into()];
            all.push(whole("python3 -c pass", script("pass")));
            let json = JSON.replace("ROUNDS", if bench.quick { "5" } else { "200" });
            all.push(whole("Python and JSON", script(&json)));
        }
        None => all.push(Err("python3")),
    }
    match compiler() {
        Some(compiler) => {
            let source = bench.scratch.path().join("large.c");
            fs::write(&source, large_source(if bench.quick { 50 } else { 400 }))?;
            let mut command = vec![compiler];
            command.extend(["-quiet", "-O2", "-o", "/dev/null"].map(OsString::from));
            command.push(source.into());
            all.push(whole("gcc -O2 of a large file", command));
        }
        None => all.push(Err("gcc")),
    }
    all.push(
        match ["redis-server", "redis-benchmark", "redis-cli"].iter().all(|name| tools::program(name).is_some()) {
            true => Ok(Program { name: "redis-server", unit: "s", digits: 3, how: How::Redis }),
            false => Err("redis-server, redis-benchmark and redis-cli"),
        },
    );
    Ok(all)
}

const JSON: &str = "
import json
data = [{'id': i, 'name': 'name %d' % i, 'tags': ['a%d' % (i % 7), 'b'], 'at': {'x': i / 3, 'y': None}} for i in range(2000)]
for _ in range(ROUNDS):
    assert len(json.loads(json.dumps(data))) == 2000
";

/// The interpreter itself: what is called `python3` may be a script.
fn python() -> Option<OsString> {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| path.trim().into())
}

/// The compiler proper: heaptrack does not follow the driver's children.
fn compiler() -> Option<OsString> {
    let output = Command::new("gcc").arg("-print-prog-name=cc1").output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    let path = path.trim();
    Path::new(path).is_absolute().then(|| path.into())
}

/// C functions that give an optimiser something to do.
fn large_source(functions: usize) -> String {
    let mut text = String::from("extern int f0(int *, int);\n");
    for i in 0..functions {
        let (a, b, c) = (i * 7 % 31 + 1, i * 13 % 17 + 2, i / 2);
        text += &format!(
            "int f{i}(int *p, int n) {{\n  int s = {a};\n  for (int i = 0; i < n; i++) {{\n    \
             switch ((p[i] + s) % {b}) {{\n    case 0: s += p[i] * {a}; break;\n    case 1: s ^= p[i] >> {}; break;\n    \
             default: if (p[i] > s) s -= i; else p[i] = s + {b};\n    }}\n    for (int k = i; k < n; k += {a}) p[k] += s * {b};\n  \
             }}\n  return n > 3 ? f{c}(p, n - 1) + s : s;\n}}\n",
            a % 5 + 1
        );
    }
    text
}
