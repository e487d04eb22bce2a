import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { QUIET_MS, Standing, guard, reason } from '../src/connection';
import type { MeshFrame } from '../src/frame';
import { standing } from '../src/panels/verdict';
import { Live } from '../src/source';
import { Store, hold, lost } from '../src/store';
import { frame } from './made';

describe('the standing', () => {
  it('is live only while good frames come', () => {
    const of = new Standing(0);
    of.frame(1000);
    expect([of.tick(1000 + QUIET_MS - 1), of.connection.kind]).toEqual([false, 'live']);
    expect([of.tick(1000 + QUIET_MS), of.connection.kind]).toEqual([true, 'broken']);
    of.frame(5000);
    expect(of.connection.kind).toBe('live');
    expect(of.quiet_ms(5400)).toBe(400);
  });
  it('is waiting, not broken, before the first frame', () => {
    const of = new Standing(0);
    of.broken('nobody answers', 10, false);
    expect(of.connection).toMatchObject({ kind: 'waiting', why: expect.stringContaining('nobody answers') });
  });
  it('of a playback does not break with a stream, and is not old', () => {
    const of = new Standing(0);
    of.playback();
    of.broken('the stream ended', 10, true);
    expect([of.connection.kind, of.quiet_ms(99_999), of.tick(99_999)]).toEqual(['playback', 0, false]);
  });
  it('never recovers from a failure of the page', () => {
    for (const first of ['live', 'playback', 'waiting'] as const) {
      const of = new Standing(0);
      if (first === 'live') of.frame(1);
      if (first === 'playback') of.playback();
      of.failed('x is undefined', 2);
      of.frame(3);
      of.playback();
      of.waiting('again');
      of.broken('the stream ended', 4, true);
      of.failed('another', 5);
      expect(of.connection, first).toEqual({ kind: 'broken', since: 2, why: 'x is undefined', reload: true });
      expect(of.isOver()).toBe(true);
    }
  });
});

describe('the verdict', () => {
  const { verdict } = frame(1, 1000);
  it('is grey once the stream broke, but the past stays what it was', () => {
    const broken = { kind: 'broken', since: 0, why: 'x', reload: false } as const;
    expect(standing(verdict, { kind: 'live' }, false, 0).word).toBe('converged');
    expect(standing(verdict, broken, false, 4000).word).toBe('unknown');
    expect(standing(verdict, broken, true, 4000).word).toBe('converged');
  });
  it('is grey whatever it is of once the page failed', () => {
    for (const isPast of [true, false]) expect(standing(verdict, { kind: 'broken', since: 0, why: 'x', reload: true }, isPast, 0)).toMatchObject({ word: 'unknown', why: expect.stringContaining('Reload') });
  });
});

describe('the guard', () => {
  const said = (event: Event, more: object): string[] => {
    const [target, heard] = [new EventTarget(), [] as string[]];
    guard(target, (why) => heard.push(why));
    target.dispatchEvent(Object.assign(event, more));
    return heard;
  };
  it('hears of errors that nobody caught and promises that nobody kept', () => {
    expect(said(new Event('error'), { message: 'Uncaught', error: new TypeError('of null') })).toEqual(['of null']);
    expect(said(new Event('error'), { message: 'Script error.' })).toEqual(['Script error.']);
    expect(said(new Event('unhandledrejection'), { reason: new Error('refused') })).toEqual(['refused']);
    expect(said(new Event('unhandledrejection'), { reason: undefined })).toEqual(['an error without a word']);
  });
  it('takes no note of a browser for an error', () => {
    expect(said(new Event('error'), { message: 'ResizeObserver loop completed with undelivered notifications.' })).toEqual([]);
  });
  it('says little of what was thrown', () => {
    expect([reason('why'), reason({}), reason(new Error('x'.repeat(900))).length]).toEqual(['why', 'an error without a word', 200]);
  });
});

describe('a recording', () => {
  it('is kept as a whole, or not at all', () => {
    expect((hold([frame(1, 1000), frame(2, 2000)]) as Store).entries).toHaveLength(2);
    expect(hold([frame(1, 1000), { ...frame(2, 2000), gateways: [null] } as unknown as MeshFrame])).toMatch(/^frame 2 of it is more than this page can bear/);
  });
});

describe('what a recording lost', () => {
  it('is told, and nothing else', () => {
    const of = (seed: number, seq: number): MeshFrame => ({ ...frame(seq, seq * 500, undefined, undefined, { kind: 'simulated' }), source: { ...frame(1, 1).source, kind: 'simulated', viewer: null, seed } });
    const two = [of(1, 1), of(1, 2), of(2, 1), of(2, 2)];
    expect(lost(4, hold(two) as Store)).toBe('');
    expect((hold(two) as Store).entries.map(({ t_ms }) => t_ms)).toEqual([500, 1000, 1001, 1501]);
    expect(lost(5, hold([of(1, 1), of(1, 2), of(1, 2), of(1, 1), of(1, 3)]) as Store)).toContain('left out: 2.');
    const short = new Store(2);
    two.forEach((one) => short.push(one));
    expect(lost(4, short)).toContain('its first 2 are left out');
  });
});

describe('a stream', () => {
  class Source extends EventTarget {
    static last: Source;
    constructor(readonly url: string) {
      super();
      Source.last = this;
    }
    close(): void {}
    send(data: string): void {
      this.dispatchEvent(Object.assign(new Event('frame'), { data }));
    }
  }
  beforeEach(() => { vi.useFakeTimers(); vi.stubGlobal('EventSource', Source); });
  afterEach(() => { vi.useRealTimers(); vi.unstubAllGlobals(); });

  it('drops a bad frame with a word, and does not count it as one', async () => {
    const heard: string[] = [];
    const of = new Standing(performance.now());
    const live = new Live({
      frame: ({ seq }) => { of.frame(performance.now()); heard.push(`frame ${seq}`); },
      dropped: (why) => heard.push(why),
      broken: (why) => { of.broken(why, performance.now(), true); heard.push(why); },
    });
    live.start();
    await vi.advanceTimersByTimeAsync(0);
    Source.last.send(JSON.stringify(frame(1, 1000)));
    expect(of.connection.kind).toBe('live');
    for (let second = 1; second <= 3; second += 1) {
      await vi.advanceTimersByTimeAsync(1000);
      Source.last.send(JSON.stringify({ ...frame(1 + second, 1000 + second * 1000), gateways: [null] }));
    }
    expect(heard.slice(0, 2)).toEqual(['frame 1', 'not a whole mesh frame: gateways[0] is not an object']);
    expect(heard).toContain('the stream is silent');
    expect(of.connection.kind).toBe('broken');
    Source.last.send(JSON.stringify(frame(9, 9000)));
    expect(of.connection.kind).toBe('live');
    live.stop();
  });
});
