//! `lab/run`: a command in a throw-away guest with several NUMA nodes (docs/LAB.md).
//!
//! - [`options`]: the command line; [`machine`] and [`distance`]: the guest it asks for, as QEMU is told
//! - [`kernel`], [`archive`]: what the guest boots, kept in [`cache`]
//! - [`guest`]: a QEMU that runs, and how to talk with it and with the guest; [`process`]: what is started ends with us
//! - [`snapshot`]: guests that have booted before; [`session`]: one command from start to end
//! - [`table`]: what is shared with the plug-in; [`matrix`]: what it counted, as JSON
#![forbid(unsafe_code)]

mod archive;
mod cache;
mod distance;
mod failure;
mod guest;
mod kernel;
mod machine;
mod matrix;
mod options;
mod output;
mod process;
mod session;
mod snapshot;
mod table;

use std::process::ExitCode;

use failure::Failure;

fn main() -> ExitCode {
    let status = match options::parse() {
        Ok(options) => session::run(&options),
        Err(error) if !error.use_stderr() => {
            print!("{error}");
            Ok(0)
        }
        Err(error) => Err(Failure::Lab(options::in_one_line(&error))),
    };
    match status {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            eprintln!("lab/run: {failure}");
            ExitCode::from(failure.status())
        }
    }
}
