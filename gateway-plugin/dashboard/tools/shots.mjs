// Pictures for the docs: a real run of five gateways, with conversations, one gateway cut off for a while; and a playback.
// Takes two minutes.
// `node tools/shots.mjs DIR`. Needs the binaries (see e2e/fleet.mjs).
import { mkdirSync } from 'node:fs';

import { launch, open } from '../e2e/browser.mjs';
import { Fleet, Process, binary, freePorts } from '../e2e/fleet.mjs';

const dir = process.argv[2] ?? new URL('../docs', import.meta.url).pathname;
mkdirSync(dir, { recursive: true });
const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

async function shot(browser, url, name, { full = true, hash = '', hover, ...how }) {
  const { page, wrong, close } = await open(browser, url + hash, how);
  if (full) await page.setViewportSize({ width: how.width ?? 1440, height: await page.evaluate(() => document.documentElement.scrollHeight) });
  await pause(1500);
  if (hover) await page.hover(hover.selector, { position: hover.at });
  await pause(300);
  const path = `${dir}/${name}.png`;
  await (full ? page.locator('#app').screenshot({ path }) : page.screenshot({ path }));
  await close();
  wrong.forEach((line) => console.error(`${name}: ${line}`));
}

const browser = await launch();
const fleet = await Fleet.start({ gateways: 5, workers: 6, cache_tokens: 6000 });
try {
  fleet.talk(5, 400);
  const { admin } = fleet.gateways[0];
  await pause(60_000);
  fleet.switch.isolate(3);
  await pause(14_000);
  await shot(browser, admin, 'cut-off-dark', { scheme: 'dark', full: false, height: 1000, hover: { selector: '#matrix .stage canvas', at: { x: 300, y: 60 } } });
  await pause(4000);
  fleet.switch.heal();
  await pause(35_000);
  await shot(browser, admin, 'light', {});
  await shot(browser, admin, 'dark', { scheme: 'dark' });
  await shot(browser, admin, 'narrow', { width: 390, height: 844, full: false, scale: 2 });
  const [port] = await freePorts(1);
  const served = new Process('covey-sim serve', binary('covey-sim'), ['serve', '--seed', '42', '--listen', `127.0.0.1:${port}`]);
  const url = `http://127.0.0.1:${port}/`;
  while (!(await fetch(url).then((answer) => answer.ok, () => false))) await pause(200);
  await shot(browser, url, 'playback', { hash: '#t=4.25', full: false, height: 1000 });
  await served.kill();
} finally {
  await browser.close();
  await fleet.stop();
}
