//! The text of a plan with its reasons as comments.

use std::fmt::Write as _;

use numamma_findings::{ObjectAdvice, PlanFindings, Verdict};
use numamma_plan::{Object, Plan};

use crate::plan::Planned;

/// Characters of a line of a comment.
const WIDTH: usize = 110;

/// TOML that reads back as the plan.
pub fn text(plan: &Plan, planned: &[Planned], findings: &PlanFindings) -> String {
    let mut text = comment(&format!("For {}: {}.", findings.machine, gain(findings)));
    for assumption in &findings.assumptions {
        text += &comment(assumption);
    }
    text += &Plan { objects: Vec::new(), ..plan.clone() }.to_text();
    for planned in planned.iter().filter(|planned| !planned.objects.is_empty()) {
        text.push('\n');
        text += &comment(&planned.advice.diagnosis);
        text += &comment(&numbers(&planned.advice, findings.memory_only));
        for object in &planned.objects {
            text += &of_object(object);
        }
    }
    let left = planned.iter().filter(|planned| planned.objects.is_empty() && planned.advice.policy.is_empty());
    let left: Vec<&ObjectAdvice> =
        left.map(|planned| &planned.advice).filter(|of| of.verdict != Verdict::Cold).collect();
    if !left.is_empty() {
        text.push('\n');
        left.iter().for_each(|advice| text += &comment(&format!("Left: {}", advice.diagnosis)));
    }
    text
}

/// One `[[object]]`.
fn of_object(object: &Object) -> String {
    let text = Plan { objects: vec![object.clone()], ..Plan::default() }.to_text();
    text.split_once("[[object]]").map(|(_, rest)| format!("[[object]]{rest}")).unwrap_or_default()
}

fn gain(findings: &PlanFindings) -> String {
    let of = |prediction: &numamma_findings::Prediction| {
        format!(
            "{} (95 %: {} to {})",
            seconds(prediction.time_s),
            seconds(prediction.low_s),
            seconds(prediction.high_s)
        )
    };
    let what = if findings.memory_only { "accesses to memory take" } else { "the run takes" };
    format!("{what} {} under this plan, {} without", of(&findings.planned), of(&findings.now))
}

fn numbers(advice: &ObjectAdvice, memory_only: bool) -> String {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let mut text = format!(
        "Local: {} without the plan, {} by owner, {} interleaved. {}:",
        percent(advice.local_now),
        percent(advice.local_by_owner),
        percent(advice.local_interleaved),
        if memory_only { "Accesses to memory" } else { "Run" },
    );
    for (n, candidate) in advice.candidates.iter().enumerate() {
        let _ = write!(text, "{} {} {}", if n > 0 { "," } else { "" }, candidate.policy, seconds(candidate.time_s));
    }
    let _ = write!(text, ". Confidence {}", percent(advice.confidence));
    match advice.verdict {
        Verdict::Weak if !advice.alternatives.is_empty() => {
            let _ = write!(text, ": weak, it could also be {}.", advice.alternatives.join(" or "));
        }
        _ => text.push('.'),
    }
    text
}

/// Three digits.
fn seconds(s: f64) -> String {
    match s {
        s if s >= 99.95 => format!("{s:.0} s"),
        s if s >= 9.995 => format!("{s:.1} s"),
        s if s >= 0.9995 => format!("{s:.2} s"),
        s if s >= 0.9995e-3 => format!("{:.3} ms", s * 1e3),
        s => format!("{:.3} us", s * 1e6),
    }
}

/// Lines that begin with `#`. Names of functions may hold anything, so what would end a line is a space.
fn comment(text: &str) -> String {
    let mut lines = String::new();
    let mut line = String::from("#");
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if line.len() > 1 && line.len() + 1 + word.len() > WIDTH {
            lines += &line;
            lines.push('\n');
            line.truncate(1);
        }
        line.push(' ');
        line += word;
    }
    lines + &line + "\n"
}
