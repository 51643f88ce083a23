// Sorting and filtering of the tables.

export type Direction = "ascending" | "descending";

export interface SortOrder {
  key: string;
  direction: Direction;
}

export type SortValue = number | string | null | undefined;

/** A sorted copy. Stable; unknown values come last in both directions. */
export function sorted<T>(rows: readonly T[], value: (row: T) => SortValue, direction: Direction): T[] {
  const sign = direction === "ascending" ? 1 : -1;
  const unknown = (v: SortValue) => v == null || (typeof v === "number" && Number.isNaN(v));
  return [...rows].sort((x, y) => {
    const [a, b] = [value(x), value(y)];
    if (unknown(a) || unknown(b)) return Number(unknown(a)) - Number(unknown(b));
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), "en", { numeric: true });
  });
}

/** The order after a click on a column: numbers begin with the largest, text with A, a second click turns it round. */
export function clicked(now: SortOrder, key: string, numeric: boolean): SortOrder {
  if (now.key === key) return { key, direction: now.direction === "ascending" ? "descending" : "ascending" };
  return { key, direction: numeric ? "descending" : "ascending" };
}

/** True if every word of `query` occurs in `text`, in any case and order. */
export function matches(text: string, query: string): boolean {
  const where = text.toLowerCase();
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => where.includes(word));
}

/** Last part of a path. */
export function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** `main.c:42`, or nothing where the file is unknown. */
export function place(file: string, line: number): string {
  if (!file) return "";
  return line > 0 ? `${baseName(file)}:${line}` : baseName(file);
}
