// What all this is for: cached tokens predicted against those that workers reported, outcomes, balance of work.
import { el, fact, say } from '../dom';
import { count, percent } from '../format';
import { LinePlot } from '../lineplot';
import type { Scene } from '../panel';
import { pick, points, trailing, trailingRatio } from '../series';
import type { Entry } from '../store';
import { TimePanel, type Seek } from '../timepanel';
import { key } from './matrix';

/** Requests are few: shares are over so long. */
const OVER_MS = 20_000;
const OUTCOMES = ['hit', 'sticky', 'miss', 'none', 'too_short', 'unscorable', 'stale', 'clock', 'off'];

export class Effect extends TimePanel {
  private readonly share = new LinePlot({
    lines: [{ label: 'reported', colour: 2, fill: true }, { label: 'predicted', colour: 0, dash: [5, 3] }], height: 92, axis: false, max: 1.02,
    value: (value) => (Math.round(value * 100) % 25 === 0 && value <= 1 ? percent(value) : ''),
  });
  private readonly balance = new LinePlot({
    lines: [{ label: 'requests', colour: 0 }, { label: 'queued tokens', colour: 1, dash: [4, 3] }], height: 60, axis: true, least: 2, value: (value) => (value === 0 ? '' : `${count(value)}×`),
  });
  private readonly facts = {
    predicted: fact('predicted'), cached: fact('reported'), ratio: fact('of predicted', 'Reported over predicted cached tokens'), tokens: fact('prompt tokens'), flight: fact('in flight'),
    requests: fact('requests', 'The busiest worker over the mean'), queued: fact('queued tokens', 'The busiest worker over the mean'),
  };
  private readonly outcomes = el('div', { class: 'outcomes', role: 'img' });
  private readonly words = el('ul', { class: 'outcome-words' });

  constructor(seek: Seek) {
    super('effect', 'Router effect', 'Over requests whose worker reported cached tokens; shares over 20 s up to a moment', seek);
    this.legend.append(key('series-3', 'reported as cached'), key('series-1-dashed', 'predicted'));
    const part = (name: string, plot: LinePlot): HTMLElement => el('div', { class: 'part' }, el('h3', {}, name), plot.root);
    this.body.prepend(el('dl', { class: 'facts small' }, ...Object.values(this.facts).map(({ root }) => root)));
    this.plot.prepend(part('share of prompt tokens', this.share), part('work: busiest worker over mean', this.balance));
    this.body.append(el('div', { class: 'outcome-row' }, this.outcomes, this.words));
  }

  protected paint(scene: Scene): string | null {
    const { store, window, frame, entry, cursor } = scene;
    const width = this.plot.clientWidth;
    if (width === 0) return null;
    const list = points(store, window.from_ms, window.to_ms);
    if (frame.gateways.every(({ effect }) => effect === null) && !list.some(({ entry: at }) => at?.derived.effect)) return 'Nobody routes here: no gateway tells what routing came to.';
    const times = list.map(({ t_ms }) => t_ms);
    const prompt = ({ derived }: Entry): number => derived.effect?.prompt_tokens ?? 0;
    const cached = ({ derived }: Entry): number => derived.effect?.cached_tokens ?? 0;
    const predicted = ({ derived }: Entry): number => derived.effect?.predicted_tokens ?? 0;
    this.share.draw(scene, width, times, [trailingRatio(list, OVER_MS, cached, prompt), trailingRatio(list, OVER_MS, predicted, prompt)]);
    this.balance.draw(scene, width, times, [pick(list, ({ derived }) => derived.requests_balance), pick(list, ({ derived }) => derived.queued_balance)]);
    const last = trailing(store, cursor.t_ms(), OVER_MS);
    const sum = (value: (of: Entry) => number): number => last.reduce((total, at) => total + value(at), 0);
    const [prompts, caches, predictions] = [sum(prompt), sum(cached), sum(predicted)];
    const span_s = Math.max(1, Math.min(OVER_MS, cursor.t_ms() - (store.first()?.t_ms ?? 0)) / 1000);
    say(this.facts.predicted.value, percent(prompts > 0 ? predictions / prompts : null));
    say(this.facts.cached.value, percent(prompts > 0 ? caches / prompts : null));
    say(this.facts.ratio.value, percent(predictions > 0 ? caches / predictions : null));
    say(this.facts.tokens.value, `${count(Math.round(prompts / span_s))}/s`);
    say(this.facts.flight.value, count(entry.derived.effect?.in_flight ?? null));
    say(this.facts.requests.value, times_(entry.derived.requests_balance));
    say(this.facts.queued.value, times_(entry.derived.queued_balance));
    this.bars(last);
    return null;
  }

  private bars(entries: Entry[]): void {
    const sums: Record<string, number> = {};
    for (const { derived } of entries) for (const [name, more] of Object.entries(derived.effect?.outcomes ?? {})) sums[name] = (sums[name] ?? 0) + more;
    const names = [...OUTCOMES, ...Object.keys(sums).filter((name) => !OUTCOMES.includes(name))].filter((name) => (sums[name] ?? 0) > 0);
    const total = names.reduce((sum, name) => sum + (sums[name] ?? 0), 0);
    const said = names.map((name) => `${name} ${sums[name]}`).join(', ');
    this.outcomes.setAttribute('aria-label', total === 0 ? 'No decision in the last 20 s' : `Outcomes of the last 20 s: ${said}`);
    if (this.outcomes.dataset['said'] === said && total > 0) return;
    this.outcomes.dataset['said'] = said;
    this.outcomes.replaceChildren(...names.map((name) => {
      const bar = el('span', { class: `outcome o-${OUTCOMES.indexOf(name)}`, title: name });
      bar.style.flexGrow = String(sums[name] ?? 0);
      return bar;
    }));
    if (total === 0) this.words.replaceChildren(el('li', { class: 'quiet' }, 'no decision in the last 20 s'));
    else this.words.replaceChildren(...names.map((name) => el('li', {}, el('span', { class: `dot o-${OUTCOMES.indexOf(name)}`, 'aria-hidden': 'true' }), `${name.replace('_', ' ')} ${count(sums[name] ?? 0)} (${percent((sums[name] ?? 0) / total)})`)));
  }
}

function times_(value: number | null): string {
  return value === null ? '–' : `${value.toFixed(2)}× mean`;
}
