// Propagation: how old ops of peers were when they were applied, over time, with the median and the 99th percentile.
import { addCounts, quantile, type Quantile } from '../buckets';
import { font, surface } from '../canvas';
import { el, fact, say } from '../dom';
import { count, duration } from '../format';
import type { Scene } from '../panel';
import { trailing } from '../series';
import type { Entry } from '../store';
import { heatColour, theme } from '../theme';
import { AXIS, TimePanel, scale, timeGrid, type Scale, type Seek } from '../timepanel';
import { key } from './matrix';

const HEIGHT = 176;
/** Columns are at least so wide, and hold what came within them. */
const COLUMN_PX = 6;
/** Quantiles beside the heading are over so long up to the cursor. */
const LAST_MS = 10_000;

interface Column {
  x0: number;
  x1: number;
  counts: number[];
}

export class Propagation extends TimePanel {
  private readonly canvas = el('canvas', { role: 'img', 'aria-label': 'Propagation over time' });
  private readonly facts = { p50: fact(''), p99: fact(''), ops: fact('ops') };

  constructor(seek: Seek) {
    super('propagation', 'Propagation', 'Age of peers’ ops when they were applied, over all gateways that say', seek);
    this.facts.p50.root.firstElementChild?.append(key('series-4', 'p50'));
    this.facts.p99.root.firstElementChild?.append(key('series-5-dashed', 'p99'));
    this.legend.append(el('dl', { class: 'inline-facts', title: 'Over 10 s up to the cursor' }, ...Object.values(this.facts).map(({ root }) => root)));
    this.plot.prepend(this.canvas);
  }

  protected paint(scene: Scene): string | null {
    const { store, window, frame, cursor } = scene;
    const width = this.plot.clientWidth;
    if (width === 0) return null;
    const [first, end] = store.range(window.from_ms, window.to_ms);
    const entries = store.entries.slice(first, end + 1);
    const bounds = frame.propagation_bounds_ms;
    if (!entries.some(({ derived }) => (derived.propagation ?? []).some((ops) => ops > 0))) return 'No op of a peer was applied in this window: nothing was sent, or a gateway is alone.';
    const at = scale(scene, width);
    const { context } = surface(this.canvas, width, HEIGHT + AXIS);
    const columns = this.columns(entries, at);
    const buckets = bounds.length + 1;
    const most = Math.max(1, ...columns.flatMap(({ counts }) => counts));
    timeGrid(context, scene, at, 0, HEIGHT, true);
    context.fillStyle = theme().inset;
    context.fillRect(at.left, 0, at.right - at.left, HEIGHT);
    this.cells(context, columns, buckets, most);
    this.rows(context, bounds, at);
    this.quantileLine(context, columns, bounds, 0.5, 3, []);
    this.quantileLine(context, columns, bounds, 0.99, 4, [4, 3]);
    this.now(trailing(store, cursor.t_ms(), LAST_MS), bounds);
    return null;
  }

  private columns(entries: Entry[], at: Scale): Column[] {
    const found: Column[] = [];
    entries.forEach(({ derived, gap, t_ms }, place) => {
      const before = entries[place - 1];
      if (!derived.propagation || !before) return;
      const [from, x1] = [at.x(gap ? t_ms - 1000 : before.t_ms), at.x(t_ms)];
      if (x1 <= at.left || from >= at.right) return;
      const last = found[found.length - 1];
      if (last && last.x1 - last.x0 < COLUMN_PX && from - last.x1 < 1) {
        last.x1 = x1;
        last.counts = addCounts(last.counts, derived.propagation);
      } else found.push({ x0: Math.max(at.left, from), x1: Math.min(at.right, x1), counts: [...derived.propagation] });
    });
    return found;
  }

  private cells(context: CanvasRenderingContext2D, columns: Column[], buckets: number, most: number): void {
    const tall = HEIGHT / buckets;
    for (const { x0, x1, counts } of columns) {
      counts.forEach((ops, bucket) => {
        if (ops === 0) return;
        context.fillStyle = heatColour(0.12 + 0.88 * (Math.log1p(ops) / Math.log1p(most)));
        context.fillRect(x0, HEIGHT - (bucket + 1) * tall + 0.5, Math.max(1, x1 - x0 + 0.4), Math.max(1, tall - 1));
      });
    }
  }

  private rows(context: CanvasRenderingContext2D, bounds: number[], at: Scale): void {
    const tall = HEIGHT / (bounds.length + 1);
    const every = Math.max(1, Math.ceil(13 / tall));
    context.font = font(11);
    context.textAlign = 'right';
    context.fillStyle = theme().muted;
    bounds.forEach((bound, place) => {
      if (place % every === 0 && HEIGHT - (place + 1) * tall > 6) context.fillText(duration(bound), at.left - 6, HEIGHT - (place + 1) * tall);
    });
  }

  private quantileLine(context: CanvasRenderingContext2D, columns: Column[], bounds: number[], q: number, series: number, dash: number[]): void {
    const tall = HEIGHT / (bounds.length + 1);
    const path = new Path2D();
    let [last, isOpen] = [-Infinity, false];
    for (const { x0, x1, counts } of columns) {
      const found = quantile(bounds, counts, q);
      if (!found) continue;
      const [x, y] = [(x0 + x1) / 2, HEIGHT - found.at * tall];
      if (isOpen && x0 - last < 40) path.lineTo(x, y);
      else path.moveTo(x, y);
      [last, isOpen] = [x1, true];
    }
    context.lineJoin = 'round';
    context.strokeStyle = theme().panel;
    context.lineWidth = 3;
    context.setLineDash([]);
    context.stroke(path);
    context.setLineDash(dash);
    context.strokeStyle = theme().series[series] ?? theme().ink;
    context.lineWidth = 1.6;
    context.stroke(path);
    context.setLineDash([]);
  }

  private now(entries: Entry[], bounds: number[]): void {
    const counts = entries.reduce<number[]>((sum, { derived }) => addCounts(sum, derived.propagation), []);
    const read = (found: Quantile | null): string => (!found ? '–' : found.open ? `> ${duration(found.ms)}` : `${duration(found.ms < 10 ? Math.round(found.ms * 10) / 10 : found.ms)}`);
    say(this.facts.p50.value, read(quantile(bounds, counts, 0.5)));
    say(this.facts.p99.value, read(quantile(bounds, counts, 0.99)));
    const ops = counts.reduce((sum, value) => sum + value, 0);
    say(this.facts.ops.value, `${count(ops)} in 10 s`);
    this.canvas.setAttribute('aria-label', `Propagation over time. Up to the cursor: median ${this.facts.p50.value.textContent}, 99th percentile ${this.facts.p99.value.textContent}`);
  }
}
