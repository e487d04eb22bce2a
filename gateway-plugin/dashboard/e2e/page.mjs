// The page in a real Chromium, against frames that are made up: what must hold whatever the mesh does. Many gateways,
// streams that break, keys, narrow screens, files, the policy.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { recorded } from '../tools/fake-frames.mjs';
import { serve } from '../tools/fake.mjs';
import { launch, open, word } from './browser.mjs';

const PANELS = ['matrix', 'ribbon', 'propagation', 'workers', 'cuts', 'traffic', 'clocks', 'effect', 'events'];
let browser;
before(async () => { browser = await launch(); });
after(async () => { await browser?.close(); });

/** Runs with a fake server and a page on it; nothing may have gone wrong in the page. */
async function on(options, how, body) {
  const fake = await serve(options);
  const opened = await open(browser, `${fake.url}${how.hash ?? ''}`, how);
  try {
    await body(opened.page, fake);
    assert.deepEqual(opened.wrong.filter((line) => !how.expected?.test(line)), []);
  } finally {
    await opened.close();
    fake.close();
  }
}

const text = (page, selector) => page.locator(selector).innerText();
const cursor = (page) => page.locator('input[type=range]').evaluate((slider) => [Number(slider.value), Number(slider.max)]);
/** Whether anything but one colour is drawn on a canvas. */
const painted = (page, selector) => page.locator(selector).first().evaluate((canvas) => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let at = 0; at < data.length; at += 4) seen.add(`${data[at]},${data[at + 1]},${data[at + 2]},${data[at + 3]}`);
  return seen.size;
});

test('every panel has data, at 2, 8 and 64 gateways, without scrolling sideways', async () => {
  for (const [gateways, width] of [[2, 1440], [8, 390], [64, 1440], [64, 390]]) {
    await on({ gateways, workers: 10 }, { width }, async (page) => {
      for (const panel of PANELS) {
        await page.locator(`#${panel}`).scrollIntoViewIfNeeded();
        await page.waitForSelector(`#${panel}[data-state="ok"]`, { timeout: 5000 });
      }
      for (const canvas of ['#matrix .stage canvas', '#ribbon canvas[role=img]', '#propagation canvas', '#cuts canvas', '#clocks canvas', '#traffic canvas', '#effect canvas', '#workers canvas']) {
        assert.ok((await painted(page, canvas)) >= 2, `${canvas} is drawn at ${gateways} gateways and ${width} px`);
      }
      const [wide, room] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      assert.ok(wide <= room, `no scrolling sideways at ${width} px: ${wide} > ${room}`);
    });
  }
});

test('the policy is in force, and nothing breaks it', async () => {
  await on({}, { expected: /127\.0\.0\.2/ }, async (page) => {
    const refused = await page.evaluate(() => new Promise((resolve) => {
      document.addEventListener('securitypolicyviolation', (event) => { resolve(event.violatedDirective); }, { once: true });
      fetch('http://127.0.0.2:9/').catch(() => {});
      setTimeout(() => resolve('nothing'), 2000);
    }));
    assert.equal(refused, 'connect-src');
  });
});

test('a stream that breaks makes everything grey and says how old it is, and comes back', async () => {
  await on({ every_ms: 300 }, { expected: /ERR_|Failed to load/ }, async (page, fake) => {
    await page.waitForFunction(() => document.querySelector('#verdict').dataset.word !== 'unknown');
    fake.server.closeAllConnections();
    fake.pause();
    const { port } = new URL(fake.url);
    await new Promise((resolve) => fake.server.close(resolve));
    await page.waitForSelector('#app[data-connection="broken"]', { timeout: 2000 });
    assert.equal(await word(page), 'unknown');
    assert.match(await text(page, '.banner'), /^Disconnected .*last frame \d+ s ago/);
    assert.match(await text(page, '#verdict .why'), /^Disconnected, last frame \d+ s ago/);
    assert.match(await page.title(), /^disconnected/);
    assert.deepEqual(await page.locator('.panel').evaluateAll((panels) => [...new Set(panels.map((panel) => panel.dataset.state))]), ['disconnected']);
    const again = await serve({ port: Number(port), every_ms: 300, past: 90 });
    try {
      await page.waitForSelector('#app[data-connection="live"]', { timeout: 8000 });
      await page.waitForFunction(() => document.querySelector('#verdict').dataset.word !== 'unknown');
      assert.equal(await page.locator('.banner').isVisible(), false);
    } finally {
      again.close();
    }
  });
});

