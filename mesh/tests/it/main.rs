//! The driver over real sockets on loopback, in real time; every wait is bounded.
#![cfg(feature = "net")]
#![expect(clippy::disallowed_methods, reason = "sockets on loopback run on the real clock")]

mod converge;
mod crash;
mod inspect;
mod lives;
mod peers;
mod secrets;
mod strangers;
mod support;
