//! Compares a recording with its truth.

use std::path::Path;

use crate::report::{Object, Report, Site};
use crate::truth::{self, Truth};

/// Least part of the pages whose owner or first toucher must be right.
const RIGHT_PAGES: f64 = 0.99;
/// How far the shares of threads may be off.
const THREAD_SHARES: f64 = 0.03;
/// How far shares of accesses, and of writes among them, may be off.
const ACCESSES: f64 = 0.05;
/// Fewer samples than this prove nothing.
const LEAST_SAMPLES: u64 = 300;

/// What was expected and not found.
#[derive(Debug, Default)]
pub struct Verdict {
    failures: Vec<String>,
    /// Shares of the CPU time that the threads really had, if the program says so.
    cpu: Vec<f64>,
}

/// The objects of a report that one object of the truth stands for, taken together.
#[derive(Debug)]
struct Group<'a> {
    label: String,
    truth: &'a truth::Object,
    objects: Vec<&'a Object>,
}

impl Verdict {
    /// Compares the recording in `dataset` with `truth`; `report` is its report, `stderr` what the program wrote there.
    pub fn of(truth: &Truth, report: &Report, dataset: &Path, stderr: &str) -> Verdict {
        let mut verdict = Verdict { cpu: cpu_shares(stderr), ..Verdict::default() };
        verdict.run(truth, report);
        verdict.samples(truth, report);
        let groups = groups(truth, report);
        for group in &groups {
            verdict.object(truth, group, dataset);
        }
        verdict.sites(truth, report);
        verdict.order(&groups);
        verdict.others(truth, report, &groups);
        verdict
    }

