// The other tables: threads, source lines, allocation sites, processes. A row leads back to the object it is about.

import { useMemo } from "preact/hooks";
import { type Line, type Process, type Report, type Site, type Thread } from "../data/types.ts";
import { selectionOf } from "../model/bin.ts";
import { baseName, matches, place } from "../model/table.ts";
import { bytes, count, estimate, seconds } from "../model/units.ts";
import { filterOf } from "../plot/scene.ts";
import { selectObject, toggleThread, useSignal, type State } from "../state.ts";
import { ShareBar, ThreadChip } from "./parts.tsx";
import { Table, type Column } from "./table.tsx";

interface Props {
  report: Report;
  state: State;
}

function cpuList(t: Thread): string {
  const cpus = Object.keys(t.cpus)
    .map(Number)
    .sort((a, b) => a - b);
  const shown = cpus.slice(0, 6).join(", ");
  return cpus.length > 6 ? `${shown}, … (${cpus.length})` : shown || "–";
}

export function Threads(p: Props) {
  const { findings, details } = p.report;
  const query = useSignal(p.state.query);
  const highlight = useSignal(p.state.highlight);
  const object = useSignal(p.state.object);
  const brush = [useSignal(p.state.timeBrush), useSignal(p.state.offsetBrush), useSignal(p.state.access)];
  const detail = details.get(object);
  const total = findings.threads.reduce((sum, t) => sum + t.cost_s, 0);
  const most = findings.threads.reduce((m, t) => Math.max(m, t.cost_s), 0) / (total || 1);
  const chosen = useMemo(() => {
    if (!detail) return null;
    const s = selectionOf(detail.points, filterOf(p.state));
    return { samples: s.samples, by: new Map(s.threads) };
  }, [detail, ...brush]);
  const columns: Column<Thread>[] = [
    { key: "thread", label: "Thread", value: (t) => t.thread, numeric: true, className: "left", cell: (t) => <ThreadChip state={p.state} thread={t.thread} /> },
    { key: "name", label: "Name", value: (t) => t.name, className: "grow", cell: (t) => <span class="ellipsis">{t.name}</span> },
    { key: "tid", label: "TID", numeric: true, value: (t) => t.tid, cell: (t) => String(t.tid), className: "wide-only" },
    { key: "seconds", label: "Time", numeric: true, value: (t) => t.cost_s, cell: (t) => seconds(t.cost_s), title: "Cost of its data accesses" },
    { key: "cost", label: "Cost", numeric: true, value: (t) => t.cost_s, cell: (t) => <ShareBar share={total ? t.cost_s / total : 0} error={t.cost_error ?? null} of={most} /> },
    { key: "samples", label: "Samples", numeric: true, value: (t) => t.samples, cell: (t) => count(t.samples) },
    { key: "reads", label: "Reads", numeric: true, value: (t) => t.reads ?? 0, cell: (t) => estimate(t.reads), className: "wide-only" },
    { key: "writes", label: "Writes", numeric: true, value: (t) => t.writes ?? 0, cell: (t) => estimate(t.writes), className: "wide-only" },
    {
      key: "object",
      label: "In selected object",
      numeric: true,
      title: "Share of the selected object's samples that pass the brushes and the read/write filter",
      value: (t) => chosen?.by.get(t.thread) ?? 0,
      cell: (t) => (chosen?.samples ? <ShareBar share={(chosen.by.get(t.thread) ?? 0) / chosen.samples} /> : "–"),
    },
    { key: "start", label: "Start", numeric: true, value: (t) => t.start_s, cell: (t) => seconds(t.start_s) },
    { key: "end", label: "End", numeric: true, value: (t) => t.end_s, cell: (t) => (t.end_s === null ? "–" : seconds(t.end_s)) },
    { key: "cpus", label: "CPUs", title: "Where it ran when sampled", value: (t) => Object.keys(t.cpus).length, cell: cpuList },
  ];
  const rows = query ? findings.threads.filter((t) => matches(`T${t.thread} ${t.name} ${t.tid}`, query)) : findings.threads;
  return (
    <Table
      label="Threads"
      rows={rows}
      columns={findings.sampler.kind === "exact" ? columns.filter((c) => !["cost", "seconds", "samples", "object"].includes(c.key)) : columns}
      initial={{ key: "thread", direction: "ascending" }}
      id={(t) => t.thread}
      selected={highlight.size === 1 ? [...highlight][0] : null}
      onSelect={(t, e) => toggleThread(p.state, t.thread, e instanceof MouseEvent && (e.ctrlKey || e.metaKey))}
      dim={(t) => highlight.size > 0 && !highlight.has(t.thread)}
      empty="No thread matches."
    />
  );
}

function ObjectLinks(p: Props & { ids: number[] }) {
  const names = p.report.findings.objects;
  return (
    <span class="object-links">
      {p.ids.map((id) => {
        const object = names.find((o) => o.id === id);
        return object ? (
          <button
            key={id}
            type="button"
            class="link ellipsis"
            title={`Show ${object.name}`}
            onClick={(e) => {
              e.stopPropagation();
              selectObject(p.state, id);
            }}
          >
            {object.name}
          </button>
        ) : null;
      })}
    </span>
  );
}

