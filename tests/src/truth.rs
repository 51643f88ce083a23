//! What a recording of a workload must show: the `.truth.toml` beside it.

use std::fs;

use serde::Deserialize;

use crate::build;

/// The truth about one workload.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// What it is.
    pub about: String,
    /// The program in `workloads/build`.
    pub program: String,
    /// What it prints.
    pub stdout: String,
    /// Further options of `numamma record`.
    #[serde(default)]
    pub record: Vec<String>,
    /// `OMP_NUM_THREADS`.
    pub omp_threads: Option<u32>,
    /// CPU seconds of each of its threads.
    #[serde(default = "seconds")]
    pub seconds: f64,
    /// The compiler without which it is skipped.
    pub optional: Option<String>,
    /// Threads that must be seen.
    pub threads: usize,
    /// Processes that must be seen.
    #[serde(default = "one")]
    pub processes: usize,
    /// True if the library could be loaded into it.
    #[serde(default = "yes")]
    pub tracked: bool,
    /// How far a share of the cost may be off.
    #[serde(default = "tolerance")]
    pub tolerance: f64,
    /// Least share of the data samples that must be attributed.
    #[serde(default = "attributed")]
    pub attributed: f64,
    /// Most cost of what is not listed: stacks, and what the run-time libraries keep for themselves.
    #[serde(default = "others")]
    pub others: f64,
    /// Objects of the program that a few samples may be charged to, by a part of their names.
    #[serde(default)]
    pub may_appear: Vec<String>,
    /// Losses that are no defect of this recording.
    #[serde(default)]
    pub losses: Vec<String>,
    /// Call sites whose allocations are counted, sampled or not.
    #[serde(default)]
    pub site: Vec<Site>,
    /// Variables that no sample may be charged to.
    #[serde(default)]
    pub never: Vec<String>,
    /// Its objects, in descending order of cost where `cost` is given.
    pub object: Vec<Object>,
}

/// One object: all objects of the report that fit `site`, `variable` or `name_contains` are taken together.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Object {
    /// `FILE#MARK`: allocated on the line of FILE that has the comment `site: MARK`.
    pub site: Option<String>,
    /// A variable of one of these names. With `site`: what its objects are called; empty for the name of the site.
    pub variable: Option<Vec<String>>,
    /// Anything whose name contains this.
    pub name_contains: Option<String>,
    /// The wrapper through which it was allocated.
    pub via: Option<String>,
    /// Its kind.
    pub kind: String,
    /// The module it must lie in.
    pub module: Option<String>,
    /// Its size (that of the largest instance).
    pub bytes: Option<u64>,
    /// Number of instances.
    pub instances: Option<u64>,
    /// Share of the run's cost.
    pub cost: Option<f64>,
    /// How far it may be off, if not by the workload's `tolerance`.
    pub within: Option<f64>,
    /// Least share of the run's cost, where the rest depends on the machine.
    pub cost_at_least: Option<f64>,
    /// Share of the run's accesses.
    pub accesses: Option<f64>,
    /// Share of each thread, in order of creation.
    pub shares: Option<Vec<f64>>,
    /// Who owns its pages.
    pub pages: Option<Pages>,
    /// Who touched its pages first.
    pub first_touch: Option<FirstTouch>,
    /// What the report must call the way its threads share it.
    pub pattern: Option<Pattern>,
}

/// One call site.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// `FILE#MARK`, as in [`Object::site`].
    pub at: String,
    /// Allocations there.
    pub count: u64,
    /// True if all of them are released.
    pub freed: bool,
}

/// Who owns which page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pages {
    /// `block`, `block-cyclic`, `one-each` (page p belongs to thread p + 1).
    pub rule: String,
    /// Threads that share it.
    #[serde(default)]
    pub threads: u64,
    /// Pages of a block (`block-cyclic`).
    #[serde(default)]
    pub block: u64,
    /// Parts that are each split anew (members of a common block).
    #[serde(default = "part")]
    pub parts: u64,
    /// Least part of the pages that must have been sampled, so that the check has something to see.
    #[serde(default = "sampled")]
    pub sampled: f64,
}

/// Who touched which page first.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstTouch {
    /// `owner` (as `pages`), `block` (of `threads`), `main`.
    pub rule: String,
    /// Threads (`block`).
    #[serde(default)]
    pub threads: u64,
    /// `FILE#MARK`: touched on the line of FILE that has the comment `touch: MARK`.
    pub at: Option<String>,
}

