// Colours. They are defined in the style sheet, for light and dark; here they are read for canvases.
//
// State groups take the colours of Okabe and Ito in turn, each with a letter and a pattern, so that no meaning rests on
// colour alone. Amounts take one hue from pale to strong (lack) or cividis (propagation).

export type Choice = 'auto' | 'light' | 'dark';

export interface Theme {
  dark: boolean;
  ink: string;
  muted: string;
  faint: string;
  line: string;
  panel: string;
  inset: string;
  accent: string;
  bad: string;
  warn: string;
  good: string;
  series: string[];
  font: string;
}

type Rgb = [number, number, number];

const KEY = 'covey-theme';
const LACK: Record<'light' | 'dark', Rgb[]> = {
  light: [[237, 243, 250], [190, 214, 238], [112, 164, 214], [37, 99, 168], [9, 43, 92]],
  dark: [[27, 37, 50], [30, 66, 112], [44, 110, 178], [106, 169, 232], [205, 230, 255]],
};
const CIVIDIS: Rgb[] = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]];
/** Okabe–Ito, the most telling first; black is left out. */
const GROUPS: [string, string][] = [
  ['#0072b2', '#56a6dc'], ['#e69f00', '#e69f00'], ['#009e73', '#1fb58b'], ['#cc79a7', '#d98fb8'],
  ['#d55e00', '#ee7a2b'], ['#56b4e9', '#7cc8f2'], ['#f0e442', '#f0e442'],
];

let current: Theme | null = null;

export function choice(): Choice {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === 'light' || kept === 'dark' ? kept : 'auto';
  } catch {
    return 'auto';
  }
}

export function choose(next: Choice): void {
  try {
    if (next === 'auto') localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
  } catch {
    // A browser that keeps nothing still shows what was chosen.
  }
  apply(next);
}

export function apply(next: Choice): void {
  if (next === 'auto') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = next;
  current = null;
}

export function forget(): void {
  current = null;
}

export function theme(): Theme {
  current ??= read();
  return current;
}

function read(): Theme {
  const probe = document.createElement('span');
  document.body.append(probe);
  const colour = (name: string): string => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const panel = colour('panel');
  const found: Theme = {
    dark: luminance(parse(panel)) < 0.3,
    ink: colour('ink'), muted: colour('muted'), faint: colour('faint'), line: colour('line'), panel, inset: colour('inset'),
    accent: colour('accent'), bad: colour('bad'), warn: colour('warn'), good: colour('good'),
    series: [1, 2, 3, 4, 5].map((number) => colour(`series-${number}`)),
    font: getComputedStyle(document.body).fontFamily,
  };
  probe.remove();
  return found;
}

function parse(colour: string): Rgb {
  const [r = 0, g = 0, b = 0] = (colour.match(/[\d.]+/g) ?? []).map(Number);
  return [r, g, b];
}

function luminance([r, g, b]: Rgb): number {
  return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
}

function ramp(stops: Rgb[], part: number): Rgb {
  const at = Math.max(0, Math.min(1, part)) * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(at));
  const [a, b] = [stops[low] ?? [0, 0, 0], stops[low + 1] ?? [0, 0, 0]];
  return [0, 1, 2].map((channel) => Math.round((a[channel] ?? 0) + ((b[channel] ?? 0) - (a[channel] ?? 0)) * (at - low))) as Rgb;
}

const css = ([r, g, b]: Rgb): string => `rgb(${r} ${g} ${b})`;

/** Ops lacking, 0 … `most`, on a logarithmic scale: the colour and one that is legible on it. */
export function lackColour(ops: number, most: number): { fill: string; text: string } {
  const { dark } = theme();
  const rgb = ramp(LACK[dark ? 'dark' : 'light'], Math.log1p(ops) / Math.log1p(Math.max(10, most)));
  return { fill: css(rgb), text: luminance(rgb) > 0.5 ? '#0b1522' : '#ffffff' };
}

/** A share from 0 to 1; the strongest is what stands out on the background. */
export function heatColour(part: number): string {
  return css(ramp(CIVIDIS, theme().dark ? part : 1 - part));
}

export function groupColour(group: number): string {
  const pair = GROUPS[group % GROUPS.length] ?? ['#888', '#888'];
  return pair[theme().dark ? 1 : 0];
}

/** A … Z, then A1 … */
export function groupLetter(group: number): string {
  return String.fromCharCode(65 + (group % 26)) + (group >= 26 ? String(Math.floor(group / 26)) : '');
}

const WORDS = new Set(['converged', 'converging', 'degraded', 'diverged', 'partitioned']);

/** The verdict's word, or `unknown` for one that this page does not know. */
export function wordClass(word: string): string {
  return WORDS.has(word) ? word : 'unknown';
}
