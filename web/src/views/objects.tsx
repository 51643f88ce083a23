// The table of objects: what matters, how much, and who touches it.

import { useMemo } from "preact/hooks";
import { writeShare, type DataObject, type Report } from "../data/types.ts";
import { patternWords } from "../model/pattern.ts";
import { matches, place } from "../model/table.ts";
import { bytes, count, estimate, percent, plusMinus, seconds } from "../model/units.ts";
import { selectObject, useSignal, type State } from "../state.ts";
import { AccessShare, KindBadge, ShareBar, ThreadBar, ThreadChip } from "./parts.tsx";
import { Table, type Column } from "./table.tsx";

function searchText(o: DataObject): string {
  return `${o.name} ${o.kind} ${o.module ?? ""} ${o.pattern.kind} ${o.site?.function ?? ""} ${o.site?.file ?? ""}`;
}

function FirstToucher(p: { object: DataObject; state: State }) {
  const first = p.object.first_touch[0];
  if (!first) return <span class="muted">–</span>;
  const where = [first.function, place(first.file, first.line)].filter(Boolean).join(" ");
  const touchers = new Set(p.object.first_touch.map((f) => f.thread)).size;
  const others = p.object.first_touch.length - 1;
  return (
    <span class="first" title={`${where}${others > 0 ? ` and ${others} more` : ""}`}>
      <ThreadChip state={p.state} thread={first.thread} />
      {touchers > 1 && <span class="muted">+{touchers - 1}</span>}
      <span class="ellipsis">{where}</span>
    </span>
  );
}

export function Objects(p: { report: Report; state: State }) {
  const { findings, details } = p.report;
  const query = useSignal(p.state.query);
  const selected = useSignal(p.state.object);
  const brush = useSignal(p.state.timeBrush);
  const multi = findings.run.nodes > 1 || findings.objects.some((o) => o.remote.share > 0);
  // Counted accesses have no cost.
  const exact = findings.sampler.kind === "exact";
  const mostCost = findings.objects.reduce((m, o) => Math.max(m, o.cost.share), 0);
  const mostAccesses = findings.objects.reduce((m, o) => Math.max(m, o.accesses.share ?? 0), 0);

  /** Samples of each object in the brushed time, estimated from the drawn points. */
  const inRange = useMemo(() => {
    const out = new Map<number, number>();
    if (!brush) return out;
    for (const [id, d] of details) {
      let n = 0;
      for (const t of d.points.t) if (t >= brush.lo && t <= brush.hi) n++;
      out.set(id, d.points.t.length ? (n * d.pointsOf) / d.points.t.length : 0);
    }
    return out;
  }, [brush, details]);

  const columns: Column<DataObject>[] = [
    {
      key: "name",
      label: "Object",
      value: (o) => o.name,
      className: "grow",
      cell: (o) => (
        <span class="object-name" title={o.module ? `${o.name} in ${o.module}` : o.name}>
          <KindBadge kind={o.kind} />
          <span class="ellipsis">{o.name}</span>
          {o.instances > 1 && (
            <span class="muted" title={`${count(o.instances)} instances`}>
              ×{count(o.instances)}
            </span>
          )}
        </span>
      ),
    },
    { key: "bytes", label: "Size", numeric: true, value: (o) => o.bytes, cell: (o) => bytes(o.bytes), title: "The largest instance" },
    { key: "pages", label: "Pages", numeric: true, value: (o) => o.pages, cell: (o) => count(o.pages), title: "Distinct pages accessed or first touched", className: "wide-only" },
    { key: "seconds", label: "Time", numeric: true, value: (o) => o.cost.seconds, cell: (o) => seconds(o.cost.seconds), title: "Thread time spent waiting for it" },
    {
      key: "cost",
      label: "Cost",
      numeric: true,
      value: (o) => o.cost.share,
      title: "Share of the cost of all data accesses, ± half-width of the 95 % interval in points",
      cell: (o) => <ShareBar share={o.cost.share} error={o.cost.error} of={mostCost} />,
    },
    {
      key: "accesses",
      label: "Accesses",
      numeric: true,
      value: (o) => o.accesses.share ?? 0,
      title: "Share of all data accesses, ± half-width of the 95 % interval in points",
      cell: (o) => <AccessShare accesses={o.accesses} of={mostAccesses} />,
    },
  ];
  if (exact) {
    columns.push({
      key: "writes",
      label: "Writes",
      numeric: true,
      className: "wide-only",
      title: "Writes among its accesses",
      value: (o) => writeShare(o.accesses) ?? Number.NaN,
      cell: (o) => percent(writeShare(o.accesses)),
    });
  }
  if (multi) {
    columns.push({
      key: "remote",
      label: "Remote",
      numeric: true,
      value: (o) => o.remote.share,
      title: "Accesses from another node than the page's, among those whose node is known",
      cell: (o) => <span>{percent(o.remote.share)} <span class="share-error">{plusMinus(o.remote.error ?? null)}</span></span>,
    });
  }
  if (brush) {
    columns.push({
      key: "range",
      label: "In range",
      numeric: true,
      value: (o) => inRange.get(o.id) ?? null,
      title: `Samples between ${seconds(brush.lo)} and ${seconds(brush.hi)}; – where the report holds no points`,
      cell: (o) => (inRange.has(o.id) ? estimate(inRange.get(o.id) ?? 0) : "–"),
    });
  }
  columns.push(
    {
      key: "threads",
      label: "Threads",
      title: `Threads' shares of its ${exact ? "accesses" : "cost"}; sorts by their number`,
      value: (o) => o.threads.length,
      cell: (o) => <ThreadBar state={p.state} shares={o.threads} by={exact ? "access_share" : "cost_share"} />,
    },
    {
      key: "first",
      label: "First touch",
      title: "The thread and line that touched most of its pages first",
      className: "wide-only",
      value: (o) => o.first_touch[0]?.thread ?? null,
      cell: (o) => <FirstToucher object={o} state={p.state} />,
    },
    {
      key: "pattern",
      label: "Pattern",
      value: (o) => o.pattern.kind,
      cell: (o) => <span title={patternWords(o)}>{o.pattern.kind}</span>,
    },
  );

  const rows = query ? findings.objects.filter((o) => matches(searchText(o), query)) : findings.objects;
  return (
    <Table
      label="Objects"
      rows={rows}
      columns={exact ? columns.filter((c) => c.key !== "cost" && c.key !== "seconds") : columns}
      initial={{ key: exact ? "accesses" : "cost", direction: "descending" }}
      id={(o) => o.id}
      selected={selected}
      onSelect={(o) => selectObject(p.state, o.id)}
      empty={query ? `No object matches “${query}”.` : "No sample could be attributed to an object."}
    />
  );
}

