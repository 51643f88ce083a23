// What was run, how it was sampled, and what is missing: coverage and losses are never further away than the first line.

import type { Findings } from "../data/types.ts";
import { bytes, count, percent, plural, seconds } from "../model/units.ts";

const SAMPLERS: Record<string, string> = {
  clock: "Clock sampler: registers at a fixed interval of thread time, no PMU. One access is worth one sample; cost is time.",
  pebs: "Intel PEBS: accesses sampled by the processor.",
  ibs: "AMD IBS: instructions sampled by the processor.",
  spe: "Arm SPE: instructions sampled by the processor.",
  exact: "Every access was counted, in an emulator. No time was measured.",
  import: "Imported from another tool.",
};

function Fact(p: { name: string; value: string; title?: string }) {
  return (
    <div class="fact" title={p.title}>
      <dt>{p.name}</dt>
      <dd>{p.value}</dd>
    </div>
  );
}

/** `src/triad 4 100`: the program by its last part, so that the arguments stay in sight. */
function shortCommand(command: string[]): string {
  const [program = "", ...rest] = command;
  return [program.slice(program.lastIndexOf("/") + 1), ...rest].join(" ");
}

export function Header(p: { findings: Findings }) {
  const { run, sampler, losses } = p.findings;
  const started = run.started_unix_s > 0 ? new Date(run.started_unix_s * 1000) : null;
  const exit = run.exit === null ? "still running" : run.exit === 0 ? "0" : `${run.exit}`;
  const leftOut = [
    ...(sampler.only ? [sampler.only === "read" ? "writes" : "reads"] : []),
    ...(run.heap_tracked ? [] : ["allocations"]),
  ];
  const { controls } = sampler;
  const accesses = [...controls.objects, ...controls.ranges];
  const kept = [
    ...(controls.marked ? ["where the program says so"] : []),
    ...(controls.after_s > 0 ? [`from ${seconds(controls.after_s)}`] : []),
    ...(controls.for_s !== null ? [`for ${seconds(controls.for_s)}`] : []),
    ...(controls.in.length > 0 ? [`inside ${controls.in.join(", ")}`] : []),
    ...(accesses.length > 0 ? [`accesses to ${accesses.join(", ")} (${count(controls.left_out)} left out)`] : []),
    ...(controls.thinned > 1 ? [`thinned ${count(controls.thinned)}x`] : []),
  ];
  return (
    <header>
      <div class="header-row">
        <span class="brand">NumaMMA</span>
        <h1 title={run.command.join(" ")}>{shortCommand(run.command)}</h1>
        <dl class="facts">
          <Fact name="Wall time" value={seconds(run.wall_s)} title={started ? `Started ${started.toLocaleString()}` : undefined} />
          <Fact name="Threads" value={count(run.threads)} />
          <Fact
            name="Machine"
            value={`${plural(run.nodes, "node")}, ${plural(run.cpus, "CPU")}`}
            title={`${run.host || "unknown host"}; pages of ${bytes(run.page_bytes)}`}
          />
          <Fact
            name="Sampler"
            value={`${sampler.kind}${sampler.rate_hz > 0 ? `, ${count(sampler.rate_hz)}\u00a0Hz` : ""}`}
            title={SAMPLERS[sampler.kind]}
          />
          {sampler.kind !== "exact" && <Fact name="Overhead" value={`≈\u00a0${percent(sampler.overhead_estimate)}`} title="Share of the run that the sampling itself cost, estimated" />}
          {leftOut.length > 0 && <Fact name="Left out" value={leftOut.join(", ")} title="By the options of the recording: --only, --no-heap" />}
          {kept.length > 0 && <Fact name="Kept" value={kept.join(", ")} title="By the options of the recording: --after, --for, --in, --object, --range, --max-samples" />}
          {run.exit !== 0 && <Fact name="Exit" value={exit} title={run.exit === null ? "The recording ended before the program" : undefined} />}
        </dl>
        <Coverage findings={p.findings} />
      </div>
      {losses.length > 0 && (
        <ul class="losses" aria-label="Losses">
          {losses.map((l) => (
            <li key={l.kind}>
              <b>
                {count(l.count)} {l.kind.replaceAll("_", " ")}
              </b>
              <span>{l.remedy}</span>
            </li>
          ))}
        </ul>
      )}
    </header>
  );
}

/** Reasons of samples that stand for no data access (crates/findings, WITHOUT_ACCESS). */
const WITHOUT_ACCESS = ["no_memory_access", "spin_wait", "recorder"];

const REASON_WORDS: Record<string, string> = {
  no_memory_access: "At no data access",
  spin_wait: "Waiting in a spin loop for another thread",
  recorder: "In NumaMMA's own library",
};

function Coverage(p: { findings: Findings }) {
  const { samples, losses } = p.findings;
  const accesses = Math.max(0, samples.recorded - samples.without_access);
  const share = accesses > 0 ? samples.attributed / accesses : 0;
  // Samples that are no data access are no gap in the answer; they have rows of their own.
  const reasons = Object.entries(samples.unattributed)
    .filter(([reason, n]) => n > 0 && !WITHOUT_ACCESS.includes(reason))
    .sort((a, b) => b[1] - a[1]);
  return (
    <details class="coverage">
      <summary>
        <span class="coverage-bar" aria-hidden="true">
          <span style={{ width: `${100 * share}%` }} />
        </span>
        <span>
          {accesses > 0 ? (
            <>
              <b>{percent(share)}</b> attributed
            </>
          ) : (
            "no data access sampled"
          )}
        </span>
        <span class={losses.length ? "warn" : "muted"}>{losses.length === 0 ? "no loss" : losses.length === 1 ? "1 loss" : `${losses.length} losses`}</span>
      </summary>
      <div class="popover">
        <table>
          <tbody>
            <tr>
              <td>Samples recorded</td>
              <td class="number">{count(samples.recorded)}</td>
              <td />
            </tr>
            {WITHOUT_ACCESS.filter((reason) => samples.unattributed[reason]).map((reason) => (
              <tr key={reason}>
                <td>{REASON_WORDS[reason]}</td>
                <td class="number">{count(samples.unattributed[reason] ?? 0)}</td>
                <td class="number muted">{percent((samples.unattributed[reason] ?? 0) / Math.max(1, samples.recorded))}</td>
              </tr>
            ))}
            <tr>
              <td>Data accesses attributed to an object</td>
              <td class="number">{count(samples.attributed)}</td>
              <td class="number muted">{percent(share)}</td>
            </tr>
          </tbody>
        </table>
        <h3>Not attributed, by reason</h3>
        {reasons.length === 0 ? (
          <p class="muted">Every sample has an object.</p>
        ) : (
          <table>
            <tbody>
              {reasons.map(([reason, n]) => (
                <tr key={reason}>
                  <td>{reason.replaceAll("_", " ")}</td>
                  <td class="number">{count(n)}</td>
                  <td class="number muted">{percent(accesses ? n / accesses : 0)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        <p class="muted">{losses.length === 0 ? "Nothing was lost while recording." : "Losses are listed below the title."}</p>
      </div>
    </details>
  );
}
