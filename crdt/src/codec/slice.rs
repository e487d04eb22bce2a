//! Repair slices and cursors as bytes.
//!
//! Not here: what is in a slice (`crate::slice`). Stamps refer to a table of lives, so a segment is 30 bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::chains::{read_tip, write_tip};
use super::ops::{read_capacity, read_meta, read_rank, write_capacity, write_meta, write_rank};
use super::tables::{TableWriter, Tables, Target};
use super::{DecodeError, Reader, Writer};
use crate::id::{GatewayName, Incarnation, LifeId};
use crate::lane::LaneId;
use crate::lives::LifeRecord;
use crate::slice::{Cursor, HolderSlice, Slice};
use crate::stamp::{Hlc, Stamp};
use crate::worker::WorkerRecord;

/// Packs a slice.
#[must_use]
pub fn encode_slice(slice: &Slice) -> Vec<u8> {
    let (mut tables, mut rows) = (TableWriter::default(), Writer::default());
    let mut lives: BTreeMap<LifeId, u16> = BTreeMap::new();
    for (stamp, _) in slice.holders.iter().flat_map(|holder| &holder.segments) {
        let next = u16::try_from(lives.len()).expect("slices are bounded below 65,536 lives");
        lives.entry(stamp.life).or_insert(next);
    }
    let mut order: Vec<_> = lives.iter().map(|(life, index)| (*index, *life)).collect();
    order.sort_unstable();
    rows.count(order.len());
    for (_, life) in order {
        rows.u128(life.0);
    }
    rows.count(slice.lives.len());
    for (life, record) in &slice.lives {
        rows.u128(life.0);
        rows.u16(tables.text(record.name.as_str()));
        rows.u8(u8::from(record.left));
    }
    rows.count(slice.workers.len());
    for (worker, record) in &slice.workers {
        let incarnation = record.incarnation.clone();
        rows.u16(tables.target(Target { worker: worker.clone(), incarnation, keyspace: None }));
        write_capacity(&mut rows, record.capacity_tokens);
        rows.u8(u8::from(record.meta.is_some()));
        if let Some(meta) = &record.meta {
            rows.u64(meta.stamp.hlc.to_bits());
            rows.u128(meta.stamp.life.0);
            write_meta(&mut tables, &mut rows, meta);
        }
    }
    rows.count(slice.holders.len());
    for holder in &slice.holders {
        rows.u16(tables.target(Target {
            worker: holder.worker.clone(),
            incarnation: holder.incarnation.clone(),
            keyspace: Some(Arc::clone(&holder.keyspace)),
        }));
        write_rank(&mut rows, holder.floor);
        rows.count(holder.segments.len());
        for (stamp, tip) in &holder.segments {
            rows.u64(stamp.hlc.to_bits());
            rows.u16(lives[&stamp.life]);
            write_tip(&mut rows, *tip);
        }
    }
    write_cursor(&mut tables, &mut rows, slice.next.as_ref());
    tables.finish(rows)
}

/// Unpacks a slice.
///
/// # Errors
/// [`DecodeError`] when the bytes do not parse or break a bound.
pub fn decode_slice(bytes: &[u8]) -> Result<Slice, DecodeError> {
    let mut reader = Reader::new(bytes);
    let reader = &mut reader;
    let tables = Tables::read(reader)?;
    let mut stampers = Vec::new();
    for _ in 0..reader.count(16)? {
        stampers.push(LifeId(reader.u128()?));
    }
    let mut slice = Slice::default();
    for _ in 0..reader.count(19)? {
        let life = LifeId(reader.u128()?);
        let name = tables.text(reader)?;
        let name = reader.some(GatewayName::shared(name).ok())?;
        slice.lives.push((life, LifeRecord { name, left: read_flag(reader)? }));
    }
    for _ in 0..reader.count(12)? {
        slice.workers.push(read_worker(reader, &tables)?);
    }
    for _ in 0..reader.count(34)? {
        slice.holders.push(read_holder(reader, &tables, &stampers)?);
    }
    slice.next = read_cursor(reader, &tables)?;
    reader.end()?;
    Ok(slice)
}

