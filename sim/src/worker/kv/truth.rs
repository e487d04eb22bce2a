//! What a cache holds at a position of its stream, as `GET /covey/truth` tells it.
//!
//! Not here: what the cache holds (`engine`).

use serde_json::{Value, json};

use crate::engine::{KvBlock, KvTruth};

/// The body. `token` names the life: two truths with the same token are positions of one stream.
pub(in crate::worker) fn json(truth: &KvTruth, token: &str, block_tokens: u32) -> Value {
    let block = |block: &KvBlock| {
        json!({
            "hash": block.hash,
            "parent": block.parent,
            "tokens": block.content.tokens,
            "salt": block.content.salt,
            "medium": "GPU",
            "copies": block.copies,
        })
    };
    let blocks: Vec<_> = truth.blocks.iter().map(block).collect();
    json!({ "position": truth.position, "token": token, "block_tokens": block_tokens, "blocks": blocks })
}
