// From the text in the page to columns. Two forms are read: the packed one that crates/report/src/html.rs writes (columns,
// `PackedDetail`), and the plain JSON report with `detail` inside its objects.

import type { DataObject, Findings, Instance, ObjectDetail, PageBasis, Pages, Pattern, Points, Report } from "./types.ts";
import type { PlacementPage } from "./placement.ts";

/** Columns of one object's detail; html.rs has the same layout, and test/packed.json is checked by the tests of both. */
export interface PackedDetail {
  page_bytes: number;
  page_basis: string;
  points_of: number;
  span_bytes: number;
  /** Absent in older reports. */
  instances?: Instance[];
  instances_of?: number;
  pages: {
    /** Difference from the page before. */
    page: number[];
    /** -1: unknown. */
    node: number[];
    owner: number[];
    first: number[];
    samples: number[];
    /** Entries of each page in `thread` and `value`. */
    entries: number[];
    thread: number[];
    value: number[];
  };
  points: {
    /** Microseconds since the point before; the first: since the start of the recording. */
    t_us: number[];
    offset: number[];
    thread: number[];
    /** One character per point: `1` is a write. */
    write: string;
  };
}

interface PlainDetail {
  page_bytes: number;
  page_basis: string;
  points_of: number;
  span_bytes: number;
  instances?: Instance[];
  instances_of?: number;
  pages: {
    page: number;
    node: number | null;
    owner: number | null;
    samples: number;
    by_thread: Record<string, number>;
    first_touch_thread: number | null;
  }[];
  points: { t: number; offset: number; thread: number; write: boolean }[];
}

/** Reads the data of the page; `encoding` is the attribute of its script element. */
export async function decodeText(text: string, encoding: string): Promise<Report> {
  const json = encoding === "gzip" ? await gunzip(fromBase64(text)) : text;
  return decode(JSON.parse(json));
}

/** Turns either form into a report. Throws with a sentence for the reader when it is neither. */
export function decode(value: unknown): Report {
  const root = value as { findings?: Findings; details?: Record<string, PackedDetail>; placement?: PlacementPage };
  const findings = (root?.findings ?? root) as Findings & { objects?: unknown };
  if (!findings || !Array.isArray(findings.objects)) throw new Error("The data in this page is not a NumaMMA report.");
  if (findings.version !== 1) {
    throw new Error(`This page was made for version 1 of the report; its data has version ${findings.version}.`);
  }
  const details = new Map<number, ObjectDetail>();
  for (const [id, packed] of Object.entries(root.details ?? {})) details.set(Number(id), unpack(packed));
  for (const object of findings.objects as (DataObject & { detail?: PlainDetail | null })[]) {
    if (object.detail) details.set(object.id, columns(object.detail));
    delete object.detail;
  }
  return { findings: complete(findings), details, placement: placementOf(root.placement) };
}

/** A section of another version is not shown, and the page says so. */
function placementOf(page: PlacementPage | undefined): PlacementPage | null {
  if (!page || page.version === 1) return page ?? null;
  return { version: 1, missing: `this page shows version 1 of plans; its data has version ${page.version}`, advice: null };
}

export const NO_PATTERN: Pattern = {
  kind: "unknown",
  block_bytes: 0,
  period_bytes: 0,
  confidence: 0,
  samples: 0,
  main_share: 0,
  samples_needed: null,
};

/** Fills in what may be absent. */
function complete(f: Findings): Findings {
  f.run.heap_tracked ??= true;
  f.sampler.only ??= null;
  f.sampler.controls ??= { after_s: 0, for_s: null, marked: false, in: [], objects: [], ranges: [], left_out: 0, thinned: 1 };
  f.losses ??= [];
  f.threads ??= [];
  f.lines ??= [];
  f.sites ??= [];
  f.processes ??= [];
  f.samples.unattributed ??= {};
  for (const o of f.objects) {
    o.threads ??= [];
    o.first_touch ??= [];
    o.nodes ??= {};
    o.pattern = { ...NO_PATTERN, ...o.pattern };
    o.instance_patterns ??= [];
    o.advice ??= null;
  }
  return f;
}

function basisOf(text: string): PageBasis {
  return text === "address" || text === "instances" ? text : "offset";
}

function prefixSums(counts: number[]): Uint32Array {
  const start = new Uint32Array(counts.length + 1);
  for (let i = 0; i < counts.length; i++) start[i + 1] = start[i] + counts[i];
  return start;
}

function running(deltas: number[], unit: number): Float64Array {
  const out = new Float64Array(deltas.length);
  let sum = 0;
  for (let i = 0; i < deltas.length; i++) {
    sum += deltas[i];
    out[i] = sum * unit;
  }
  return out;
}

function unpack(d: PackedDetail): ObjectDetail {
  const pages: Pages = {
    page: running(d.pages.page, 1),
    start: prefixSums(d.pages.entries),
    thread: Int32Array.from(d.pages.thread),
    value: Float32Array.from(d.pages.value),
    node: Int32Array.from(d.pages.node),
    owner: Int32Array.from(d.pages.owner),
    first: Int32Array.from(d.pages.first),
    samples: Float64Array.from(d.pages.samples),
  };
  const n = d.points.t_us.length;
  const points: Points = {
    t: running(d.points.t_us, 1e-6),
    offset: Float64Array.from(d.points.offset),
    thread: Int32Array.from(d.points.thread),
    write: new Uint8Array(n),
  };
  for (let i = 0; i < n; i++) points.write[i] = d.points.write.charCodeAt(i) === 49 ? 1 : 0;
  return finish(d, pages, points);
}

function columns(d: PlainDetail): ObjectDetail {
  const rows = [...d.pages].sort((a, b) => a.page - b.page);
  const entries = rows.map((p) => Object.entries(p.by_thread));
  const flat = entries.flat();
  const pages: Pages = {
    page: Float64Array.from(rows, (p) => p.page),
    start: prefixSums(entries.map((e) => e.length)),
    thread: Int32Array.from(flat, (e) => Number(e[0])),
    value: Float32Array.from(flat, (e) => e[1]),
    node: Int32Array.from(rows, (p) => p.node ?? -1),
    owner: Int32Array.from(rows, (p) => p.owner ?? -1),
    first: Int32Array.from(rows, (p) => p.first_touch_thread ?? -1),
    samples: Float64Array.from(rows, (p) => p.samples),
  };
  const sorted = [...d.points].sort((a, b) => a.t - b.t);
  const points: Points = {
    t: Float64Array.from(sorted, (p) => p.t),
    offset: Float64Array.from(sorted, (p) => p.offset),
    thread: Int32Array.from(sorted, (p) => p.thread),
    write: Uint8Array.from(sorted, (p) => (p.write ? 1 : 0)),
  };
  return finish(d, pages, points);
}

function finish(d: PackedDetail | PlainDetail, pages: Pages, points: Points): ObjectDetail {
  const lastPage = pages.page.length ? pages.page[pages.page.length - 1] : 0;
  // Without a stated span, and where a stray point lies beyond it, the axis still has to hold everything.
  let span = d.span_bytes > 0 ? d.span_bytes : (lastPage + 1) * d.page_bytes;
  for (const offset of points.offset) if (offset >= span) span = offset + 1;
  return {
    pageBytes: d.page_bytes || 4096,
    basis: basisOf(d.page_basis),
    spanBytes: Math.max(1, span),
    pointsOf: Math.max(d.points_of, points.t.length),
    instances: d.instances ?? [],
    instancesOf: d.instances_of ?? 1,
    pages,
    points,
  };
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function gunzip(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}
