//! Programs that nobody here wrote, as their Debian packages bring them, each with a job of a second or two whose result is
//! the same every time.
//!
//! - [`data`]: what they work on, made up from a fixed seed;
//! - [`jobs`]: the list;
//! - [`server`]: the one that is driven from outside.

pub mod data;
pub mod jobs;
pub mod server;

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fs::File;
use std::hash::Hasher;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use crate::{Outcome, Run};

/// A program and its job.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name in tests and tables.
    pub name: &'static str,
    /// What must be installed.
    pub needs: &'static [&'static str],
    /// Least share of the data samples that must be attributed, a few points below what was measured.
    pub floor: f64,
    /// Makes what the job needs in an empty folder.
    pub prepare: fn(&Path),
    /// The job.
    pub job: Job,
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub enum Job {
    /// A command that runs to its end in the prepared folder, and the files it writes there.
    Command {
        /// The command line.
        line: fn() -> Vec<String>,
        /// The files it writes.
        writes: &'static [&'static str],
    },
    /// `redis-server`, driven by `redis-benchmark`.
    Redis,
}

/// What a run of a program came to: equal for a native and a recorded run.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// Exit status, as a shell sees it.
    pub status: i32,
    /// Standard output (of a server: what its clients were told).
    pub stdout: Vec<u8>,
    /// Length and hash of each file it wrote.
    pub files: Vec<(String, u64, u64)>,
}

/// One run of a program.
#[derive(Debug)]
pub struct Done {
    /// The result.
    pub answer: Answer,
    /// Time the job took; for a server, the time of its clients.
    pub wall: Duration,
    /// All that was seen of the run.
    pub outcome: Outcome,
}

/// The program of that name.
pub fn named(name: &str) -> &'static Program {
    jobs::ALL.iter().find(|p| p.name == name).unwrap_or_else(|| panic!("no program {name}"))
}

impl Program {
    /// The first thing it needs that is not installed.
    pub fn missing(&self) -> Option<&'static str> {
        self.needs
            .iter()
            .find(|tool| match **tool {
                "numpy" => jobs::python().is_none(),
                tool => !crate::skip::installed(tool),
            })
            .copied()
    }

    /// Runs the job in the prepared folder `dir`, with `prefix` (a recorder and its options) before the command.
    pub fn run(&self, dir: &Path, prefix: &[OsString]) -> Done {
        self.run_watched(dir, prefix, &mut |_| ())
    }

    /// The same; `watch` is called with the process id right after the start.
    pub fn run_watched(&self, dir: &Path, prefix: &[OsString], watch: &mut dyn FnMut(i32)) -> Done {
        let (line, writes) = match self.job {
            Job::Command { line, writes } => (line(), writes),
            Job::Redis => return server::run(dir, prefix, watch),
        };
        for file in writes {
            let _ = std::fs::remove_file(dir.join(file));
        }
        let running = prefixed(prefix, &line).dir(dir).env("LC_ALL", "C").limit(300).start();
        watch(running.pid());
        let outcome = running.wait();
        let files = writes.iter().map(|file| {
            let (length, hash) = digest(&dir.join(file)).unwrap_or_else(|e| panic!("{file}: {e}: {outcome}"));
            (file.to_string(), length, hash)
        });
        let answer = Answer { status: outcome.shell_status(), stdout: outcome.stdout.clone(), files: files.collect() };
        Done { answer, wall: outcome.wall, outcome }
    }
}

/// `prefix` and `line` as one command.
fn prefixed(prefix: &[OsString], line: &[String]) -> Run {
    let mut words = prefix.iter().cloned().chain(line.iter().map(OsString::from));
    Run::new(words.next().expect("a command has a name")).args(words)
}

/// The words before a command that record it into `dataset`.
pub fn recorder(dataset: &Path, options: &[&str]) -> Vec<OsString> {
    let mut words = vec![crate::build::numamma().as_os_str().to_owned(), "record".into(), "-o".into()];
    words.push(dataset.as_os_str().to_owned());
    words.extend(options.iter().map(OsString::from));
    words.push("--".into());
    words
}

/// Length and hash of a file.
fn digest(path: &Path) -> std::io::Result<(u64, u64)> {
    let (mut file, mut hasher, mut length) = (File::open(path)?, DefaultHasher::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok((length, hasher.finish()));
        }
        length += n as u64;
        hasher.write(&buffer[..n]);
    }
}
