// Plausible frames of a small mesh with a story, made without a gateway: traffic throughout, one gateway cut off from
// 20 to 40 s, one restarted at 55 s, cuts from 12 s on, a worker on which a replica differs at 70 s. For developing the
// page, and for tests that need more gateways than a machine can run.

/** Small, seeded, good enough. */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t ^= t + Math.imul(t ^ (t >>> 7), 61 | t);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const BOUNDS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768];
const hex = (next, digits) => Array.from({ length: digits }, () => Math.floor(next() * 16).toString(16)).join('');
const sent = () => ({ frames: 0, bytes: 0 });

/** A mesh that moves on by `step()` and tells by `frame()`. */
export class FakeMesh {
  constructor({ gateways = 4, workers = 6, seed = 7, simulated = false, start_ms = 0 } = {}) {
    this.next = random(seed);
    this.seed = seed;
    this.simulated = simulated;
    this.start_ms = start_ms;
    this.t = 0;
    this.seq = 0;
    this.n = gateways;
    this.made = Array(gateways).fill(0);
    this.pieces = Array.from({ length: gateways }, (_, at) => this.gateway(at));
    this.workers = Array.from({ length: workers }, (_, at) => ({ id: `w${at}`, blocks: 200 + at * 90, floor: null, newest: 0 }));
    this.events = [];
    this.word = 'unknown';
    this.since = 0;
    this.converged = null;
    this.lonely = gateways - 1;
  }

  gateway(at) {
    return {
      name: `gw-${at + 1}`, life: hex(this.next, 32), known: Array(this.n ?? 0).fill(0), heard: 0, traffic: { push: sent(), control: sent(), repair: sent() },
      repair: { applied_ops: 0, duplicate_ops: 0, pulled_logs: 0, started: 0, done: 0, aborted: 0, refused: 0, segments: 0, segments_new: 0, mismatches: 0 },
      propagation: Array(BOUNDS.length + 1).fill(0), phase: 'clean', down: false,
      effect: { measured: 0, prompt_tokens: 0, predicted_tokens: 0, cached_tokens: 0, in_flight: 0, outcomes: { hit: 0, miss: 0, none: 0, too_short: 0 } },
    };
  }

  say(gateway, kind, level, text) {
    this.events.push({ t_ms: this.start_ms + this.t, gateway, kind, level, text });
  }

  isCut(at) {
    return this.t >= 20_000 && this.t < 40_000 && at === this.lonely;
  }

  step(ms = 1000) {
    const was = this.t;
    this.t += ms;
    const passes = (second) => was < second * 1000 && this.t >= second * 1000;
    const lonely = this.pieces[this.lonely];
    if (passes(20)) this.say(lonely.name, 'link', 'warn', `silent: nothing heard of it for 1.5 s`);
    if (passes(40)) this.say(lonely.name, 'link', 'info', 'heard again');
    const second = this.pieces[1];
    if (passes(55) && this.n > 1) {
      this.pieces[1] = Object.assign(this.gateway(1), { known: Array(this.n).fill(0), phase: 'joining' });
      this.say(second.name, 'life', 'info', 'began a new life');
    }
    if (passes(58) && this.n > 1) {
      this.pieces[1].phase = 'clean';
      this.pieces[1].repair.started += 1;
      this.pieces[1].repair.done += 1;
      this.say(second.name, 'phase', 'info', 'clean');
    }
    this.ops(ms);
    this.gossip(ms);
    this.work(ms);
  }

  ops(ms) {
    for (let at = 0; at < this.n; at += 1) this.made[at] += Math.round((8 + 6 * Math.sin(this.t / 9000 + at) + 4 * this.next()) * (ms / 1000));
  }

