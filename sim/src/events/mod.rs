//! What engines' KV events are worth: prompts of token ids through an engine, predicted against reported hits.
//!
//! Two yardsticks for the same traffic: [`model`], one engine and one reader of its lagging events in virtual time, which
//! says how exact any reader can be; and real gateways and workers as processes.
//!
//! Not here: the engine (`engine`), its events on sockets (`worker`).

pub mod figures;
pub mod model;
mod reader;
pub mod traffic;

pub use reader::Reader;
