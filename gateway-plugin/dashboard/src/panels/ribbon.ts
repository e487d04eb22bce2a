// The digest ribbon: a lane for each gateway, its colour the state group over time. Replicas that agree are lanes of one
// colour. Under it, in playback, the faults.
import { font, fit, groupFill, hatch, surface } from '../canvas';
import type { Lane } from '../derive';
import { TextTable, el } from '../dom';
import { stretches } from '../faults';
import { count, moment } from '../format';
import { order } from '../order';
import type { Scene } from '../panel';
import type { Entry } from '../store';
import { groupLetter, theme } from '../theme';
import { AXIS, TimePanel, scale, timeGrid, type Scale, type Seek } from '../timepanel';
import { key, plate } from './matrix';

/** A stretch in which a gateway's lane looks the same. */
interface Run {
  from_ms: number;
  to_ms: number;
  /** `null` where nothing is known of it at all. */
  lane: Lane | null;
}

const FAULT_PX = 18;

export class Ribbon extends TimePanel {
  private readonly canvas = el('canvas', { role: 'img', 'aria-label': 'Digest ribbon' });
  private readonly groups = el('span', { class: 'groups' });
  private readonly table = new TextTable('Ribbon as a table', () => this.text());
  private scene: Scene | null = null;

  constructor(seek: Seek) {
    super('ribbon', 'State over time', 'A lane for each gateway; one colour, one letter: one state.', seek);
    this.legend.append(this.groups, key('lag', 'ops lacking'), key('dirty', 'not clean'), key('hatched', 'not known'));
    this.plot.prepend(this.canvas);
    this.body.append(this.table.root);
  }

  protected paint(scene: Scene): string | null {
    this.scene = scene;
    const { store, window, entry } = scene;
    const width = this.plot.clientWidth;
    if (width === 0) return null;
    const [first, end] = store.range(window.from_ms, window.to_ms);
    const entries = store.entries.slice(first, end + 1);
    const names = laneNames(entry, entries);
    const faults = stretches(entries);
    const lanes = faults.reduce((most, fault) => Math.max(most, fault.lane + 1), 0);
    const lane = names.length <= 5 ? 38 : names.length <= 10 ? 30 : names.length <= 16 ? 22 : names.length <= 32 ? 12 : 9;
    const bottom = names.length * lane + (lanes > 0 ? lanes * FAULT_PX + 8 : 0);
    const on = surface(this.canvas, width, bottom + AXIS + 2);
    const at = scale(scene, width);
    const { context } = on;
    timeGrid(context, scene, at, 0, bottom, true);
    context.save();
    context.beginPath();
    context.rect(at.left, 0, at.right - at.left, bottom);
    context.clip();
    const most = Math.max(10, ...entries.map(({ derived }) => Math.max(0, ...[...derived.lanes.values()].map(({ lag }) => lag ?? 0))));
    names.forEach((name, place) => this.lane(context, entries, name, place * lane, lane, at, most));
    this.faults(context, faults, names.length * lane + 6, at);
    context.restore();
    this.labels(context, names, lane, at, scene, lanes);
    this.legendGroups(entries);
    this.canvas.setAttribute('aria-label', `Digest ribbon. ${this.now(entry)}`);
    this.table.draw();
    return null;
  }