    /// What is wrong; empty if nothing is.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.failures.push(what());
        }
    }

    fn near(&mut self, what: &str, got: f64, expected: f64, tolerance: f64) {
        self.expect((got - expected).abs() <= tolerance, || {
            format!("{what}: expected {expected:.3} +- {tolerance:.3}, got {got:.3}")
        });
    }

    fn run(&mut self, truth: &Truth, report: &Report) {
        self.expect(report.run.exit == Some(0), || format!("run.exit: expected 0, got {:?}", report.run.exit));
        let threads = report.run.threads;
        self.expect(threads == truth.threads, || format!("threads: expected {}, got {threads}", truth.threads));
        let processes = report.processes.len();
        self.expect(processes == truth.processes, || {
            format!("processes: expected {}, got {processes}", truth.processes)
        });
        for process in &report.processes {
            self.expect(process.tracked == truth.tracked, || {
                format!(
                    "allocations of {} are tracked: expected {}, got {}",
                    process.command, truth.tracked, process.tracked
                )
            });
        }
        let is_defect = |kind: &String| truth.tracked && !truth.losses.contains(kind);
        for loss in report.losses.iter().filter(|l| l.count > 0 && is_defect(&l.kind)) {
            self.failures.push(format!("lost: {} x {} ({})", loss.count, loss.kind, loss.remedy));
        }
        if !truth.tracked {
            self.expect(!report.losses.is_empty(), || "what cannot be seen without the library must be said".into());
        }
    }

    fn samples(&mut self, truth: &Truth, report: &Report) {
        let samples = &report.samples;
        let sum: u64 = samples.attributed + samples.unattributed.values().sum::<u64>();
        self.expect(sum == samples.recorded, || {
            format!("attributed and unattributed samples make {sum}, recorded were {}", samples.recorded)
        });
        self.expect(samples.recorded >= LEAST_SAMPLES, || {
            format!("{} samples: expected at least {LEAST_SAMPLES}", samples.recorded)
        });
        let share = report.attributed_share();
        self.expect(share >= truth.attributed, || {
            let reasons = &samples.unattributed;
            format!(
                "attributed share of data samples: expected {} or more, got {share:.4}; {reasons:?}",
                truth.attributed
            )
        });
    }

    fn object(&mut self, truth: &Truth, group: &Group, dataset: &Path) {
        let (label, wanted) = (&group.label, group.truth);
        if group.objects.is_empty() {
            self.failures.push(format!("{label}: not in the report"));
            return;
        }
        for object in &group.objects {
            self.expect(object.kind == wanted.kind, || {
                format!("{label}: kind of {:?}: expected {}, got {}", object.name, wanted.kind, object.kind)
            });
        }
        let largest = group.objects.iter().map(|o| o.bytes).max().unwrap_or(0);
        if let Some(bytes) = wanted.bytes {
            self.expect(largest == bytes, || format!("{label}: expected {bytes} bytes, got {largest}"));
        }
        if let Some(expected) = wanted.instances {
            let got: u64 = group.objects.iter().map(|o| o.instances).sum();
            self.expect(got == expected, || format!("{label}: expected {expected} instances, got {got}"));
        }
        if let Some(site) = &wanted.site {
            let place = place_of(site);
            let names = wanted.variable.as_deref().unwrap_or_default();
            for object in &group.objects {
                let by_line = names.is_empty() || names.iter().any(String::is_empty);
                let is_right = names.iter().any(|name| name == plain(&object.name))
                    || (by_line && numbered(&object.name).ends_with(&place));
                self.expect(is_right, || {
                    format!("{label}: {:?} should be named {names:?} or after the user's line, {place}", object.name)
                });
            }
        }
        if let Some(via) = &wanted.via {
            for object in &group.objects {
                let got = object.site.as_ref().map_or("", |site| &site.via);
                self.expect(got == via, || format!("{label}: allocated by {got:?} instead of {via:?}"));
            }
        }
        if let Some(cost) = wanted.cost {
            self.near(&format!("{label}: share of cost"), group.cost(), cost, wanted.within.unwrap_or(truth.tolerance));
        }
        if let Some(least) = wanted.cost_at_least {
            let got = group.cost();
            self.expect(got >= least, || format!("{label}: share of cost: expected {least} or more, got {got:.3}"));
        }
        let stated = group.are_stated();
        if let Some(accesses) = wanted.accesses.filter(|_| stated) {
            let got: f64 = group.objects.iter().map(|o| o.accesses.share).sum();
            self.near(&format!("{label}: share of accesses"), got, accesses, ACCESSES);
        }
        // Which of a block's accesses a sample is charged to is chance: a share of n samples scatters by sqrt(p (1 - p) / n),
        // and one in a thousand right ones lies further off than 3.3 times that.
        let samples: u64 = group.objects.iter().map(|o| o.samples).sum();
        let scatter = 3.3 * (0.25 / samples.max(1) as f64).sqrt();
        let few = if samples < 400 { 1.0 / (samples.max(1) as f64).sqrt() } else { 0.0 };
        for (thread, share) in wanted.shares.iter().flatten().enumerate() {
            let (cost, accesses) = group.thread(thread);
            // On a busy machine equal work takes unequal time, and the kernel's part of that time is not sampled: the truth
            // lies between the work and the time.
            let time = self.cpu.get(thread).copied().unwrap_or(*share);
            let (middle, spread) = ((time + share) / 2.0, (time - share).abs() / 2.0);
            let tolerance = THREAD_SHARES + few + spread;
            let of_cost = tolerance.max(scatter + spread);
            self.near(&format!("{label}: thread {thread}'s share of cost"), cost, middle, of_cost);
            if let Some(accesses) = accesses {
                self.near(&format!("{label}: thread {thread}'s share of accesses"), accesses, middle, tolerance);
            }
        }
        if let Some(pattern) = &wanted.pattern {
            self.pattern(label, group, pattern);
        }
        self.pages(label, group, dataset);
    }

    fn pattern(&mut self, label: &str, group: &Group, wanted: &truth::Pattern) {
        let got = &group.objects[0].pattern;
        self.expect(wanted.kind.contains(&got.kind), || {
            format!("{label}: pattern: expected {:?}, got {got:?}", wanted.kind)
        });
        let sizes = [("block", wanted.block_bytes, got.block_bytes), ("period", wanted.period_bytes, got.period_bytes)];
        for (name, expected, got) in sizes {
            let Some(expected) = expected else { continue };
            self.expect(expected.abs_diff(got) <= expected / 20, || {
                format!("{label}: {name} of the pattern: expected {expected} bytes, got {got}")
            });
        }
    }

    /// Owners and first touchers of pages.
    fn pages(&mut self, label: &str, group: &Group, dataset: &Path) {
        let wanted = group.truth;
        if wanted.pages.is_none() && wanted.first_touch.is_none() {
            return;
        }
        let object = Report::object_of(dataset, &group.objects[0].name);
        let page_bytes = object.page_bytes.unwrap_or(4096);
        let table = object.page_table.as_deref().unwrap_or_default();
        let total = object.bytes.div_ceil(page_bytes);
        // An object that does not start at a page's start reaches into one page more.
        self.expect(table.iter().all(|p| p.page <= total), || format!("{label}: a page beyond its {total} pages"));

        if let Some(rule) = &wanted.pages {
            let sampled: Vec<_> = table.iter().filter(|p| p.owner.is_some()).collect();
            let part = sampled.len() as f64 / total as f64;
            self.expect(part >= rule.sampled, || {
                format!("{label}: sampled pages: expected {} or more of {total}, got {part:.3}", rule.sampled)
            });
            let wrong: Vec<_> = sampled.iter().filter(|p| p.owner != Some(rule.owner(p.page, total))).collect();
            let right = 1.0 - wrong.len() as f64 / sampled.len().max(1) as f64;
            self.expect(right >= RIGHT_PAGES, || {
                let first: Vec<_> =
                    wrong.iter().take(8).map(|p| (p.page, p.owner, rule.owner(p.page, total))).collect();
                format!(
                    "{label}: pages with the right owner: expected {RIGHT_PAGES} or more, got {right:.4} of {}; wrong \
                     (page, got, expected): {first:?}",
                    sampled.len()
                )
            });
        }
        if let Some(rule) = &wanted.first_touch {
            let owner = |page: u64| match (rule.rule.as_str(), &wanted.pages) {
                ("main", _) => 0,
                ("owner", Some(pages)) => pages.owner(page, total),
                ("block", _) => truth::Pages::block(rule.threads).owner(page, total),
                (other, _) => panic!("no rule {other:?} for first touches"),
            };
            let touched: Vec<_> = table.iter().filter_map(|p| Some((p.page, p.first_touch_thread?))).collect();
            let part = touched.len() as f64 / total as f64;
            self.expect(part >= 0.95, || {
                format!("{label}: pages with a first toucher: expected 0.95 or more of {total}, got {part:.3}")
            });
            let wrong: Vec<_> = touched.iter().filter(|(page, thread)| *thread != owner(*page)).collect();
            let right = 1.0 - wrong.len() as f64 / touched.len().max(1) as f64;
            self.expect(right >= RIGHT_PAGES, || {
                let first: Vec<_> = wrong.iter().take(8).map(|(page, got)| (page, got, owner(*page))).collect();
                format!(
                    "{label}: pages with the right first toucher: expected {RIGHT_PAGES} or more, got {right:.4}; wrong \
                     (page, got, expected): {first:?}"
                )
            });
            if let Some(at) = &rule.at {
                self.first_touch_line(label, &object, at);
            }
        }
    }

    fn first_touch_line(&mut self, label: &str, object: &Object, at: &str) {
        let (file, line) = truth::line_of(at, "touch");
        let all: u64 = object.first_touch.iter().map(|f| f.pages).sum();
        let there = object.first_touch.iter().filter(|f| f.line == line && f.file.ends_with(&file));
        let there: u64 = there.map(|f| f.pages).sum();
        let right = there as f64 / all.max(1) as f64;
        self.expect(right >= RIGHT_PAGES, || {
            let got = object.first_touch.iter().take(6).collect::<Vec<_>>();
            format!(
                "{label}: pages first touched at {file}:{line}: expected {RIGHT_PAGES} or more, got {right:.4}: {got:?}"
            )
        });
    }

    /// Every allocation is counted, or reported as lost.
    fn sites(&mut self, truth: &Truth, report: &Report) {
        let lost = report.lost_of_heap();
        for wanted in &truth.site {
            let place = place_of(&wanted.at);
            let here = report.sites.iter().filter(|s| is_at(&s.site, &place));
            let (count, freed) = here.fold((0, 0), |(count, freed), s| (count + s.count, freed + s.freed));
            self.expect(count <= wanted.count && count + lost >= wanted.count, || {
                format!("allocations at {place}: expected {}, got {count}; {lost} events were lost", wanted.count)
            });
            self.expect(!wanted.freed || (freed <= count && freed + lost >= wanted.count), || {
                format!("releases of {place}: expected {}, got {freed}; {lost} events were lost", wanted.count)
            });
        }
    }

    /// Where costs are known, the objects must come in that order.
    fn order(&mut self, groups: &[Group]) {
        let known: Vec<_> = groups.iter().filter(|g| g.truth.cost.is_some() && !g.objects.is_empty()).collect();
        for pair in known.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            // Objects whose truths are nearly equal may come in either order.
            let within = [a, b].into_iter().filter_map(|g| g.truth.within).fold(0.04, f64::max);
            let apart = a.truth.cost.unwrap_or(0.0) - b.truth.cost.unwrap_or(0.0) >= within;
            self.expect(!apart || a.cost() > b.cost(), || {
                format!("order by cost: {} ({:.3}) before {} ({:.3})", a.label, a.cost(), b.label, b.cost())
            });
        }
    }

    /// Nothing may be charged to a wrong object: what is not in the truth is the run-time's, and little.
    fn others(&mut self, truth: &Truth, report: &Report, groups: &[Group]) {
        let listed = |o: &Object| groups.iter().any(|g| g.objects.iter().any(|l| l.id == o.id));
        let mut rest = 0.0;
        for object in report.objects.iter().filter(|o| o.samples > 0 && !listed(o)) {
            rest += object.cost.share;
            let module = object.module.as_deref().unwrap_or("no module");
            let may_appear = truth.may_appear.iter().any(|part| object.name.contains(part));
            self.expect(may_appear || is_run_times_own(object), || {
                format!("{} samples charged to {} {:?} ({module})", object.samples, object.kind, object.name)
            });
        }
        self.expect(rest <= truth.others, || {
            format!("cost of objects outside the truth: expected {} or less, got {rest:.4}", truth.others)
        });
        for name in &truth.never {
            let wrong: u64 = report.objects.iter().filter(|o| plain(&o.name) == name).map(|o| o.samples).sum();
            self.expect(wrong == 0, || format!("{wrong} samples charged to {name}, which is never accessed"));
        }
    }
}

