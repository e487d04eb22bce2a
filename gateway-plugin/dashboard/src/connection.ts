// How the page stands to what it shows: waiting, live, broken, or a playback; and the last line of defence.
//
// A live stream stays live only while good frames come. What the page itself could not bear ends in `broken` with
// `reload`, and nothing leads out of that: what is drawn may be half of something, so it must not look well again.
//
// Not here: where frames come from (`source`), what the states look like (`panel`, `panels/verdict`).

/** Good frames come once a second; without any for so long, the stream counts as broken. */
export const QUIET_MS = 3000;

export type Connection =
  | { kind: 'waiting'; why: string }
  | { kind: 'live' }
  | { kind: 'broken'; since: number; why: string; reload: boolean }
  | { kind: 'playback' };

export class Standing {
  private at: Connection = { kind: 'waiting', why: 'Connecting.' };
  private heard_ms: number;

  constructor(now_ms: number) {
    this.heard_ms = now_ms;
  }

  get connection(): Connection {
    return this.at;
  }

  isOver(): boolean {
    return this.at.kind === 'broken' && this.at.reload;
  }

  /** Since the latest good frame; 0 in playback. */
  quiet_ms(now_ms: number): number {
    return this.at.kind === 'playback' ? 0 : Math.max(0, now_ms - this.heard_ms);
  }

  waiting(why: string): void {
    this.to({ kind: 'waiting', why });
  }

  /** A good frame came. */
  frame(now_ms: number): void {
    if (this.isOver()) return;
    this.heard_ms = now_ms;
    this.to({ kind: 'live' });
  }

  playback(): void {
    this.to({ kind: 'playback' });
  }

  /** The stream broke, or did not come to be. */
  broken(why: string, now_ms: number, hasFrames: boolean): void {
    if (this.at.kind === 'broken' || this.at.kind === 'playback') return;
    if (hasFrames) this.to({ kind: 'broken', since: now_ms, why, reload: false });
    else this.to({ kind: 'waiting', why: `No frame yet: ${why}. Trying again.` });
  }

  /** Time passed. Whether that broke a live stream. */
  tick(now_ms: number): boolean {
    if (this.at.kind !== 'live' || now_ms - this.heard_ms < QUIET_MS) return false;
    this.broken(`no good frame for ${QUIET_MS / 1000} s`, now_ms, true);
    return true;
  }

  /** The page itself failed. */
  failed(why: string, now_ms: number): void {
    if (!this.isOver()) this.at = { kind: 'broken', since: now_ms, why, reload: true };
  }

  private to(next: Connection): void {
    if (!this.isOver()) this.at = next;
  }
}

/** Calls `failed` for every error that nobody caught, and every promise that was rejected and left so. */
export function guard(on: EventTarget, failed: (why: string) => void): void {
  on.addEventListener('error', (event) => {
    const { message, error } = event as Partial<ErrorEvent>;
    // A browser's note that it puts an observer's news off to the next picture; nothing failed.
    if (message?.startsWith('ResizeObserver loop')) return;
    failed(reason(error ?? message));
  });
  on.addEventListener('unhandledrejection', (event) => failed(reason((event as Partial<PromiseRejectionEvent>).reason)));
}

/** What was thrown, as words. */
export function reason(thrown: unknown): string {
  const text = thrown instanceof Error ? thrown.message : typeof thrown === 'string' ? thrown : '';
  return text === '' ? 'an error without a word' : text.slice(0, 200);
}
