// The selected object: what it is, its memory view, and beside it who shares it, who touched it first and who allocated it.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { isCostOnly, type DataObject, type FirstTouch, type Instance, type ObjectDetail, type Report } from "../data/types.ts";
import { mismatch, selectionOf, type AccessFilter } from "../model/bin.ts";
import { ofOne, patternWords } from "../model/pattern.ts";
import { place } from "../model/table.ts";
import { bytes, count, estimate, percent, plural, plusMinus, seconds } from "../model/units.ts";
import { MemoryPlot } from "../plot/memory-plot.ts";
import { filterOf } from "../plot/scene.ts";
import { clearBrushes, resetZoom, useSignal, type State } from "../state.ts";
import { COUNTING, Empty, Hint, KindBadge, NodeChip, ThreadChip } from "./parts.tsx";

const PATTERNS: Record<string, string> = {
  private: "One thread uses it, or each instance.",
  block: "Each thread uses one contiguous range.",
  "block-cyclic": "Blocks go round the threads in turn.",
  shared: "Threads use each page as they use the whole.",
  mixed: "A page has a main thread, in no one order; or instances differ.",
  unknown: "The samples do not tell.",
};

const BASIS = {
  offset: "Offset: bytes from the first page of the object.",
  instances: "Instances: the pages of all instances, one instance behind the other, oldest first.",
  address:
    "Address: many small instances share pages, so an offset would say nothing. Shown are the distinct pages that hold them, packed one after the other in ascending order of address; gaps between them are left out.",
};

export function Memory(p: { report: Report; state: State }) {
  const { findings, details } = p.report;
  const id = useSignal(p.state.object);
  const object = findings.objects.find((o) => o.id === id);
  if (!object) {
    return (
      <section class="memory">
        <Empty>
          {findings.objects.length > 0
            ? "Select an object to see who touches which part of it, and when."
            : "No data access was attributed to an object. If the program ran only for a moment, record a longer run or a higher --rate."}
        </Empty>
      </section>
    );
  }
  const detail = details.get(id);
  return (
    <section class="memory" aria-label={`Memory of ${object.name}`}>
      <Title object={object} detail={detail} />
      {object.advice && <p class="note warn advice">{object.advice.text}</p>}
      <div class="memory-body">
        <div class="memory-main">
          {detail ? (
            <>
              <Toolbar state={p.state} detail={detail} object={object} />
              <Plot key={id} {...p} object={object} detail={detail} />
            </>
          ) : (
            <Empty>
              The report holds pages and samples of its costliest objects only. For this one:
              <br />
              <code>numamma report DIR --object '{object.name}'</code>
            </Empty>
          )}
        </div>
        <Side {...p} object={object} detail={detail} />
      </div>
    </section>
  );
}

function Title(p: { object: DataObject; detail: ObjectDetail | undefined }) {
  const { object: o } = p;
  const { pattern } = o;
  const where = o.site ? place(o.site.file, o.site.line) : (o.module ?? "");
  return (
    <div class="memory-title">
      <KindBadge kind={o.kind} />
      <h2 title={o.name}>{o.name}</h2>
      {where && !o.name.endsWith(where) && <span class="muted">{where}</span>}
      <span class="title-facts">
        <span>{o.instances > 1 ? `${count(o.instances)} × ≤\u00a0${bytes(o.bytes)}` : bytes(o.bytes)}</span>
        {o.cost.seconds > 0 && (
          <span>
            <b>{seconds(o.cost.seconds)}</b> {percent(o.cost.share)} {plusMinus(o.cost.error)}
          </span>
        )}
        <span>
          {isCostOnly(o.accesses) && <Hint text={COUNTING}>accesses not known</Hint>}
          {!isCostOnly(o.accesses) &&
            (o.accesses.reads === null ? `${percent(o.accesses.share)} ${plusMinus(o.accesses.error)} of the accesses` : `${estimate(o.accesses.reads)} reads, ${estimate(o.accesses.writes)} writes`)}
        </span>
        <Hint text={PATTERNS[pattern.kind] ?? ""}>
          {pattern.kind === "unknown" && "pattern "}
          {patternWords(o)}
        </Hint>
      </span>
    </div>
  );
}

const ESTIMATED =
  "Pages hold the cost of the whole run, or its accesses where they were counted. Under a filter of time or kind the heat map counts the drawn points and scales them up.";

const ACCESS: [AccessFilter, string][] = [
  ["all", "All"],
  ["read", "Reads"],
  ["write", "Writes"],
];