  private lane(context: CanvasRenderingContext2D, entries: Entry[], name: string, y: number, height: number, at: Scale, most: number): void {
    const gap = height >= 12 ? 2 : 1;
    const [top, tall] = [y + gap / 2, height - gap];
    const plates: (() => void)[] = [];
    let shown: { group: number | null; to_ms: number } | null = null;
    for (const run of runs(entries, name)) {
      const [x0, x1] = [Math.max(at.left, at.x(run.from_ms)), Math.min(at.right, at.x(run.to_ms))];
      if (x1 <= x0) continue;
      const width = x1 - x0;
      if (!run.lane || run.lane.left) {
        context.fillStyle = theme().line;
        context.fillRect(x0, y + height / 2 - 0.5, width, 1);
        if (run.lane?.left && width > 40 && height >= 14) text(context, 'left', x0 + 8, y + height / 2, 'left');
        continue;
      }
      const { group, phase, repairing } = run.lane;
      context.fillStyle = theme().inset;
      context.fillRect(x0, top, width, tall);
      context.fillStyle = group === null ? hatch() : groupFill(group);
      context.fillRect(x0, top, width, tall);
      if (phase !== 'clean' || repairing) notClean(context, x0, x1, top + tall - 3);
      // One letter is enough while the group stays.
      const isSame = shown !== null && shown.group === group && shown.to_ms >= run.from_ms;
      if (width > 22 && height >= 12 && !isSame) plates.push(() => plate(context, group === null ? '?' : groupLetter(group), x0 + 11, y + height / 2, Math.min(12, height - 6), group));
      if (width > 22 || isSame) shown = { group, to_ms: run.to_ms };
    }
    this.lags(context, entries, name, top, tall, at, most);
    plates.forEach((draw) => draw());
  }

  private lags(context: CanvasRenderingContext2D, entries: Entry[], name: string, top: number, tall: number, at: Scale, most: number): void {
    if (tall < 7) return;
    context.fillStyle = theme().dark ? 'rgb(0 0 0 / .5)' : 'rgb(10 20 35 / .42)';
    const full = Math.log1p(most);
    let [column, highest] = [-1, 0];
    const put = (): void => {
      if (column >= 0 && highest > 0) context.fillRect(column, top + tall - highest, 1, highest);
    };
    entries.forEach((entry, place) => {
      const lane = entry.derived.lanes.get(name);
      const lag = !lane || lane.left ? 0 : (lane.lag ?? 0);
      // Only what is in sight: the frame before the window may be long ago.
      const x0 = Math.max(Math.floor(at.left), Math.floor(at.x(entry.t_ms)));
      const x1 = Math.min(Math.ceil(at.right), Math.ceil(at.x(entries[place + 1]?.t_ms ?? entry.t_ms + 1000)));
      if (lag === 0) return;
      const height = Math.max(1.5, (Math.log1p(lag) / full) * tall * 0.8);
      for (let x = x0; x < x1; x += 1) {
        if (x !== column) {
          put();
          [column, highest] = [x, height];
        } else highest = Math.max(highest, height);
      }
    });
    put();
  }

  private faults(context: CanvasRenderingContext2D, faults: ReturnType<typeof stretches>, top: number, at: Scale): void {
    const colours = theme();
    for (const fault of faults) {
      const y = top + fault.lane * FAULT_PX;
      const x0 = Math.max(at.left, at.x(fault.from_ms));
      const x1 = Math.min(at.right, Math.max(at.x(fault.to_ms), x0 + 3));
      if (x1 <= x0) continue;
      context.fillStyle = colours.panel;
      context.fillRect(x0, y, x1 - x0, FAULT_PX - 3);
      context.fillStyle = colours.bad;
      context.globalAlpha = 0.16;
      context.fillRect(x0, y, x1 - x0, FAULT_PX - 3);
      context.globalAlpha = 1;
      context.fillRect(x0, y, 2, FAULT_PX - 3);
      context.font = font(11);
      text(context, fit(context, fault.text, x1 - x0 - 10), x0 + 6, y + (FAULT_PX - 3) / 2 + 0.5, 'left', colours.ink);
    }
  }

  private labels(context: CanvasRenderingContext2D, names: string[], lane: number, at: Scale, scene: Scene, faultLanes: number): void {
    const colours = theme();
    const every = Math.max(1, Math.ceil(11 / lane));
    names.forEach((name, place) => {
      if (place % every !== 0) return;
      const gateway = scene.frame.gateways.find((of) => of.name === name);
      context.font = font(lane >= 14 ? 12 : 10, gateway?.me ? 700 : 400);
      text(context, fit(context, name, at.left - 10), at.left - 7, place * lane + (lane * every > lane && lane < 11 ? lane / 2 : lane / 2), 'right', gateway && !gateway.left ? colours.ink : colours.muted);
    });
    if (faultLanes > 0) {
      context.font = font(11);
      text(context, 'faults', at.left - 7, names.length * lane + 6 + FAULT_PX / 2 - 1, 'right', colours.bad);
    }
  }

