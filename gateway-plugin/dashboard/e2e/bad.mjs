// What a page in a real Chromium does with what it should not get: broken recordings and frames, numbers beyond all
// measure, clocks that step back, and errors of its own. It must never look well when it is not.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { recorded } from '../tools/fake-frames.mjs';
import { serve } from '../tools/fake.mjs';
import { launch, open, word } from './browser.mjs';

let browser;
before(async () => { browser = await launch(); });
after(async () => { await browser?.close(); });

async function on(options, expected, body) {
  const fake = await serve(options);
  const { page, wrong, close } = await open(browser, fake.url);
  try {
    await body(page, fake);
    assert.deepEqual(wrong.filter((line) => !expected?.test(line)), []);
  } finally {
    await close();
    fake.close();
  }
}

const text = (page, selector) => page.locator(selector).innerText();
const frames = (page) => page.locator('input[type=range]').evaluate((slider) => Number(slider.max) + 1);
const give = (page, name, list) => page.setInputFiles('#open-file', { name, mimeType: 'text/plain', buffer: Buffer.from(list.map((of) => (typeof of === 'string' ? of : JSON.stringify(of))).join('\n')) });

test('a recording that is not whole leaves what is shown alone, and the page says why until it is heard', async () => {
  await on({ every_ms: 300 }, null, async (page) => {
    const good = recorded({ seconds: 5 });
    for (const [bad, why] of [[{ ...good[1], gateways: [null] }, 'line 2: not a whole mesh frame: gateways[0] is not an object'], [JSON.stringify(good[1]).replace(/"t_ms":\d+/, '"t_ms":1e25'), 'line 2: not a whole mesh frame: t_ms is not a whole number']]) {
      await give(page, 'bad.jsonl', [good[0], bad, good[2]]);
      await page.waitForFunction((said) => document.querySelector('.banner').textContent.includes(said), why);
      const before = await frames(page);
      await page.waitForFunction((held) => Number(document.querySelector('input[type=range]').max) + 1 > held + 2, before, { timeout: 4000 });
      assert.ok((await text(page, '.banner')).includes(why));
      assert.equal(await page.getAttribute('#app', 'data-connection'), 'live');
      assert.notEqual(await word(page), 'unknown');
    }
  });
});

test('bad live frames are dropped with a word, and without good ones the verdict is grey', async () => {
  await on({ every_ms: 300 }, null, async (page, fake) => {
    const whole = fake.mesh.frame.bind(fake.mesh);
    const held = await frames(page);
    fake.mesh.frame = () => ({ ...whole(), gateways: [null] });
    await page.waitForFunction(() => /dropped so far: .*gateways\[0\] is not an object/.test(document.querySelector('.banner').textContent));
    await page.waitForSelector('#app[data-connection="broken"]', { timeout: 8000 });
    assert.equal(await word(page), 'unknown');
    assert.ok((await frames(page)) <= held + 2);
    fake.mesh.frame = whole;
    await page.waitForSelector('#app[data-connection="live"]', { timeout: 8000 });
    assert.notEqual(await word(page), 'unknown');
  });
});

test('an error that nobody caught makes the page grey for good', async () => {
  for (const fails of [() => setTimeout(() => { throw new Error('made to fail'); }), () => { void Promise.reject(new Error('made to fail')); }]) {
    await on({ every_ms: 300 }, /made to fail/, async (page) => {
      await page.evaluate(fails);
      await page.waitForSelector('#app[data-connection="broken"]', { timeout: 2000 });
      await page.waitForTimeout(1500);
      assert.equal(await text(page, '.status'), 'broken: reload');
      assert.equal(await word(page), 'unknown');
      assert.match(await text(page, '#verdict .why'), /made to fail.*Reload/);
      assert.match(await page.title(), /^broken/);
      assert.deepEqual(await page.locator('.panel').evaluateAll((panels) => [...new Set(panels.map((panel) => panel.dataset.state))]), ['disconnected']);
    });
  }
});

test('what is kept stays when the clock of the viewer steps back', async () => {
  await on({ every_ms: 300, past: 60 }, null, async (page, fake) => {
    const held = await frames(page);
    assert.ok(held >= 60);
    fake.mesh.start_ms -= 600_000;
    await page.waitForFunction(() => /stepped back by 59\d s/.test(document.querySelector('#events').textContent), null, { timeout: 4000 });
    assert.ok((await frames(page)) > held);
    assert.equal(await page.getAttribute('#app', 'data-connection'), 'live');
  });
});

test('a recording that is whole but beyond all measure is shown, or refused, and never hangs', async () => {
  await on({}, null, async (page) => {
    const huge = Number.MAX_SAFE_INTEGER;
    const base = recorded({ seconds: 10 });
    const odd = {
      'far.jsonl': base.map((of, at) => (at > 10 ? { ...of, t_ms: huge - 100 + at } : of)),
      'large.jsonl': base.map((of) => JSON.parse(JSON.stringify(of), (key, value) => (typeof value === 'number' && !['t_ms', 'seq', 'version', 'group', 'since_ms', 'converged_ms'].includes(key) ? 1e300 : value))),
      'groups.jsonl': base.map((of) => ({ ...of, gateways: of.gateways.map((gateway) => ({ ...gateway, group: huge, name: '', sees: [] })) })),
      'empty.jsonl': base.map((of) => ({ ...of, gateways: [], workers: [], propagation_bounds_ms: [] })),
      'back.jsonl': [...base, ...recorded({ seconds: 10, seed: 8 })],
    };
    for (const [name, list] of Object.entries(odd)) {
      await give(page, name, list);
      await page.waitForFunction((said) => document.querySelector('.top .label').textContent.includes(said), name, { timeout: 5000 });
      await page.keyboard.press('End');
      await page.locator('.timebar select').last().selectOption('60000');
      await page.keyboard.press('Home');
      assert.equal(await page.getAttribute('#app', 'data-connection'), 'playback', name);
    }
    await page.locator('.timebar select').last().selectOption('all');
    assert.match(await text(page, '#events'), /stepped back by 9.5 s[\s\S]*restarted/);
  });
});
