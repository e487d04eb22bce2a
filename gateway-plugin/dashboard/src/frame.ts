// The mesh frame: the types of what gateways and the simulator send, with the names of `gateway-plugin/src/frame/mod.rs`,
// where each field is explained. What is not known is `null`, never a default.
//
// Not here: what is computed from frames (`derive`).
import { amount, anyNumber, each, fields, later, list, maybe, row, text, whole, yesNo, type Check } from './check';

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
  /** Not in frames of older gateways. */
  feed?: FeedView | null;
  by: (CoverageView | null)[];
}

export interface FeedView {
  publishers: string[];
  standbys: string[];
  state: string;
  for_ms: number | null;
  lag_ms: number | null;
  position: number | null;
  stored_blocks: number | null;
  is_complete: boolean | null;
  age_ms: number | null;
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

const NAMED = (names: string[], of: Check): Record<string, Check> => Object.fromEntries(names.map((name) => [name, of]));
const SENT = fields({ frames: amount, bytes: amount });
const CELL = row(yesNo, maybe(amount), maybe(amount), maybe(amount), maybe(amount), maybe(anyNumber));
const COVERAGE = row(amount, amount, text, maybe(amount), maybe(amount), amount);

const GATEWAY = fields({
  name: text, life: text, me: yesNo, left: yesNo, age_ms: maybe(amount), phase: maybe(text), digest: maybe(text), vector: maybe(text), group: maybe(whole),
  clock: maybe(text), clock_ahead_ms: maybe(anyNumber),
  replica: maybe(fields({ ...NAMED(['ops_applied', 'ops_held', 'lives', 'closing', 'retired', 'workers', 'holders', 'blocks', 'log_bytes'], amount), repairing: yesNo })),
  traffic: maybe(fields({ push: SENT, control: SENT, repair: SENT })),
  repair: maybe(fields(NAMED(['applied_ops', 'duplicate_ops', 'pulled_logs', 'started', 'done', 'aborted', 'refused', 'segments', 'segments_new', 'mismatches'], amount))),
  propagation: maybe(list(amount)),
  effect: maybe(fields({ ...NAMED(['measured', 'prompt_tokens', 'predicted_tokens', 'cached_tokens', 'in_flight'], amount), outcomes: each(amount) })),
  sees: list(maybe(CELL)),
});

const FEED = fields({
  publishers: list(text), standbys: list(text), state: text, ...NAMED(['for_ms', 'lag_ms', 'position', 'stored_blocks', 'age_ms'], maybe(amount)), is_complete: maybe(yesNo),
});

const WORKER = fields({
  id: text, url: maybe(text), up: maybe(yesNo), capacity_tokens: maybe(amount), capacity_source: maybe(text), requests: amount, queued_tokens: amount, differs: yesNo,
  feed: later(maybe(FEED)), by: list(maybe(COVERAGE)),
});

const FRAME = fields({
  seq: whole, t_ms: whole,
  source: fields({ kind: text, viewer: maybe(text), cluster: text, package_version: text, seed: maybe(anyNumber) }),
  verdict: fields({ word: text, why: text, since_ms: whole, converged_ms: maybe(whole), worst_lag_ops: maybe(amount), worst_lag_ms: maybe(amount), eta_ms: maybe(amount), seen: amount, missing: amount }),
  gateways: list(GATEWAY), workers: list(WORKER), workers_hidden: amount,
  events: list(fields({ t_ms: whole, gateway: maybe(text), kind: text, level: text, text })),
  faults: list(fields({ kind: text, gateways: list(text), text, since_ms: whole })),
  propagation_bounds_ms: list(amount),
});

const INFO = fields({ mode: text, label: text, package_version: text });

const NOT_JSON = 'not JSON';

/** Reads a frame, or says in a sentence why it is none: what it gives is whole to the last cell. */
export function parseFrame(line: string): MeshFrame | string {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return NOT_JSON;
  }
  if (typeof value !== 'object' || value === null) return 'not an object';
  const frame = value as Partial<MeshFrame>;
  if (frame.schema !== SCHEMA) return `not a mesh frame (schema ${String(frame.schema)})`;
  if (frame.version !== VERSION) return `version ${String(frame.version)} of the frame; this page reads ${VERSION}`;
  const wrong = FRAME(value);
  return wrong === null ? (value as MeshFrame) : `not a whole mesh frame: ${wrong.slice(1)}`;
}

/** Reads a recording: one frame a line. An error names the line. */
export function parseRecording(all: string): MeshFrame[] | string {
  const frames: MeshFrame[] = [];
  const lines = all.split('\n');
  for (const [at, line] of lines.entries()) {
    if (line.trim() === '') continue;
    const frame = parseFrame(line);
    if (typeof frame !== 'string') {
      frames.push(frame);
      continue;
    }
    // The last line of a recording that is still being written may be half there.
    if (frame === NOT_JSON && frames.length > 0 && at === lines.length - 1) break;
    return `line ${at + 1}: ${frame}`;
  }
  return frames.length > 0 ? frames : 'no frame in it';
}

/** Reads what the server says of itself. */
export function parseInfo(value: unknown): Info | string {
  const wrong = INFO(value);
  return wrong === null ? (value as Info) : `api/info is not whole:${wrong}`;
}
