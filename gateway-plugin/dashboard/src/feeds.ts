// A worker's feed in words: who reads its events, how well its cache is known, how late they come.
//
// Not here: cells and columns (`panels/workers`).
import { count, duration } from './format';
import type { FeedView } from './frame';

export interface FeedWords {
  /** A shape that tells states apart without colour, then the word. */
  state: string;
  owner: string;
  standby: string;
  lag: string;
  /** The state as a name for style sheets. */
  mark: 'exact' | 'gap' | 'bootstrapping' | 'stale' | 'unknown';
  about: string;
}

const SHAPES = { exact: '●', gap: '◐', bootstrapping: '○', stale: '✕', unknown: '–' };

/** What is not known is unknown: a feed of older frames, of a worker whose events nobody reads, of a state not heard of. */
export function feedWords(feed: FeedView | null | undefined): FeedWords {
  if (!feed) return { state: `${SHAPES.unknown} unknown`, owner: '–', standby: '–', lag: '–', mark: 'unknown', about: 'No gateway reads events of this worker' };
  const mark = isState(feed.state) ? feed.state : 'unknown';
  const said = feed.for_ms === null ? '' : ` for ${duration(feed.for_ms)}`;
  const stored = feed.stored_blocks === null ? '' : `, ${count(feed.stored_blocks)} blocks${feed.is_complete === false ? ' at least' : ''} by its events`;
  const at = feed.position === null ? '' : `, batch ${feed.position}`;
  const age = feed.age_ms === null ? ', read by nobody' : `, said ${duration(feed.age_ms)} ago`;
  return {
    state: `${SHAPES[mark]} ${mark}`, owner: names(feed.publishers), standby: names(feed.standbys), lag: feed.lag_ms === null ? '–' : duration(feed.lag_ms), mark,
    about: `${mark}${said}${stored}${at}${age}`,
  };
}

function isState(word: string): word is FeedWords['mark'] {
  return Object.hasOwn(SHAPES, word);
}

function names(of: string[]): string {
  return of.length === 0 ? 'nobody' : of.join(', ');
}
