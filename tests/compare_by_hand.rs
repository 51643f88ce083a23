//! `numamma compare` on recordings written by hand, so that every number can be worked out on paper.
//!
//! Two threads on two nodes; pages 0 and 1 of `grid` lie on node 0, 2 to 4 on node 1:
//!
//! ```text
//!   samples of threads 0/1   grid: page 0  1     2     3     5    table: 0     1      extra     late
//!   A                              30/10   0/20  0/20  20/0       50/0   0/50    50/0
//!   B, elsewhere in memory          2/0    2/0               0/1   1/2*                    3/0
//! ```
//! Thread 0 runs on CPU 0 (node 0), thread 1 on CPU 2 (node 1), but * on CPU 1 (node 0).

use std::path::{Path, PathBuf};

use numamma_tests::Place;
use numamma_tests::comparison::{Agreement, Comparison};
use numamma_trace::{
    Access, BasisRow, CodeRow, DatasetWriter, FORMAT, FirstTouchRow, FrameRow, MarkerRow, Meta, ModuleRow, ObjectRow,
    PageNodeRow, ProcessRow, Rule, SampleRow, SamplerMeta, SiteRow, ThreadRow,
};

const PAGE: i64 = 4096;
const PERIOD: i64 = 1_000_000;
const MODULE: &str = "/opt/by-hand/bin/solver";

/// A data object of the program.
#[derive(Clone, Copy)]
struct Thing {
    kind: &'static str,
    name: &'static str,
    addr: i64,
    bytes: i64,
    /// Line and address in the module of the call that allocated it.
    call: Option<(i32, i64)>,
}

const HEAP: i64 = 0x7f00_0000_0000;
const CODE: i64 = 0x5500_0000_0000;

const fn heap(name: &'static str, at: i64, bytes: i64, line: i32, offset: i64) -> Thing {
    Thing { kind: "heap", name, addr: HEAP + at, bytes, call: Some((line, offset)) }
}

const GRID: Thing = heap("grid", 0x10, 8 * PAGE, 9, 0x500);
const EXTRA: Thing = heap("extra", 0x10_0000, PAGE, 10, 0x510);
const LATE: Thing = heap("late", 0x20_0000, PAGE, 11, 0x520);
const TABLE: Thing = Thing { kind: "static", name: "table", addr: CODE + 0x8000, bytes: 2 * PAGE, call: None };

/// `samples` of a thread on a CPU in a page of a thing.
type Hit = (Thing, i64, i32, i32, i64);

/// A recording that is to be written.
struct Made {
    hits: Vec<Hit>,
    /// Samples at no data access.
    idle: i64,
    /// How far everything is moved in memory, bytes.
    shift: i64,
    nodes: u32,
    threads: i32,
    meta: fn(&mut Meta),
}

fn a() -> Made {
    let hits = vec![
        (GRID, 0, 0, 0, 30),
        (GRID, 0, 1, 2, 10),
        (GRID, 1, 1, 2, 20),
        (GRID, 2, 1, 2, 20),
        (GRID, 3, 0, 0, 20),
        (TABLE, 0, 0, 0, 50),
        (TABLE, 1, 1, 2, 50),
        (EXTRA, 0, 0, 0, 50),
    ];
    Made { hits, idle: 50, shift: 0, nodes: 2, threads: 2, meta: |_| {} }
}

fn b() -> Made {
    let hits = vec![
        (LATE, 0, 0, 0, 3),
        (TABLE, 0, 0, 0, 1),
        (TABLE, 0, 1, 1, 2),
        (GRID, 0, 0, 0, 2),
        (GRID, 1, 0, 0, 2),
        (GRID, 5, 1, 2, 1),
    ];
    Made { hits, idle: 0, shift: 0x12_3456_7000, nodes: 2, threads: 2, meta: |_| {} }
}

