// Real processes: workers, gateways with a mesh through a switch, and somebody who talks to them.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Switch } from './switch.mjs';

const TARGET = process.env.CARGO_TARGET_DIR ?? new URL('../../../target', import.meta.url).pathname;
export const binary = (name) => {
  const path = join(TARGET, process.env.PROFILE_DIR ?? 'debug', name);
  if (!existsSync(path)) throw new Error(`no ${path}: cargo build -p covey-gateway-plugin -p covey-sim`);
  return path;
};
const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

export async function freePorts(count) {
  const servers = await Promise.all(Array.from({ length: count }, () => new Promise((resolve) => {
    const server = createServer();
    server.listen(0, '127.0.0.1', () => resolve(server));
  })));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => { server.close(resolve); })));
  return ports;
}

/** A process whose first lines can be waited for; what it said is kept for when it fails. */
export class Process {
  constructor(name, command, args) {
    this.name = name;
    this.said = '';
    this.child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] });
    for (const stream of [this.child.stdout, this.child.stderr]) stream.on('data', (data) => { this.said = (this.said + data).slice(-20_000); });
  }

  /** What follows a text in what it says. */
  async after(text, within_ms = 20_000) {
    for (const end = Date.now() + within_ms; Date.now() < end; await pause(30)) {
      const match = new RegExp(`${text}(\\S+)`).exec(this.said);
      if (match) return match[1];
      if (this.child.exitCode !== null) break;
    }
    throw new Error(`${this.name} did not say "${text}"; it said:\n${this.said}`);
  }

  kill() {
    return new Promise((resolve) => {
      if (this.child.exitCode !== null || this.child.signalCode !== null) resolve();
      this.child.once('exit', resolve);
      this.child.kill('SIGKILL');
    });
  }
}

export class Fleet {
  #files = mkdtempSync(join(tmpdir(), 'covey-page-'));
  #talking = true;
  #talks = [];
  gateways = [];
  workers = [];
  answered = 0;
  failed = 0;

  static async start({ gateways = 3, workers = 3, cache_tokens = 2500 } = {}) {
    const fleet = new Fleet();
    try {
      for (let at = 0; at < workers; at += 1) {
        fleet.workers.push(new Process(`w${at}`, binary('covey-sim'), ['worker', '--exit-with-stdin', '--listen', '127.0.0.1:0', '--model', 'demo', '--id', `w${at}`, '--cache-tokens', String(cache_tokens), '--prefill-tokens-per-s', '6000', '--decode-step-ms', '8']));
      }
      const urls = await Promise.all(fleet.workers.map((worker) => worker.after('worker listens on http://')));
      await fleet.#gateways(gateways, urls);
      await Promise.all(fleet.gateways.map((gateway) => fleet.ready(gateway)));
      return fleet;
    } catch (error) {
      await fleet.stop();
      throw error;
    }
  }

  async #gateways(count, urls) {
    const secret = join(this.#files, 'secret');
    writeFileSync(secret, randomBytes(32).toString('base64'), { mode: 0o600 });
    const ports = await freePorts(3 * count);
    this.switch = await Switch.start(ports.slice(2 * count));
    for (let at = 0; at < count; at += 1) {
      const [listen, admin, mesh] = [ports[at], ports[count + at], ports[2 * count + at]];
      const seeds = this.switch.faces.filter((_, other) => other !== at).map((port) => `127.0.0.1:${port}`).join(',');
      const args = [
        'gateway', '--listen', `127.0.0.1:${listen}`, '--admin-listen', `127.0.0.1:${admin}`, '--model', 'demo', ...urls.flatMap((url, number) => ['--worker', `w${number}=http://${url}`]),
        '--mesh', 'on', '--mesh-name', `gw-${at + 1}`, '--mesh-listen', `127.0.0.1:${mesh}`, '--mesh-advertise', `127.0.0.1:${this.switch.faces[at]}`, '--mesh-seeds', seeds, '--mesh-secret-file', secret,
      ];
      this.gateways.push({ name: `gw-${at + 1}`, base: `http://127.0.0.1:${listen}/`, admin: `http://127.0.0.1:${admin}/`, args, process: new Process(`gw-${at + 1}`, binary('covey'), args) });
    }
  }

  async ready(gateway, within_ms = 30_000) {
    for (const end = Date.now() + within_ms; Date.now() < end; await pause(50)) {
      const answer = await fetch(`${gateway.admin}readyz`).catch(() => null);
      if (answer?.ok) return;
      if (gateway.process.child.exitCode !== null) break;
    }
    throw new Error(`${gateway.name} is not ready; it said:\n${gateway.process.said}`);
  }

  restart(gateway) {
    gateway.process = new Process(gateway.name, binary('covey'), gateway.args);
  }

  /** Conversations that wander over the gateways, until the fleet stops. */
  talk(conversations = 4, think_ms = 250) {
    for (let at = 0; at < conversations; at += 1) this.#talks.push(this.#conversation(at, think_ms));
  }

  async #conversation(number, think_ms) {
    for (let round = 0; this.#talking; round += 1) {
      const messages = [{ role: 'system', content: `You answer conversation ${number}, round ${round}. ${'Be brief, be exact, name your sources. '.repeat(12)}` }];
      for (let turn = 0; turn < 6 && this.#talking; turn += 1) {
        const answer = `Answer ${turn} of ${number}-${round}: ${'so it goes on and on. '.repeat(10)}`;
        messages.push({ role: 'user', content: `Question ${turn} of ${number}-${round}: ${'what then, and why? '.repeat(14)}` });
        await this.#ask(this.gateways[(number + turn + round) % this.gateways.length], messages, answer);
        messages.push({ role: 'assistant', content: answer });
        await pause(think_ms * (0.5 + Math.random()));
      }
    }
  }

  async #ask(gateway, messages, answer) {
    const body = JSON.stringify({ model: 'demo', messages, stream: true, stream_options: { include_usage: true }, covey_script: { answer } });
    try {
      const response = await fetch(`${gateway.base}v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
      await response.text();
      if (response.ok) this.answered += 1;
      else this.failed += 1;
    } catch {
      this.failed += 1;
    }
  }

  async stop() {
    this.#talking = false;
    await Promise.all([...this.gateways.map(({ process }) => process), ...this.workers].map((process) => process.kill()));
    await Promise.all(this.#talks);
    this.switch?.close();
    rmSync(this.#files, { recursive: true, force: true });
  }
}
