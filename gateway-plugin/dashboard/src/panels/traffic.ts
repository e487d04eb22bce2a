// Repair and traffic by class, how much of what came was news, ops held.
import { CLASSES, type Rate } from '../derive';
import { el, fact, say } from '../dom';
import { bytes, count, percent } from '../format';
import type { RepairView } from '../frame';
import { LinePlot, type LineSpec } from '../lineplot';
import type { Scene } from '../panel';
import { pick, points, trailingRatio } from '../series';
import { TimePanel, type Seek } from '../timepanel';
import { key } from './matrix';

const LINES: LineSpec[] = [{ label: 'push', colour: 0 }, { label: 'control', colour: 1, dash: [2, 2] }, { label: 'repair', colour: 2, dash: [6, 3] }];
const RATIO_MS = 10_000;

export class Traffic extends TimePanel {
  private readonly byBytes = new LinePlot({ lines: LINES, height: 96, axis: false, least: 1000, value: (value) => (value === 0 ? '0' : `${bytes(value)}/s`) });
  private readonly byFrames = new LinePlot({ lines: LINES, height: 70, axis: false, least: 10, value: (value) => `${count(value)}${value === 0 ? '' : '/s'}` });
  private readonly ratio = new LinePlot({ lines: [{ label: 'useful', colour: 3, fill: true }], height: 58, axis: false, max: 1.02, value: (value) => (value === 0 || value === 0.5 || value === 1 ? percent(value) : '') });
  private readonly held = new LinePlot({ lines: [{ label: 'held', colour: 4, fill: true }], height: 50, axis: true, least: 5, value: (value) => (Number.isInteger(value) ? count(value) : '') });
  private readonly now = { push: fact('push'), control: fact('control'), repair: fact('repair'), useful: fact('useful'), held: fact('ops held') };
  private readonly sessions = {
    started: fact('sessions begun'), done: fact('done'), aborted: fact('given up'), refused: fact('donor busy'),
    segments: fact('new segments', 'Segments that changed something, of those that came'), pulled: fact('logs pulled'), mismatches: fact('mismatches'),
  };

  constructor(seek: Seek) {
    super('traffic', 'Repair and traffic', 'What gateways send, summed over all that say', seek);
    this.legend.append(key('series-1', 'push'), key('series-2-dashed', 'control'), key('series-3-dashed', 'repair'));
    const part = (name: string, plot: LinePlot, title: string): HTMLElement => el('div', { class: 'part', title }, el('h3', {}, name), plot.root);
    this.plot.prepend(
      part('bytes sent', this.byBytes, 'Bytes a second by class'), part('frames sent', this.byFrames, 'Frames a second by class'),
      part('useful share of ops that came', this.ratio, 'Applied over applied and known already, 10 s'), part('ops held', this.held, 'Received and held: out of order, unresolved or ahead of the clock'));
    this.body.prepend(el('dl', { class: 'facts small' }, ...Object.values(this.now).map(({ root }) => root)));
    this.body.append(el('dl', { class: 'facts small', 'aria-label': 'Repair since the gateways began' }, ...Object.values(this.sessions).map(({ root }) => root)));
  }

  protected paint(scene: Scene): string | null {
    const { store, window, entry, frame } = scene;
    const width = this.plot.clientWidth;
    if (width === 0) return null;
    const list = points(store, window.from_ms, window.to_ms);
    if (!list.some(({ entry: at }) => at?.derived.traffic)) return 'No gateway has told twice yet what it sent.';
    const times = list.map(({ t_ms }) => t_ms);
    const rates = (of: keyof Rate): (number | null)[][] => CLASSES.map((name) => pick(list, ({ derived }) => derived.traffic?.[name][of] ?? null));
    this.byBytes.draw(scene, width, times, rates('bytes'));
    this.byFrames.draw(scene, width, times, rates('frames'));
    const useful = trailingRatio(list, RATIO_MS, ({ derived }) => derived.applied ?? 0, ({ derived }) => (derived.applied ?? 0) + (derived.duplicate ?? 0));
    this.ratio.draw(scene, width, times, [useful]);
    this.held.draw(scene, width, times, [pick(list, ({ derived }) => derived.held)]);
    for (const name of CLASSES) {
      const rate = entry.derived.traffic?.[name];
      say(this.now[name].value, rate ? `${bytes(rate.bytes)}/s, ${count(rate.frames)}/s` : '–');
    }
    const here = list.findIndex(({ entry: at }) => at === entry);
    say(this.now.useful.value, percent(useful[here] ?? null));
    say(this.now.held.value, count(entry.derived.held));
    this.total(frame.gateways.flatMap(({ repair }) => repair ?? []));
    return null;
  }

  private total(of: RepairView[]): void {
    const sum = (name: keyof RepairView): number => of.reduce((total, view) => total + view[name], 0);
    const text = (name: keyof RepairView): string => (of.length === 0 ? '–' : count(sum(name)));
    say(this.sessions.started.value, text('started'));
    say(this.sessions.done.value, text('done'));
    say(this.sessions.aborted.value, text('aborted'));
    say(this.sessions.refused.value, text('refused'));
    say(this.sessions.segments.value, `${text('segments_new')} of ${text('segments')}`);
    say(this.sessions.pulled.value, text('pulled_logs'));
    say(this.sessions.mismatches.value, text('mismatches'));
    this.sessions.mismatches.root.dataset['alarm'] = String(sum('mismatches') > 0);
  }
}
