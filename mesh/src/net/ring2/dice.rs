//! Seeded chance. Every concern has its own dice, so that one that asks more often does not shift the others.
//!
//! Not here: what is drawn for (`script`, `network`, `ground`).

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A stream of chance.
#[derive(Debug)]
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    /// The dice of one concern under one seed.
    pub(super) fn new(seed: u64, concern: &str) -> Self {
        Self(ChaCha8Rng::seed_from_u64(xxh3_64_with_seed(concern.as_bytes(), seed)))
    }

    /// A number below `n`; 0 when that is 0.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n.max(1)
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// As `between`, but every order of magnitude is equally likely. `low` is at least 1.
    pub(super) fn log_between(&mut self, low: u64, high: u64) -> u64 {
        let (from, to) = (u64::from(low.ilog2()), u64::from(high.ilog2()));
        let magnitude = 1u64 << self.between(from, to);
        (magnitude + self.below(magnitude)).clamp(low, high)
    }

    /// Whether something of this chance, in thousandths, happens.
    pub(super) fn happens(&mut self, permille: u64) -> bool {
        self.below(1_000) < permille
    }

    /// One of several.
    pub(super) fn one_of<T: Copy>(&mut self, among: &[T]) -> T {
        among[usize::try_from(self.below(among.len() as u64)).expect("an index")]
    }

    /// Raw bytes.
    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}
