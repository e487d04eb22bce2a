//! What a gateway embeds: the routing seam ([`plugin`]), the lock-free read index ([`index`]), the [`policy`], the
//! [`load`] counters and the rendering of prompts ([`tokens`]). None of these needs a runtime or a socket, so the
//! simulator links them as they are. Feature `server` adds the `covey` binary's parts: command line, gateway, admin.
//!
//! Not here: what coverage is (`covey-crdt`), how gateways exchange it (`covey-mesh`).

#[cfg(feature = "server")]
pub mod admin;
pub mod bits;
#[cfg(feature = "server")]
pub mod cli;
#[cfg(feature = "dashboard")]
pub mod dashboard;
pub mod frame;
pub mod index;
pub mod ingest;
pub mod load;
#[cfg(feature = "otel")]
pub mod otel;
pub mod plugin;
pub mod policy;
#[cfg(feature = "server")]
pub mod server;
pub mod tokens;
