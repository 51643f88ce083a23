//! Recordings of programs whose answer is known: `workloads/NAME` against `workloads/NAME.truth.toml`.

use numamma_tests::report::{self, Report};
use numamma_tests::truth::Truth;
use numamma_tests::verdict::Verdict;
use numamma_tests::{Run, build, skip, turns};

fn check(name: &str) {
    let truth = Truth::of(name);
    let Some(program) = build::workload(&truth.program) else {
        let compiler = truth.optional.as_deref();
        return skip::missing(name, compiler.unwrap_or_else(|| panic!("make did not build {}", truth.program)));
    };
    let place = tempfile::tempdir().expect("a temporary folder");
    let dataset = place.path().join(format!("{name}.numamma"));
    let factor: f64 = std::env::var("NUMAMMA_TEST_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(1.0);

    let turn = turns::alone();
    let mut run = Run::record_with(&dataset, &truth.record).arg(program).arg((truth.seconds * factor).to_string());
    // Threads that wait for each other sleep: time spent spinning is no part of the truth.
    run = run.env("OMP_WAIT_POLICY", "passive").env("GOMP_SPINCOUNT", "0");
    if let Some(threads) = truth.omp_threads {
        run = run.env("OMP_NUM_THREADS", threads.to_string());
    }
    let outcome = run.run().success();
    drop(turn);
    assert!(outcome.out() == truth.stdout, "{name} ({}): output expected {:?}: {outcome}", truth.about, truth.stdout);

    let report = Report::of(&dataset);
    let verdict = Verdict::of(&truth, &report, &dataset, &outcome.err());
    assert!(
        verdict.failures().is_empty(),
        "{name} ({}): the recording does not show the truth\n  - {}\n--- stderr of record\n{}\n--- report\n{}",
        truth.about,
        verdict.failures().join("\n  - "),
        outcome.err(),
        report::text(&dataset),
    );
}

macro_rules! workloads {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { check(stringify!($name)); })*

        /// A truth without a test would never be looked at.
        #[test]
        fn every_truth_has_a_test() {
            let tested = [$(stringify!($name)),*];
            for entry in std::fs::read_dir(build::root().join("workloads")).unwrap().flatten() {
                let file = entry.file_name().into_string().unwrap();
                if let Some(name) = file.strip_suffix(".truth.toml") {
                    assert!(tested.contains(&name), "{file} has no test");
                }
            }
        }
    };
}

workloads! {
    triad, block, blockcyclic, gather, chase, master_init, fcommon, containers, mapped, tlsstack, reuse, reuse_threads,
    dlopened, shortthreads, forkexec, globals_pie, globals_nopie, globals_static, globals_stripped, stripped, allocators,
    churn, wrappers, pointers_o0, pointers_o2, fallocate, news, members_o0, members_o2,
}
