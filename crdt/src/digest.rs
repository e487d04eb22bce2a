//! Additive 128-bit hashes of state: O(1) to keep in step, equal for equal content whatever way it came about.
//!
//! Not here: what is canonical content (each value says so itself). Compared only between clean replicas at equal vectors.

use std::fmt;

use xxhash_rust::xxh3::xxh3_128;

/// A digest: the wrapping sum of the hashes of a set of canonical byte strings.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub u128);

impl Digest {
    /// The hash of one canonical byte string.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxh3_128(bytes))
    }

    /// Puts an element in.
    pub const fn add(&mut self, element: Self) {
        self.0 = self.0.wrapping_add(element.0);
    }

    /// Takes an element out that is in.
    pub const fn remove(&mut self, element: Self) {
        self.0 = self.0.wrapping_sub(element.0);
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", (self.0 >> 96) as u32)
    }
}
