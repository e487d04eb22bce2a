//! Chain pieces as bytes: base path and depth, then the hashes after it.
//!
//! Not here: which pieces a peer needs (`chain`).

use super::{DecodeError, Reader, Writer};
use crate::chain::{ChainPiece, Tip};
use crate::hash::{BlockHash, PathId};
use crate::limits::CHAIN_BLOCKS_MAX;

/// Packs pieces: 24 bytes and 8 a hash each.
#[must_use]
pub fn encode_chains<'a>(pieces: impl IntoIterator<Item = &'a ChainPiece>) -> Vec<u8> {
    let mut rows = Writer::default();
    for piece in pieces {
        rows.u128(piece.base.path.0);
        rows.u32(piece.base.depth);
        rows.count(piece.hashes.len());
        for hash in &piece.hashes {
            rows.u64(hash.0);
        }
    }
    rows.bytes
}

/// Unpacks pieces.
///
/// # Errors
/// [`DecodeError`] when the bytes are not whole pieces or a chain would exceed its bound.
pub fn decode_chains(bytes: &[u8]) -> Result<Vec<ChainPiece>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut pieces = Vec::new();
    while reader.end().is_err() {
        let at = reader.error();
        let base = read_tip(&mut reader)?;
        let count = reader.count(8)?;
        if count > (CHAIN_BLOCKS_MAX - base.depth) as usize {
            return Err(at);
        }
        let mut hashes = Vec::with_capacity(count);
        for _ in 0..count {
            hashes.push(BlockHash(reader.u64()?));
        }
        pieces.push(ChainPiece { base, hashes });
    }
    Ok(pieces)
}

pub(super) fn write_tip(rows: &mut Writer, tip: Tip) {
    rows.u128(tip.path.0);
    rows.u32(tip.depth);
}

pub(super) fn read_tip(reader: &mut Reader<'_>) -> Result<Tip, DecodeError> {
    let at = reader.error();
    let tip = Tip { path: PathId(reader.u128()?), depth: reader.u32()? };
    if tip.depth > CHAIN_BLOCKS_MAX { Err(at) } else { Ok(tip) }
}
