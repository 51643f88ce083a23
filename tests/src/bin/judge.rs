//! How often what reports state of random programs is true.
//!
//! `judge [N=200] [SEED=1] [--mode default|windows] [--odd|--even] [--again] [--verbose]`
//!
//! Exact counts and recordings stay in target/judge: `--again` judges the same recordings by the reports of today.

use std::process::ExitCode;

use numamma_tests::random::table::{Score, tables};
use numamma_tests::random::{Claim, Mode, Program, judge};
use numamma_tests::{build, turns};

fn main() -> ExitCode {
    let (mut count, mut seed, mut modes, mut parity) = (200, 1, Mode::ALL.to_vec(), None);
    let (mut again, mut verbose) = (false, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--odd" => parity = Some(1),
            "--even" => parity = Some(0),
            "--again" => again = true,
            "--verbose" => verbose = true,
            "--mode" => {
                let name = arguments.next().unwrap_or_default();
                modes.retain(|mode| mode.name() == name);
            }
            other => match other.split_once('=').and_then(|(name, value)| Some((name, value.parse::<u64>().ok()?))) {
                Some(("N", value)) => count = value,
                Some(("SEED", value)) => seed = value,
                _ => {
                    eprintln!(
                        "usage: judge [N=200] [SEED=1] [--mode default|windows] [--odd|--even] [--again] [--verbose]"
                    );
                    return ExitCode::from(2);
                }
            },
        }
    }
    let dir = build::root().join("target/judge");
    let seeds = (seed..).filter(|seed| parity.is_none_or(|parity| seed % 2 == parity)).take(count as usize);
    let mut claims: Vec<Vec<Claim>> = vec![Vec::new(); modes.len()];
    for seed in seeds {
        let program = Program::of(seed);
        for (mode, claims) in modes.iter().zip(&mut claims) {
            let _turn = (!again).then(turns::alone);
            let found = judge(&program, *mode, &dir, again);
            let missed = || found.iter().filter(|claim| claim.holds() == Some(false));
            eprintln!(
                "{seed} {}: {} of {} stated, {} wrong: {}",
                mode.name(),
                found.iter().filter(|claim| claim.stated.is_some()).count(),
                found.len(),
                missed().count(),
                program.title()
            );
            if verbose {
                for claim in missed() {
                    let (value, error) = claim.stated.unwrap_or_default();
                    eprintln!(
                        "    {:?} {}: {:.2} +- {:.2} stated, {:.2} true; {:?}",
                        claim.of,
                        claim.name,
                        value * 100.0,
                        error * 100.0,
                        claim.exact * 100.0,
                        claim.loops
                    );
                }
            }
            claims.extend(found);
        }
    }
    let mut enough = true;
    for (mode, claims) in modes.iter().zip(&claims) {
        println!("\n## {}, {count} programs from seed {seed}\n\n{}", mode.name(), tables(claims));
        enough &= !Score::of(claims.iter()).is_too_low();
    }
    if enough { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
