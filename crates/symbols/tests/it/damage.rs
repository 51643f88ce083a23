//! Damaged files: nothing panics, and nothing takes long.

use std::time::{Duration, Instant};

use numamma_symbols::{Access, Module};

use crate::support::{Workshop, have};

/// The same cases each time: a fixed linear congruence.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }
}

/// `DAMAGE_SEED=7 DAMAGE_FACTOR=50 cargo test -p numamma-symbols damage` looks further than every test run can.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seed(usual: u64) -> u64 {
    setting("DAMAGE_SEED").unwrap_or(0).wrapping_mul(1000) + usual
}

fn rounds(usual: u64) -> u64 {
    usual * setting("DAMAGE_FACTOR").unwrap_or(1)
}

/// Asks everything that can be asked.
fn interrogate(bytes: Vec<u8>) {
    let Ok(module) = Module::from_bytes("damaged", bytes) else {
        return;
    };
    let _ = (module.bias_for_mapping(0x5000_0000, 0x1000, Access::Execute), module.extent());
    let _ = (module.needed(), module.soname(), module.is_static_executable(), module.is_stripped());
    let _ = (module.defines("malloc"), module.copied_variables(), module.tls_block());
    for variable in module.variables() {
        let _ = (module.data_at(variable.address), module.tls_variable_at(variable.address));
        let _ = (variable.end(), variable.member_at(variable.size / 2));
    }
    for address in (0..0x6000).step_by(0x101).chain([u64::MAX, 1 << 63]) {
        let _ = module.data_at(address);
        let _ = module.text_at(address, 16);
        if let Some(bounds) = module.function_bounds(address) {
            assert!(bounds.start <= address && address < bounds.end);
        }
        let _ = module.frames_at(address);
        let _ = module.scopes_at(&[address]);
        let _ = module.frame_rule(address);
    }
}

const PROGRAM: &str = r#"
#include <cstdio>
struct point { double x, y[3]; point *next; unsigned bits : 3; };
namespace n { point table[20]; thread_local int per_thread[4]; }
template <class T> inline T twice(T x) { static T kept; kept = x; return x + kept; }
static int shared(int x) { return twice(x) + 1; }
int main(int argc, char **argv) { std::printf("%d\n", shared(argc)); return n::per_thread[0] + (int)n::table[argc].x; }
"#;

fn victims(workshop: &Workshop) -> Vec<Vec<u8>> {
    let ways: [&[&str]; 3] = [
        &["-g", "-gdwarf-5", "-O1"],
        &["-g", "-gdwarf-4", "-O1", "-no-pie", "-fdebug-types-section"],
        &["-g", "-gz=zlib", "-O1"],
    ];
    ways.iter().map(|flags| std::fs::read(workshop.compile("d.cpp", PROGRAM, "d", flags)).unwrap()).collect()
}

#[test]
fn damaged_files_neither_panic_nor_hang() {
    if !have(&["g++"]) {
        return;
    }
    let workshop = Workshop::new();
    let mut dice = Dice(seed(1));
    for original in victims(&workshop) {
        interrogate(original.clone());
        for round in 0..rounds(900) {
            let mut bytes = original.clone();
            match round % 3 {
                0 => bytes.truncate(dice.below(original.len())),
                // A few flipped bits anywhere.
                1 => {
                    for _ in 0..=dice.below(40) {
                        let at = dice.below(bytes.len());
                        bytes[at] ^= 1 << dice.below(8);
                    }
                }
                // A run of one value: counts and sizes become huge, or zero.
                _ => {
                    let at = dice.below(bytes.len());
                    let end = (at + 1 + dice.below(24)).min(bytes.len());
                    bytes[at..end].fill([0, 0xff, 0x7f, 0x80][dice.below(4)]);
                }
            }
            let started = Instant::now();
            interrogate(bytes);
            assert!(started.elapsed() < Duration::from_secs(5), "round {round}");
        }
    }
}

/// Headers and tables are a small part of a file, and where damage does most: flips there are not left to chance.
#[test]
fn damaged_headers_and_tables() {
    if !have(&["g++"]) {
        return;
    }
    let workshop = Workshop::new();
    let mut dice = Dice(seed(2));
    for original in victims(&workshop) {
        let sections = u64::from_le_bytes(original[0x28..0x30].try_into().unwrap()) as usize;
        let regions = [0..0x400, sections..original.len()];
        for region in regions {
            for round in 0..rounds(400) {
                let mut bytes = original.clone();
                for _ in 0..=dice.below(6) {
                    let at = region.start + dice.below(region.len());
                    bytes[at] = dice.below(256) as u8;
                }
                let started = Instant::now();
                interrogate(bytes);
                assert!(started.elapsed() < Duration::from_secs(5), "round {round}");
            }
        }
    }
}