  gossip(ms) {
    this.pieces.forEach((to, row) => {
      this.pieces.forEach((from, column) => {
        if (row === column) { to.known[column] = this.made[column]; return; }
        if (this.isCut(row) !== this.isCut(column)) return;
        const lacks = this.made[column] - to.known[column];
        const keeps = this.next() < 0.25 ? Math.min(lacks, Math.floor(this.next() * 4)) : 0;
        const takes = Math.max(0, Math.min(lacks - keeps, 160));
        to.known[column] += takes;
        const late = lacks > 60;
        for (let op = 0; op < takes; op += 1) to.propagation[late ? 13 : Math.min(BOUNDS.length, Math.floor(1 + 1.6 * this.next() + (this.next() < 0.03 ? 4 * this.next() : 0)))] += 1;
        to.repair.applied_ops += takes;
        to.repair.duplicate_ops += this.next() < 0.2 ? 1 : 0;
        if (late) { to.repair.pulled_logs += 1; from.traffic.repair.bytes += takes * 90; from.traffic.repair.frames += 3; }
        from.traffic.push.bytes += takes * 110;
        from.traffic.push.frames += Math.ceil(takes / 3);
        from.traffic.control.bytes += Math.round(0.9 * ms);
        from.traffic.control.frames += Math.round(ms / 250);
      });
    });
  }

  work(ms) {
    for (const worker of this.workers) {
      worker.newest = this.t;
      worker.blocks = Math.min(700, worker.blocks + Math.round(18 * this.next() * (ms / 1000)));
      if (this.t > 12_000 && this.next() < 0.12) worker.floor = this.t - 9000 - Math.round(3000 * this.next());
    }
    for (const { effect } of this.pieces) {
      const prompt = Math.round(1500 * this.next() * (ms / 1000));
      const share = 0.62 + 0.2 * Math.sin(this.t / 20_000);
      effect.measured += 1; effect.prompt_tokens += prompt;
      effect.predicted_tokens += Math.round(prompt * share); effect.cached_tokens += Math.round(prompt * (share - 0.03 * this.next()));
      effect.in_flight = Math.floor(this.next() * 4);
      effect.outcomes[this.next() < 0.7 ? 'hit' : this.next() < 0.5 ? 'miss' : this.next() < 0.7 ? 'none' : 'too_short'] += 1;
    }
  }

  lag(row, column) {
    return Math.max(0, this.made[column] - this.pieces[row].known[column]);
  }

  verdict() {
    const lags = this.pieces.flatMap((_, row) => this.pieces.map((__, column) => this.lag(row, column)));
    const worst = Math.max(...lags);
    const cut = this.pieces.some((_, at) => this.isCut(at));
    const joining = this.pieces.some(({ phase }) => phase !== 'clean');
    const word = cut ? 'partitioned' : joining ? 'degraded' : worst > 30 ? 'converging' : 'converged';
    const why = { partitioned: `${this.pieces[this.lonely].name} is not heard by the others`, degraded: 'gw-2 is joining: it has no replica yet', converging: 'what was missed is being pulled', converged: 'every present gateway has the same state, but for what is under way' }[word];
    if (word !== this.word) { this.since = this.t; this.say(null, 'verdict', word === 'converged' ? 'info' : word === 'partitioned' ? 'bad' : 'warn', `${word}: ${why}`); this.word = word; }
    if (word === 'converged') this.converged = this.t;
    return {
      word, why, since_ms: this.start_ms + this.since, converged_ms: this.converged === null ? null : this.start_ms + this.converged, worst_lag_ops: worst,
      worst_lag_ms: worst === 0 ? 0 : cut ? this.t - 20_000 : 12, eta_ms: word === 'converging' ? worst * 9 : null, seen: this.n - (cut ? 1 : 0), missing: cut ? 1 : 0,
    };
  }

  frame() {
    const verdict = this.verdict();
    this.seq += 1;
    const t_ms = this.start_ms + this.t;
    const viewer = this.simulated ? null : 'gw-1';
    const gateways = this.pieces.map((piece, at) => this.view(piece, at, viewer));
    const events = this.events;
    this.events = [];
    const faults = this.simulated && this.t >= 20_000 && this.t < 40_000 ? [{ kind: 'partition', gateways: [this.pieces[this.lonely].name], text: `partition: ${this.pieces[this.lonely].name} cut off`, since_ms: 20_000 }] : [];
    if (this.simulated && this.t >= 30_000 && this.t < 52_000) faults.push({ kind: 'loss', gateways: [], text: 'loss 5 % everywhere', since_ms: 30_000 });
    if (this.simulated && this.t >= 55_000 && this.t < 58_000) faults.push({ kind: 'crash', gateways: ['gw-2'], text: 'crash: gw-2', since_ms: 55_000 });
    return {
      schema: 'covey-mesh-frame', version: 1, seq: this.seq, t_ms,
      source: { kind: this.simulated ? 'simulated' : 'live', viewer, cluster: 'demo', package_version: '0.1.0', seed: this.simulated ? this.seed : null },
      verdict, gateways, workers: this.workers.map((worker, at) => this.worker(worker, at)), workers_hidden: 0, events, faults, propagation_bounds_ms: BOUNDS,
    };
  }

