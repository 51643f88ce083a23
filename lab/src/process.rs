//! What is started here ends when this process does, however that ends.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::Failure;

/// A command that the kernel kills when this process is gone.
pub fn tied(program: impl AsRef<OsStr>) -> Command {
    // Asking the kernel for this takes a call in the child before it executes; util-linux has a program that makes it.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// True if a process is there.
pub fn exists(id: u32) -> bool {
    Path::new(&format!("/proc/{id}")).exists()
}

/// Signals that ask us to end, from when they are caught on.
#[derive(Clone, Debug)]
pub struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// Catches them.
    pub fn catch() -> Result<Signals, Failure> {
        let last = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let caught = signal_hook::flag::register_usize(signal, Arc::clone(&last), signal as usize);
            caught.map_err(|error| Failure::Lab(format!("signals cannot be caught: {error}")))?;
        }
        Ok(Signals(last))
    }

    /// A failure if one came.
    pub fn check(&self) -> Result<(), Failure> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            signal => Err(Failure::Signal(signal as i32)),
        }
    }
}
