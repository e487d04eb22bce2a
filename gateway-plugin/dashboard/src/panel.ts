// A panel: a heading, a note on its state, a legend, a body. What all panels get to draw from is the scene.
import type { Connection } from './connection';
import type { Cursor, Window } from './cursor';
import { attr, el, say } from './dom';
import type { MeshFrame } from './frame';
import type { Entry, Store } from './store';

/** What a drawing is made from. */
export interface Scene {
  store: Store;
  cursor: Cursor;
  window: Window;
  /** At the cursor. */
  entry: Entry;
  frame: MeshFrame;
  /** The order in which gateways are drawn: positions in `frame.gateways`. */
  order: number[];
  simulated: boolean;
  connection: Connection;
  /** Milliseconds since the latest frame came; 0 in playback. */
  quiet_ms: number;
}

export abstract class Panel {
  readonly root: HTMLElement;
  protected readonly head: HTMLElement;
  protected readonly legend = el('div', { class: 'legend' });
  protected readonly body = el('div', { class: 'body' });
  private readonly badge = el('span', { class: 'badge', hidden: true });
  private readonly empty = el('p', { class: 'empty' }, 'Waiting for the first frame.');
  visible = true;
  /** It must be drawn although nothing changed, for it was out of sight. */
  due = true;

  constructor(readonly id: string, title: string, hint: string) {
    this.head = el('header', {}, el('h2', { id: `${id}-title`, title: hint }, title), this.badge, this.legend);
    this.root = el('section', { class: 'panel', id, 'aria-labelledby': `${id}-title`, 'data-state': 'waiting' }, this.head, this.empty, this.body);
    this.body.hidden = true;
  }

  /** Draws what the panel shows, or gives a sentence when there is nothing to show. */
  protected abstract paint(scene: Scene): string | null;

  /** The cursor moved within one frame: only what marks time needs to move. */
  move(_scene: Scene): void {}

  draw(scene: Scene): void {
    this.due = false;
    // The body must have its width before it is drawn.
    this.body.hidden = false;
    const nothing = this.paint(scene);
    this.body.hidden = nothing !== null;
    this.empty.hidden = nothing === null;
    if (nothing !== null) say(this.empty, nothing);
    this.mark(scene.connection, scene.quiet_ms, nothing !== null);
    this.move(scene);
  }

  /** Says how the data is: waiting, of now, empty, or of a stream that broke. */
  mark(connection: Connection, quiet_ms: number, isEmpty = this.root.dataset['empty'] === 'true'): void {
    this.root.dataset['empty'] = String(isEmpty);
    const broken = connection.kind === 'broken';
    attr(this.root, 'data-state', broken ? 'disconnected' : connection.kind === 'waiting' ? 'waiting' : isEmpty ? 'empty' : 'ok');
    this.badge.hidden = !broken;
    if (broken) say(this.badge, `${Math.floor(quiet_ms / 1000)} s old`);
  }

  waiting(why: string): void {
    this.body.hidden = true;
    this.empty.hidden = false;
    say(this.empty, why);
    attr(this.root, 'data-state', 'waiting');
  }
}