impl Made {
    fn write(&self, place: &Place, name: &str) -> PathBuf {
        let dir = place.path(name);
        let writer = DatasetWriter::create(&dir, true).unwrap();
        self.write_samples(&writer);
        self.write_things(&writer);
        let threads: Vec<ThreadRow> = (0..self.threads).map(|thread| self.thread(thread)).collect();
        writer.write_table(&threads).unwrap();
        writer.write_table(&[self.process()]).unwrap();
        let node = |page: i64| PageNodeRow {
            process: 0,
            page: HEAP + self.shift + page * PAGE,
            node: i32::from(page >= 2),
            time: 1,
        };
        writer.write_table(&(0..5).map(node).collect::<Vec<_>>()).unwrap();
        writer.write_table::<FirstTouchRow>(&[]).unwrap();
        writer.write_table::<BasisRow>(&[]).unwrap();
        writer.write_table::<MarkerRow>(&[]).unwrap();
        let mut meta = Meta {
            format: FORMAT,
            complete: true,
            command: vec![MODULE.into(), "10".into()],
            host: "paper".into(),
            cpus: 4,
            cpu_nodes: if self.nodes > 1 { vec![0, 0, 1, 1] } else { vec![0; 4] },
            nodes: self.nodes,
            page_bytes: PAGE as u64,
            end: 1_000_000_000,
            exit: Some(0),
            sampler: SamplerMeta { kind: "clock".into(), period: PERIOD as u64, rate_hz: 1e3, ..Default::default() },
            ..Meta::default()
        };
        (self.meta)(&mut meta);
        writer.write_meta(&meta).unwrap();
        dir
    }

    fn write_samples(&self, writer: &DatasetWriter) {
        let idle = SampleRow { rule: Rule::None as i32, addr: 0, accesses: 0.0, ..self.sample(&GRID, 0, 0, 0, 0) };
        let mut rows: Vec<SampleRow> = (0..self.idle).map(|n| SampleRow { time: n, ..idle.clone() }).collect();
        for &(thing, page, thread, cpu, samples) in &self.hits {
            let at = rows.len() as i64;
            rows.extend((0..samples).map(|n| self.sample(&thing, page, thread, cpu, at + n)));
        }
        rows.sort_by_key(|row| (row.thread, row.time));
        writer.write_table(&rows).unwrap();
    }

    fn sample(&self, thing: &Thing, page: i64, thread: i32, cpu: i32, n: i64) -> SampleRow {
        SampleRow {
            time: 1000 + n * PERIOD,
            thread,
            cpu,
            ip: CODE + self.shift + 0x900,
            addr: thing.addr + self.shift + page * PAGE,
            bytes: 8,
            access: Access::Read as i32,
            rule: Rule::Before as i32,
            cost: PERIOD,
            accesses: 1.0,
            basis: numamma_trace::NONE,
            memory: numamma_trace::UNKNOWN,
        }
    }

    /// Objects, sites and what belongs to them, numbered as they come.
    fn write_things(&self, writer: &DatasetWriter) {
        let mut things: Vec<Thing> = Vec::new();
        for (thing, ..) in &self.hits {
            if !things.iter().any(|known| known.addr == thing.addr) {
                things.push(*thing);
            }
        }
        let (mut objects, mut sites, mut frames, mut code): (
            Vec<ObjectRow>,
            Vec<SiteRow>,
            Vec<FrameRow>,
            Vec<CodeRow>,
        ) = Default::default();
        for (number, thing) in things.iter().enumerate() {
            let mut site = -1;
            if let Some((line, offset)) = thing.call {
                let ip = CODE + self.shift + offset;
                let known = sites.iter().position(|site| site.ip == ip);
                site = known.unwrap_or(sites.len()) as i32;
                if known.is_none() {
                    sites.push(self.site(site, thing, line, ip));
                    frames.push(FrameRow { site, depth: 0, ip });
                    code.push(CodeRow {
                        process: 0,
                        ip,
                        depth: 0,
                        module: MODULE.into(),
                        module_offset: offset,
                        function: "setup".into(),
                        file: "/src/solver.c".into(),
                        line,
                    });
                }
            }
            objects.push(ObjectRow {
                object: number as i32,
                process: 0,
                kind: thing.kind.into(),
                name: if site < 0 { thing.name.into() } else { String::new() },
                site,
                thread: 0,
                addr: thing.addr + self.shift,
                bytes: thing.bytes,
                start_time: 0,
                end_time: i64::MAX,
                module: if thing.kind == "static" { MODULE.into() } else { String::new() },
                shared: -1,
                shared_offset: 0,
                moved_from: numamma_trace::NONE,
            });
        }
        writer.write_table(&objects).unwrap();
        writer.write_table(&sites).unwrap();
        writer.write_table(&frames).unwrap();
        writer.write_table(&code).unwrap();
        writer.write_table(&[self.module()]).unwrap();
    }

