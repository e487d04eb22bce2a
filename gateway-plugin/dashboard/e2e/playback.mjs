// The page on a playback by `covey-sim serve`: a simulated disaster, played, stepped through, linked to.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { launch, open } from './browser.mjs';
import { Process, binary, freePorts } from './fleet.mjs';

const SEED = '42';
let browser;
let served;
let url;

before(async () => {
  const [port] = await freePorts(1);
  served = new Process('covey-sim serve', binary('covey-sim'), ['serve', '--seed', SEED, '--listen', `127.0.0.1:${port}`]);
  url = `http://127.0.0.1:${port}/`;
  // A debug build simulates slowly.
  for (const end = Date.now() + 240_000; ; ) {
    if (await fetch(`${url}api/info`).then((answer) => answer.ok, () => false)) break;
    assert.equal(served.child.exitCode, null, served.said);
    assert.ok(Date.now() < end, `it does not serve: ${served.said}`);
    await new Promise((resolve) => { setTimeout(resolve, 200); });
  }
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await served?.kill();
});

async function on(hash, body) {
  const { page, wrong, close } = await open(browser, url + hash);
  try {
    await body(page);
    assert.deepEqual(wrong, []);
  } finally {
    await close();
  }
}

const recorded = async () => (await (await fetch(`${url}api/recording`)).text()).trim().split('\n').map((line) => JSON.parse(line));
const position = (page) => page.locator('input[type=range]').evaluate((slider) => Number(slider.value));

test('it says what is played, and every panel has data or says why not', async () => {
  await on('', async (page) => {
    assert.match(await page.locator('.top .label').innerText(), new RegExp(SEED));
    const frames = await recorded();
    assert.equal(await page.locator('input[type=range]').evaluate((slider) => Number(slider.max)), Math.min(3600, frames.length) - 1);
    await page.keyboard.press('End');
    for (const panel of ['matrix', 'ribbon', 'propagation', 'workers', 'traffic', 'events']) {
      await page.locator(`#${panel}`).scrollIntoViewIfNeeded();
      await page.waitForSelector(`#${panel}[data-state="ok"]`, { timeout: 5000 }).catch(async () => assert.fail(`${panel} has no data: ${await page.locator(`#${panel}`).innerText()}`));
    }
    await page.locator('#effect').scrollIntoViewIfNeeded();
    await page.waitForSelector('#effect:not([data-state="waiting"])');
  });
});

test('verdict, ribbon and fault lanes follow the cursor through the disaster', async () => {
  const frames = await recorded();
  const words = new Set(frames.map(({ verdict }) => verdict.word));
  assert.ok(words.size > 1 && words.has('converged'), `the seed has a story: ${[...words]}`);
  assert.ok(frames.some(({ faults }) => faults.length > 0), 'the seed has faults');
  await on('', async (page) => {
    for (const wanted of words) {
      const at = frames.findIndex(({ verdict }) => verdict.word === wanted);
      await page.evaluate((t) => { location.hash = `#t=${t}`; }, frames[at].t_ms / 1000);
      await page.waitForFunction((word) => document.querySelector('#verdict').dataset.word === word, wanted, { timeout: 3000 });
    }
  });
});

test('it plays, pauses, and steps from event to event', async () => {
  await on('', async (page) => {
    await page.selectOption('select[aria-label="Speed of playing"]', '2');
    await page.locator('.t-play').click();
    await page.waitForFunction(() => Number(document.querySelector('input[type=range]').value) > 3, undefined, { timeout: 5000 });
    await page.locator('.t-play').click();
    const paused = await position(page);
    await page.waitForTimeout(500);
    assert.equal(await position(page), paused);
    await page.keyboard.press('Home');
    const frames = (await recorded()).slice(-3600);
    const next = frames.findIndex(({ events }, at) => at > 0 && events.length > 0);
    assert.ok(next > 0, 'something happens');
    await page.locator('.t-eventOn').click();
    await page.waitForFunction((at) => Number(document.querySelector('input[type=range]').value) === at, next);
    await page.locator('.t-on').click();
    await page.waitForFunction((at) => Number(document.querySelector('input[type=range]').value) === at, next + 1);
  });
});

test('a link restores the moment, and is kept up to date', async () => {
  const frames = await recorded();
  const middle = frames[Math.floor(frames.length / 2)];
  await on(`#t=${middle.t_ms / 1000}`, async (page) => {
    assert.equal(await page.locator('#verdict').getAttribute('data-word'), middle.verdict.word);
    await page.keyboard.press('Home');
    await page.waitForFunction((t) => location.hash === `#t=${t}`, frames[0].t_ms / 1000);
  });
});
