import assert from "node:assert/strict";
import test from "node:test";
import { baseName, clicked, matches, place, sorted } from "../src/model/table.ts";
import { ordered, pan, toPixel, fromPixel, within, zoom } from "../src/model/range.ts";

test("sorting is stable and puts the unknown last both ways", () => {
  const rows = [{ n: 1, s: "b" }, { n: 3, s: "a" }, { n: null, s: "c" }, { n: 3, s: "d" }, { n: Number.NaN, s: "e" }];
  const names = (d: "ascending" | "descending") => sorted(rows, (r) => r.n, d).map((r) => r.s).join("");
  assert.equal(names("descending"), "adbce");
  assert.equal(names("ascending"), "badce");
  assert.deepEqual(sorted(["a10", "a9", "B1"], (s) => s, "ascending"), ["a9", "a10", "B1"]);
});

test("a click on a column", () => {
  assert.deepEqual(clicked({ key: "a", direction: "ascending" }, "n", true), { key: "n", direction: "descending" });
  assert.deepEqual(clicked({ key: "n", direction: "descending" }, "n", true), { key: "n", direction: "ascending" });
  assert.deepEqual(clicked({ key: "n", direction: "ascending" }, "s", false), { key: "s", direction: "ascending" });
});

test("the filter takes words in any order and case", () => {
  assert.ok(matches("heap std::map<int> cells.cpp:48", "CELLS map"));
  assert.ok(matches("anything", "  "));
  assert.ok(!matches("heap a", "heap b"));
});

test("places in the source", () => {
  assert.equal(place("/home/u/a.c", 4), "a.c:4");
  assert.equal(place("a.c", 0), "a.c");
  assert.equal(place("", 4), "");
  assert.equal(baseName("/lib/libc.so.6"), "libc.so.6");
});

test("zoom keeps the place under the pointer, its limits and the domain", () => {
  const domain = { lo: 0, hi: 100 };
  const z = zoom(domain, 25, 0.5, domain, 1);
  assert.deepEqual(z, { lo: 12.5, hi: 62.5 });
  assert.equal((25 - z.lo) / (z.hi - z.lo), 0.25);
  assert.deepEqual(zoom(z, 25, 100, domain, 1), domain);
  const tiny = zoom(domain, 50, 1e-9, domain, 1);
  assert.ok(Math.abs(tiny.hi - tiny.lo - 1) < 1e-9);
  assert.deepEqual(zoom({ lo: 0, hi: 8 }, 4, 0.5, { lo: 0, hi: 8 }, 64), { lo: 0, hi: 8 });
});

test("pan stops at the ends; brushes are ordered and clipped", () => {
  const domain = { lo: 0, hi: 100 };
  assert.deepEqual(pan({ lo: 10, hi: 30 }, -50, domain), { lo: 0, hi: 20 });
  assert.deepEqual(pan({ lo: 10, hi: 30 }, 500, domain), { lo: 80, hi: 100 });
  assert.deepEqual(ordered(120, 40, domain), { lo: 40, hi: 100 });
  assert.deepEqual(within({ lo: -50, hi: 500 }, domain), domain);
  assert.equal(fromPixel(domain, toPixel(domain, 37, 640), 640), 37);
});
