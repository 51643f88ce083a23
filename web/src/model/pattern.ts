// How threads share an object, in words; crates/report/src/text/shares.rs says the same in a terminal.

import type { DataObject, InstancePattern, Pattern } from "../data/types.ts";
import { bytes, count, percent, plural } from "./units.ts";

/** `block 4 MiB`, `private, one each for 4 threads`, `unknown: 680 samples, about 2,000 would tell`. */
export function patternWords(o: Pick<DataObject, "pattern" | "instance_patterns">): string {
  return o.instance_patterns.length > 0 ? ofInstances(o.pattern, o.instance_patterns) : ofOne(o.pattern);
}

/** How threads share one instance. */
export function ofOne(p: Pattern): string {
  const block = p.block_bytes > 0 ? ` ${bytes(p.block_bytes)}` : "";
  if (p.kind === "mixed" && p.main_share > 0) return `mostly one thread a page (${percent(p.main_share)})`;
  if (p.kind === "unknown") return `unknown${untold(p)}`;
  const known = ["private", "block", "block-cyclic"].includes(p.kind);
  return `${p.kind}${block}${known && p.confidence < 0.95 ? ` (${percent(p.confidence)})` : ""}`;
}

/** Fewer samples than this are not worth a hint. */
const HINTED = 30;

function untold(p: Pattern): string {
  const needed = p.samples_needed ?? 0;
  return needed > p.samples && p.samples >= HINTED ? `: ${plural(p.samples, "sample")}, about ${count(needed)} would tell` : "";
}

function ofInstances(whole: Pattern, all: InstancePattern[]): string {
  const judged = all.reduce((sum, of) => sum + of.instances, 0);
  const one = (of: InstancePattern) =>
    of.kind === "mixed" ? "mostly one thread a page" : `${of.kind}${of.block_bytes > 0 ? ` ${bytes(of.block_bytes)}` : ""}`;
  const [first] = all;
  if (all.length > 1) {
    const parts = all.slice(0, 3).map((of) => `${one(of)} in ${count(of.instances)}`);
    return `${parts.join(", ")} of ${plural(judged, "instance")}`;
  }
  if (first.kind === "unknown") return `unknown${untold(whole)}`;
  if (first.kind !== "private") return `${one(first)} in each of ${plural(judged, "instance")}`;
  if (first.threads === 1) return "private, all of one thread";
  if (first.threads === judged) return `private, one each for ${plural(first.threads, "thread")}`;
  return `private, each of ${plural(judged, "instance")} has one of ${plural(first.threads, "thread")}`;
}
