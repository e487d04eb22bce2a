// Clocks: how far each gateway's is from the median of those it hears, and what the others measure of it, each known to
// half a round trip.
import { font, fit, surface, type Surface } from '../canvas';
import { TextTable, el, say } from '../dom';
import { duration, signed } from '../format';
import type { MeshFrame } from '../frame';
import { Panel, type Scene } from '../panel';
import { theme } from '../theme';

/** Beyond this, a gateway that is ahead publishes nothing of its own. */
export const AHEAD_MS = 250;

/** Rows at most. */
const SHOWN_MAX = 12;

export interface Estimate {
  from: string;
  /** Against the median, milliseconds. */
  ms: number;
  half_ms: number;
}

export class Clocks extends Panel {
  private readonly canvas = el('canvas', { role: 'img', 'aria-label': 'Clock offsets' });
  private readonly table = new TextTable('Clocks as a table', () => this.text());
  private readonly rest = el('p', { class: 'quiet', hidden: true });
  private scene: Scene | null = null;

  constructor() {
    super('clocks', 'Clocks', 'Against the median of those that a gateway hears. Bars: what each other gateway measures, ± half a round trip.');
    this.legend.append(el('span', {}, '● by its own reckoning   ┃ as others measure, ± half a round trip'));
    this.body.append(this.canvas, this.rest, this.table.root);
  }

  protected paint(scene: Scene): string | null {
    this.scene = scene;
    const { frame, order, entry } = scene;
    const width = this.body.clientWidth;
    if (width === 0) return null;
    if (entry.thin) return 'Tables of moments this long ago are no longer kept.';
    const present = order.filter((at) => !frame.gateways[at]?.left);
    const shown = worstClocks(frame, present);
    this.rest.hidden = shown.length === present.length;
    say(this.rest, `${present.length - shown.length} more, whose clocks are nearer to the median, are in the table.`);
    const all = shown.map((at) => estimates(frame, at));
    const own = shown.map((at) => frame.gateways[at]?.clock_ahead_ms ?? null);
    if (all.every((list) => list.length === 0) && own.every((ms) => ms === null)) return 'No gateway has measured another’s clock yet.';
    const reach = niceReach(Math.max(...all.flat().map(({ ms, half_ms }) => Math.abs(ms) + half_ms), ...own.map((ms) => Math.abs(ms ?? 0)), 0.5));
    const row = shown.length <= 12 ? 24 : shown.length <= 24 ? 16 : 11;
    const on = surface(this.canvas, width, shown.length * row + 26);
    const [left, right] = [width < 420 ? 66 : 96, width - (width < 420 ? 120 : 152)];
    const x = (ms: number): number => left + ((ms / reach + 1) / 2) * (right - left);
    this.grid(on, x, reach, shown.length * row, left, right);
    shown.forEach((at, place) => this.row(on, frame, at, all[place] ?? [], x, place * row + row / 2, row, left, right));
    this.canvas.setAttribute('aria-label', `Clock offsets. ${shown.map((at) => this.say(frame, at)).join('; ')}`);
    this.table.draw();
    return null;
  }

  private grid({ context }: Surface, x: (ms: number) => number, reach: number, bottom: number, left: number, right: number): void {
    const colours = theme();
    context.font = font(11);
    context.textAlign = 'center';
    for (const part of [-1, -0.5, 0, 0.5, 1]) {
      const at = Math.round(x(part * reach)) + 0.5;
      context.fillStyle = part === 0 ? colours.muted : colours.line;
      context.fillRect(at - 0.5, 0, 1, bottom);
      context.fillStyle = colours.muted;
      if (right - left > 240 || part === 0 || Math.abs(part) === 1) context.fillText(part === 0 ? '0' : signed(part * reach), at, bottom + 12);
    }
    if (AHEAD_MS > reach) return;
    context.strokeStyle = colours.bad;
    context.setLineDash([3, 3]);
    context.beginPath();
    context.moveTo(x(AHEAD_MS), 0);
    context.lineTo(x(AHEAD_MS), bottom);
    context.stroke();
    context.setLineDash([]);
  }

