import { describe, expect, it } from 'vitest';

import { Cursor, Window, readLink } from '../src/cursor';
import { stretches } from '../src/faults';
import { points, trailingRatio } from '../src/series';
import { Store } from '../src/store';
import { event, frame, gateway, worker, coverage } from './made';

function held(times: number[], at: (time: number) => Parameters<typeof frame>[4] = () => ({})): Store {
  const store = new Store();
  times.forEach((time, place) => store.push(frame(place + 1, time, undefined, undefined, at(time))));
  return store;
}

describe('the store', () => {
  it('drops the oldest', () => {
    const store = new Store(3);
    [1, 2, 3, 4, 5].forEach((seq) => store.push(frame(seq, seq * 1000)));
    expect(store.entries.map(({ frame: { seq } }) => seq)).toEqual([3, 4, 5]);
    expect(store.dropped).toBe(2);
  });
  it('takes no frame twice, and knows a source that began again', () => {
    const store = held([1000, 2000]);
    expect(store.push(frame(2, 2000))).toBe('repeated');
    expect(store.push(frame(1, 1000))).toBe('repeated');
    expect(store.push(frame(1, 9000))).toBe('restarted');
    expect(store.last()?.gap).toBe(true);
    expect(store.entries).toHaveLength(3);
  });
  it('keeps everything when the clock of the viewer steps back, and says so', () => {
    const store = held(Array.from({ length: 100 }, (_, at) => 50_000 + at * 1000));
    expect(store.push(frame(101, 90_000, undefined, undefined, { events: [event('x')] }))).toBe('stepped');
    expect(store.push(frame(102, 91_000))).toBe('added');
    expect(store.entries.map(({ frame: { seq } }) => seq)).toEqual(Array.from({ length: 102 }, (_, at) => at + 1));
    expect(store.entries.slice(-3).map(({ t_ms }) => t_ms)).toEqual([149_000, 149_001, 150_001]);
    expect(store.entries.slice(-3).map(({ frame: { t_ms } }) => t_ms)).toEqual([149_000, 90_000, 91_000]);
    expect(store.events().map(({ event: { kind, text }, index }) => [kind, text, index])).toEqual([['clock', 'the clock of the viewer stepped back by 59 s; the time shown here goes on', 100], ['other', 'x', 100]]);
    expect([store.at(149_000), store.at(149_001), store.at(150_500)]).toEqual([99, 100, 101]);
    expect(store.push(frame(102, 91_000))).toBe('repeated');
    const cursor = new Cursor(store);
    cursor.home();
    for (let at = 0; at < 101; at += 1) cursor.step(1);
    expect(cursor.index()).toBe(101);
  });
  it('never shows time going back, however often the clock does', () => {
    const store = held([5000, 3000, 4000, 1000, 8000, 2000]);
    const shown = store.entries.map(({ t_ms }) => t_ms);
    expect(shown).toEqual([...shown].sort((a, b) => a - b));
    expect(store.events()).toHaveLength(3);
  });
  it('keeps everything when the viewer restarts, also with its clock set back', () => {
    const of = (seq: number, t_ms: number, life: string) => frame(seq, t_ms, [gateway('a', { me: true, life })]);
    const store = new Store();
    [1, 2, 3].forEach((seq) => store.push(of(seq, 10_000 + seq * 1000, 'x')));
    expect([store.push(of(1, 2000, 'y')), store.push(of(2, 3000, 'y'))]).toEqual(['restarted', 'added']);
    expect(store.entries.map(({ frame: { seq }, t_ms, gap }) => [seq, t_ms, gap])).toEqual([[1, 11_000, false], [2, 12_000, false], [3, 13_000, false], [1, 13_001, true], [2, 14_001, false]]);
    expect(store.events().map(({ event: { kind } }) => kind)).toEqual(['life', 'clock']);
    // What a stream sends again is not taken again, of whichever life it is; nor is another life of one process a restart.
    expect([store.push(of(3, 13_000, 'x')), store.push(of(2, 3000, 'y')), store.push(of(3, 4000, 'z'))]).toEqual(['repeated', 'repeated', 'added']);
  });
  it('takes rates and faults on over a step of the clock', () => {
    const traffic = (bytes: number) => ({ push: { frames: 0, bytes }, control: { frames: 0, bytes: 0 }, repair: { frames: 0, bytes: 0 } });
    const store = new Store();
    const fault = (since_ms: number) => ({ faults: [{ kind: 'cut', gateways: ['a'], text: 'cut', since_ms }] });
    store.push(frame(1, 60_000, [gateway('a', { traffic: traffic(1000) })]));
    store.push(frame(2, 20_000, [gateway('a', { traffic: traffic(1000) })]));
    store.push(frame(3, 21_000, [gateway('a', { traffic: traffic(3000) })], [], fault(20_500)));
    expect(store.last()?.derived.traffic?.push.bytes).toBeCloseTo(2000, -1);
    expect(stretches(store.entries).map(({ from_ms, to_ms }) => [from_ms, to_ms])).toEqual([[60_501, 61_001]]);
    expect(points(store, 0, 99_000).map(({ t_ms }) => t_ms)).toEqual([60_000, 60_001, 61_001]);
  });
  it('is taken over as a whole', () => {
    const [store, other] = [held([1000, 2000, 3000]), held([500, 100])];
    const version = store.version;
    store.adopt(other);
    expect(store.entries.map(({ t_ms }) => t_ms)).toEqual([500, 501]);
    expect(store.version).toBeGreaterThan(version);
    expect([store.push(frame(2, 100)), store.push(frame(3, 200))]).toEqual(['repeated', 'added']);
    expect(store.last()?.t_ms).toBe(601);
  });
  it('knows where nothing is known', () => {
    const store = held([1000, 2000, 9000]);
    expect(store.entries.map(({ gap }) => gap)).toEqual([false, false, true]);
    expect(held([0, 9000], () => ({ kind: 'simulated' })).entries[1]?.gap).toBe(false);
  });
  it('finds the latest at or before a moment', () => {
    const store = held([1000, 2000, 3000]);
    expect([500, 1000, 2999, 3000, 9000].map((t) => store.at(t))).toEqual([0, 0, 1, 2, 2]);
    expect(new Store().at(5)).toBe(-1);
  });
  it('thins what is old when the mesh is large, and keeps the lanes', () => {
    const store = new Store(100, 20);
    const gateways = () => [gateway('a', { sees: [null, [true, 1, 5, 1, 1, 1]] }), gateway('b', { sees: [null, null] })];
    for (let seq = 1; seq <= 5; seq += 1) store.push(frame(seq, seq * 1000, gateways(), [worker('w', [coverage(), coverage()])]));
    expect(store.entries.map(({ thin }) => thin)).toEqual([true, true, false, false, false]);
    expect(store.entries[0]?.frame.gateways[0]?.sees).toEqual([]);
    expect(store.entries[0]?.derived.lanes.get('a')?.lag).toBe(5);
    expect(store.entries[4]?.frame.workers).toHaveLength(1);
  });
});