    fn site(&self, site: i32, thing: &Thing, line: i32, ip: i64) -> SiteRow {
        SiteRow {
            site,
            process: 0,
            kind: thing.kind.into(),
            function: "setup".into(),
            file: "/src/solver.c".into(),
            line,
            ip,
            depth: 0,
            via: String::new(),
            name: thing.name.into(),
            count: 1,
            bytes: thing.bytes,
            freed: 0,
            peak_bytes: thing.bytes,
            lifetime_min: 0,
            lifetime_max: 0,
            lifetime_total: 0,
        }
    }

    fn module(&self) -> ModuleRow {
        ModuleRow {
            process: 0,
            path: MODULE.into(),
            build_id: String::new(),
            start_addr: CODE + self.shift,
            end_addr: CODE + self.shift + 0x10_0000,
            file_offset: 0,
            executable: 1,
            map_time: 0,
            unmap_time: i64::MAX,
        }
    }

    fn thread(&self, thread: i32) -> ThreadRow {
        ThreadRow {
            thread,
            process: 0,
            pid: 100,
            tid: 100 + thread,
            name: "solver".into(),
            start_time: 0,
            end_time: i64::MAX,
            stack_low: 0,
            stack_high: 0,
            tls_low: 0,
            tls_high: 0,
            samples: 1,
        }
    }

    fn process(&self) -> ProcessRow {
        ProcessRow {
            process: 0,
            pid: 100,
            parent: 1,
            command: MODULE.into(),
            start_time: 0,
            end_time: i64::MAX,
            tracked: 1,
            samples: 1,
        }
    }
}

fn compared(a: &Made, b: &Made, options: &[&str]) -> Comparison {
    let place = Place::together();
    Comparison::of(&a.write(&place, "a.numamma"), &b.write(&place, "b.numamma"), options)
}

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-4, "{value}, expected {expected}");
}

/// Coverage and accuracy as counted by hand, weighted ones too.
#[track_caller]
fn agrees(of: &Agreement, pages: [u64; 4], weighted: [f64; 2]) {
    assert_eq!([of.reference, of.answered, of.same, of.beyond], pages);
    near(of.coverage.unwrap(), pages[1] as f64 / pages[0] as f64);
    near(of.accuracy.unwrap(), pages[2] as f64 / pages[1] as f64);
    near(of.coverage_by_accesses.unwrap(), weighted[0]);
    near(of.accuracy_by_accesses.unwrap(), weighted[1]);
}

#[test]
fn objects_are_found_wherever_they_lie() {
    let comparison = compared(&a(), &b(), &[]);
    let names: Vec<(&str, &str)> =
        comparison.objects.iter().map(|object| (object.name.as_str(), object.matched.by.as_str())).collect();
    assert_eq!(names, [("grid", "address"), ("table", "address")], "by the larger share: 5 of 11, 100 of 250");
    let alone = |of: &[numamma_tests::comparison::Unmatched]| -> Vec<(String, f64)> {
        of.iter().map(|object| (object.name.clone(), object.cost.share)).collect()
    };
    assert_eq!(alone(&comparison.only_a), [("extra".to_owned(), 0.2)]);
    assert_eq!(alone(&comparison.only_b), [("late".to_owned(), 3.0 / 11.0)]);
    near(comparison.a.matched_cost, 0.8);
    near(comparison.b.matched_cost, 8.0 / 11.0);
    assert_eq!(comparison.notes(), ["few_samples", "little_in_common", "few_samples", "little_in_common"]);
}

