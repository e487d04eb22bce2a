//! The command line of `covey`: what can be asked for ([`args`]), and the configuration it is parsed into
//! ([`Config`]), which cannot be wrong.
//!
//! Not here: what is done with it (`server`, `admin`).

pub mod args;
mod config;
mod error;
mod events;
mod mesh;
mod quantity;
mod ranks;
mod session;
#[cfg(test)]
mod tests;
mod tokens;
mod traces;
mod worker;

pub use config::{Config, LogFormat, Timeouts};
pub use error::ConfigError;
pub use events::EventsError;
pub use mesh::MeshSettings;
pub use ranks::{RANKS_MAX, RanksError};
pub use session::{SessionError, SessionSettings};
pub use tokens::{TokenSettings, TokensError};
pub use traces::Traces;
pub use worker::WorkerSpec;
