// Canvases: sharp on every screen, with the few shapes that panels share.
import { groupColour, theme } from './theme';

export interface Surface {
  canvas: HTMLCanvasElement;
  context: CanvasRenderingContext2D;
  width: number;
  height: number;
}

/** Sizes a canvas to its box and clears it. */
export function surface(canvas: HTMLCanvasElement, width: number, height: number): Surface {
  const scale = Math.max(1, window.devicePixelRatio || 1);
  const [w, h] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  if (!context) throw new Error('this browser gives no 2D canvas');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.textBaseline = 'middle';
  return { canvas, context, width, height };
}

export function font(size: number, weight = 400): string {
  return `${weight} ${size}px ${theme().font}`;
}

const patterns = new Map<string, CanvasPattern | string>();

function tile(key: string, size: number, draw: (context: CanvasRenderingContext2D) => void): CanvasPattern | string {
  const scale = Math.max(1, window.devicePixelRatio || 1);
  const full = `${key} ${size} ${scale} ${theme().dark}`;
  const kept = patterns.get(full);
  if (kept) return kept;
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = Math.round(size * scale);
  const context = canvas.getContext('2d');
  if (!context) return theme().faint;
  context.scale(canvas.width / size, canvas.width / size);
  draw(context);
  const pattern = context.createPattern(canvas, 'repeat');
  pattern?.setTransform(new DOMMatrix().scale(size / canvas.width));
  const made = pattern ?? theme().faint;
  patterns.set(full, made);
  return made;
}

function strokes(context: CanvasRenderingContext2D, lines: [number, number, number, number][]): void {
  context.beginPath();
  for (const [x0, y0, x1, y1] of lines) {
    context.moveTo(x0, y0);
    context.lineTo(x1, y1);
  }
  context.stroke();
}

/** Thin grey diagonals: nothing is known here. */
export function hatch(): CanvasPattern | string {
  return tile('hatch', 6, (context) => {
    context.strokeStyle = theme().faint;
    context.lineWidth = 1;
    strokes(context, [[-1, 7, 7, -1], [-1, 1, 1, -1], [5, 7, 7, 5]]);
  });
}

/** A group's fill: its colour, and from the second on a pattern. */
export function groupFill(group: number): CanvasPattern | string {
  const colour = groupColour(group);
  if (group === 0) return colour;
  return tile(`group ${group}`, 8, (context) => {
    context.fillStyle = colour;
    context.fillRect(0, 0, 8, 8);
    context.strokeStyle = context.fillStyle = theme().dark ? 'rgb(0 0 0 / .38)' : 'rgb(255 255 255 / .55)';
    context.lineWidth = 1.4;
    const kind = (group - 1) % 5;
    if (kind === 0) strokes(context, [[-1, 9, 9, -1], [-1, 1, 1, -1], [7, 9, 9, 7]]);
    else if (kind === 1) [[2, 2], [6, 6]].forEach(([x = 0, y = 0]) => context.fillRect(x - 1, y - 1, 2, 2));
    else if (kind === 2) strokes(context, [[-1, -1, 9, 9], [-1, 7, 1, 9], [7, -1, 9, 1]]);
    else if (kind === 3) strokes(context, [[0, 2, 8, 2], [0, 6, 8, 6]]);
    else strokes(context, [[2, 0, 2, 8], [6, 0, 6, 8]]);
  });
}

/** Text cut to a width, with an ellipsis. */
export function fit(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? '' : `${text.slice(0, low)}…`;
}