function Toolbar(p: { state: State; detail: ObjectDetail; object: DataObject }) {
  const { state, detail } = p;
  const access = useSignal(state.access);
  const zoomed = [useSignal(state.timeWindow), useSignal(state.offsetWindow)].some((w) => w !== null);
  const filtered = access !== "all";
  const brushed = [useSignal(state.timeBrush), useSignal(state.offsetBrush)].some((b) => b !== null);
  const points = detail.points.t.length;
  return (
    <div class="toolbar" role="toolbar" aria-label="Memory view">
      <div class="segments" role="radiogroup" aria-label="Accesses shown">
        {ACCESS.map(([key, label]) => (
          <button key={key} type="button" role="radio" aria-checked={access === key} onClick={() => (state.access.value = key)}>
            {label}
          </button>
        ))}
      </div>
      <div class="segments" aria-label="Zoom">
        <button type="button" aria-label="Zoom in" title="Zoom in (+, wheel)" onClick={() => zoomHook.current?.zoomBy(0.6)}>
          +
        </button>
        <button type="button" aria-label="Zoom out" title="Zoom out (−, wheel)" onClick={() => zoomHook.current?.zoomBy(1 / 0.6)}>
          −
        </button>
        <button type="button" disabled={!zoomed} title="Show everything (0, double click)" onClick={() => resetZoom(state)}>
          Reset
        </button>
      </div>
      <SelectionNote state={state} detail={detail} />
      <span class="toolbar-end muted">
        {!brushed && (
          <>
            <Hint text={filtered ? ESTIMATED : "Drawn evenly from all accesses of the object that samples show. A sample shows the accesses of its block."}>
              {points < detail.pointsOf ? `${count(points)} of ${plural(detail.pointsOf, "point")}` : plural(points, "point")}
            </Hint>
            <Hint text={BASIS[detail.basis]}>by {detail.basis}</Hint>
          </>
        )}
        <Hint text="Wheel: zoom (Shift: time only, Alt: offset only). Drag: pan. Drag on the time line, an axis or a strip, or with Shift: select a range. Double click: show everything. Keys: arrows, +, −, 0, Esc; / filters the table.">
          ?
        </Hint>
      </span>
    </div>
  );
}

/** The plot on the page, for the buttons of the tool bar. */
const zoomHook: { current: MemoryPlot | null } = { current: null };

/** What the brushes hold. */
function SelectionNote(p: { state: State; detail: ObjectDetail }) {
  const time = useSignal(p.state.timeBrush);
  const offset = useSignal(p.state.offsetBrush);
  const access = useSignal(p.state.access);
  const selection = useMemo(() => selectionOf(p.detail.points, filterOf(p.state)), [p.detail, time, offset, access]);
  if (!time && !offset) return null;
  const ranges = [time && `${seconds(time.lo)} – ${seconds(time.hi)}`, offset && `${bytes(offset.lo)} – ${bytes(offset.hi)}`];
  const n = selection.samples;
  return (
    <span class="selection" aria-live="polite">
      <button type="button" class="link" title="Clear the selection (Esc)" onClick={() => clearBrushes(p.state)}>
        Clear
      </button>
      <b>{ranges.filter(Boolean).join(" · ")}</b>
      <span title={ESTIMATED}>{percent(n / Math.max(1, p.detail.points.t.length))} of points</span>
      {n > 0 && <span>{percent(selection.writes / n)} writes</span>}
      {selection.threads.slice(0, 3).map(([t, k]) => (
        <ThreadChip key={t} state={p.state} thread={t} label={`T${t} ${percent(k / n)}`} />
      ))}
    </span>
  );
}

function Plot(p: { report: Report; state: State; object: DataObject; detail: ObjectDetail }) {
  const host = useRef<HTMLDivElement>(null);
  const { run } = p.report.findings;
  const nodes = run.nodes > 1;
  useEffect(() => {
    if (!host.current) return;
    const plot = new MemoryPlot(host.current, p.state, p.object, p.detail, run.wall_s, nodes);
    zoomHook.current = plot;
    return () => {
      zoomHook.current = null;
      plot.dispose();
    };
  }, [p.object, p.detail]);
  return <div class="plot" ref={host} />;
}

const THREADS_AT_ONCE = 12;

interface Toucher {
  where: FirstTouch;
  pages: number;
  /** Pages by thread, most first. */
  threads: FirstTouch[];
}

/** One row per thread and line; where that makes many, one row per line. */
function touchers(touches: FirstTouch[]): Toucher[] {
  if (touches.length <= THREADS_AT_ONCE) return touches.map((f) => ({ where: f, pages: f.pages, threads: [f] }));
  const byLine = new Map<string, Toucher>();
  for (const f of touches) {
    const key = `${f.function} ${f.file}:${f.line}`;
    const row = byLine.get(key) ?? { where: f, pages: 0, threads: [] };
    row.pages += f.pages;
    row.threads.push(f);
    byLine.set(key, row);
  }
  return [...byLine.values()].sort((a, b) => b.pages - a.pages);
}

