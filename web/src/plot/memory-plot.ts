// The memory view: a canvas, an overlay, a tooltip, and what pointer and keys do to them.
//
//   wheel          zoom in time and offset (with Shift: time only, with Alt: offset only)
//   drag           pan; on an axis, the timeline or a strip, or with Shift: brush
//   double click   show everything again
//   arrows + - 0   the same by keyboard

import type { DataObject, ObjectDetail } from "../data/types.ts";
import { fromPixel, ordered, pan, span, zoom, type Range } from "../model/range.ts";
import { clearBrushes, resetZoom, toggleThread, type State } from "../state.ts";
import { layout, regionAt, type Region } from "./layout.ts";
import { paint, paintOverlay, type Frame } from "./paint.ts";
import { filterOf, newScene, type Scene } from "./scene.ts";
import { readTheme, type Theme } from "./theme.ts";
import { tipAt, type Tip } from "./tip.ts";

interface Drag {
  region: Region;
  brush: boolean;
  x: number;
  y: number;
  time: Range;
  offset: Range;
  moved: boolean;
}

const LEAST_TIME = 1e-6;
const LEAST_BYTES = 64;

export class MemoryPlot {
  private readonly canvas = document.createElement("canvas");
  private readonly overlay = document.createElement("canvas");
  private readonly tip = document.createElement("div");
  private readonly stop: (() => void)[] = [];
  private scene: Scene | null = null;
  private frame: Frame | null = null;
  private drag: Drag | null = null;
  private pointer: { x: number; y: number } | null = null;
  private pending = 0;
  private theme: Theme;

  constructor(
    private readonly host: HTMLElement,
    private readonly state: State,
    private readonly object: DataObject,
    private readonly detail: ObjectDetail,
    private readonly wall: number,
    private readonly nodes: boolean,
  ) {
    this.theme = readTheme(state.palette.value);
    this.canvas.className = "plot-canvas";
    this.overlay.className = "plot-overlay";
    this.tip.className = "tip";
    this.tip.hidden = true;
    this.overlay.tabIndex = 0;
    this.overlay.setAttribute("role", "img");
    this.overlay.setAttribute(
      "aria-label",
      `Samples of ${object.name} over time and offset, and accesses by thread and page. Arrow keys pan, plus and minus zoom, 0 resets.`,
    );
    host.append(this.canvas, this.overlay, this.tip);
    this.listen();
    this.rebuild();
  }

  dispose(): void {
    for (const stop of this.stop) stop();
    cancelAnimationFrame(this.pending);
    this.host.replaceChildren();
  }

  private listen(): void {
    const s = this.state;
    const on = <K extends keyof HTMLElementEventMap>(type: K, f: (e: HTMLElementEventMap[K]) => void, passive = true) =>
      this.overlay.addEventListener(type, f, { passive });
    const size = new ResizeObserver(() => this.redraw());
    size.observe(this.host);
    this.stop.push(
      () => size.disconnect(),
      s.access.subscribe(() => this.rebuild()),
      s.timeBrush.subscribe(() => (this.drag ? this.redraw() : this.rebuild())),
      s.offsetBrush.subscribe(() => this.redraw()),
      s.timeWindow.subscribe(() => this.redraw()),
      s.offsetWindow.subscribe(() => this.redraw()),
      s.highlight.subscribe(() => this.redraw()),
      s.palette.subscribe(() => {
        this.theme = readTheme(s.palette.value);
        this.redraw();
      }),
    );
    on("wheel", (e) => this.wheel(e), false);
    on("pointerdown", (e) => this.down(e));
    on("pointermove", (e) => this.move(e));
    on("pointerup", (e) => this.up(e));
    on("pointercancel", () => (this.drag = null));
    on("pointerleave", () => this.leave());
    on("dblclick", () => {
      resetZoom(s);
      clearBrushes(s);
    });
    on("keydown", (e) => this.key(e), false);
  }

  /** After a change of what is counted. */
  private rebuild(): void {
    this.scene = newScene(this.state, this.object, this.detail, this.wall);
    this.redraw();
  }

  private redraw(): void {
    cancelAnimationFrame(this.pending);
    this.pending = requestAnimationFrame(() => this.draw());
  }

  private get time(): Range {
    return this.state.timeWindow.value ?? this.scene?.timeDomain ?? { lo: 0, hi: 1 };
  }

  private get offset(): Range {
    return this.state.offsetWindow.value ?? this.scene?.offsetDomain ?? { lo: 0, hi: 1 };
  }

