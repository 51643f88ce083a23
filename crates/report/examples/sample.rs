//! Prints a report of findings made by hand, to look at: `cargo run -p numamma-report --example sample -- 80 by=thread ascii`.
//!
//! Arguments: a width, `by=`, `sort=`, `access=`, `format=`, `object=`, `top=`, `ascii`, `color`, `one` (a single node).

#[path = "../tests/common/mod.rs"]
mod common;

use numamma_report::{Options, render};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::default();
    let mut findings = common::findings();
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("by", value)) => options.by = value.parse()?,
            Some(("sort", value)) => options.sort = value.parse()?,
            Some(("access", value)) => options.access = value.parse()?,
            Some(("format", value)) => options.format = value.parse()?,
            Some(("object", value)) => options.object = Some(value.to_string()),
            Some(("top", value)) => options.top = Some(value.parse()?),
            None if argument == "ascii" => options.unicode = false,
            None if argument == "color" => options.color = true,
            None if argument == "one" => findings.run.nodes = 1,
            _ => options.width = argument.parse()?,
        }
    }
    match render(&findings, &options, &mut std::io::stdout().lock()) {
        Err(error) if !error.is_broken_pipe() => Err(error.into()),
        _ => Ok(()),
    }
}
