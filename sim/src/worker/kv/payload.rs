//! Batches as bytes for who needs no socket.
//!
//! Not here: forms (`wire`).

use super::wire::{Head, Wire};
use crate::engine::KvEvent;

/// A batch in vLLM's present form, of rank 0, made at the beginning of time.
pub(crate) fn vllm(block_tokens: u32, events: &[KvEvent]) -> Vec<u8> {
    Head { wire: Wire::VllmMap, rank: 0, block_tokens }.encode(0.0, events)
}

/// Blocks that a batch stores, copies included.
pub(crate) fn stored_blocks(events: &[KvEvent]) -> u64 {
    let blocks = |event: &KvEvent| match event {
        KvEvent::Stored(stored) => stored.hashes.len() as u64,
        KvEvent::Removed(_) | KvEvent::Cleared => 0,
    };
    events.iter().map(blocks).sum()
}
