//! `numamma`: records unmodified programs and says where their memory and threads should live.
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod failure;

use std::process::ExitCode;

use arguments::Command;

fn main() -> ExitCode {
    let command = match arguments::parse() {
        Ok(command) => command,
        Err(code) => return code,
    };
    let done = match command {
        Command::Record(arguments) => commands::record::run(*arguments),
        Command::Report(arguments) => commands::report::run(arguments),
        Command::Compare(arguments) => commands::compare::run(arguments),
        Command::Apply(arguments) => commands::apply::run(*arguments),
        Command::Try(arguments) => commands::trial::run(arguments),
        Command::Plan(arguments) => commands::plan::run(*arguments),
        Command::Predict(arguments) => commands::predict::run(*arguments),
        Command::Html(arguments) => commands::html::run(arguments),
        Command::Doctor(arguments) => commands::doctor::run(arguments),
        Command::Machine(arguments) => commands::machine::run(arguments),
    };
    match done {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
