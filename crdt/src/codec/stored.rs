//! Ops of feeds, their keys and whole states as bytes. Kind of each: one op or state a blob, so that one op alone gives
//! the canonical bytes by which two publishers' are compared (P3).
//!
//! Not here: which peer is sent what (`covey-mesh`).

use std::sync::Arc;

use super::tables::{TableWriter, Tables, Target};
use super::{DecodeError, Reader, Writer};
use crate::hash::BlockHash;
use crate::id::{Incarnation, WorkerId};
use crate::keyspace::Keyspace;
use crate::lane::LaneId;
use crate::limits::{HASHES_PER_OP_MAX, KEYSPACES_PER_WORKER_MAX, STORED_BLOCKS_MAX};
use crate::stored::{FeedState, Generation, StoredKey, StoredLane, StoredOp};

const BEGINS: u8 = 1;
const IS_LAST: u8 = 2;
const IS_COMPLETE: u8 = 4;

/// Packs one op of a feed.
#[must_use]
pub fn encode_stored(op: &StoredOp) -> Vec<u8> {
    let (mut tables, mut rows) = (TableWriter::default(), Writer::with_capacity(64 + 8 * op.hashes()));
    let flags = u8::from(op.begins) | u8::from(op.is_last) << 1 | u8::from(op.is_complete) << 2;
    write_head(&mut tables, &mut rows, &op.worker, &op.key, flags);
    write_lanes(
        &mut tables,
        &mut rows,
        (&op.worker, &op.key.incarnation),
        op.lanes.len(),
        op.lanes.iter().map(borrowed),
    );
    tables.finish(rows)
}

/// Unpacks one op of a feed.
///
/// # Errors
/// [`DecodeError`] when the bytes do not parse or break a bound.
pub fn decode_stored(bytes: &[u8]) -> Result<StoredOp, DecodeError> {
    let (worker, key, flags, lanes) = read(bytes, HASHES_PER_OP_MAX)?;
    let at = DecodeError { offset: 0 };
    let begins = flags & BEGINS != 0;
    if begins && (key.part != 0 || lanes.iter().any(|lane| !lane.removed.is_empty())) {
        return Err(at);
    }
    let (is_last, is_complete) = (flags & IS_LAST != 0, flags & IS_COMPLETE != 0);
    Ok(StoredOp { worker, key, begins, is_last, is_complete, lanes })
}

/// Packs a feed's whole state.
#[must_use]
pub fn encode_feed(worker: &WorkerId, state: &FeedState) -> Vec<u8> {
    let (mut tables, mut rows) = (TableWriter::default(), Writer::with_capacity(256 + 8 * state.blocks()));
    let flags = u8::from(state.is_last) << 1 | u8::from(state.is_complete) << 2;
    write_head(&mut tables, &mut rows, worker, &state.key, flags);
    let sets = state.lanes().iter().map(|((keyspace, lane), set)| {
        let added: Vec<BlockHash> = set.blocks().iter().copied().collect();
        (keyspace, *lane, std::borrow::Cow::Owned(added), &[][..])
    });
    write_lanes(&mut tables, &mut rows, (worker, &state.key.incarnation), state.lanes().len(), sets);
    tables.finish(rows)
}

/// Unpacks a feed's whole state.
///
/// # Errors
/// [`DecodeError`] when the bytes do not parse or break a bound.
pub fn decode_feed(bytes: &[u8]) -> Result<(WorkerId, FeedState), DecodeError> {
    let (worker, key, flags, lanes) = read(bytes, STORED_BLOCKS_MAX)?;
    let at = DecodeError { offset: 0 };
    if flags & BEGINS != 0 || lanes.iter().any(|lane| !lane.removed.is_empty()) {
        return Err(at);
    }
    let state = FeedState::new(key, flags & IS_LAST != 0, flags & IS_COMPLETE != 0, lanes).ok_or(at)?;
    Ok((worker, state))
}

type LaneRow<'a> = (&'a Arc<Keyspace>, LaneId, std::borrow::Cow<'a, [BlockHash]>, &'a [BlockHash]);

fn borrowed(lane: &StoredLane) -> LaneRow<'_> {
    (&lane.keyspace, lane.lane, std::borrow::Cow::Borrowed(&lane.added[..]), &lane.removed[..])
}

fn write_head(tables: &mut TableWriter, rows: &mut Writer, worker: &WorkerId, key: &StoredKey, flags: u8) {
    let (worker, incarnation) = (worker.clone(), key.incarnation.clone());
    rows.u16(tables.target(Target { worker, incarnation, keyspace: None }));
    rows.u32(key.generation.counter);
    rows.u128(key.generation.life);
    rows.u64(key.position);
    rows.u32(key.part);
    rows.u8(flags);
}

fn write_lanes<'a>(
    tables: &mut TableWriter,
    rows: &mut Writer,
    (worker, incarnation): (&WorkerId, &Incarnation),
    count: usize,
    lanes: impl Iterator<Item = LaneRow<'a>>,
) {
    rows.count(count);
    for (keyspace, lane, added, removed) in lanes {
        let target =
            Target { worker: worker.clone(), incarnation: incarnation.clone(), keyspace: Some(Arc::clone(keyspace)) };
        rows.u16(tables.target(target));
        rows.u8(lane.0);
        for hashes in [&*added, removed] {
            rows.count(hashes.len());
            hashes.iter().for_each(|hash| rows.u64(hash.0));
        }
    }
}

type Parts = (WorkerId, StoredKey, u8, Vec<StoredLane>);

fn read(bytes: &[u8], hashes_max: usize) -> Result<Parts, DecodeError> {
    let mut reader = Reader::new(bytes);
    let tables = Tables::read(&mut reader)?;
    let target = tables.target(&mut reader)?;
    let (worker, incarnation) = (target.worker.clone(), target.incarnation.clone());
    let generation = Generation { counter: reader.u32()?, life: reader.u128()? };
    let key = StoredKey { incarnation, generation, position: reader.u64()?, part: reader.u32()? };
    let flags = reader.u8()?;
    let at = reader.error();
    let count = reader.count(11)?;
    if flags & !(BEGINS | IS_LAST | IS_COMPLETE) != 0 || count > 2 * KEYSPACES_PER_WORKER_MAX {
        return Err(at);
    }
    let (mut lanes, mut left) = (Vec::with_capacity(count), hashes_max);
    for _ in 0..count {
        let target = tables.target(&mut reader)?;
        let keyspace = reader.some(target.keyspace.clone())?;
        let lane = LaneId(reader.u8()?);
        let mut sets = [Vec::new(), Vec::new()];
        for set in &mut sets {
            let at = reader.error();
            let hashes = reader.count(8)?;
            left = left.checked_sub(hashes).ok_or(at)?;
            set.reserve_exact(hashes);
            for _ in 0..hashes {
                set.push(BlockHash(reader.u64()?));
            }
        }
        let [added, removed] = sets;
        lanes.push(StoredLane { keyspace, lane, added, removed });
    }
    reader.end()?;
    Ok((worker, key, flags, lanes))
}