  private legendGroups(entries: Entry[]): void {
    const most = Math.max(-1, ...entries.map(({ derived }) => Math.max(-1, ...[...derived.lanes.values()].map(({ group }) => group ?? -1))));
    const wanted = `${Math.min(most, 5)} ${theme().dark}`;
    if (this.groups.dataset['made'] === wanted) return;
    this.groups.dataset['made'] = wanted;
    this.groups.replaceChildren(...Array.from({ length: Math.min(most, 5) + 1 }, (_, group) => {
      const canvas = el('canvas', { 'aria-hidden': 'true' });
      const { context } = surface(canvas, 26, 14);
      context.fillStyle = groupFill(group);
      context.fillRect(0, 0, 26, 14);
      plate(context, groupLetter(group), 13, 7, 10, group);
      return el('span', { class: 'key' }, canvas, group === 0 ? 'largest group' : '');
    }));
  }

  private now(entry: Entry): string {
    return [...entry.derived.lanes.values()].map(({ name, group, left }) => `${name} ${left ? 'left' : group === null ? 'not known' : groupLetter(group)}`).join(', ');
  }

  private text(): { head: string[]; rows: string[][] } {
    if (!this.scene) return { head: [], rows: [] };
    const { store, window, simulated, entry } = this.scene;
    const [first, end] = store.range(window.from_ms, window.to_ms);
    const entries = store.entries.slice(first, end);
    const rows: { t: number; cells: string[] }[] = [];
    for (const name of laneNames(entry, entries)) {
      for (const { from_ms, to_ms, lane } of runs(entries, name)) {
        const state = !lane ? 'not there' : lane.left ? 'left' : lane.group === null ? 'not known' : `group ${groupLetter(lane.group)}`;
        const lag = lane?.lag ?? null;
        rows.push({ t: from_ms, cells: [name, moment(from_ms, simulated), moment(to_ms, simulated), state, lane?.phase ?? '–', count(lag)] });
      }
    }
    return { head: ['gateway', 'from', 'to', 'state', 'phase', 'lacked at first'], rows: rows.sort((a, b) => b.t - a.t).slice(0, 400).map(({ cells }) => cells) };
  }
}

/** Lanes in the order of the matrix's names, so that they do not jump: by name, with those that are gone. */
function laneNames(entry: Entry, entries: Entry[]): string[] {
  const names = new Set<string>();
  for (const { derived } of [...entries, entry]) for (const name of derived.lanes.keys()) names.add(name);
  const list = [...names].map((name) => ({ name, group: 0, left: false }));
  return order(list).map((at) => list[at]?.name ?? '');
}

/** Stretches of one look in a gateway's lane. */
export function runs(entries: Entry[], name: string): Run[] {
  const found: Run[] = [];
  entries.forEach((entry, place) => {
    const lane = entry.derived.lanes.get(name) ?? null;
    const from_ms = entry.t_ms;
    const last = found[found.length - 1];
    if (last) last.to_ms = entry.gap ? Math.min(last.to_ms, from_ms) : from_ms;
    const step = place > 0 ? Math.min(2000, from_ms - (entries[place - 1]?.t_ms ?? from_ms)) : 1000;
    if (last && !entry.gap && sameLook(last.lane, lane)) last.to_ms = from_ms + step;
    else found.push({ from_ms, to_ms: from_ms + step, lane });
  });
  return found;
}

function sameLook(a: Lane | null, b: Lane | null): boolean {
  if (a === null || b === null) return a === b;
  return a.group === b.group && a.left === b.left && a.phase === b.phase && a.repairing === b.repairing;
}

function notClean(context: CanvasRenderingContext2D, x0: number, x1: number, y: number): void {
  context.fillStyle = theme().ink;
  for (let x = x0; x < x1; x += 6) context.fillRect(x, y, Math.min(4, x1 - x), 2);
}

function text(context: CanvasRenderingContext2D, words: string, x: number, y: number, align: CanvasTextAlign, colour = theme().muted): void {
  context.fillStyle = colour;
  context.textAlign = align;
  context.fillText(words, x, y);
}