/// How its threads share it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// Kinds of pattern of which it must be one.
    pub kind: Vec<String>,
    /// Bytes of a block, if that is part of the truth.
    pub block_bytes: Option<u64>,
    /// Bytes of a period, if that is part of the truth.
    pub period_bytes: Option<u64>,
}

impl Truth {
    /// The truth about the workload `name`.
    pub fn of(name: &str) -> Truth {
        let path = build::root().join("workloads").join(format!("{name}.truth.toml"));
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }
}

impl Pages {
    /// One contiguous range for each of `threads` threads.
    pub fn block(threads: u64) -> Pages {
        Pages { rule: "block".into(), threads, block: 0, parts: 1, sampled: 0.0 }
    }

    /// The thread that page `page` of `pages` belongs to.
    pub fn owner(&self, page: u64, pages: u64) -> usize {
        let part = pages.div_ceil(self.parts).max(1);
        let within = page % part;
        let owner = match self.rule.as_str() {
            "block" => (within * self.threads / part).min(self.threads - 1),
            "block-cyclic" => within / self.block % self.threads,
            "one-each" => page + 1,
            other => panic!("no rule {other:?} for the owners of pages"),
        };
        owner as usize
    }
}

/// File and line that `FILE#MARK` stands for: the line of the workload FILE with the comment `KIND: MARK`.
pub fn line_of(place: &str, kind: &str) -> (String, u32) {
    let (file, mark) = place.split_once('#').unwrap_or_else(|| panic!("{place:?} is not FILE#MARK"));
    let text = fs::read_to_string(build::root().join("workloads").join(file)).expect("a workload's source");
    let wanted = format!("{kind}: {mark}");
    let is_marked = |line: &str| {
        line.find(&wanted)
            .is_some_and(|at| !line[at + wanted.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| is_marked(line));
    let (line, _) = lines.next().unwrap_or_else(|| panic!("no comment `{wanted}` in {file}"));
    assert!(lines.next().is_none(), "`{wanted}` is not unique in {file}");
    (file.to_owned(), line)
}

fn seconds() -> f64 {
    1.5
}
fn one() -> usize {
    1
}
fn part() -> u64 {
    1
}
fn yes() -> bool {
    true
}
fn tolerance() -> f64 {
    0.04
}
fn attributed() -> f64 {
    0.97
}
fn others() -> f64 {
    0.03
}
fn sampled() -> f64 {
    0.3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(rule: &str, threads: u64, block: u64, parts: u64) -> Pages {
        Pages { rule: rule.into(), threads, block, parts, sampled: 0.0 }
    }

    #[test]
    fn owners_follow_the_rule() {
        let owners = |p: &Pages, n: u64| (0..n).map(|i| p.owner(i, n)).collect::<Vec<_>>();
        assert_eq!(owners(&pages("block", 2, 0, 1), 6), [0, 0, 0, 1, 1, 1]);
        assert_eq!(owners(&pages("block", 2, 0, 2), 8), [0, 0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(owners(&pages("block-cyclic", 2, 2, 1), 8), [0, 0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(owners(&pages("one-each", 0, 0, 1), 3), [1, 2, 3]);
    }

    /// Every truth must parse, and every place in it must be found in the sources.
    #[test]
    fn truths_are_well_formed() {
        let dir = build::root().join("workloads");
        let mut seen = 0;
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let file = entry.file_name().into_string().unwrap();
            let Some(name) = file.strip_suffix(".truth.toml") else { continue };
            let truth = Truth::of(name);
            seen += 1;
            for object in &truth.object {
                if let Some(site) = &object.site {
                    line_of(site, "site");
                }
                if let Some(at) = object.first_touch.as_ref().and_then(|f| f.at.as_ref()) {
                    line_of(at, "touch");
                }
                let keys = [object.site.is_some() || object.variable.is_some(), object.name_contains.is_some()];
                assert!(keys.iter().filter(|k| **k).count() <= 1, "{name}: an object has one way to be told");
            }
            let known: f64 = truth.object.iter().filter_map(|o| o.cost).sum();
            assert!(known < 1.005, "{name}: costs sum to {known}");
        }
        assert!(seen >= 25, "{seen} truths");
    }
}