fn read_worker(reader: &mut Reader<'_>, tables: &Tables) -> Result<(crate::id::WorkerId, WorkerRecord), DecodeError> {
    let target = tables.target(reader)?;
    let capacity_tokens = read_capacity(reader)?;
    let meta = if read_flag(reader)? {
        let hlc = Hlc::from_bits(reader.u64()?);
        let stamp = Stamp { hlc, life: LifeId(reader.u128()?) };
        Some(read_meta(reader, tables, stamp)?)
    } else {
        None
    };
    let incarnation = target.incarnation.clone();
    Ok((target.worker.clone(), WorkerRecord { incarnation, capacity_tokens, meta }))
}

fn read_holder(reader: &mut Reader<'_>, tables: &Tables, stampers: &[LifeId]) -> Result<HolderSlice, DecodeError> {
    let target = tables.target(reader)?;
    let keyspace = reader.some(target.keyspace.clone())?;
    let floor = read_rank(reader)?;
    let count = reader.count(30)?;
    let mut segments = Vec::with_capacity(count);
    for _ in 0..count {
        let hlc = Hlc::from_bits(reader.u64()?);
        let index = usize::from(reader.u16()?);
        let life = *reader.some(stampers.get(index))?;
        let tip = read_tip(reader)?;
        if tip.depth == 0 {
            return Err(reader.error());
        }
        segments.push((Stamp { hlc, life }, tip));
    }
    let (worker, incarnation): (_, Incarnation) = (target.worker.clone(), target.incarnation.clone());
    Ok(HolderSlice { worker, keyspace, incarnation, floor, segments })
}

fn read_flag(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(reader.error()),
    }
}

/// Packs a cursor, as a receiver hands it back.
#[must_use]
pub fn encode_cursor(cursor: &Cursor) -> Vec<u8> {
    let (mut tables, mut rows) = (TableWriter::default(), Writer::default());
    write_cursor(&mut tables, &mut rows, Some(cursor));
    tables.finish(rows)
}

/// Unpacks a cursor.
///
/// # Errors
/// [`DecodeError`] when the bytes are not one cursor.
pub fn decode_cursor(bytes: &[u8]) -> Result<Cursor, DecodeError> {
    let mut reader = Reader::new(bytes);
    let tables = Tables::read(&mut reader)?;
    let cursor = read_cursor(&mut reader, &tables)?;
    reader.end()?;
    reader.some(cursor)
}

fn write_cursor(tables: &mut TableWriter, rows: &mut Writer, cursor: Option<&Cursor>) {
    let bare = |worker: &crate::id::WorkerId| Target {
        worker: worker.clone(),
        incarnation: Incarnation::unknown(),
        keyspace: None,
    };
    match cursor {
        None => rows.u8(0),
        Some(Cursor::Start) => rows.u8(1),
        Some(Cursor::Life(life)) => {
            rows.u8(2);
            rows.u128(life.0);
        }
        Some(Cursor::Worker(None)) => rows.u8(3),
        Some(Cursor::Worker(Some(worker))) => {
            rows.u8(4);
            rows.u16(tables.target(bare(worker)));
        }
        Some(Cursor::Holder { worker, keyspace, lane, after }) => {
            rows.u8(5);
            rows.u16(tables.target(Target { keyspace: Some(Arc::clone(keyspace)), ..bare(worker) }));
            rows.u8(lane.0);
            rows.u64(after.hlc.to_bits());
            rows.u128(after.life.0);
        }
    }
}

fn read_cursor(reader: &mut Reader<'_>, tables: &Tables) -> Result<Option<Cursor>, DecodeError> {
    Ok(Some(match reader.u8()? {
        0 => return Ok(None),
        1 => Cursor::Start,
        2 => Cursor::Life(LifeId(reader.u128()?)),
        3 => Cursor::Worker(None),
        4 => Cursor::Worker(Some(tables.target(reader)?.worker.clone())),
        5 => {
            let target = tables.target(reader)?;
            let keyspace = reader.some(target.keyspace.clone())?;
            let lane = LaneId(reader.u8()?);
            let hlc = Hlc::from_bits(reader.u64()?);
            let after = Stamp { hlc, life: LifeId(reader.u128()?) };
            Cursor::Holder { worker: target.worker.clone(), keyspace, lane, after }
        }
        _ => return Err(reader.error()),
    }))
}
