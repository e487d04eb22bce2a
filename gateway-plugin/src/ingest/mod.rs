//! Engines' KV events: what vLLM, SGLang and TensorRT-LLM publish, read defensively, and what it says a cache holds.
//!
//! [`decode`] reads one message; [`EngineCache`] keeps what an engine's events say, copies counted, under this gateway's
//! own chain hashes, because engines' hashes mean nothing outside the engine. `capture` replays recorded streams.
//!
//! Not here yet: sockets, ownership, stored coverage. One attention group is read (full or MLA); events of other groups
//! are counted and left.

mod bytes;
mod cache;
pub mod capture;
mod decode;
mod event;
mod msgpack;
mod naming;
pub mod zmtp;

pub use bytes::RefuseExport;
pub use cache::{BLOCKS_MAX, CacheRules, CopyReports, Counts, EXPORT_VERSION, EngineCache, LaneNet, split};
pub use decode::{Decoded, EVENTS_MAX, decode};
pub use event::{Event, ExtraKey, Medium, RefuseEvent, Removed, Stored};
pub use naming::Scope;
