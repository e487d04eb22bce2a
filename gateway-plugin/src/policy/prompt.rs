//! The length of a prompt, and what a number of held blocks is worth of it in tokens.
//!
//! Not here: its hashes (`plugin::RequestKey`). Units are typed away here: everything that leaves is in tokens (hazard 10).

use covey_crdt::keyspace::{Keyspace, Unit};
use covey_crdt::limits::BYTES_PER_TOKEN;

/// A prompt's length in its keyspace's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prompt {
    units: u64,
    block_units: u32,
    units_per_token: u64,
}

impl Prompt {
    /// A prompt of `units` bytes or tokens, whichever `keyspace` counts.
    #[must_use]
    pub const fn new(keyspace: &Keyspace, units: u64) -> Self {
        let units_per_token = match keyspace.unit {
            Unit::Tokens => 1,
            Unit::Bytes => BYTES_PER_TOKEN,
        };
        Self { units, block_units: keyspace.block_units, units_per_token }
    }

    /// Its length in the keyspace's unit, the unfinished last block included.
    #[must_use]
    pub const fn units(self) -> u64 {
        self.units
    }

    /// Its length in tokens, at least 1.
    #[must_use]
    pub fn tokens(self) -> u64 {
        (self.units / self.units_per_token).max(1)
    }

    /// How many tokens a worker that holds its first `blocks` blocks need not compute again. Bounded below the last token,
    /// which is always computed; an engine whose blocks are known computes all of that token's block.
    #[must_use]
    pub fn reusable_tokens(self, blocks: u32) -> u64 {
        if self.units_per_token == 1 {
            let block = u64::from(self.block_units);
            return (u64::from(blocks)).min(self.units.saturating_sub(1) / block) * block;
        }
        let held = u64::from(blocks) * u64::from(self.block_units);
        (held.min(self.units) / self.units_per_token).min(self.tokens() - 1)
    }
}
