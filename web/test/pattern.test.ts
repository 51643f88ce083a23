import assert from "node:assert/strict";
import { test } from "node:test";
import type { InstancePattern, Pattern } from "../src/data/types.ts";
import { patternWords } from "../src/model/pattern.ts";

const pattern = (of: Partial<Pattern>): Pattern => ({
  kind: "unknown",
  block_bytes: 0,
  period_bytes: 0,
  confidence: 1,
  samples: 0,
  main_share: 0,
  samples_needed: null,
  ...of,
});
const instances = (kind: string, n: number, threads: number): InstancePattern => ({
  kind,
  instances: n,
  threads,
  block_bytes: 0,
  share: 1,
});
const words = (of: Partial<Pattern>, ...all: InstancePattern[]) =>
  patternWords({ pattern: pattern(of), instance_patterns: all }).replaceAll("\u00a0", " ");

test("a pattern says how threads share the object", () => {
  assert.equal(words({ kind: "block", block_bytes: 4 << 20 }), "block 4 MiB");
  assert.equal(words({ kind: "mixed", main_share: 0.85 }), "mostly one thread a page (85.0 %)");
  assert.equal(words({ samples: 680, samples_needed: 2000 }), "unknown: 680 samples, about 2,000 would tell");
});

test("patterns of instances add up in words", () => {
  assert.equal(words({}, instances("private", 4, 4)), "private, one each for 4 threads");
  assert.equal(words({}, instances("private", 37, 4)), "private, each of 37 instances has one of 4 threads");
  assert.equal(words({}, instances("block", 12, 4)), "block in each of 12 instances");
  assert.equal(words({}, instances("private", 30, 4), instances("shared", 7, 4)), "private in 30, shared in 7 of 37 instances");
});
