// A real Chromium, and what every test asks of a page: no error in the console, no violation of the policy, no request to
// another origin.
import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';

export const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const ARGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

export async function launch() {
  if (!existsSync(CHROMIUM)) throw new Error(`no Chromium at ${CHROMIUM}: install it, or set CHROMIUM`);
  return chromium.launch({ executablePath: CHROMIUM, args: ARGS });
}

/** Opens a page and collects what must not happen. */
export async function open(browser, url, { width = 1440, height = 900, scheme = 'light', scale = 1, settle = true } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, deviceScaleFactor: scale, reducedMotion: 'reduce' });
  const page = await context.newPage();
  const wrong = [];
  const origin = new URL(url).origin;
  await page.addInitScript(() => document.addEventListener('securitypolicyviolation', (event) => console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile ?? ''}:${event.lineNumber ?? ''}`)));
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) wrong.push(`console ${message.type()}: ${message.text()}`); });
  page.on('pageerror', (error) => wrong.push(`error: ${error.stack ?? error.message}`));
  page.on('request', (request) => { if (!request.url().startsWith(`${origin}/`) && !request.url().startsWith('data:') && !request.url().startsWith('blob:')) wrong.push(`request to ${request.url()}`); });
  await page.goto(url);
  if (settle) await page.waitForSelector('#ribbon[data-state="ok"]', { timeout: 15_000 });
  return { page, wrong, close: () => context.close() };
}

export const word = (page) => page.getAttribute('#verdict', 'data-word');
