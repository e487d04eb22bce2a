//! Frames: a version, then a small typed rmp-serde envelope; hot data inside it are packed columns in `bin`.
//!
//! Not here: the columns of ops, chains and slices (`covey_crdt::codec`), framing and encryption (`net`). A frame of a
//! newer version is named, not guessed at; trailing bytes are refused. Golden bytes per version hold the layout.

use bytes::Bytes;
use covey_crdt::id::LifeId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::limits::{FRAME_BYTES_MAX, WIRE_VERSION};
use crate::summary::Summary;

/// Why a frame was refused. Replicated state is untouched in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefuseFrame {
    /// The peer speaks a newer version. Fault: rollout skew. Keep the link; count it.
    NewerVersion {
        /// Its version.
        got: u16,
    },
    /// The bytes do not parse. Fault: peer or corruption. Close the link.
    Malformed {
        /// Where, as far as known.
        offset: usize,
    },
}

/// What peers say to one another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Message {
    Exchange(Box<Exchange>),
    Ops(Ops),
    Pull(Pull),
    Trimmed(Trimmed),
    Want(Want),
    Content(Content),
    Loads(Loads),
    SliceAsk(SliceAsk),
    SliceReply(Box<SliceReply>),
    SliceRefused(SliceRefused),
    SliceEnd(SliceEnd),
    Refused(Refused),
    Summary(Box<Summary>),
    FeedOps(FeedOps),
    FeedPull(FeedPull),
    FeedTrimmed(FeedTrimmed),
    BlobAsk(BlobAsk),
    BlobPiece(BlobPiece),
}

/// Who I am, where I am, what I have: every 250 ms, only what changed since the peer's last acknowledgement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Exchange {
    pub name: String,
    pub cluster: String,
    pub block_bytes: u32,
    pub wall_ms: u64,
    /// The sender's monotonic clock, to be handed back.
    pub mono_us: u64,
    /// The receiver's monotonic reading last heard, 0 for none, and how long ago that was.
    pub echo_us: u64,
    pub held_us: u64,
    /// 0 joining, 1 clean, 2 dirty.
    pub phase: u8,
    /// Digest of a clean replica, 16 bytes big-endian; empty otherwise.
    pub digest: ByteBuf,
    /// Hash of the whole vector.
    pub vector: u64,
    /// Version of the sender's vector, and the version the entries are relative to.
    pub version: u64,
    pub since: u64,
    /// The receiver's vector version, and load version, that the sender has in full.
    pub vector_acked: u64,
    pub load_acked: u64,
    /// Changed entries of life logs: 32-byte rows.
    pub lives: ByteBuf,
    /// Changed entries of feeds.
    pub feeds: Vec<FeedEntry>,
    /// Logs with ops received but held: rows of life and last contiguous sequence number, 24 bytes.
    pub held: ByteBuf,
    /// Lives the sender closed (and the receiver's, if it is retired): 16-byte rows.
    pub closed: ByteBuf,
    /// Gateways, by name, on the sender's side, and the smallest life there (P10).
    pub side: u32,
    pub smallest: Id,
    /// Digest of the ends of lives the sender knows, 16 bytes big-endian.
    pub ends: ByteBuf,
    /// The founder of the sender's mesh, and up to when retired lives are forgotten there: 24 bytes, or none for never.
    pub mesh: Id,
    pub forgotten: ByteBuf,
    /// Whether the sender reads engines' events: only such gateways own feeds.
    pub ingests: bool,
}

/// A feed's vector entry (ruling R2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FeedEntry {
    pub worker: String,
    pub rank: u16,
    pub counter: u64,
    pub token: String,
    pub generation: u32,
    pub life: Id,
    pub position: u64,
    pub part: u32,
    /// The low 64 bits of the state's digest; 0 in a pull.
    pub digest: u64,
}

/// Ops of feeds, each as it is hashed and compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FeedOps {
    pub ops: Vec<ByteBuf>,
}

/// Ask for what follows these states. One without a token: nothing of that feed is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FeedPull {
    pub wants: Vec<FeedEntry>,
}

/// The ops that follow are not retained: ask for the whole state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FeedTrimmed {
    pub worker: String,
    pub rank: u16,
}

/// Ask for a piece of something large about a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BlobAsk {
    /// 0 a feed's state, 1 an ingester's.
    pub kind: u8,
    pub worker: String,
    pub rank: u16,
    /// The receiver's number for the transfer.
    pub id: u64,
    pub offset: u64,
}

/// A piece of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BlobPiece {
    pub kind: u8,
    pub worker: String,
    pub rank: u16,
    pub id: u64,
    /// Bytes in all; 0: there is nothing to give, or not now.
    pub total: u64,
    pub offset: u64,
    pub bytes: ByteBuf,
}

/// Consecutive ops of one life's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ops {
    pub life: Id,
    pub first: u64,
    /// The running hash before `first`.
    pub before: u64,
    pub chains: ByteBuf,
    pub ops: ByteBuf,
}

/// Ask for ops: rows of life, first and last wanted, 32 bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pull {
    pub wants: ByteBuf,
}

/// The log of `life` is not retained as far back as was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trimmed {
    pub life: Id,
}

/// Ask for chain content: rows of path id and depth, 20 bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Want {
    pub tips: ByteBuf,
}

/// Chain content on its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Content {
    pub chains: ByteBuf,
}

/// The sender's load registers that changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Loads {
    pub version: u64,
    pub since: u64,
    pub entries: Vec<LoadEntry>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadEntry {
    pub worker: String,
    pub rank: u16,
    pub requests: u32,
    pub queued_tokens: u64,
}

