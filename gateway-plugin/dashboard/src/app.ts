// The page as a whole: header, panels, what keys and buttons do, when to draw.
import { Standing, guard } from './connection';
import { Cursor, SPEEDS, Window, readLink } from './cursor';
import { attr, el, say } from './dom';
import type { Info, MeshFrame } from './frame';
import { moment } from './format';
import { order } from './order';
import type { Panel, Scene } from './panel';
import { Clocks } from './panels/clocks';
import { Cuts } from './panels/cuts';
import { Effect } from './panels/effect';
import { Events } from './panels/events';
import { Matrix } from './panels/matrix';
import { Propagation } from './panels/propagation';
import { Ribbon } from './panels/ribbon';
import { Traffic } from './panels/traffic';
import { Verdict } from './panels/verdict';
import { Workers } from './panels/workers';
import { Live, file, info, recording } from './source';
import { Store, hold, lost } from './store';
import { apply, choice, choose, forget, wordClass, type Choice } from './theme';
import { TimeBar } from './timebar';

const LIVE_SPAN_MS = 180_000;
const INFO_AGAIN_MS = 2000;
const TICK_MS = 250;
/** A dropped frame is told of for so long. */
const DROPPED_TOLD_MS = 10_000;

export function start(root: HTMLElement): void {
  const app = new App(root);
  guard(globalThis, (why) => app.failed(why));
  app.begin();
}

class App {
  private readonly store = new Store();
  private readonly cursor = new Cursor(this.store);
  private readonly window = new Window();
  private readonly verdict = new Verdict();
  private readonly seek = (t_ms: number): void => this.act(() => { this.cursor.playing = false; this.cursor.seek(t_ms); });
  private readonly ribbon = new Ribbon(this.seek);
  private readonly panels: Panel[] = [];
  private readonly bar: TimeBar;
  private readonly title = el('span', { class: 'label' });
  private readonly status = el('span', { class: 'status', role: 'status' }, 'connecting');
  private readonly nowChip = el('span', { class: 'now-chip', hidden: true });
  private readonly banner = el('p', { class: 'banner', role: 'alert', hidden: true });
  private readonly back = el('button', { type: 'button', hidden: true }, 'back to live');
  private readonly standing = new Standing(performance.now());
  /** What the stream is like, and what somebody has to know besides that. */
  private trouble = '';
  private notice = '';
  private noticeUntil = Infinity;
  private droppedFrames = 0;
  private info: Info | null = null;
  private live: Live | null = null;
  private drawn = '';
  private asked = false;
  private played_at = 0;

  constructor(private readonly root: HTMLElement) {
    this.bar = new TimeBar({
      toggle: () => this.toggle(), step: (by) => this.act(() => this.cursor.step(by)), event: (direction) => this.act(() => this.cursor.stepEvent(direction)),
      home: () => this.act(() => this.cursor.home()), end: () => this.act(() => this.cursor.end(this.isLive())), live: () => this.act(() => this.cursor.follow()),
      seekIndex: (index) => this.act(() => { const entry = this.store.entries[index]; if (entry) { this.cursor.playing = false; if (index === this.store.entries.length - 1 && this.isLive()) this.cursor.follow(); else this.cursor.seek(entry.t_ms); } }),
      speed: (value) => { this.cursor.speed = value; }, span: (ms) => this.act(() => { this.window.span_ms = ms; this.window.to_ms = -1; }),
    });
    this.layout();
    this.keys();
    this.drops();
  }

  private isLive(): boolean {
    return this.standing.connection.kind !== 'playback';
  }