#[test]
fn costs_and_their_errors() {
    let comparison = compared(&a(), &b(), &[]);
    let grid = comparison.object("grid");
    near(grid.cost.seconds.a, 0.1);
    near(grid.cost.seconds.b, 0.005);
    near(grid.cost.seconds.difference.unwrap(), -0.095);
    // 100 of the 300 samples, of 0.3 s: Wilson's 0.2824 .. 0.3885, the farther end.
    near(grid.cost.seconds.a_error.unwrap(), 0.3 * 0.0552);
    assert_eq!(grid.cost.seconds.significant, None, "one run of each tells nothing about times");
    near(grid.cost.share.a, 0.4);
    near(grid.cost.share.b, 5.0 / 11.0);
    // 5 of 11: 0.2127 .. 0.7199; 100 of 250: 0.3412 .. 0.4618. The difference is 0.0545.
    near(grid.cost.share.b_error.unwrap(), 0.2654);
    near(grid.cost.share.error.unwrap(), 0.2654_f64.hypot(0.0618));
    assert_eq!(grid.cost.share.significant, None, "nor about shares of them");
    near(grid.accesses.share.difference.unwrap(), 5.0 / 11.0 - 0.4);
    near(comparison.total.cost.a, 0.25);
    near(comparison.total.cost.difference.unwrap(), 0.011 - 0.25);
}

/// Three recordings of each: the spread between them is the error, and tells which times differ.
#[test]
fn several_recordings_of_each() {
    let place = Place::together();
    let runs = |name: &str, grid: [i64; 3], table: [i64; 3]| -> Vec<PathBuf> {
        let runs = grid.iter().zip(table).enumerate();
        let run = runs.map(|(n, (&grid, table))| {
            let mut hits = vec![(GRID, 0, 0, 0, grid), (TABLE, 0, 0, 0, table)];
            // One run touches an object that the others of its side do not.
            hits.extend((n == 2).then_some((EXTRA, 0, 0, 0, 100)));
            Made { hits, ..a() }.write(&place, &format!("{name}{n}.numamma"))
        });
        run.collect()
    };
    // Of the table all runs of B take less, of the grid two; its time differs more between the runs of a side.
    let before = runs("before", [2000, 3000, 4000], [3000, 3010, 3020]);
    let after = runs("after", [1500, 4500, 2000], [2000, 2010, 2020]);
    let comparison = Comparison::of_runs(&before, &after);
    assert_eq!((comparison.more_a.len(), comparison.more_b.len()), (2, 2));
    let (grid, table) = (comparison.object("grid").cost.seconds, comparison.object("table").cost.seconds);
    near(grid.a, 3.0);
    near(table.difference.unwrap(), -1.0);
    assert_eq!((grid.significant, table.significant), (Some(false), Some(true)));
    assert_eq!(comparison.total.cost.significant, Some(false));
    // A single run on one side is judged by the spread of the other.
    let comparison = Comparison::of_runs(&before[..1], &after);
    assert_eq!(comparison.object("table").cost.seconds.significant, Some(true));
    assert!(comparison.object("grid").cost.seconds.error > Some(4.303 * 1.5), "{comparison:?}");
    let text = numamma_tests::Run::numamma().arg("compare").args(&before).arg("--").args(&after).run().success();
    assert!(text.out().contains("Changed most: table -1.00 s"), "{text}");
    assert!(
        text.out().contains("means over runs") && text.out().contains("and ") && text.out().contains("before2"),
        "{text}"
    );
    let three = numamma_tests::Run::numamma().arg("compare").args(&before).run();
    three.exits(numamma_tests::run::OWN_FAILURE).fails_clearly(&["A1 A2 A3 -- B1 B2 B3"]);
}

