// Reports as the analysis would make them, with a known content: samples are drawn from a model of each object, and every
// number of the report is counted from them.

import { NO_PATTERN } from "../src/data/decode.ts";
import type { Accesses, DataObject, FirstTouch, Pattern, Site, Thread } from "../src/data/types.ts";

const PAGE = 4096;

/** A small generator of its own: the same fixture on every machine. */
export function random(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

interface Sample {
  t: number;
  offset: number;
  thread: number;
  write: boolean;
}

interface Model {
  name: string;
  kind: string;
  bytes: number;
  samples: number;
  /** Where a sample lies, given a number in 0..1 for time. */
  draw: (u: number, threads: number, rnd: () => number) => { offset: number; thread: number; write: boolean };
  first: (page: number, pages: number, threads: number) => number;
  pattern: Pattern;
  touched: { function: string; file: string; line: number };
  stack?: string[];
  instances?: number;
  basis?: string;
  module?: string;
}

export interface Options {
  threads: number;
  nodes: number;
  wall: number;
  models: Model[];
  maxPoints?: number;
  losses?: { kind: string; count: number; remedy: string }[];
  command: string[];
  seed?: number;
}

const nodeOf = (thread: number, threads: number, nodes: number) => Math.floor((thread * nodes) / threads);

export interface PlainObject extends DataObject {
  detail: {
    page_bytes: number;
    page_basis: string;
    points_of: number;
    span_bytes: number;
    pages: {
      page: number;
      node: number | null;
      owner: number | null;
      samples: number;
      by_thread: Record<string, number>;
      first_touch_thread: number | null;
    }[];
    points: { t: number; offset: number; thread: number; write: boolean }[];
  };
}

/** The call site that `function file:line` names. */
function siteOf(name: string, stack: string[]): DataObject["site"] {
  const place = name.lastIndexOf(" ");
  const [file, line] = name.slice(place + 1).split(":");
  return { function: name.slice(0, place), file: `/home/user/${file}`, line: Number(line), stack };
}

function objectOf(m: Model, id: number, o: Options, all: number, rnd: () => number): PlainObject {
  const samples: Sample[] = [];
  for (let i = 0; i < m.samples; i++) {
    const u = rnd();
    samples.push({ t: o.wall * (0.04 + 0.95 * u), ...m.draw(u, o.threads, rnd) });
  }
  const pageCount = Math.max(1, Math.ceil(m.bytes / PAGE));
  const byPage = new Map<number, Map<number, number>>();
  for (const s of samples) {
    const page = Math.floor(s.offset / PAGE);
    const counts = byPage.get(page) ?? new Map<number, number>();
    counts.set(s.thread, (counts.get(s.thread) ?? 0) + 1);
    byPage.set(page, counts);
  }
  const touches = new Map<number, number>();
  let [reads, writes, remoteReads, remoteWrites] = [0, 0, 0, 0];
  const pages = Array.from({ length: pageCount }, (_, page) => {
    const counts = [...(byPage.get(page) ?? [])].sort((a, b) => b[1] - a[1]);
    const first = m.first(page, pageCount, o.threads);
    if (first >= 0) touches.set(first, (touches.get(first) ?? 0) + 1);
    return {
      page,
      node: first < 0 ? null : nodeOf(first, o.threads, o.nodes),
      owner: counts.length ? counts[0][0] : null,
      samples: counts.reduce((sum, c) => sum + c[1], 0),
      by_thread: Object.fromEntries(counts.map(([t, n]) => [String(t), n])),
      first_touch_thread: first < 0 ? null : first,
    };
  });
  const byThread = new Map<number, number>();
  for (const s of samples) {
    byThread.set(s.thread, (byThread.get(s.thread) ?? 0) + 1);
    const remote = pages[Math.floor(s.offset / PAGE)].node !== nodeOf(s.thread, o.threads, o.nodes);
    if (s.write) writes++;
    else reads++;
    if (remote && s.write) remoteWrites++;
    else if (remote) remoteReads++;
  }
  const share = all > 0 ? m.samples / all : 0;
  const error = 1.96 * Math.sqrt((share * (1 - share)) / all);
  const most = o.maxPoints ?? 20000;
  const step = Math.max(1, samples.length / most);
  const points = Array.from({ length: Math.min(most, samples.length) }, (_, i) => samples[Math.floor(i * step)]);
  const nodes: Record<string, number> = {};
  for (const p of pages) if (p.node !== null) nodes[p.node] = (nodes[p.node] ?? 0) + 1;
  const first_touch: FirstTouch[] = [...touches]
    .sort((a, b) => b[1] - a[1])
    .map(([thread, n]) => ({ thread, ...m.touched, pages: n, recycled: false }));
  return {
    id,
    name: m.name,
    kind: m.kind,
    module: m.module ?? null,
    site: m.stack ? siteOf(m.name, m.stack) : null,
    instances: m.instances ?? 1,
    bytes: m.bytes,
    pages: pageCount,
    samples: m.samples,
    cost: { seconds: o.wall * o.threads * 0.8 * share, share, error },
    accesses: { reads, writes, share, error },
    remote: { reads: remoteReads, writes: remoteWrites, share: (remoteReads + remoteWrites) / Math.max(1, samples.length) },
    threads: [...byThread]
      .sort((a, b) => b[1] - a[1])
      .map(([thread, n]) => ({ thread, cost_share: n / samples.length, access_share: n / samples.length, error: 0.004 })),
    first_touch,
    pattern: m.pattern,
    instance_patterns: [],
    advice: null,
    nodes,
    detail: {
      page_bytes: PAGE,
      page_basis: m.basis ?? "offset",
      pages,
      points,
      points_of: samples.length,
      span_bytes: m.bytes,
    },
  };
}

/** A whole report in the plain JSON form, `detail` inside its objects. */
export function findings(o: Options) {
  const rnd = random(o.seed ?? 7);
  const all = o.models.reduce((sum, m) => sum + m.samples, 0);
  const objects = [...o.models].sort((a, b) => b.samples - a.samples).map((m, id) => objectOf(m, id, o, all, rnd));
  const perThread = new Map<number, number>();
  for (const object of objects) {
    for (const t of object.threads) perThread.set(t.thread, (perThread.get(t.thread) ?? 0) + t.cost_share * object.samples);
  }
  const threads: Thread[] = Array.from({ length: o.threads }, (_, thread) => {
    const samples = Math.round(perThread.get(thread) ?? 0);
    return {
      thread,
      tid: 48210 + thread,
      pid: 48210,
      name: o.command[0].split("/").pop() ?? "main",
      start_s: thread === 0 ? 0 : o.wall * 0.03,
      end_s: o.wall,
      samples,
      cost_s: all > 0 ? (o.wall * o.threads * 0.8 * samples) / all : 0,
      reads: samples * 0.7,
      writes: samples * 0.3,
      cpus: { [thread % 64]: samples },
    };
  });
  const recorded = Math.round(all * 1.09);
  const without = Math.round(all * 0.075);
  const sites: Site[] = objects
    .filter((x) => x.site)
    .map((x) => ({
      kind: x.kind,
      site: x.site as NonNullable<typeof x.site>,
      count: x.instances,
      bytes: x.bytes * x.instances,
      freed: x.instances - (x.instances > 1 ? 0 : 1),
      peak_bytes: x.bytes * Math.ceil(x.instances / 3),
      variable: x.name,
      lifetime: x.instances > 1 ? { min_s: 0.25, mean_s: 1.5, max_s: 11 } : null,
      object: x.id,
    }));
  sites.push({
    kind: "heap",
    site: { function: "main", file: "src/args.c", line: 12, stack: ["main src/args.c:12", "_start triad+0x1060"] },
    count: 3,
    bytes: 712,
    freed: 0,
    peak_bytes: 712,
    object: null,
  });
  const times = (n: number | null, k: number): number | null => (n === null ? null : n * k);
  const half = (a: Accesses, k: number): Accesses => ({ ...a, reads: times(a.reads, k), writes: times(a.writes, k), share: times(a.share, k) });
  return {
    version: 1,
    run: {
      command: o.command,
      wall_s: o.wall,
      threads: o.threads,
      exit: 0,
      nodes: o.nodes,
      cpus: 64,
      host: "node17",
      started_unix_s: 1760000000,
      page_bytes: PAGE,
      heap_tracked: true,
    },
    sampler: { kind: "clock", rate_hz: 1000, period: 1000000, overhead_estimate: 0.0174, only: null,
      controls: { after_s: 0, for_s: null, marked: false, in: [], objects: [], ranges: [], left_out: 0, thinned: 1 } },
    samples: {
      recorded,
      attributed: all,
      unattributed: {
        no_memory_access: without,
        stack_of_unknown_thread: Math.round((recorded - all - without) * 0.7),
        unmapped: recorded - all - without - Math.round((recorded - all - without) * 0.7),
      },
      without_access: without,
    },
    losses: o.losses ?? [],
    objects,
    threads,
    lines: objects.flatMap((x) =>
      [0, 1].map((k) => ({
        function: x.first_touch[0]?.function.replace("init", "kernel") ?? "main._omp_fn.0",
        file: "src/triad.c",
        line: 40 + 3 * x.id + k,
        module: "triad",
        cost: { ...x.cost, share: x.cost.share * (k ? 0.35 : 0.65), seconds: x.cost.seconds * (k ? 0.35 : 0.65) },
        accesses: half(x.accesses, k ? 0.35 : 0.65),
        objects: k ? [x.id, (x.id + 1) % objects.length] : [x.id],
      })),
    ),
    sites,
    processes: [{ pid: 48210, parent: 48201, command: o.command[0], tracked: true, samples: recorded }],
  };
}

const clampTo = (bytes: number, v: number) => Math.min(bytes - 8, Math.max(0, Math.floor(v / 8) * 8));

/** Each thread sweeps its own contiguous part, `sweeps` times. */
export function inBlocks(bytes: number, sweeps: number, writes: number): Model["draw"] {
  return (u, threads, rnd) => {
    const thread = Math.floor(rnd() * threads);
    const place = (u * sweeps) % 1;
    const offset = ((thread + place) / threads) * bytes + (rnd() - 0.5) * 2 * PAGE;
    const lo = (thread / threads) * bytes;
    const hi = ((thread + 1) / threads) * bytes - 8;
    return { thread, offset: clampTo(bytes, Math.min(hi, Math.max(lo, offset))), write: rnd() < writes };
  };
}

/** Blocks of `block` bytes go round the threads. */
export function cyclic(bytes: number, block: number): Model["draw"] {
  return (_, threads, rnd) => {
    const offset = clampTo(bytes, rnd() * bytes);
    return { thread: Math.floor(offset / block) % threads, offset, write: rnd() < 0.4 };
  };
}

/** Everybody reads everywhere, a tenth of it most often. */
export function gather(bytes: number): Model["draw"] {
  return (_, threads, rnd) => {
    const hot = rnd() < 0.4;
    return { thread: Math.floor(rnd() * threads), offset: clampTo(bytes, (hot ? 0.42 + rnd() * 0.1 : rnd()) * bytes), write: false };
  };
}

const MIB = 1024 * 1024;
const block = (page: number, pages: number, threads: number) => Math.floor((page * threads) / pages);
const serial = () => 0;
const stackOf = (name: string) => [name, "main src/triad.c:88", "__libc_start_call_main libc.so.6+0x2724a", "_start triad+0x1081"];

/** Four threads, seven objects: the report that the README could show. */
export function typical() {
  const p = (kind: string, block_bytes = 0, period_bytes = 0, confidence = 0.99): Pattern => ({ ...NO_PATTERN, kind, block_bytes, period_bytes, confidence });
  const init = { function: "init._omp_fn.0", file: "/home/user/src/triad.c", line: 52 };
  const alone = { function: "read_input", file: "/home/user/src/triad.c", line: 71 };
  return findings({
    threads: 4,
    nodes: 2,
    wall: 6.42,
    command: ["./triad", "--size", "32M", "--iterations", "20"],
    maxPoints: 8000,
    losses: [],
    models: [
      { name: "b", kind: "static", module: "triad", bytes: 16 * MIB, samples: 19000, draw: inBlocks(16 * MIB, 10, 0), first: block, pattern: p("block", 4 * MIB), touched: init },
      { name: "c", kind: "static", module: "triad", bytes: 16 * MIB, samples: 18400, draw: inBlocks(16 * MIB, 10, 0), first: serial, pattern: p("block", 4 * MIB, 0, 0.98), touched: alone },
      { name: "a", kind: "static", module: "triad", bytes: 16 * MIB, samples: 21000, draw: inBlocks(16 * MIB, 10, 0.97), first: block, pattern: p("block", 4 * MIB), touched: init },
      { name: "make_table src/table.c:31", kind: "heap", stack: stackOf("make_table src/table.c:31"), bytes: 6 * MIB, samples: 9000, draw: gather(6 * MIB), first: serial, pattern: p("shared", 0, 0, 0.94), touched: { ...alone, function: "make_table", line: 33 } },
      { name: "tiles_alloc src/tiles.c:17", kind: "heap", stack: stackOf("tiles_alloc src/tiles.c:17"), bytes: 4 * MIB, samples: 5200, draw: cyclic(4 * MIB, 64 * PAGE), first: (page, _n, threads) => Math.floor(page / 64) % threads, pattern: p("block-cyclic", 64 * PAGE, 256 * PAGE, 0.995), touched: { ...init, function: "tiles_init._omp_fn.1", line: 104 } },
      { name: "std::unordered_map<int, Cell>::operator[] src/cells.cpp:48", kind: "heap", stack: stackOf("std::unordered_map<int, Cell>::operator[] src/cells.cpp:48"), instances: 18234, basis: "address", bytes: 700 * 1024, samples: 1400, draw: gather(700 * 1024), first: (page) => (page % 9 === 0 ? -1 : page % 4), pattern: p("mixed", 0, 0, 0.41), touched: { ...init, function: "insert", line: 140 } },
      { name: "progress", kind: "static", module: "triad", bytes: 64, samples: 40, draw: (_u, threads, rnd) => ({ thread: Math.floor(rnd() * threads), offset: 8 * Math.floor(rnd() * 8), write: rnd() < 0.5 }), first: () => -1, pattern: p("unknown", 0, 0, 0), touched: init },
    ],
  });
}

/** 128 threads, 10,000 pages, 100,000 points, losses: the size that a redraw must bear in 100 ms. */
export function large() {
  const bytes = 10000 * PAGE;
  const init = { function: "setup", file: "/home/user/solver/field.f90", line: 310 };
  const p = (kind: string, block_bytes = 0, period_bytes = 0): Pattern => ({ ...NO_PATTERN, kind, block_bytes, period_bytes, confidence: 0.97 });
  return findings({
    threads: 128,
    nodes: 8,
    wall: 61.5,
    command: ["/opt/solver/bin/solver", "case.nml"],
    maxPoints: 100000,
    losses: [
      { kind: "lost_samples", count: 1204, remedy: "The rings overflowed: lower --rate, or give the recorder a CPU of its own." },
      { kind: "unwind_truncated", count: 37, remedy: "Build with -fno-omit-frame-pointer to see whole call stacks." },
    ],
    models: [
      { name: "field (common block /state/)", kind: "static", module: "solver", bytes, samples: 400000, draw: inBlocks(bytes, 6, 0.4), first: block, pattern: p("block", 78 * PAGE), touched: init },
      { name: "halo_exchange comm.f90:77", kind: "heap", stack: stackOf("halo_exchange comm.f90:77"), bytes: bytes / 2, samples: 150000, draw: cyclic(bytes / 2, 4 * PAGE), first: serial, pattern: p("block-cyclic", 4 * PAGE, 512 * PAGE), touched: init },
      { name: "lookup table.f90:12", kind: "heap", stack: stackOf("lookup table.f90:12"), bytes: bytes / 4, samples: 60000, draw: gather(bytes / 4), first: serial, pattern: p("shared"), touched: init },
    ],
  });
}

/** Nothing was sampled. */
export function empty() {
  return { ...findings({ threads: 1, nodes: 1, wall: 0.002, command: ["true"], models: [] }), lines: [], sites: [] };
}