/// What every program has besides its own data: stacks, what the C, C++, Fortran and OpenMP run-time libraries and the loader keep, tables
/// and constants of the file itself, and the ring into which the recorder's library writes.
fn is_run_times_own(object: &Object) -> bool {
    const LIBRARIES: [&str; 10] = [
        "libgcc_s",
        "libc.so",
        "ld-linux",
        "ld.so.cache",
        "libgomp",
        "libgfortran",
        "libstdc++",
        "libpthread",
        "libnumamma",
        "memfd:numamma",
    ];
    // What the C run time asks at the end of a program whether that has been there already.
    if object.name == "completed.0" {
        return true;
    }
    // `[.rodata of x]`, `[thread descriptor]`, `[anonymous memory]`, but no `[.bss of x]`: variables are there.
    let variables = ["[.bss", "[.data", "[data"].iter().any(|part| object.name.starts_with(part));
    let innermost = object.site.iter().flat_map(|s| s.stack.first());
    let mut names = object.module.iter().chain(innermost).chain([&object.name]);
    object.kind == "stack"
        || names.any(|n| LIBRARIES.iter().any(|l| n.contains(l)))
        || (object.name.starts_with('[') && !variables)
}

/// True if a call site is the line `place` of the user's, or is reached from there.
fn is_at(site: &Site, place: &str) -> bool {
    // A frame reads `function path/file:line`.
    let here = format!("{}:{}", site.file, site.line);
    let mut frames = site.stack.iter().map(String::as_str).chain([here.as_str()]);
    frames.any(|f| f.strip_suffix(place).is_some_and(|rest| rest.is_empty() || rest.ends_with(['/', ' '])))
}

