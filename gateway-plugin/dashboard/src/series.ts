// Frames of a window as points on lines.
import type { Entry, Store } from './store';

/** A point in time; no entry where a line must break. */
export interface Point {
  t_ms: number;
  entry: Entry | null;
}

/** The points that a window of time touches, broken where nothing is known. */
export function points(store: Store, from_ms: number, to_ms: number): Point[] {
  const [first, end] = store.range(from_ms, to_ms);
  const found: Point[] = [];
  // One more on the right, so that lines run on to the edge.
  for (const entry of store.entries.slice(first, Math.min(store.entries.length, end + 1))) {
    const before = found[found.length - 1];
    if (entry.gap && before) found.push({ t_ms: before.t_ms + 1, entry: null });
    found.push({ t_ms: Math.max(entry.t_ms, (found[found.length - 1]?.t_ms ?? -1) + 0.001), entry });
  }
  return found;
}

export function pick(list: Point[], value: (entry: Entry) => number | null): (number | null)[] {
  return list.map(({ entry }) => (entry ? value(entry) : null));
}

/** Part over whole, each summed over the `span_ms` up to a point; `null` while the whole is nothing. */
export function trailingRatio(list: Point[], span_ms: number, part: (entry: Entry) => number, whole: (entry: Entry) => number): (number | null)[] {
  let [parts, wholes, start] = [0, 0, 0];
  return list.map(({ t_ms, entry }) => {
    if (!entry) return null;
    parts += part(entry);
    wholes += whole(entry);
    for (let first = list[start]; first && first.t_ms <= t_ms - span_ms; first = list[start]) {
      if (first.entry) {
        parts -= part(first.entry);
        wholes -= whole(first.entry);
      }
      start += 1;
    }
    return wholes > 0 ? parts / wholes : null;
  });
}

/** Entries of the `span_ms` up to a moment. */
export function trailing(store: Store, t_ms: number, span_ms: number): Entry[] {
  const end = store.at(t_ms) + 1;
  let first = end;
  while (first > 0 && (store.entries[first - 1]?.t_ms ?? 0) > t_ms - span_ms) first -= 1;
  return store.entries.slice(first, end);
}