  private draw(): void {
    const { clientWidth: width, clientHeight: height } = this.host;
    const c = this.canvas.getContext("2d");
    if (!c || !this.scene || width < 300 || height < 150) return;
    const began = performance.now();
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    for (const canvas of [this.canvas, this.overlay]) {
      const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
      if (canvas.width !== w || canvas.height !== h) {
        canvas.width = w;
        canvas.height = h;
      }
    }
    this.frame = {
      scene: this.scene,
      layout: layout(width, height, this.nodes ? 3 : 2, this.scene.threads.of.length),
      theme: this.theme,
      ratio,
      time: this.time,
      offset: this.offset,
      filter: filterOf(this.state),
      highlight: this.state.highlight.value,
      nodes: this.nodes,
    };
    paint(c, this.frame);
    this.drawOverlay();
    // For tests and for whoever asks why it is slow: where things are, and how long this frame took.
    this.host.dataset.layout = JSON.stringify(this.frame.layout);
    this.host.dataset.millis = (performance.now() - began).toFixed(1);
  }

  private drawOverlay(): void {
    const c = this.overlay.getContext("2d");
    if (!c || !this.frame) return;
    const brush = { time: this.state.timeBrush.value, offset: this.state.offsetBrush.value };
    paintOverlay(c, this.frame, brush, this.drag ? null : this.pointer);
  }

  private place(e: MouseEvent): { x: number; y: number } {
    const box = this.overlay.getBoundingClientRect();
    return { x: e.clientX - box.left, y: e.clientY - box.top };
  }

  private wheel(e: WheelEvent): void {
    if (!this.frame || !this.scene) return;
    const { x, y } = this.place(e);
    const region = regionAt(this.frame.layout, x, y);
    if (!region || region === "totals") return;
    e.preventDefault();
    // Shift turns a vertical wheel into a horizontal one in some browsers.
    const delta = (e.deltaY || e.deltaX) * (e.deltaMode === 1 ? 16 : 1);
    const factor = Math.exp(Math.max(-1, Math.min(1, delta * 0.002)));
    const inTime = region === "scatter" || region === "timeline" || region === "timeAxis";
    const inOffset = region !== "timeline" && region !== "timeAxis";
    if (inTime && !e.altKey) this.zoomTime(x - this.frame.layout.scatter.x, factor);
    if (inOffset && !(e.shiftKey && region === "scatter")) this.zoomOffset(y - this.frame.layout.scatter.y, factor);
  }

  private zoomTime(x: number, factor: number): void {
    if (!this.frame || !this.scene) return;
    const at = fromPixel(this.time, x, this.frame.layout.scatter.w);
    this.setTime(zoom(this.time, at, factor, this.scene.timeDomain, LEAST_TIME));
  }

  private zoomOffset(y: number, factor: number): void {
    if (!this.frame || !this.scene) return;
    const at = fromPixel(this.offset, y, this.frame.layout.scatter.h);
    this.setOffset(zoom(this.offset, at, factor, this.scene.offsetDomain, LEAST_BYTES));
  }

  private setTime(r: Range): void {
    const whole = this.scene !== null && span(r) >= span(this.scene.timeDomain) * (1 - 1e-9);
    this.state.timeWindow.value = whole ? null : r;
  }

  private setOffset(r: Range): void {
    const whole = this.scene !== null && span(r) >= span(this.scene.offsetDomain) * (1 - 1e-9);
    this.state.offsetWindow.value = whole ? null : r;
  }

  private down(e: PointerEvent): void {
    if (!this.frame || e.button !== 0) return;
    const { x, y } = this.place(e);
    const region = regionAt(this.frame.layout, x, y);
    if (!region) return;
    const brush = e.shiftKey || !(region === "scatter" || region === "heat" || region === "totals");
    this.drag = { region, brush, x, y, time: this.time, offset: this.offset, moved: false };
    this.overlay.setPointerCapture(e.pointerId);
    this.hideTip();
  }

  private move(e: PointerEvent): void {
    const { x, y } = this.place(e);
    this.pointer = { x, y };
    const region = this.frame && regionAt(this.frame.layout, x, y);
    if (!this.drag) {
      this.overlay.style.cursor = cursorOf(region ?? null, e.shiftKey);
      this.drawOverlay();
      this.showTip(region ?? null, x, y);
      return;
    }
    if (!this.drag.moved && Math.hypot(x - this.drag.x, y - this.drag.y) < 3) return;
    this.drag.moved = true;
    if (this.drag.brush) this.brush(this.drag, x, y);
    else this.panBy(this.drag, x, y);
  }

  private brush(d: Drag, x: number, y: number): void {
    if (!this.frame || !this.scene) return;
    const r = this.frame.layout.scatter;
    const inTime = d.region === "scatter" || d.region === "timeline" || d.region === "timeAxis";
    const inOffset = d.region !== "timeline" && d.region !== "timeAxis";
    if (inTime) {
      const [a, b] = [d.x, x].map((v) => fromPixel(this.time, v - r.x, r.w));
      this.state.timeBrush.value = ordered(a, b, this.scene.timeDomain);
    }
    if (inOffset) {
      const [a, b] = [d.y, y].map((v) => fromPixel(this.offset, v - r.y, r.h));
      this.state.offsetBrush.value = ordered(a, b, this.scene.offsetDomain);
    }
  }