describe('the cursor', () => {
  it('follows until it is moved, and follows again', () => {
    const store = held([1000, 2000, 3000]);
    const cursor = new Cursor(store);
    expect(cursor.index()).toBe(2);
    cursor.step(-1);
    expect([cursor.live, cursor.index()]).toEqual([false, 1]);
    store.push(frame(4, 4000));
    expect(cursor.index()).toBe(1);
    cursor.follow();
    expect(cursor.index()).toBe(3);
  });
  it('stays within what is held', () => {
    const cursor = new Cursor(held([1000, 2000]));
    cursor.step(-9);
    expect(cursor.t_ms()).toBe(1000);
    cursor.step(9);
    expect(cursor.t_ms()).toBe(2000);
    cursor.seek(99_999);
    expect(cursor.t_ms()).toBe(2000);
  });
  it('steps from event to event', () => {
    const cursor = new Cursor(held([0, 1000, 2000, 3000, 4000], (time) => (time === 1000 || time === 3000 ? { events: [event('x')] } : {})));
    cursor.home();
    cursor.stepEvent(1);
    expect(cursor.t_ms()).toBe(1000);
    cursor.stepEvent(1);
    expect(cursor.t_ms()).toBe(3000);
    cursor.stepEvent(1);
    expect(cursor.t_ms()).toBe(3000);
    cursor.stepEvent(-1);
    expect(cursor.t_ms()).toBe(1000);
  });
  it('plays at its speed, stops at the end of a recording, and joins a live stream', () => {
    const cursor = new Cursor(held([0, 1000, 2000, 3000]));
    cursor.home();
    cursor.play();
    cursor.speed = 4;
    cursor.tick(250, false);
    expect(cursor.t_ms()).toBe(1000);
    cursor.tick(900, false);
    expect([cursor.playing, cursor.live, cursor.t_ms()]).toEqual([false, false, 3000]);
    cursor.home();
    cursor.play();
    cursor.tick(9000, true);
    expect([cursor.playing, cursor.live]).toEqual([false, true]);
  });
  it('plays from the start when it stands at the end', () => {
    const cursor = new Cursor(held([0, 1000]));
    cursor.end(false);
    cursor.play();
    expect(cursor.t_ms()).toBe(0);
  });
  it('is read from a link', () => {
    expect(readLink('#t=12.5')).toEqual({ t_s: 12.5 });
    expect(readLink('#at=1700000000000')).toEqual({ at_ms: 1_700_000_000_000 });
    expect([readLink(''), readLink('#t='), readLink('#t=1x'), readLink('#verdict')]).toEqual([null, null, null, null]);
  });
});

