// The frames that are kept: at most an hour at one a second, oldest dropped first, in the order in which they came.
//
// Each gets the time at which it is shown, which never goes back. It is the frame's own until the viewer's clock steps
// back; from then on it is ahead of that by as much, so that nothing that is held is lost or out of order. An event of our
// own tells of the step.
//
// Of large meshes only the latest frames keep their tables; of older ones remains what the ribbon and the lines need, so
// that memory stays bounded whatever the number of gateways.
import { reason } from './connection';
import { Deriver, type Derived } from './derive';
import type { EventView, MeshFrame } from './frame';

export const FRAMES_MAX = 3600;
/** Cells and coverage rows over all frames; one takes some 70 bytes. */
export const ROWS_MAX = 2_000_000;
/** Between live frames further apart than this nothing is known. */
export const GAP_MS = 3500;

export interface Entry {
  frame: MeshFrame;
  /** When it is shown: the frame's time, or later by as much as the viewer's clock stepped back before it. */
  t_ms: number;
  /** Which frame of which source it is: no frame is taken twice. */
  key: string;
  derived: Derived;
  /** Nothing is known of the time between the frame before and this one. */
  gap: boolean;
  /** Its tables were dropped. */
  thin: boolean;
  rows: number;
}

export type Pushed = 'added' | 'repeated' | 'restarted' | 'stepped';

export class Store {
  entries: Entry[] = [];
  /** Counts changes, so that what was drawn can be told from what is there. */
  version = 0;
  dropped = 0;
  private rows = 0;
  private thinned = 0;
  private deriver = new Deriver();
  private keys = new Set<string>();
  /** How far the time that is shown is ahead of the viewer's clock. */
  private ahead_ms = 0;

  constructor(
    private readonly framesMax = FRAMES_MAX,
    private readonly rowsMax = ROWS_MAX,
  ) {}

  push(of: MeshFrame): Pushed {
    const before = this.last();
    const key = `${of.seq} ${of.t_ms} ${viewerLife(of)}`;
    const pushed = before ? this.follows(before, of, key) : 'added';
    if (pushed === 'repeated') return pushed;
    const back_ms = before ? Math.max(0, before.frame.t_ms - of.t_ms) : 0;
    const ahead_ms = before && back_ms > 0 ? before.t_ms + 1 - of.t_ms : this.ahead_ms;
    const news = ownEvents(of, pushed === 'restarted', back_ms);
    const frame = news.length > 0 ? { ...of, events: [...news, ...of.events] } : of;
    const t_ms = of.t_ms + ahead_ms;
    const gap = pushed === 'restarted' || (before !== undefined && t_ms - before.t_ms > GAP_MS && frame.source.kind !== 'simulated');
    const rows = frame.gateways.length ** 2 + frame.workers.length * frame.gateways.length;
    const derived = this.deriver.next(frame, t_ms);
    this.ahead_ms = ahead_ms;
    this.entries.push({ frame, t_ms, key, derived, gap, thin: false, rows });
    this.keys.add(key);
    this.rows += rows;
    this.trim();
    this.version += 1;
    return pushed;
  }

  /** How a frame stands to the last one. A source that restarted counts anew, in another life. */
  private follows({ frame: last }: Entry, of: MeshFrame, key: string): Pushed {
    if (this.keys.has(key)) return 'repeated';
    if (of.seq <= last.seq) return viewerLife(of) === viewerLife(last) && of.t_ms <= last.t_ms ? 'repeated' : 'restarted';
    return of.t_ms < last.t_ms ? 'stepped' : 'added';
  }

  /** Takes over everything that another store holds, and nothing of what was here. */
  adopt(other: Store): void {
    this.entries = other.entries;
    this.rows = other.rows;
    this.thinned = other.thinned;
    this.dropped = other.dropped;
    this.deriver = other.deriver;
    this.keys = other.keys;
    this.ahead_ms = other.ahead_ms;
    this.version += 1;
  }

  last(): Entry | undefined {
    return this.entries[this.entries.length - 1];
  }

  first(): Entry | undefined {
    return this.entries[0];
  }

  /** The latest entry at or before `t_ms`, or the first; -1 when there is none. */
  at(t_ms: number): number {
    let [low, high] = [0, this.entries.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.entries[middle]?.t_ms ?? Infinity) <= t_ms) low = middle + 1;
      else high = middle;
    }
    return this.entries.length === 0 ? -1 : Math.max(0, low - 1);
  }

  /** [first, end) of the entries that a window of time touches. */
  range(from_ms: number, to_ms: number): [number, number] {
    if (this.entries.length === 0) return [0, 0];
    return [Math.max(0, this.at(from_ms)), this.at(to_ms) + 1];
  }

  events(): { event: EventView; index: number }[] {
    return this.entries.flatMap(({ frame }, index) => frame.events.map((event) => ({ event, index })));
  }

  /** Zero of the time that is shown: a simulation's own, else the first frame. */
  origin_ms(): number {
    const first = this.first();
    return first && first.frame.source.kind !== 'simulated' ? first.t_ms : 0;
  }

  private trim(): void {
    while (this.entries.length > this.framesMax) {
      const gone = this.entries.shift();
      this.rows -= gone && !gone.thin ? gone.rows : 0;
      if (gone) this.keys.delete(gone.key);
      this.thinned = Math.max(0, this.thinned - 1);
      this.dropped += 1;
    }
    while (this.rows > this.rowsMax && this.thinned < this.entries.length - 1) {
      const entry = this.entries[this.thinned];
      if (entry) {
        this.rows -= entry.rows;
        thin(entry);
      }
      this.thinned += 1;
    }
  }
}

/** The life of the gateway whose view it is; a simulation has a seed instead. */
function viewerLife(frame: MeshFrame): string {
  return `${frame.source.viewer ?? ''} ${frame.source.seed ?? ''} ${frame.gateways.find(({ me }) => me)?.life ?? ''}`;
}

/** What only whoever keeps frames can tell. */
function ownEvents({ t_ms, source: { viewer } }: MeshFrame, restarted: boolean, back_ms: number): EventView[] {
  const said: EventView[] = [];
  if (restarted) said.push({ t_ms, gateway: viewer, kind: 'life', level: 'warn', text: 'the viewer restarted: its frames count anew' });
  if (back_ms > 0) said.push({ t_ms, gateway: viewer, kind: 'clock', level: 'warn', text: `the clock of the viewer stepped back by ${back_ms / 1000} s; the time shown here goes on` });
  return said;
}

function thin(entry: Entry): void {
  entry.thin = true;
  entry.frame.workers = [];
  for (const gateway of entry.frame.gateways) {
    gateway.sees = [];
    gateway.replica = gateway.traffic = gateway.repair = gateway.propagation = gateway.effect = null;
  }
}

/** What a recording of so many frames lost on its way into the store; nothing when it lost nothing. */
export function lost(frames: number, { entries, dropped }: Store): string {
  const twice = frames - entries.length - dropped;
  const said: string[] = [];
  if (dropped > 0) said.push(`The recording is longer than the ${entries.length} frames that this page keeps: its first ${dropped} are left out.`);
  if (twice > 0) said.push(`Frames that it has twice, or after later ones of the same life, are left out: ${twice}.`);
  return said.join(' ');
}

/** All frames of a recording, kept as a store keeps them, or why they cannot be. */
export function hold(frames: MeshFrame[]): Store | string {
  const held = new Store();
  try {
    for (const frame of frames) held.push(frame);
  } catch (thrown) {
    return `frame ${held.entries.length + held.dropped + 1} of it is more than this page can bear (${reason(thrown)})`;
  }
  return held;
}
