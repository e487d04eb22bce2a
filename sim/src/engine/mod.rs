//! An inference engine as a value: a block-level prefix cache and continuous batching like vLLM's, in virtual time.
//!
//! [`Engine`] takes requests and time in and gives events out; [`BlockPool`] is its cache, and [`KvBatch`] what a step
//! changed in it. The worker (`worker`) drives the same value with a real clock.
//!
//! Not here: sockets, text of answers, chat templates (`worker`). Absent on purpose: vLLM's
//! reserved null block, LoRA slots, speculative decoding, lanes other than full attention.

mod batch;
mod content;
mod event;
mod free_queue;
mod kv;
mod pool;
mod request;

pub use batch::{Engine, EngineConfig, Stats};
pub use content::{BLOCK_TOKENS, BlockContent, BlockKey, Job, TOKEN_BYTES, chain, text_tokens, tokens_in};
pub use event::{Event, Reject};
pub use kv::{KvBatch, KvBlock, KvEvent, KvStored, KvTruth};
pub use pool::{BlockId, BlockPool, Change};
pub use request::RequestId;

#[cfg(test)]
mod kv_tests;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
