// The JSON report as crates/findings defines it, and the columns into which it is decoded.
// Fields are only ever added to the report, so decode.ts fills in what an older or newer one lacks.

import type { PlacementPage } from "./placement.ts";

export interface Run {
  command: string[];
  wall_s: number;
  threads: number;
  exit: number | null;
  nodes: number;
  cpus: number;
  host: string;
  started_unix_s: number;
  page_bytes: number;
  heap_tracked: boolean;
}

export interface Sampler {
  kind: string;
  rate_hz: number;
  period: number;
  overhead_estimate: number;
  only: string | null;
  hooks: boolean;
  controls: Controls;
  trace_windows: TraceWindows | null;
  trace: Trace | null;
}

export interface Trace {
  most: number;
  accesses: number;
  used_up: boolean;
  after_s: number;
  for_s: number | null;
}

export interface TraceWindows {
  taken: number;
  instructions: number;
  stopped_s: number;
  assumed: boolean;
  factor: number | null;
}

export interface Controls {
  after_s: number;
  marked: boolean;
  for_s: number | null;
  in: string[];
  objects: string[];
  ranges: string[];
  left_out: number;
  thinned: number;
}

export interface Samples {
  recorded: number;
  attributed: number;
  unattributed: Record<string, number>;
  without_access: number;
}

export interface Loss {
  kind: string;
  count: number;
  remedy: string;
}

export interface CallSite {
  function: string;
  file: string;
  line: number;
  stack: string[];
}

export interface Cost {
  seconds: number;
  share: number;
  error: number | null;
}

/** What is not known well enough to be stated is null; numbers are, unless accesses were counted one by one. */
export interface Accesses {
  reads: number | null;
  writes: number | null;
  share: number | null;
  error: number | null;
  /** The part of them whose number stands on more than time; absent where that is no question. */
  basis?: number | null;
}

/** True if their number is hardly more than a guess, so that no report states it. */
export function isCostOnly(a: Accesses): boolean {
  return a.share === null || a.error === null;
}

/** Part of the accesses that is writes; `null` if that is not known. */
export function writeShare(a: Accesses): number | null {
  if (isCostOnly(a) || a.reads === null || a.writes === null) return null;
  const all = a.reads + a.writes;
  return all > 0 ? a.writes / all : null;
}

export interface Remote {
  reads: number | null;
  writes: number | null;
  share: number;
  error?: number | null;
}

export interface ThreadShare {
  thread: number;
  cost_share: number;
  /** Not known unless accesses were counted one by one. */
  access_share: number | null;
  error: number | null;
}

/** True if the accesses of an object were counted one by one: else those of its pages are weights that compare threads. */
export function isCounted(o: DataObject): boolean {
  return o.threads.some((t) => t.access_share !== null);
}

export interface FirstTouch {
  thread: number;
  function: string;
  file: string;
  line: number;
  pages: number;
  /** Touched as memory of an object that lay there before. */
  recycled: boolean;
}

export interface Pattern {
  kind: string;
  block_bytes: number;
  period_bytes: number;
  confidence: number;
  samples: number;
  /** Share that the main thread of a page has of it; 0 if that cannot be told. */
  main_share: number;
  samples_needed: number | null;
}

/** Instances of an object that threads share in one way. */
export interface InstancePattern {
  kind: string;
  instances: number;
  threads: number;
  block_bytes: number;
  share: number;
}

export interface Advice {
  kind: string;
  text: string;
  thread: number;
  function: string;
  file: string;
  line: number;
  share: number;
}

export interface Instance {
  instance: number;
  pid: number;
  bytes: number;
  first_page: number | null;
  pages: number;
  start_s: number;
  end_s: number | null;
  samples: number;
  cost_s: number;
  threads: ThreadShare[];
  first_touch: FirstTouch[];
  pattern: Pattern;
}

export interface DataObject {
  id: number;
  name: string;
  kind: string;
  module: string | null;
  site: CallSite | null;
  instances: number;
  bytes: number;
  pages: number;
  samples: number;
  cost: Cost;
  accesses: Accesses;
  remote: Remote;
  threads: ThreadShare[];
  first_touch: FirstTouch[];
  pattern: Pattern;
  instance_patterns: InstancePattern[];
  advice: Advice | null;
  nodes: Record<string, number>;
}

export interface Thread {
  thread: number;
  tid: number;
  pid: number;
  name: string;
  start_s: number;
  end_s: number | null;
  samples: number;
  cost_s: number;
  cost_error?: number | null;
  reads: number | null;
  writes: number | null;
  cpus: Record<string, number>;
}

export interface Line {
  function: string;
  file: string;
  line: number;
  module: string;
  cost: Cost;
  accesses: Accesses;
  objects: number[];
}

export interface Site {
  kind: string;
  site: CallSite;
  count: number;
  bytes: number;
  freed: number;
  peak_bytes: number;
  /** Absent in reports of older versions, as what follows. */
  variable?: string | null;
  lifetime?: { min_s: number; mean_s: number; max_s: number } | null;
  nodes?: Record<string, number>;
  object: number | null;
}

export interface Process {
  pid: number;
  parent: number;
  command: string;
  tracked: boolean;
  samples: number;
}

export interface Findings {
  version: number;
  run: Run;
  sampler: Sampler;
  samples: Samples;
  losses: Loss[];
  objects: DataObject[];
  threads: Thread[];
  lines: Line[];
  sites: Site[];
  processes: Process[];
}

/** What a page number counts; see {@link ObjectDetail.basis}. */
export type PageBasis = "offset" | "instances" | "address";

/** Accesses per page and thread: the entries of page `i` are `start[i] .. start[i + 1]`. */
export interface PageAccesses {
  /** Page numbers, ascending. */
  page: Float64Array;
  start: Uint32Array;
  thread: Int32Array;
  value: Float32Array;
}

/** The pages of an object; -1 stands for an unknown node or thread. */
export interface Pages extends PageAccesses {
  node: Int32Array;
  owner: Int32Array;
  first: Int32Array;
  samples: Float64Array;
}

/** Samples of an object, by time. */
export interface Points {
  t: Float64Array;
  offset: Float64Array;
  thread: Int32Array;
  write: Uint8Array;
}

export interface ObjectDetail {
  pageBytes: number;
  basis: PageBasis;
  spanBytes: number;
  /** How many samples `points` was drawn from. */
  pointsOf: number;
  /** Instances of an object that has several, oldest first; of many, those with most samples. */
  instances: Instance[];
  instancesOf: number;
  pages: Pages;
  points: Points;
}

/** Everything the views show. */
export interface Report {
  findings: Findings;
  details: Map<number, ObjectDetail>;
  /** Absent in older pages. */
  placement: PlacementPage | null;
}
