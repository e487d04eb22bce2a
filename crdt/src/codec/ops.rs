//! Ops as bytes. All ops of a blob are of one life's log, so stamps carry their clock reading only.
//!
//! Not here: sequence numbers and running hashes (`covey-mesh`). Kind bytes are never reused.

use std::sync::Arc;

use super::chains::{read_tip, write_tip};
use super::slice::{decode_slice, encode_slice};
use super::tables::{TableWriter, Tables, Target};
use super::{DecodeError, Reader, Writer};
use crate::id::{GatewayName, LifeId};
use crate::keyspace::Keyspace;
use crate::lane::{LaneId, LaneKind, LaneMeta};
use crate::limits::{LANES_MAX, OP_BYTES_MAX};
use crate::op::{FloorRaise, Forget, LifeEnd, Op, Touch, WorkerUpdate};
use crate::stamp::{Hlc, Rank, Stamp};
use crate::worker::WorkerMeta;

const JOINED: u8 = 1;
const LEFT: u8 = 2;
const TOUCH: u8 = 3;
const FLOOR: u8 = 4;
const WORKER: u8 = 5;
// 6 was an op of an engine's feed in a life's log.
const RESTATED: u8 = 7;
const RETIRED: u8 = 8;
const FORGET: u8 = 9;

/// Labels in one worker's meta.
const LABELS_MAX: usize = 64;

/// Packs ops of one life's log. One op alone gives the canonical bytes that the running log hash is taken over.
#[must_use]
pub fn encode_ops<'a>(ops: impl IntoIterator<Item = &'a Op>) -> Vec<u8> {
    let (mut tables, mut rows) = (TableWriter::default(), Writer::with_capacity(64));
    for op in ops {
        write_op(&mut tables, &mut rows, op);
    }
    tables.finish(rows)
}

fn write_op(tables: &mut TableWriter, rows: &mut Writer, op: &Op) {
    match op {
        Op::Joined { name } => {
            rows.u8(JOINED);
            rows.u16(tables.text(name.as_str()));
        }
        Op::Left => rows.u8(LEFT),
        Op::Touch(touch) => {
            rows.u8(TOUCH);
            rows.u16(tables.target(Target {
                worker: touch.worker.clone(),
                incarnation: touch.incarnation.clone(),
                keyspace: Some(Arc::clone(&touch.keyspace)),
            }));
            rows.u64(touch.stamp.hlc.to_bits());
            write_tip(rows, touch.tip);
        }
        Op::Floor(raise) => {
            rows.u8(FLOOR);
            rows.u16(tables.target(Target {
                worker: raise.worker.clone(),
                incarnation: raise.incarnation.clone(),
                keyspace: Some(Arc::clone(&raise.keyspace)),
            }));
            rows.u64(raise.stamp.hlc.to_bits());
            write_rank(rows, raise.floor);
        }
        Op::Worker(update) => write_update(tables, rows, update),
        Op::Restated(slice) => {
            rows.u8(RESTATED);
            let bytes = encode_slice(slice);
            rows.count(bytes.len());
            rows.bytes.extend_from_slice(&bytes);
        }
        Op::Retired(end) => {
            rows.u8(RETIRED);
            rows.u128(end.life.0);
            rows.u64(end.last);
            rows.u64(end.stamp.hlc.to_bits());
        }
        Op::Forget(forget) => {
            rows.u8(FORGET);
            rows.u64(forget.through.hlc.to_bits());
            rows.u128(forget.through.life.0);
            rows.u64(forget.stamp.hlc.to_bits());
        }
    }
}

fn write_update(tables: &mut TableWriter, rows: &mut Writer, update: &WorkerUpdate) {
    rows.u8(WORKER);
    rows.u16(tables.target(Target {
        worker: update.worker.clone(),
        incarnation: update.incarnation.clone(),
        keyspace: None,
    }));
    rows.u64(update.stamp.hlc.to_bits());
    write_capacity(rows, update.capacity_tokens);
    rows.u8(u8::from(update.meta.is_some()));
    if let Some(meta) = &update.meta {
        write_meta(tables, rows, meta);
    }
}

pub(super) fn write_capacity(rows: &mut Writer, capacity_tokens: Option<u64>) {
    rows.u8(u8::from(capacity_tokens.is_some()));
    rows.u64(capacity_tokens.unwrap_or(0));
}

pub(super) fn write_rank(rows: &mut Writer, rank: Rank) {
    rows.u64(rank.stamp.hlc.to_bits());
    rows.u128(rank.stamp.life.0);
    rows.u32(rank.depth);
}

pub(super) fn write_meta(tables: &mut TableWriter, rows: &mut Writer, meta: &WorkerMeta) {
    rows.u16(meta.rules);
    rows.u8(u8::try_from(meta.lanes.len()).expect("a roster is bounded"));
    for lane in &meta.lanes {
        rows.u8(lane.lane.0);
        rows.u8(lane.kind.to_byte());
        rows.u32(lane.window_tokens);
        rows.u32(lane.block_tokens);
    }
    rows.u8(u8::try_from(meta.labels.len()).expect("labels are bounded"));
    for label in &meta.labels {
        rows.u16(tables.text(label));
    }
}

