import assert from "node:assert/strict";
import test from "node:test";
import { bytes, byteTicks, count, estimate, percent, plural, plusMinus, seconds, timeTicks } from "../src/model/units.ts";

const plain = (s: string) => s.replaceAll("\u00a0", " ");

test("bytes have binary units and three digits", () => {
  const cases: [number, string][] = [
    [0, "0 B"],
    [1023, "1,023 B"],
    [1024, "1 KiB"],
    [1536, "1.5 KiB"],
    [1023.9 * 1024, "1 MiB"],
    [16 * 2 ** 20, "16 MiB"],
    [123.4 * 2 ** 30, "123 GiB"],
    [Number.NaN, "–"],
  ];
  for (const [value, text] of cases) assert.equal(plain(bytes(value)), text);
});

test("times choose their unit", () => {
  const cases: [number, string][] = [
    [0, "0 s"],
    [2e-9, "2 ns"],
    [0.0000125, "12.5 µs"],
    [0.0123, "12.3 ms"],
    [0.99999, "1.00 s"],
    [6.42, "6.42 s"],
    [61.5, "61.5 s"],
    [4130, "1:08:50 h"],
    [125, "2:05 min"],
  ];
  for (const [value, text] of cases) assert.equal(plain(seconds(value)), text);
});

test("a share that rounds to nothing is not shown as none", () => {
  assert.equal(plain(percent(0)), "0 %");
  assert.equal(plain(percent(0.0001)), "<0.1 %");
  assert.equal(plain(percent(0.4523)), "45.2 %");
  assert.equal(percent(Number.NaN), "–");
  assert.equal(plusMinus(0.008), "±0.8");
  assert.equal(plusMinus(0.0001), "±<0.1");
  assert.equal(plusMinus(null), "");
});

test("counts", () => {
  assert.equal(count(1234567), "1,234,567");
  assert.equal(estimate(0.524), "0.52");
  assert.equal(estimate(1234.5), "1,235");
  assert.equal(plain(plural(1, "page")), "1 page");
  assert.equal(plain(plural(2, "page")), "2 pages");
});

test("byte ticks are exact: powers of two, in one unit", () => {
  assert.deepEqual(
    byteTicks(0, 16 * 2 ** 20, 5).map((t) => plain(t.label)),
    ["0", "4 MiB", "8 MiB", "12 MiB", "16 MiB"],
  );
  const near = byteTicks(100 * 2 ** 20, 100 * 2 ** 20 + 16384, 4);
  assert.deepEqual(near.map((t) => plain(t.label)), ["102,400 KiB", "102,404 KiB", "102,408 KiB", "102,412 KiB", "102,416 KiB"]);
  assert.deepEqual(byteTicks(5, 5, 4), []);
  assert.ok(byteTicks(0, 1, 10).length <= 11);
});

test("time ticks are round and carry no false digits", () => {
  assert.deepEqual(timeTicks(0, 6.4, 7).map((t) => plain(t.label)), ["0 s", "1 s", "2 s", "3 s", "4 s", "5 s", "6 s"]);
  assert.deepEqual(timeTicks(1.02, 1.05, 3).map((t) => plain(t.label)), ["1.02 s", "1.03 s", "1.04 s", "1.05 s"]);
  assert.deepEqual(timeTicks(0, 0.002, 2).map((t) => plain(t.label)), ["0 ms", "1 ms", "2 ms"]);
});
