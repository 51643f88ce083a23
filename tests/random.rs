//! What reports state of programs that nobody chose: seeds follow from the commit.

use std::process::Command;

use numamma_tests::random::table::{Score, tables};
use numamma_tests::random::{Claim, Mode, Program, judge};
use numamma_tests::{Place, build};

/// Programs in each mode.
const PROGRAMS: u64 = 12;

/// `NUMAMMA_SEED`, else the commit; of a tree without one, the list of changes.
fn first_seed() -> u64 {
    if let Some(seed) = std::env::var("NUMAMMA_SEED").ok().and_then(|text| text.parse().ok()) {
        return seed;
    }
    let commit = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(build::root()).output();
    let commit = commit.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    let text =
        commit.unwrap_or_else(|| std::fs::read(build::root().join("CHANGELOG.md")).expect("the list of changes"));
    // FNV-1a.
    let hash = text
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    hash >> 32
}

#[test]
fn intervals_hold_on_programs_that_nobody_chose() {
    let place = Place::alone();
    // Constants may have been fitted on even seeds.
    let first = first_seed() | 1;
    let programs: Vec<Program> = (0..PROGRAMS).map(|number| Program::of(first + 2 * number)).collect();
    for mode in Mode::ALL {
        let claims: Vec<Claim> = programs.iter().flat_map(|program| judge(program, mode, place.dir(), false)).collect();
        let wrong = claims.iter().filter(|claim| claim.holds() == Some(false));
        let wrong: String = wrong.map(|claim| format!("{claim:?}\n")).collect();
        let score = Score::of(claims.iter());
        assert!(!score.is_too_low(), "NUMAMMA_SEED={first}, {}:\n{}\n{wrong}", mode.name(), tables(&claims));
    }
}
