//! Seeded randomness: one stream a purpose, so that drawing more for one thing changes nothing else.
//!
//! Not here: what is drawn.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// The stream that `seed`, `purpose` and `index` name.
    #[must_use]
    pub fn new(seed: u64, purpose: &str, index: u64) -> Self {
        let mut bytes = [0_u8; 32];
        let purpose = xxhash_rust::xxh3::xxh3_64(purpose.as_bytes());
        for (slot, part) in bytes.chunks_exact_mut(8).zip([seed, purpose, index, 0]) {
            slot.copy_from_slice(&part.to_le_bytes());
        }
        Self(ChaCha8Rng::from_seed(bytes))
    }

    /// 0 to `below` − 1, all equally likely (to within 2⁻³², for bounds below 2³²).
    ///
    /// # Panics
    /// When `below` is 0.
    pub fn below(&mut self, below: usize) -> usize {
        assert!(below > 0, "nothing to choose from");
        let wide = u128::from(self.0.next_u64()) * below as u128;
        usize::try_from(wide >> 64).expect("less than `below`")
    }

    /// `from` to `to`, both included.
    pub fn between(&mut self, from: usize, to: usize) -> usize {
        from + self.below(to - from + 1)
    }

    /// 0 up to, not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// An exponentially distributed number with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}