/// Shares of the threads' CPU times out of a line `cpu 0.71 0.69`.
fn cpu_shares(stderr: &str) -> Vec<f64> {
    let line = stderr.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let times: Vec<f64> = line.split_whitespace().filter_map(|t| t.parse().ok()).collect();
    let sum: f64 = times.iter().sum();
    times.into_iter().map(|t| t / sum).collect()
}

/// The variable's name: without what tells it from others of that name.
fn plain(name: &str) -> &str {
    let name = name.strip_suffix(')').and_then(|n| n.rsplit_once(" (")).map_or(name, |(name, _)| name);
    let name = numbered(name);
    name.split_once(" at ").map_or(name, |(name, _)| name)
}

/// A name without the number that tells it from others.
fn numbered(name: &str) -> &str {
    name.rsplit_once(" #").filter(|(_, n)| n.parse::<u32>().is_ok()).map_or(name, |(name, _)| name)
}

/// `FILE:LINE` of a place in the truth.
fn place_of(site: &str) -> String {
    let (file, line) = truth::line_of(site, "site");
    format!("{file}:{line}")
}

fn groups<'a>(truth: &'a Truth, report: &'a Report) -> Vec<Group<'a>> {
    let mut taken = vec![];
    let mut groups = vec![];
    // A part of a name fits more than it means: whatever has a better key takes its objects first.
    let mut order: Vec<usize> = (0..truth.object.len()).collect();
    order.sort_by_key(|i| truth.object[*i].name_contains.is_some());
    for i in order {
        let wanted = &truth.object[i];
        let place = wanted.site.as_deref().map(place_of);
        let fits = |object: &Object| {
            if let Some(place) = &place {
                // What OpenMP allocates for its threads is reached from a line of the user's, too.
                let openmp = |s: &Site| s.stack.first().is_some_and(|frame| frame.contains("libgomp"));
                return object.site.iter().any(|site| is_at(site, place) && !openmp(site));
            }
            if object.kind != wanted.kind {
                return false;
            }
            let module = object.module.as_deref().unwrap_or_default();
            let module = wanted.module.as_ref().is_none_or(|m| module.rsplit('/').next() == Some(m));
            let variable = wanted.variable.as_ref().is_none_or(|names| names.iter().any(|n| n == plain(&object.name)));
            let contains = wanted.name_contains.as_ref().is_none_or(|part| object.name.contains(part));
            module && variable && contains
        };
        let objects: Vec<_> = report.objects.iter().filter(|o| !taken.contains(&o.id) && fits(o)).collect();
        taken.extend(objects.iter().map(|o| o.id));
        let what = [&wanted.site, &wanted.variable.as_ref().map(|v| v[0].clone()), &wanted.name_contains];
        let what = what.into_iter().flatten().next().unwrap_or(&wanted.kind);
        let module = wanted.module.as_ref().map(|m| format!(" of {m}")).unwrap_or_default();
        groups.push((i, Group { label: format!("{what}{module}"), truth: wanted, objects }));
    }
    groups.sort_by_key(|(i, _)| *i);
    groups.into_iter().map(|(_, group)| group).collect()
}

