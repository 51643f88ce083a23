import assert from "node:assert/strict";
import test from "node:test";
import * as bin from "../src/model/bin.ts";
import type { PageAccesses, Points } from "../src/data/types.ts";

const ALL = { access: "all", time: null, offset: null } as const;

function points(rows: [t: number, offset: number, thread: number, write: number][]): Points {
  return {
    t: Float64Array.from(rows, (r) => r[0]),
    offset: Float64Array.from(rows, (r) => r[1]),
    thread: Int32Array.from(rows, (r) => r[2]),
    write: Uint8Array.from(rows, (r) => r[3]),
  };
}

function pages(rows: [page: number, entries: [thread: number, value: number][]][]): PageAccesses {
  const start = [0];
  for (const [, e] of rows) start.push(start[start.length - 1] + e.length);
  const flat = rows.flatMap((r) => r[1]);
  return {
    page: Float64Array.from(rows, (r) => r[0]),
    start: Uint32Array.from(start),
    thread: Int32Array.from(flat, (e) => e[0]),
    value: Float32Array.from(flat, (e) => e[1]),
  };
}

test("thread columns keep order and leave no gaps", () => {
  const c = bin.threadColumns([7, 2, 2, 0, -1]);
  assert.deepEqual(c.of, [0, 2, 7]);
  assert.deepEqual([...c.column], [0, -1, 1, -1, -1, -1, -1, 2]);
});

test("the heat map keeps the largest value of the pages in a cell", () => {
  const a = pages([[0, [[0, 1]]], [1, [[0, 9], [1, 2]]], [2, [[1, 4]]], [3, [[1, 3]]]]);
  const h = bin.heat(a, 4096, { lo: 0, hi: 4 * 4096 }, bin.threadColumns([0, 1]), 2, 2);
  assert.deepEqual([...h.cells], [9, 2, 0, 4]);
  assert.equal(h.max, 9);
});

test("a page as large as several pixels fills them, and pages outside the window do not count", () => {
  const a = pages([[0, [[0, 100]]], [1, [[0, 5]]], [2, [[0, 7]]]]);
  const h = bin.heat(a, 4096, { lo: 4096, hi: 3 * 4096 }, bin.threadColumns([0]), 6, 1);
  assert.deepEqual([...h.cells], [5, 5, 5, 7, 7, 7]);
  assert.equal(h.max, 7);
});

test("one hot page among many thousands still has its pixel", () => {
  const a = pages(Array.from({ length: 10000 }, (_, i) => [i, [[0, i === 5003 ? 1000 : 1]]]));
  const h = bin.heat(a, 4096, { lo: 0, hi: 10000 * 4096 }, bin.threadColumns([0]), 300, 1);
  assert.equal(h.cells[Math.floor((5003 * 300) / 10000)], 1000);
});

