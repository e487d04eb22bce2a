//! Encoding a growing conversation at the cost of what is new: the text is cut where its parts are encoded independently
//! of each other, and the parts' token ids are kept.
//!
//! **Where cutting is exact.** The library first splits a text at its added tokens that are not normalized, and then
//! normalizes, pre-tokenizes and encodes each piece by itself. A text cut at the *start* of such a token gives the same
//! pieces: matches are leftmost-longest and do not overlap, and no piece but the first of the whole text starts at offset
//! 0 (which some pre-tokenizers look at). Not so when a token takes white space on its left or looks at the characters
//! around it; a tokenizer with such a token is not cut there, or not at all.
//!
//! Not here: rendering. Upholds the bound of its bytes; locks are held for one look-up or insertion.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use aho_corasick::{AhoCorasick, MatchKind};
use tokenizers::AddedToken;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Bytes between two cuts at least: shorter parts cost more to keep than to encode.
const SEGMENT_BYTES_MIN: usize = 512;
/// Locks.
const SHARDS: usize = 16;
/// What keeping a part costs beside its ids.
const ENTRY_BYTES: usize = 96;

/// Where texts can be cut.
#[derive(Debug)]
pub(super) struct Cuts {
    tokens: AhoCorasick,
    /// By pattern: whether a text can be cut in front of it.
    is_clean: Vec<bool>,
}

impl Cuts {
    /// By the tokenizer's added tokens; `None` when no cut is sure to be exact.
    pub(super) fn new<'a>(added: impl Iterator<Item = &'a AddedToken>) -> Option<Self> {
        let tokens: Vec<&AddedToken> = added.filter(|token| !token.normalized && !token.content.is_empty()).collect();
        let starts_with_space = |token: &&AddedToken| token.content.starts_with(char::is_whitespace);
        let eats = tokens.iter().any(|token| token.rstrip) && tokens.iter().any(starts_with_space);
        if eats || tokens.iter().any(|token| token.single_word) {
            return None;
        }
        let is_clean: Vec<bool> = tokens.iter().map(|token| !token.lstrip && !starts_with_space(token)).collect();
        if !is_clean.contains(&true) {
            return None;
        }
        let contents = tokens.iter().map(|token| token.content.as_str());
        let tokens = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(contents).ok()?;
        Some(Self { tokens, is_clean })
    }

    /// The parts of a text. Where a cut is made depends on nothing behind it, so a longer text is cut in the same places.
    fn parts<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let mut parts = Vec::new();
        let mut begin = 0;
        for found in self.tokens.find_iter(text) {
            if self.is_clean[found.pattern().as_usize()] && found.start() - begin >= SEGMENT_BYTES_MIN {
                parts.push(&text[begin..found.start()]);
                begin = found.start();
            }
        }
        parts.push(&text[begin..]);
        parts
    }
}

type Ids = Arc<[u32]>;

/// Two generations: what was used since the younger one began, and what was used before. Dropping the elder forgets what
/// is least recent, in whole.
#[derive(Debug, Default)]
struct Shard {
    young: HashMap<u128, Ids>,
    young_bytes: usize,
    elder: HashMap<u128, Ids>,
    elder_bytes: usize,
}

impl Shard {
    fn get(&mut self, key: u128, bytes_max: usize) -> Option<Ids> {
        if let Some(ids) = self.young.get(&key) {
            return Some(Arc::clone(ids));
        }
        let ids = self.elder.remove(&key)?;
        self.elder_bytes -= cost(&ids);
        self.insert(key, Arc::clone(&ids), bytes_max);
        Some(ids)
    }

    fn insert(&mut self, key: u128, ids: Ids, bytes_max: usize) {
        let bytes = cost(&ids);
        if bytes > bytes_max / 4 {
            return;
        }
        if self.young_bytes + bytes > bytes_max / 2 {
            self.elder = std::mem::take(&mut self.young);
            self.elder_bytes = std::mem::take(&mut self.young_bytes);
        }
        if self.young.insert(key, ids).is_none() {
            self.young_bytes += bytes;
        }
    }
}

