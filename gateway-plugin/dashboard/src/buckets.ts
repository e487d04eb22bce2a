// Quantiles of what was counted in buckets.

export interface Quantile {
  ms: number;
  /** It lies in the last bucket, which has no upper bound: at least so much. */
  open: boolean;
  /** Where it lies, counted in buckets from the lowest. */
  at: number;
}

/** The q-quantile, spread evenly within its bucket; `null` when nothing was counted. */
export function quantile(bounds: number[], counts: number[], q: number): Quantile | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  const rank = q * total;
  let below = 0;
  for (let bucket = 0; bucket < counts.length; bucket += 1) {
    const count = counts[bucket] ?? 0;
    if (count > 0 && below + count >= rank) {
      const part = Math.max(0, Math.min(1, (rank - below) / count));
      const low = bucket === 0 ? 0 : (bounds[bucket - 1] ?? 0);
      const high = bounds[bucket];
      if (high === undefined) return { ms: low, open: true, at: bucket + 0.5 };
      return { ms: low + (high - low) * part, open: false, at: bucket + part };
    }
    below += count;
  }
  return null;
}

/** Adds counts into a sum of the same buckets. */
export function addCounts(sum: number[], more: number[] | null): number[] {
  if (!more) return sum;
  const length = Math.max(sum.length, more.length);
  return Array.from({ length }, (_, at) => (sum[at] ?? 0) + (more[at] ?? 0));
}
