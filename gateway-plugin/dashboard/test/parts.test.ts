import { describe, expect, it } from 'vitest';

import { quantile } from '../src/buckets';
import { age, bytes, count, duration, moment, percent, signed, ticks, tiny, TICKS_MAX } from '../src/format';
import { feedWords } from '../src/feeds';
import { parseFrame, parseInfo, parseRecording, type FeedView, type MeshFrame } from '../src/frame';
import { isCurrent, isSilent, link, order } from '../src/order';
import { estimates } from '../src/panels/clocks';
import { isWanted } from '../src/panels/events';
import { runs } from '../src/panels/ribbon';
import { Store } from '../src/store';
import { cell, coverage, event, frame, gateway, worker } from './made';
// @ts-expect-error a plain module without types
import { recorded } from '../tools/fake-frames.mjs';

describe('quantiles', () => {
  const bounds = [1, 10, 100];
  it('lie within their bucket', () => {
    expect(quantile(bounds, [0, 10, 0, 0], 0.5)).toEqual({ ms: 5.5, open: false, at: 1.5 });
    expect(quantile(bounds, [4, 0, 0, 0], 0.5)?.ms).toBe(0.5);
    expect(quantile(bounds, [98, 0, 2, 0], 0.99)?.ms).toBe(55);
  });
  it('beyond the last bound are at least it', () => {
    expect(quantile(bounds, [0, 0, 0, 5], 0.5)).toMatchObject({ ms: 100, open: true });
  });
  it('of nothing are not known', () => {
    expect(quantile(bounds, [0, 0, 0, 0], 0.5)).toBeNull();
    expect(quantile(bounds, [], 0.5)).toBeNull();
  });
});

describe('the order', () => {
  it('puts groups together, largest first, the unknown after them, those that left last', () => {
    const list = [gateway('gw-10'), gateway('gw-2', { group: 1 }), gateway('gw-9'), gateway('gw-1', { group: null }), gateway('gw-3', { left: true }), gateway('gw-4', { group: 1 })];
    expect(order(list).map((at) => list[at]?.name)).toEqual(['gw-9', 'gw-10', 'gw-2', 'gw-4', 'gw-1', 'gw-3']);
  });
});

describe('feeds', () => {
  const feed: FeedView = { publishers: ['gw-1'], standbys: [], state: 'exact', for_ms: 4000, lag_ms: 3, position: 9, stored_blocks: 40, is_complete: false, age_ms: 300 };
  it('are told in a shape and a word', () => {
    expect(feedWords(feed)).toEqual({ state: '● exact', owner: 'gw-1', standby: 'nobody', lag: duration(3), mark: 'exact', about: `exact for ${duration(4000)}, 40 blocks at least by its events, batch 9, said ${duration(300)} ago` });
    const shapes = ['exact', 'gap', 'bootstrapping', 'stale'].map((state) => feedWords({ ...feed, state }).state);
    expect(new Set(shapes.map((said) => said[0])).size).toBe(4);
    expect(shapes.map((said) => said.slice(2))).toEqual(['exact', 'gap', 'bootstrapping', 'stale']);
  });
  it('of several owners name all, and of none say so', () => {
    expect(feedWords({ ...feed, publishers: ['a', 'b'] }).owner).toBe('a, b');
    expect(feedWords({ ...feed, publishers: [], state: 'stale', for_ms: null, lag_ms: null, position: null, stored_blocks: null, age_ms: null })).toMatchObject({ owner: 'nobody', lag: '–', about: 'stale, read by nobody' });
  });
  it('that nobody reads, or of a state that is not known here, are unknown and never exact', () => {
    expect([null, undefined].map((none) => feedWords(none).mark)).toEqual(['unknown', 'unknown']);
    expect([feedWords({ ...feed, state: 'splendid' }).state, feedWords({ ...feed, state: 'toString' }).state]).toEqual(['– unknown', '– unknown']);
  });
  it('are checked with the frame, and frames without are as good', () => {
    const line = (of: unknown): string => JSON.stringify(frame(1, 0, undefined, [{ ...worker('w', []), ...(of as object) }]));
    expect([line({}), line({ feed: null }), line({ feed })].map((text) => typeof parseFrame(text))).toEqual(['object', 'object', 'object']);
    expect(parseFrame(line({ feed: { ...feed, publishers: 'a' } }))).toContain('workers[0].feed.publishers is not a list');
  });
});

