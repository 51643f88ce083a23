// Where the parts of the memory view lie. One axis of offsets runs down through all of them: samples over time, the strips
// of first touch, main user and node, and the heat map are rows of the same memory.

export interface Rect {
  x: number;
  y: number;
  w: number;
  h: number;
}

export type Region = "scatter" | "timeline" | "strips" | "heat" | "totals" | "offsetAxis" | "timeAxis";

export interface Layout {
  scatter: Rect;
  /** Samples over time, above the scatter. */
  timeline: Rect;
  strips: Rect[];
  heat: Rect;
  /** Accesses by thread, above the heat map. */
  totals: Rect;
  offsetAxis: Rect;
  timeAxis: Rect;
}

export const STRIP_WIDTH = 18;
const AXIS_LEFT = 84;
const AXIS_BOTTOM = 24;
const HEADING = 20;
const MARGINAL = 54;
const GAP = 10;

export function layout(width: number, height: number, strips: number, threads: number): Layout {
  const top = HEADING + MARGINAL + 6;
  const h = Math.max(40, height - top - AXIS_BOTTOM);
  const room = width - AXIS_LEFT - 4;
  const stripsWidth = strips * STRIP_WIDTH + (strips - 1) * 4;
  const most = Math.floor(room * 0.36);
  // Whole pixels per thread where there is room for that: columns of one width.
  const each = Math.max(1, Math.min(60, Math.floor(most / Math.max(1, threads))));
  const heatWidth = threads > most ? most : Math.max(Math.min(most, 220), each * threads);
  const scatterWidth = room - heatWidth - stripsWidth - 2 * GAP;
  const scatter = { x: AXIS_LEFT, y: top, w: scatterWidth, h };
  const heat = { x: width - 4 - heatWidth, y: top, w: heatWidth, h };
  const stripX = scatter.x + scatter.w + GAP;
  return {
    scatter,
    heat,
    timeline: { x: scatter.x, y: HEADING, w: scatter.w, h: MARGINAL },
    totals: { x: heat.x, y: HEADING, w: heat.w, h: MARGINAL },
    strips: Array.from({ length: strips }, (_, i) => ({ x: stripX + i * (STRIP_WIDTH + 4), y: top, w: STRIP_WIDTH, h })),
    offsetAxis: { x: 0, y: top, w: AXIS_LEFT, h },
    timeAxis: { x: scatter.x, y: top + h, w: scatter.w, h: AXIS_BOTTOM },
  };
}

export function inside(r: Rect, x: number, y: number): boolean {
  return x >= r.x && x < r.x + r.w && y >= r.y && y < r.y + r.h;
}

export function regionAt(l: Layout, x: number, y: number): Region | null {
  if (inside(l.scatter, x, y)) return "scatter";
  if (inside(l.heat, x, y)) return "heat";
  if (inside(l.timeline, x, y)) return "timeline";
  if (inside(l.totals, x, y)) return "totals";
  if (inside(l.timeAxis, x, y)) return "timeAxis";
  if (inside(l.offsetAxis, x, y)) return "offsetAxis";
  return l.strips.some((s) => inside(s, x, y)) ? "strips" : null;
}
