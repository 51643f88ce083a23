// Ranges of an axis: windows that zoom and pan within a domain, brushes, and the way from a value to a pixel and back.

export interface Range {
  lo: number;
  hi: number;
}

export function span(r: Range): number {
  return r.hi - r.lo;
}

export function contains(r: Range, value: number): boolean {
  return value >= r.lo && value <= r.hi;
}

export function sameRange(a: Range | null, b: Range | null): boolean {
  return a === b || (a !== null && b !== null && a.lo === b.lo && a.hi === b.hi);
}

/** The two ends in order and inside `domain`. */
export function ordered(a: number, b: number, domain: Range): Range {
  const clamp = (v: number) => Math.min(domain.hi, Math.max(domain.lo, v));
  return { lo: clamp(Math.min(a, b)), hi: clamp(Math.max(a, b)) };
}

/** Moves `r` into `domain` without changing its span, unless the span is too large. */
export function within(r: Range, domain: Range): Range {
  const size = Math.min(span(r), span(domain));
  const lo = Math.min(Math.max(r.lo, domain.lo), domain.hi - size);
  return { lo, hi: lo + size };
}

/** Scales `r` by `factor` (< 1 zooms in) round `at`, not below `least` and not beyond `domain`. */
export function zoom(r: Range, at: number, factor: number, domain: Range, least: number): Range {
  const size = Math.min(span(domain), Math.max(Math.min(least, span(domain)), span(r) * factor));
  const ratio = span(r) > 0 ? (at - r.lo) / span(r) : 0.5;
  const lo = at - ratio * size;
  return within({ lo, hi: lo + size }, domain);
}

/** Moves `r` by `by`. */
export function pan(r: Range, by: number, domain: Range): Range {
  return within({ lo: r.lo + by, hi: r.hi + by }, domain);
}

export function toPixel(r: Range, value: number, pixels: number): number {
  return ((value - r.lo) / span(r)) * pixels;
}

export function fromPixel(r: Range, pixel: number, pixels: number): number {
  return r.lo + (pixel / pixels) * span(r);
}