describe('links', () => {
  const two = (there: boolean, back: boolean, age_ms = 0): ReturnType<typeof frame> => frame(1, 0, [gateway('a', { sees: [null, cell(there)] }), gateway('b', { age_ms, sees: [cell(back), null] })]);
  it('are two-way, one-way, or none', () => {
    expect(link(two(true, true), 0, 1)).toBe('both');
    expect(link(two(true, false), 0, 1)).toBe('out');
    expect(link(two(true, false), 1, 0)).toBe('in');
    expect(link(two(false, false), 0, 1)).toBe('none');
  });
  it('are silent when nothing was heard of late', () => {
    expect([isSilent([true, 1300, 0, 0, 1, 1]), isSilent([true, 900, 0, 0, 1, 1]), isSilent([false, 1300, 0, 0, 1, 1]), isSilent(null)]).toEqual([true, false, false, false]);
  });
  it('make a cell old when the row told long ago, or does not hear the column', () => {
    expect([isCurrent(gateway('a'), cell(true)), isCurrent(gateway('a'), cell(false)), isCurrent(gateway('a', { age_ms: 9000 }), cell(true)), isCurrent(gateway('a', { age_ms: null }), cell(true)), isCurrent(gateway('a'), [true, 5000, 0, 0, 1, 1])]).toEqual([true, false, false, false, false]);
  });
  it('are not known when a side does not tell, or told long ago', () => {
    expect(link(two(true, false, 60_000), 0, 1)).toBe('unknown');
    expect(link(frame(1, 0, [gateway('a', { sees: [null, cell(true)] }), gateway('b', { sees: [null, null] })]), 0, 1)).toBe('unknown');
  });
});

describe('the ribbon', () => {
  it('joins what looks the same and breaks where nothing is known', () => {
    const store = new Store();
    [[1000, 0], [2000, 0], [3000, 1], [20_000, 1]].forEach(([t = 0, group = 0], at) => store.push(frame(at + 1, t, [gateway('a', { group })])));
    expect(runs(store.entries, 'a').map(({ from_ms, to_ms, lane }) => [from_ms, to_ms, lane?.group])).toEqual([[1000, 3000, 0], [3000, 4000, 1], [20_000, 22_000, 1]]);
    expect(runs(store.entries, 'b').every(({ lane }) => lane === null)).toBe(true);
  });
});

describe('clocks', () => {
  it('are brought to the median by what the one that measures knows of its own', () => {
    const of = frame(1, 0, [gateway('a', { clock_ahead_ms: -2, sees: [null, [true, 0, 0, 0, 800, 5]] }), gateway('b', { sees: [[true, 0, 0, 0, 800, -5], null] })]);
    expect(estimates(of, 1)).toEqual([{ from: 'a', ms: 3, half_ms: 0.4 }]);
    expect(estimates(of, 0)).toEqual([]);
  });
});

describe('events', () => {
  it('are found by all words, and by level', () => {
    const of = event('nothing heard of it', { gateway: 'gw-4', kind: 'link', level: 'warn' });
    expect(isWanted(of, 'gw-4 heard', 'all')).toBe(true);
    expect(isWanted(of, 'gw-4 clock', 'all')).toBe(false);
    expect([isWanted(of, '', 'warn'), isWanted(of, '', 'bad')]).toEqual([true, false]);
  });
});

