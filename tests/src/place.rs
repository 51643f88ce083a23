//! A folder for one test: what is compiled, run and recorded lies there, and goes with it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::report::Report;
use crate::run::{Outcome, Run};
use crate::turns::{self, Turn};

/// A folder of a test's own, and its turn on the machine for as long as it is there.
#[derive(Debug)]
pub struct Place {
    dir: tempfile::TempDir,
    _turn: Turn, // last: the next one begins when this one's files are gone
}

impl Place {
    /// Where nothing is measured meanwhile, for what may run beside its like.
    pub fn together() -> Place {
        Place::during(turns::together())
    }

    /// Where nothing else runs, for what is measured.
    pub fn alone() -> Place {
        Place::during(turns::alone())
    }

    fn during(turn: Turn) -> Place {
        Place { dir: tempfile::tempdir().expect("a temporary folder"), _turn: turn }
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// Where [`Place::record`] puts the recording.
    pub fn dataset(&self) -> PathBuf {
        self.path("run.numamma")
    }

    /// [`Run::record`] to [`Place::dataset`].
    pub fn record(&self) -> Run {
        Run::record(&self.dataset())
    }

    /// Compiles C, or C++ with a compiler whose name ends in `++`, to a file of that name.
    #[track_caller]
    pub fn compile(&self, compiler: &str, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        self.try_compile(compiler, name, source, flags).success();
        self.path(name)
    }

    /// The same where a library or an option may be missing.
    pub fn try_compile(&self, compiler: &str, name: &str, source: &str, flags: &[&str]) -> Outcome {
        let file = self.path(&format!("{name}.{}", if compiler.ends_with("++") { "cpp" } else { "c" }));
        fs::write(&file, source).expect("the source");
        // Without builtins: a malloc and free that nobody looks at would be removed. Flags last: libraries must follow what
        // needs them.
        let compiler = Run::new(compiler).args(["-O1", "-g", "-fno-builtin", "-pthread", "-o"]).arg(self.path(name));
        compiler.arg(&file).args(flags).limit(120).run()
    }

    /// Writes a script for `sh`.
    pub fn script(&self, text: &str) -> PathBuf {
        let script = self.path("script");
        fs::write(&script, text).expect("the script");
        script
    }

    /// Runs a command natively and recorded: the same status and output, but for the recorder's own lines. The report of it.
    #[track_caller]
    pub fn same(&self, command: &[&Path]) -> Report {
        let native = Run::new(command[0]).args(&command[1..]).run();
        let recorded = self.record().args(command).run();
        assert_eq!(recorded.shell_status(), native.shell_status(), "native: {native}\nrecorded: {recorded}");
        assert_eq!(recorded.out(), native.out(), "native: {native}\nrecorded: {recorded}");
        let own = |line: &&str| line.starts_with("numamma:") || line.starts_with("         ");
        let err = recorded.err().lines().filter(|line| !own(line)).collect::<Vec<_>>().join("\n");
        assert_eq!(err, native.err().trim_end(), "native: {native}\nrecorded: {recorded}");
        Report::of(&self.dataset())
    }

    /// The same of a C program without arguments.
    #[track_caller]
    pub fn same_of(&self, source: &str, flags: &[&str]) -> Report {
        self.same(&[&self.compile("gcc", "program", source, flags)])
    }
}