test('a stream that is silent counts as broken', async () => {
  await on({}, {}, async (page, fake) => {
    fake.pause();
    await page.waitForSelector('#app[data-connection="broken"]', { timeout: 6000 });
    assert.equal(await word(page), 'unknown');
  });
});

test('it waits in words while nobody answers', async () => {
  const fake = await serve({ past: 0, every_ms: 60_000 });
  const { page, close } = await open(browser, fake.url, { settle: false });
  try {
    await page.waitForFunction(() => /waiting for its first frame/.test(document.querySelector('#verdict .why')?.textContent ?? ''));
    assert.equal(await word(page), 'unknown');
    assert.equal(await page.locator('.panel:not([data-state="waiting"])').count(), 0);
  } finally {
    await close();
    fake.close();
  }
});

test('keys alone move the cursor, and reach everything', async () => {
  await on({ playback: true }, {}, async (page) => {
    const [, last] = await cursor(page);
    for (const [key, at] of [['ArrowRight', 1], ['ArrowRight', 2], ['ArrowLeft', 1], ['End', last], ['Home', 0]]) {
      await page.keyboard.press(key);
      await page.waitForFunction((value) => Number(document.querySelector('input[type=range]').value) === value, at);
    }
    await page.keyboard.press('Shift+ArrowRight');
    await page.waitForFunction(() => Number(document.querySelector('input[type=range]').value) > 0);
    const before = (await cursor(page))[0];
    await page.keyboard.press(' ');
    await page.waitForFunction((value) => Number(document.querySelector('input[type=range]').value) > value + 1, before);
    await page.keyboard.press(' ');
    const paused = (await cursor(page))[0];
    await page.waitForTimeout(700);
    assert.equal((await cursor(page))[0], paused);
    const reached = new Set();
    for (let step = 0; step < 80; step += 1) {
      await page.keyboard.press('Tab');
      reached.add(await page.evaluate(() => {
        const on = document.activeElement;
        const outlined = getComputedStyle(on).outlineStyle !== 'none' || on.id === 'open-file' || on === document.body;
        return `${on.closest('.panel')?.id ?? on.closest('nav, header')?.className ?? ''}${outlined ? '' : ' WITHOUT A VISIBLE FOCUS'}`;
      }));
    }
    for (const place of ['top', 'timebar', 'matrix', 'ribbon', 'clocks', 'events', 'workers']) assert.ok(reached.has(place), `${place} is reached by Tab: ${[...reached]}`);
    assert.deepEqual([...reached].filter((place) => place.includes('WITHOUT')), []);
  });
});

test('the matrix tells by keys what it shows, and so do the tables', async () => {
  await on({ playback: true }, { hash: '#t=33' }, async (page) => {
    const canvas = page.locator('#matrix .stage canvas');
    await page.locator('.live, .timebar select').first().focus();
    await canvas.focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    assert.match(await text(page, '#matrix-detail'), /^gw-1 sees gw-4: lacked when last heard \d+ ops for .*not linked.*round trip/);
    assert.equal(await page.locator('input[type=range]').evaluate((slider) => slider.value), '65', 'the cursor stays');
    await page.locator('#matrix summary').click();
    assert.match(await text(page, '#matrix table'), /gw-1[\s\S]*group A[\s\S]*lacked \d+, not linked/);
    await page.locator('#ribbon summary').click();
    assert.match(await text(page, '#ribbon table'), /gw-4[\s\S]*group B/);
  });
});

test('a press on the ribbon or an event moves the one cursor', async () => {
  await on({ playback: true }, {}, async (page) => {
    const box = await page.locator('#ribbon canvas[role=img]').boundingBox();
    await page.mouse.click(box.x + box.width * 0.5, box.y + 10);
    await page.waitForFunction(() => Number(document.querySelector('input[type=range]').value) > 60);
    await page.locator('#events button', { hasText: 'heard again' }).click();
    await page.waitForFunction(() => document.querySelector('.cursor-time').textContent.startsWith('40.00'));
    assert.equal(new URL(page.url()).hash, '#t=40');
    await page.locator('#events input').fill('gw-2 life');
    assert.equal(await page.locator('#events button').count(), 1);
  });
});

test('a link restores the moment', async () => {
  await on({ playback: true }, { hash: '#t=30' }, async (page) => {
    await page.waitForFunction(() => document.querySelector('.cursor-time').textContent.startsWith('30.00'));
    assert.equal(await word(page), 'partitioned');
  });
});

