// Frames made by hand, with what a test does not speak of left unknown.
import type { Cell, CoverageView, EventView, FaultView, GatewayView, MeshFrame, WorkerView } from '../src/frame';

export function gateway(name: string, of: Partial<GatewayView> = {}): GatewayView {
  return {
    name, life: `life of ${name}`, me: false, left: false, age_ms: 0, phase: 'clean', digest: null, vector: null, group: 0, clock: null, clock_ahead_ms: null,
    replica: null, traffic: null, repair: null, propagation: null, effect: null, sees: [], ...of,
  };
}

export function worker(id: string, by: (CoverageView | null)[], of: Partial<WorkerView> = {}): WorkerView {
  return { id, url: null, up: null, capacity_tokens: null, capacity_source: null, requests: 0, queued_tokens: 0, differs: false, by, ...of };
}

export function coverage({ incarnation = 1, blocks = 10, digest = 'd', floor = null, newest = null, age = 0 }: { incarnation?: number; blocks?: number; digest?: string; floor?: number | null; newest?: number | null; age?: number } = {}): CoverageView {
  return [incarnation, blocks, digest, floor, newest, age];
}

export function cell(linked: boolean, lag: number | null = 0): Cell {
  return [linked, 100, lag, lag === null ? null : 0, 400, 0];
}

export function frame(seq: number, t_ms: number, gateways: GatewayView[] = [gateway('a')], workers: WorkerView[] = [], more: { events?: EventView[]; faults?: FaultView[]; kind?: string } = {}): MeshFrame {
  return {
    schema: 'covey-mesh-frame', version: 1, seq, t_ms,
    source: { kind: more.kind ?? 'live', viewer: 'a', cluster: 'c', package_version: '0', seed: null },
    verdict: { word: 'converged', why: '', since_ms: 0, converged_ms: t_ms, worst_lag_ops: 0, worst_lag_ms: 0, eta_ms: null, seen: gateways.length, missing: 0 },
    gateways, workers, workers_hidden: 0, events: more.events ?? [], faults: more.faults ?? [], propagation_bounds_ms: [1, 10, 100],
  };
}

export function event(text: string, of: Partial<EventView> = {}): EventView {
  return { t_ms: 0, gateway: null, kind: 'other', level: 'info', text, ...of };
}
