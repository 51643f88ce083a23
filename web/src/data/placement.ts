// The section about placement as crates/findings defines it (placement_page.rs, placement.rs, prediction.rs).
// test/placement.json holds every field; the tests of both sides read it.

export interface Prediction {
  name: string;
  threads: string;
  time_s: number;
  low_s: number;
  high_s: number;
  remote_share: number;
  imbalance: number;
  nodes: { node: number; share: number; waiting_cpus: number; gb_s: number }[];
  links: { from: number; to: number; share: number; gb_s: number }[];
  uncertainty: { cause: string; below_s: number; above_s: number }[];
}

export interface Predictions {
  version: number;
  machine: string;
  threads: number;
  /** Times hold accesses to memory alone: only ratios mean something. */
  memory_only: boolean;
  measured_s: number | null;
  candidates: Prediction[];
  assumptions: string[];
}

export interface ObjectAdvice {
  id: number;
  name: string;
  verdict: string;
  diagnosis: string;
  /** Empty if the plan does not place it. */
  policy: string;
  memory_share: number;
  /** Half-width of its 95 % interval; null where all is counted. */
  memory_error: number | null;
  samples: number;
  local_now: number;
  local_by_owner: number;
  local_interleaved: number;
  confidence: number;
  alternatives: string[];
  candidates: { policy: string; time_s: number; local_share: number }[];
  line: { function: string; file: string; line: number; change: string } | null;
}

export interface Plan {
  version: number;
  machine: string;
  toml: string;
  objects: ObjectAdvice[];
  now: Prediction;
  planned: Prediction;
  memory_only: boolean;
  /** Part of the threads' CPU time that loads waited for memory; null where times are not known. */
  waiting_share: number | null;
  /** What is to be known first. */
  notes: string[];
  assumptions: string[];
}

export interface MachinePicture {
  name: string;
  source: string;
  /** CPUs of each node; 0: memory only. */
  cpus: number[];
  /** Row: node of the CPU, empty without CPUs; column: node of the memory. */
  latency_ns: number[][];
  /** Empty if it is not known. */
  bandwidth_gbs: number[][];
  contention: { cpus: number; latency_ns: number }[];
}

export interface ThreadNodes {
  thread: number;
  now: number;
  planned: number;
}

/** Nodes and how many pages of a bin lie there; pages that nobody used are not counted. */
export type Bin = [node: number, pages: number][];

export interface PageNodes {
  id: number;
  page_bytes: number;
  /** Those included that nobody used. */
  pages: number;
  /** Pages of each bin but the last, which may have fewer. */
  bin_pages: number;
  now: Bin[];
  planned: Bin[];
}

export interface PlacementAdvice {
  plan: Plan;
  predictions: Predictions;
  machine: MachinePicture;
  map: { threads: ThreadNodes[]; objects: PageNodes[] };
  commands: { plan: string; apply: string; compare: string; explain: string };
}

export interface PlacementPage {
  version: number;
  /** Why there is no advice. */
  missing: string | null;
  advice: PlacementAdvice | null;
}
