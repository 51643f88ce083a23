//! Why a program does not run.

use std::ffi::OsString;
use std::io;

/// A program could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", command.display(), cannot_run(source))]
pub struct StartError {
    /// The program.
    pub command: OsString,
    /// Why not.
    pub source: io::Error,
}

impl StartError {
    /// Exit status as shells give it: 127 command not found, 126 cannot be run.
    pub fn exit_code(&self) -> i32 {
        if self.source.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
    }
}

fn cannot_run(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::NotFound => "command not found".into(),
        io::ErrorKind::PermissionDenied => "cannot be executed (permission denied)".into(),
        _ => format!("cannot be executed ({source})"),
    }
}