/// Ask for the next slice of a repair walk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SliceAsk {
    pub session: u64,
    /// Counts the asks of a session, repeated ones included.
    pub nth: u32,
    /// Where the walk goes on; empty when only holders are asked for.
    pub cursor: ByteBuf,
    /// What the receiver has of the workers after the cursor.
    pub window: ByteBuf,
    /// What it has of holders found to differ.
    pub holders: ByteBuf,
    /// Send all chain content: some of what the donor thinks is known here is not.
    pub whole: bool,
}

/// One slice of a repair walk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SliceReply {
    pub session: u64,
    /// Which ask this answers.
    pub nth: u32,
    /// Which of the donor's answers this is a part of, and which part: an ask that arrives twice is answered twice.
    pub answer: u32,
    pub part: u32,
    /// The donor's vector, at the start of a walk: 32-byte rows.
    pub vector: ByteBuf,
    /// max(vector, the donor's own target), rows of life and sequence number, 24 bytes (P5); retired lives included.
    pub target: ByteBuf,
    /// With the first slice, the retired lives the donor knows, 48-byte rows (P9), and what is forgotten, 24 bytes.
    pub ends: ByteBuf,
    pub forgotten: ByteBuf,
    /// The founder of the donor's mesh.
    pub mesh: Id,
    pub slice: ByteBuf,
    /// How far the questions about holders were answered, and outlines of holders to compare.
    pub outcome: ByteBuf,
    /// Whether the next part of the answer follows unasked.
    pub more: bool,
    /// Whether the donor is dirty itself (P5).
    pub dirty: bool,
}

/// The donor does not serve this session, or not now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SliceRefused {
    pub session: u64,
    pub why: String,
    /// Ask again after this long, in milliseconds; 0: do not.
    pub retry_after_ms: u64,
    /// Whether the receiver holds a permit for the session all the same.
    pub kept: bool,
}

/// The receiver asks no more in this session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SliceEnd {
    pub session: u64,
}

/// The receiver of this is not talked to, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Refused {
    pub why: String,
}

/// A 128-bit id as 16 big-endian bytes of `bin`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Id(#[serde(with = "serde_bytes")] pub [u8; 16]);

impl From<LifeId> for Id {
    fn from(life: LifeId) -> Self {
        Self(life.0.to_be_bytes())
    }
}

impl From<Id> for LifeId {
    fn from(id: Id) -> Self {
        Self(u128::from_be_bytes(id.0))
    }
}

impl Message {
    /// The frame: version (2 bytes little-endian), then the envelope.
    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(192);
        bytes.extend_from_slice(&WIRE_VERSION.to_le_bytes());
        rmp_serde::encode::write(&mut bytes, self).expect("an envelope of plain fields always encodes");
        assert!(bytes.len() <= FRAME_BYTES_MAX, "senders close their frames before the bound");
        Bytes::from(bytes)
    }

    /// The message in a frame.
    pub(crate) fn decode(frame: &[u8]) -> Result<Self, RefuseFrame> {
        if frame.len() > FRAME_BYTES_MAX {
            return Err(RefuseFrame::Malformed { offset: FRAME_BYTES_MAX });
        }
        let (version, body) = frame.split_first_chunk::<2>().ok_or(RefuseFrame::Malformed { offset: 0 })?;
        let version = u16::from_le_bytes(*version);
        if version > WIRE_VERSION {
            return Err(RefuseFrame::NewerVersion { got: version });
        }
        if version != WIRE_VERSION {
            return Err(RefuseFrame::Malformed { offset: 0 });
        }
        envelope(body)
    }
}

/// What kind of message a frame claims to carry, by the name of its variant; for traces, nothing is decided by it.
#[must_use]
pub fn frame_kind(frame: &[u8]) -> Option<&str> {
    // A version, a map of one entry, and its key as a short string.
    let (length, rest) = frame.get(2..)?.strip_prefix(&[0x81])?.split_first()?;
    let name = rest.get(..usize::from(length.checked_sub(0xa0)?))?;
    std::str::from_utf8(name).ok()
}

fn envelope<T: DeserializeOwned>(body: &[u8]) -> Result<T, RefuseFrame> {
    let mut rest = body;
    let mut reader = rmp_serde::Deserializer::new(&mut rest);
    reader.set_max_depth(16);
    let value = T::deserialize(&mut reader).map_err(|_| RefuseFrame::Malformed { offset: 2 });
    drop(reader);
    let offset = 2 + body.len() - rest.len();
    if rest.is_empty() { value } else { value.and(Err(RefuseFrame::Malformed { offset })) }
}

/// Splits packed rows; `None` when the bytes are not whole rows or too many.
pub(crate) fn rows<const N: usize>(bytes: &[u8], rows_max: usize) -> Option<impl Iterator<Item = &[u8; N]>> {
    (bytes.len().is_multiple_of(N) && bytes.len() / N <= rows_max)
        .then(|| bytes.chunks_exact(N).map(|row| row.try_into().expect("chunks have the row's length")))
}

/// Reads little-endian integers off the front of a row whose layout is fixed.
pub(crate) struct Row<'a>(pub(crate) &'a [u8]);

impl Row<'_> {
    pub(crate) fn u32(&mut self) -> u32 {
        let (head, rest) = self.0.split_first_chunk::<4>().expect("rows have a fixed layout");
        self.0 = rest;
        u32::from_le_bytes(*head)
    }

    pub(crate) fn u64(&mut self) -> u64 {
        let (head, rest) = self.0.split_first_chunk::<8>().expect("rows have a fixed layout");
        self.0 = rest;
        u64::from_le_bytes(*head)
    }

    pub(crate) fn u128(&mut self) -> u128 {
        let (head, rest) = self.0.split_first_chunk::<16>().expect("rows have a fixed layout");
        self.0 = rest;
        u128::from_le_bytes(*head)
    }
}

#[cfg(test)]
mod tests;
