// What is computed from a frame and those before it: rates and differences of counters that only grow within a life,
// lanes of the ribbon, cuts, mismatches.
//
// A gateway's numbers are as old as its summary, so rates are taken over the time between summaries, not between frames.
// Traffic, repair and propagation count since a life began: a counter that went down, or another life, began anew, and
// everything counted since belongs to now. Effect counts since the process started, through all its lives: only a counter
// that went down tells of a restart, and then all of them began anew.
//
// Not here: keeping frames (`store`), sums over a window (`series`).
import type { CoverageView, EffectView, GatewayView, MeshFrame, Phase, RepairView, TrafficView } from './frame';

export const CLASSES = ['push', 'control', 'repair'] as const;
export type Class = (typeof CLASSES)[number];

/** What a gateway's lane of the ribbon shows at one moment. */
export interface Lane {
  name: string;
  group: number | null;
  phase: Phase | null;
  left: boolean;
  repairing: boolean;
  /** The most ops that it lacks of any other; `null` when it is not known. */
  lag: number | null;
}

export interface Cut {
  gateway: string;
  worker: string;
}

export interface Mismatch {
  gateway: string;
  text: string;
}

export interface Rate {
  bytes: number;
  frames: number;
}

export interface Derived {
  lanes: Map<string, Lane>;
  /** Ops applied since the frame before, by age; `null` when nobody says. */
  propagation: number[] | null;
  /** Per second, by class, over all gateways that say; `null` when none can. */
  traffic: Record<Class, Rate> | null;
  applied: number | null;
  duplicate: number | null;
  held: number | null;
  cuts: Cut[];
  /** How long ago the youngest thing that is cut was touched, over all workers, milliseconds. */
  frontier_ms: number | null;
  mismatches: Mismatch[];
  /** Growth since the frame before. */
  effect: EffectView | null;
  requests_balance: number | null;
  queued_balance: number | null;
}

/** What a gateway said last, to take differences from. */
interface Known {
  life: string;
  /** When its summary was made, in the time that is shown. */
  at_ms: number;
  traffic: TrafficView | null;
  rates: Record<Class, Rate> | null;
  repair: RepairView | null;
  propagation: number[] | null;
  effect: EffectView | null;
}

/** Floors that differ for so long, unchanged, are no matter of what was heard when. */
const STAYS_MS = 5000;
/** Summaries closer together than this are taken for one. */
const SAME_SUMMARY_MS = 100;

/** How much a counter grew; all of it when it began anew. */
export function grown(before: number, now: number, sameLife: boolean): number {
  return sameLife && now >= before ? now - before : now;
}

/** How much buckets grew; all of them when any went down. */
export function grownBuckets(before: number[], now: number[], sameLife: boolean): number[] {
  const whole = sameLife && before.length === now.length && now.every((count, at) => count >= (before[at] ?? 0));
  return whole ? now.map((count, at) => count - (before[at] ?? 0)) : [...now];
}

/** Largest over mean; `null` when there is nothing to compare. */
export function balance(values: number[]): number | null {
  const sum = values.reduce((total, value) => total + value, 0);
  return values.length > 1 && sum > 0 ? Math.max(...values) / (sum / values.length) : null;
}

/** Computes what needs memory of earlier frames. One for each stream of frames. */
export class Deriver {
  private known = new Map<string, Known>();
  private floors = new Map<string, { incarnation: number; floor_ms: number | null }>();
  /** Floors that differ at equal vectors: since when, and whether that was told. */
  private differ = new Map<string, { since_ms: number; told: boolean }>();

  /** `t_ms` is a time that never goes back, whatever the viewer's clock does. */
  next(frame: MeshFrame, t_ms = frame.t_ms): Derived {
    const out: Derived = {
      lanes: new Map(frame.gateways.map((gateway) => [gateway.name, lane(gateway)])),
      propagation: null, traffic: null, applied: null, duplicate: null,
      held: heldOps(frame),
      cuts: this.cuts(frame),
      frontier_ms: frontier(frame),
      mismatches: this.mismatches(frame, t_ms),
      effect: null,
      ...balances(frame),
    };
    for (const gateway of frame.gateways) this.gateway(t_ms, gateway, out);
    return out;
  }

