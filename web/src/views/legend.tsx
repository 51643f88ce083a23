// The threads and their colours. With few threads each has its name; with many, numbers in small fields.

import type { Findings } from "../data/types.ts";
import { css, DISTINCT_THREADS, threadColor } from "../model/colors.ts";
import { clearHighlight, toggleThread, useSignal, type State } from "../state.ts";
import { Hint, ThreadChip } from "./parts.tsx";

const WITH_NAMES = 8;
/** More threads than this do not get a field of their own to click. */
const FIELDS = 512;

export function Legend(p: { findings: Findings; state: State }) {
  const { threads } = p.findings;
  const highlight = useSignal(p.state.highlight);
  const palette = useSignal(p.state.palette);
  const names = threads.length <= WITH_NAMES && new Set(threads.map((t) => t.name)).size > 1;
  return (
    <div class="legend" role="toolbar" aria-label="Threads">
      <span class="legend-title">Threads</span>
      {palette.scale ? (
        <Scale {...p} />
      ) : (
        <div class="legend-chips">
          {threads.map((t) => (
            <ThreadChip
              key={t.thread}
              state={p.state}
              thread={t.thread}
              label={names ? `T${t.thread} ${t.name}` : `T${t.thread}`}
              title={`${t.name} (tid ${t.tid}); click to highlight, Ctrl for several`}
            />
          ))}
        </div>
      )}
      {highlight.size > 0 && (
        <button type="button" class="link" onClick={() => clearHighlight(p.state)}>
          Show all
        </button>
      )}
    </div>
  );
}

/** Many threads: their colours follow their numbers. */
function Scale(p: { findings: Findings; state: State }) {
  const { threads } = p.findings;
  const palette = useSignal(p.state.palette);
  const highlight = useSignal(p.state.highlight);
  const step = Math.max(1, Math.ceil(threads.length / FIELDS));
  const fields = threads.filter((_, i) => i % step === 0);
  return (
    <>
      <span class="legend-end">T{threads[0].thread}</span>
      <div class="legend-scale">
        {fields.map((t) => (
          <button
            key={t.thread}
            type="button"
            tabIndex={-1}
            aria-pressed={highlight.has(t.thread)}
            title={`T${t.thread} ${t.name}; click to highlight, Ctrl for several`}
            style={{ background: css(threadColor(t.thread, palette)), opacity: highlight.size > 0 && !highlight.has(t.thread) ? 0.2 : 1 }}
            onClick={(e) => toggleThread(p.state, t.thread, e.ctrlKey || e.metaKey)}
          />
        ))}
      </div>
      <span class="legend-end">T{threads[threads.length - 1].thread}</span>
      <Hint
        text={`Up to ${DISTINCT_THREADS} threads have colours of their own. These are more: their colours run along one scale by thread number. Click a thread to tell it from its neighbours.`}
      >
        coloured by number
      </Hint>
    </>
  );
}
