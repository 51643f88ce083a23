// A table that sorts, and that is walked with the arrow keys. Long ones show their first rows; the rest is one click away.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { clicked, sorted, type SortOrder, type SortValue } from "../model/table.ts";
import { count } from "../model/units.ts";

export interface Column<T> {
  key: string;
  label: string;
  title?: string;
  /** Numbers stand at the right and sort from the largest. */
  numeric?: boolean;
  /** Without it the column cannot be sorted. */
  value?: (row: T) => SortValue;
  cell: (row: T) => ComponentChildren;
  className?: string;
}

interface Props<T> {
  label: string;
  rows: readonly T[];
  columns: Column<T>[];
  initial: SortOrder;
  id: (row: T) => string | number;
  selected?: string | number | null;
  onSelect?: (row: T, e: Event) => void;
  dim?: (row: T) => boolean;
  /** Rows that have to do with what is selected elsewhere. */
  mark?: (row: T) => boolean;
  empty: string;
}

const AT_ONCE = 200;

export function Table<T>(p: Props<T>) {
  const [order, setOrder] = useState(p.initial);
  const [limit, setLimit] = useState(AT_ONCE);
  const by = p.columns.find((c) => c.key === order.key)?.value;
  const rows = by ? sorted(p.rows, by, order.direction) : [...p.rows];
  const shown = rows.slice(0, limit);
  const focusable = shown.findIndex((r) => p.id(r) === p.selected);

  const keys = (e: JSX.TargetedKeyboardEvent<HTMLTableSectionElement>) => {
    const moves: Record<string, (at: number, last: number) => number> = {
      ArrowDown: (at, last) => Math.min(last, at + 1),
      ArrowUp: (at) => Math.max(0, at - 1),
      Home: () => 0,
      End: (_, last) => last,
      Enter: (at) => at,
      " ": (at) => at,
    };
    const row = (e.target as HTMLElement).closest("tr");
    const move = moves[e.key];
    if (!move || !row || e.target !== row) return;
    e.preventDefault();
    const all = [...e.currentTarget.rows].filter((r) => r.tabIndex >= -1 && r.dataset.row !== undefined);
    const next = all[move(all.indexOf(row), all.length - 1)];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
    const to = next && shown[Number(next.dataset.row)];
    if (to) p.onSelect?.(to, e);
  };

  return (
    <table aria-label={p.label}>
      <thead>
        <tr>
          {p.columns.map((c) => (
            <th
              key={c.key}
              scope="col"
              class={`${c.numeric ? "number " : ""}${c.className ?? ""}`}
              aria-sort={order.key === c.key && c.value ? order.direction : undefined}
              title={c.title}
            >
              {c.value ? (
                <button type="button" onClick={() => setOrder(clicked(order, c.key, c.numeric ?? false))}>
                  {c.label}
                  <span class="sort-mark" aria-hidden="true">
                    {order.key === c.key ? (order.direction === "descending" ? "▾" : "▴") : ""}
                  </span>
                </button>
              ) : (
                c.label
              )}
            </th>
          ))}
        </tr>
      </thead>
      <tbody onKeyDown={keys}>
        {shown.map((row, i) => {
          const id = p.id(row);
          const on = p.selected === id;
          return (
            <tr
              key={id}
              data-row={i}
              data-id={id}
              class={`${p.onSelect ? "choosable" : ""}${p.dim?.(row) ? " dim" : ""}${p.mark?.(row) ? " marked" : ""}`}
              aria-selected={p.onSelect ? on : undefined}
              tabIndex={p.onSelect && (on || (focusable < 0 && i === 0)) ? 0 : -1}
              onClick={(e) => p.onSelect?.(row, e)}
            >
              {p.columns.map((c) => (
                <td key={c.key} class={`${c.numeric ? "number " : ""}${c.className ?? ""}`}>
                  {c.cell(row)}
                </td>
              ))}
            </tr>
          );
        })}
        {rows.length === 0 && (
          <tr class="nothing">
            <td colSpan={p.columns.length}>{p.empty}</td>
          </tr>
        )}
        {rows.length > limit && (
          <tr class="nothing">
            <td colSpan={p.columns.length}>
              <button type="button" class="link" onClick={() => setLimit(limit + 5 * AT_ONCE)}>
                Show {count(Math.min(5 * AT_ONCE, rows.length - limit))} more of {count(rows.length)}
              </button>
            </td>
          </tr>
        )}
      </tbody>
    </table>
  );
}