  view(piece, at, viewer) {
    const old = viewer !== null && this.isCut(at);
    const lone = this.isCut(at);
    return {
      name: piece.name, life: piece.life, me: piece.name === viewer, left: false, age_ms: piece.name === viewer ? 0 : old ? this.t - 20_000 : Math.round(200 + 300 * this.next()),
      phase: piece.phase, digest: piece.phase === 'clean' ? `${lone ? 'b' : 'a'}${String(this.t).padStart(31, '0')}` : null, vector: (this.t + (lone ? 1e6 : 0)).toString(16).padStart(16, '0'),
      group: piece.phase === 'joining' || old ? null : lone || this.lagsMuch(at) ? 1 : 0, clock: 'good', clock_ahead_ms: Math.round((at - this.n / 2) * 0.8),
      replica: { ops_applied: piece.known.reduce((a, b) => a + b, 0), ops_held: lone ? 0 : Math.floor(this.next() * 3), lives: this.n, closing: 0, retired: 0, workers: this.workers.length, holders: this.workers.length, blocks: 3000, log_bytes: 120_000, repairing: piece.phase === 'joining' },
      traffic: structuredClone(piece.traffic), repair: { ...piece.repair }, propagation: [...piece.propagation], effect: structuredClone(piece.effect),
      sees: this.pieces.map((_, column) => (column === at ? null : old ? null : [this.isCut(column) === lone, this.isCut(column) === lone ? Math.round(240 * this.next()) : this.t - 20_000, this.lag(at, column), this.lag(at, column) === 0 ? 0 : 15, Math.round(300 + 500 * this.next()), Math.round((column - at) * 0.8)])),
    };
  }

  lagsMuch(at) {
    return this.pieces.some((_, column) => this.lag(at, column) > 30) && at === this.lonely;
  }

  feed(worker, at) {
    const owner = this.pieces[at % this.n].name;
    const state = at === 4 ? 'bootstrapping' : at === 2 && this.t % 20_000 > 17_000 ? 'gap' : this.isCut(at % this.n) ? 'stale' : 'exact';
    const known = (value) => (state === 'stale' ? null : value);
    return {
      publishers: [owner], standbys: [this.pieces[(at + 1) % this.n].name], state, for_ms: known(this.t), lag_ms: known(at + 2), position: known(Math.round(this.t / 50)),
      stored_blocks: worker.blocks, is_complete: at !== 4, age_ms: state === 'stale' ? this.t : 300,
    };
  }

  worker(worker, at) {
    const differs = at === 3 && this.t >= 70_000 && this.t < 76_000;
    return {
      id: worker.id, url: `http://10.0.0.${at + 10}:8000`, up: true, capacity_tokens: at === 5 ? null : 180_000, capacity_source: at === 5 ? null : 'probed',
      requests: Math.floor(this.next() * 6), queued_tokens: Math.floor(this.next() * 4000), differs, feed: at === 5 ? null : this.feed(worker, at),
      by: this.pieces.map((piece, row) => (piece.phase === 'joining' || this.isCut(row) ? null : [1, worker.blocks - (differs && row === 1 ? 40 : 0), differs && row === 1 ? 'b'.repeat(16) : 'a'.repeat(16), worker.floor === null ? null : this.start_ms + worker.floor, this.start_ms + worker.newest - Math.round(this.next() * 20), 0])),
    };
  }
}

/** A whole recording, `seconds` long. */
export function recorded({ seconds = 90, every_ms = 500, ...options } = {}) {
  const mesh = new FakeMesh({ simulated: true, ...options });
  const frames = [];
  for (let t = 0; t < seconds * 1000; t += every_ms) {
    mesh.step(every_ms);
    frames.push(mesh.frame());
  }
  return frames;
}
