// Draws a scene on a canvas. Rasters are computed in model/bin.ts at the resolution of the screen and put on the canvas as
// images; only axes, labels and a few bars are drawn as shapes.

import { isCounted } from "../data/types.ts";
import * as bin from "../model/bin.ts";
import { css, nodeColor, ramp, rampStep, threadColor } from "../model/colors.ts";
import { span, toPixel, type Range } from "../model/range.ts";
import { byteTicks, estimate, timeTicks } from "../model/units.ts";
import type { Layout, Rect } from "./layout.ts";
import type { Scene } from "./scene.ts";
import type { Theme } from "./theme.ts";

export interface Frame {
  scene: Scene;
  layout: Layout;
  theme: Theme;
  ratio: number;
  time: Range;
  offset: Range;
  filter: bin.PointFilter;
  highlight: ReadonlySet<number>;
  nodes: boolean;
}

type Context = CanvasRenderingContext2D;

export function paint(c: Context, f: Frame): void {
  c.setTransform(f.ratio, 0, 0, f.ratio, 0, 0);
  c.clearRect(0, 0, c.canvas.width, c.canvas.height);
  c.font = f.theme.font;
  for (const r of [f.layout.scatter, f.layout.heat, ...f.layout.strips]) fill(c, r, f.theme.surface);
  paintAxes(c, f);
  paintScatter(c, f);
  paintTimeline(c, f);
  paintStrips(c, f);
  paintHeat(c, f);
  paintTotals(c, f);
}

function fill(c: Context, r: Rect, style: string): void {
  c.fillStyle = style;
  c.fillRect(r.x, r.y, r.w, r.h);
}

function text(c: Context, label: string, x: number, y: number, style: string, align: CanvasTextAlign = "left"): void {
  c.fillStyle = style;
  c.textAlign = align;
  c.textBaseline = "middle";
  c.fillText(label, x, y);
}

/** Puts an image of device pixels on a rectangle of CSS pixels. */
function put(c: Context, rgba: Uint8ClampedArray<ArrayBuffer>, w: number, h: number, r: Rect): void {
  const image = document.createElement("canvas");
  image.width = w;
  image.height = h;
  image.getContext("2d")?.putImageData(new ImageData(rgba, w, h), 0, 0);
  c.imageSmoothingEnabled = false;
  c.drawImage(image, r.x, r.y, r.w, r.h);
}

function paintAxes(c: Context, f: Frame): void {
  const { scatter, heat, timeAxis, timeline, totals } = f.layout;
  c.lineWidth = 1;
  for (const tick of byteTicks(f.offset.lo, f.offset.hi, Math.max(2, scatter.h / 44))) {
    const y = Math.round(scatter.y + toPixel(f.offset, tick.value, scatter.h)) + 0.5;
    if (y > scatter.y + scatter.h + 1) continue;
    c.strokeStyle = f.theme.grid;
    line(c, scatter.x - 4, y, scatter.x + scatter.w, y);
    text(c, tick.label, scatter.x - 8, y, f.theme.muted, "right");
  }
  const wide = Math.max(2, scatter.w / 90);
  for (const tick of timeTicks(f.time.lo, f.time.hi, wide)) {
    const x = Math.round(scatter.x + toPixel(f.time, tick.value, scatter.w)) + 0.5;
    c.strokeStyle = f.theme.grid;
    line(c, x, scatter.y, x, scatter.y + scatter.h + 4);
    const half = c.measureText(tick.label).width / 2;
    const at = Math.min(scatter.x + scatter.w - half, Math.max(scatter.x - 4 + half, x));
    text(c, tick.label, at, timeAxis.y + 14, f.theme.muted, "center");
  }
  text(c, "Samples over time × offset", timeline.x, 9, f.theme.muted);
  text(c, "Threads × pages", totals.x, 9, f.theme.muted);
  c.strokeStyle = f.theme.line;
  line(c, scatter.x, scatter.y + scatter.h + 0.5, scatter.x + scatter.w, scatter.y + scatter.h + 0.5);
  line(c, heat.x, heat.y + heat.h + 0.5, heat.x + heat.w, heat.y + heat.h + 0.5);
  line(c, timeline.x, timeline.y + timeline.h + 0.5, timeline.x + timeline.w, timeline.y + timeline.h + 0.5);
  line(c, totals.x, totals.y + totals.h + 0.5, totals.x + totals.w, totals.y + totals.h + 0.5);
}

function line(c: Context, x0: number, y0: number, x1: number, y1: number): void {
  c.beginPath();
  c.moveTo(x0, y0);
  c.lineTo(x1, y1);
  c.stroke();
}

