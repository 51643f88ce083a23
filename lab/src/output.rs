//! What the command writes, on its way from files to our own output. Files, because nothing of them is lost when the guest goes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use crate::failure::{self, Failure};

/// Standard output or standard error of the command.
#[derive(Debug)]
pub struct Stream {
    file: File,
    to_stderr: bool,
}

impl Stream {
    /// Of a file that exists and will grow.
    pub fn open(path: &Path, to_stderr: bool) -> Result<Stream, Failure> {
        Ok(Stream { file: File::open(path).map_err(failure::file("open", path))?, to_stderr })
    }

    /// Passes on what is new.
    pub fn pass_on(&mut self) -> Result<(), Failure> {
        let mut buffer = [0; 1 << 16];
        loop {
            let size = match self.file.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(size) => size,
                Err(error) => return Err(Failure::Lab(format!("the command's output cannot be read: {error}"))),
            };
            let bytes = &buffer[..size];
            let written = if self.to_stderr { write(io::stderr(), bytes) } else { write(io::stdout(), bytes) };
            // Nobody reads: end as a program does that writes there.
            written.map_err(|_| Failure::Signal(signal_hook::consts::SIGPIPE))?;
        }
    }
}

fn write(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).and_then(|()| to.flush())
}
