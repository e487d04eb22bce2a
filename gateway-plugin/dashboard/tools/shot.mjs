// Pictures of a page: `node tools/shot.mjs URL OUT.png [--width N] [--height N] [--dark] [--full] [--scale N] [--wait MS]`.
import { parseArgs } from 'node:util';

import { launch, open } from '../e2e/browser.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { width: { type: 'string', default: '1440' }, height: { type: 'string', default: '900' }, scale: { type: 'string', default: '1' }, wait: { type: 'string', default: '1500' }, dark: { type: 'boolean' }, full: { type: 'boolean' } },
});
const [url, out] = positionals;
const browser = await launch();
const { page, wrong } = await open(browser, url, { width: Number(values.width), height: Number(values.height), scale: Number(values.scale), scheme: values.dark ? 'dark' : 'light' });
await page.waitForTimeout(Number(values.wait));
if (values.full) {
  await page.setViewportSize({ width: Number(values.width), height: await page.evaluate(() => document.documentElement.scrollHeight) });
  await page.waitForTimeout(400);
}
await page.screenshot({ path: out, fullPage: values.full ?? false });
await browser.close();
for (const line of wrong) console.error(line);
