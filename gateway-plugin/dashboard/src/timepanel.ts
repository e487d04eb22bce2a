// Panels over time: they share the gutter on the left, the scale and the cursor's line, and a press on any of them moves
// the cursor.
import { font } from './canvas';
import { el } from './dom';
import { moment, ticks } from './format';
import { Panel, type Scene } from './panel';
import { theme } from './theme';

export const AXIS = 20;
export const RIGHT = 10;

/** Width of the labels on the left. */
export function gutter(width: number): number {
  return width < 480 ? 62 : 88;
}

export interface Scale {
  left: number;
  right: number;
  from_ms: number;
  to_ms: number;
  x(t_ms: number): number;
}

export function scale(scene: Scene, width: number): Scale {
  const [left, right] = [gutter(width), width - RIGHT];
  const { from_ms, to_ms } = scene.window;
  const per = (right - left) / Math.max(1, to_ms - from_ms);
  return { left, right, from_ms, to_ms, x: (t) => left + (t - from_ms) * per };
}

export type Seek = (t_ms: number) => void;

export abstract class TimePanel extends Panel {
  /** Everything over time lies in it. */
  protected readonly plot = el('div', { class: 'plot' });
  private readonly line = el('div', { class: 'cursor-line', 'aria-hidden': 'true' });
  private last: Scene | null = null;

  constructor(id: string, title: string, hint: string, seek: Seek) {
    super(id, title, hint);
    this.plot.append(this.line);
    this.body.append(this.plot);
    const go = (event: PointerEvent): void => {
      if (!this.last) return;
      const box = this.plot.getBoundingClientRect();
      const { left, right, from_ms, to_ms } = scale(this.last, box.width);
      const part = (event.clientX - box.left - left) / (right - left);
      seek(from_ms + Math.max(0, Math.min(1, part)) * (to_ms - from_ms));
    };
    this.plot.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      this.plot.setPointerCapture(event.pointerId);
      go(event);
    });
    this.plot.addEventListener('pointermove', (event) => {
      if (this.plot.hasPointerCapture(event.pointerId)) go(event);
    });
  }

  override draw(scene: Scene): void {
    this.last = scene;
    super.draw(scene);
  }

  override move(scene: Scene): void {
    this.last = scene;
    const width = this.plot.clientWidth;
    const x = scale(scene, width).x(scene.cursor.t_ms());
    this.line.style.transform = `translateX(${Math.round(x)}px)`;
    this.line.hidden = width === 0 || x < gutter(width) - 1 || x > width - RIGHT + 1;
    this.line.dataset['live'] = String(scene.cursor.live);
  }
}

/** Whether a label in the middle of `x` stays within the plot. */
export function fits(x: number, left: number, right: number): boolean {
  return x >= left + 24 && x <= right - 18;
}

/** Grid lines at round moments; below them, with labels, the axis. */
export function timeGrid(context: CanvasRenderingContext2D, scene: Scene, at: Scale, top: number, bottom: number, labels: boolean): void {
  const colours = theme();
  context.save();
  context.strokeStyle = colours.line;
  context.fillStyle = colours.muted;
  context.font = font(11);
  context.textAlign = 'center';
  context.lineWidth = 1;
  for (const t of ticks(at.from_ms, at.to_ms, at.right - at.left, 74, 0)) {
    const x = Math.round(at.x(t)) + 0.5;
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x, bottom);
    context.stroke();
    if (labels && fits(x, at.left, at.right)) context.fillText(moment(t, scene.simulated, false), x, bottom + AXIS / 2 + 1);
  }
  context.restore();
}
