// Predicted times as bars with whiskers, one row for each placement.

import type { PlacementAdvice, Prediction } from "../data/placement.ts";
import { hasInterval, placements, recommended } from "../model/placement.ts";
import { percent, seconds, timeTicks } from "../model/units.ts";

/** Length of the axis beside the longest whisker: the last tick has room. */
const AXIS = 1.05;
/** Ticks of the axis, at most. */
const TICKS = 5;

export function Predicted(p: { advice: PlacementAdvice }) {
  const { measured_s, memory_only } = p.advice.predictions;
  const candidates = placements(p.advice);
  const best = recommended(p.advice);
  const most = AXIS * Math.max(...candidates.map((c) => c.high_s));
  const ticks = timeTicks(0, most, TICKS);
  const at = (time: number) => `${(100 * time) / most}%`;
  return (
    <>
      <table class="predicted" aria-label="Predicted placements">
        <thead>
          <tr>
            <th scope="col">Placement</th>
            <th scope="col" class="bar-cell" aria-label="Bar" />
            <th scope="col" class="number">
              Time
            </th>
            <th scope="col" class="number" title="Accesses to memory of the thread's own node">
              Local
            </th>
            <th scope="col" class="number" title="Standard deviation of the nodes' accesses over their mean: 0 is balanced">
              Imbalance
            </th>
          </tr>
        </thead>
        <tbody>
          {candidates.map((c) => (
            <tr key={c.name} class={c === best ? "best" : ""}>
              <th scope="row">
                {c.name}
                {c === best && <span class="mark">recommended</span>}
                <span class="sub">threads {c.threads}</span>
              </th>
              <td class="bar-cell">
                <Bar of={c} at={at} />
              </td>
              <td class="number">
                {seconds(c.time_s)}
                <span class="sub">{hasInterval(c) && `${seconds(c.low_s)} – ${seconds(c.high_s)}`}</span>
              </td>
              <td class="number">{percent(1 - c.remote_share)}</td>
              <td class="number">{percent(c.imbalance)}</td>
            </tr>
          ))}
          <tr class="axis" aria-hidden="true">
            <td />
            <td class="bar-cell">
              <div class="axis-ticks">
                {ticks.map((tick, i) => (
                  <span key={tick.value} style={{ left: at(tick.value) }}>
                    {i + 1 < ticks.length ? tick.label.split("\u00a0")[0] : tick.label}
                  </span>
                ))}
              </div>
            </td>
            <td colSpan={3} />
          </tr>
        </tbody>
      </table>
      {memory_only && <p class="muted">Native run times are not known, so only ratios of these times mean something.</p>}
      {measured_s !== null && <p class="muted">The recorded run took {seconds(measured_s)} on its machine.</p>}
    </>
  );
}

function Bar(p: { of: Prediction; at: (time: number) => string }) {
  const { low_s, high_s, time_s, uncertainty } = p.of;
  const causes = uncertainty.map((u) => `${u.cause}: −${seconds(u.below_s)}, +${seconds(u.above_s)}`).join("\n");
  return (
    <div class="time-bar" title={`The interval is made of\n${causes}`}>
      <span class="time-fill" style={{ width: p.at(time_s) }} />
      <span class="whisker" style={{ left: p.at(low_s), width: p.at(high_s - low_s) }} />
    </div>
  );
}