impl Group<'_> {
    fn cost(&self) -> f64 {
        self.objects.iter().map(|o| o.cost.share).sum()
    }

    /// True if the report states numbers of accesses of all its objects; else there is nothing to hold against the truth.
    fn are_stated(&self) -> bool {
        self.objects.iter().all(|o| o.accesses.share > 0.0 || o.accesses.error.is_some())
    }

    /// The thread's share of the group's cost, and of its accesses where they are known by thread.
    fn thread(&self, thread: usize) -> (f64, Option<f64>) {
        let (mut cost, mut accesses, mut all_cost, mut all_accesses) = (0.0, 0.0, 0.0, 0.0);
        let stated = self.are_stated();
        for object in &self.objects {
            // Shares of threads are of each object: where its weight is not stated, its samples are.
            let weight = if stated { object.accesses.share } else { object.samples as f64 };
            all_cost += object.cost.share;
            all_accesses += weight;
            for share in object.threads.iter().filter(|t| t.thread == thread) {
                cost += share.cost_share * object.cost.share;
                accesses += share.access_share.unwrap_or_default() * weight;
            }
        }
        let known = self.objects.iter().flat_map(|object| &object.threads).all(|of| of.access_share.is_some());
        let share_of_accesses = accesses / all_accesses.max(f64::MIN_POSITIVE);
        (cost / all_cost.max(f64::MIN_POSITIVE), known.then_some(share_of_accesses))
    }
}