fn cost(ids: &Ids) -> usize {
    ids.len() * size_of::<u32>() + ENTRY_BYTES
}

/// The ids of parts that were encoded before.
#[derive(Debug)]
pub(super) struct Segments {
    cuts: Cuts,
    shards: [Mutex<Shard>; SHARDS],
    shard_bytes_max: usize,
    /// Differs from process to process, so that nobody can prepare two texts that collide.
    seed: u64,
}

impl Segments {
    /// An empty cache of at most so many bytes.
    pub(super) fn new(cuts: Cuts, bytes_max: usize, seed: u64) -> Self {
        Self { cuts, shards: Default::default(), shard_bytes_max: bytes_max / SHARDS, seed }
    }

    /// The ids of a whole text; `encode` is asked for parts that are not known. The last part is not kept: it is the one that
    /// the next turn changes.
    pub(super) fn encode<E>(&self, text: &str, encode: impl Fn(&str) -> Result<Vec<u32>, E>) -> Result<Vec<u32>, E> {
        let parts = self.cuts.parts(text);
        let (last, kept) = parts.split_last().expect("a text has at least one part");
        let mut ids = Vec::with_capacity(text.len() / 4);
        for part in kept {
            let key = xxh3_128_with_seed(part.as_bytes(), self.seed);
            let shard = &self.shards[(key as usize) % SHARDS];
            let known = shard.lock().unwrap_or_else(PoisonError::into_inner).get(key, self.shard_bytes_max);
            if let Some(known) = known {
                ids.extend_from_slice(&known);
                continue;
            }
            let new = encode(part)?;
            ids.extend_from_slice(&new);
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.insert(key, new.into(), self.shard_bytes_max);
        }
        ids.extend(encode(last)?);
        Ok(ids)
    }

    /// Bytes kept now.
    pub(super) fn bytes(&self) -> usize {
        let of = |shard: &Mutex<Shard>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.young_bytes + shard.elder_bytes
        };
        self.shards.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(content: &str, lstrip: bool, single_word: bool) -> AddedToken {
        AddedToken { content: content.to_owned(), single_word, lstrip, rstrip: false, normalized: false, special: true }
    }

    #[test]
    fn a_tokenizer_whose_tokens_look_around_is_not_cut() {
        assert!(Cuts::new([token("<a>", false, true)].iter()).is_none());
        assert!(Cuts::new([token("<a>", true, false)].iter()).is_none());
        assert!(Cuts::new([].iter()).is_none());
        let spaced = [AddedToken { rstrip: true, ..token("<a>", false, false) }, token(" b", false, false)];
        assert!(Cuts::new(spaced.iter()).is_none());
        let cuts = Cuts::new([token("<a>", false, false), token("<m>", true, false)].iter()).expect("one is clean");
        let text = format!("{}  <m>{}<a>tail", "x".repeat(600), "y".repeat(600));
        assert_eq!(cuts.parts(&text).iter().map(|part| part.len()).collect::<Vec<_>>(), [1_205, 7]);
    }

    #[test]
    fn what_is_kept_stays_below_its_bound_and_what_is_used_stays() {
        let cuts = Cuts::new([token("<a>", false, false)].iter()).expect("clean");
        let segments = Segments::new(cuts, 512 << 10, 1);
        let asked = std::cell::RefCell::new(Vec::new());
        let encode = |part: &str| {
            asked.borrow_mut().push(part.len());
            Ok::<_, ()>(part.bytes().map(u32::from).collect::<Vec<_>>())
        };
        let often = format!("{}<a>", "o".repeat(600));
        for i in 0..400 {
            let once = format!("{i:04}{}<a>", "x".repeat(600));
            let _ = segments.encode(&once, encode);
            asked.borrow_mut().clear();
            assert_eq!(segments.encode(&often, encode).expect("encodes").len(), often.len());
            assert!(segments.bytes() <= 512 << 10, "{}", segments.bytes());
        }
        assert_eq!(*asked.borrow(), [3], "only the last part is encoded again");
    }
}
