//! Failures of a subcommand: one line on stderr that says what to do, and an exit status.

use std::fmt::Display;
use std::process::ExitCode;

/// NumaMMA itself failed (the program's own statuses are passed through, so ours must stand apart; as env and timeout do).
pub const OWN_FAILURE: u8 = 125;

/// Why a subcommand did not do its work.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// A failure with status 125.
    pub fn new(message: impl Display) -> Self {
        Self::with_code(message, i32::from(OWN_FAILURE))
    }

    /// A failure with another status.
    pub fn with_code(message: impl Display, code: i32) -> Self {
        Self { message: message.to_string(), code: u8::try_from(code).unwrap_or(OWN_FAILURE) }
    }

    /// The text.
    pub fn message(self) -> String {
        self.message
    }

    /// Says it.
    pub fn report(&self) -> ExitCode {
        self.message.lines().for_each(|line| eprintln!("numamma: {line}"));
        ExitCode::from(self.code)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}
