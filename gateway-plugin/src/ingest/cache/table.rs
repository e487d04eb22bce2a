//! A hash table whose order is never used: lookups and removals are most of what applying events costs.
//!
//! Not here: anything that is said in the order of a table. The hash is fixed, so a run is like another one; an engine
//! that picks hashes to collide slows its own intake and nobody else's.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// See the file.
pub(super) type Table<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// Multiplies and folds: enough for keys that are hashes already.
#[derive(Clone, Copy, Default)]
pub(super) struct Mix(u64);

impl Mix {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.mix(u64::from(byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }
}