  private panBy(d: Drag, x: number, y: number): void {
    if (!this.frame || !this.scene) return;
    const r = this.frame.layout.scatter;
    if (d.region === "scatter" && this.state.timeWindow.value) {
      this.setTime(pan(d.time, (-(x - d.x) / r.w) * span(d.time), this.scene.timeDomain));
    }
    if (this.state.offsetWindow.value && d.region !== "totals") {
      this.setOffset(pan(d.offset, (-(y - d.y) / r.h) * span(d.offset), this.scene.offsetDomain));
    }
  }

  private up(e: PointerEvent): void {
    const d = this.drag;
    this.drag = null;
    if (!d || !this.frame || !this.scene) return;
    if (!d.moved) this.click(d, e);
    // While a brush is dragged only its frame follows; what it filters is counted once, at the end.
    else if (d.brush) this.rebuild();
  }

  private click(d: Drag, e: PointerEvent): void {
    if (!this.frame || !this.scene) return;
    if (d.region === "heat" || d.region === "totals") {
      const r = this.frame.layout.heat;
      const threads = this.scene.threads.of;
      const thread = threads[Math.floor(((d.x - r.x) / r.w) * threads.length)];
      if (thread !== undefined) toggleThread(this.state, thread, e.ctrlKey || e.metaKey);
    } else if (d.region === "timeline" || d.region === "timeAxis") {
      this.state.timeBrush.value = null;
    } else if (d.region === "strips" || d.region === "offsetAxis") {
      this.state.offsetBrush.value = null;
    }
  }

  private leave(): void {
    this.pointer = null;
    this.hideTip();
    this.drawOverlay();
  }

  /** Zooms both axes round the middle: the buttons of the tool bar. */
  zoomBy(factor: number): void {
    if (!this.frame) return;
    this.zoomTime(this.frame.layout.scatter.w / 2, factor);
    this.zoomOffset(this.frame.layout.scatter.h / 2, factor);
  }

  private key(e: KeyboardEvent): void {
    if (!this.scene || e.ctrlKey || e.metaKey) return;
    const step = 0.15;
    const moves: Record<string, () => void> = {
      "+": () => this.zoomBy(0.7),
      "=": () => this.zoomBy(0.7),
      "-": () => this.zoomBy(1 / 0.7),
      "0": () => resetZoom(this.state),
      ArrowLeft: () => this.panTime(-step),
      ArrowRight: () => this.panTime(step),
      ArrowUp: () => this.panOffset(-step),
      ArrowDown: () => this.panOffset(step),
    };
    const move = moves[e.key];
    if (!move) return;
    e.preventDefault();
    move();
  }

  private panTime(part: number): void {
    if (this.scene) this.setTime(pan(this.time, span(this.time) * part, this.scene.timeDomain));
  }

  private panOffset(part: number): void {
    if (this.scene) this.setOffset(pan(this.offset, span(this.offset) * part, this.scene.offsetDomain));
  }

  private showTip(region: Region | null, x: number, y: number): void {
    const tip = region && this.frame ? tipAt(this.frame, region, x, y) : null;
    if (!tip) return this.hideTip();
    this.tip.replaceChildren(...render(tip));
    this.tip.hidden = false;
    const { clientWidth: w, clientHeight: h } = this.host;
    const [tw, th] = [this.tip.offsetWidth, this.tip.offsetHeight];
    const left = x + 16 + tw > w ? x - 16 - tw : x + 16;
    this.tip.style.left = `${Math.max(0, left)}px`;
    this.tip.style.top = `${Math.max(0, Math.min(h - th, y + 14))}px`;
  }

  private hideTip(): void {
    this.tip.hidden = true;
  }
}

function cursorOf(region: Region | null, shift: boolean): string {
  if (region === "timeline" || region === "timeAxis") return "col-resize";
  if (region === "strips" || region === "offsetAxis") return "row-resize";
  if (region === "totals") return "pointer";
  return region === null ? "default" : shift ? "crosshair" : "grab";
}

function render(tip: Tip): HTMLElement[] {
  const make = (tag: string, className: string, text: string) => {
    const e = document.createElement(tag);
    e.className = className;
    e.textContent = text;
    return e;
  };
  const out = [make("div", "tip-title", tip.title)];
  for (const [label, value, color] of tip.rows) {
    const row = make("div", "tip-row", "");
    const name = make("span", "tip-label", label);
    if (color) {
      const swatch = make("i", "swatch", "");
      swatch.style.background = color;
      name.prepend(swatch);
    }
    row.append(name, make("span", "tip-value", value));
    out.push(row);
  }
  return out;
}
