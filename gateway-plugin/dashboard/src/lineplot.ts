// Lines over time, drawn by uPlot with our gutter, scale and colours.
import uPlot from 'uplot';

import { font } from './canvas';
import { el } from './dom';
import { moment, ticks } from './format';
import type { Scene } from './panel';
import { theme } from './theme';
import { AXIS, RIGHT, fits, gutter } from './timepanel';

export interface LineSpec {
  label: string;
  /** Which of the theme's series colours. */
  colour: number;
  dash?: number[];
  fill?: boolean;
}

export interface PlotSpec {
  lines: LineSpec[];
  height: number;
  /** Whether it has labels below it. */
  axis: boolean;
  /** How values on the left read. */
  value(value: number): string;
  /** A fixed upper end. */
  max?: number;
  /** The upper end is at least this. */
  least?: number;
}

type Values = (number | null)[];

export class LinePlot {
  readonly root = el('div', { class: 'lines' });
  private plot: uPlot | null = null;
  private made = '';
  private scene: Scene | null = null;

  constructor(private readonly spec: PlotSpec) {}

  /** `times` in milliseconds, one list of values for each line. */
  draw(scene: Scene, width: number, times: number[], values: Values[]): void {
    this.scene = scene;
    const height = this.spec.height + (this.spec.axis ? AXIS : 0);
    const key = `${theme().dark} ${theme().ink} ${window.devicePixelRatio} ${gutter(width)}`;
    if (!this.plot || this.made !== key) {
      this.plot?.destroy();
      this.plot = new uPlot(this.options(width, height), [times, ...values] as uPlot.AlignedData, this.root);
      this.made = key;
    } else {
      if (this.plot.width !== width || this.plot.height !== height) this.plot.setSize({ width, height });
      this.plot.setData([times, ...values] as uPlot.AlignedData, false);
    }
    const { from_ms, to_ms } = scene.window;
    this.plot.batch(() => {
      this.plot?.setScale('x', { min: from_ms, max: to_ms });
      this.plot?.setScale('y', { min: 0, max: this.top(values) });
    });
  }

  private top(values: Values[]): number {
    if (this.spec.max !== undefined) return this.spec.max;
    let most = this.spec.least ?? 0;
    for (const list of values) for (const value of list) if (value !== null && value > most) most = value;
    return most > 0 ? most * 1.12 : 1;
  }

  private options(width: number, height: number): uPlot.Options {
    const colours = theme();
    const { spec } = this;
    const grid = { stroke: colours.line, width: 1 };
    const lines = spec.lines.map((line): uPlot.Series => {
      const stroke = colours.series[line.colour] ?? colours.ink;
      return { label: line.label, stroke, width: 1.75, spanGaps: false, points: { show: false }, ...(line.dash ? { dash: line.dash } : {}), ...(line.fill ? { fill: stroke.replace(')', ' / .16)').replace(/rgb\((\d+), (\d+), (\d+)/, 'rgb($1 $2 $3') } : {}) };
    });
    return {
      width, height, pxAlign: 1,
      padding: [6, RIGHT, spec.axis ? 0 : 4, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false, auto: false }, y: { auto: false, range: (_, min, max) => [min, max] } },
      series: [{}, ...lines],
      axes: [
        {
          show: true, size: spec.axis ? AXIS : 0, gap: 2, font: font(11), stroke: colours.muted, grid, ticks: { show: false },
          splits: (plot) => ticks(plot.scales['x']?.min ?? 0, plot.scales['x']?.max ?? 1, plot.width - gutter(plot.width) - RIGHT, 74, 0),
          values: (plot, splits) => (spec.axis ? splits.map((t) => (fits(plot.valToPos(t, 'x') + gutter(plot.width), gutter(plot.width), plot.width - RIGHT) ? moment(t, this.scene?.simulated ?? false, false) : '')) : splits.map(() => '')),
        },
        {
          size: gutter(width), gap: 4, font: font(11), stroke: colours.muted, grid, ticks: { show: false }, space: 26,
          values: (_, splits) => splits.map((value) => spec.value(value)),
        },
      ],
    };
  }
}
