// Small parts that several views use.

import type { ComponentChildren } from "preact";
import { isCostOnly, type Accesses, type ThreadShare } from "../data/types.ts";
import { css, nodeColor, threadColor } from "../model/colors.ts";
import { count, estimate, percent, plusMinus } from "../model/units.ts";
import { toggleThread, useSignal, type State } from "../state.ts";

/** A share with its bar and the half-width of its interval. */
export function ShareBar(p: { share: number; error?: number | null; of?: number; title?: string }) {
  const width = Math.min(100, (100 * p.share) / (p.of && p.of > 0 ? p.of : 1));
  return (
    <div class="share" title={p.title}>
      <span class="share-bar">
        <span style={{ width: `${width}%` }} />
      </span>
      <span class="share-number">{percent(p.share)}</span>
      <span class="share-error">{plusMinus(p.error)}</span>
    </div>
  );
}

/** Which options count accesses where samples alone cannot. */
export const COUNTING =
  "Samples tell of time. Record with --windows to estimate shares of accesses, with --sampler exact to count them.";

/** A share of the accesses, where it is known. */
export function AccessShare(p: { accesses: Accesses; of: number }) {
  const { share, error, reads, writes } = p.accesses;
  if (isCostOnly(p.accesses) || share === null) {
    return (
      <span class="muted" title={COUNTING}>
        cost only
      </span>
    );
  }
  const title = reads === null || writes === null ? undefined : `${estimate(reads)} reads, ${estimate(writes)} writes`;
  return <ShareBar share={share} error={error} of={p.of} title={title} />;
}

/** Threads' shares, side by side in thread order: the same thread is at the same place in every row. */
export function ThreadBar(p: { state: State; shares: ThreadShare[]; by: "cost_share" | "access_share" }) {
  const share = (s: ThreadShare) => s[p.by] ?? 0;
  const palette = useSignal(p.state.palette);
  const highlight = useSignal(p.state.highlight);
  const total = p.shares.reduce((sum, s) => sum + share(s), 0);
  if (total <= 0) return <span class="muted">–</span>;
  const parts = [...p.shares].sort((a, b) => a.thread - b.thread).filter((s) => share(s) / total > 0.001);
  const title = [...p.shares]
    .sort((a, b) => share(b) - share(a))
    .slice(0, 12)
    .map((s) => `T${s.thread}  ${percent(share(s))}`)
    .join("\n");
  return (
    <span class="thread-bar" title={title}>
      {parts.map((s) => (
        <i
          key={s.thread}
          style={{
            width: `${(100 * share(s)) / total}%`,
            background: css(threadColor(s.thread, palette)),
            opacity: highlight.size > 0 && !highlight.has(s.thread) ? 0.15 : 1,
          }}
        />
      ))}
    </span>
  );
}

/** A thread's number and colour; a click highlights it everywhere. */
export function ThreadChip(p: { state: State; thread: number; label?: string; title?: string }) {
  const palette = useSignal(p.state.palette);
  const highlight = useSignal(p.state.highlight);
  const on = highlight.has(p.thread);
  return (
    <button
      type="button"
      class={`chip${highlight.size > 0 && !on ? " dim" : ""}`}
      aria-pressed={on}
      title={p.title ?? `Highlight thread ${p.thread} (Ctrl: several)`}
      onClick={(e) => {
        e.stopPropagation();
        toggleThread(p.state, p.thread, e.ctrlKey || e.metaKey);
      }}
    >
      <i class="swatch" style={{ background: css(threadColor(p.thread, palette)) }} />
      {p.label ?? `T${p.thread}`}
    </button>
  );
}

export function NodeChip(p: { state: State; node: number; children?: ComponentChildren }) {
  const palette = useSignal(p.state.palette);
  return (
    <span class="chip still">
      <i class="swatch" style={{ background: css(nodeColor(p.node, palette)) }} />
      {p.children ?? `N${p.node}`}
    </span>
  );
}

const KIND_NAMES: Record<string, string> = {
  heap: "Allocated on the heap",
  static: "Global or static variable",
  mmap: "Mapped with mmap",
  stack: "Stack of a thread",
  tls: "Thread-local storage",
  annotated: "Named by the program",
};

export function KindBadge(p: { kind: string }) {
  return (
    <span class={`badge kind-${p.kind}`} title={KIND_NAMES[p.kind] ?? p.kind}>
      {p.kind}
    </span>
  );
}

/** A term with an explanation under the pointer and for the keyboard. */
export function Hint(p: { text: string; children: ComponentChildren }) {
  return (
    <span class="hint" tabIndex={0} data-hint={p.text}>
      {p.children}
    </span>
  );
}

/** Shows the rest of a list; nothing if all is shown. */
export function More(p: { of: number; shown: number; onClick: () => void }) {
  if (p.of <= p.shown) return null;
  return (
    <button type="button" class="link" onClick={p.onClick}>
      Show {count(p.of - p.shown)} more
    </button>
  );
}

export function Empty(p: { children: ComponentChildren }) {
  return <p class="empty">{p.children}</p>;
}
