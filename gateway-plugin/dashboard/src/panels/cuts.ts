// The cut timeline: a tick wherever a gateway's replica cut a worker's coverage, how old what was cut last was, and a red
// diamond for every mismatch, of which there must be none.
import { font, fit, surface } from '../canvas';
import { el, say } from '../dom';
import { duration } from '../format';
import { LinePlot } from '../lineplot';
import { order } from '../order';
import type { Scene } from '../panel';
import { pick, points } from '../series';
import type { Entry } from '../store';
import { theme } from '../theme';
import { TimePanel, scale, timeGrid, type Seek } from '../timepanel';
import { key } from './matrix';

export class Cuts extends TimePanel {
  private readonly canvas = el('canvas', { role: 'img', 'aria-label': 'Cut timeline' });
  private readonly lines = new LinePlot({
    lines: [{ label: 'age of the cut', colour: 0 }], height: 76, axis: true, value: duration,
  });
  private readonly said = el('span', { class: 'said' });
  private readonly worst = el('p', { class: 'alarm', role: 'alert', hidden: true });

  constructor(seek: Seek) {
    super('cuts', 'Cuts', 'Raising a floor so that a worker’s coverage fits its capacity, least recent first. Every replica must cut alike.', seek);
    this.legend.append(key('tick', 'cut'), key('series-1', 'age of what is cut last'), key('diamond', 'mismatch'), this.said);
    this.plot.prepend(this.canvas, this.lines.root);
    this.body.prepend(this.worst);
  }

  protected paint(scene: Scene): string | null {
    const { store, window, entry } = scene;
    const width = this.plot.clientWidth;
    if (width === 0) return null;
    const [first, end] = store.range(window.from_ms, window.to_ms);
    const entries = store.entries.slice(first, end);
    const cuts = entries.reduce((sum, { derived }) => sum + derived.cuts.length, 0);
    const mismatches = entries.flatMap(({ derived }) => derived.mismatches);
    this.worst.hidden = mismatches.length === 0;
    if (mismatches.length > 0) say(this.worst, `${mismatches.length} mismatch${mismatches.length > 1 ? 'es' : ''} in this window, which must never be: ${mismatches[mismatches.length - 1]?.text}`);
    const known = entries.some(({ derived }) => derived.frontier_ms !== null);
    if (!known && mismatches.length === 0) return entry.frame.workers.length === 0 ? 'No worker is known.' : 'Nothing was cut yet: everything fits its worker’s capacity, or capacities are not known.';
    this.ticks(scene, width, entries);
    say(this.said, cuts === 0 ? 'none in this window' : `${cuts} in this window`);
    const list = points(store, window.from_ms, window.to_ms);
    this.lines.draw(scene, width, list.map(({ t_ms }) => t_ms), [pick(list, ({ derived }) => derived.frontier_ms)]);
    this.canvas.setAttribute('aria-label', `Cut timeline: ${cuts} cuts and ${mismatches.length} mismatches in this window`);
    return null;
  }

  private ticks(scene: Scene, width: number, entries: Entry[]): void {
    const gateways = scene.frame.gateways.filter(({ left }) => !left);
    const names = order(gateways).map((at) => gateways[at]?.name ?? '').sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
    const lane = names.length <= 8 ? 15 : names.length <= 16 ? 10 : Math.max(2, Math.floor(128 / names.length));
    const bottom = names.length * lane + 4;
    const at = scale(scene, width);
    const { context } = surface(this.canvas, width, bottom);
    const colours = theme();
    timeGrid(context, scene, at, 0, bottom, false);
    names.forEach((name, place) => {
      const middle = place * lane + lane / 2 + 2;
      context.fillStyle = colours.line;
      context.fillRect(at.left, middle - 0.5, at.right - at.left, 1);
      if (lane < 10) return;
      context.font = font(lane >= 14 ? 11 : 10);
      context.textAlign = 'right';
      context.fillStyle = colours.ink;
      context.fillText(fit(context, name, at.left - 10), at.left - 7, middle);
    });
    for (const { t_ms, derived } of entries) {
      const x = at.x(t_ms);
      if (x < at.left || x > at.right) continue;
      context.fillStyle = colours.ink;
      const cut = new Set(derived.cuts.map(({ gateway }) => gateway));
      for (const name of cut) {
        const place = names.indexOf(name);
        if (place >= 0) context.fillRect(x - 0.75, place * lane + (lane > 4 ? 3.5 : 2), 1.5, Math.max(1.5, lane - 3));
      }
      context.fillStyle = colours.bad;
      for (const { gateway } of derived.mismatches) diamond(context, x, Math.max(0, names.indexOf(gateway)) * lane + lane / 2 + 2, Math.max(4, lane / 2.2));
    }
  }
}

function diamond(context: CanvasRenderingContext2D, x: number, y: number, size: number): void {
  context.beginPath();
  context.moveTo(x, y - size);
  context.lineTo(x + size, y);
  context.lineTo(x, y + size);
  context.lineTo(x - size, y);
  context.fill();
}
