import { describe, expect, it } from 'vitest';

import { Deriver, balance, floorMismatches, grown, grownBuckets } from '../src/derive';
import type { EffectView } from '../src/frame';
import { coverage, frame, gateway, worker } from './made';

describe('counters', () => {
  it('grow by their difference within a life', () => {
    expect(grown(10, 14, true)).toBe(4);
    expect(grown(10, 10, true)).toBe(0);
  });
  it('that went down, or of another life, began anew', () => {
    expect(grown(10, 3, true)).toBe(3);
    expect(grown(10, 14, false)).toBe(14);
  });
  it('of buckets begin anew together', () => {
    expect(grownBuckets([1, 5, 0], [2, 5, 3], true)).toEqual([1, 0, 3]);
    expect(grownBuckets([1, 5, 0], [9, 4, 0], true)).toEqual([9, 4, 0]);
    expect(grownBuckets([1, 5], [2, 6], false)).toEqual([2, 6]);
  });
});

const bytes = (push: number): { push: { frames: number; bytes: number }; control: { frames: number; bytes: number }; repair: { frames: number; bytes: number } } => ({
  push: { frames: push / 10, bytes: push }, control: { frames: 0, bytes: 0 }, repair: { frames: 0, bytes: 0 },
});

describe('rates', () => {
  it('are taken over the time between summaries, not between frames', () => {
    const deriver = new Deriver();
    deriver.next(frame(1, 1000, [gateway('a', { age_ms: 0, traffic: bytes(1000) })]));
    // The frame is a second later, its summary two, for the former was fresh and this one is not as old as it was long.
    const got = deriver.next(frame(2, 3000, [gateway('a', { age_ms: 0, traffic: bytes(5000) })]));
    expect(got.traffic?.push).toEqual({ bytes: 2000, frames: 200 });
  });
  it('stay what they were while a summary is the same', () => {
    const deriver = new Deriver();
    deriver.next(frame(1, 1000, [gateway('a', { age_ms: 0, traffic: bytes(1000) })]));
    deriver.next(frame(2, 2000, [gateway('a', { age_ms: 0, traffic: bytes(2000) })]));
    const same = deriver.next(frame(3, 2250, [gateway('a', { age_ms: 250, traffic: bytes(2000) })]));
    expect(same.traffic?.push.bytes).toBe(1000);
    const next = deriver.next(frame(4, 3000, [gateway('a', { age_ms: 0, traffic: bytes(2500) })]));
    expect(next.traffic?.push.bytes).toBe(500);
  });
  it('of a gateway that restarted count from zero', () => {
    const deriver = new Deriver();
    deriver.next(frame(1, 1000, [gateway('a', { age_ms: 0, life: 'x', traffic: bytes(90_000) })]));
    const got = deriver.next(frame(2, 2000, [gateway('a', { age_ms: 0, life: 'y', traffic: bytes(300) })]));
    expect(got.traffic?.push.bytes).toBe(300);
  });
  it('do not count as sent now what was sent before anybody looked', () => {
    const got = new Deriver().next(frame(1, 1000, [gateway('a', { age_ms: 0, traffic: bytes(90_000), propagation: [5, 5] })]));
    expect(got.traffic).toBeNull();
    expect(got.propagation).toBeNull();
  });
  it('bridge the time in which a gateway was not heard of', () => {
    const deriver = new Deriver();
    deriver.next(frame(1, 1000, [gateway('a', { age_ms: 0, propagation: [5, 0] })]));
    deriver.next(frame(2, 2000, [gateway('a', { age_ms: null, propagation: null })]));
    expect(deriver.next(frame(3, 3000, [gateway('a', { age_ms: 0, propagation: [7, 4] })])).propagation).toEqual([2, 4]);
  });
});

describe('router effect', () => {
  const effect = (measured: number, hit: number, more: Record<string, number> = {}): EffectView => ({ measured, prompt_tokens: measured * 100, predicted_tokens: measured * 60, cached_tokens: measured * 50, in_flight: 2, outcomes: { hit, ...more } });
  const told = (...steps: [life: string, EffectView][]): (EffectView | null)[] => {
    const deriver = new Deriver();
    return steps.map(([life, of], at) => deriver.next(frame(at + 1, (at + 1) * 1000, [gateway('a', { life, effect: of })])).effect);
  };
  it('counts on through the lives of a process', () => {
    const [, second, third] = told(['x', effect(1000, 700)], ['y', effect(1004, 703, { miss: 1 })], ['z', effect(1004, 703, { miss: 1 })]);
    expect(second).toEqual(effect(4, 3, { miss: 1 }));
    expect(third).toEqual({ ...effect(0, 0, { miss: 0 }), in_flight: 2 });
  });
  it('began anew, all of it, when any counter went down', () => {
    expect(told(['x', effect(10, 7)], ['y', effect(3, 2)])[1]).toEqual(effect(3, 2));
    expect(told(['x', effect(10, 7)], ['x', effect(3, 2)])[1]).toEqual(effect(3, 2));
    // More was measured than before, but of outcomes there are fewer.
    expect(told(['x', effect(10, 70)], ['y', effect(12, 15)])[1]).toEqual(effect(12, 15));
    expect(told(['x', effect(10, 7, { off: 1 })], ['y', effect(12, 8)])[1]).toEqual(effect(12, 8));
  });
});

