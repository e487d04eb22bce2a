// Numbers, durations and times as people read them. A thin space separates number and unit.
const THIN = '\u202f';
const MINUS = '\u2212';

function digits(value: number): string {
  const size = Math.abs(value);
  const text = size >= 100 || Number.isInteger(value) ? value.toFixed(0) : size >= 10 ? value.toFixed(1).replace(/\.0$/, '') : value.toFixed(2).replace(/\.?0+$/, '');
  return text.replace('-', MINUS);
}

/** 950, 1.2 k, 34 M. */
export function count(value: number | null): string {
  if (value === null) return '–';
  const size = Math.abs(value);
  if (size >= 1e9) return `${digits(value / 1e9)}${THIN}G`;
  if (size >= 1e6) return `${digits(value / 1e6)}${THIN}M`;
  if (size >= 1e4) return `${digits(value / 1e3)}${THIN}k`;
  return size >= 100 ? value.toFixed(0).replace('-', MINUS) : digits(value);
}

/** As short as fits into a cell of the matrix. */
export function tiny(value: number): string {
  if (value < 1000) return value.toFixed(0);
  if (value < 1e6) return `${(value / 1e3).toFixed(value < 1e4 ? 1 : 0)}k`;
  return `${(value / 1e6).toFixed(value < 1e7 ? 1 : 0)}M`;
}

export function bytes(value: number | null): string {
  if (value === null) return '–';
  if (value < 1000) return `${value.toFixed(0)}${THIN}B`;
  if (value < 1e6) return `${digits(value / 1e3)}${THIN}kB`;
  return value < 1e9 ? `${digits(value / 1e6)}${THIN}MB` : `${digits(value / 1e9)}${THIN}GB`;
}

/** 3 ms, 1.2 s, 4 min 3 s, 2 h 5 min. */
export function duration(ms: number | null): string {
  if (ms === null) return '–';
  if (ms < 1000) return `${digits(ms < 10 ? ms : Math.round(ms))}${THIN}ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)}${THIN}s`;
  if (seconds < 60) return `${Math.floor(seconds)}${THIN}s`;
  const [minutes, hours, days] = [Math.floor(seconds / 60), Math.floor(seconds / 3600), Math.floor(seconds / 86400)];
  if (minutes < 60) return `${minutes}${THIN}min ${Math.floor(seconds % 60)}${THIN}s`;
  return hours < 48 ? `${hours}${THIN}h ${minutes % 60}${THIN}min` : `${days}${THIN}d ${hours % 24}${THIN}h`;
}

/** An age that counts up once a second. */
export function age(ms: number): string {
  return ms < 60_000 ? `${Math.max(0, ms / 1000).toFixed(ms < 10_000 ? 1 : 0)}${THIN}s` : duration(ms);
}

export function percent(ratio: number | null): string {
  return ratio === null ? '–' : `${(ratio * 100).toFixed(ratio > 0.0005 && ratio < 0.9995 ? 1 : 0)}${THIN}%`;
}

/** With its sign, and ± what it is known to. */
export function signed(ms: number, half_ms: number | null = null): string {
  const size = Math.abs(ms);
  const [unit, per] = size >= 10_000 ? ['s', 1000] : ['ms', 1];
  const value = per === 1000 ? digits(size / 1000) : digits(Math.round(size * 10) / 10);
  const within = half_ms === null ? '' : ` ± ${digits(Math.max(0.01, Math.round((half_ms / per) * 100) / 100))}`;
  return `${ms > 0 ? '+' : ms < 0 ? MINUS : half_ms === null ? '±' : ''}${value}${within}${THIN}${unit}`;
}

const pad = (value: number, width = 2): string => String(value).padStart(width, '0');

/** A moment: local time of day when it is one, else seconds since the start. */
export function moment(t_ms: number, simulated: boolean, precise = true): string {
  if (simulated) {
    const seconds = t_ms / 1000;
    return `${precise ? seconds.toFixed(2) : String(Math.round(seconds * 1000) / 1000)}${THIN}s`;
  }
  const date = new Date(t_ms);
  const clock = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return precise ? `${clock}.${Math.floor(date.getMilliseconds() / 100)}` : clock;
}

const DAY_S = 86_400;
const STEPS_S = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, DAY_S];
export const TICKS_MAX = 200;

/** Seconds between ticks: at least `least_s`; beyond a day 2, 4, 8 … days. */
function stepOf(least_s: number): number {
  return STEPS_S.find((step) => step >= least_s) ?? DAY_S * 2 ** Math.ceil(Math.log2(least_s / DAY_S));
}

/** Round moments within a window, at least `apart_px` apart; never more than `TICKS_MAX`, whatever the window. */
export function ticks(from_ms: number, to_ms: number, width_px: number, apart_px: number, zero_ms: number): number[] {
  const span = to_ms - from_ms;
  if (!(span > 0) || !Number.isFinite(span) || !(width_px >= 2)) return [];
  const step = stepOf((span / 1000) * Math.max(apart_px / width_px, 1 / (TICKS_MAX - 1))) * 1000;
  const first = Math.ceil((from_ms - zero_ms) / step) * step + zero_ms;
  const found: number[] = [];
  for (let at = 0; at < TICKS_MAX; at += 1) {
    const t = first + at * step;
    if (!(t <= to_ms)) break;
    if (found.length === 0 || t > (found[found.length - 1] ?? t)) found.push(t);
  }
  return found;
}
