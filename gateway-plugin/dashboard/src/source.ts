// Where frames come from: a gateway's stream, a playback's recording, a file.
//
// The stream is opened again by hand rather than by the browser, so that the page knows at once that it broke, and asks
// for what it missed.
import { QUIET_MS, reason } from './connection';
import { parseFrame, parseInfo, parseRecording, type Info, type MeshFrame } from './frame';

const AGAIN_MS = [500, 1000, 2000, 4000];
const OPEN_MAX_MS = 8000;

export interface Sink {
  frame(frame: MeshFrame): void;
  /** What came is no frame that this page can read; it counts as none. */
  dropped(why: string): void;
  /** The stream broke, or did not come to be. */
  broken(why: string): void;
}

export async function info(signal?: AbortSignal): Promise<Info | string> {
  try {
    const answer = await fetch('api/info', { cache: 'no-store', ...(signal ? { signal } : {}) });
    if (!answer.ok) return `api/info answers ${answer.status}`;
    return parseInfo(await answer.json());
  } catch {
    return 'nobody answers';
  }
}

export async function recording(): Promise<MeshFrame[] | string> {
  try {
    const answer = await fetch('api/recording', { cache: 'no-store' });
    return answer.ok ? parseRecording(await answer.text()) : `api/recording answers ${answer.status}`;
  } catch {
    return 'nobody answers';
  }
}

export class Live {
  private stream: EventSource | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private watch: ReturnType<typeof setInterval> | undefined;
  private failures = 0;
  private after = 0;
  private heard = 0;
  private opened = 0;
  private stopped = false;

  constructor(private readonly sink: Sink) {}

  start(): void {
    void this.open();
    this.watch = setInterval(() => this.look(), 250);
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
    clearInterval(this.watch);
    this.stream?.close();
    this.stream = null;
  }

  private async open(): Promise<void> {
    this.stream?.close();
    if (this.after > 0) this.after = await this.known();
    if (this.stopped) return;
    this.opened = performance.now();
    const stream = new EventSource(`api/frames?after=${this.after}`);
    this.stream = stream;
    stream.addEventListener('frame', (event) => {
      const frame = parseFrame(String((event as MessageEvent).data));
      if (typeof frame === 'string') {
        this.sink.dropped(frame);
        return;
      }
      this.heard = performance.now();
      this.failures = 0;
      this.after = frame.seq;
      this.sink.frame(frame);
    });
    stream.addEventListener('error', () => this.fail('the stream ended'));
  }

  /** What was seen last, or nothing when the source counts anew: it would leave out what it has counted since. */
  private async known(): Promise<number> {
    try {
      const frame = parseFrame(await (await fetch('api/frame', { cache: 'no-store' })).text());
      return typeof frame === 'string' || frame.seq >= this.after ? this.after : 0;
    } catch {
      return this.after;
    }
  }

  private fail(why: string): void {
    this.stream?.close();
    this.stream = null;
    this.sink.broken(why);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.open(), AGAIN_MS[Math.min(this.failures, AGAIN_MS.length - 1)]);
    this.failures += 1;
  }

  /** A stream may be open and silent. */
  private look(): void {
    const now = performance.now();
    if (!this.stream || now - Math.max(this.heard, this.opened) < QUIET_MS) return;
    this.sink.broken('the stream is silent');
    if (now - Math.max(this.heard, this.opened) > OPEN_MAX_MS) this.fail('the stream is silent');
  }
}

/** Reads a recording that somebody opened or dropped onto the page. */
export async function file(of: File): Promise<MeshFrame[] | string> {
  try {
    return parseRecording(await of.text());
  } catch (thrown) {
    return `the file cannot be read (${reason(thrown)})`;
  }
}
