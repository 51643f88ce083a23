// From columns to rasters. Everything that depends on the number of samples or pages happens here, in one pass over typed
// arrays; the views only draw what comes out. Pure: no canvas, no DOM.

import type { PageAccesses, Points } from "../data/types.ts";
import type { Range } from "./range.ts";

export type AccessFilter = "all" | "read" | "write";

/** Which samples count. `null` ranges are open. */
export interface PointFilter {
  access: AccessFilter;
  time: Range | null;
  offset: Range | null;
}

export function passes(p: Points, i: number, f: PointFilter): boolean {
  if (f.access !== "all" && (p.write[i] === 1) !== (f.access === "write")) return false;
  if (f.time && (p.t[i] < f.time.lo || p.t[i] > f.time.hi)) return false;
  if (f.offset && (p.offset[i] < f.offset.lo || p.offset[i] > f.offset.hi)) return false;
  return true;
}

/** Column of each thread number, or -1; `of[c]` is the thread of column `c`. */
export interface ThreadColumns {
  column: Int32Array;
  of: number[];
}

export function threadColumns(threads: Iterable<number>): ThreadColumns {
  const of = [...new Set(threads)].filter((t) => t >= 0).sort((a, b) => a - b);
  const column = new Int32Array((of.length ? of[of.length - 1] : -1) + 1).fill(-1);
  of.forEach((t, c) => (column[t] = c));
  return { column, of };
}

/** Accesses per page and thread of the samples that pass, in the units of the samples they were drawn from. */
export function pagesOfPoints(p: Points, f: PointFilter, pageBytes: number, weight: number): PageAccesses {
  const n = p.t.length;
  let threads = 1;
  for (let i = 0; i < n; i++) if (p.thread[i] >= threads) threads = p.thread[i] + 1;
  // One sort of numbers is several times faster than a Map of Maps.
  const keys = new Float64Array(n);
  let m = 0;
  for (let i = 0; i < n; i++) {
    if (passes(p, i, f)) keys[m++] = Math.floor(p.offset[i] / pageBytes) * threads + p.thread[i];
  }
  const sorted = keys.subarray(0, m).sort();
  const page: number[] = [];
  const start: number[] = [];
  const thread: number[] = [];
  const value: number[] = [];
  for (let i = 0; i < m; ) {
    let j = i + 1;
    while (j < m && sorted[j] === sorted[i]) j++;
    const number = Math.floor(sorted[i] / threads);
    if (page.length === 0 || page[page.length - 1] !== number) {
      page.push(number);
      start.push(thread.length);
    }
    thread.push(sorted[i] - number * threads);
    value.push((j - i) * weight);
    i = j;
  }
  start.push(thread.length);
  return {
    page: Float64Array.from(page),
    start: Uint32Array.from(start),
    thread: Int32Array.from(thread),
    value: Float32Array.from(value),
  };
}