  private gateway(t_ms: number, gateway: GatewayView, out: Derived): void {
    if (gateway.age_ms === null) return;
    const before = this.known.get(gateway.name);
    const sameLife = before?.life === gateway.life;
    const at_ms = t_ms - gateway.age_ms;
    const now: Known = {
      life: gateway.life, at_ms, rates: before?.rates ?? null,
      traffic: gateway.traffic ?? before?.traffic ?? null, repair: gateway.repair ?? before?.repair ?? null,
      propagation: gateway.propagation ?? before?.propagation ?? null, effect: gateway.effect ?? before?.effect ?? null,
    };
    if (before) {
      const elapsed = at_ms - before.at_ms;
      if (elapsed < SAME_SUMMARY_MS && sameLife) now.at_ms = before.at_ms;
      if (gateway.traffic && before.traffic) this.traffic(before, now, gateway.traffic, elapsed, sameLife);
      this.differences(gateway, before, sameLife, out);
    }
    if (now.rates && gateway.traffic) out.traffic = plus(out.traffic, now.rates);
    this.known.set(gateway.name, now);
  }

  private traffic(before: Known, now: Known, traffic: TrafficView, elapsed: number, sameLife: boolean): void {
    if (elapsed < SAME_SUMMARY_MS && sameLife) {
      now.traffic = before.traffic;
      return;
    }
    const seconds = Math.max(elapsed, SAME_SUMMARY_MS) / 1000;
    const rate = (name: Class): Rate => ({
      bytes: grown(before.traffic?.[name].bytes ?? 0, traffic[name].bytes, sameLife) / seconds,
      frames: grown(before.traffic?.[name].frames ?? 0, traffic[name].frames, sameLife) / seconds,
    });
    now.rates = { push: rate('push'), control: rate('control'), repair: rate('repair') };
  }

  private differences(gateway: GatewayView, before: Known, sameLife: boolean, out: Derived): void {
    const { repair, propagation, effect } = gateway;
    if (repair && before.repair) {
      out.applied = (out.applied ?? 0) + grown(before.repair.applied_ops, repair.applied_ops, sameLife);
      out.duplicate = (out.duplicate ?? 0) + grown(before.repair.duplicate_ops, repair.duplicate_ops, sameLife);
      const more = grown(before.repair.mismatches, repair.mismatches, sameLife);
      if (more > 0) out.mismatches.push({ gateway: gateway.name, text: `${more} mismatch${more > 1 ? 'es' : ''} found by ${gateway.name}: equal clean vectors, different digests` });
    }
    if (propagation && before.propagation) {
      const more = grownBuckets(before.propagation, propagation, sameLife);
      out.propagation = more.map((count, at) => count + (out.propagation?.[at] ?? 0));
    }
    if (effect && before.effect) out.effect = plusEffect(out.effect, grownEffect(before.effect, effect));
    else if (effect) out.effect = plusEffect(out.effect, { ...NO_EFFECT, in_flight: effect.in_flight });
  }

  private cuts(frame: MeshFrame): Cut[] {
    const found: Cut[] = [];
    for (const worker of frame.workers) {
      worker.by.forEach((coverage, at) => {
        const name = frame.gateways[at]?.name;
        if (!coverage || name === undefined) return;
        const key = `${name}\n${worker.id}`;
        const [incarnation, , , floor_ms] = coverage;
        const before = this.floors.get(key);
        const rose = before?.incarnation === incarnation && floor_ms !== null && floor_ms > (before.floor_ms ?? -1);
        if (rose) found.push({ gateway: name, worker: worker.id });
        this.floors.set(key, { incarnation, floor_ms });
      });
    }
    return found;
  }

  /** Floors that differ although they must not; each is told once, until it is gone. */
  private mismatches(frame: MeshFrame, t_ms: number): Mismatch[] {
    const found: Mismatch[] = [];
    const now: typeof this.differ = new Map();
    for (const { worker, one, other, floors } of floorMismatches(frame)) {
      const key = `${worker}\n${one}\n${other}\n${floors.join()}`;
      const known = this.differ.get(key) ?? { since_ms: t_ms, told: false };
      now.set(key, known);
      // Whoever sees everything is right at once. To a gateway, floors come later than vectors; traffic changes them.
      if (known.told || (frame.source.viewer !== null && t_ms - known.since_ms < STAYS_MS)) continue;
      known.told = true;
      found.push({ gateway: other, text: `${one} and ${other} have equal clean vectors and cut ${worker} differently` });
    }
    this.differ = now;
    return found;
  }
}

export interface FloorMismatch {
  worker: string;
  one: string;
  other: string;
  floors: [number | null, number | null];
}

