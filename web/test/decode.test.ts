import assert from "node:assert/strict";
import test from "node:test";
import { gzipSync } from "node:zlib";
import { decode, decodeText } from "../src/data/decode.ts";
import packed from "./packed.json";
import { empty, typical } from "./fixture.ts";

const bare = () => ({ ...empty(), objects: [{ id: 4, name: "a" }] });

test("columns are read as html.rs packs them", () => {
  const d = decode({ findings: bare(), details: packed }).details.get(4);
  assert.ok(d);
  assert.deepEqual([...d.pages.page], [2, 7]);
  assert.deepEqual([...d.pages.start], [0, 2, 2]);
  assert.deepEqual([...d.pages.thread], [0, 3]);
  assert.deepEqual([...d.pages.value], [1, 2.5]);
  assert.deepEqual([...d.pages.node], [1, -1]);
  assert.deepEqual([...d.pages.owner], [3, -1]);
  assert.deepEqual([...d.pages.first], [-1, 1]);
  assert.deepEqual([...d.points.t], [0.25, 0.5]);
  assert.deepEqual([...d.points.offset], [8200, 28672]);
  assert.deepEqual([...d.points.write], [0, 1]);
  assert.equal(d.pointsOf, 10);
  assert.equal(d.spanBytes, 32768);
});

test("the plain report gives the same columns", () => {
  const detail = {
    page_bytes: 4096,
    page_basis: "offset",
    points_of: 10,
    span_bytes: 32768,
    pages: [
      { page: 7, node: null, owner: null, samples: 0, by_thread: {}, first_touch_thread: 1 },
      { page: 2, node: 1, owner: 3, samples: 2, by_thread: { 0: 1, 3: 2.5 }, first_touch_thread: null },
    ],
    points: [
      { t: 0.5, offset: 28672, thread: 1, write: true },
      { t: 0.25, offset: 8200, thread: 3, write: false },
    ],
  };
  const plain = decode({ ...bare(), objects: [{ id: 4, name: "a", detail }] }).details.get(4);
  assert.deepEqual(plain, decode({ findings: bare(), details: packed }).details.get(4));
});

test("the axis holds points beyond the stated span", () => {
  const odd = structuredClone(packed) as typeof packed;
  odd["4"].span_bytes = 0;
  odd["4"].points.offset = [8200, 99999];
  assert.equal(decode({ findings: bare(), details: odd }).details.get(4)?.spanBytes, 100000);
});

test("compressed and plain text", async () => {
  const report = typical();
  const json = JSON.stringify(report);
  const a = await decodeText(json, "json");
  const b = await decodeText(gzipSync(json).toString("base64"), "gzip");
  assert.equal(a.details.size, report.objects.length);
  assert.deepEqual(a.findings, b.findings);
});

test("what is absent is filled in; what is no report is refused in words", () => {
  const report = decode({ version: 1, run: {}, sampler: {}, samples: {}, objects: [{ id: 0 }] });
  assert.deepEqual(report.findings.losses, []);
  assert.equal(report.findings.run.heap_tracked, true, "older reports do not say that allocations were left out");
  assert.equal(report.findings.objects[0].pattern.kind, "unknown");
  assert.throws(() => decode({}), /not a NumaMMA report/);
  assert.throws(() => decode({ version: 9, objects: [] }), /version 9/);
});
