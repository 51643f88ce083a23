//! A command with a time limit, its output and its end.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Status of the recorder's own failures.
pub const OWN_FAILURE: i32 = 125;

/// A command to run.
#[derive(Debug)]
pub struct Run {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    dir: Option<PathBuf>,
    stdin: Vec<u8>,
    limit: Duration,
}

/// What a command wrote and how it ended.
#[derive(Debug)]
pub struct Outcome {
    /// The command line, for messages.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
    /// From its start to its end.
    pub wall: Duration,
}

/// A command that is running, in a process group of its own.
#[derive(Debug)]
pub struct Running {
    command: String,
    child: Child,
    stdout: File,
    stderr: File,
    started: Instant,
    limit: Duration,
}

/// The file that standard output goes to.
#[derive(Debug)]
pub struct Output(File);

impl Output {
    /// What was written until now.
    pub fn contents(&self) -> Vec<u8> {
        contents(&self.0)
    }
}

impl Run {
    /// `program` without arguments; a minute to finish.
    pub fn new(program: impl AsRef<OsStr>) -> Run {
        let program = program.as_ref().to_owned();
        Run { program, args: vec![], env: vec![], dir: None, stdin: vec![], limit: Duration::from_secs(60) }
    }

    /// The binary under test.
    pub fn numamma() -> Run {
        Run::new(crate::build::numamma())
    }

    /// `numamma record -o DATASET --rate 1000 --`.
    pub fn record(dataset: &Path) -> Run {
        Run::record_with(dataset, &[])
    }

    /// The same with further options.
    pub fn record_with(dataset: &Path, options: &[String]) -> Run {
        Run::numamma().args(["record", "-o"]).arg(dataset).args(["--rate", "1000"]).args(options).arg("--")
    }

    /// `numamma report DATASET`.
    pub fn report(dataset: &Path) -> Run {
        Run::numamma().arg("report").arg(dataset)
    }

    /// `numamma compare A B`.
    pub fn compare(a: &Path, b: &Path) -> Run {
        Run::numamma().arg("compare").arg(a).arg(b)
    }

    /// One more argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Run {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// More arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Run {
        self.args.extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// A variable of its environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Run {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// The folder it runs in.
    pub fn dir(mut self, dir: &Path) -> Run {
        self.dir = Some(dir.to_owned());
        self
    }

