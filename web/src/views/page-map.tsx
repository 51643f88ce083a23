// Pages of objects by node: a strip as it is, and one under the plan.

import { useState } from "preact/hooks";
import type { Bin, ObjectAdvice, PageNodes, PlacementAdvice } from "../data/placement.ts";
import { localPlanned, ranges, segments, UNUSED, type Segment } from "../model/placement.ts";
import { bytes, count, percent, plural } from "../model/units.ts";
import { selectObject, useSignal, type State } from "../state.ts";
import { nodeFill } from "./node-fill.ts";
import { More } from "./parts.tsx";

/** Objects that are drawn before one asks for more, most costly first. */
const AT_ONCE = 8;

/** Shares of a strip and of a column from which on there is room for a pattern. */
const WIDE = 0.015;
const HIGH = 0.15;

export function PageMap(p: { advice: PlacementAdvice; state: State }) {
  const { map, plan, machine } = p.advice;
  const palette = useSignal(p.state.palette);
  const selected = useSignal(p.state.object);
  const [most, setMost] = useState(AT_ONCE);
  const shown = map.objects.filter((o, i) => o.pages > 0 && (i < most || o.id === selected));
  return (
    <>
      <p class="node-legend">
        {machine.cpus.map((_, node) => (
          <span key={node} class="node-key">
            <i style={nodeFill(node, palette)} /> node {node}
          </span>
        ))}
        <span class="node-key">
          <i class="unused" /> not used
        </span>
      </p>
      {shown.map((pages) => {
        const object = plan.objects.find((o) => o.id === pages.id);
        return object && <ObjectStrips key={pages.id} pages={pages} object={object} state={p.state} chosen={selected === pages.id} />;
      })}
      <More of={map.objects.length} shown={most} onClick={() => setMost(map.objects.length)} />
    </>
  );
}

function ObjectStrips(p: { pages: PageNodes; object: ObjectAdvice; state: State; chosen: boolean }) {
  const { pages, object } = p;
  const bin = pages.bin_pages === 1 ? "a column is a page" : `a column is ${count(pages.bin_pages)} pages`;
  return (
    <div class={p.chosen ? "strips chosen" : "strips"}>
      <div class="strips-head">
        <button type="button" class="link object" onClick={() => selectObject(p.state, object.id)}>
          {object.name}
        </button>
        {object.policy && <span class="policy">{object.policy}</span>}
        <span class="muted">
          {bytes(pages.pages * pages.page_bytes)}, {plural(pages.pages, "page")}; {bin}
        </span>
      </div>
      <Strip label="now" of={pages} bins={pages.now} local={object.local_now} state={p.state} name={object.name} />
      <Strip label="plan" of={pages} bins={pages.planned} local={localPlanned(object)} state={p.state} name={object.name} />
    </div>
  );
}

function Strip(p: { label: string; of: PageNodes; bins: Bin[]; local: number; state: State; name: string }) {
  const parts = segments(p.bins, p.of);
  const words = `${p.name}, ${p.label}: ${parts.slice(0, 12).map((s) => describe(s)).join("; ")}${parts.length > 12 ? "; …" : ""}`;
  return (
    <div class="strip-row">
      <span class="strip-label">{p.label}</span>
      <div class="strip" role="img" aria-label={words}>
        {parts.map((segment, i) => (
          <SegmentView key={i} segment={segment} share={segment.pages / p.of.pages} state={p.state} />
        ))}
      </div>
      <span class="strip-local">{percent(p.local)} local</span>
    </div>
  );
}

function describe(segment: Segment): string {
  const parts = segment.parts.map((part) => {
    const where = part.node === UNUSED ? "not used" : `node ${part.node}`;
    return segment.parts.length === 1 ? where : `${where} ${percent(part.share)}`;
  });
  return `${plural(segment.pages, "page")}: ${parts.join(", ")}`;
}

function SegmentView(p: { segment: Segment; share: number; state: State }) {
  const palette = useSignal(p.state.palette);
  const { segment } = p;
  const nodes = segment.parts.map((part) => part.node).filter((node) => node !== UNUSED);
  const label = ranges(nodes);
  const isWide = p.share > WIDE;
  // The style sheet hides a number where its column is too narrow.
  const length = ["", "one", "two"][label.length] ?? "long";
  return (
    <div class={isWide ? "segment wide" : "segment"} style={{ flex: `${segment.pages} 0 0` }} title={describe(segment)}>
      {segment.parts.map((part) => (
        <i
          key={part.node}
          class={part.node === UNUSED ? "unused" : ""}
          style={{ flex: `${part.share} 0 0`, ...(part.node === UNUSED ? {} : nodeFill(part.node, palette, isWide && part.share > HIGH)) }}
        />
      ))}
      {isWide && label && <b class={length}>{label}</b>}
    </div>
  );
}
