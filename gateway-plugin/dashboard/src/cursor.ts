// The one time cursor that all panels share, playing, and the window of time that is shown.
import type { Store } from './store';

export const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16] as const;

/** No window is narrower. */
const LEAST_MS = 20_000;

export class Cursor {
  /** It follows the latest frame. */
  live = true;
  playing = false;
  speed = 1;
  /** Where it stands while it does not follow. */
  private fixed_ms = 0;

  constructor(private readonly store: Store) {}

  t_ms(): number {
    const [first, last] = this.ends();
    return this.live ? last : Math.min(last, Math.max(first, this.fixed_ms));
  }

  /** The entry that it shows; -1 when there is none. */
  index(): number {
    return this.store.at(this.t_ms());
  }

  seek(t_ms: number): void {
    this.live = false;
    this.fixed_ms = t_ms;
  }

  /** Follows the latest frame. */
  follow(): void {
    this.live = true;
    this.playing = false;
  }

  pause(): void {
    this.fixed_ms = this.t_ms();
    this.live = false;
    this.playing = false;
  }

  /** Plays from here, from the start when it stands at the end. */
  play(): void {
    const [first, last] = this.ends();
    const now = this.t_ms();
    this.live = false;
    this.playing = true;
    this.fixed_ms = now >= last ? first : now;
  }

  step(by: number): void {
    this.playing = false;
    const { entries } = this.store;
    const at = Math.min(entries.length - 1, Math.max(0, this.index() + by));
    const entry = entries[at];
    if (entry) this.seek(entry.t_ms);
  }

  /** To the next frame in which something happened, or the one before. */
  stepEvent(direction: 1 | -1): void {
    this.playing = false;
    const { entries } = this.store;
    for (let at = this.index() + direction; at >= 0 && at < entries.length; at += direction) {
      const entry = entries[at];
      if (entry && entry.frame.events.length > 0) {
        this.seek(entry.t_ms);
        return;
      }
    }
  }

  home(): void {
    this.playing = false;
    this.seek(this.ends()[0]);
  }

  /** To the last frame; in a live stream that means to follow. */
  end(isLive: boolean): void {
    this.playing = false;
    if (isLive) this.follow();
    else this.seek(this.ends()[1]);
  }

  /** Moves on while playing. When it meets the end it follows a live stream, or stops. */
  tick(elapsed_ms: number, isLive: boolean): boolean {
    if (!this.playing) return false;
    const last = this.ends()[1];
    this.fixed_ms = this.t_ms() + elapsed_ms * this.speed;
    if (this.fixed_ms >= last) {
      this.fixed_ms = last;
      this.playing = false;
      if (isLive) this.follow();
    }
    return true;
  }

  private ends(): [number, number] {
    return [this.store.first()?.t_ms ?? 0, this.store.last()?.t_ms ?? 0];
  }
}

/** The window of time that all panels show. */
export class Window {
  /** `null` shows everything. */
  span_ms: number | null = null;
  from_ms = 0;
  to_ms = 1;

  /** Follows a live cursor; stands still for a fixed one unless that leaves it. */
  update(store: Store, cursor: Cursor): void {
    const [first, last] = [store.first()?.t_ms ?? 0, store.last()?.t_ms ?? 1];
    if (this.span_ms === null) {
      this.from_ms = first;
      this.to_ms = Math.max(last, first + 1000);
      return;
    }
    const t = cursor.t_ms();
    // While less is held than the window is wide, what there is fills it.
    const span = Math.min(this.span_ms, Math.max(last - first, LEAST_MS));
    const keeps = !cursor.live && t >= this.from_ms && t <= this.to_ms && this.to_ms > first && this.from_ms >= first - LEAST_MS;
    if (keeps) return;
    this.to_ms = cursor.live ? last : Math.min(Math.max(last, first + span), t + span / 2);
    this.from_ms = this.to_ms - span;
  }
}

/** `#t=12.5` → 12.5 seconds from the start; `#at=…` → milliseconds since 1970. */
export function readLink(hash: string): { t_s: number } | { at_ms: number } | null {
  const match = /^#(t|at)=(-?\d+(?:\.\d+)?)$/.exec(hash);
  if (!match) return null;
  const value = Number(match[2]);
  return match[1] === 't' ? { t_s: value } : { at_ms: value };
}