describe('the window', () => {
  const long = (): Store => held(Array.from({ length: 600 }, (_, at) => at * 1000));
  it('ends with the latest frame while the cursor follows', () => {
    const [store, window] = [long(), new Window()];
    window.span_ms = 60_000;
    window.update(store, new Cursor(store));
    expect([window.from_ms, window.to_ms]).toEqual([539_000, 599_000]);
  });
  it('stands still while the cursor is within it, and goes with it when not', () => {
    const [store, window] = [long(), new Window()];
    const cursor = new Cursor(store);
    window.span_ms = 60_000;
    window.update(store, cursor);
    cursor.seek(570_000);
    store.push(frame(601, 600_000));
    window.update(store, cursor);
    expect(window.to_ms).toBe(599_000);
    cursor.seek(100_000);
    window.update(store, cursor);
    expect([window.from_ms, window.to_ms]).toEqual([70_000, 130_000]);
  });
  it('is filled by what there is', () => {
    const [store, window] = [held([0, 40_000]), new Window()];
    window.span_ms = 600_000;
    window.update(store, new Cursor(store));
    expect([window.from_ms, window.to_ms]).toEqual([0, 40_000]);
  });
});

describe('lines', () => {
  it('break where nothing is known', () => {
    const list = points(held([1000, 2000, 9000]), 0, 10_000);
    expect(list.map(({ entry }) => entry !== null)).toEqual([true, true, false, true]);
  });
  it('of shares are over what came lately', () => {
    const list = points(held([1000, 2000, 3000]), 0, 4000);
    const part = [1, 0, 3];
    let [a, b] = [0, 0];
    const ratio = trailingRatio(list, 2000, () => part[a++ % 3] ?? 0, () => [2, 0, 4][b++ % 3] ?? 0);
    expect(ratio[0]).toBe(0.5);
    expect(ratio[1]).toBe(0.5);
    expect(ratio[2]).toBeCloseTo(0.75);
  });
});

describe('faults', () => {
  it('are stretches, one lane each while they overlap', () => {
    const fault = (kind: string, since_ms: number) => ({ kind, gateways: ['a'], text: kind, since_ms });
    const on: Record<number, ReturnType<typeof fault>[]> = { 1000: [fault('cut', 800)], 2000: [fault('cut', 800), fault('loss', 2000)], 3000: [fault('loss', 2000)], 5000: [fault('cut', 5000)] };
    const found = stretches(held([0, 1000, 2000, 3000, 4000, 5000], (time) => ({ faults: on[time] ?? [], kind: 'simulated' })).entries);
    expect(found.map(({ kind, from_ms, to_ms, lane }) => [kind, from_ms, to_ms, lane])).toEqual([['cut', 800, 3000, 0], ['loss', 2000, 4000, 1], ['cut', 5000, 5000, 0]]);
  });
});