#[test]
fn remote_shares_and_their_errors() {
    let comparison = compared(&a(), &b(), &[]);
    let remote = comparison.object("grid").remote.expect("two nodes");
    // A: 10 of page 0, 20 of page 1 and 20 of page 3 of 100. B: none of 4; nobody knows where page 5 lies.
    near(remote.a, 0.5);
    near(remote.a_error.unwrap(), 0.0962);
    near(remote.b, 0.0);
    near(remote.b_error.unwrap(), 3.8415 / (4.0 + 3.8415));
    assert!(comparison.object("table").remote.is_none(), "its nodes are not known");
    near(comparison.total.remote.unwrap().a, 0.5);
    let single = compared(&Made { nodes: 1, ..a() }, &b(), &[]);
    assert!(single.total.remote.is_none() && !single.comparable.remote && single.pages().node.is_none());
    assert!(single.objects.iter().all(|object| object.remote.is_none()));
}

#[test]
fn owners_of_pages() {
    let comparison = compared(&a(), &b(), &[]);
    let pages = comparison.pages();
    assert_eq!(pages.reference, "a", "the fuller one");
    // Answered: pages 0 and 1 of grid, 0 of table, of 7. Same: page 0 of grid. Beyond: page 5 of grid, that of late.
    agrees(&pages.thread, [7, 3, 1, 2], [110.0 / 250.0, 40.0 / 110.0]);
    // By node also page 0 of table: another thread, on the same node.
    agrees(&pages.node.unwrap(), [7, 3, 2, 2], [110.0 / 250.0, 90.0 / 110.0]);
    agrees(&comparison.object("grid").ownership.unwrap(), [4, 2, 1, 1], [0.6, 40.0 / 60.0]);
    assert!(pages.uncompared.is_empty());

    // Measured by B, what was beyond is the reference.
    let reverse = compared(&a(), &b(), &["--reference", "b"]);
    assert_eq!(reverse.pages().reference, "b");
    agrees(&reverse.pages().thread, [5, 3, 1, 4], [7.0 / 11.0, 2.0 / 7.0]);
    // The fuller one is the reference in whichever place it stands.
    let swapped = compared(&b(), &a(), &[]);
    assert_eq!(swapped.pages().reference, "b");
    agrees(&swapped.pages().thread, [7, 3, 1, 2], [110.0 / 250.0, 40.0 / 110.0]);
}

#[test]
fn a_recording_and_its_copy() {
    let comparison = compared(&a(), &Made { shift: 0x7000, ..a() }, &[]);
    assert!(comparison.only_a.is_empty() && comparison.only_b.is_empty(), "{comparison:?}");
    for object in &comparison.objects {
        for change in [Some(object.cost.seconds), Some(object.cost.share), Some(object.accesses.share), object.remote] {
            let Some(change) = change else { continue };
            assert!(change.difference == Some(0.0) && change.significant != Some(true), "{change:?}");
        }
    }
    agrees(&comparison.pages().thread, [7, 7, 7, 0], [1.0, 1.0]);
    agrees(&comparison.pages().node.unwrap(), [7, 7, 7, 0], [1.0, 1.0]);
    assert_eq!(comparison.notes(), ["few_samples", "few_samples"]);
}

/// Calls move in another build, lines in another source.
#[test]
fn another_build_and_another_source() {
    let moved = |line, offset| {
        let mut made = a();
        let grid = Thing { call: Some((line, offset)), ..GRID };
        made.hits.iter_mut().filter(|hit| hit.0.addr == GRID.addr).for_each(|hit| hit.0 = grid);
        made
    };
    for (other, by) in [(moved(9, 0x620), "line"), (moved(14, 0x620), "name")] {
        let comparison = compared(&a(), &other, &[]);
        assert_eq!(comparison.object("grid").matched.by, by);
        assert_eq!(comparison.object("extra").matched.by, "address");
        assert!(comparison.notes().contains(&"rebuilt"), "{:?}", comparison.notes);
        agrees(&comparison.pages().thread, [7, 7, 7, 0], [1.0, 1.0]);
    }
}

