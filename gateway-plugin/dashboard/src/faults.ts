// Faults as stretches of time, packed into as few lanes as hold them.
import type { FaultView } from './frame';
import type { Entry } from './store';

export interface Stretch {
  kind: string;
  text: string;
  from_ms: number;
  to_ms: number;
  lane: number;
}

/** Faults of one kind, on the same gateways, since the same moment are one. */
export function stretches(entries: Entry[], lanesMax = 8): Stretch[] {
  const open = new Map<string, Stretch>();
  const found: Stretch[] = [];
  const name = (fault: FaultView): string => `${fault.kind}\n${fault.gateways.join()}\n${fault.since_ms}\n${fault.text}`;
  for (const { frame, t_ms } of entries) {
    const now = new Set(frame.faults.map(name));
    for (const [key, stretch] of open) {
      if (now.has(key)) continue;
      stretch.to_ms = t_ms;
      open.delete(key);
    }
    for (const fault of frame.faults) {
      const key = name(fault);
      const known = open.get(key);
      if (known) known.to_ms = t_ms;
      else {
        const made = { kind: fault.kind, text: fault.text || fault.kind, from_ms: Math.min(fault.since_ms + t_ms - frame.t_ms, t_ms), to_ms: t_ms, lane: 0 };
        open.set(key, made);
        found.push(made);
      }
    }
  }
  const ends: number[] = [];
  for (const stretch of found.sort((a, b) => a.from_ms - b.from_ms)) {
    const free = ends.findIndex((end) => end <= stretch.from_ms);
    stretch.lane = free >= 0 ? free : Math.min(ends.length, lanesMax - 1);
    ends[stretch.lane] = Math.max(ends[stretch.lane] ?? 0, stretch.to_ms);
  }
  return found;
}