describe('cuts', () => {
  const at = (seq: number, floors: [number | null, number | null], incarnation = 1): ReturnType<typeof frame> =>
    frame(seq, seq * 1000, [gateway('a'), gateway('b')], [worker('w', floors.map((floor) => coverage({ floor, incarnation })))]);
  it('are told where a floor rose', () => {
    const deriver = new Deriver();
    expect(deriver.next(at(1, [100, null])).cuts).toEqual([]);
    expect(deriver.next(at(2, [200, 50])).cuts).toEqual([{ gateway: 'a', worker: 'w' }, { gateway: 'b', worker: 'w' }]);
    expect(deriver.next(at(3, [200, 50])).cuts).toEqual([]);
  });
  it('do not follow from another incarnation', () => {
    const deriver = new Deriver();
    deriver.next(at(1, [100, 100]));
    expect(deriver.next(at(2, [300, 300], 2)).cuts).toEqual([]);
  });
  it('give the age of the youngest thing cut', () => {
    expect(new Deriver().next(at(5, [1500, 4200])).frontier_ms).toBe(800);
    expect(new Deriver().next(at(5, [null, null])).frontier_ms).toBeNull();
  });
});

describe('mismatches', () => {
  const two = (vector: string, floors: [number, number], phase: 'clean' | 'dirty' = 'clean', t_ms = 1000): ReturnType<typeof frame> =>
    frame(1, t_ms, [gateway('a', { vector: 'v', phase: 'clean' }), gateway('b', { vector, phase })], [worker('w', floors.map((floor) => coverage({ floor })))]);
  const seenByAll = (of: ReturnType<typeof frame>): ReturnType<typeof frame> => ({ ...of, source: { ...of.source, viewer: null } });
  it('are different floors at equal clean vectors', () => {
    expect(floorMismatches(two('v', [1, 2]))).toEqual([{ worker: 'w', one: 'a', other: 'b', floors: [1, 2] }]);
  });
  it('are not different floors at different vectors, or of a dirty replica', () => {
    expect(floorMismatches(two('u', [1, 2]))).toEqual([]);
    expect(floorMismatches(two('v', [1, 2], 'dirty'))).toEqual([]);
    expect(floorMismatches(two('v', [2, 2]))).toEqual([]);
  });
  it('are told once by an observer, until they are gone', () => {
    const deriver = new Deriver();
    expect(deriver.next(seenByAll(two('v', [1, 2]))).mismatches).toHaveLength(1);
    expect(deriver.next(seenByAll(two('v', [1, 2]))).mismatches).toHaveLength(0);
    deriver.next(seenByAll(two('v', [2, 2])));
    expect(deriver.next(seenByAll(two('v', [2, 3]))).mismatches).toHaveLength(1);
  });
  it('are told by a gateway only when they stay, for it hears floors later than vectors', () => {
    const deriver = new Deriver();
    const told = [[1, 2], [3, 2], [3, 4], [3, 4], [3, 4]].map((floors, at) => deriver.next(two('v', floors as [number, number], 'clean', at * 3000)).mismatches.length);
    expect(told).toEqual([0, 0, 0, 0, 1]);
  });
  it('are told when a gateway counts one', () => {
    const repair = { applied_ops: 0, duplicate_ops: 0, pulled_logs: 0, started: 0, done: 0, aborted: 0, refused: 0, segments: 0, segments_new: 0, mismatches: 0 };
    const deriver = new Deriver();
    deriver.next(frame(1, 1000, [gateway('a', { repair })]));
    expect(deriver.next(frame(2, 2000, [gateway('a', { repair: { ...repair, mismatches: 2 } })])).mismatches[0]?.text).toContain('2 mismatches found by a');
  });
});

it('balances the largest against the mean', () => {
  expect(balance([4, 0])).toBe(2);
  expect(balance([3, 3, 3])).toBe(1);
  expect(balance([0, 0])).toBeNull();
  expect(balance([5])).toBeNull();
});
