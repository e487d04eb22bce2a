//! Seeded streams of random numbers, one a concern.
//!
//! Not here: what is drawn from them (`draw`, `network`, `world`, `traffic`).

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A seeded stream of random numbers for one concern.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream of `concern` under `seed`.
    #[must_use]
    pub fn new(seed: u64, concern: &str) -> Self {
        Self(ChaCha8Rng::seed_from_u64(xxh3_64_with_seed(concern.as_bytes(), seed)))
    }

    /// Any number.
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound` (0 for a bound of 0).
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.word() % bound }
    }

    /// An index into something of `length` (0 for nothing).
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// A number from `from` to `to`, both included; `from` when `to` is below it.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// `true` with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// A number from 0 up to, not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Log-uniform between `from` and `to` (both > 0).
    pub fn log_uniform(&mut self, from: f64, to: f64) -> f64 {
        (from.ln() + self.unit() * (to.ln() - from.ln())).exp()
    }

    /// A share, log-uniform between `from` and `to`, in millionths: few digits survive being printed and read exactly.
    pub fn share(&mut self, from: f64, to: f64) -> f64 {
        (self.log_uniform(from, to) * 1e6).round() / 1e6
    }

    /// As [`Self::log_uniform`], a whole number.
    pub fn magnitude(&mut self, from: u64, to: u64) -> u64 {
        self.log_uniform(from as f64, to as f64 + 0.999) as u64
    }

    /// `value` or its negative.
    pub fn sign(&mut self, value: u64) -> i64 {
        if self.chance(0.5) { value as i64 } else { -(value as i64) }
    }

    /// Puts a list into a random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.index(last + 1));
        }
    }
}
