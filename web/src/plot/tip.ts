// What the tooltip says about the place under the pointer.

import { isCounted } from "../data/types.ts";
import { lowerBound, nearest } from "../model/bin.ts";
import { css, threadColor } from "../model/colors.ts";
import { fromPixel, span } from "../model/range.ts";
import { bytes, count, estimate, percent, plural, seconds } from "../model/units.ts";
import type { Region } from "./layout.ts";
import type { Frame } from "./paint.ts";

export interface Tip {
  title: string;
  rows: [label: string, value: string, color?: string][];
}

const THREADS_SHOWN = 6;

export function tipAt(f: Frame, region: Region, x: number, y: number): Tip | null {
  const { scatter, timeline, heat } = f.layout;
  if (region === "timeline" || region === "timeAxis") {
    const t = fromPixel(f.time, x - timeline.x, timeline.w);
    return { title: seconds(t), rows: [["drag", "select a range of time"]] };
  }
  if (region === "totals") return threadTip(f, Math.floor(((x - heat.x) / heat.w) * f.scene.threads.of.length));
  const offset = fromPixel(f.offset, y - scatter.y, scatter.h);
  if (region === "scatter") {
    const tip = pointTip(f, x, y);
    if (tip) return tip;
    const t = fromPixel(f.time, x - scatter.x, scatter.w);
    return { title: `${seconds(t)} · ${exactBytes(offset)}`, rows: [] };
  }
  return pageTip(f, offset, span(f.offset) / scatter.h, region, x);
}

function color(f: Frame, thread: number): string {
  return css(threadColor(thread, f.theme.palette));
}

/** Offsets below a page or so are of interest to the byte. */
function exactBytes(offset: number): string {
  const whole = Math.max(0, Math.floor(offset));
  return whole < 16384 ? `${count(whole)}\u00a0B` : bytes(whole);
}

function pointTip(f: Frame, x: number, y: number): Tip | null {
  const r = f.layout.scatter;
  const p = f.scene.detail.points;
  const at = { t: fromPixel(f.time, x - r.x, r.w), offset: fromPixel(f.offset, y - r.y, r.h) };
  const reach = { t: (8 / r.w) * span(f.time), offset: (8 / r.h) * span(f.offset) };
  const i = nearest(p, { access: f.filter.access, time: null, offset: null }, at, reach);
  if (i < 0) return null;
  const page = Math.floor(p.offset[i] / f.scene.detail.pageBytes);
  return {
    title: `T${p.thread[i]} ${p.write[i] ? "writes" : "reads"}`,
    rows: [
      ["time", seconds(p.t[i]), color(f, p.thread[i])],
      ["offset", `${exactBytes(p.offset[i])}`],
      ["page", count(page)],
    ],
  };
}

function threadTip(f: Frame, column: number): Tip | null {
  const thread = f.scene.threads.of[column];
  if (thread === undefined) return null;
  const share = f.scene.object.threads.find((t) => t.thread === thread);
  return {
    title: `Thread ${thread}`,
    rows: [
      ["cost of object", percent(share?.cost_share ?? 0), color(f, thread)],
      ...(share?.access_share == null ? [] : [["accesses", percent(share.access_share)] as [string, string]]),
      ["click", "highlight"],
    ],
  };
}

function pageTip(f: Frame, offset: number, perPixel: number, region: Region, x: number): Tip | null {
  const { pageBytes, pages, basis, instances } = f.scene.detail;
  const first = Math.floor(offset / pageBytes);
  const last = Math.max(first, Math.ceil((offset + perPixel) / pageBytes) - 1);
  const rows: Tip["rows"] = [];
  const from = basis === "address" ? "packed " : "";
  const of = instances.find((i) => i.first_page !== null && i.first_page <= first && first < i.first_page + i.pages);
  const start = basis === "instances" ? (of?.first_page ?? 0) : 0;
  if (of) rows.push(["instance", `${of.instance}`]);
  rows.push([`${from}offset`, `${bytes((first - start) * pageBytes)} – ${bytes((last + 1 - start) * pageBytes)}`]);
  const a = f.scene.accesses;
  const byThread = new Map<number, number>();
  for (let i = lowerBound(a.page, first); i < a.page.length && a.page[i] <= last; i++) {
    for (let e = a.start[i]; e < a.start[i + 1]; e++) {
      byThread.set(a.thread[e], (byThread.get(a.thread[e]) ?? 0) + a.value[e]);
    }
  }
  if (region === "heat") {
    const r = f.layout.heat;
    const under = f.scene.threads.of[Math.floor(((x - r.x) / r.w) * f.scene.threads.of.length)];
    if (under !== undefined && !byThread.has(under)) byThread.set(under, 0);
  }
  const most = [...byThread].sort((p, q) => q[1] - p[1]);
  const counted = isCounted(f.scene.object);
  let total = 0;
  for (const [, v] of most) total += v;
  for (const [t, v] of most.slice(0, THREADS_SHOWN)) rows.push([`T${t}`, counted ? estimate(v) : percent(total > 0 ? v / total : 0), color(f, t)]);
  if (most.length > THREADS_SHOWN) rows.push([plural(most.length - THREADS_SHOWN, "more thread"), ""]);
  if (counted) rows.push(["accesses", estimate(total)]);
  const i = lowerBound(pages.page, first);
  const j = lowerBound(pages.page, last + 1);
  if (j > i) {
    rows.push(["first touch", several(pages.first.subarray(i, j), "T"), one(f, pages.first.subarray(i, j))]);
    if (f.nodes) rows.push(["node", several(pages.node.subarray(i, j), "N")]);
  } else {
    rows.push(["", "neither sampled nor seen touched"]);
  }
  const title = first === last ? `Page ${count(first)}` : `Pages ${count(first)} – ${count(last)}`;
  return { title, rows };
}

function one(f: Frame, values: Int32Array): string | undefined {
  return values[0] >= 0 && values.every((v) => v === values[0]) ? color(f, values[0]) : undefined;
}

function several(values: Int32Array, prefix: string): string {
  const known = [...new Set(values)].filter((v) => v >= 0).sort((a, b) => a - b);
  if (known.length === 0) return "not seen";
  const shown = known.slice(0, 4).map((v) => `${prefix}${v}`);
  return shown.join(", ") + (known.length > 4 ? ", …" : "");
}