    /// What it reads; nothing by default.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Run {
        self.stdin = bytes.into();
        self
    }

    /// How long it may take before it is killed and the test fails.
    pub fn limit(mut self, seconds: u64) -> Run {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Starts it and does not wait.
    pub fn start(self) -> Running {
        let mut line = vec![self.program.clone()];
        line.extend(self.args.iter().cloned());
        let command = line.join(OsStr::new(" ")).to_string_lossy().into_owned();
        // Files, not pipes: nobody needs to drain them, and a child that lives on cannot keep the test waiting.
        let temporary = || tempfile::tempfile().expect("a temporary file");
        let (stdout, stderr, mut stdin) = (temporary(), temporary(), temporary());
        stdin.write_all(&self.stdin).and_then(|()| stdin.rewind()).expect("the input in a file");
        let share = |f: &File| Stdio::from(f.try_clone().expect("a second handle"));
        let mut child = Command::new(&self.program);
        child.args(&self.args).envs(self.env).stdin(stdin).stdout(share(&stdout)).stderr(share(&stderr));
        child.process_group(0); // so that a time limit ends its children too, and a signal to it does not end the tests
        if let Some(dir) = &self.dir {
            child.current_dir(dir);
        }
        // What a shell starts in the background, or with nohup, ignores what a terminal sends; a test is not to depend on how it was
        // started.
        // SAFETY: both functions may be called between fork and exec.
        unsafe {
            child.pre_exec(|| {
                for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        let started = Instant::now();
        let child = child.spawn().unwrap_or_else(|e| panic!("cannot start `{command}`: {e}"));
        Running { command, child, stdout, stderr, started, limit: self.limit }
    }

    /// Runs it to its end.
    pub fn run(self) -> Outcome {
        self.start().wait()
    }
}

impl Running {
    /// Its process id, also the id of its process group.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// What it has written so far.
    pub fn stdout_so_far(&self) -> Vec<u8> {
        contents(&self.stdout)
    }

    /// Its standard output, to be read after its end: for a program that outlives its recorder.
    pub fn stdout_handle(&self) -> Output {
        Output(self.stdout.try_clone().expect("a second handle"))
    }

    /// Waits until it has written `line` to standard output.
    pub fn wait_for_output(&self, line: &str) {
        until(&format!("`{}` to write {line:?}", self.command), self.limit, || {
            String::from_utf8_lossy(&self.stdout_so_far()).contains(line)
        });
    }

    /// Waits for its end; kills its process group and fails the test when it takes too long.
    pub fn wait(mut self) -> Outcome {
        let (done, stop) = mpsc::channel::<()>();
        let (group, limit) = (self.pid(), self.limit);
        let watchdog = std::thread::spawn(move || {
            let late = stop.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
            if late {
                signal(-group, libc::SIGKILL);
            }
            late
        });
        let status = self.child.wait().expect("the child is ours to wait for");
        let wall = self.started.elapsed();
        drop(done);
        let late = watchdog.join().expect("the watchdog does not panic");
        let (stdout, stderr) = (contents(&self.stdout), contents(&self.stderr));
        let outcome = Outcome { command: self.command, status, stdout, stderr, wall };
        assert!(!late, "did not end within {limit:?}: {outcome}");
        outcome
    }
}

impl Outcome {
    /// As a shell sees it: the exit code, or 128 + the signal.
    pub fn shell_status(&self) -> i32 {
        self.status.code().or(self.status.signal().map(|s| 128 + s)).expect("an end")
    }

    /// Standard output as text.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Standard error without the recorder's last line, which says where the recording is.
    pub fn remarks(&self) -> String {
        let is_last = |line: &&str| line.starts_with("numamma: ") && line.contains("; show them with `numamma report");
        self.err().split_inclusive('\n').filter(|line| !is_last(line)).collect()
    }

    /// The outcome, if it ended with 0.
    #[track_caller]
    pub fn success(self) -> Outcome {
        self.exits(0)
    }

    /// The outcome, if it ended with `code` in the shell's sense.
    #[track_caller]
    pub fn exits(self, code: i32) -> Outcome {
        assert!(self.shell_status() == code, "expected exit status {code}: {self}");
        self
    }

    /// It failed by itself and said why in one line, which names all of `words`.
    #[track_caller]
    pub fn fails_clearly(&self, words: &[&str]) {
        let (status, err) = (self.shell_status(), self.err());
        assert!(status != 0 && status < 128, "expected a failure of its own: {self}");
        assert!(!err.contains("panicked") && !err.contains("RUST_BACKTRACE"), "it panicked: {self}");
        // The triad says there how much time its threads had.
        let lines: Vec<&str> = err.lines().filter(|l| !l.trim().is_empty() && !l.starts_with("cpu ")).collect();
        assert!(lines.len() == 1, "expected one line on standard error: {self}");
        for word in words {
            assert!(lines[0].contains(word), "the line does not name {word:?}: {self}");
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (out, err) = (self.out(), self.err());
        let head = |s: &str| s.chars().take(6000).collect::<String>();
        write!(f, "`{}` ended with {} after {:.2?}", self.command, self.status, self.wall)?;
        write!(f, "\n--- stdout\n{}\n--- stderr\n{}", head(&out), head(&err))
    }
}

fn contents(file: &File) -> Vec<u8> {
    // Position 0 of a handle of its own: the child shares the offset of the other one.
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
    let mut bytes = vec![];
    File::open(path).and_then(|mut f| f.read_to_end(&mut bytes)).expect("the output file can be read");
    bytes
}

/// Sends a signal to a process, or to a process group if `pid` is negative.
pub fn signal(pid: i32, signal: i32) {
    // SAFETY: kill takes two numbers. The pids are those of children that were not yet waited for, or that a test has
    // just read from /proc.
    unsafe { libc::kill(pid, signal) };
}

/// The children of a process, of whichever of its threads.
pub fn children(pid: i32) -> Vec<i32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return vec![] };
    tasks
        .flatten()
        .flat_map(|task| {
            let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            list.split_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<i32>>()
        })
        .collect()
}

/// True if a process is there and not merely waiting to be reaped.
pub fn alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Waits until `condition` holds; fails when it does not within `limit`.
#[track_caller]
pub fn until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "waited {limit:?} for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
