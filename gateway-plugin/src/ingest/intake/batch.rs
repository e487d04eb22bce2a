//! A batch with its number, from an engine's frames.
//!
//! Not here: what its events mean; whether it follows.

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::super::decode::{Decoded, decode};
use super::super::event::Event;

/// One batch of an engine's events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The engine's number.
    pub seq: u64,
    /// 64 bits over its payload: two batches of one number and different prints are of two lives of the engine.
    pub print: u64,
    /// When the engine made it, seconds since 1970 by its clock.
    pub ts: f64,
    /// The data-parallel rank, where the engine says.
    pub rank: Option<u32>,
    /// Its events, in order.
    pub events: Vec<Event>,
    /// Whether some of it could not be read: what it said is not all known.
    pub is_damaged: bool,
    /// Bytes of the payload, or about as many.
    pub bytes: usize,
}

/// A batch as it came, or read already.
#[derive(Clone, Debug)]
pub enum Arrival {
    /// Frames.
    Frames(Vec<Bytes>),
    /// Read already, as the simulator has it.
    Batch(Box<Batch>),
}

/// A message that is no batch. It is counted, and nothing else comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefuseMessage {
    /// It has one frame or none.
    Frames,
    /// The number is not 8 bytes.
    Number,
}

/// Frames, by the right end: a topic may be before the number, or an empty frame, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numbered {
    /// A batch's number and payload.
    Batch(u64, Bytes),
    /// The end of a replay: the number −1, and an empty payload.
    End,
}

/// Reads the frames of a message, of a subscription or a replay.
///
/// # Errors
/// [`RefuseMessage`].
pub fn read_frames(frames: &[Bytes]) -> Result<Numbered, RefuseMessage> {
    let [.., seq, payload] = frames else { return Err(RefuseMessage::Frames) };
    let seq = <[u8; 8]>::try_from(&seq[..]).map_err(|_| RefuseMessage::Number)?;
    if payload.is_empty() && seq == [0xff; 8] {
        return Ok(Numbered::End);
    }
    Ok(Numbered::Batch(u64::from_be_bytes(seq), payload.clone()))
}

impl Batch {
    /// Reads a payload. What could not be read of it is in the second value.
    #[must_use]
    pub fn read(seq: u64, payload: &[u8]) -> (Self, Decoded) {
        let mut decoded = decode(payload);
        let batch = Self {
            seq,
            print: xxh3_64(payload),
            ts: decoded.ts,
            rank: decoded.rank,
            events: std::mem::take(&mut decoded.events),
            is_damaged: decoded.is_broken || !decoded.refused.is_empty(),
            bytes: payload.len(),
        };
        (batch, decoded)
    }
}