describe('frames', () => {
  const line = JSON.stringify(frame(1, 1000));
  it('are refused with a reason', () => {
    expect(parseFrame('{')).toBe('not JSON');
    expect(parseFrame('{"schema":"x"}')).toContain('schema x');
    expect(parseFrame(line.replace('"version":1', '"version":9'))).toContain('version 9');
    expect(parseFrame(line.replace('"faults":[],', ''))).toContain('missing');
  });
  it('of a recording are one a line; only the last may be half there', () => {
    expect(parseRecording(`${line}\n${line}\n`)).toHaveLength(2);
    expect(parseRecording(`${line}\n${line.slice(0, 30)}`)).toHaveLength(1);
    expect(parseRecording(`${line}\nrubbish\n${line}\n`)).toBe('line 2: not JSON');
    expect(parseRecording('\n')).toBe('no frame in it');
  });
  it('are whole to the last cell, or say where they are not', () => {
    const whole = frame(1, 1000, [gateway('a', {
      traffic: { push: { frames: 1, bytes: 1 }, control: { frames: 1, bytes: 1 }, repair: { frames: 1, bytes: 1 } },
      effect: { measured: 1, prompt_tokens: 1, predicted_tokens: 1, cached_tokens: 1, in_flight: 0, outcomes: { hit: 1 } }, propagation: [1, 2], sees: [null, cell(true)],
    })], [worker('w', [null, coverage()])], { events: [event('x')], faults: [{ kind: 'cut', gateways: ['a'], text: 'cut', since_ms: 0 }] });
    expect(parseFrame(JSON.stringify(whole))).toEqual(whole);
    const broken = (where: string, value: unknown): MeshFrame | string => {
      const copy = structuredClone(whole) as unknown as Record<string, never>;
      const names = where.split('.');
      const last = names.pop() ?? '';
      (names.reduce((at, name) => at[name] as never, copy) as Record<string, unknown>)[last] = value;
      return parseFrame(JSON.stringify(copy).replaceAll('"INFINITE"', '1e999'));
    };
    const places: [string, unknown, string][] = [
      ['gateways', [null], 'gateways[0] is not an object'], ['gateways', {}, 'gateways is not a list'], ['workers', [7], 'workers[0] is not an object'],
      ['events', [null], 'events[0] is not an object'], ['events.0.text', 3, 'events[0].text is not text'], ['faults', ['x'], 'faults[0] is not an object'], ['faults.0.gateways', null, 'faults[0].gateways is not a list'],
      ['gateways.0.name', undefined, 'gateways[0].name is missing'], ['gateways.0.sees', null, 'gateways[0].sees is not a list'], ['gateways.0.sees.1', {}, 'gateways[0].sees[1] is not a row'],
      ['gateways.0.sees.1', [true, 1], 'gateways[0].sees[1][2] is missing'], ['gateways.0.sees.1.2', 'many', 'gateways[0].sees[1][2] is not a finite number'],
      ['gateways.0.group', 0.5, 'gateways[0].group is not a whole number'], ['gateways.0.age_ms', -1, 'gateways[0].age_ms is not a finite number from 0'], ['gateways.0.traffic', {}, 'gateways[0].traffic.push is missing'],
      ['gateways.0.traffic.push.bytes', 'INFINITE', 'gateways[0].traffic.push.bytes is not a finite number'], ['gateways.0.propagation.1', null, 'gateways[0].propagation[1] is not a finite number'],
      ['gateways.0.effect.outcomes', [], 'gateways[0].effect.outcomes is not an object'], ['gateways.0.effect.outcomes.hit', '1', 'gateways[0].effect.outcomes.hit is not a finite number'],
      ['workers.0.by', 'none', 'workers[0].by is not a list'], ['workers.0.by.1', 5, 'workers[0].by[1] is not a row'], ['workers.0.by.1.2', 5, 'workers[0].by[1][2] is not text'],
      ['verdict', [], 'verdict is not an object'], ['verdict.word', null, 'verdict.word is not text'], ['source', 'me', 'source is not an object'], ['propagation_bounds_ms', [null], 'propagation_bounds_ms[0] is not a finite number'],
    ];
    for (const [where, value, why] of places) expect(broken(where, value), where).toContain(why);
  });
  it('are of a moment that can be ordered', () => {
    for (const t_ms of ['1e25', '9007199254740993', '-1', '1.5', '1e999', 'null', '"5"']) expect(parseFrame(line.replace('"t_ms":1000', `"t_ms":${t_ms}`)), t_ms).toContain('t_ms is not a whole number');
    expect(parseFrame(line.replace('"seq":1', '"seq":1e300'))).toContain('seq is not a whole number');
  });
  it('of a recording are all read before any is shown; an error names the line', () => {
    expect(parseRecording(`${line}\n\n${line.replace(/"gateways":.*?,"workers"/, '"gateways":[null],"workers"')}\n${line}`)).toBe('line 3: not a whole mesh frame: gateways[0] is not an object');
    // Only a line that was cut off is forgiven, and only at the end.
    expect(parseRecording(`${line}\n${line.replace('"t_ms":1000', '"t_ms":1e25')}`)).toContain('line 2: ');
  });
  it('that are made up can be read', () => {
    const text = (recorded({ seconds: 3 }) as unknown[]).map((of) => JSON.stringify(of)).join('\n');
    expect(parseRecording(text)).toHaveLength(6);
  });
});

