//! A bounded client of ZeroMQ's wire protocol (ZMTP 3.0, RFC 23), as much of it as engines' KV events need: a subscriber,
//! and a dealer for replays. Whatever a peer sends, no more is allocated than a frame may have, and a length that may not
//! be is refused when it is read, before anything is allocated for it.
//!
//! `codec` is bytes in, items out, and knows no socket; `socket` (feature `server`) is the same over TCP with deadlines.
//! Not here: security mechanisms other than NULL, listening, and what messages mean (`message`).

mod codec;
#[cfg(feature = "server")]
mod socket;

pub use codec::{
    COMMAND_BYTES_MAX, Item, MESSAGE_BYTES_MAX, PARTS_MAX, Reader, RefuseWire, SocketType, greeting, message, pong,
    ready,
};
#[cfg(feature = "server")]
pub use socket::{Endpoint, EndpointError, SocketError, ZmtpSocket};

#[cfg(test)]
mod tests;
