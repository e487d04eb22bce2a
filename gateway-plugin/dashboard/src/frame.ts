// The mesh frame: the types of what gateways and the simulator send, with the names of `gateway-plugin/src/frame/mod.rs`,
// where each field is explained. What is not known is `null`, never a default.
//
// Not here: what is computed from frames (`derive`).

export const SCHEMA = 'covey-mesh-frame';
export const VERSION = 1;

export type Word = 'converged' | 'converging' | 'degraded' | 'diverged' | 'partitioned' | 'unknown';
export type Phase = 'joining' | 'clean' | 'dirty';
export type Level = 'info' | 'warn' | 'bad';

export interface MeshFrame {
  schema: string;
  version: number;
  seq: number;
  t_ms: number;
  source: Source;
  verdict: VerdictView;
  gateways: GatewayView[];
  workers: WorkerView[];
  workers_hidden: number;
  events: EventView[];
  faults: FaultView[];
  propagation_bounds_ms: number[];
}

export interface Source {
  kind: string;
  viewer: string | null;
  cluster: string;
  package_version: string;
  seed: number | null;
}

export interface VerdictView {
  word: string;
  why: string;
  since_ms: number;
  converged_ms: number | null;
  worst_lag_ops: number | null;
  worst_lag_ms: number | null;
  eta_ms: number | null;
  seen: number;
  missing: number;
}

export interface GatewayView {
  name: string;
  life: string;
  me: boolean;
  left: boolean;
  age_ms: number | null;
  phase: Phase | null;
  digest: string | null;
  vector: string | null;
  group: number | null;
  clock: string | null;
  clock_ahead_ms: number | null;
  replica: ReplicaView | null;
  traffic: TrafficView | null;
  repair: RepairView | null;
  propagation: number[] | null;
  effect: EffectView | null;
  sees: (Cell | null)[];
}

export type Cell = [
  linked: boolean,
  heard_ms: number | null,
  lag_ops: number | null,
  lag_ms: number | null,
  rtt_us: number | null,
  offset_ms: number | null,
];

export interface ReplicaView {
  ops_applied: number;
  ops_held: number;
  lives: number;
  closing: number;
  retired: number;
  workers: number;
  holders: number;
  blocks: number;
  log_bytes: number;
  repairing: boolean;
}

export interface Sent {
  frames: number;
  bytes: number;
}

export interface TrafficView {
  push: Sent;
  control: Sent;
  repair: Sent;
}

export interface RepairView {
  applied_ops: number;
  duplicate_ops: number;
  pulled_logs: number;
  started: number;
  done: number;
  aborted: number;
  refused: number;
  segments: number;
  segments_new: number;
  mismatches: number;
}

export interface EffectView {
  measured: number;
  prompt_tokens: number;
  predicted_tokens: number;
  cached_tokens: number;
  in_flight: number;
  outcomes: Record<string, number>;
}

export interface WorkerView {
  id: string;
  url: string | null;
  up: boolean | null;
  capacity_tokens: number | null;
  capacity_source: string | null;
  requests: number;
  queued_tokens: number;
  differs: boolean;
  by: (CoverageView | null)[];
}

export type CoverageView = [
  incarnation: number,
  blocks: number,
  digest: string,
  floor_ms: number | null,
  newest_ms: number | null,
  age_ms: number,
];

export interface EventView {
  t_ms: number;
  gateway: string | null;
  kind: string;
  level: string;
  text: string;
}

export interface FaultView {
  kind: string;
  gateways: string[];
  text: string;
  since_ms: number;
}

/** What the server says of itself at `/api/info`. */
export interface Info {
  mode: 'live' | 'playback';
  label: string;
  package_version: string;
}

/** Reads a frame, or says in a sentence why it is none. */
export function parseFrame(text: string): MeshFrame | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return 'not JSON';
  }
  if (typeof value !== 'object' || value === null) return 'not an object';
  const frame = value as Partial<MeshFrame>;
  if (frame.schema !== SCHEMA) return `not a mesh frame (schema ${String(frame.schema)})`;
  if (frame.version !== VERSION) return `version ${String(frame.version)} of the frame; this page reads ${VERSION}`;
  const whole =
    typeof frame.seq === 'number' && typeof frame.t_ms === 'number' && !!frame.source && !!frame.verdict &&
    [frame.gateways, frame.workers, frame.events, frame.faults, frame.propagation_bounds_ms].every(Array.isArray);
  return whole ? (frame as MeshFrame) : 'a mesh frame with fields missing';
}

/** Reads a recording: one frame a line. An error names the line. */
export function parseRecording(text: string): MeshFrame[] | string {
  const frames: MeshFrame[] = [];
  let number = 0;
  for (const line of text.split('\n')) {
    number += 1;
    if (line.trim() === '') continue;
    const frame = parseFrame(line);
    // The last line of a recording that is still being written may be half there.
    if (typeof frame === 'string') {
      if (frames.length > 0 && !text.endsWith('\n') && number === text.split('\n').length) break;
      return `line ${number}: ${frame}`;
    }
    frames.push(frame);
  }
  return frames.length > 0 ? frames : 'no frame in it';
}
