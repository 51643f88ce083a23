// What to do about placement, what it is predicted to bring, and where pages and threads go.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { ObjectAdvice, PlacementAdvice } from "../data/placement.ts";
import type { Report } from "../data/types.ts";
import { hasInterval, matters, recommended, verdict } from "../model/placement.ts";
import { percent, plural, seconds } from "../model/units.ts";
import { selectObject, useSignal, type State } from "../state.ts";
import { Command } from "./command.tsx";
import { MachineView } from "./machine.tsx";
import { PageMap } from "./page-map.tsx";
import { More } from "./parts.tsx";
import { Predicted } from "./predicted.tsx";

/** Objects that are told of before one asks for more. */
const AT_ONCE = 8;

export function Placement(p: { report: Report; state: State }) {
  const page = p.report.placement;
  if (!page?.advice) return <p class="empty">There is no advice on placement: {page?.missing ?? "the page holds none"}.</p>;
  const { advice } = page;
  return (
    <div class="placement">
      <div class="placement-column">
        <Part title="What to do" help="Objects with most accesses to memory come first. A name selects its object in all views.">
          <WhatToDo advice={advice} state={p.state} />
        </Part>
        <Part
          title="Pages without the plan and under it"
          help="Each strip is an object from its first page to its last, coloured by the node that a page lies on; a column with several nodes is divided by their pages."
        >
          <PageMap advice={advice} state={p.state} />
        </Part>
      </div>
      <div class="placement-column">
        <Part
          title={advice.predictions.memory_only ? "Predicted time of accesses to memory" : "Predicted run time"}
          help="A bar is the time with memory placed in one way, a whisker its 95 % interval. Local: accesses to memory of the thread's own node. Imbalance: standard deviation of the nodes' accesses over their mean."
        >
          <Predicted advice={advice} />
        </Part>
        <Part
          title={`Machine ${advice.machine.name}`}
          help="Latency: a load that misses all caches, from a CPU of the row's node to memory of the column's. Nodes: a square is a CPU, filled if a thread runs there under the plan; load is the share of accesses that its memory serves, without the plan and under it."
        >
          <MachineView advice={advice} state={p.state} />
        </Part>
        <Part title="What is assumed" help="docs/MODEL.md has the model.">
          <ul class="assumptions">
            {advice.predictions.assumptions.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </Part>
      </div>
    </div>
  );
}

function Part(p: { title: string; help: string; children: ComponentChildren }) {
  return (
    <section class="placement-part">
      <h2>{p.title}</h2>
      <p class="help">{p.help}</p>
      {p.children}
    </section>
  );
}

function WhatToDo(p: { advice: PlacementAdvice; state: State }) {
  const { plan, commands, machine } = p.advice;
  const selected = useSignal(p.state.object);
  const [most, setMost] = useState(AT_ONCE);
  const told = plan.objects.filter(matters);
  const shown = told.filter((o, i) => i < most || o.id === selected);
  const rest = plan.objects.filter((o) => !matters(o));
  return (
    <>
      <p class="verdict">{summary(p.advice)}</p>
      {plan.waiting_share !== null && (
        <p>Loads waited for memory in {percent(plan.waiting_share)} of the threads' time: only that part depends on where memory lies.</p>
      )}
      {plan.notes.map((text) => (
        <p key={text}>{text}</p>
      ))}
      <Command text={commands.plan} />
      <Command text={commands.apply} note={`on ${machine.name}`} />
      <Command text={commands.compare} note="what was promised, what was reached" />
      <ol class="diagnoses">
        {shown.map((o) => (
          <li key={o.id} class={o.id === selected ? "chosen" : ""}>
            <Diagnosis object={o} state={p.state} explain={commands.explain} />
          </li>
        ))}
      </ol>
      <More of={told.length} shown={most} onClick={() => setMost(told.length)} />
      {rest.length > 0 && (
        <p class="muted">
          {plural(rest.length, "more object")} with {percent(rest.reduce((sum, o) => sum + o.memory_share, 0))} of the accesses to memory.
        </p>
      )}
    </>
  );
}

function summary(advice: PlacementAdvice): string {
  const { plan, predictions } = advice;
  if (recommended(advice)?.name !== "plan") return "Memory and threads stay as they are: no plan makes the run 1 % faster.";
  const { now, planned } = plan;
  const what = plan.memory_only ? "accesses to memory take" : "the run takes";
  const interval = hasInterval(planned) ? ` (${seconds(planned.low_s)} to ${seconds(planned.high_s)})` : "";
  const time = `${what} ${seconds(planned.time_s)}${interval}`;
  const whose = `predicted for ${plural(predictions.threads, "thread")} on ${plan.machine}`;
  if (plan.objects.every((o) => !o.policy)) {
    return `No object needs another place. With threads placed ${planned.threads}, ${time}, ${whose}.`;
  }
  return `Under the plan ${time} instead of ${seconds(now.time_s)}, ${whose}.`;
}

function Diagnosis(p: { object: ObjectAdvice; state: State; explain: string }) {
  const { object } = p;
  const show = () => selectObject(p.state, object.id);
  return (
    <>
      <div class="diagnosis-head">
        <button type="button" class="link object" onClick={show}>
          {object.name}
        </button>
        <span class={object.policy ? "policy" : "muted"}>{verdict(object)}</span>
        <span class="muted">
          {percent(object.memory_share)}
          {object.memory_error === null ? "" : ` ± ${(100 * object.memory_error).toFixed(1)}`} of memory accesses
        </span>
        <button
          type="button"
          class="link"
          onClick={() => {
            show();
            p.state.tab.value = "objects";
          }}
        >
          Show pages
        </button>
      </div>
      <p>
        {object.diagnosis}
        {object.verdict === "weak" && object.alternatives.length > 0 && ` Other samples would call for ${object.alternatives.join(" or ")}.`}
      </p>
      {object.policy && <Command text={`${p.explain}'#${object.id}'`} note={`confidence ${percent(object.confidence)}`} />}
    </>
  );
}
