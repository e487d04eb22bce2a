//! The coverage mesh: who tells whom, and when.
//!
//! [`node::Node`] is the protocol as a value: inputs in, outputs queued, time as an argument. It never blocks, spawns,
//! logs, reads a clock or draws ambient randomness. `net` (feature `net`) drives it with tokio, quinn and chitchat;
//! the simulator drives it with nothing.
//!
//! Not here: what coverage is (`covey-crdt`), how it is looked up (`covey-gateway-plugin`).

mod blob;
mod clocks;
pub mod feed;
pub mod input;
pub mod inspect;
pub mod limits;
mod load;
mod log;
mod masks;
#[cfg(feature = "net")]
pub mod net;
pub mod node;
pub mod note;
pub mod output;
mod ownership;
mod pace;
mod peer;
mod session;
mod side;
pub mod status;
pub mod summary;
pub mod vector;
mod wire;

pub use wire::frame_kind;
