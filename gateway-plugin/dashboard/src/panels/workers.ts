// Workers: what each gateway's replica says of them, as a row of small bars; those on which replicas differ first.
import { hatch, surface } from '../canvas';
import { attr, el, say } from '../dom';
import { feedWords } from '../feeds';
import { count, duration } from '../format';
import type { CoverageView, MeshFrame, WorkerView } from '../frame';
import { Panel, type Scene } from '../panel';
import type { Entry } from '../store';
import { theme } from '../theme';
import { key } from './matrix';

interface Row {
  root: HTMLElement;
  name: HTMLElement;
  bars: HTMLCanvasElement;
  cells: Record<(typeof CELLS)[number], HTMLElement>;
}

const CELLS = ['blocks', 'state', 'lag', 'feed', 'owner', 'standby', 'feedlag', 'incarnation', 'floor', 'cut', 'capacity', 'requests', 'queued'] as const;
const HEADS: Record<(typeof CELLS)[number], [string, string]> = {
  blocks: ['Blocks', 'Most blocks that any replica covers'],
  state: ['Replicas', 'How many say the same'],
  lag: ['Lag', 'Between the latest touch that the first and the last replica know'],
  feed: ['Feed', 'How well its cache is known by its events'],
  owner: ['Owner', 'The gateway that reads its events and publishes them'],
  standby: ['Standby', 'The gateway that reads them too, and publishes what the owner does not'],
  feedlag: ['Feed lag', 'From an event being made to its being read'],
  incarnation: ['Inc.', 'The life of its cache'],
  floor: ['Floor age', 'What was touched longer ago than this is cut'],
  cut: ['Last cut', 'Since a floor rose, as far back as is held here'],
  capacity: ['Capacity', 'Tokens, and where the viewer has that from'],
  requests: ['Requests', 'Under way, over all live gateways'],
  queued: ['Queued', 'Prompt tokens waiting to be computed, over all live gateways'],
};

export class Workers extends Panel {
  private readonly rows = new Map<string, Row>();
  private readonly hidden = el('p', { class: 'quiet' });
  private readonly table = el('div', { class: 'workers', role: 'table', 'aria-label': 'Workers', tabindex: 0 });
  private readonly rowGroup = el('div', { role: 'rowgroup' });
  private lastCut = new Map<string, number>();
  private cutVersion = -1;

  constructor() {
    super('workers', 'Workers', 'Coverage by gateway; workers on which replicas differ come first');
    this.legend.append(key('bar', 'blocks by gateway'), key('bar-differs', 'differs'), key('hatched', 'not known'));
    const head = el('div', { class: 'worker head', role: 'row' }, el('span', { role: 'columnheader', class: 'name' }, 'Worker'), el('span', { role: 'columnheader', class: 'bars' }, 'Coverage by gateway'),
      ...CELLS.map((name) => el('span', { role: 'columnheader', class: `c-${name}`, title: HEADS[name][1] }, HEADS[name][0])));
    this.table.append(el('div', { role: 'rowgroup' }, head), this.rowGroup);
    this.body.append(this.table, this.hidden);
  }

  protected paint(scene: Scene): string | null {
    const { frame, entry, order } = scene;
    if (entry.thin) return 'Tables of moments this long ago are no longer kept.';
    if (frame.workers.length === 0) return 'No worker is known: none is configured here, and no peer told of one.';
    if (this.body.clientWidth === 0) return null;
    this.recentCuts(scene);
    const sorted = [...frame.workers].sort((a, b) => Number(b.differs) - Number(a.differs));
    const rows = sorted.map((worker) => this.row(worker.id));
    for (const [id, row] of this.rows) {
      if (frame.workers.some((worker) => worker.id === id)) continue;
      row.root.remove();
      this.rows.delete(id);
    }
    rows.forEach((row, at) => { if (this.rowGroup.children[at] !== row.root) this.rowGroup.insertBefore(row.root, this.rowGroup.children[at] ?? null); });
    sorted.forEach((worker, at) => { const row = rows[at]; if (row) this.fill(row, worker, entry, order); });
    this.hidden.hidden = frame.workers_hidden === 0;
    say(this.hidden, `${count(frame.workers_hidden)} more workers, on which replicas do not differ more than on these, are left out.`);
    return null;
  }

  /** When each worker's floor rose last, up to the cursor. */
  private recentCuts({ store, cursor }: Scene): void {
    const end = cursor.index() + 1;
    if (this.cutVersion !== end - 1) this.lastCut.clear();
    const from = this.cutVersion === end - 1 ? end - 1 : 0;
    for (const { t_ms, derived } of store.entries.slice(from, end)) for (const { worker } of derived.cuts) this.lastCut.set(worker, t_ms);
    this.cutVersion = end;
  }

