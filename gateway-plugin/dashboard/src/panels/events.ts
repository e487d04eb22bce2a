// The event log. A press on an event moves the time cursor there.
import { el, say } from '../dom';
import { moment } from '../format';
import type { EventView } from '../frame';
import { Panel, type Scene } from '../panel';
import type { Seek } from '../timepanel';

const SHOWN_MAX = 250;
const LEVELS = ['all', 'warn', 'bad'] as const;

export class Events extends Panel {
  private readonly words = el('input', { type: 'search', placeholder: 'filter: words, gateway, kind', 'aria-label': 'Filter events' });
  private readonly level = el('select', { 'aria-label': 'Least level' }, ...LEVELS.map((level) => el('option', { value: level }, level === 'all' ? 'all levels' : level === 'warn' ? 'warnings and worse' : 'bad only')));
  private readonly list = el('ol', { class: 'event-list', tabindex: 0, 'aria-label': 'Events, latest first' });
  private readonly more = el('p', { class: 'quiet' });
  private scene: Scene | null = null;
  private made = '';

  constructor(private readonly seek: Seek) {
    super('events', 'Events', 'Latest first; press one to move the cursor there');
    this.legend.append(this.words, this.level);
    this.body.append(this.list, this.more);
    const again = (): void => { if (this.scene) this.draw(this.scene); };
    this.words.addEventListener('input', again);
    this.level.addEventListener('change', again);
    this.list.addEventListener('click', (event) => {
      const button = event.target instanceof Element ? event.target.closest('button') : null;
      if (button?.dataset['t']) this.seek(Number(button.dataset['t']));
    });
  }

  protected paint(scene: Scene): string | null {
    this.scene = scene;
    const all = scene.store.events();
    if (all.length === 0) return 'Nothing happened since this page looks.';
    const wanted = this.words.value.trim().toLowerCase();
    const level = this.level.value;
    const found = all.filter(({ event }) => isWanted(event, wanted, level));
    const made = `${scene.store.version} ${wanted} ${level}`;
    if (made !== this.made) {
      this.made = made;
      const origin = scene.simulated;
      this.list.replaceChildren(...found.slice(-SHOWN_MAX).reverse().map(({ event, index }) => this.item(event, scene.store.entries[index]?.t_ms ?? event.t_ms, origin)));
      const hidden = found.length - Math.min(found.length, SHOWN_MAX);
      say(this.more, found.length === 0 ? `None of ${all.length} events matches.` : hidden > 0 ? `${hidden} earlier events are not listed.` : `${found.length} event${found.length === 1 ? '' : 's'}${found.length < all.length ? ` of ${all.length}` : ''}.`);
    }
    this.move(scene);
    return null;
  }

  override move(scene: Scene): void {
    for (const button of this.list.querySelectorAll('button')) button.dataset['at'] = Number(button.dataset['t']) > scene.entry.t_ms ? 'later' : Number(button.dataset['t']) === scene.entry.t_ms ? 'now' : 'earlier';
  }

  private item(event: EventView, t_ms: number, simulated: boolean): HTMLElement {
    const level = ['info', 'warn', 'bad'].includes(event.level) ? event.level : 'info';
    return el('li', {}, el('button', { type: 'button', 'data-t': t_ms, 'data-level': level },
      el('time', {}, moment(event.t_ms, simulated)), el('span', { class: 'level' }, level === 'info' ? '' : level === 'warn' ? '▲' : '◆', el('span', { class: 'sr' }, level)),
      el('span', { class: 'kind' }, event.kind), el('span', { class: 'what' }, ...sentence(event))));
  }
}

/** What happened, with the gateway's name told apart, once. */
function sentence({ gateway, text }: EventView): (Node | string)[] {
  if (gateway === null) return [text];
  const at = text.indexOf(gateway);
  if (at < 0) return [el('b', {}, gateway), ` ${text}`];
  return [text.slice(0, at), el('b', {}, gateway), text.slice(at + gateway.length)];
}

export function isWanted(event: EventView, words: string, level: string): boolean {
  if (level === 'bad' && event.level !== 'bad') return false;
  if (level === 'warn' && event.level === 'info') return false;
  const text = `${event.kind} ${event.gateway ?? ''} ${event.text}`.toLowerCase();
  return words.split(/\s+/).every((word) => text.includes(word));
}