function paintScatter(c: Context, f: Frame): void {
  const r = f.layout.scatter;
  const p = f.scene.detail.points;
  const w = Math.round(r.w * f.ratio);
  const h = Math.round(r.h * f.ratio);
  if (w < 1 || h < 1) return;
  // Few points are drawn larger, so that they can be seen; many, so that they can be told apart.
  const visible = p.t.length * Math.min(1, span(f.time) / span(f.scene.timeDomain));
  const size = Math.max(1, Math.round((visible < 2500 ? 3 : visible < 20000 ? 2 : 1.5) * f.ratio));
  const { rgba } = bin.scatter({
    points: p,
    filter: { access: f.filter.access, time: null, offset: null },
    time: f.time,
    offset: f.offset,
    width: w,
    height: h,
    colors: f.theme.palette.threads,
    highlight: f.highlight,
    size,
  });
  put(c, rgba, w, h, r);
}

function dimmed(f: Frame, thread: number): boolean {
  return f.highlight.size > 0 && !f.highlight.has(thread);
}

function paintTimeline(c: Context, f: Frame): void {
  const r = f.layout.timeline;
  const bins = Math.max(1, Math.min(400, Math.floor(r.w / 3)));
  const threads = f.scene.threads;
  const filter = { access: f.filter.access, time: null, offset: f.filter.offset ?? f.offset };
  const counts = bin.timeHistogram(f.scene.detail.points, filter, f.time, bins, threads);
  const w = Math.round(r.w * f.ratio);
  const h = Math.round((r.h - 2) * f.ratio);
  const rgba = bin.stack(counts, threads.of.length, w, h, (column) => {
    const thread = threads.of[column];
    return [...threadColor(thread, f.theme.palette), dimmed(f, thread) ? 40 : 255] as const;
  });
  put(c, rgba, w, h, { ...r, y: r.y + 2, h: r.h - 2 });
}

export const STRIP_NAMES = ["first touch", "main user", "node"];

function paintStrips(c: Context, f: Frame): void {
  const pages = f.scene.detail.pages;
  const columns = [pages.first, pages.owner, pages.node];
  f.layout.strips.forEach((r, i) => {
    const w = Math.round(r.w * f.ratio);
    const h = Math.round(r.h * f.ratio);
    const values = bin.strip(pages.page, columns[i], f.scene.detail.pageBytes, f.offset, w, h);
    const rgba = new Uint8ClampedArray(new ArrayBuffer(w * h * 4));
    for (let k = 0; k < values.length; k++) {
      const v = values[k];
      if (v < 0) continue;
      const color = i === 2 ? nodeColor(v, f.theme.palette) : threadColor(v, f.theme.palette);
      rgba.set(color, k * 4);
      rgba[k * 4 + 3] = i !== 2 && dimmed(f, v) ? 40 : 255;
    }
    put(c, rgba, w, h, r);
    c.save();
    c.translate(r.x + r.w / 2, r.y - 6);
    c.rotate(-Math.PI / 2);
    text(c, STRIP_NAMES[i], 0, 0, f.theme.muted);
    c.restore();
  });
}

function paintHeat(c: Context, f: Frame): void {
  const r = f.layout.heat;
  const threads = f.scene.threads;
  const rows = Math.round(r.h * f.ratio);
  const a = f.scene.accesses;
  const heat = bin.heat(a, f.scene.detail.pageBytes, f.offset, threads, rows, Math.round(r.w * f.ratio));
  const colors = ramp(f.theme.palette.dark);
  const rgba = new Uint8ClampedArray(new ArrayBuffer(heat.cells.length * 4));
  for (let k = 0; k < heat.cells.length; k++) {
    if (heat.cells[k] === 0) continue;
    const step = rampStep(heat.cells[k], heat.max) * 3;
    rgba[k * 4] = colors[step];
    rgba[k * 4 + 1] = colors[step + 1];
    rgba[k * 4 + 2] = colors[step + 2];
    rgba[k * 4 + 3] = 255;
  }
  put(c, rgba, heat.columns, heat.rows, r);
  const w = r.w / heat.columns;
  if (w >= 6) {
    c.fillStyle = f.theme.surface;
    for (let x = 1; x < heat.columns; x++) c.fillRect(Math.round(r.x + x * w) - 0.5, r.y, 1, r.h);
  }
  if (f.highlight.size > 0) {
    c.fillStyle = f.theme.veil;
    threads.of.forEach((t, i) => {
      if (dimmed(f, t)) c.fillRect(r.x + (i * r.w) / threads.of.length, r.y, r.w / threads.of.length, r.h);
    });
  }
  paintRampKey(c, f, heat.max, colors);
}

