//! Programs that nobody here wrote: recorded, they do and say what they do and say natively, and their samples find their
//! objects.

use numamma_tests::programs::{self, jobs};
use numamma_tests::report::{self, Report};
use numamma_tests::{Place, Run, skip, turns};

fn check(name: &str) {
    let program = programs::named(name);
    if let Some(tool) = program.missing() {
        return skip::missing(name, tool);
    }
    let place = tempfile::tempdir().expect("a temporary folder");
    let dataset = place.path().join("run.numamma");

    let turn = turns::alone();
    let dir = jobs::prepared(program, place.path());
    let native = program.run(&dir, &[]);
    let recorded = program.run(&dir, &programs::recorder(&dataset, &["--rate", "1000"]));
    drop(turn);

    assert!(native.answer.status == 0, "{name} fails by itself: {}", native.outcome);
    let answer = recorded.answer;
    assert!(answer.status == native.answer.status, "{name}: exit status {}: {}", answer.status, recorded.outcome);
    assert!(answer.stdout == native.answer.stdout, "{name}: output differs from a native run's: {}", recorded.outcome);
    assert!(answer.files == native.answer.files, "{name}: files differ: {:?}, {:?}", answer.files, native.answer.files);

    let report = Report::of(&dataset);
    let (samples, share) = (&report.samples, report.attributed_share());
    let seen = format!("{samples:?}\n{}", report::text(&dataset));
    assert!(report.run.exit == Some(0), "{name}: run.exit is {:?}", report.run.exit);
    assert!(samples.recorded >= 200, "{name}: {} samples: {seen}", samples.recorded);
    // What lies in blocks whose allocation was lost has no object. That is said as a loss, and is the machine's load as much
    // as the recorder's doing: less can be asked then, but not nothing.
    let lost = report.lost_of_heap();
    let floor = if lost == 0 { program.floor } else { program.floor * 0.4 };
    assert!(share >= floor, "{name}: attributed share {share:.4}, floor {floor}: {seen}");
    assert!(samples.attributed + samples.unattributed.values().sum::<u64>() == samples.recorded, "{name}: {seen}");
}

macro_rules! programs {
    ($($name:ident),*) => {
        $(#[test] fn $name() { check(stringify!($name)); })*

        /// A program without a test would never be looked at.
        #[test]
        fn every_program_has_a_test() {
            let tested = [$(stringify!($name)),*];
            assert!(jobs::ALL.iter().all(|p| tested.contains(&p.name)));
        }
    };
}

programs!(xz, sort, numpy, sqlite3, redis, gcc, pigz, x264, perl, java);

/// Small things that broke earlier tools.
#[test]
fn python_that_prints_one() {
    let Some(python) = jobs::python() else { return skip::missing("python_that_prints_one", "python3") };
    let place = Place::together();
    for (i, binding) in ["", "1"].into_iter().enumerate() {
        let dataset = place.path(&format!("{i}.numamma"));
        let run =
            Run::record(&dataset).arg(python).args(["-c", "print(1)"]).env("LD_BIND_NOW", binding).run().success();
        assert_eq!(run.out(), "1\n", "{run}");
        Run::report(&dataset).run().success();
    }
}
