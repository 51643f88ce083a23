// What the memory view shows of one object under the current filters, computed once per change of a filter and not per
// frame: which accesses the heat map counts, which columns it has, what the axes span.

import { pagesOfPoints, threadColumns, type PointFilter, type ThreadColumns } from "../model/bin.ts";
import type { Range } from "../model/range.ts";
import type { DataObject, ObjectDetail, PageAccesses } from "../data/types.ts";
import type { State } from "../state.ts";

export interface Scene {
  object: DataObject;
  detail: ObjectDetail;
  threads: ThreadColumns;
  /** What the heat map counts: all samples, or the drawn ones that pass the filter. */
  accesses: PageAccesses;
  /** True if `accesses` is an estimate from the drawn points, because the filter asks for what pages do not hold. */
  fromPoints: boolean;
  offsetDomain: Range;
  timeDomain: Range;
}

/** The filter of everything but the view that is being brushed. */
export function filterOf(s: State): PointFilter {
  return { access: s.access.value, time: s.timeBrush.value, offset: s.offsetBrush.value };
}

export function newScene(s: State, object: DataObject, detail: ObjectDetail, wall: number): Scene {
  const filter = { ...filterOf(s), offset: null };
  const fromPoints = filter.access !== "all" || filter.time !== null;
  const weight = detail.points.t.length ? detail.pointsOf / detail.points.t.length : 1;
  const last = detail.points.t.length ? detail.points.t[detail.points.t.length - 1] : 0;
  return {
    object,
    detail,
    threads: threadColumns([...detail.pages.thread, ...object.threads.map((t) => t.thread)]),
    accesses: fromPoints ? pagesOfPoints(detail.points, filter, detail.pageBytes, weight) : detail.pages,
    fromPoints,
    offsetDomain: { lo: 0, hi: detail.spanBytes },
    timeDomain: { lo: 0, hi: Math.max(wall, last, 1e-6) },
  };
}
