// In which order gateways are drawn, and what their links come to.
import type { Cell, GatewayView, MeshFrame } from './frame';

const names = new Intl.Collator('en', { numeric: true });

/** Positions in `gateways`, so that gateways of one state group stand together: groups by size, then those whose state is
 * not known, then those that left; by name within. */
export function order(gateways: Pick<GatewayView, 'name' | 'group' | 'left'>[]): number[] {
  const rank = (at: number): number => {
    const gateway = gateways[at];
    if (!gateway || gateway.left) return Number.MAX_SAFE_INTEGER;
    return gateway.group ?? Number.MAX_SAFE_INTEGER - 1;
  };
  return gateways.map((_, at) => at).sort((a, b) => rank(a) - rank(b) || names.compare(gateways[a]?.name ?? '', gateways[b]?.name ?? ''));
}

/** Linked and without an exchange for so long, a peer may be anything; exchanges are due every 250 ms. */
export const SILENT_MS = 1200;
/** Summaries older than this say nothing about now. */
export const STALE_MS = 3000;

export type Link = 'both' | 'out' | 'in' | 'none' | 'unknown';

/** Whether two gateways reach each other, from the row's side: `out`, only the row reaches the column; `in`, only the
 * column reaches the row. Known only while both sides tell. */
export function link(frame: MeshFrame, row: number, column: number): Link {
  const [one, other] = [frame.gateways[row], frame.gateways[column]];
  const there = reaches(one, column);
  const back = reaches(other, row);
  if (there === null || back === null) return 'unknown';
  if (there && back) return 'both';
  if (there) return 'out';
  return back ? 'in' : 'none';
}

/** Whether a cell tells of a link on which nothing is heard. */
export function isSilent(cell: Cell | null | undefined): boolean {
  return !!cell && cell[0] && (cell[1] ?? 0) > SILENT_MS;
}

/** Whether a cell is about now: its row told of late, and hears the column. */
export function isCurrent(row: GatewayView | undefined, cell: Cell | null | undefined): boolean {
  return !!row && !!cell && row.age_ms !== null && row.age_ms <= STALE_MS && cell[0] && !isSilent(cell);
}

function reaches(from: GatewayView | undefined, to: number): boolean | null {
  const cell: Cell | null | undefined = from?.sees[to];
  if (!from || !cell || from.age_ms === null || from.age_ms > STALE_MS) return null;
  return cell[0];
}