it('takes what a server says of itself only when it is whole', () => {
  expect(parseInfo({ mode: 'live', label: 'gw-1', package_version: '0' })).toMatchObject({ label: 'gw-1' });
  expect(parseInfo(null)).toContain('not an object');
  expect(parseInfo({ mode: 'live', label: 3 })).toContain('label');
});

describe('text', () => {
  const plain = (text: string): string => text.replace(/\u202f/g, ' ');
  it('has units that fit', () => {
    expect([0, 950, 12_345, 3_400_000].map((value) => plain(count(value)))).toEqual(['0', '950', '12.3 k', '3.4 M']);
    expect([7, 999, 1500, 99_000, 2_500_000].map(tiny)).toEqual(['7', '999', '1.5k', '99k', '2.5M']);
    expect([0, 999, 1500, 2_000_000].map((value) => plain(bytes(value)))).toEqual(['0 B', '999 B', '1.5 kB', '2 MB']);
    expect([3, 250, 1250, 42_900, 243_000, 7_500_000].map((value) => plain(duration(value)))).toEqual(['3 ms', '250 ms', '1.3 s', '42 s', '4 min 3 s', '2 h 5 min']);
    expect([percent(null), plain(percent(0.5)), plain(percent(1))]).toEqual(['–', '50.0 %', '100 %']);
    expect([signed(3), signed(-1.25), signed(0)].map(plain)).toEqual(['+3 ms', '−1.3 ms', '±0 ms']);
    expect([signed(420, 0.345), signed(0, 0.5), signed(-12_500, 3)].map(plain)).toEqual(['+420 ± 0.35 ms', '0 ± 0.5 ms', '−12.5 ± 0.01 s']);
    expect([age(400), age(65_000)].map(plain)).toEqual(['0.4 s', '1 min 5 s']);
    expect(plain(moment(12_500, true))).toBe('12.50 s');
  });
  it('has ticks at round moments, far enough apart', () => {
    expect(ticks(0, 90_000, 900, 74, 0)).toEqual([0, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 70_000, 80_000, 90_000]);
    expect(ticks(5, 5, 900, 74, 0)).toEqual([]);
  });
  it('has few ticks, whatever the window', () => {
    const day = 86_400_000;
    expect(ticks(0, 10 * day, 900, 74, 0)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((days) => days * day));
    const windows: [number, number, number, number][] = [[0, 1e25, 900, 74], [1e25, 1e25 + 1e10, 900, 74], [0, Number.MAX_SAFE_INTEGER, 900, 74], [0, 3.6e9, 1e9, 1], [0, 3.6e9, 900, 0], [0, Infinity, 900, 74], [NaN, 5, 900, 74]];
    for (const [from, to, width, apart] of windows) {
      const found = ticks(from, to, width, apart, 0);
      expect(found.length, `${from} to ${to}`).toBeLessThanOrEqual(TICKS_MAX);
      expect(new Set(found).size).toBe(found.length);
    }
    expect(ticks(0, 1e25, 900, 74, 0).length).toBeGreaterThan(3);
  });
});
