// The frames that are kept: at most an hour at one a second, oldest dropped first, in the order of time.
//
// Of large meshes only the latest frames keep their tables; of older ones remains what the ribbon and the lines need, so
// that memory stays bounded whatever the number of gateways.
import { Deriver, type Derived } from './derive';
import type { EventView, MeshFrame } from './frame';

export const FRAMES_MAX = 3600;
/** Cells and coverage rows over all frames; one takes some 70 bytes. */
export const ROWS_MAX = 2_000_000;
/** Between live frames further apart than this nothing is known. */
export const GAP_MS = 3500;

export interface Entry {
  frame: MeshFrame;
  derived: Derived;
  /** Nothing is known of the time between the frame before and this one. */
  gap: boolean;
  /** Its tables were dropped. */
  thin: boolean;
  rows: number;
}

export type Pushed = 'added' | 'repeated' | 'restarted' | 'rewound';

export class Store {
  entries: Entry[] = [];
  /** Counts changes, so that what was drawn can be told from what is there. */
  version = 0;
  dropped = 0;
  private rows = 0;
  private thinned = 0;
  private deriver = new Deriver();

  constructor(
    private readonly framesMax = FRAMES_MAX,
    private readonly rowsMax = ROWS_MAX,
  ) {}

  push(frame: MeshFrame): Pushed {
    const last = this.last();
    let pushed: Pushed = 'added';
    if (last) {
      if (frame.seq <= last.frame.seq && frame.t_ms <= last.frame.t_ms) return 'repeated';
      if (frame.seq <= last.frame.seq) pushed = 'restarted';
      // The source's clock was set back: what is held cannot be ordered with what comes.
      if (frame.t_ms < last.frame.t_ms) {
        this.clear();
        pushed = 'rewound';
      }
    }
    const before = this.last();
    const apart = before ? frame.t_ms - before.frame.t_ms : 0;
    const gap = pushed === 'restarted' || (apart > GAP_MS && frame.source.kind !== 'simulated');
    const rows = frame.gateways.length ** 2 + frame.workers.length * frame.gateways.length;
    this.entries.push({ frame, derived: this.deriver.next(frame), gap, thin: false, rows });
    this.rows += rows;
    this.trim();
    this.version += 1;
    return pushed;
  }

  clear(): void {
    this.entries = [];
    this.rows = 0;
    this.thinned = 0;
    this.dropped = 0;
    this.deriver = new Deriver();
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
      if ((this.entries[middle]?.frame.t_ms ?? Infinity) <= t_ms) low = middle + 1;
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
    return first && first.frame.source.kind !== 'simulated' ? first.frame.t_ms : 0;
  }

  private trim(): void {
    while (this.entries.length > this.framesMax) {
      const gone = this.entries.shift();
      this.rows -= gone && !gone.thin ? gone.rows : 0;
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

function thin(entry: Entry): void {
  entry.thin = true;
  entry.frame.workers = [];
  for (const gateway of entry.frame.gateways) {
    gateway.sees = [];
    gateway.replica = gateway.traffic = gateway.repair = gateway.propagation = gateway.effect = null;
  }
}
