//! A plan and its reasons for a terminal or a pipe.

use numamma_findings::{ObjectAdvice, PlanFindings, Verdict};

use super::{
    Page,
    objects::error,
    predictions::{assumptions, table as predictions_table},
    style::{Style, clean},
    table::{Cell, Column, Table},
    units,
};
use crate::{error::ReportError, options::Options};

/// Objects that are shown where nobody says how many.
const TOP: usize = 20;

/// The plan as text; with an object, all policies that were compared for it.
pub fn render(plan: &PlanFindings, options: &Options) -> Result<String, ReportError> {
    let page = Page::new(options);
    let machine = clean(&plan.machine, page.pen.unicode);
    let mut out = page.pen.paint(Style::Bold, &format!("NumaMMA  plan for {machine}")) + "\n\n";
    out += &predictions_table(&[plan.now.clone(), plan.planned.clone()], &page);
    out += &waiting(plan, &page);
    match &options.object {
        Some(name) => out += &explain(find(plan, name)?, &page),
        None => out += &objects(plan, options, &page),
    }
    Ok(out + &assumptions(&plan.assumptions, plan.memory_only, &page))
}

/// What a placement can save at most, and what is to be known first.
fn waiting(plan: &PlanFindings, page: &Page) -> String {
    let share = plan.waiting_share.map(|share| {
        format!(
            "Loads waited for memory in {} of the threads' time: only that part depends on where memory lies.",
            units::percent(share)
        )
    });
    let notes = share.iter().chain(&plan.notes).map(|note| page.note(&clean(note, page.pen.unicode)));
    let notes: String = notes.collect();
    if notes.is_empty() { notes } else { format!("\n{notes}") }
}

/// The object of that name, or `#id`.
fn find<'a>(plan: &'a PlanFindings, name: &str) -> Result<&'a ObjectAdvice, ReportError> {
    let id = name.strip_prefix('#').and_then(|digits| digits.parse::<usize>().ok());
    let named = plan.objects.iter().filter(|object| object.name == name || Some(object.id) == id);
    let near = || plan.objects.iter().take(5).map(|object| object.name.clone()).collect();
    match named.collect::<Vec<_>>()[..] {
        [] => Err(ReportError::NoObject { name: name.to_owned(), near: near() }),
        [object] => Ok(object),
        ref several => Err(ReportError::AmbiguousObject {
            name: name.to_owned(),
            candidates: several.iter().take(5).map(|object| format!("#{} {}", object.id, object.name)).collect(),
            count: several.len(),
        }),
    }
}

fn objects(plan: &PlanFindings, options: &Options, page: &Page) -> String {
    let mut table = Table::new(vec![
        Column::name("Object", 12),
        Column::right("Memory", 0),
        Column::right("", 0),
        Column::right("Local", 1),
        Column::right("By owner", 2),
        Column::left("Policy", 0),
        Column::right("Confidence", 1),
    ]);
    let top = options.top.unwrap_or(TOP);
    let most = if top == 0 { usize::MAX } else { top };
    let is_worth_saying = |object: &&ObjectAdvice| object.verdict != Verdict::Cold;
    let shown: Vec<&ObjectAdvice> = plan.objects.iter().filter(is_worth_saying).take(most).collect();
    for object in &shown {
        let local = units::percent(object.local_now);
        let by_owner = units::percent(object.local_by_owner);
        table.row(vec![
            Cell::new(clean(&object.name, page.pen.unicode)),
            Cell::new(units::percent(object.memory_share)),
            Cell::new(error(object.memory_error, page)).style(Style::Dim),
            Cell::new(local.clone()).phrase(format!("local {local}")),
            Cell::new(by_owner.clone()).phrase(format!("{by_owner} by owner")),
            policy(object, page),
            confidence(object),
        ]);
    }
    let mut out = page.heading("Objects") + &table.render(page.width, &page.pen);
    let is_told = |object: &&&ObjectAdvice| {
        !object.policy.is_empty() || (object.verdict == Verdict::Unplaceable && !matches!(object.candidates[..], []))
    };
    for object in shown.iter().filter(is_told) {
        out += "\n";
        out += &sentence(object, page);
    }
    let rest = plan.objects.len() - shown.len();
    if rest > 0 {
        let share: f64 = plan.objects.iter().map(|object| object.memory_share).sum::<f64>()
            - shown.iter().map(|object| object.memory_share).sum::<f64>();
        out += &page.note(&format!(
            "{} more with {} of the accesses to memory",
            units::plural(rest as u64, "object"),
            units::percent(share)
        ));
    }
    out
}

fn policy(object: &ObjectAdvice, page: &Page) -> Cell {
    match object.verdict {
        Verdict::Advised => Cell::new(clean(&object.policy, page.pen.unicode)).style(Style::Bold),
        Verdict::Weak => Cell::new(format!("{} (weak)", clean(&object.policy, page.pen.unicode))).style(Style::Warn),
        Verdict::Right => Cell::new("left: it lies well"),
        Verdict::NoGain => Cell::new("left: no place is 1 % better"),
        Verdict::Cold => Cell::new("left: hardly accessed"),
        Verdict::Small => Cell::new("left: caches hold it"),
        Verdict::Unknown => {
            Cell::new(format!("left: only {} waited", units::plural(object.samples, "sample"))).style(Style::Warn)
        }
        Verdict::Unplaceable => Cell::new("left: no plan can place it"),
    }
}

fn confidence(object: &ObjectAdvice) -> Cell {
    let is_placed = matches!(object.verdict, Verdict::Advised | Verdict::Weak);
    let text = if is_placed { format!("{:.0} %", 100.0 * object.confidence) } else { String::new() };
    Cell::new(text.clone()).phrase(if is_placed { format!("confidence {text}") } else { String::new() })
}

fn sentence(object: &ObjectAdvice, page: &Page) -> String {
    let mut text = clean(&object.diagnosis, page.pen.unicode);
    if !object.alternatives.is_empty() && object.verdict == Verdict::Weak {
        text +=
            &format!(" Other samples would call for {}.", clean(&object.alternatives.join(" or "), page.pen.unicode));
    }
    super::style::wrap(&text, page.width).iter().map(|line| format!("{line}\n")).collect()
}

/// All policies that were compared for one object.
fn explain(object: &ObjectAdvice, page: &Page) -> String {
    let mut table = Table::new(vec![Column::name("Policy", 12), Column::right("Time", 0), Column::right("Local", 0)]);
    for candidate in &object.candidates {
        let style = if candidate.policy == object.policy { Style::Bold } else { Style::Plain };
        table.row(vec![
            Cell::new(clean(&candidate.policy, page.pen.unicode)).style(style),
            Cell::new(units::seconds(candidate.time_s)).style(style),
            Cell::new(units::percent(candidate.local_share)),
        ]);
    }
    let mut out = page.heading(&clean(&object.name, page.pen.unicode)) + &sentence(object, page) + "\n";
    if !object.candidates.is_empty() {
        out += &table.render(page.width, &page.pen);
    }
    let samples = units::plural(object.samples, "sample");
    out + &page.note(&format!(
        "{} of the accesses to memory, {samples} that waited for it; local {}, by owner {}, interleaved {}.",
        units::percent(object.memory_share),
        units::percent(object.local_now),
        units::percent(object.local_by_owner),
        units::percent(object.local_interleaved),
    ))
}