/// What shares a page with what is up to the allocator; a stack is its thread's.
#[test]
fn objects_whose_pages_are_not_compared() {
    let small = |n: i64| heap("cell", 0x30_0000 + n * 0x40, 0x40, 30, 0x530);
    let stack = Thing { kind: "stack", name: "", addr: HEAP + 0x4000_0000, bytes: 2 * PAGE, call: None };
    let mut made = a();
    made.hits.extend([(small(0), 0, 0, 0, 5), (small(1), 0, 1, 2, 5), (stack, 1, 0, 0, 5)]);
    let comparison = compared(&made, &made, &[]);
    let reasons: Vec<(&str, u64)> =
        comparison.pages().uncompared.iter().map(|part| (part.reason.as_str(), part.objects)).collect();
    assert_eq!(reasons, [("small_instances", 1), ("of_a_thread", 1)]);
    assert_eq!(comparison.pages().thread.reference, 7);
    assert!(comparison.object("cell").ownership.is_none());
}

/// An exact recording has accesses and no time, and knows most.
#[test]
fn an_exact_recording() {
    let exact = Made { meta: |meta| meta.sampler.kind = "exact".into(), ..b() };
    let comparison = compared(&a(), &exact, &[]);
    assert!(!comparison.comparable.cost && comparison.comparable.accesses && !comparison.comparable.counts);
    let grid = comparison.object("grid");
    assert!(grid.cost.seconds.difference.is_none() && grid.cost.share.significant.is_none());
    near(grid.accesses.share.difference.unwrap(), 5.0 / 11.0 - 0.4);
    assert_eq!(
        (grid.accesses.share.b_error, grid.remote.unwrap().b_error),
        (Some(0.0), Some(0.0)),
        "nothing was sampled"
    );
    assert_eq!(comparison.pages().reference, "b");
    assert!(comparison.notes().contains(&"different_samplers"));
    assert!(comparison.total.cost.difference.is_none());
}

/// Estimated accesses of which none stands on a basis: JSON has them and what they stand on, text does not state them.
#[test]
fn counts_without_basis_are_not_stated() {
    let estimated = Made { meta: |meta| meta.sampler.counted = Some(0.0), ..b() };
    let place = Place::together();
    let (a, b) = (a().write(&place, "a.numamma"), estimated.write(&place, "b.numamma"));
    let grid = Comparison::of(&a, &b, &[]).object("grid").accesses.clone();
    assert_eq!((grid.basis.a, grid.basis.b), (None, Some(0.0)));
    near(grid.share.difference.unwrap(), 5.0 / 11.0 - 0.4);
    assert!(grid.share.b_error.is_some() && grid.share.significant.is_none(), "{grid:?}");
    let run = numamma_tests::Run::compare(&a, &b).env("COLUMNS", "200").env("LC_ALL", "C.UTF-8");
    let text = run.run().success().out();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for row in ["ms cost only cost only 50.0 % 0.0 %", "late heap 27.3 % ±29.3 3.00 ms cost only"] {
        assert!(words.contains(row), "no {row:?} in\n{text}");
    }
}

