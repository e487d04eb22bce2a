// A stand-in for a gateway's admin port, or with `--playback` for `covey-sim serve`: the same routes and the same content
// security policy, with frames that are made up. `--gateways N`, `--workers N`, `--port N`, `--seed N`.
import { readFileSync, existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { parseArgs } from 'node:util';
import { pathToFileURL } from 'node:url';

import { FakeMesh, recorded } from './fake-frames.mjs';

export const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'";
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
const dist = new URL('../dist/', import.meta.url).pathname;

function asset(path, answer) {
  const name = normalize(path === '/' ? '/index.html' : path);
  const file = join(dist, name);
  if (!file.startsWith(dist) || !existsSync(file)) return answer.writeHead(404).end('not here');
  return answer.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream', 'content-security-policy': POLICY }).end(readFileSync(file));
}

/** Serves; gives the server and what it streams, so that a test can stop the stream. */
export function serve({ playback = false, port = 0, gateways = 4, workers = 6, seed = 7, past = 60, every_ms = 1000, frames } = {}) {
  const held = [];
  const listeners = new Set();
  const mesh = new FakeMesh({ gateways, workers, seed, start_ms: Date.now() - past * 1000 });
  const beat = () => {
    mesh.step(1000);
    const frame = mesh.frame();
    held.push(frame);
    if (held.length > 600) held.shift();
    for (const send of listeners) send(frame);
  };
  if (!playback) for (let at = 0; at < past; at += 1) beat();
  const timer = playback ? undefined : setInterval(beat, every_ms);
  const recording = playback ? (frames ?? recorded({ gateways, workers, seed })) : [];
  const json = (answer, value) => answer.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  const server = createServer((request, answer) => {
    const url = new URL(request.url, 'http://localhost');
    if (url.pathname === '/api/info') return json(answer, { mode: playback ? 'playback' : 'live', label: playback ? `seed ${seed}` : 'gw-1', package_version: '0.1.0' });
    if (url.pathname === '/api/frame') return json(answer, playback ? recording.at(-1) : held.at(-1));
    if (url.pathname === '/api/recording') return answer.writeHead(200, { 'content-type': 'application/jsonl' }).end(recording.map((frame) => JSON.stringify(frame)).join('\n'));
    if (url.pathname !== '/api/frames') return asset(url.pathname, answer);
    answer.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    const send = (frame) => answer.write(`event: frame\nid: ${frame.seq}\ndata: ${JSON.stringify(frame)}\n\n`);
    const after = url.searchParams.get('after');
    held.filter((frame) => after === null ? frame === held.at(-1) : frame.seq > Number(after)).forEach(send);
    listeners.add(send);
    request.on('close', () => listeners.delete(send));
    return undefined;
  });
  return new Promise((resolve) => server.listen(port, '127.0.0.1', () => resolve({
    server, url: `http://127.0.0.1:${server.address().port}/`, pause: () => clearInterval(timer), mesh,
    close: () => { clearInterval(timer); server.closeAllConnections(); server.close(); },
  })));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { values } = parseArgs({ options: { playback: { type: 'boolean' }, port: { type: 'string', default: '9099' }, gateways: { type: 'string', default: '4' }, workers: { type: 'string', default: '6' }, seed: { type: 'string', default: '7' } } });
  const { url } = await serve({ playback: values.playback ?? false, port: Number(values.port), gateways: Number(values.gateways), workers: Number(values.workers), seed: Number(values.seed) });
  console.log(`frames that are made up, at ${url}`);
}