export function Lines(p: Props) {
  const { findings } = p.report;
  const query = useSignal(p.state.query);
  const selected = useSignal(p.state.object);
  const most = findings.lines.reduce((m, l) => Math.max(m, l.cost.share), 0);
  const columns: Column<Line>[] = [
    { key: "function", label: "Function", value: (l) => l.function, className: "grow", cell: (l) => <span class="ellipsis mono" title={l.function}>{l.function}</span> },
    { key: "line", label: "Line", value: (l) => `${l.file}:${l.line}`, cell: (l) => <span class="mono" title={l.file}>{place(l.file, l.line) || baseName(l.module)}</span> },
    { key: "seconds", label: "Time", numeric: true, value: (l) => l.cost.seconds, cell: (l) => seconds(l.cost.seconds) },
    { key: "cost", label: "Cost", numeric: true, value: (l) => l.cost.share, cell: (l) => <ShareBar share={l.cost.share} error={l.cost.error} of={most} /> },
    { key: "objects", label: "Objects", className: "grow", cell: (l) => <ObjectLinks {...p} ids={l.objects} /> },
  ];
  const rows = query ? findings.lines.filter((l) => matches(`${l.function} ${l.file} ${l.line} ${l.module}`, query)) : findings.lines;
  return (
    <Table
      label="Source lines"
      rows={rows}
      columns={columns}
      initial={{ key: "cost", direction: "descending" }}
      id={(l) => `${l.function}|${l.file}|${l.line}|${l.module}`}
      mark={(l) => l.objects.includes(selected)}
      empty={query ? `No line matches “${query}”.` : "No line was sampled."}
    />
  );
}

export function Sites(p: Props) {
  const { findings } = p.report;
  const query = useSignal(p.state.query);
  const selected = useSignal(p.state.object);
  const rows = useMemo(() => findings.sites.map((s, index) => ({ ...s, index })), [findings]);
  type Row = Site & { index: number };
  const most = findings.sites.reduce((m, s) => Math.max(m, s.bytes), 0);
  const columns: Column<Row>[] = [
    {
      key: "function",
      label: "Call site",
      value: (s) => s.site.function,
      className: "grow",
      cell: (s) => (
        <span class="ellipsis" title={s.site.stack.join("\n")}>
          <span class="mono">{s.site.function}</span> <span class="muted">{place(s.site.file, s.site.line)}</span>
        </span>
      ),
    },
    { key: "variable", label: "Variable", value: (s) => s.variable ?? "", cell: (s) => s.variable ?? <span class="muted">–</span>, title: "What the pointer was stored in" },
    { key: "kind", label: "Kind", value: (s) => s.kind, cell: (s) => s.kind },
    { key: "count", label: "Allocations", numeric: true, value: (s) => s.count, cell: (s) => count(s.count) },
    { key: "freed", label: "Freed", numeric: true, value: (s) => s.freed, cell: (s) => count(s.freed) },
    {
      key: "bytes",
      label: "Bytes",
      numeric: true,
      value: (s) => s.bytes,
      cell: (s) => (
        <div class="share">
          <span class="share-bar">
            <span style={{ width: `${most ? (100 * s.bytes) / most : 0}%` }} />
          </span>
          <span class="share-bytes">{bytes(s.bytes)}</span>
        </div>
      ),
    },
    { key: "peak", label: "Peak live", numeric: true, value: (s) => s.peak_bytes, cell: (s) => bytes(s.peak_bytes) },
    { key: "mean", label: "Mean size", numeric: true, value: (s) => s.bytes / s.count, cell: (s) => bytes(s.bytes / s.count) },
    {
      key: "lifetime",
      label: "Lifetime",
      numeric: true,
      value: (s) => s.lifetime?.mean_s ?? Number.NaN,
      title: "From allocation to release, on average; of those that were released",
      cell: (s) =>
        s.lifetime ? (
          <span title={`${seconds(s.lifetime.min_s)} to ${seconds(s.lifetime.max_s)}`}>{seconds(s.lifetime.mean_s)}</span>
        ) : (
          <span class="muted">–</span>
        ),
    },
    { key: "object", label: "Object", className: "grow", cell: (s) => (s.object === null ? <span class="muted">not sampled</span> : <ObjectLinks {...p} ids={[s.object]} />) },
  ];
  const shown = query ? rows.filter((s) => matches(`${s.kind} ${s.variable ?? ""} ${s.site.function} ${s.site.file} ${s.site.stack.join(" ")}`, query)) : rows;
  return (
    <Table
      label="Allocation sites"
      rows={shown}
      columns={columns}
      initial={{ key: "bytes", direction: "descending" }}
      id={(s) => s.index}
      selected={rows.find((s) => s.object === selected)?.index ?? null}
      onSelect={(s) => s.object !== null && selectObject(p.state, s.object)}
      empty={query ? `No call site matches “${query}”.` : "No allocation was seen."}
    />
  );
}

export function Processes(p: Props) {
  const columns: Column<Process>[] = [
    { key: "pid", label: "PID", numeric: true, value: (r) => r.pid, cell: (r) => String(r.pid) },
    { key: "parent", label: "Parent", numeric: true, value: (r) => r.parent, cell: (r) => String(r.parent) },
    { key: "command", label: "Program", className: "grow", value: (r) => r.command, cell: (r) => <span class="ellipsis" title={r.command}>{r.command}</span> },
    { key: "samples", label: "Samples", numeric: true, value: (r) => r.samples, cell: (r) => count(r.samples) },
    { key: "tracked", label: "Allocations", value: (r) => Number(r.tracked), cell: (r) => (r.tracked ? "seen" : <span class="warn">not seen</span>), title: "Whether the library that follows allocations was loaded" },
  ];
  return (
    <Table
      label="Processes"
      rows={p.report.findings.processes}
      columns={columns}
      initial={{ key: "samples", direction: "descending" }}
      id={(r) => r.pid}
      empty="No process."
    />
  );
}
