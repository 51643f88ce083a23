//! Lines and inlined functions.

use std::process::Command;

use numamma_symbols::{Frame, Module};

use crate::support::{Workshop, have, nm, run};

const PROGRAM: &str = r#"
#include <stdio.h>
namespace math {
template <class T> inline __attribute__((always_inline)) T square(volatile T *x) {
    return *x *
           *x;
}
inline __attribute__((always_inline)) double norm(volatile double *x) {
    return square(x) +
           square(x + 1);
}
}
__attribute__((noinline)) double length(volatile double *x) {
    return math::norm(x);
}
int main() {
    volatile double v[2] = {3, 4};
    printf("%g\n", length(v));
    return 0;
}
"#;

/// The frames at an address according to `addr2line -f -i`: function and `file:line`.
fn oracle(program: &std::path::Path, address: u64) -> Vec<(String, String)> {
    let output = run(Command::new("addr2line").args(["-f", "-i", "-C", "-e"]).arg(program).arg(format!("{address:x}")));
    let lines: Vec<&str> = output.lines().collect();
    lines
        .chunks(2)
        .map(|pair| {
            let place = pair[1].split(" (discriminator").next().unwrap();
            (pair[0].to_owned(), place.rsplit('/').next().unwrap().to_owned())
        })
        .collect()
}

fn place(frame: &Frame) -> String {
    let file = frame.file.as_deref().unwrap_or("??");
    format!("{}:{}", file.rsplit('/').next().unwrap(), frame.line)
}

#[test]
fn frames_agree_with_addr2line() {
    if !have(&["g++", "addr2line", "nm"]) {
        return;
    }
    let workshop = Workshop::new();
    let ways: [&[&str]; 7] = [
        &["-O2", "-g", "-flto"],
        &["-O2", "-gdwarf-5"],
        &["-O2", "-gdwarf-4"],
        &["-O2", "-gdwarf-4", "-no-pie"],
        &["-O0", "-g"],
        &["-O2", "-g", "-gz=zlib"],
        &["-O2", "-g", "-fdebug-types-section", "-ffunction-sections"],
    ];
    for flags in ways {
        let program = workshop.compile("f.cpp", PROGRAM, "f", flags);
        let module = Module::open(&program).unwrap();
        let function = nm(&program, &[]).into_iter().find(|symbol| symbol.name == "_Z6lengthPVd").unwrap();
        let mut deepest = 0;
        for address in function.address..function.address + function.size {
            let frames = module.frames_at(address);
            let expected = oracle(&program, address);
            let places: Vec<String> = frames.iter().map(place).collect();
            // With link-time optimisation it has `<artificial>` for the file of some inlined functions.
            let expected_places: Vec<String> =
                expected.iter().map(|(_, place)| place.replace("<artificial>", "f.cpp")).collect();
            assert_eq!(places, expected_places, "{flags:?} {address:x}");
            assert!(frames.last().unwrap().function.starts_with("length("), "{frames:?}");
            assert!(frames.iter().rev().skip(1).all(|frame| frame.inlined));
            assert!(!frames.last().unwrap().inlined);
            deepest = deepest.max(frames.len());
        }
        if flags.contains(&"-O2") {
            assert_eq!(deepest, 3, "{flags:?}");
            let inner = (function.address..function.address + function.size)
                .map(|address| module.frames_at(address))
                .find(|frames| frames.len() == 3)
                .unwrap();
            assert!(inner[0].function.contains("math::square<double>("), "{inner:?}");
            assert!(inner[1].function.starts_with("math::norm("), "{inner:?}");
            assert!(inner[0].file.as_ref().unwrap().starts_with('/'), "{inner:?}");
        }
    }
}

/// The line table stays in the program when the rest is split off: lines are right, and functions have their symbols'
/// names.
#[test]
fn split_debug_information_leaves_lines() {
    if !have(&["g++", "nm"]) {
        return;
    }
    let workshop = Workshop::new();
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let program = workshop.compile("f.cpp", PROGRAM, "f", &["-O0", "-gsplit-dwarf", version]);
        let module = Module::open(&program).unwrap();
        let main = nm(&program, &[]).into_iter().find(|symbol| symbol.name == "main").unwrap();
        let frames = module.frames_at(main.address);
        assert_eq!((frames.len(), frames[0].function.as_str()), (1, "main"));
        assert_eq!(place(&frames[0]), "f.cpp:16", "{version}");
    }
}

#[test]
fn without_debug_information_the_symbol_is_the_frame() {
    if !have(&["g++", "nm"]) {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.compile("f.cpp", PROGRAM, "f", &["-O2"]);
    let module = Module::open(&program).unwrap();
    let function = nm(&program, &[]).into_iter().find(|symbol| symbol.name == "_Z6lengthPVd").unwrap();
    let frames = module.frames_at(function.address + 1);
    assert_eq!(frames, [Frame { function: "length(double volatile*)".into(), file: None, line: 0, inlined: false }]);
}

#[test]
fn fortran_procedures_have_their_own_names() {
    if !have(&["gfortran", "nm"]) {
        return;
    }
    let source = "module m\ncontains\nsubroutine inner(x)\nreal :: x\nx = x + 1\nend subroutine\nend module\n\
                  subroutine outer(x)\nuse m\nreal :: x\ncall inner(x)\nend subroutine\n\
                  program driver\nreal :: x\nx = 1\ncall outer(x)\nprint *, x\nend program\n";
    let workshop = Workshop::new();
    let program = workshop.compile("f.f90", source, "f", &["-g"]);
    let module = Module::open(&program).unwrap();
    for (symbol, name, line) in [("__m_MOD_inner", "m::inner", 3), ("outer_", "outer", 8), ("MAIN__", "driver", 13)] {
        let place = nm(&program, &[]).into_iter().find(|known| known.name == symbol).unwrap();
        let frames = module.frames_at(place.address);
        assert_eq!((frames[0].function.as_str(), frames[0].line), (name, line), "{symbol}");
    }
}