function paintRampKey(c: Context, f: Frame, max: number, colors: Uint8Array): void {
  const r = f.layout.heat;
  if (!(max > 0) || r.w < 210) return;
  const w = 48;
  const label = isCounted(f.scene.object) ? estimate(max) : "many";
  const right = r.x + r.w;
  const x = right - c.measureText(label).width - 5 - w;
  if (x < r.x + c.measureText("Threads × pages").width + 16) return;
  for (let i = 0; i < w; i++) {
    const step = Math.round(((i + 0.5) / w) * 255) * 3;
    c.fillStyle = `rgb(${colors[step]},${colors[step + 1]},${colors[step + 2]})`;
    c.fillRect(x + i, 5, 1.5, 8);
  }
  text(c, isCounted(f.scene.object) ? "0" : "few", x - 5, 9, f.theme.muted, "right");
  text(c, label, right, 9, f.theme.muted, "right");
}

function paintTotals(c: Context, f: Frame): void {
  const r = f.layout.totals;
  const heat = f.layout.heat;
  const threads = f.scene.threads;
  const window = f.filter.offset ?? f.offset;
  const totals = bin.threadTotals(f.scene.accesses, f.scene.detail.pageBytes, window, threads);
  const max = totals.reduce((a, b) => Math.max(a, b), 0);
  const w = r.w / Math.max(1, threads.of.length);
  const every = Math.max(1, Math.ceil(30 / w));
  threads.of.forEach((t, i) => {
    const x = r.x + i * w;
    if (max > 0) {
      const tall = (totals[i] / max) * (r.h - 2);
      c.fillStyle = css(threadColor(t, f.theme.palette));
      c.globalAlpha = dimmed(f, t) ? 0.2 : 1;
      c.fillRect(x + (w >= 6 ? 0.5 : 0), r.y + r.h - tall, w >= 6 ? w - 1.5 : w, tall);
      c.globalAlpha = 1;
    }
    if (i % every === 0 && (w >= 24 || x + c.measureText(`T${t}`).width <= r.x + r.w)) text(c, `T${t}`, w >= 24 ? x + w / 2 : x, heat.y + heat.h + 14, f.theme.muted, w >= 24 ? "center" : "left");
  });
}

/** What lies over the picture and changes with the pointer: brushes and the cross. */
export function paintOverlay(
  c: Context,
  f: Frame,
  brush: { time: Range | null; offset: Range | null },
  cross: { x: number; y: number } | null,
): void {
  c.setTransform(f.ratio, 0, 0, f.ratio, 0, 0);
  c.clearRect(0, 0, c.canvas.width, c.canvas.height);
  const { scatter, timeline, heat, strips } = f.layout;
  if (brush.time) {
    const x0 = clip(toPixel(f.time, brush.time.lo, scatter.w), scatter.w);
    const x1 = clip(toPixel(f.time, brush.time.hi, scatter.w), scatter.w);
    for (const r of [scatter, timeline]) {
      fill(c, { x: r.x, y: r.y, w: x0, h: r.h }, f.theme.veil);
      fill(c, { x: r.x + x1, y: r.y, w: r.w - x1, h: r.h }, f.theme.veil);
    }
    const [top, bottom] = [timeline.y, scatter.y + scatter.h];
    c.strokeStyle = f.theme.accent;
    for (const x of [x0, x1]) line(c, Math.round(scatter.x + x) + 0.5, top, Math.round(scatter.x + x) + 0.5, bottom);
  }
  if (brush.offset) {
    const y0 = clip(toPixel(f.offset, brush.offset.lo, scatter.h), scatter.h);
    const y1 = clip(toPixel(f.offset, brush.offset.hi, scatter.h), scatter.h);
    for (const r of [scatter, heat, ...strips]) {
      fill(c, { x: r.x, y: r.y, w: r.w, h: y0 }, f.theme.veil);
      fill(c, { x: r.x, y: r.y + y1, w: r.w, h: r.h - y1 }, f.theme.veil);
    }
    c.strokeStyle = f.theme.accent;
    for (const y of [y0, y1]) {
      const at = Math.round(scatter.y + y) + 0.5;
      line(c, scatter.x, at, heat.x + heat.w, at);
    }
  }
  if (cross) {
    c.strokeStyle = f.theme.muted;
    c.setLineDash([3, 3]);
    if (cross.y >= scatter.y && cross.y < scatter.y + scatter.h) {
      line(c, scatter.x, Math.round(cross.y) + 0.5, heat.x + heat.w, Math.round(cross.y) + 0.5);
    }
    if (cross.x >= scatter.x && cross.x < scatter.x + scatter.w) {
      line(c, Math.round(cross.x) + 0.5, timeline.y, Math.round(cross.x) + 0.5, scatter.y + scatter.h);
    }
    c.setLineDash([]);
  }
}

function clip(v: number, hi: number): number {
  return Math.min(hi, Math.max(0, v));
}