test("more threads than columns share columns", () => {
  const a = pages([[0, Array.from({ length: 100 }, (_, t) => [t, t + 1] as [number, number])]]);
  const h = bin.heat(a, 4096, { lo: 0, hi: 4096 }, bin.threadColumns(Array.from({ length: 100 }, (_, t) => t)), 1, 10);
  assert.deepEqual([...h.cells], [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
});

test("a strip shows all pages of a row side by side", () => {
  const s = bin.strip(Float64Array.from([0, 1, 2, 3]), Int32Array.from([5, 6, 7, 7]), 4096, { lo: 0, hi: 4 * 4096 }, 4, 2);
  assert.deepEqual([...s], [5, 5, 6, 6, 7, 7, 7, 7]);
  const gap = bin.strip(Float64Array.from([2]), Int32Array.from([1]), 4096, { lo: 0, hi: 4 * 4096 }, 1, 4);
  assert.deepEqual([...gap], [-1, -1, 1, -1]);
});

test("pages of points count what passes the filter, scaled up", () => {
  const p = points([[0, 10, 1, 0], [1, 5000, 0, 1], [2, 20, 1, 1], [3, 30, 0, 0]]);
  const a = bin.pagesOfPoints(p, { access: "all", time: { lo: 0, hi: 2 }, offset: null }, 4096, 10);
  assert.deepEqual([...a.page], [0, 1]);
  assert.deepEqual([...a.start], [0, 1, 2]);
  assert.deepEqual([...a.thread], [1, 0]);
  assert.deepEqual([...a.value], [20, 10]);
  const writes = bin.pagesOfPoints(p, { ...ALL, access: "write" }, 4096, 1);
  assert.deepEqual([...writes.value], [1, 1]);
  assert.equal(bin.pagesOfPoints(points([]), ALL, 4096, 1).page.length, 0);
});

test("thread totals follow the window", () => {
  const a = pages([[0, [[0, 1], [3, 2]]], [4, [[3, 5]]]]);
  const c = bin.threadColumns([0, 3]);
  assert.deepEqual([...bin.threadTotals(a, 4096, { lo: 0, hi: 5 * 4096 }, c)], [1, 7]);
  assert.deepEqual([...bin.threadTotals(a, 4096, { lo: 4096, hi: 5 * 4096 }, c)], [0, 5]);
  assert.deepEqual([...bin.threadTotals(a, 4096, { lo: 4096, hi: 8192 }, c)], [0, 0]);
});

test("the time histogram counts every visible sample once, the last moment included", () => {
  const p = points([[0, 0, 0, 0], [0.5, 0, 1, 0], [1, 0, 1, 0], [2, 0, 0, 0]]);
  const h = bin.timeHistogram(p, ALL, { lo: 0, hi: 1 }, 2, bin.threadColumns([0, 1]));
  assert.deepEqual([...h], [1, 0, 0, 2]);
});

test("points on one pixel mix, and threads that are not highlighted recede", () => {
  const p = points([[0.5, 50, 0, 0], [0.5, 50, 1, 0]]);
  const input = {
    points: p,
    filter: ALL,
    time: { lo: 0, hi: 1 },
    offset: { lo: 0, hi: 100 },
    width: 11,
    height: 11,
    colors: Uint8Array.from([200, 0, 0, 0, 0, 200]),
    highlight: new Set<number>(),
    size: 1,
  };
  const at = (d: Uint8ClampedArray) => [...d].findIndex((v, i) => i % 4 === 3 && v > 0) - 3;
  const both = bin.scatter(input);
  assert.equal(both.drawn, 2);
  const i = at(both.rgba);
  assert.deepEqual([both.rgba[i], both.rgba[i + 1], both.rgba[i + 2]], [100, 0, 100]);
  const one = bin.scatter({ ...input, highlight: new Set([1]) });
  assert.ok(one.rgba[i + 2] > 150 && one.rgba[i] < 50);
});

test("a frame leaves nothing behind for the next", () => {
  const input = {
    points: points([[0.5, 50, 0, 0]]),
    filter: ALL,
    time: { lo: 0, hi: 1 },
    offset: { lo: 0, hi: 100 },
    width: 11,
    height: 11,
    colors: Uint8Array.from([200, 100, 50]),
    highlight: new Set<number>(),
    size: 3,
  };
  const first = bin.scatter(input).rgba;
  bin.scatter({ ...input, time: { lo: 0.4, hi: 0.9 } });
  assert.deepEqual(bin.scatter(input).rgba, first);
});

test("a stack of bars: the tallest bin is full, thin shares round but never leave a gap", () => {
  const color = (c: number) => [c + 1, 0, 0, 255] as const;
  const rgba = bin.stack(Float32Array.from([1, 3, 2, 0]), 2, 2, 4, color);
  const column = (x: number) => [0, 1, 2, 3].map((y) => rgba[(y * 2 + x) * 4]);
  assert.deepEqual(column(0), [2, 2, 2, 1]);
  assert.deepEqual(column(1), [0, 0, 1, 1]);
  assert.ok(bin.stack(new Float32Array(4), 2, 2, 2, color).every((v) => v === 0));
});

test("nearest finds the closest point within reach, or none", () => {
  const p = points([[0, 0, 0, 0], [1, 100, 0, 1]]);
  assert.equal(bin.nearest(p, ALL, { t: 0.9, offset: 90 }, { t: 0.5, offset: 50 }), 1);
  assert.equal(bin.nearest(p, ALL, { t: 0.5, offset: 50 }, { t: 0.1, offset: 10 }), -1);
  assert.equal(bin.nearest(p, { ...ALL, access: "read" }, { t: 1, offset: 100 }, { t: 0.5, offset: 50 }), -1);
});

test("a selection counts by thread", () => {
  const p = points([[0, 0, 2, 1], [1, 0, 2, 0], [2, 0, 1, 0], [9, 0, 1, 0]]);
  const s = bin.selectionOf(p, { ...ALL, time: { lo: 0, hi: 5 } });
  assert.deepEqual(s, { samples: 3, reads: 2, writes: 1, threads: [[2, 2], [1, 1]] });
});

test("first touch against main user", () => {
  assert.deepEqual(bin.mismatch(Int32Array.from([0, 1, -1, 3]), Int32Array.from([0, 0, 0, -1])), { known: 2, different: 1 });
});

test("10,000 pages x 128 threads and 100,000 points take well under 100 ms", () => {
  const a = pages(Array.from({ length: 10000 }, (_, i) => [i, Array.from({ length: 128 }, (_, t) => [t, (i * t) % 97] as [number, number])]));
  const n = 100000;
  const p: Points = {
    t: Float64Array.from({ length: n }, (_, i) => i / n),
    offset: Float64Array.from({ length: n }, (_, i) => (i * 7919 * 512) % (10000 * 4096)),
    thread: Int32Array.from({ length: n }, (_, i) => i % 128),
    write: new Uint8Array(n),
  };
  const offset = { lo: 0, hi: 10000 * 4096 };
  const threads = bin.threadColumns(Array.from({ length: 128 }, (_, t) => t));
  const input = { points: p, filter: ALL, time: { lo: 0, hi: 1 }, offset, width: 900, height: 500, colors: new Uint8Array(384), highlight: new Set<number>(), size: 2 };
  const once = () => {
    const began = performance.now();
    bin.heat(a, 4096, offset, threads, 500, 400);
    bin.scatter(input);
    return performance.now() - began;
  };
  // The best of several: other work on the machine can only add.
  const best = Math.min(...Array.from({ length: 5 }, once));
  assert.ok(best < 100, `${best} ms`);
});
