// The page against three real gateways: every panel has data; a gateway that is cut off shows within two seconds and comes
// back after healing; a viewer that dies makes the page say so, and the page finds it again.
//
// `SHOTS=DIR` also leaves pictures there.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { after, before, test } from 'node:test';

import { launch, open, word } from './browser.mjs';
import { Fleet } from './fleet.mjs';

const PANELS = ['matrix', 'ribbon', 'propagation', 'workers', 'cuts', 'traffic', 'clocks', 'effect', 'events'];
const SEEN_MS = 2000;
const HEALED_MS = 15_000;
const shots = process.env.SHOTS;
let browser;
let fleet;

before(async () => {
  if (shots) mkdirSync(shots, { recursive: true });
  browser = await launch();
  fleet = await Fleet.start();
  fleet.talk();
});
after(async () => {
  await browser?.close();
  await fleet?.stop();
});

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

/** What the page says now, in words: the verdict, a gateway's latest state in the ribbon, its row of the matrix. */
const told = (page, name) => page.evaluate((gateway) => {
  const rows = (panel) => [...document.querySelectorAll(`#${panel} tbody tr`)].map((row) => [...row.children].map((cell) => cell.textContent));
  return {
    word: document.querySelector('#verdict').dataset.word,
    ribbon: rows('ribbon').find(([of]) => of === gateway)?.[3],
    matrix: rows('matrix').filter(([of]) => of !== gateway).map((row) => row.slice(1)).flat().concat(rows('matrix').find(([of]) => of === gateway) ?? []).join(' | '),
  };
}, name);

async function tables(page) {
  for (const panel of ['matrix', 'ribbon']) {
    const details = page.locator(`#${panel} details`);
    if (!(await details.evaluate((of) => of.open))) await details.locator('summary').click();
  }
}

/** Waits until what is told is as wanted; gives how long that took. */
async function until(page, name, within_ms, wanted) {
  const start = performance.now();
  let last;
  while (performance.now() - start < within_ms) {
    last = await told(page, name);
    if (wanted(last)) return performance.now() - start;
    await pause(25);
  }
  assert.fail(`not within ${within_ms} ms; it tells ${JSON.stringify(last)}`);
}

const shot = async (page, name) => { if (shots) await page.screenshot({ path: `${shots}/${name}.png` }); };

test('every panel has data, and the mesh is converged', async () => {
  const { page, wrong, close } = await open(browser, fleet.gateways[0].admin);
  try {
    await page.waitForFunction(() => document.querySelector('#verdict').dataset.word === 'converged', undefined, { timeout: 20_000 });
    for (const panel of PANELS) {
      await page.locator(`#${panel}`).scrollIntoViewIfNeeded();
      await page.waitForSelector(`#${panel}[data-state="ok"]`, { timeout: 40_000 }).catch(async () => assert.fail(`${panel} has no data: ${await page.locator(`#${panel}`).innerText()}`));
    }
    await page.waitForFunction(() => /hit \d/.test(document.querySelector('#effect').textContent), undefined, { timeout: 30_000 });
    await page.waitForFunction(() => [...document.querySelectorAll('#workers .c-blocks')].slice(1).every((cell) => Number.parseInt(cell.textContent, 10) > 0), undefined, { timeout: 30_000 });
    await page.waitForFunction(() => [...document.querySelectorAll('#workers .c-cut')].some((cell) => /ago/.test(cell.textContent)), undefined, { timeout: 60_000 });
    assert.ok(fleet.answered > 10, `${fleet.answered} requests were answered`);
    assert.deepEqual(wrong, []);
    await shot(page, 'converged');
  } finally {
    await close();
  }
});

test('a gateway that is cut off shows within two seconds, from both sides, and comes back after healing', async () => {
  const lonely = fleet.gateways[2];
  const views = await Promise.all([open(browser, fleet.gateways[0].admin), open(browser, lonely.admin)]);
  const [{ page }, { page: inside }] = views;
  try {
    await Promise.all([tables(page), tables(inside)]);
    const whole = ({ word: of, ribbon, matrix }) => of === 'converged' && ribbon === 'group A' && !/no data|not linked|one-way|silent|unknown| old/.test(matrix);
    await until(page, lonely.name, 20_000, whole);
    const before = (await told(page, lonely.name)).matrix;
    fleet.switch.isolate(2);
    const cut = performance.now();
    const took = {};
    const watch = async (what, view, name, wanted) => { await until(view, name, 8000, wanted); took[what] = Math.round(performance.now() - cut); };
    await Promise.all([
      watch('verdict', page, lonely.name, ({ word: of }) => of === 'partitioned' || of === 'unknown' || of === 'diverged' || of === 'degraded'),
      watch('ribbon', page, lonely.name, ({ ribbon }) => ribbon !== 'group A'),
      watch('matrix', page, lonely.name, ({ matrix }) => /no data|not linked|one-way|silent/.test(matrix) && matrix !== before),
      watch('verdict from inside', inside, fleet.gateways[0].name, ({ word: of }) => of !== 'converged' && of !== 'converging'),
    ]);
    console.log(`    cut off: ${JSON.stringify(took)} ms`);
    for (const [what, ms] of Object.entries(took)) assert.ok(ms <= SEEN_MS, `${what} took ${ms} ms`);
    await pause(4000);
    await shot(page, 'partitioned');
    fleet.switch.heal();
    const healed = await until(page, lonely.name, HEALED_MS, whole);
    await until(inside, lonely.name, HEALED_MS, whole);
    console.log(`    healed: converged again in ${Math.round(healed)} ms`);
    await shot(page, 'healed');
    assert.deepEqual(views.flatMap(({ wrong }) => wrong), []);
  } finally {
    await Promise.all(views.map(({ close }) => close()));
  }
});

test('a viewer that dies is not taken for a live one, and is found again', async () => {
  const viewer = fleet.gateways[0];
  const { page, wrong, close } = await open(browser, viewer.admin);
  try {
    await page.waitForFunction(() => document.querySelector('#verdict').dataset.word === 'converged', undefined, { timeout: 20_000 });
    await viewer.process.kill();
    await page.waitForSelector('#app[data-connection="broken"]', { timeout: 2500 });
    assert.equal(await word(page), 'unknown');
    assert.match(await page.locator('.banner').innerText(), /^Disconnected/);
    await pause(1000);
    fleet.restart(viewer);
    await fleet.ready(viewer);
    await page.waitForSelector('#app[data-connection="live"]', { timeout: 10_000 });
    await page.waitForFunction(() => document.querySelector('#verdict').dataset.word === 'converged', undefined, { timeout: 20_000 });
    assert.deepEqual(wrong.filter((line) => !/ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY/.test(line)), []);
  } finally {
    await close();
  }
});
