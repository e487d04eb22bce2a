//! What engines' KV events are worth: prompts of token ids through an engine, predicted against reported hits.
//!
//! Two yardsticks for the same traffic: [`model`], one engine and one reader of its lagging events in virtual time, which
//! says how exact any reader can be; and real gateways and
//! workers as processes, `covey-sim events`, also while owners and engines are killed (`chaos`).
//!
//! Not here: the engine (`engine`), its events on sockets (`worker`).

mod args;
mod chaos;
mod cluster;
mod drive;
pub mod figures;
pub mod model;
mod reader;
mod run;
pub mod traffic;

pub use args::{EventsArgs, Leg};
pub use reader::Reader;
pub use run::run;
