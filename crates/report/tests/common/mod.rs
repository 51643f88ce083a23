//! Findings made by hand: a run of four threads on two nodes.

#![allow(dead_code, reason = "each test and example uses its part")]

use std::collections::BTreeMap;

use numamma_findings::*;

/// Pages of the first object.
pub const PAGES: u64 = 512;

/// A run in which thread 0 initialised what all threads use.
pub fn findings() -> Findings {
    let objects = objects();
    Findings {
        version: VERSION,
        run: Run {
            command: ["./stencil", "--size", "4096", "input file.dat"].map(String::from).to_vec(),
            wall_s: 12.34,
            threads: 4,
            exit: Some(0),
            nodes: 2,
            cpus: 16,
            host: "tethys".into(),
            started_unix_s: 1_700_000_000.0,
            page_bytes: 4096,
            heap_tracked: true,
        },
        sampler: Sampler {
            kind: "clock".into(),
            rate_hz: 1000.0,
            period: 1_000_000,
            overhead_estimate: 0.014,
            overhead: None,
            only: None,
            hooks: false,
            trace_windows: None,
            trace: None,
            caches: None,
            controls: Default::default(),
        },
        samples: Samples {
            recorded: 48_210,
            attributed: 48_210 - 909 - 612 - 286,
            unattributed: BTreeMap::from([
                ("no_memory_access".into(), 909),
                ("kernel_address".into(), 612),
                ("outside_known_objects".into(), 286),
            ]),
            without_access: 909,
        },
        losses: vec![Loss {
            kind: "ring_full".into(),
            count: 1_204,
            remedy: "the recorder could not keep up: lower --rate, or give the recorder a core of its own".into(),
        }],
        threads: (0..4).map(thread).collect(),
        lines: lines(),
        sites: sites(&objects),
        objects,
        processes: vec![Process { pid: 4711, parent: 1, command: "stencil".into(), tracked: true, samples: 48_210 }],
        waiting: None,
        missing: Vec::new(),
    }
}

fn objects() -> Vec<Object> {
    let grid = "Grid<double>::allocate(unsigned long) /home/ada/src/stencil/grid.hpp:57";
    let vector = "std::vector<Cell, std::allocator<Cell> >::_M_realloc_insert(Cell const&) vector.tcc:459";
    let pattern = |kind: &str, block_bytes, period_bytes, confidence| Pattern {
        kind: kind.into(),
        block_bytes,
        period_bytes,
        confidence,
        ..Pattern::default()
    };
    let mut objects = vec![
        object(0, grid, "heap", 2 << 20, 0.612, &[0.26, 0.25, 0.25, 0.24]),
        object(1, "coefficients", "static", 256 << 10, 0.187, &[0.22, 0.27, 0.25, 0.26]),
        object(2, "read_input /home/ada/src/stencil/main.cpp:112", "heap", 64 << 10, 0.081, &[1.0]),
        object(3, "ghost_cells", "static", 16 << 10, 0.06, &[0.1, 0.5, 0.3, 0.1]),
        object(4, "stack of T3", "stack", 8 << 20, 0.0312, &[0.0, 0.0, 0.0, 1.0]),
        object(5, vector, "heap", 4 << 10, 0.0005, &[0.9, 0.1]),
    ];
    objects[0].instances = 2;
    objects[0].site = Some(site("Grid<double>::allocate(unsigned long)", "/home/ada/src/stencil/grid.hpp", 57));
    objects[0].pattern = pattern("block", 512 << 10, 0, 0.98);
    objects[0].detail = Some(detail());
    objects[0].nodes = BTreeMap::from([(0, 512)]);
    objects[1].module = Some("stencil".into());
    objects[1].pattern = pattern("shared", 0, 0, 0.91);
    objects[2].site = Some(site("read_input", "/home/ada/src/stencil/main.cpp", 112));
    objects[2].pattern = pattern("private", 0, 0, 1.0);
    objects[3].pattern = pattern("block-cyclic", 4096, 16384, 0.72);
    objects[5].instances = 18_311;
    objects[5].first_touch.clear();
    objects[1].advice = Some(Advice {
        kind: "initialise-in-parallel".into(),
        text: "T0 touches its pages first (initialise main.cpp:88), but other threads use them: let each thread \
               initialise the part it uses"
            .into(),
        function: "initialise".into(),
        file: "/home/ada/src/stencil/main.cpp".into(),
        line: 88,
        share: 0.78,
        ..Advice::default()
    });
    objects
}

/// An object with these shares of the threads, initialised by thread 0.
pub fn object(id: usize, name: &str, kind: &str, bytes: u64, share: f64, threads: &[f64]) -> Object {
    let accesses = share * 47_301.0;
    let shares = threads.iter().enumerate().filter(|(_, share)| **share > 0.0);
    let mut shares: Vec<ThreadShare> = shares
        .map(|(thread, &share)| ThreadShare { thread, cost_share: share, access_share: Some(share), error: Some(0.01) })
        .collect();
    shares.sort_by(|a, b| b.cost_share.total_cmp(&a.cost_share));
    Object {
        id,
        name: name.into(),
        kind: kind.into(),
        instances: 1,
        bytes,
        pages: bytes / 4096,
        samples: accesses as u64,
        cost: Cost { seconds: share * 47.3, share, error: Some((share * (1.0 - share) / 47_301.0).sqrt() * 1.96) },
        accesses: Accesses {
            reads: accesses * 0.75,
            writes: accesses * 0.25,
            share: share * 0.95,
            error: Some(0.004),
            basis: Some(0.9),
        },
        remote: Remote {
            reads: Some(accesses * 0.375),
            writes: Some(accesses * 0.125),
            share: if kind == "stack" { 0.0 } else { 0.497 },
            error: Some(0.006),
        },
        threads: shares,
        first_touch: vec![FirstTouch {
            thread: if kind == "stack" { 3 } else { 0 },
            function: "initialise".into(),
            file: "/home/ada/src/stencil/main.cpp".into(),
            line: 88,
            via: String::new(),
            pages: bytes / 4096,
            recycled: false,
        }],
        ..Object::default()
    }
}