/// A check that cannot fail is none: a report that shows the truth passes, and each way to miss it is noticed.
#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn truth() -> Truth {
        toml::from_str(
            r#"
            about = "two tables"
            program = "none"
            stdout = ""
            threads = 2
            never = ["decoy"]
            [[object]]
            variable = ["table"]
            module = "a.so"
            kind = "static"
            bytes = 4096
            cost = 0.7
            shares = [0.5, 0.5]
            [[object]]
            variable = ["table"]
            module = "b.so"
            kind = "static"
            cost = 0.3
            "#,
        )
        .unwrap()
    }

    fn object(id: u64, name: &str, module: &str, cost: f64) -> Value {
        json!({
            "id": id, "name": name, "kind": "static", "module": module, "site": null, "instances": 1, "bytes": 4096,
            "pages": 1, "samples": (1000.0 * cost) as u64, "cost": { "seconds": cost, "share": cost, "error": 0.01 },
            "accesses": { "reads": 1.0, "writes": 1.0, "share": cost },
            "threads": [{ "thread": 0, "cost_share": 0.5, "access_share": 0.5 },
                        { "thread": 1, "cost_share": 0.5, "access_share": 0.5 }],
            "first_touch": [], "pattern": { "kind": "shared", "block_bytes": 0, "period_bytes": 0 }
        })
    }

    fn right() -> Value {
        json!({
            "version": 1, "run": { "command": ["none"], "wall_s": 1.0, "threads": 2, "exit": 0 },
            "sampler": { "kind": "clock", "rate_hz": 1000.0 },
            "samples": { "recorded": 1000, "attributed": 990, "unattributed": { "unknown": 10 }, "without_access": 0 },
            "losses": [], "processes": [{ "command": "none", "tracked": true }],
            "objects": [object(0, "table", "/lib/a.so", 0.7), object(1, "table", "/lib/b.so", 0.3)]
        })
    }

    fn failures(report: Value) -> Vec<String> {
        let report: Report = serde_json::from_value(report).unwrap();
        Verdict::of(&truth(), &report, Path::new("none"), "cpu 1.0 1.0").failures().to_vec()
    }

    #[test]
    fn names_without_what_tells_them_apart() {
        for name in ["main a.c:9", "main a.c:9 #2", "main a.c:9 (x.so)", "main a.c:9 (x.so #2)"] {
            assert_eq!(plain(name), "main a.c:9");
        }
        assert_eq!(plain("operator() a.cpp:9"), "operator() a.cpp:9");
    }

    #[test]
    fn the_truth_passes() {
        assert_eq!(failures(right()), Vec::<String>::new());
    }

    #[test]
    fn each_untruth_is_noticed() {
        let cases: [(&str, Value, &str); 10] = [
            ("/run/exit", json!(1), "run.exit"),
            ("/run/threads", json!(3), "threads: expected 2"),
            ("/samples/attributed", json!(900), "recorded were 1000"),
            (
                "/samples",
                json!({ "recorded": 1000, "attributed": 900, "unattributed": { "x": 100 } }),
                "attributed share",
            ),
            ("/samples", json!({ "recorded": 9, "attributed": 9, "unattributed": {} }), "9 samples"),
            ("/losses", json!([{ "kind": "ring", "count": 4, "remedy": "wait" }]), "lost: 4 x ring"),
            ("/objects/0/kind", json!("heap"), "not in the report"),
            ("/objects/0/bytes", json!(4095), "expected 4096 bytes"),
            ("/objects/0/threads/0/cost_share", json!(0.6), "thread 0's share of cost"),
            ("/objects/0/module", json!("c.so"), "table of a.so: not in the report"),
        ];
        for (place, wrong, expected) in cases {
            let mut report = right();
            *report.pointer_mut(place).expect(place) = wrong;
            let got = failures(report);
            assert!(got.iter().any(|f| f.contains(expected)), "{place}: {got:?}");
        }
        let mut swapped = right();
        swapped["objects"] = json!([object(0, "table", "b.so", 0.7), object(1, "table", "a.so", 0.3)]);
        assert!(failures(swapped).iter().any(|f| f.contains("order by cost")));
        let mut wrong = right();
        wrong["objects"].as_array_mut().unwrap().push(object(2, "decoy", "a.so", 0.01));
        let got = failures(wrong);
        assert!(got.iter().any(|f| f.contains("samples charged to static \"decoy\"")), "{got:?}");
        assert!(got.iter().any(|f| f.contains("which is never accessed")), "{got:?}");
    }
}
