// The divergence matrix: the row sees the column. What a row lacks of a column is the colour; groups stand together, so
// that a partition shows as blocks.
import { font, fit, groupFill, hatch, surface, type Surface } from '../canvas';
import { TextTable, el, say, svg } from '../dom';
import { count, duration, signed, tiny } from '../format';
import type { Cell, MeshFrame } from '../frame';
import { STALE_MS, isCurrent, isSilent, link } from '../order';
import { Panel, type Scene } from '../panel';
import { groupColour, groupLetter, lackColour, theme } from '../theme';

const LINKS: Record<string, string> = {
  both: 'linked both ways', out: 'one-way: only the row can send', in: 'one-way: only the column can send',
  none: 'not linked', unknown: 'link not known: one side does not tell',
};

interface Layout {
  left: number;
  top: number;
  cell: number;
  /** Offset of each place, gaps between groups included. */
  at: number[];
  side: number;
}

export class Matrix extends Panel {
  private readonly canvas = el('canvas', { tabindex: 0, role: 'img', 'aria-label': 'Divergence matrix', 'aria-describedby': 'matrix-detail' });
  private readonly detail = el('p', { class: 'detail', id: 'matrix-detail', role: 'status' });
  private readonly table = new TextTable('Matrix as a table', () => this.text());
  private readonly scaleBar = el('canvas', { class: 'scale', 'aria-hidden': 'true' });
  private readonly stage = el('div', { class: 'stage' }, this.canvas);
  private scene: Scene | null = null;
  private layout: Layout = { left: 0, top: 0, cell: 1, at: [], side: 0 };
  /** Places of row and column that are looked at. */
  private chosen: [number, number] | null = null;
  private pinned = false;

  constructor() {
    super('matrix', 'Divergence', 'Gateway by gateway: the row sees the column. Colour: ops that the row lacks.');
    this.legend.append(el('span', {}, 'ops lacking'), this.scaleBar, key('hatched', 'no data'), key('oneway', 'one way'), key('unlinked', 'no link'), key('silent', 'silent'));
    this.body.append(this.stage, this.detail, this.table.root);
    this.canvas.addEventListener('pointermove', (event) => this.look(this.under(event)));
    this.canvas.addEventListener('pointerleave', () => { if (!this.pinned) this.look(null); });
    this.canvas.addEventListener('pointerdown', (event) => this.look(this.under(event)));
    this.canvas.addEventListener('focus', () => { if (this.canvas.matches(':focus-visible')) { this.pinned = true; this.look(this.chosen ?? [0, 0]); } });
    this.canvas.addEventListener('blur', () => { this.pinned = false; this.look(null); });
    this.canvas.addEventListener('keydown', (event) => this.key(event));
  }