  private layout(): void {
    const moments = [new Matrix(), new Clocks(), new Effect(this.seek), new Events(this.seek)];
    const times = [this.ribbon, new Propagation(this.seek), new Cuts(this.seek), new Traffic(this.seek)];
    const workers = new Workers();
    this.panels.push(...moments, ...times, workers);
    const theme = el('select', { 'aria-label': 'Colours: auto, light or dark', title: 'Colours', class: 'theme' }, ...(['auto', 'light', 'dark'] as Choice[]).map((name) => el('option', { value: name, selected: name === choice() }, name)));
    theme.addEventListener('change', () => { choose(theme.value as Choice); this.again(); });
    apply(choice());
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { forget(); this.again(); });
    const open = el('input', { type: 'file', accept: '.jsonl,.json,.ndjson,.log,text/plain,application/json', class: 'sr', id: 'open-file', 'aria-label': 'Open a recording' });
    open.addEventListener('change', () => { const chosen = open.files?.[0]; if (chosen) void this.openFile(chosen); open.value = ''; });
    this.back.addEventListener('click', () => location.reload());
    const brand = el('h1', {}, 'Covey', el('span', { class: 'sr' }, ': has the mesh converged?'));
    const header = el('header', { class: 'top' }, brand, this.title, this.nowChip, el('span', { class: 'grow' }), this.status, this.back, el('label', { class: 'open', for: 'open-file' }, 'open recording'), open, theme, el('a', { href: 'plain', class: 'plain' }, 'plain page'));
    const column = (name: string, list: Panel[]): HTMLElement => el('div', { class: `column ${name}` }, ...list.map((panel) => panel.root));
    const [first, ...rest] = times;
    this.root.append(
      el('a', { class: 'skip', href: '#verdict' }, 'skip to the verdict'), header, this.banner, this.verdict.root, this.bar.root,
      el('main', {}, column('moment', moments), el('div', { class: 'column time' }, first?.root, el('div', { class: 'more' }, ...rest.map((panel) => panel.root))), workers.root),
      el('footer', {}, 'Keys: ← → frame, shift ← → event, Home, End, space play, [ ] speed, L live. Drop a recording onto the page to play it.'));
    this.watchSight();
  }

  /** Panels out of sight are drawn when they come into it. */
  private watchSight(): void {
    const sight = new IntersectionObserver((changes) => {
      for (const change of changes) {
        const panel = this.panels.find(({ root }) => root === change.target);
        if (!panel) continue;
        panel.visible = change.isIntersecting;
        if (panel.visible && panel.due) this.request();
      }
    }, { rootMargin: '500px' });
    this.panels.forEach(({ root }) => sight.observe(root));
    let width = 0;
    new ResizeObserver(() => {
      if (this.root.clientWidth === width) return;
      width = this.root.clientWidth;
      this.again();
    }).observe(this.root);
    document.addEventListener('visibilitychange', () => this.request());
  }

  begin(): void {
    setInterval(() => this.tick(), TICK_MS);
    void this.connect();
  }

  private async connect(): Promise<void> {
    const found = await info();
    if (!this.isLive()) return;
    if (typeof found === 'string') {
      this.standing.waiting(`No answer from this address yet (${found}). Trying again.`);
      this.request();
      setTimeout(() => void this.connect(), INFO_AGAIN_MS);
      return;
    }
    this.info = found;
    if (found.mode === 'playback') {
      this.standing.waiting('Loading the recording.');
      this.request();
      this.load(await recording(), found.label);
      return;
    }
    this.standing.waiting(`Connected to ${found.label}; waiting for its first frame.`);
    this.window.span_ms = LIVE_SPAN_MS;
    this.bar.showSpan(LIVE_SPAN_MS);
    this.live = new Live({ frame: (frame) => this.frame(frame), dropped: (why) => this.dropped(why), broken: (why) => this.broken(why) });
    this.live.start();
    this.request();
  }

  private frame(frame: MeshFrame): void {
    const wasEmpty = this.store.entries.length === 0;
    this.store.push(frame);
    this.standing.frame(performance.now());
    if (wasEmpty) this.restoreLink();
    this.request();
  }

  private dropped(why: string): void {
    this.droppedFrames += 1;
    this.notify(`The gateway sends what this page cannot read, ${this.droppedFrames} frame${this.droppedFrames === 1 ? '' : 's'} dropped so far: ${why}.`, performance.now() + DROPPED_TOLD_MS);
  }

  private broken(why: string): void {
    this.standing.broken(why, performance.now(), this.store.entries.length > 0);
    this.request();
  }

  /** The last line of defence: the page says that it is broken, touching as little as it can, and does nothing more. */
  failed(why: string): void {
    if (this.standing.isOver()) return;
    this.standing.failed(why, performance.now());
    this.live?.stop();
    this.cursor.playing = false;
    attr(this.root, 'data-connection', 'broken');
    attr(this.status, 'data-kind', 'broken');
    say(this.status, 'broken: reload');
    document.title = 'broken · Covey';
    this.nowChip.hidden = true;
    this.back.hidden = false;
    say(this.back, 'reload');
    this.verdict.failed(why);
    this.bar.failed();
    for (const panel of this.panels) panel.mark(this.standing.connection, 0);
  }

  private async openFile(of: File): Promise<void> {
    this.load(await file(of), of.name);
  }

  /** Everything is read and computed before anything that is shown gives way to it. */
  private load(frames: MeshFrame[] | string, label: string): void {
    if (this.standing.isOver()) return;
    const held = typeof frames === 'string' ? frames : hold(frames);
    if (typeof held === 'string') {
      this.notify(`${label} cannot be played: ${held}.`);
      return;
    }
    this.live?.stop();
    this.back.hidden = this.info?.mode !== 'live';
    this.standing.playback();
    this.info = { mode: 'playback', label, package_version: held.first()?.frame.source.package_version ?? '' };
    this.store.adopt(held);
    this.trouble = '';
    this.notify(lost(frames.length, held));
    this.window.span_ms = null;
    this.bar.showSpan(null);
    this.cursor.live = false;
    this.cursor.home();
    this.restoreLink();
    this.request();
  }

  /** Says something that stays until something else is said, or until a moment. */
  private notify(text: string, until_ms = Infinity): void {
    [this.notice, this.noticeUntil] = [text, until_ms];
    this.say();
  }

  private say(): void {
    const text = [this.trouble, this.notice].filter((part) => part !== '').join(' ');
    this.banner.hidden = text === '';
    say(this.banner, text);
  }

  private restoreLink(): void {
    const link = readLink(location.hash);
    if (!link) return;
    this.cursor.seek('t_s' in link ? this.store.origin_ms() + link.t_s * 1000 : link.at_ms);
  }

  private writeLink(): void {
    let hash = '';
    if (!this.isLive()) hash = `#t=${Math.round(this.cursor.t_ms() - this.store.origin_ms()) / 1000}`;
    else if (!this.cursor.live) hash = `#at=${Math.round(this.cursor.t_ms())}`;
    if (location.hash !== hash) history.replaceState(null, '', hash === '' ? location.pathname + location.search : hash);
  }

  private act(what: () => void): void {
    if (this.store.entries.length === 0) return;
    what();
    this.request();
    if (!this.cursor.playing) this.writeLink();
  }

  private toggle(): void {
    this.act(() => {
      if (this.cursor.playing || (this.cursor.live && this.isLive())) this.cursor.pause();
      else {
        this.cursor.play();
        this.played_at = performance.now();
      }
    });
  }

  private keys(): void {
    document.addEventListener('keydown', (event) => {
      const on = event.target instanceof HTMLElement ? event.target : document.body;
      if (event.ctrlKey || event.metaKey || event.altKey || on.closest('input[type=search], select, textarea')) return;
      const onSlider = on instanceof HTMLInputElement;
      const isPress = on.closest('button, summary, a, label') !== null;
      const doing: Record<string, (() => void) | undefined> = {
        ArrowLeft: event.shiftKey ? () => this.cursor.stepEvent(-1) : onSlider ? undefined : () => this.cursor.step(-1),
        ArrowRight: event.shiftKey ? () => this.cursor.stepEvent(1) : onSlider ? undefined : () => this.cursor.step(1),
        Home: () => this.cursor.home(), End: () => this.cursor.end(this.isLive()),
        l: () => { if (this.isLive()) this.cursor.follow(); },
        '[': () => this.faster(-1), ']': () => this.faster(1),
      };
      const what = doing[event.key];
      if (what) {
        event.preventDefault();
        this.act(what);
      } else if (event.key === ' ' && !isPress) {
        event.preventDefault();
        this.toggle();
      }
    });
    globalThis.addEventListener('hashchange', () => { this.restoreLink(); this.request(); });
  }

  private faster(by: 1 | -1): void {
    const at = SPEEDS.findIndex((speed) => speed === this.cursor.speed);
    this.cursor.speed = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, at + by))] ?? 1;
    this.bar.showSpeed(this.cursor.speed);
  }

  private drops(): void {
    document.addEventListener('dragover', (event) => { event.preventDefault(); this.root.dataset['drop'] = 'true'; });
    document.addEventListener('dragleave', (event) => { if (!event.relatedTarget) delete this.root.dataset['drop']; });
    document.addEventListener('drop', (event) => {
      event.preventDefault();
      delete this.root.dataset['drop'];
      const dropped = event.dataTransfer?.files[0];
      if (dropped) void this.openFile(dropped);
    });
  }

  /** Only ages grow, unless good frames stay away. */
  private tick(): void {
    if (this.standing.isOver()) return;
    if (this.standing.tick(performance.now())) this.request();
    if (performance.now() > this.noticeUntil) this.notify('');
    if (document.hidden) return;
    const scene = this.scene();
    if (!scene) return;
    this.verdict.tick(scene);
    if (scene.connection.kind === 'broken') {
      this.head(scene);
      for (const panel of this.panels) panel.mark(scene.connection, scene.quiet_ms);
    }
  }

  private again(): void {
    this.drawn = '';
    this.request();
  }

  private request(): void {
    if (this.asked || document.hidden || this.standing.isOver()) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.draw(); });
  }

  private scene(): Scene | null {
    const entry = this.store.entries[this.cursor.index()];
    if (!entry) return null;
    const { frame } = entry;
    return {
      store: this.store, cursor: this.cursor, window: this.window, entry, frame, order: order(frame.gateways),
      simulated: frame.source.kind === 'simulated', connection: this.standing.connection, quiet_ms: this.standing.quiet_ms(performance.now()),
    };
  }

  private draw(): void {
    if (this.standing.isOver()) return;
    const { connection } = this.standing;
    this.advance();
    this.window.update(this.store, this.cursor);
    const scene = this.scene();
    attr(this.root, 'data-connection', connection.kind);
    if (!scene) {
      const why = connection.kind === 'waiting' ? connection.why : 'Waiting for the first frame.';
      this.verdict.waiting(why);
      say(this.status, 'waiting');
      this.panels.forEach((panel) => panel.waiting(why));
      return;
    }
    const made = `${this.store.version} ${scene.entry.frame.seq} ${scene.entry.t_ms} ${scene.window.from_ms} ${scene.window.to_ms} ${connection.kind} ${this.cursor.live}`;
    const isNew = made !== this.drawn;
    this.drawn = made;
    this.head(scene);
    this.verdict.draw(scene);
    this.bar.draw(scene);
    for (const panel of this.panels) {
      if (isNew) panel.due = true;
      if (panel.due && panel.visible) panel.draw(scene);
      else if (panel.visible) panel.move(scene);
      if (isNew && !panel.visible) panel.mark(scene.connection, scene.quiet_ms);
    }
    if (this.cursor.playing) this.request();
  }

  private advance(): void {
    if (!this.cursor.playing) return;
    const now = performance.now();
    this.cursor.tick(Math.min(250, now - this.played_at), this.isLive());
    this.played_at = now;
    if (!this.cursor.playing) this.writeLink();
  }

  private head({ frame, entry, connection, quiet_ms, cursor, simulated, store }: Scene): void {
    const { source } = frame;
    const label = this.info?.label ?? source.viewer ?? '';
    say(this.title, connection.kind === 'playback' ? `playback of ${label}${source.cluster && !simulated ? `, cluster ${source.cluster}` : ''}` : `cluster ${source.cluster}, as ${source.viewer ?? 'an observer'} sees it`);
    document.title = `${connection.kind === 'broken' ? 'disconnected' : frame.verdict.word} · Covey · ${label}`;
    const broken = connection.kind === 'broken';
    say(this.status, broken ? 'disconnected' : connection.kind === 'playback' ? 'playback' : 'live');
    attr(this.status, 'data-kind', connection.kind);
    this.trouble = broken ? `Disconnected (${connection.why}), last frame ${Math.floor(quiet_ms / 1000)} s ago. What is below is from then.` : '';
    this.say();
    const last = store.last()?.frame;
    const isPast = !cursor.live && connection.kind !== 'playback' && last !== undefined;
    this.nowChip.hidden = !isPast;
    if (!isPast) return;
    attr(this.nowChip, 'data-word', broken ? 'unknown' : wordClass(last.verdict.word));
    say(this.nowChip, broken ? 'now: not known' : `now: ${last.verdict.word} · the cursor stands at ${moment(cursor.t_ms() - (entry.t_ms - frame.t_ms), simulated)}`);
  }
}
