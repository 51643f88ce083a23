//! Prints what `numamma doctor` would say about a directory: `/` or a copy of another machine's files.

use std::path::PathBuf;

use numamma_topology::{Kind, Machine, Probe, choose_sampler, render_doctor};

fn main() {
    let root = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let (machine, probe) = (Machine::read(&root), Probe::read(&root));
    let choice = choose_sampler(&probe, &[Kind::Clock]);
    print!("{}", render_doctor(&machine, &probe, &choice, None));
}
