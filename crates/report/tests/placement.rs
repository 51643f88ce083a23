//! Predictions and plans, as people see them.

use numamma_findings::{NodeLoad, ObjectAdvice, PlanFindings, PolicyCost, Prediction, Predictions, Verdict};
use numamma_report::{Format, Options, render_plan, render_predictions};

fn prediction(name: &str, time_s: f64, remote_share: f64) -> Prediction {
    Prediction {
        name: name.into(),
        threads: "compact".into(),
        time_s,
        low_s: 0.9 * time_s,
        high_s: 1.2 * time_s,
        remote_share,
        imbalance: 2.83,
        nodes: vec![
            NodeLoad { node: 0, share: 0.25, ..NodeLoad::default() },
            NodeLoad { node: 1, share: 0.75, ..NodeLoad::default() },
        ],
        ..Prediction::default()
    }
}

fn advice(name: &str, verdict: Verdict, policy: &str) -> ObjectAdvice {
    ObjectAdvice {
        name: name.into(),
        verdict,
        policy: policy.into(),
        diagnosis: format!("{name} is used in blocks."),
        memory_share: 0.4,
        confidence: 0.85,
        alternatives: vec!["interleave".into()],
        candidates: vec![PolicyCost { policy: "block".into(), time_s: 8.0, local_share: 1.0 }],
        ..ObjectAdvice::default()
    }
}

fn shown(render: impl Fn(&Options, &mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    render(&Options::default(), &mut out);
    String::from_utf8(out).expect("text")
}

#[test]
fn predictions_in_a_table() {
    let predictions = Predictions {
        machine: "amd-8x6".into(),
        threads: 48,
        measured_s: Some(12.0),
        candidates: vec![prediction("first touch", 12.3, 0.875), prediction("interleave", 10.0, 0.75)],
        assumptions: vec!["The machine's contention is not known.".into()],
        ..Predictions::default()
    };
    let text = shown(|options, out| render_predictions(&predictions, options, out).expect("text"));
    let expected = "\
NumaMMA  run time predicted for amd-8x6, 48 threads
  recorded  12.0 s

Placement      Time              95 %  Relative  Remote  Imbalance  Threads  Busiest node
first touch  12.3 s  11.1 s to 14.8 s     100 %  87.5 %      283 %  compact  1: 75.0 %
interleave   10.0 s  9.00 s to 12.0 s      81 %  75.0 %      283 %  compact  1: 75.0 %

The machine's contention is not known.
";
    assert!(text.starts_with(expected), "{text}");
    let json = Options { format: Format::Json, ..Options::default() };
    let mut out = Vec::new();
    render_predictions(&predictions, &json, &mut out).expect("JSON");
    assert_eq!(serde_json::from_slice::<Predictions>(&out).expect("it reads back"), predictions);
    assert!(render_predictions(&predictions, &Options { format: Format::Csv, ..json }, &mut out).is_err());
}

#[test]
fn a_plan_with_its_reasons() {
    let plan = PlanFindings {
        machine: "amd-8x6".into(),
        now: prediction("now", 12.0, 0.875),
        planned: prediction("plan", 8.0, 0.0),
        objects: vec![
            advice("field", Verdict::Advised, "block"),
            advice("table\u{1b}[31m", Verdict::Weak, "interleave"),
            advice("grid", Verdict::NoGain, ""),
            advice("home", Verdict::Right, ""),
            advice("cold", Verdict::Cold, ""),
        ],
        waiting_share: Some(0.25),
        notes: vec!["All 4 threads have room on node 0.".into()],
        ..PlanFindings::default()
    };
    let text = shown(|options, out| render_plan(&plan, options, out).expect("text"));
    for line in [
        "field is used in blocks.",
        "(weak)",
        "Other samples would call for interleave.",
        "left: no place is 1 % better",
        "left: it lies well",
        "Loads waited for memory in 25.0 % of the threads' time",
        "All 4 threads have room on node 0.",
        "1 object more with 40.0 %",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains('\u{1b}') && !text.contains("cold is used"), "{text}");
    let one = |name: &str| {
        let options = Options { object: Some(name.into()), ..Options::default() };
        let mut out = Vec::new();
        render_plan(&plan, &options, &mut out).map(|()| String::from_utf8(out).expect("text"))
    };
    assert!(
        one("field").expect("it is there").contains("block   8.00 s  100.0 %"),
        "{}",
        one("field").expect("it is there")
    );
    assert!(one("fields").expect_err("it is not").to_string().contains("no object 'fields'; nearest: field"));
}
