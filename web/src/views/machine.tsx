// The machine: latencies and bandwidths from node to node, contention, and the threads and accesses of each node.

import type { PlacementAdvice } from "../data/placement.ts";
import { css, oklab, ramp, type Rgb } from "../model/colors.ts";
import { between, ranges, threadsOn } from "../model/placement.ts";
import { percent, plural } from "../model/units.ts";
import { useSignal, type State } from "../state.ts";
import { nodeFill } from "./node-fill.ts";

/** The end of the ramp that numbers use: its last steps are nearly black or white. */
const STRONGEST = 0.8;

/** More nodes than this make small fields. */
const LARGE = 10;

interface Props {
  advice: PlacementAdvice;
  state: State;
}

export function MachineView(p: Props) {
  const { cpus, latency_ns, bandwidth_gbs, contention, source } = p.advice.machine;
  return (
    <>
      <div class="machine">
        <Matrix title="Latency, ns" rows={latency_ns} columns={cpus.length} state={p.state} />
        {bandwidth_gbs.length > 0 && <Matrix title="Read bandwidth, GB/s" rows={bandwidth_gbs} columns={cpus.length} state={p.state} />}
        {contention.length > 0 && <Contention points={contention} />}
        <div class="node-cards">
          {cpus.map((n, node) => (
            <NodeCard key={node} {...p} node={node} cpus={n} />
          ))}
        </div>
      </div>
      <p class="muted">Source: {source}</p>
    </>
  );
}

/** Numbers from node to node; the ground shows where each is between the least and the most. */
function Matrix(p: { title: string; rows: number[][]; columns: number; state: State }) {
  const palette = useSignal(p.state.palette);
  const colors = ramp(palette.dark);
  const color = (value: number): Rgb => {
    const at = 3 * Math.round(255 * STRONGEST * between(value, p.rows));
    return [colors[at], colors[at + 1], colors[at + 2]];
  };
  return (
    <div class={p.columns > LARGE ? "matrix large" : "matrix"}>
      <table aria-label={`${p.title}, between nodes`}>
        <caption>{p.title}</caption>
        <thead>
          <tr>
            <th scope="col">CPU ╲ memory</th>
            {Array.from({ length: p.columns }, (_, node) => (
              <th key={node} scope="col">
                {node}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {p.rows.map((row, from) => (
            <tr key={from}>
              <th scope="row">{from}</th>
              {row.map((value, to) => {
                const ground = color(value);
                return (
                  <td key={to} style={{ background: css(ground), color: oklab(ground)[0] < 0.6 ? "#fff" : "#000" }}>
                    {value >= 100 ? value.toFixed(0) : value.toFixed(1)}
                  </td>
                );
              })}
              {row.length === 0 && <td colSpan={p.columns}>memory only</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Contention(p: { points: { cpus: number; latency_ns: number }[] }) {
  const most = Math.max(...p.points.map((point) => point.latency_ns));
  return (
    <table class="contention" aria-label="Latency of one node as CPUs load it, in nanoseconds">
      <caption>Latency of one node as CPUs load it, ns</caption>
      <tbody>
        {p.points.map((point) => (
          <tr key={point.cpus}>
            <th scope="row">{plural(point.cpus, "CPU")}</th>
            <td>
              <div style={{ width: `${(100 * point.latency_ns) / most}%` }} />
            </td>
            <td class="number">{point.latency_ns.toFixed(1)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function NodeCard(p: Props & { node: number; cpus: number }) {
  const { map, plan } = p.advice;
  const palette = useSignal(p.state.palette);
  const now = threadsOn(map.threads, p.node, "now");
  const planned = threadsOn(map.threads, p.node, "planned");
  const share = (of: typeof plan.now) => of.nodes.find((n) => n.node === p.node)?.share ?? 0;
  const name = (threads: number[]) => ranges(threads, "T") || "no thread";
  return (
    <div class="node-card">
      <div>
        <i class="swatch" style={nodeFill(p.node, palette)} /> <b>Node {p.node}</b>{" "}
        <span class="muted">{p.cpus > 0 ? plural(p.cpus, "CPU") : "memory only"}</span>
      </div>
      <div class="cpus" aria-hidden="true">
        {Array.from({ length: p.cpus }, (_, i) => (
          <i key={i} class={i < planned.length ? "busy" : ""} />
        ))}
      </div>
      <div>{name(planned)}</div>
      {name(now) !== name(planned) && <div class="muted">now {name(now)}</div>}
      <div class="muted">
        load {percent(share(plan.now))} → {percent(share(plan.planned))}
      </div>
    </div>
  );
}
