// The verdict in words: what it comes to, why, who says so and how old that is. Unknown is grey, and so is everything
// that comes from a stream that broke.
import { attr, el, fact, say, svg } from '../dom';
import { age, count, duration, moment } from '../format';
import type { Connection } from '../connection';
import type { VerdictView } from '../frame';
import type { Scene } from '../panel';
import { wordClass } from '../theme';

const SAID: Record<string, string> = {
  converged: 'Converged', converging: 'Converging', degraded: 'Degraded', diverged: 'Diverged', partitioned: 'Partitioned', unknown: 'Unknown',
};

/** A shape for each word, so that colour does not have to tell. */
const SHAPES: Record<string, string> = {
  converged: 'M5 12.5l4.5 4.5L19 7.5',
  converging: 'M4 12h14M13 6.5l5.5 5.5-5.5 5.5',
  degraded: 'M12 4.5v9.5M12 18.2v.6',
  diverged: 'M5 9h14M5 15h14M15.5 4.5l-7 15',
  partitioned: 'M10 5H5.5v14H10M14 5h4.5v14H14',
  unknown: 'M8.5 9a3.5 3.5 0 1 1 5 3.2c-1 .5-1.5 1.1-1.5 2.3M12 18.3v.5',
};

export class Verdict {
  readonly root: HTMLElement;
  private readonly icon = svg('path', { d: SHAPES['unknown'], fill: 'none', stroke: 'currentColor', 'stroke-width': 2.6, 'stroke-linecap': 'round', 'stroke-linejoin': 'round' });
  private readonly word = el('span', { class: 'word' }, 'Unknown');
  private readonly why = el('p', { class: 'why' }, 'Waiting for the first frame.');
  private readonly past = el('span', { class: 'past', hidden: true });
  private readonly facts = {
    source: fact('Seen by'),
    age: fact('Age', 'How old the latest frame is'),
    lag: fact('Worst lag', 'The most ops that any present gateway lacks from another, and for how long'),
    seen: fact('Gateways', 'Heard of now, and not heard of; those that left are in neither'),
    since: fact('Last equal', 'When all present gateways were last known to be equal'),
    eta: fact('Equal in', 'While converging: until the lag is gone at its present rate'),
  };

  constructor() {
    const heading = el('h2', { class: 'verdict-word' }, el('span', { class: 'icon', 'aria-hidden': 'true' }, svg('svg', { viewBox: '0 0 24 24' }, this.icon)), this.word, this.past);
    const words = el('div', { class: 'words', role: 'status', 'aria-live': 'polite' }, heading, this.why);
    this.root = el('section', { id: 'verdict', class: 'verdict', 'aria-label': 'Verdict', 'data-word': 'unknown' },
      words, el('dl', { class: 'facts' }, ...Object.values(this.facts).map(({ root }) => root)));
  }

  private show(word: string, text: string, why: string): void {
    attr(this.root, 'data-word', word);
    attr(this.icon, 'd', SHAPES[word] ?? SHAPES['unknown'] ?? '');
    say(this.word, text);
    say(this.why, why);
  }

  waiting(why: string): void {
    this.past.hidden = true;
    this.show('unknown', 'Unknown', why);
  }

  /** The page failed: nothing here holds any longer. */
  failed(why: string): void {
    attr(this.root, 'data-past', null);
    this.waiting(failed(why));
  }

  draw(scene: Scene): void {
    const { frame, cursor, connection, simulated, quiet_ms } = scene;
    const { verdict, source } = frame;
    const isPast = !cursor.live && connection.kind !== 'playback';
    const word = wordClass(verdict.word);
    const shown = standing(verdict, connection, isPast, quiet_ms);
    this.show(shown.word, shown.text, shown.why);
    this.past.hidden = !isPast;
    say(this.past, isPast ? `at ${moment(frame.t_ms, simulated)}, in the past` : '');
    attr(this.root, 'data-past', isPast ? 'true' : null);
    say(this.facts.source.value, source.viewer ?? (simulated ? 'the simulator' : 'an observer'));
    this.tick(scene);
    say(this.facts.lag.value, lag(verdict.worst_lag_ops, verdict.worst_lag_ms));
    say(this.facts.seen.value, verdict.missing > 0 ? `${verdict.seen} seen, ${verdict.missing} missing` : `${verdict.seen} seen`);
    attr(this.facts.seen.root, 'data-alarm', verdict.missing > 0 ? 'true' : null);
    say(this.facts.since.value, equal(frame.t_ms, word, verdict.since_ms, verdict.converged_ms));
    say(this.facts.eta.value, word !== 'converging' ? '–' : verdict.eta_ms === null ? 'lag does not shrink' : `about ${duration(verdict.eta_ms)}`);
  }

  /** Ages that grow without a frame. */
  tick({ connection, quiet_ms, frame, cursor, simulated }: Scene): void {
    const isNow = connection.kind !== 'playback' && cursor.live;
    const text = isNow ? age(quiet_ms) : moment(frame.t_ms, simulated);
    say(this.facts.age.value, text);
    const name = this.facts.age.root.firstElementChild;
    if (name) say(name, isNow ? 'Age' : 'Moment');
    if (connection.kind === 'broken' && cursor.live) say(this.why, standing(frame.verdict, connection, false, quiet_ms).why);
  }
}

function failed(why: string): string {
  return `This page failed (${why}) and shows nothing that can be relied on. Reload it.`;
}

/** The verdict as it may be shown: grey once its stream broke, unless it is of the past; always once the page failed. */
export function standing(verdict: VerdictView, connection: Connection, isPast: boolean, quiet_ms: number): { word: string; text: string; why: string } {
  if (connection.kind === 'broken' && connection.reload) return { word: 'unknown', text: 'Unknown', why: failed(connection.why) };
  if (connection.kind === 'broken' && !isPast) return { word: 'unknown', text: 'Unknown', why: `Disconnected, last frame ${Math.floor(quiet_ms / 1000)} s ago. It said: ${verdict.word}. ${verdict.why}` };
  return { word: wordClass(verdict.word), text: SAID[verdict.word] ?? verdict.word, why: verdict.why };
}

function lag(ops: number | null, ms: number | null): string {
  if (ops === null) return 'not known';
  if (ops === 0) return 'none';
  return `${count(ops)} op${ops === 1 ? '' : 's'}${ms === null ? '' : `, ${duration(ms)}`}`;
}

function equal(t_ms: number, word: string, since_ms: number, converged_ms: number | null): string {
  if (word === 'converged') return `now, for ${duration(Math.max(0, t_ms - since_ms))}`;
  return converged_ms === null ? 'never yet' : `${duration(Math.max(0, t_ms - converged_ms))} ago`;
}