  private key(event: KeyboardEvent): void {
    const moves: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const by = moves[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const last = (this.scene?.order.length ?? 1) - 1;
    const [row, column] = this.chosen ?? [0, 0];
    this.pinned = true;
    this.look([Math.min(last, Math.max(0, row + by[0])), Math.min(last, Math.max(0, column + by[1]))]);
  }

  private under(event: PointerEvent): [number, number] | null {
    const box = this.canvas.getBoundingClientRect();
    const { left, top, at, cell } = this.layout;
    const place = (offset: number): number => at.findIndex((start) => offset >= start && offset < start + cell);
    const [row, column] = [place(event.clientY - box.top - top), place(event.clientX - box.left - left)];
    return row < 0 || column < 0 ? null : [row, column];
  }

  private look(at: [number, number] | null): void {
    if (this.chosen?.[0] === at?.[0] && this.chosen?.[1] === at?.[1]) return;
    this.chosen = at;
    if (this.scene) this.paint(this.scene);
  }

  protected paint(scene: Scene): string | null {
    this.scene = scene;
    const { frame, entry } = scene;
    if (frame.gateways.length === 0) return 'No gateway is known yet.';
    if (entry.thin) return 'Tables of moments this long ago are no longer kept: the mesh is large. The ribbon still is.';
    const width = this.body.clientWidth;
    if (width === 0) return null;
    this.layout = this.measure(scene, width);
    const { left, top, side } = this.layout;
    const on = surface(this.canvas, Math.min(width, left + side + 2), top + side + 2);
    this.cells(on, scene);
    this.labels(on, scene);
    this.outline(on);
    this.bar(worst(frame));
    say(this.detail, this.chosen ? this.describe(frame, scene.order, this.chosen) : summary(frame));
    this.canvas.setAttribute('aria-label', `Divergence matrix of ${frame.gateways.length} gateways. ${summary(frame)}`);
    this.table.draw();
    return null;
  }

  private measure(scene: Scene, width: number): Layout {
    const { frame, order } = scene;
    const n = order.length;
    const context = this.canvas.getContext('2d');
    let longest = 30;
    if (context) {
      context.font = font(12);
      for (const { name } of frame.gateways) longest = Math.max(longest, context.measureText(name).width);
    }
    const left = Math.min(longest + 14, width * 0.3, 130);
    const breaks = order.filter((at, place) => place > 0 && frame.gateways[at]?.group !== frame.gateways[order[place - 1] ?? at]?.group).length;
    const gap = n > 24 ? 3 : 6;
    const cell = Math.max(4, Math.min(width > 700 ? 88 : n > 4 ? Math.max(20, Math.min(54, 400 / n)) : 64, Math.floor((width - left - breaks * gap - 2) / n)));
    const at: number[] = [];
    let offset = 0;
    order.forEach((gateway, place) => {
      if (place > 0 && frame.gateways[gateway]?.group !== frame.gateways[order[place - 1] ?? gateway]?.group) offset += gap;
      at.push(offset);
      offset += cell;
    });
    return { left, top: cell >= 46 ? 24 : Math.min(longest + 10, 90), cell, at, side: offset };
  }

  private cells({ context }: Surface, { frame, order }: Scene): void {
    const { left, top, cell, at } = this.layout;
    const most = worst(frame);
    const inset = cell >= 12 ? 1 : 0.5;
    order.forEach((row, y) => order.forEach((column, x) => {
      const [px, py, size] = [left + (at[x] ?? 0) + inset, top + (at[y] ?? 0) + inset, cell - 2 * inset];
      if (row === column) this.own(context, frame, row, px, py, size);
      else this.cell(context, frame, row, column, px, py, size, most);
    }));
  }

  private own(context: CanvasRenderingContext2D, frame: MeshFrame, at: number, x: number, y: number, size: number): void {
    const gateway = frame.gateways[at];
    const group = gateway?.left ? null : (gateway?.group ?? null);
    context.fillStyle = group === null ? hatch() : groupFill(group);
    context.beginPath();
    context.roundRect(x, y, size, size, Math.min(4, size / 5));
    context.fill();
    if (size < 11) return;
    const letter = gateway?.left ? 'left' : group === null ? '?' : groupLetter(group);
    plate(context, letter, x + size / 2, y + size / 2, Math.min(15, size * 0.55) * (letter === 'left' ? 0.75 : 1), group);
  }

  private cell(context: CanvasRenderingContext2D, frame: MeshFrame, row: number, column: number, x: number, y: number, size: number, most: number): void {
    const cell = frame.gateways[row]?.sees[column] ?? null;
    const lag = cell?.[2] ?? null;
    const old = !isCurrent(frame.gateways[row], cell);
    const colours = theme();
    let ink = colours.muted;
    if (lag === null) {
      context.fillStyle = colours.inset;
      context.fillRect(x, y, size, size);
      context.fillStyle = hatch();
    } else {
      const colour = lackColour(lag, most);
      context.fillStyle = colour.fill;
      ink = colour.text;
    }
    context.globalAlpha = old && lag !== null ? 0.45 : 1;
    context.fillRect(x, y, size, size);
    context.globalAlpha = 1;
    if (lag !== null && size >= 22) {
      context.font = font(Math.min(13, size * 0.4), lag > 0 ? 600 : 400);
      context.textAlign = 'center';
      context.fillStyle = old ? colours.muted : ink;
      context.fillText(tiny(lag), x + size / 2, y + size / 2 + 0.5);
    }
    this.linkMark(context, link(frame, row, column), cell, x, y, size, ink);
  }

  private linkMark(context: CanvasRenderingContext2D, kind: string, cell: Cell | null, x: number, y: number, size: number, ink: string): void {
    const colours = theme();
    if (kind === 'out' || kind === 'in') {
      context.strokeStyle = colours.bad;
      context.lineWidth = size >= 20 ? 2.5 : 1.5;
      context.strokeRect(x + 1.25, y + 1.25, size - 2.5, size - 2.5);
      if (size < 16) return;
      // An arrow from the side that can send.
      arrow(context, x + size - 6, y + 7, kind === 'out' ? 1 : -1, colours.bad);
    } else if (isSilent(cell) && size >= 8) {
      context.strokeStyle = ink;
      context.lineWidth = 1.4;
      context.beginPath();
      if (size >= 22) context.arc(x + size - 7, y + 7, 3, 0, 2 * Math.PI);
      else context.arc(x + size / 2, y + size / 2, size / 4, 0, 2 * Math.PI);
      context.stroke();
    } else if (cell?.[0] === false && size >= 8) {
      context.strokeStyle = ink;
      context.lineWidth = 1.4;
      const [cx, cy, r] = size >= 22 ? [x + size - 6.5, y + 6.5, 2.6] : [x + size / 2, y + size / 2, size / 4];
      context.beginPath();
      context.moveTo(cx - r, cy - r);
      context.lineTo(cx + r, cy + r);
      context.moveTo(cx + r, cy - r);
      context.lineTo(cx - r, cy + r);
      context.stroke();
    }
  }

  private labels({ context }: Surface, { frame, order }: Scene): void {
    const { left, top, cell, at } = this.layout;
    const colours = theme();
    const every = Math.max(1, Math.ceil(11 / cell));
    order.forEach((gateway, place) => {
      const view = frame.gateways[gateway];
      const isLooked = this.chosen !== null && (this.chosen[0] === place || this.chosen[1] === place);
      if (!view || (place % every !== 0 && !isLooked)) return;
      const middle = (at[place] ?? 0) + cell / 2;
      const weight = view.me ? 700 : 400;
      context.font = font(Math.min(12, Math.max(9, cell * every * 0.85)), weight);
      context.fillStyle = view.left || view.age_ms === null || view.age_ms > STALE_MS ? colours.muted : colours.ink;
      context.textAlign = 'right';
      if (this.chosen === null || this.chosen[0] === place || place % every === 0) context.fillText(fit(context, view.name, left - 10), left - 7, top + middle);
      context.save();
      if (cell >= 46) {
        context.textAlign = 'center';
        context.fillText(fit(context, view.name, cell - 2), left + middle, top - 11);
      } else {
        context.translate(left + middle, top - 6);
        context.rotate(-Math.PI / 2);
        context.textAlign = 'left';
        context.fillText(fit(context, view.name, top - 8), 0, 0);
      }
      context.restore();
    });
  }

  private outline({ context }: Surface): void {
    if (!this.chosen) return;
    const { left, top, cell, at, side } = this.layout;
    const [row, column] = this.chosen;
    context.strokeStyle = theme().ink;
    context.lineWidth = 1;
    context.globalAlpha = 0.35;
    context.strokeRect(left - 0.5, top + (at[row] ?? 0) + 0.5, side, cell - 1);
    context.strokeRect(left + (at[column] ?? 0) + 0.5, top - 0.5, cell - 1, side);
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.strokeRect(left + (at[column] ?? 0) + 1, top + (at[row] ?? 0) + 1, cell - 2, cell - 2);
  }

  private bar(most: number): void {
    const { context, width, height } = surface(this.scaleBar, 132, 14);
    const top = Math.max(10, most);
    context.font = font(11);
    const label = tiny(top);
    const room = width - 12 - context.measureText(label).width - 6;
    for (let x = 0; x < room; x += 1) {
      context.fillStyle = lackColour(Math.expm1((x / room) * Math.log1p(top)), top).fill;
      context.fillRect(12 + x, 1, 1, height - 2);
    }
    context.fillStyle = theme().muted;
    context.textAlign = 'left';
    context.fillText('0', 1, height / 2 + 0.5);
    context.fillText(label, room + 16, height / 2 + 0.5);
  }

  private describe(frame: MeshFrame, order: number[], [y, x]: [number, number]): string {
    const [row, column] = [order[y] ?? 0, order[x] ?? 0];
    const [one, other] = [frame.gateways[row], frame.gateways[column]];
    if (!one || !other) return '';
    if (row === column) {
      const state = one.left ? 'left' : one.group === null ? 'state not known' : `group ${groupLetter(one.group)}`;
      const digest = one.digest ? `digest ${one.digest.slice(0, 8)}` : 'no digest';
      return `${one.name}: ${state}, ${one.phase ?? 'phase not known'}, ${digest}, life ${one.life.slice(0, 8)}${one.me ? ', the viewer' : one.age_ms === null ? ', no summary' : `, summary ${duration(one.age_ms)} old`}`;
    }
    const cell = one.sees[column] ?? null;
    if (!cell) return `${one.name} sees ${other.name}: no data`;
    const [, heard, ops, lag, rtt, offset] = cell;
    const old = (one.age_ms ?? 0) > STALE_MS ? ` (said ${duration(one.age_ms)} ago)` : '';
    const isLinked = link(frame, row, column) === 'unknown' && cell[0] === false ? 'not linked' : (LINKS[link(frame, row, column)] ?? '');
    const lacks = ops === null ? 'lag not known' : `${isCurrent(one, cell) ? 'lacks' : 'lacked when last heard'} ${ops === 0 ? 'nothing' : `${count(ops)} op${ops === 1 ? '' : 's'}`}${ops === 0 || lag === null ? '' : ` for ${duration(lag)}`}`;
    return `${one.name} sees ${other.name}${old}: ${lacks}, ${isLinked}, heard ${heard === null ? 'never' : `${duration(heard)} ago`}, round trip ${rtt === null ? 'not known' : duration(rtt / 1000)}, clock ${offset === null ? 'not known' : signed(offset)}`;
  }

  private text(): { head: string[]; rows: string[][] } {
    if (!this.scene) return { head: [], rows: [] };
    const { frame, order } = this.scene;
    const rows = order.map((row) => [frame.gateways[row]?.name ?? '', ...order.map((column) => {
      const gateway = frame.gateways[row];
      if (row === column) return gateway?.left ? 'left' : gateway?.group == null ? 'unknown' : `group ${groupLetter(gateway.group)}`;
      const ops = gateway?.sees[column]?.[2] ?? null;
      const kind = link(frame, row, column);
      const linked = kind === 'out' || kind === 'in' ? ', one-way' : gateway?.sees[column]?.[0] === false ? ', not linked' : isSilent(gateway?.sees[column]) ? ', silent' : '';
      const old = ops !== null && (gateway?.age_ms ?? 0) > STALE_MS ? `, ${duration(gateway?.age_ms ?? 0)} old` : '';
      return `${ops === null ? 'no data' : `${isCurrent(gateway, gateway?.sees[column]) ? 'lacks' : 'lacked'} ${count(ops)}`}${linked}${old}`;
    })]);
    return { head: ['row sees column', ...order.map((at) => frame.gateways[at]?.name ?? '')], rows };
  }
}

function worst(frame: MeshFrame): number {
  return Math.max(0, ...frame.gateways.flatMap((gateway) => gateway.sees.map((cell) => cell?.[2] ?? 0)));
}

function summary(frame: MeshFrame): string {
  const groups = new Map<number, string[]>();
  for (const gateway of frame.gateways) if (gateway.group !== null && !gateway.left) groups.set(gateway.group, [...(groups.get(gateway.group) ?? []), gateway.name]);
  const unknown = frame.gateways.filter((gateway) => gateway.group === null && !gateway.left).map(({ name }) => name);
  const list = (of: string[]): string => (of.length > 4 ? `${of.length} gateways` : of.join(', '));
  const said = [...groups].sort(([a], [b]) => a - b).map(([group, of]) => `${groupLetter(group)}: ${list(of)}`);
  if (unknown.length > 0) said.push(`state not known: ${list(unknown)}`);
  return `${groups.size === 1 ? 'One state group' : `${groups.size} state groups`}. ${said.join(' · ')}`;
}

/** A letter on a plate of the panel's colour, legible on any pattern. */
export function plate(context: CanvasRenderingContext2D, text: string, x: number, y: number, size: number, group: number | null): void {
  const colours = theme();
  context.font = font(size, 700);
  context.textAlign = 'center';
  const width = Math.max(size + 2, context.measureText(text).width + 6);
  context.fillStyle = colours.panel;
  context.beginPath();
  context.roundRect(x - width / 2, y - size * 0.66, width, size * 1.32, 3);
  context.fill();
  if (group !== null) {
    context.strokeStyle = groupColour(group);
    context.lineWidth = 1;
    context.stroke();
  }
  context.fillStyle = colours.ink;
  context.fillText(text, x, y + 0.5);
}

function arrow(context: CanvasRenderingContext2D, x: number, y: number, direction: 1 | -1, colour: string): void {
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(x + direction * 3, y);
  context.lineTo(x - direction * 3, y - 4);
  context.lineTo(x - direction * 3, y + 4);
  context.fill();
}

/** An entry of a legend with a little picture that the style sheet draws. */
export function key(kind: string, text: string): HTMLElement {
  return el('span', { class: 'key' }, svg('svg', { class: `swatch ${kind}`, viewBox: '0 0 14 14', 'aria-hidden': 'true' }, ...picture(kind)), text);
}

function picture(kind: string): SVGElement[] {
  const box = (attributes: Record<string, string | number>): SVGElement => svg('rect', { x: 1, y: 1, width: 12, height: 12, rx: 2, ...attributes });
  switch (kind) {
    case 'hatched': return [box({ class: 'edge' }), svg('path', { class: 'stroke', d: 'M1 7l6-6M2 12L12 2M7 13l6-6' })];
    case 'oneway': return [box({ class: 'bad-edge' }), svg('path', { class: 'bad-fill', d: 'M10 7L5 4v6z' })];
    case 'unlinked': return [box({ class: 'edge' }), svg('path', { class: 'stroke', d: 'M4 4l6 6M10 4l-6 6' })];
    case 'silent': return [box({ class: 'edge' }), svg('circle', { class: 'stroke', cx: 7, cy: 7, r: 3 })];
    case 'diamond': return [svg('path', { class: 'bad-fill', d: 'M7 1l6 6-6 6-6-6z' })];
    case 'tick': return [svg('path', { class: 'tick', d: 'M4 1v12M10 1v12' })];
    case 'lag': return [svg('path', { class: 'lag', d: 'M1 13V9h3V5h3v5h3V7h3v6z' })];
    case 'dirty': return [svg('path', { class: 'tick', d: 'M1 11h3M6 11h3M11 11h2' })];
    case 'bar': return [svg('path', { class: 'accent-fill', d: 'M1 13V5h3v8zM5.5 13V5h3v8zM10 13V5h3v8z' })];
    case 'bar-differs': return [svg('path', { class: 'bad-fill', d: 'M4 13v-2h6v2zM4 9.5V7.5h6v2zM4 6V4h6v2z' })];
    default: {
      const number = /^series-(\d)(-dashed)?$/.exec(kind);
      return [svg('path', { class: number ? `series-${number[1]}` : 'stroke', d: 'M1 7h12', 'stroke-dasharray': number?.[2] ? '3 2' : null })];
    }
  }
}