/// A call site with a stack.
pub fn site(function: &str, file: &str, line: u32) -> CallSite {
    let frame = format!("{function} {file}:{line}");
    let stack = vec![frame, "main /home/ada/src/stencil/main.cpp:31".into(), "libc.so.6+0x29d90".into()];
    CallSite { function: function.into(), file: file.into(), line, via: String::new(), stack }
}

/// Four blocks of pages; thread 1 also reads a part of the first.
fn detail() -> Detail {
    let owner = |page: u64| (page * 4 / PAGES) as usize;
    let page = |page: u64| {
        let mut by_thread = BTreeMap::from([(owner(page), 50.0 + (page % 7) as f64)]);
        if page < 64 {
            by_thread.insert(1, 20.0);
        }
        let samples = by_thread.values().sum::<f64>() as u64;
        Page {
            page,
            instance: None,
            node: Some(0),
            owner: Some(owner(page)),
            samples,
            cost_by_thread: by_thread.iter().map(|(&thread, &n)| (thread, n * 0.001)).collect(),
            by_thread,
            memory: None,
            first_touch_thread: Some(0),
        }
    };
    // A sweep over the blocks after an initialisation by thread 0.
    let point = |n: u64| {
        let t = n as f64 / 4000.0 * 12.3;
        let (thread, offset) = match t {
            t if t < 2.0 => (0, (t / 2.0 * (2 << 20) as f64) as u64),
            _ => ((n % 4) as usize, (n % 4) * (512 << 10) + n * 7919 % (512 << 10)),
        };
        Point { t, offset: offset.min((2 << 20) - 1), thread, write: t < 2.0 || n.is_multiple_of(3) }
    };
    Detail {
        page_bytes: 4096,
        page_basis: "offset".into(),
        pages: (0..PAGES).map(page).collect(),
        points: (0..4000).map(point).collect(),
        points_of: 28_948,
        span_bytes: 2 << 20,
        instances: Vec::new(),
        instances_of: 1,
    }
}

/// One of the threads.
pub fn thread(thread: usize) -> Thread {
    Thread {
        thread,
        tid: 4711 + thread as i32,
        pid: 4711,
        name: if thread == 0 { "stencil".into() } else { format!("worker-{thread}") },
        start_s: thread as f64 * 0.1,
        end_s: (thread > 0).then_some(12.2),
        samples: 12_052,
        cost_s: 11.8 - thread as f64 * 0.3,
        cost_error: Some(0.004),
        reads: None,
        writes: None,
        memory: None,
        cpus: (0..=thread as i32 * 3).map(|cpu| (cpu, 100)).collect(),
    }
}

fn lines() -> Vec<Line> {
    let line = |function: &str, file: &str, line, share: f64, objects: &[usize]| Line {
        function: function.into(),
        file: file.into(),
        line,
        module: "stencil".into(),
        cost: Cost { seconds: share * 47.3, share, error: Some(0.004) },
        accesses: Accesses {
            reads: share * 35_000.0,
            writes: share * 12_000.0,
            share,
            error: Some(0.004),
            basis: None,
        },
        objects: objects.to_vec(),
    };
    vec![
        line("sweep(Grid<double>&, Grid<double> const&)", "/home/ada/src/stencil/sweep.cpp", 41, 0.552, &[0, 1, 3]),
        line("sweep(Grid<double>&, Grid<double> const&)", "/home/ada/src/stencil/sweep.cpp", 43, 0.201, &[0]),
        line("initialise", "/home/ada/src/stencil/main.cpp", 88, 0.11, &[0, 1]),
        line("libc.so.6+0x18a2b0", "", 0, 0.052, &[2]),
    ]
}

fn sites(objects: &[Object]) -> Vec<Site> {
    let sampled = objects.iter().filter_map(|object| Some((object, object.site.clone()?)));
    let mut sites: Vec<Site> = sampled
        .map(|(object, site)| Site {
            kind: "heap".into(),
            site,
            count: object.instances,
            bytes: object.bytes * object.instances,
            freed: object.instances - 1,
            peak_bytes: object.bytes,
            variable: None,
            lifetime: (object.instances > 1).then_some(Lifetime { min_s: 0.25, mean_s: 1.5, max_s: 11.0 }),
            nodes: object.nodes.clone(),
            object: Some(object.id),
        })
        .collect();
    sites.push(Site {
        kind: "heap".into(),
        site: CallSite { via: "xmalloc".into(), ..site("log_line", "/home/ada/src/stencil/log.c", 9) },
        variable: Some("line".into()),
        lifetime: Some(Lifetime { min_s: 2e-6, mean_s: 2e-6, max_s: 2e-6 }),
        nodes: BTreeMap::new(),
        count: 120_000,
        bytes: 7_200_000,
        freed: 120_000,
        peak_bytes: 480,
        object: None,
    });
    sites
}
