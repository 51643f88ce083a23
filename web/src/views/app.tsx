// The page: header, threads, a table under tabs, and the memory of the selected object. The tab of placement takes the whole window.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Report } from "../data/types.ts";
import { clearBrushes, clearHighlight, useSignal, type State, type Tab } from "../state.ts";
import { Header } from "./header.tsx";
import { Legend } from "./legend.tsx";
import { Lines, Processes, Sites, Threads } from "./lists.tsx";
import { Memory } from "./memory.tsx";
import { Objects } from "./objects.tsx";
import { Placement } from "./placement.tsx";

const VIEWS = { objects: Objects, threads: Threads, lines: Lines, sites: Sites, processes: Processes, placement: Placement };

function tabsOf(report: Report): [Tab, string, number][] {
  const f = report.findings;
  const tabs: [Tab, string, number][] = [
    ["objects", "Objects", f.objects.length],
    ["threads", "Threads", f.threads.length],
    ["lines", "Lines", f.lines.length],
    ["sites", "Sites", f.sites.length],
  ];
  if (f.processes.length > 1) tabs.push(["processes", "Processes", f.processes.length]);
  const { placement } = report;
  if (placement) tabs.push(["placement", "Placement", placement.advice?.plan.objects.filter((o) => o.policy).length ?? 0]);
  return tabs;
}

export function App(p: { report: Report; state: State }) {
  const { report, state } = p;
  const tab = useSignal(state.tab);
  const filter = useRef<HTMLInputElement>(null);
  const tabs = tabsOf(report);
  const shown = tabs.some(([key]) => key === tab) ? tab : "objects";
  const View = VIEWS[shown];
  const isWhole = shown === "placement";
  const [height, setHeight] = useState(() => Math.min(window.innerHeight * 0.34, 72 + 27 * Math.max(4, report.findings.objects.length)));

  useEffect(() => {
    const keys = (e: KeyboardEvent) => {
      const typing = e.target instanceof HTMLInputElement;
      if (e.key === "/" && !typing) {
        e.preventDefault();
        filter.current?.focus();
      } else if (e.key === "Escape") {
        if (typing) {
          state.query.value = "";
          filter.current?.blur();
        }
        clearBrushes(state);
        clearHighlight(state);
      }
    };
    document.addEventListener("keydown", keys);
    return () => document.removeEventListener("keydown", keys);
  }, []);

  const walk = (e: KeyboardEvent) => {
    const step = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    e.preventDefault();
    const at = tabs.findIndex(([key]) => key === shown);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    state.tab.value = next[0];
    document.getElementById(`tab-${next[0]}`)?.focus();
  };

  return (
    <>
      <Header findings={report.findings} />
      <Legend findings={report.findings} state={state} />
      <main>
        <section class={isWhole ? "tables whole" : "tables"} style={isWhole ? undefined : { height: `${height}px` }}>
          <div class="tab-row">
            <div role="tablist" aria-label="Tables" onKeyDown={walk}>
              {tabs.map(([key, label, n]) => (
                <button
                  key={key}
                  id={`tab-${key}`}
                  type="button"
                  role="tab"
                  aria-selected={key === shown}
                  aria-controls="table-panel"
                  tabIndex={key === shown ? 0 : -1}
                  onClick={() => (state.tab.value = key)}
                >
                  {label} <span class="muted">{n}</span>
                </button>
              ))}
            </div>
            {!isWhole && <FilterBox state={state} box={filter} />}
          </div>
          <div class="table-panel" id="table-panel" role="tabpanel" aria-labelledby={`tab-${shown}`}>
            <View report={report} state={state} />
          </div>
        </section>
        {!isWhole && <Splitter height={height} onHeight={setHeight} />}
        {!isWhole && <Memory report={report} state={state} />}
      </main>
    </>
  );
}

/** Divides the window between the tables and the memory view. */
function Splitter(p: { height: number; onHeight: (height: number) => void }) {
  const drag = useRef<{ y: number; height: number } | null>(null);
  const set = (h: number) => p.onHeight(Math.round(Math.min(window.innerHeight - 460, Math.max(120, h))));
  return (
    <div
      class="splitter"
      role="separator"
      aria-orientation="horizontal"
      aria-label="Height of the table"
      aria-valuenow={Math.round(p.height)}
      tabIndex={0}
      onKeyDown={(e) => {
        const step = e.key === "ArrowDown" ? 27 : e.key === "ArrowUp" ? -27 : 0;
        if (step === 0) return;
        e.preventDefault();
        set(p.height + step);
      }}
      onPointerDown={(e) => {
        drag.current = { y: e.clientY, height: p.height };
        e.currentTarget.setPointerCapture(e.pointerId);
      }}
      onPointerMove={(e) => drag.current && set(drag.current.height + e.clientY - drag.current.y)}
      onPointerUp={() => (drag.current = null)}
      onPointerCancel={() => (drag.current = null)}
    />
  );
}

function FilterBox(p: { state: State; box: { current: HTMLInputElement | null } }) {
  const query = useSignal(p.state.query);
  return (
    <input
      ref={p.box}
      type="search"
      placeholder="Filter ( / )"
      aria-label="Filter the table"
      value={query}
      onInput={(e) => (p.state.query.value = e.currentTarget.value)}
    />
  );
}