/// Unpacks ops of the log of `life`.
///
/// # Errors
/// [`DecodeError`] when the bytes do not parse, or an op may not stand in that log at that place: a log begins with
/// `Joined` and ends with `Left`, which also keeps a blob of such short rows from swelling.
pub fn decode_ops(bytes: &[u8], life: LifeId) -> Result<Vec<Op>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let tables = Tables::read(&mut reader)?;
    let mut ops = Vec::new();
    while reader.end().is_err() {
        let at = reader.error();
        let op = read_op(&mut reader, &tables, life)?;
        if reader.error().offset - at.offset > OP_BYTES_MAX {
            return Err(at);
        }
        let begins_late = matches!(op, Op::Joined { .. }) && !ops.is_empty();
        let follows_end = matches!(ops.last(), Some(Op::Left));
        if !op.belongs_to(life) || begins_late || follows_end {
            return Err(at);
        }
        ops.push(op);
    }
    Ok(ops)
}

fn read_op(reader: &mut Reader<'_>, tables: &Tables, life: LifeId) -> Result<Op, DecodeError> {
    Ok(match reader.u8()? {
        JOINED => {
            let name = tables.text(reader)?;
            Op::Joined { name: reader.some(GatewayName::shared(name).ok())? }
        }
        LEFT => Op::Left,
        TOUCH => {
            let (target, keyspace) = placed_target(reader, tables)?;
            let (worker, incarnation) = (target.worker.clone(), target.incarnation.clone());
            let stamp = read_stamp(reader, life)?;
            let tip = read_tip(reader)?;
            if tip.depth == 0 {
                return Err(reader.error());
            }
            Op::Touch(Touch { worker, keyspace, incarnation, tip, stamp })
        }
        FLOOR => {
            let (target, keyspace) = placed_target(reader, tables)?;
            let (worker, incarnation) = (target.worker.clone(), target.incarnation.clone());
            let stamp = read_stamp(reader, life)?;
            Op::Floor(FloorRaise { worker, keyspace, incarnation, floor: read_rank(reader)?, stamp })
        }
        WORKER => {
            let target = tables.target(reader)?;
            let (worker, incarnation) = (target.worker.clone(), target.incarnation.clone());
            let stamp = read_stamp(reader, life)?;
            let capacity_tokens = read_capacity(reader)?;
            let meta = match reader.u8()? {
                0 => None,
                1 => Some(read_meta(reader, tables, stamp)?),
                _ => return Err(reader.error()),
            };
            Op::Worker(WorkerUpdate { worker, incarnation, capacity_tokens, meta, stamp })
        }
        RETIRED => {
            let (ended, last) = (LifeId(reader.u128()?), reader.u64()?);
            Op::Retired(LifeEnd { life: ended, last, stamp: read_stamp(reader, life)? })
        }
        FORGET => {
            let hlc = Hlc::from_bits(reader.u64()?);
            let through = Stamp { hlc, life: LifeId(reader.u128()?) };
            Op::Forget(Forget { through, stamp: read_stamp(reader, life)? })
        }
        RESTATED => {
            let at = reader.error();
            let len = reader.count(1)?;
            Op::Restated(Box::new(decode_slice(reader.take(len)?).map_err(|_| at)?))
        }
        _ => return Err(reader.error()),
    })
}

fn placed_target<'a>(reader: &mut Reader<'_>, tables: &'a Tables) -> Result<(&'a Target, Arc<Keyspace>), DecodeError> {
    let target = tables.target(reader)?;
    let keyspace = reader.some(target.keyspace.clone())?;
    Ok((target, keyspace))
}

fn read_stamp(reader: &mut Reader<'_>, life: LifeId) -> Result<Stamp, DecodeError> {
    Ok(Stamp { hlc: Hlc::from_bits(reader.u64()?), life })
}

pub(super) fn read_rank(reader: &mut Reader<'_>) -> Result<Rank, DecodeError> {
    let hlc = Hlc::from_bits(reader.u64()?);
    let life = LifeId(reader.u128()?);
    Ok(Rank { stamp: Stamp { hlc, life }, depth: reader.u32()? })
}

pub(super) fn read_capacity(reader: &mut Reader<'_>) -> Result<Option<u64>, DecodeError> {
    let known = reader.u8()?;
    let tokens = reader.u64()?;
    match known {
        0 if tokens == 0 => Ok(None),
        1 => Ok(Some(tokens)),
        _ => Err(reader.error()),
    }
}

pub(super) fn read_meta(reader: &mut Reader<'_>, tables: &Tables, stamp: Stamp) -> Result<WorkerMeta, DecodeError> {
    let rules = reader.u16()?;
    let lanes = usize::from(reader.u8()?);
    if lanes > LANES_MAX {
        return Err(reader.error());
    }
    let mut roster = Vec::with_capacity(lanes);
    for _ in 0..lanes {
        roster.push(LaneMeta {
            lane: LaneId(reader.u8()?),
            kind: LaneKind::from_byte(reader.u8()?),
            window_tokens: reader.u32()?,
            block_tokens: reader.u32()?,
        });
    }
    let count = usize::from(reader.u8()?);
    if count > LABELS_MAX {
        return Err(reader.error());
    }
    let mut labels = Vec::with_capacity(count);
    for _ in 0..count {
        labels.push(Arc::clone(tables.text(reader)?));
    }
    Ok(WorkerMeta { stamp, rules, lanes: roster, labels })
}
