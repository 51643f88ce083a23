// What is selected, highlighted, brushed and zoomed: signals that views subscribe to, so that each redraws only for what it
// shows. The views are linked through this file alone.

import { useEffect, useReducer } from "preact/hooks";
import type { AccessFilter } from "./model/bin.ts";
import { newPalette, type Palette } from "./model/colors.ts";
import { sameRange, type Range } from "./model/range.ts";

export class Signal<T> {
  private listeners = new Set<() => void>();

  constructor(
    private current: T,
    private same: (a: T, b: T) => boolean = Object.is,
  ) {}

  get value(): T {
    return this.current;
  }

  set value(next: T) {
    if (this.same(this.current, next)) return;
    this.current = next;
    for (const listener of [...this.listeners]) listener();
  }

  /** Calls `listener` after each change; returns the way to stop it. */
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** The value of a signal; the component renders again when it changes. */
export function useSignal<T>(signal: Signal<T>): T {
  const [, again] = useReducer((n: number) => n + 1, 0);
  useEffect(() => signal.subscribe(() => again(undefined as never)), [signal]);
  return signal.value;
}

const TABS = ["objects", "threads", "lines", "sites", "processes", "placement"] as const;
export type Tab = (typeof TABS)[number];

export interface State {
  /** Id of the object whose memory is shown; -1: none. */
  object: Signal<number>;
  tab: Signal<Tab>;
  /** Text of the filter box. */
  query: Signal<string>;
  /** Threads that stand out; empty: all alike. */
  highlight: Signal<ReadonlySet<number>>;
  access: Signal<AccessFilter>;
  /** Brushed time, for all objects. */
  timeBrush: Signal<Range | null>;
  /** Brushed offsets, for the selected object. */
  offsetBrush: Signal<Range | null>;
  /** Visible time; `null`: all. */
  timeWindow: Signal<Range | null>;
  /** Visible offsets of the selected object; `null`: all. */
  offsetWindow: Signal<Range | null>;
  palette: Signal<Palette>;
}

const NO_THREADS: ReadonlySet<number> = new Set();

export function newState(object: number, threads: number): State {
  return {
    object: new Signal(object),
    tab: new Signal<Tab>("objects"),
    query: new Signal(""),
    highlight: new Signal(NO_THREADS),
    access: new Signal<AccessFilter>("all"),
    timeBrush: new Signal<Range | null>(null, sameRange),
    offsetBrush: new Signal<Range | null>(null, sameRange),
    timeWindow: new Signal<Range | null>(null, sameRange),
    offsetWindow: new Signal<Range | null>(null, sameRange),
    palette: new Signal(newPalette(threads, false)),
  };
}

/** Shows another object: its offsets have another meaning, time has not. */
export function selectObject(s: State, id: number): void {
  if (s.object.value === id) return;
  s.offsetBrush.value = null;
  s.offsetWindow.value = null;
  s.object.value = id;
}

/** Highlights a thread alone, or adds or removes it; the same thread again ends it. */
export function toggleThread(s: State, thread: number, add: boolean): void {
  const now = s.highlight.value;
  if (add) {
    const next = new Set(now);
    if (!next.delete(thread)) next.add(thread);
    s.highlight.value = next;
  } else {
    s.highlight.value = now.size === 1 && now.has(thread) ? NO_THREADS : new Set([thread]);
  }
}

export function clearHighlight(s: State): void {
  s.highlight.value = NO_THREADS;
}

export function clearBrushes(s: State): void {
  s.timeBrush.value = null;
  s.offsetBrush.value = null;
}

export function resetZoom(s: State): void {
  s.timeWindow.value = null;
  s.offsetWindow.value = null;
}

/** Keeps the selection in the address, so that a link to a copy of the file opens at the same place; an address that is edited
 * is followed. */
export function linkToAddress(s: State, objects: ReadonlySet<number>): void {
  const read = () => {
    const from = new URLSearchParams(location.hash.slice(1));
    const id = Number(from.get("object"));
    if (from.has("object") && objects.has(id)) selectObject(s, id);
    const tab = TABS.find((name) => name === from.get("tab"));
    if (tab) s.tab.value = tab;
  };
  const write = () => {
    try {
      history.replaceState(null, "", `#object=${s.object.value}&tab=${s.tab.value}`);
    } catch {
      // Some browsers refuse on file://; the link is a convenience.
    }
  };
  read();
  s.object.subscribe(write);
  s.tab.subscribe(write);
  // Not told of what was written here.
  addEventListener("hashchange", () => {
    read();
    write();
  });
}

/** Follows the theme of the system. */
export function followTheme(s: State, threads: number): void {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => (s.palette.value = newPalette(threads, query.matches));
  query.addEventListener("change", follow);
  follow();
}