#[test]
fn what_differs_is_said() {
    let notes = |meta: fn(&mut Meta), threads: i32| {
        let comparison = compared(&a(), &Made { meta, threads, ..a() }, &[]);
        let kinds = comparison.notes().into_iter().filter(|kind| *kind != "few_samples");
        (kinds.map(str::to_owned).collect::<Vec<String>>(), comparison)
    };
    assert_eq!(notes(|meta| meta.command[0] = "/bin/other".into(), 2).0, ["different_programs"]);
    assert_eq!(notes(|meta| meta.command[1] = "11".into(), 2).0, ["different_arguments"]);
    assert_eq!(notes(|_| {}, 4).0, ["different_threads"]);
    assert_eq!(notes(|meta| meta.heap_tracked = Some(false), 2).0, ["different_tracking"]);
    assert_eq!(notes(|meta| meta.host = "stone".into(), 2).0, ["different_machines"]);
    assert_eq!(notes(|meta| meta.exit = Some(1), 2).0, ["different_exit"]);
    let (kinds, comparison) = notes(|meta| meta.sampler.only = Some("read".into()), 2);
    assert_eq!(kinds, ["different_accesses"]);
    assert!(!comparison.comparable.cost && !comparison.comparable.accesses);
    let (kinds, comparison) = notes(|meta| meta.page_bytes = 65536, 2);
    assert_eq!(kinds, ["different_pages"]);
    assert!(comparison.ownership.is_none() && comparison.objects.iter().all(|object| object.ownership.is_none()));
    // Tables that a recorder had merged when it was killed are whole, but nobody said so.
    assert_eq!(notes(|meta| meta.complete = false, 2).0, ["incomplete"]);
}

#[test]
fn a_recording_without_samples() {
    let empty = Made { hits: Vec::new(), idle: 0, ..a() };
    let comparison = compared(&a(), &empty, &[]);
    assert!(comparison.notes().contains(&"no_samples"), "{:?}", comparison.notes);
    assert_eq!((comparison.objects.len(), comparison.only_a.len()), (0, 3));
    assert_eq!((comparison.pages().thread.coverage, comparison.pages().thread.accuracy), (Some(0.0), None));
    let neither = compared(&empty, &empty, &[]);
    assert_eq!(neither.pages().thread.coverage, None);
    let text = |a: &Path, b: &Path| numamma_tests::Run::compare(a, b).run().success().out();
    let place = Place::together();
    let dir = empty.write(&place, "empty.numamma");
    assert!(text(&dir, &dir).contains("No object of one was found in the other."));
}

/// What a customer sees: every column that there is, in a terminal that is wide enough.
#[test]
fn the_text_of_all_of_it() {
    let place = Place::together();
    let (a, b) = (a().write(&place, "a.numamma"), b().write(&place, "b.numamma"));
    let text = |columns: &str| {
        let run = numamma_tests::Run::compare(&a, &b).env("COLUMNS", columns).env("LC_ALL", "C.UTF-8");
        run.run().success().out().replace(place.dir().to_str().unwrap(), "")
    };
    let wide = text("200");
    // Without the columns' spaces.
    let words = wide.split_whitespace().collect::<Vec<_>>().join(" ");
    for row in [
        "time at data accesses 250 ms ±13.9 ms 11.0 ms ±2.85 ms -239 ms ±14.2 ms wall time",
        "remote accesses 50.0 % ±9.6 0.0 % ±49.0 -50.0 ±49.9 *",
        "0 grid in setup solver.c:9 40.0 % 45.5 % +5.5 ±27.2 100 ms 5.00 ms -95.0 ms ±16.8 ms \
         cost only cost only 50.0 % 0.0 % -50.0 ±49.9 * 4 50.0 % 50.0 % 1 table",
        "2 extra heap 20.0 % ±5.4 50.0 ms cost only in setup solver.c:10 In B alone",
        "thread 7 3 42.9 % 44.0 % 33.3 % ±45.9 36.4 % 2 node 7 3 42.9 % 44.0 % 66.7 % ±45.9 81.8 % 2",
        "A has only 250 samples at data accesses",
    ] {
        assert!(words.contains(row), "no {row:?} in\n{wide}");
    }
    let narrow = text("80");
    let longest = narrow.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{longest:?}:\n{narrow}");
    assert!(narrow.contains("accesses cost only, cost only"), "what has no room stands below: {narrow}");
}
