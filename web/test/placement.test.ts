import assert from "node:assert/strict";
import test from "node:test";
import { decode } from "../src/data/decode.ts";
import type { Bin, PlacementAdvice, PlacementPage } from "../src/data/placement.ts";
import { between, hasInterval, localPlanned, matters, placements, ranges, recommended, segments, threadsOn, UNUSED, verdict } from "../src/model/placement.ts";
import { newPalette } from "../src/model/colors.ts";
import { nodeFill } from "../src/views/node-fill.ts";
import { typical } from "./fixture.ts";
import json from "./placement.json";

/** As in TypeScript, but for tuples: JSON has lists. */
type Plain<T> = T extends [infer A, ...unknown[]] ? A[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;

/** The compiler compares the fields; crates/report/src/html.rs has the same test. */
const plain: Plain<PlacementPage> = json;
const page = plain as PlacementPage;
const advice = page.advice as PlacementAdvice;

test("the section is read from the page, and one of another version is refused with a reason", () => {
  const findings = typical();
  const root = (placement: unknown) => ({ findings: { ...findings, objects: [] }, details: {}, placement });
  assert.deepEqual(decode(root(json)).placement, page);
  assert.equal(decode(root(undefined)).placement, null);
  assert.match(decode(root({ ...json, version: 2 })).placement?.missing ?? "", /version 2/);
});

test("neighbouring bins that are alike are one segment, and no page is lost", () => {
  const of = { pages: 35, bin_pages: 10 };
  const bins: Bin[] = [[[0, 10]], [[0, 10]], [[0, 5], [1, 5]], [[1, 4]]];
  assert.deepEqual(segments(bins, of), [
    { pages: 20, parts: [{ node: 0, share: 1 }] },
    { pages: 10, parts: [{ node: 0, share: 0.5 }, { node: 1, share: 0.5 }] },
    { pages: 5, parts: [{ node: 1, share: 0.8 }, { node: UNUSED, share: 0.2 }] },
  ]);
  assert.deepEqual(segments([[]], { pages: 3, bin_pages: 4 }), [{ pages: 3, parts: [{ node: UNUSED, share: 1 }] }]);
  assert.deepEqual(segments([], { pages: 0, bin_pages: 1 }), []);
});

test("bins that differ a little are alike, those that drift are not", () => {
  const of = { pages: 40, bin_pages: 10 };
  const even: Bin[] = [[[0, 5], [1, 5]], [[0, 4], [1, 6]], [[0, 6], [1, 4]], [[0, 5], [1, 5]]];
  assert.deepEqual(segments(even, of), [{ pages: 40, parts: [{ node: 0, share: 0.5 }, { node: 1, share: 0.5 }] }]);
  const drift = [90, 85, 78, 70].map((n): Bin => [[0, n], [1, 100 - n]]);
  assert.equal(segments(drift, { pages: 400, bin_pages: 100 }).length, 2, "compared with the first of the segment, not the one before");
});

test("the strips of the fixture show what the plan says", () => {
  const [blocks, shared] = advice.map.objects;
  assert.deepEqual(segments(blocks.now, blocks).map((s) => s.parts.map((p) => p.node)), [[0]]);
  assert.deepEqual(segments(blocks.planned, blocks).map((s) => s.parts.map((p) => p.node)), [[0], [1], [2], [3]]);
  assert.deepEqual(segments(shared.planned, shared).map((s) => s.parts.map((p) => p.share)), [[0.25, 0.25, 0.25, 0.25]]);
});

test("numbers in a row are a range", () => {
  assert.equal(ranges([5, 0, 1, 2]), "0–2, 5");
  assert.equal(ranges([7, 8], "T"), "T7–T8");
  assert.equal(ranges([]), "");
  assert.equal(ranges(Array.from({ length: 32 }, (_, i) => 16 * i), "T"), "T0, T16, T32, …, T496 (32)");
  assert.deepEqual(threadsOn(advice.map.threads, 1, "now"), [2, 3]);
  assert.deepEqual(threadsOn(advice.map.threads, 1, "planned"), [1]);
});

const names = (a: PlacementAdvice) => placements(a).map((c) => c.name);

test("the run without the plan is compared once", () => {
  assert.deepEqual(names(advice), ["first touch", "interleave", "block", "by owner", "worst", "plan"]);
  const scattered = { ...advice, plan: { ...advice.plan, now: { ...advice.plan.now, threads: "scatter", time_s: 7 } } };
  assert.deepEqual(names(scattered).slice(0, 2), ["now", "first touch"]);
});

test("the plan is recommended if it changes something that pays", () => {
  assert.equal(recommended(advice)?.name, "plan");
  const objects = advice.plan.objects.map((o) => ({ ...o, policy: "" }));
  assert.equal(recommended({ ...advice, plan: { ...advice.plan, objects } })?.name, "plan", "it may place threads alone");
  const recorded = { ...advice.plan.planned, name: "as recorded", threads: "as recorded" };
  const predictions = { ...advice.predictions, candidates: [recorded, ...advice.predictions.candidates] };
  const nothing = { ...advice, predictions, plan: { ...advice.plan, objects, now: { ...recorded, name: "now" } } };
  assert.equal(recommended(nothing)?.name, "as recorded");
  assert.equal(recommended({ ...nothing, plan: { ...nothing.plan, objects: advice.plan.objects } })?.name, "plan");
});

test("objects have a verdict and a local share under the plan", () => {
  assert.deepEqual(advice.plan.objects.map(verdict), ["block", "interleave, weak", "stays: lies well", "stays: hardly accessed"]);
  assert.deepEqual(advice.plan.objects.map(localPlanned), [0.997, 0.25, 0.991, 0.25]);
});

test("objects and intervals that say nothing are left out", () => {
  assert.deepEqual(advice.plan.objects.map(matters), [true, true, true, false]);
  assert.ok(hasInterval(advice.plan.now));
  assert.ok(!hasInterval({ ...advice.plan.now, low_s: 6.42, high_s: 6.421 }));
});

test("latencies lie between the least and the most", () => {
  const rows = [[100, 200], [], [150, 100]];
  assert.deepEqual([100, 150, 200].map((v) => between(v, rows)), [0, 0.5, 1]);
  assert.equal(between(5, [[5]]), 0);
});

test("16 nodes look different in both themes", () => {
  for (const dark of [false, true]) {
    const looks = Array.from({ length: 16 }, (_, node) => JSON.stringify(nodeFill(node, newPalette(4, dark))));
    assert.equal(new Set(looks).size, 16);
  }
});