  private row(id: string): Row {
    const known = this.rows.get(id);
    if (known) return known;
    const name = el('span', { role: 'rowheader', class: 'name' });
    const bars = el('canvas', { role: 'img' });
    const cells = Object.fromEntries(CELLS.map((cell) => [cell, el('span', { role: 'cell', class: `c-${cell}`, 'data-label': HEADS[cell][0] })])) as Row['cells'];
    const root = el('div', { class: 'worker', role: 'row' }, name, el('span', { role: 'cell', class: 'bars' }, bars), ...CELLS.map((cell) => cells[cell]));
    const made = { root, name, bars, cells };
    this.rows.set(id, made);
    return made;
  }

  private fill(row: Row, worker: WorkerView, { frame, t_ms }: Entry, order: number[]): void {
    const known = worker.by.filter((coverage, at): coverage is CoverageView => coverage !== null && !frame.gateways[at]?.left);
    const common = mostCommon(known.map(([, , digest]) => digest));
    attr(row.root, 'data-differs', worker.differs ? 'true' : null);
    say(row.name, worker.up === false ? `${worker.id} (down)` : worker.id);
    attr(row.name, 'title', worker.url ?? 'not configured here; peers told of it');
    attr(row.root, 'data-down', worker.up === false ? 'true' : null);
    const blocks = Math.max(0, ...known.map(([, of]) => of));
    const floors = known.flatMap(([, , , floor]) => floor ?? []);
    const newest = known.flatMap(([, , , , at]) => at ?? []);
    const incarnations = [...new Set(known.map(([incarnation]) => incarnation))].sort((a, b) => b - a);
    const { cells } = row;
    const cutAt = this.lastCut.get(worker.id);
    say(cells.blocks, known.length === 0 ? '–' : count(blocks));
    say(cells.state, agreement(known, common, worker.differs));
    say(cells.lag, newest.length < 2 ? '–' : spread(newest));
    const feed = feedWords(worker.feed);
    say(cells.feed, feed.state);
    attr(cells.feed, 'data-feed', feed.mark);
    attr(cells.feed, 'title', feed.about);
    say(cells.owner, feed.owner);
    say(cells.standby, feed.standby);
    say(cells.feedlag, feed.lag);
    say(cells.incarnation, incarnations.length === 0 ? '–' : incarnations.join(' / '));
    say(cells.floor, floors.length === 0 ? 'not cut' : duration(Math.max(0, frame.t_ms - Math.max(...floors))));
    say(cells.cut, cutAt === undefined || floors.length === 0 ? '–' : `${duration(Math.max(0, t_ms - cutAt))} ago`);
    say(cells.capacity, worker.capacity_tokens === null ? 'not known' : `${count(worker.capacity_tokens)} ${worker.capacity_source ?? ''}`.trim());
    say(cells.requests, count(worker.requests));
    say(cells.queued, count(worker.queued_tokens));
    this.bars(row.bars, worker, frame, order, blocks, common);
  }

  private bars(canvas: HTMLCanvasElement, worker: WorkerView, frame: MeshFrame, order: number[], most: number, common: string | null): void {
    const shown = order.filter((at) => !frame.gateways[at]?.left);
    const room = Math.max(60, Math.min(220, canvas.parentElement?.clientWidth ?? 120));
    const wide = Math.max(1.5, Math.min(18, room / Math.max(1, shown.length)));
    const [width, height] = [Math.ceil(wide * shown.length), 24];
    const { context } = surface(canvas, width, height);
    const colours = theme();
    shown.forEach((at, place) => {
      const coverage = worker.by[at] ?? null;
      const [x, w] = [place * wide, Math.max(1, wide - (wide > 4 ? 2 : 0.5))];
      context.fillStyle = coverage ? colours.line : hatch();
      context.fillRect(x, coverage ? height - 1 : 2, w, coverage ? 1 : height - 2);
      if (!coverage) return;
      const tall = most > 0 ? Math.max(coverage[1] > 0 ? 2 : 0, (coverage[1] / most) * (height - 2)) : 0;
      const differs = worker.differs && common !== null && coverage[2] !== common;
      context.fillStyle = differs ? colours.bad : colours.accent;
      context.fillRect(x, height - tall, w, tall);
      if (differs) {
        context.fillStyle = colours.panel;
        for (let y = height - tall + 2; y < height; y += 4) context.fillRect(x, y, w, 1.2);
      }
    });
    attr(canvas, 'aria-label', shown.map((at) => `${frame.gateways[at]?.name}: ${worker.by[at] ? `${worker.by[at]?.[1]} blocks` : 'not known'}`).join(', '));
    attr(canvas, 'title', canvas.getAttribute('aria-label'));
  }
}

function mostCommon(digests: string[]): string | null {
  const counts = new Map<string, number>();
  for (const digest of digests) counts.set(digest, (counts.get(digest) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0] ?? null;
}

function agreement(known: CoverageView[], common: string | null, differs: boolean): string {
  if (known.length === 0) return 'none tells';
  const same = known.filter(([, , digest]) => digest === common).length;
  if (same === known.length) return known.length === 1 ? '1 tells' : `${known.length} equal`;
  return differs ? `${same} of ${known.length} equal` : `${same} of ${known.length}, under way`;
}

function spread(newest: number[]): string {
  const ms = Math.max(...newest) - Math.min(...newest);
  return ms === 0 ? 'none' : duration(ms);
}