test('in a live stream the past is called the past, and one key goes back', async () => {
  await on({ past: 60 }, {}, async (page) => {
    await page.keyboard.press('Home');
    await page.waitForSelector('#verdict[data-past]');
    assert.match(await text(page, '#verdict .past'), /in the past/);
    assert.match(await text(page, '.now-chip'), /^now: /);
    const at = await text(page, '#verdict .past');
    await page.waitForTimeout(1500);
    assert.equal(await text(page, '#verdict .past'), at);
    await page.keyboard.press('l');
    await page.waitForSelector('#verdict:not([data-past])');
  });
});

test('a recording that is dropped or opened is played, and a bad one is refused with its line', async () => {
  await on({}, {}, async (page) => {
    const frames = recorded({ seconds: 20 });
    await page.setInputFiles('#open-file', { name: 'bad.jsonl', mimeType: 'text/plain', buffer: Buffer.from(`${JSON.stringify(frames[0])}\nnonsense\n{}\n`) });
    await page.waitForFunction(() => /line 2: not JSON/.test(document.querySelector('.banner').textContent));
    await page.setInputFiles('#open-file', { name: 'incident.jsonl', mimeType: 'text/plain', buffer: Buffer.from(frames.map((frame) => JSON.stringify(frame)).join('\n')) });
    await page.waitForSelector('#app[data-connection="playback"]');
    assert.match(await text(page, '.top .label'), /incident\.jsonl/);
    assert.deepEqual(await cursor(page), [0, 39]);
    assert.equal(await page.locator('.live').isVisible(), false);
    const data = await page.evaluateHandle((lines) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([lines], 'dropped.jsonl'));
      return transfer;
    }, frames.slice(0, 10).map((frame) => JSON.stringify(frame)).join('\n'));
    await page.dispatchEvent('body', 'drop', { dataTransfer: data });
    await page.waitForFunction(() => /dropped\.jsonl/.test(document.querySelector('.top .label').textContent));
  });
});

test('colours follow the system, and can be chosen', async () => {
  for (const scheme of ['light', 'dark']) {
    await on({}, { scheme }, async (page) => {
      const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      const system = await back();
      await page.selectOption('.theme', scheme === 'light' ? 'dark' : 'light');
      assert.notEqual(await back(), system);
    });
  }
});

test('a mismatch is shown in red and in words', async () => {
  const frames = recorded({ seconds: 20 });
  frames.slice(20).forEach((frame) => { frame.gateways[0].repair.mismatches = 1; });
  await on({ playback: true, frames }, { hash: '#t=15' }, async (page) => {
    await page.locator('#cuts').scrollIntoViewIfNeeded();
    assert.match(await text(page, '#cuts .alarm'), /1 mismatch in this window, which must never be/);
    assert.equal(await page.locator('#traffic .fact[data-alarm="true"]').count(), 1);
  });
});

test('where nobody routes it says so', async () => {
  const frames = recorded({ seconds: 10 });
  frames.forEach((frame) => frame.gateways.forEach((gateway) => { gateway.effect = null; }));
  await on({ playback: true, frames }, {}, async (page) => {
    await page.locator('#effect').scrollIntoViewIfNeeded();
    await page.waitForSelector('#effect[data-state="empty"]');
    assert.match(await text(page, '#effect .empty'), /^Nobody routes here/);
  });
});

test('at rest it does next to nothing, and it draws nothing while nobody looks', async () => {
  await on({ gateways: 8 }, {}, async (page) => {
    const session = await page.context().newCDPSession(page);
    await session.send('Performance.enable');
    const busy = async () => Object.fromEntries((await session.send('Performance.getMetrics')).metrics.map(({ name, value }) => [name, value]));
    const one = await busy();
    await page.waitForTimeout(5000);
    const two = await busy();
    const share = (two.TaskDuration - one.TaskDuration) / (two.Timestamp - one.Timestamp);
    assert.ok(share < 0.2, `${(share * 100).toFixed(1)} % of a core while a frame comes each second`);
    const drawn = await page.evaluate(async () => {
      let count = 0;
      const { clearRect } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.clearRect = function clear(...box) { count += 1; return clearRect.apply(this, box); };
      const wait = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
      const hide = (value) => { Object.defineProperty(document, 'hidden', { value, configurable: true }); document.dispatchEvent(new Event('visibilitychange')); };
      hide(true);
      await wait(300);
      count = 0;
      await wait(2500);
      const hidden = count;
      hide(false);
      await wait(500);
      return [hidden, count];
    });
    assert.equal(drawn[0], 0, 'nothing is drawn while the page is hidden');
    assert.ok(drawn[1] > 3, 'all of it is drawn when the page is looked at again');
    console.log(`    ${(share * 100).toFixed(1)} % of a core with 8 gateways and a frame a second`);
  });
});
