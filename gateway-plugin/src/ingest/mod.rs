//! Engines' KV events: what vLLM, SGLang and TensorRT-LLM publish, read defensively, and what it says a cache holds.
//!
//! [`decode`] reads one message; [`EngineCache`] keeps what an engine's events say, copies counted, under this gateway's
//! own chain hashes, because engines' hashes mean nothing outside the engine. [`intake`] follows one engine's numbered
//! batches and makes ops of them; `runner` (feature `server`) drives it over [`zmtp`] with a real clock. `capture` replays
//! recorded streams.
//!
//! Not here: who ingests whom, and what becomes of ops (`covey-mesh`). Groups of full or MLA attention are read, each in
//! lanes of its own; events of other groups are counted and left.

mod bytes;
mod cache;
pub mod capture;
mod decode;
mod event;
pub mod intake;
mod msgpack;
mod naming;
#[cfg(feature = "server")]
pub mod runner;
pub mod zmtp;

pub use bytes::RefuseExport;
pub use cache::{BLOCKS_MAX, CacheRules, CopyReports, Counts, EXPORT_VERSION, EngineCache, LaneNet, split};
pub use decode::{Decoded, EVENTS_MAX, decode};
pub use event::{Event, ExtraKey, Medium, RefuseEvent, Removed, Stored};
pub use naming::Scope;