/** First index whose page is not below `page`. */
export function lowerBound(pages: Float64Array, page: number): number {
  let lo = 0;
  let hi = pages.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (pages[mid] < page) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

/** Indices [from, to) of the pages that overlap a range of offsets. */
export function pagesIn(pages: Float64Array, pageBytes: number, window: Range): [number, number] {
  return [
    lowerBound(pages, Math.floor(window.lo / pageBytes)),
    lowerBound(pages, Math.max(Math.ceil(window.hi / pageBytes), Math.floor(window.lo / pageBytes) + 1)),
  ];
}

/** Rows of pixels [y0, y1) of a page: at least one, so that a single hot page among thousands is still seen. */
function rowsOf(page: number, pageBytes: number, window: Range, height: number): [number, number] {
  const scale = height / (window.hi - window.lo);
  const y0 = Math.floor((page * pageBytes - window.lo) * scale + 1e-6);
  const y1 = Math.max(y0 + 1, Math.floor(((page + 1) * pageBytes - window.lo) * scale + 1e-6));
  return [Math.max(0, y0), Math.min(height, y1)];
}

export interface Heat {
  /** `rows * columns` values, 0: no access. */
  cells: Float32Array;
  rows: number;
  columns: number;
  /** Largest value of a cell in the window. */
  max: number;
}

/** Thread x page, the largest value of all (page, thread) that share a cell. */
export function heat(
  a: PageAccesses,
  pageBytes: number,
  window: Range,
  threads: ThreadColumns,
  rows: number,
  mostColumns: number,
): Heat {
  const columns = Math.max(1, Math.min(threads.of.length, mostColumns));
  const squeeze = columns / Math.max(1, threads.of.length);
  const cells = new Float32Array(rows * columns);
  let max = 0;
  const [from, to] = pagesIn(a.page, pageBytes, window);
  for (let i = from; i < to; i++) {
    const [y0, y1] = rowsOf(a.page[i], pageBytes, window, rows);
    for (let e = a.start[i]; e < a.start[i + 1]; e++) {
      const c = threads.column[a.thread[e]] ?? -1;
      if (c < 0) continue;
      const x = Math.floor(c * squeeze);
      const value = a.value[e];
      if (value > max) max = value;
      for (let y = y0; y < y1; y++) {
        const cell = y * columns + x;
        if (value > cells[cell]) cells[cell] = value;
      }
    }
  }
  return { cells, rows, columns, max };
}

/**
 * One value per page as a strip of `width` x `height` pixels, -1 where there is none. Where several pages share a row of
 * pixels they lie side by side in it, so that pages of alternating owners show as a mixture and not as one of them.
 */
export function strip(
  page: Float64Array,
  value: Int32Array,
  pageBytes: number,
  window: Range,
  width: number,
  height: number,
): Int32Array {
  const out = new Int32Array(width * height).fill(-1);
  const [from, to] = pagesIn(page, pageBytes, window);
  for (let i = from; i < to; ) {
    const [y0, y1] = rowsOf(page[i], pageBytes, window, height);
    let j = i + 1;
    while (j < to && rowsOf(page[j], pageBytes, window, height)[0] === y0) j++;
    for (let x = 0; x < width; x++) {
      const v = value[i + Math.floor((x * (j - i)) / width)];
      for (let y = y0; y < y1; y++) out[y * width + x] = v;
    }
    i = j;
  }
  return out;
}

/** Estimated accesses of each column's thread in the window. */
export function threadTotals(a: PageAccesses, pageBytes: number, window: Range, threads: ThreadColumns): Float64Array {
  const totals = new Float64Array(threads.of.length);
  const [from, to] = pagesIn(a.page, pageBytes, window);
  if (to > from) {
    for (let e = a.start[from]; e < a.start[to]; e++) {
      const c = threads.column[a.thread[e]] ?? -1;
      if (c >= 0) totals[c] += a.value[e];
    }
  }
  return totals;
}

/** Samples per bin of time and column of threads: `bins * columns` counts. */
export function timeHistogram(p: Points, f: PointFilter, window: Range, bins: number, threads: ThreadColumns): Float32Array {
  const columns = threads.of.length;
  const out = new Float32Array(bins * columns);
  const scale = bins / (window.hi - window.lo);
  for (let i = 0; i < p.t.length; i++) {
    if (p.t[i] < window.lo || p.t[i] > window.hi || !passes(p, i, f)) continue;
    const c = threads.column[p.thread[i]] ?? -1;
    if (c < 0) continue;
    const b = Math.min(bins - 1, Math.floor((p.t[i] - window.lo) * scale));
    out[b * columns + c]++;
  }
  return out;
}

export interface ScatterInput {
  points: Points;
  filter: PointFilter;
  time: Range;
  offset: Range;
  width: number;
  height: number;
  /** Red, green, blue of each thread number. */
  colors: Uint8Array;
  /** Threads that stand out, or none: all do. */
  highlight: ReadonlySet<number>;
  /** Edge of a point in pixels. */
  size: number;
}

/** Sums of colours per pixel, kept between frames: zero wherever no frame is being drawn. */
let sums = new Float32Array(0);
let touched = new Int32Array(0);

/**
 * Time (right) x offset (down) as RGBA. Points that share a pixel mix by their number, so that neither the last drawn nor
 * the thread with the lowest number hides the others. The work follows the points, not the pixels: on a dense screen most
 * pixels are empty.
 */
export function scatter(s: ScatterInput): { rgba: Uint8ClampedArray<ArrayBuffer>; drawn: number } {
  const { points: p, width, height, size } = s;
  const n = width * height;
  if (sums.length < n * 4) {
    sums = new Float32Array(n * 4);
    touched = new Int32Array(n);
  }
  const sx = width / (s.time.hi - s.time.lo);
  const sy = height / (s.offset.hi - s.offset.lo);
  const all = s.highlight.size === 0;
  const half = size / 2;
  let drawn = 0;
  let pixels = 0;
  for (let i = 0; i < p.t.length; i++) {
    const t = p.t[i];
    const o = p.offset[i];
    if (t < s.time.lo || t > s.time.hi || o < s.offset.lo || o > s.offset.hi || !passes(p, i, s.filter)) continue;
    drawn++;
    const thread = p.thread[i];
    const w = all || s.highlight.has(thread) ? 1 : 0.06;
    const r = s.colors[thread * 3] * w;
    const g = s.colors[thread * 3 + 1] * w;
    const b = s.colors[thread * 3 + 2] * w;
    const x0 = Math.max(0, Math.min(width - 1, Math.round((t - s.time.lo) * sx - half)));
    const y0 = Math.max(0, Math.min(height - 1, Math.round((o - s.offset.lo) * sy - half)));
    const x1 = Math.min(width, x0 + size);
    const y1 = Math.min(height, y0 + size);
    for (let y = y0; y < y1; y++) {
      for (let at = y * width + x0; at < y * width + x1; at++) {
        if (sums[at * 4 + 3] === 0) touched[pixels++] = at;
        sums[at * 4] += r;
        sums[at * 4 + 1] += g;
        sums[at * 4 + 2] += b;
        sums[at * 4 + 3] += w;
      }
    }
  }
  const rgba = new Uint8ClampedArray(new ArrayBuffer(n * 4));
  for (let k = 0; k < pixels; k++) {
    const at = touched[k] * 4;
    const w = sums[at + 3];
    rgba[at] = sums[at] / w;
    rgba[at + 1] = sums[at + 1] / w;
    rgba[at + 2] = sums[at + 2] / w;
    rgba[at + 3] = w >= 4 ? 255 : w < 1 ? 60 + 120 * w : 180 + 19 * w;
    sums.fill(0, at, at + 4);
  }
  return { rgba, drawn };
}

/**
 * A histogram as RGBA: the columns of each bin on top of each other, one empty pixel between bins where there is room.
 * `color` writes a colour's four bytes. Tens of thousands of small rectangles would take longer than all the rest.
 */
export function stack(
  counts: Float32Array,
  columns: number,
  width: number,
  height: number,
  color: (column: number) => readonly [number, number, number, number],
): Uint8ClampedArray<ArrayBuffer> {
  const bins = columns > 0 ? counts.length / columns : 0;
  const rgba = new Uint8ClampedArray(new ArrayBuffer(width * height * 4));
  let max = 0;
  for (let b = 0; b < bins; b++) {
    let sum = 0;
    for (let c = 0; c < columns; c++) sum += counts[b * columns + c];
    if (sum > max) max = sum;
  }
  if (max === 0) return rgba;
  const colors = Array.from({ length: columns }, (_, c) => color(c));
  for (let b = 0; b < bins; b++) {
    const x0 = Math.round((b * width) / bins);
    const x1 = Math.round(((b + 1) * width) / bins);
    const right = Math.max(x0 + 1, x1 - x0 > 2 ? x1 - 1 : x1);
    let sum = 0;
    for (let c = 0; c < columns; c++) {
      const count = counts[b * columns + c];
      if (count === 0) continue;
      const bottom = height - Math.round((sum / max) * height);
      sum += count;
      const top = height - Math.round((sum / max) * height);
      for (let y = top; y < bottom; y++) {
        for (let at = (y * width + x0) * 4; at < (y * width + right) * 4; at += 4) rgba.set(colors[c], at);
      }
    }
  }
  return rgba;
}

/** Index of the sample nearest to a place, within `reach` (in units of x and y), or -1. */
export function nearest(
  p: Points,
  f: PointFilter,
  at: { t: number; offset: number },
  reach: { t: number; offset: number },
): number {
  let best = -1;
  let least = 1;
  for (let i = 0; i < p.t.length; i++) {
    const dx = (p.t[i] - at.t) / reach.t;
    if (dx > 1 || dx < -1) continue;
    const dy = (p.offset[i] - at.offset) / reach.offset;
    const d = dx * dx + dy * dy;
    if (d < least && passes(p, i, f)) {
      least = d;
      best = i;
    }
  }
  return best;
}

export interface Selection {
  samples: number;
  reads: number;
  writes: number;
  /** Samples by thread, most first. */
  threads: [thread: number, samples: number][];
}

/** What a brush holds. */
export function selectionOf(p: Points, f: PointFilter): Selection {
  const byThread = new Map<number, number>();
  let writes = 0;
  let samples = 0;
  for (let i = 0; i < p.t.length; i++) {
    if (!passes(p, i, f)) continue;
    samples++;
    writes += p.write[i];
    byThread.set(p.thread[i], (byThread.get(p.thread[i]) ?? 0) + 1);
  }
  return { samples, reads: samples - writes, writes, threads: [...byThread].sort((a, b) => b[1] - a[1] || a[0] - b[0]) };
}

/** Pages whose first toucher and main user are both known, and how many of them have two different ones. */
export function mismatch(owner: Int32Array, first: Int32Array): { known: number; different: number } {
  let known = 0;
  let different = 0;
  for (let i = 0; i < owner.length; i++) {
    if (owner[i] < 0 || first[i] < 0) continue;
    known++;
    if (owner[i] !== first[i]) different++;
  }
  return { known, different };
}
