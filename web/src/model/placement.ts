// What the placement view draws, from plan, predictions and map. Pure.

import type { Bin, ObjectAdvice, PageNodes, PlacementAdvice, Prediction, ThreadNodes } from "../data/placement.ts";

/** A plan must save more than this share of the time to be worth it; crates/advise has the same (SIMPLER). */
const WORTH = 0.01;

/** Objects with less of the accesses to memory are not told of; crates/advise has the same (COLD). */
const COLD = 0.01;

/** Stands for pages that nobody used. */
export const UNUSED = -1;

/** A part of a strip: neighbouring bins whose pages are divided among the nodes alike. */
export interface Segment {
  /** Pages, those included that nobody used. */
  pages: number;
  /** Shares of these pages by node, adding up to 1. */
  parts: { node: number; share: number }[];
}

/** Bins may differ by so much in each share and still count as alike: pages in turn do not fill each bin evenly. */
const ALIKE = 0.1;

/** The strip of an object: its bins from first to last, neighbours that are alike as one. */
export function segments(bins: readonly Bin[], of: Pick<PageNodes, "pages" | "bin_pages">): Segment[] {
  const out: { pages: number; first: Map<number, number>; counts: Map<number, number> }[] = [];
  bins.forEach((bin, i) => {
    const pages = Math.min(of.bin_pages, of.pages - i * of.bin_pages);
    const counts = new Map(bin);
    const unused = pages - bin.reduce((sum, [, n]) => sum + n, 0);
    if (unused > 0) counts.set(UNUSED, unused);
    const shares = new Map([...counts].map(([node, n]) => [node, n / pages]));
    const last = out[out.length - 1];
    if (last && areAlike(last.first, shares)) {
      last.pages += pages;
      for (const [node, n] of counts) last.counts.set(node, (last.counts.get(node) ?? 0) + n);
    } else {
      out.push({ pages, first: shares, counts });
    }
  });
  return out.map(({ pages, counts }) => ({ pages, parts: [...counts].map(([node, n]) => ({ node, share: n / pages })) }));
}

function areAlike(a: Map<number, number>, b: Map<number, number>): boolean {
  return a.size === b.size && [...a].every(([node, share]) => Math.abs(share - (b.get(node) ?? -1)) <= ALIKE);
}

/** Runs that a list names before it is cut short. */
const RUNS = 6;

/** `0–2, 5`; of many runs the first and the last: `0, 16, 32, …, 496 (32)` */
export function ranges(numbers: readonly number[], prefix = ""): string {
  const sorted = [...numbers].sort((a, b) => a - b);
  const runs: [number, number][] = [];
  for (const n of sorted) {
    const last = runs[runs.length - 1];
    if (last && n === last[1] + 1) last[1] = n;
    else runs.push([n, n]);
  }
  const words = runs.map(([a, b]) => (a === b ? `${prefix}${a}` : `${prefix}${a}–${prefix}${b}`));
  if (words.length <= RUNS) return words.join(", ");
  return `${words.slice(0, 3).join(", ")}, …, ${words[words.length - 1]} (${numbers.length})`;
}

/** The threads of a node. */
export function threadsOn(threads: readonly ThreadNodes[], node: number, when: "now" | "planned"): number[] {
  return threads.filter((t) => t[when] === node).map((t) => t.thread);
}

/** The placements to compare: the run without the plan first, if it is none of those that are predicted. */
export function placements(advice: PlacementAdvice): Prediction[] {
  const { plan, predictions } = advice;
  const { now } = plan;
  const isNow = (c: Prediction) => c.threads === now.threads && c.time_s === now.time_s && c.name !== "plan";
  return predictions.candidates.some(isNow) ? predictions.candidates : [now, ...predictions.candidates];
}

/** The placement to choose: the plan, or the first if the run lies well as it was recorded. The plan pins no threads then. */
export function recommended(advice: PlacementAdvice): Prediction | undefined {
  const { now, planned, objects } = advice.plan;
  const isAsGood = now.threads === "as recorded" && objects.every((o) => !o.policy) && now.time_s <= planned.time_s * (1 + WORTH);
  return placements(advice).find((c) => c.name === (isAsGood ? "as recorded" : "plan"));
}

/** True if an object is worth telling of. */
export function matters(o: ObjectAdvice): boolean {
  return o.memory_share >= COLD;
}

/** True if an interval is wide enough to be told: what is known exactly has none. */
export function hasInterval(of: Prediction): boolean {
  return of.high_s - of.low_s > 1e-3 * of.time_s;
}

/** Local share of an object under the plan. */
export function localPlanned(o: ObjectAdvice): number {
  return o.candidates.find((c) => c.policy === o.policy)?.local_share ?? o.local_now;
}

/** Verdict in a word or two. */
export function verdict(o: ObjectAdvice): string {
  const words: Record<string, string> = {
    advised: o.policy,
    weak: `${o.policy}, weak`,
    right: "stays: lies well",
    "no-gain": "stays: no place is 1 % better",
    cold: "stays: hardly accessed",
    small: "stays: caches hold it",
    unknown: "stays: too few samples",
    unplaceable: "stays: no plan can place it",
  };
  return words[o.verdict] ?? o.verdict;
}

/** Where a value is between the least and the most, 0..1; 0 if all are alike. */
export function between(value: number, rows: readonly (readonly number[])[]): number {
  const all = rows.flat();
  const [least, most] = [Math.min(...all), Math.max(...all)];
  return most > least ? (value - least) / (most - least) : 0;
}
