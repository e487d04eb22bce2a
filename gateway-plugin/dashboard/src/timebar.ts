// The bar that stays in sight: transport, the shared cursor as a slider, speed, the window of time.
import { SPEEDS } from './cursor';
import { attr, el, say, svg } from './dom';
import { duration, moment } from './format';
import type { Scene } from './panel';

export interface Commands {
  toggle(): void;
  step(by: number): void;
  event(direction: 1 | -1): void;
  home(): void;
  end(): void;
  live(): void;
  seekIndex(index: number): void;
  speed(value: number): void;
  span(ms: number | null): void;
}

const ICONS: Record<string, string> = {
  play: 'M5 3l9 5-9 5z', pause: 'M4 3h3v10H4zM9 3h3v10H9z', back: 'M11 3L5 8l6 5z', on: 'M5 3l6 5-6 5z',
  home: 'M3 3h2v10H3zM13 3L6 8l7 5z', end: 'M11 3h2v10h-2zM3 3l7 5-7 5z', eventBack: 'M14 3L9 8l5 5zM4 5l3 3-3 3-3-3z', eventOn: 'M2 3l5 5-5 5zM12 5l3 3-3 3-3-3z',
};
const SPANS: [string, number | null][] = [['1 min', 60_000], ['3 min', 180_000], ['10 min', 600_000], ['30 min', 1_800_000], ['all', null]];

export class TimeBar {
  readonly root: HTMLElement;
  private readonly playIcon = svg('path', { d: ICONS['play'] });
  private readonly play: HTMLButtonElement;
  private readonly live: HTMLButtonElement;
  private readonly slider = el('input', { type: 'range', min: 0, max: 0, step: 1, value: 0, 'aria-label': 'Time cursor, frame by frame' });
  private readonly time = el('output', { class: 'cursor-time' }, '–');
  private readonly speed = el('select', { 'aria-label': 'Speed of playing' }, ...SPEEDS.map((value) => el('option', { value, selected: value === 1 }, `${value}×`)));
  private readonly span = el('select', { 'aria-label': 'Window of time' }, ...SPANS.map(([text, ms]) => el('option', { value: ms ?? 'all' }, text)));

  constructor(commands: Commands) {
    this.play = button('play', 'Play or pause (space)', () => commands.toggle(), this.playIcon);
    this.live = el('button', { type: 'button', class: 'live', title: 'Follow the latest frame (L)' }, el('span', { class: 'pulse', 'aria-hidden': 'true' }), 'live');
    this.live.addEventListener('click', () => commands.live());
    this.slider.addEventListener('input', () => commands.seekIndex(Number(this.slider.value)));
    this.speed.addEventListener('change', () => commands.speed(Number(this.speed.value)));
    this.span.addEventListener('change', () => commands.span(this.span.value === 'all' ? null : Number(this.span.value)));
    const buttons = el('div', { class: 'transport', role: 'group', 'aria-label': 'Transport' },
      button('home', 'To the start (Home)', () => commands.home()), button('eventBack', 'Event before (Shift ←)', () => commands.event(-1)), button('back', 'Frame before (←)', () => commands.step(-1)),
      this.play, button('on', 'Next frame (→)', () => commands.step(1)), button('eventOn', 'Next event (Shift →)', () => commands.event(1)), button('end', 'To the end (End)', () => commands.end()));
    this.root = el('nav', { class: 'timebar', 'aria-label': 'Time' }, buttons, this.time, this.slider, this.live, this.speed, this.span);
  }

  showSpan(ms: number | null): void {
    this.span.value = ms === null ? 'all' : String(ms);
  }

  showSpeed(value: number): void {
    this.speed.value = String(value);
  }

  /** The page failed: nothing is live. */
  failed(): void {
    attr(this.live, 'data-broken', 'true');
  }

  draw(scene: Scene): void {
    const { cursor, store, simulated, frame, entry, connection } = scene;
    attr(this.playIcon, 'd', (cursor.playing || (cursor.live && connection.kind !== 'playback') ? ICONS['pause'] : ICONS['play']) ?? '');
    this.slider.max = String(Math.max(0, store.entries.length - 1));
    this.slider.value = String(cursor.index());
    const behind = (store.last()?.t_ms ?? 0) - cursor.t_ms();
    const text = moment(cursor.live ? frame.t_ms : cursor.t_ms() - (entry.t_ms - frame.t_ms), simulated);
    say(this.time, connection.kind === 'playback' || cursor.live ? text : `${text} (−${duration(behind)})`);
    this.slider.setAttribute('aria-valuetext', `${text}, ${frame.verdict.word}`);
    this.live.hidden = connection.kind === 'playback';
    attr(this.live, 'aria-pressed', String(cursor.live));
    attr(this.live, 'data-broken', connection.kind === 'broken' ? 'true' : null);
  }
}

function button(icon: string, title: string, press: () => void, path?: SVGElement): HTMLButtonElement {
  const made = el('button', { type: 'button', title, 'aria-label': title, class: `t-${icon}` }, svg('svg', { viewBox: '0 0 16 16', 'aria-hidden': 'true' }, path ?? svg('path', { d: ICONS[icon] })));
  made.addEventListener('click', press);
  return made;
}