  private row({ context }: Surface, frame: MeshFrame, at: number, list: Estimate[], x: (ms: number) => number, y: number, row: number, left: number, right: number): void {
    const colours = theme();
    const gateway = frame.gateways[at];
    if (!gateway) return;
    const clock = gateway.clock;
    const colour = clock === 'ahead' ? colours.bad : clock === 'behind' ? colours.warn : colours.accent;
    const tall = Math.max(2, Math.min(4, (row - 8) / Math.max(1, list.length)));
    list.forEach(({ ms, half_ms }, place) => {
      const [x0, x1] = [x(ms - half_ms), x(ms + half_ms)];
      const top = y - (tall * list.length) / 2 + place * tall;
      context.fillStyle = colours.muted;
      context.globalAlpha = 0.55;
      context.fillRect(x0, top, Math.max(1.5, x1 - x0), Math.max(1, tall - 1));
      context.globalAlpha = 1;
    });
    if (gateway.clock_ahead_ms !== null) {
      context.fillStyle = colours.panel;
      dot(context, x(gateway.clock_ahead_ms), y, 5.5);
      context.fillStyle = colour;
      dot(context, x(gateway.clock_ahead_ms), y, 4);
    }
    context.font = font(row >= 16 ? 12 : 10, gateway.me ? 700 : 400);
    context.textAlign = 'right';
    context.fillStyle = colours.ink;
    context.fillText(fit(context, gateway.name, left - 14), left - 12, y);
    context.textAlign = 'left';
    context.font = font(row >= 16 ? 12 : 10);
    context.fillStyle = clock === null || clock === 'good' ? colours.muted : colour;
    const half = halfOf(list);
    const value = gateway.clock_ahead_ms === null ? '–' : signed(gateway.clock_ahead_ms, half);
    context.fillText(fit(context, `${value} ${clock === null ? 'not known' : clock === 'good' ? '' : clock}`, context.canvas.clientWidth - right - 10), right + 10, y);
  }

  private say(frame: MeshFrame, at: number): string {
    const gateway = frame.gateways[at];
    return gateway ? `${gateway.name} ${gateway.clock ?? 'not known'} ${gateway.clock_ahead_ms === null ? '' : signed(gateway.clock_ahead_ms)}` : '';
  }

  private text(): { head: string[]; rows: string[][] } {
    if (!this.scene) return { head: [], rows: [] };
    const { frame, order } = this.scene;
    const rows = order.map((at) => {
      const gateway = frame.gateways[at];
      const others = estimates(frame, at).map(({ from, ms, half_ms }) => `${from}: ${signed(ms)} ± ${duration(half_ms)}`).join(', ');
      return [gateway?.name ?? '', gateway?.clock ?? 'not known', gateway?.clock_ahead_ms == null ? '–' : signed(gateway.clock_ahead_ms), others || '–'];
    });
    return { head: ['gateway', 'clock', 'against the median', 'as others measure'], rows };
  }
}

/** What others measure of a gateway's clock, brought to the median by what each knows of its own. */
export function estimates(frame: MeshFrame, of: number): Estimate[] {
  return frame.gateways.flatMap((from, at) => {
    const cell = at === of ? null : (from.sees[of] ?? null);
    if (!cell || cell[5] === null || from.clock_ahead_ms === null) return [];
    return [{ from: from.name, ms: cell[5] + from.clock_ahead_ms, half_ms: (cell[4] ?? 0) / 2000 }];
  });
}

function halfOf(list: Estimate[]): number | null {
  const halves = list.map(({ half_ms }) => half_ms).sort((a, b) => a - b);
  return halves[Math.floor(halves.length / 2)] ?? null;
}

/** All while they are few, else the most remarkable, in the order in which they are drawn. */
function worstClocks(frame: MeshFrame, present: number[]): number[] {
  if (present.length <= SHOWN_MAX) return present;
  const wrong = (at: number): number => {
    const gateway = frame.gateways[at];
    return (gateway?.clock === 'good' || gateway?.clock === null ? 0 : 1e12) + Math.abs(gateway?.clock_ahead_ms ?? 0);
  };
  const kept = new Set([...present].sort((a, b) => wrong(b) - wrong(a)).slice(0, SHOWN_MAX));
  return present.filter((at) => kept.has(at));
}

/** 1, 2, 5, 10 … at least so much. */
function niceReach(ms: number): number {
  const power = 10 ** Math.floor(Math.log10(ms));
  return ([1, 2, 5, 10].find((step) => step * power >= ms * 1.1) ?? 20) * power;
}

function dot(context: CanvasRenderingContext2D, x: number, y: number, radius: number): void {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}