/** Wherever two clean replicas with equal vectors have different floors in one incarnation. */
export function floorMismatches(frame: MeshFrame): FloorMismatch[] {
  const found: FloorMismatch[] = [];
  const clean = frame.gateways.map((gateway, at) => ({ ...gateway, at })).filter(({ phase, vector, left }) => phase === 'clean' && vector !== null && !left);
  for (const worker of frame.workers) {
    const first = new Map<string, { name: string; coverage: CoverageView }>();
    for (const { name, vector, at } of clean) {
      const coverage = worker.by[at];
      if (!coverage || vector === null) continue;
      const seen = first.get(vector);
      if (!seen) first.set(vector, { name, coverage });
      else if (seen.coverage[0] === coverage[0] && seen.coverage[3] !== coverage[3]) found.push({ worker: worker.id, one: seen.name, other: name, floors: [seen.coverage[3], coverage[3]] });
    }
  }
  return found;
}

function lane(gateway: GatewayView): Lane {
  const lags = gateway.sees.map((cell) => cell?.[2] ?? null).filter((lag): lag is number => lag !== null);
  return {
    name: gateway.name, group: gateway.group, phase: gateway.phase, left: gateway.left,
    repairing: gateway.replica?.repairing ?? false,
    lag: lags.length > 0 ? Math.max(...lags) : null,
  };
}

function heldOps(frame: MeshFrame): number | null {
  const held = frame.gateways.flatMap((gateway) => (gateway.replica ? [gateway.replica.ops_held] : []));
  return held.length > 0 ? held.reduce((sum, value) => sum + value, 0) : null;
}

function frontier(frame: MeshFrame): number | null {
  const floors = frame.workers.flatMap((worker) => worker.by.flatMap((coverage) => coverage?.[3] ?? []));
  return floors.length > 0 ? Math.max(0, frame.t_ms - Math.max(...floors)) : null;
}

function balances(frame: MeshFrame): Pick<Derived, 'requests_balance' | 'queued_balance'> {
  const up = frame.workers.filter((worker) => worker.up !== false);
  return {
    requests_balance: balance(up.map((worker) => worker.requests)),
    queued_balance: balance(up.map((worker) => worker.queued_tokens)),
  };
}

function plus(sum: Record<Class, Rate> | null, more: Record<Class, Rate>): Record<Class, Rate> {
  const add = (name: Class): Rate => ({ bytes: (sum?.[name].bytes ?? 0) + more[name].bytes, frames: (sum?.[name].frames ?? 0) + more[name].frames });
  return { push: add('push'), control: add('control'), repair: add('repair') };
}

/** The counters of effect, besides outcomes; `in_flight` is none. */
const SUMS = ['measured', 'prompt_tokens', 'predicted_tokens', 'cached_tokens'] as const;
const NO_EFFECT: EffectView = { measured: 0, prompt_tokens: 0, predicted_tokens: 0, cached_tokens: 0, in_flight: 0, outcomes: {} };

/** What routing came to since `before`; all of it when the process restarted in between. */
export function grownEffect(before: EffectView, now: EffectView): EffectView {
  const names = [...new Set([...Object.keys(before.outcomes), ...Object.keys(now.outcomes)])];
  const restarted = SUMS.some((sum) => now[sum] < before[sum]) || names.some((name) => (now.outcomes[name] ?? 0) < (before.outcomes[name] ?? 0));
  const from = restarted ? NO_EFFECT : before;
  const more = (sum: (typeof SUMS)[number]): number => now[sum] - from[sum];
  return {
    measured: more('measured'), prompt_tokens: more('prompt_tokens'), predicted_tokens: more('predicted_tokens'), cached_tokens: more('cached_tokens'),
    in_flight: now.in_flight,
    outcomes: Object.fromEntries(Object.entries(now.outcomes).map(([name, count]) => [name, count - (from.outcomes[name] ?? 0)])),
  };
}

function plusEffect(sum: EffectView | null, more: EffectView): EffectView {
  const total = { ...(sum ?? NO_EFFECT), outcomes: { ...(sum?.outcomes ?? {}) } };
  total.measured += more.measured;
  total.prompt_tokens += more.prompt_tokens;
  total.predicted_tokens += more.predicted_tokens;
  total.cached_tokens += more.cached_tokens;
  total.in_flight += more.in_flight;
  for (const [name, count] of Object.entries(more.outcomes)) total.outcomes[name] = (total.outcomes[name] ?? 0) + count;
  return total;
}