function FirstTouches(p: { state: State; touches: FirstTouch[] }) {
  const highlight = useSignal(p.state.highlight);
  if (p.touches.length === 0) {
    return <p class="muted">None was seen: its pages were there before the recording, or the kernel mapped them by other means.</p>;
  }
  const total = p.touches.reduce((sum, f) => sum + f.pages, 0);
  return (
    <table class="small">
      <tbody>
        {touchers(p.touches).slice(0, 40).map((row, i) => (
          <tr key={i} class={highlight.size > 0 && !row.threads.some((f) => highlight.has(f.thread)) ? "dim" : ""}>
            <td title={row.threads.map((f) => `T${f.thread}  ${plural(f.pages, "page")}`).slice(0, 24).join("\n")}>
              <ThreadChip state={p.state} thread={row.threads[0].thread} />
              {row.threads.length > 1 && <span class="muted">+{row.threads.length - 1}</span>}
            </td>
            <td class="grow" title={row.where.recycled ? "As memory of an earlier object: these pages were recycled" : ""}>
              <span class="ellipsis" title={`${row.where.function} ${row.where.file}:${row.where.line}`}>
                <span class="mono">{row.where.function}</span>
              </span>
              <span class="ellipsis muted">
                {place(row.where.file, row.where.line)}
                {row.where.recycled && " (recycled)"}
              </span>
            </td>
            <td class="number">{count(row.pages)}</td>
            <td class="number muted">{percent(row.pages / total)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const INSTANCES_AT_ONCE = 24;

/** The instances of an object; a click shows the pages of one. */
function Instances(p: { state: State; detail: ObjectDetail }) {
  const { state, detail } = p;
  const shown = [...detail.instances].sort((a, b) => b.samples - a.samples).slice(0, INSTANCES_AT_ONCE);
  const rest = detail.instancesOf - shown.length;
  const show = (i: Instance) => {
    if (i.first_page === null) return;
    const lo = i.first_page * detail.pageBytes;
    state.offsetWindow.value = { lo, hi: lo + i.pages * detail.pageBytes };
  };
  return (
    <>
      <h3>Instances</h3>
      <table class="small">
        <tbody>
          {shown.sort((a, b) => a.instance - b.instance).map((i) => (
            <tr key={i.instance}>
              <td>
                <button type="button" class="link" disabled={i.first_page === null} onClick={() => show(i)} title="Show its pages">
                  {i.instance}
                </button>
              </td>
              <td class="number">{bytes(i.bytes)}</td>
              <td>{i.threads[0] && <ThreadChip state={state} thread={i.threads[0].thread} />}</td>
              <td class="grow">
                <span class="ellipsis" title={ofOne(i.pattern)}>
                  {ofOne(i.pattern)}
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {rest > 0 && <p class="muted note">and {count(rest)} with fewer samples</p>}
    </>
  );
}

function Side(p: { report: Report; state: State; object: DataObject; detail: ObjectDetail | undefined }) {
  const { object: o, detail, state } = p;
  const highlight = useSignal(state.highlight);
  const placed = Object.values(o.nodes).reduce((sum, n) => sum + n, 0);
  const wrong = detail ? mismatch(detail.pages.owner, detail.pages.first) : { known: 0, different: 0 };
  // Where many threads use each page, no first toucher would be the right one.
  const owned = ["private", "block", "block-cyclic"].includes(o.pattern.kind);
  return (
    <aside class="side">
      <h3>First touch</h3>
      <FirstTouches state={state} touches={o.first_touch} />
      {wrong.known > 0 && (
        <p class={owned && wrong.different / wrong.known > 0.5 ? "note warn" : "note"}>
          {percent(wrong.different / wrong.known)} of {plural(wrong.known, "page")} were touched first by another thread than their main user.
        </p>
      )}
      {placed > 0 && p.report.findings.run.nodes > 1 && (
        <p class="note nodes">
          {Object.entries(o.nodes).map(([node, n]) => (
            <NodeChip key={node} state={state} node={Number(node)}>
              node {node} {percent(n / placed)}
            </NodeChip>
          ))}
        </p>
      )}
      {detail && detail.instances.length > 0 && <Instances state={state} detail={detail} />}
      <h3>Threads</h3>
      <table class="small">
        <thead>
          <tr>
            <th scope="col" class="grow" />
            <th scope="col" class="number">
              Cost
            </th>
            <th scope="col" class="number">
              Accesses
            </th>
          </tr>
        </thead>
        <tbody>
          {o.threads.slice(0, THREADS_AT_ONCE).map((t) => (
            <tr key={t.thread} class={highlight.size > 0 && !highlight.has(t.thread) ? "dim" : ""}>
              <td>
                <ThreadChip state={state} thread={t.thread} />
              </td>
              <td class="number">
                {percent(t.cost_share)} <span class="share-error">{plusMinus(t.error)}</span>
              </td>
              <td class="number">{percent(t.access_share)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {o.threads.length > THREADS_AT_ONCE && (
        <p class="muted note">and {plural(o.threads.length - THREADS_AT_ONCE, "more thread")}, see the tab Threads</p>
      )}
      {o.site && (
        <>
          <h3>Allocated by</h3>
          <ol class="stack mono">
            {(o.site.stack.length ? o.site.stack : [`${o.site.function} ${place(o.site.file, o.site.line)}`]).map((frame, i) => (
              <li key={i} title={frame}>
                {frame}
              </li>
            ))}
          </ol>
        </>
      )}
      {!o.site && o.module && (
        <>
          <h3>Defined in</h3>
          <p class="note mono">{o.module}</p>
        </>
      )}
    </aside>
  );
}
