//! What a receiver has and what a donor outlines, as bytes.
//!
//! Not here: what they mean (`crate::outline`). Stamps refer to a table of lives, so a bucket is 18 or 19 bytes and a
//! member 5.

use std::collections::BTreeMap;

use super::tables::{TableWriter, Tables, Target};
use super::{DecodeError, Reader, Writer};
use crate::id::{Incarnation, LifeId};
use crate::outline::{Has, HolderAsk, Outcome, Outline, Window};
use crate::stamp::{Hlc, Stamp};

const HAS_MEMBERS: u8 = 1;
const IS_OPEN: u8 = 2;

/// Packs a window.
#[must_use]
pub fn encode_window(window: &Window) -> Vec<u8> {
    let (mut tables, mut rows) = (TableWriter::default(), Writer::default());
    rows.u8(u8::from(window.until.is_some()));
    if let Some(worker) = &window.until {
        let (worker, incarnation) = (worker.clone(), Incarnation::unknown());
        rows.u16(tables.target(Target { worker, incarnation, keyspace: None }));
    }
    rows.count(window.workers.len());
    for (name, fingerprint) in &window.workers {
        rows.u32(*name);
        rows.u64(*fingerprint);
    }
    tables.finish(rows)
}

/// Unpacks a window.
///
/// # Errors
/// [`DecodeError`] when the bytes are not one window.
pub fn decode_window(bytes: &[u8]) -> Result<Window, DecodeError> {
    let mut reader = Reader::new(bytes);
    let tables = Tables::read(&mut reader)?;
    let until = match reader.u8()? {
        0 => None,
        1 => Some(tables.target(&mut reader)?.worker.clone()),
        _ => return Err(reader.error()),
    };
    let count = reader.count(12)?;
    let mut workers = Vec::with_capacity(count);
    for _ in 0..count {
        workers.push((reader.u32()?, reader.u64()?));
    }
    reader.end()?;
    Ok(Window { workers, until })
}

/// The lives that stamps refer to, while rows are written.
#[derive(Default)]
struct LifeWriter {
    lives: BTreeMap<LifeId, u16>,
    bytes: Writer,
}

impl LifeWriter {
    fn stamp(&mut self, rows: &mut Writer, stamp: Stamp) {
        let next = u16::try_from(self.lives.len()).expect("questions and answers are bounded below 65,536 stamps");
        let bytes = &mut self.bytes;
        let index = *self.lives.entry(stamp.life).or_insert_with(|| {
            bytes.u128(stamp.life.0);
            next
        });
        rows.u64(stamp.hlc.to_bits());
        rows.u16(index);
    }

    /// The lives, followed by `rows`.
    fn finish(self, rows: &Writer) -> Vec<u8> {
        let mut blob = Writer::default();
        blob.count(self.lives.len());
        blob.bytes.extend_from_slice(&self.bytes.bytes);
        blob.bytes.extend_from_slice(&rows.bytes);
        blob.bytes
    }
}

fn read_lives(reader: &mut Reader<'_>) -> Result<Vec<LifeId>, DecodeError> {
    let count = reader.count(16)?;
    let mut lives = Vec::with_capacity(count);
    for _ in 0..count {
        lives.push(LifeId(reader.u128()?));
    }
    Ok(lives)
}

fn read_stamp(reader: &mut Reader<'_>, lives: &[LifeId]) -> Result<Stamp, DecodeError> {
    let hlc = Hlc::from_bits(reader.u64()?);
    let index = usize::from(reader.u16()?);
    Ok(Stamp { hlc, life: *reader.some(lives.get(index))? })
}

fn write_after(lives: &mut LifeWriter, rows: &mut Writer, after: Option<Stamp>) {
    rows.u8(u8::from(after.is_some()));
    if let Some(after) = after {
        lives.stamp(rows, after);
    }
}

fn read_after(reader: &mut Reader<'_>, lives: &[LifeId]) -> Result<Option<Stamp>, DecodeError> {
    match reader.u8()? {
        0 => Ok(None),
        1 => read_stamp(reader, lives).map(Some),
        _ => Err(reader.error()),
    }
}

/// Packs questions about holders.
#[must_use]
pub fn encode_holder_asks(asks: &[HolderAsk]) -> Vec<u8> {
    let (mut lives, mut rows) = (LifeWriter::default(), Writer::default());
    rows.count(asks.len());
    for ask in asks {
        rows.u32(ask.worker);
        rows.u64(ask.holder);
        rows.u32(ask.incarnation);
        rows.u64(ask.floor);
        write_after(&mut lives, &mut rows, ask.after);
        rows.count(ask.buckets.len());
        for (end, has) in &ask.buckets {
            let members = if matches!(has, Has::Members(_)) { HAS_MEMBERS } else { 0 };
            rows.u8(members | if end.is_none() { IS_OPEN } else { 0 });
            if let Some(end) = end {
                lives.stamp(&mut rows, *end);
            }
            match has {
                Has::Same(fingerprint) => rows.u64(*fingerprint),
                Has::Members(members) => write_members(&mut rows, members),
            }
        }
    }
    lives.finish(&rows)
}

fn write_members(rows: &mut Writer, members: &[u64]) {
    rows.count(members.len());
    for member in members {
        rows.bytes.extend_from_slice(&member.to_le_bytes()[..5]);
    }
}

/// Unpacks questions about holders.
///
/// # Errors
/// [`DecodeError`] when the bytes are not whole questions, or one's buckets are not in order.
pub fn decode_holder_asks(bytes: &[u8]) -> Result<Vec<HolderAsk>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let reader = &mut reader;
    let lives = read_lives(reader)?;
    let mut asks = Vec::new();
    for _ in 0..reader.count(29)? {
        let (worker, holder, incarnation, floor) = (reader.u32()?, reader.u64()?, reader.u32()?, reader.u64()?);
        let after = read_after(reader, &lives)?;
        let mut ask = HolderAsk { worker, holder, incarnation, floor, after, buckets: Vec::new() };
        let mut before = after;
        for nth in (0..reader.count(5)?).rev() {
            let at = reader.error();
            let (end, has) = read_bucket(reader, &lives)?;
            // An open bucket is the last; bounds rise.
            let rises = if end.is_none() { nth == 0 } else { before.is_none_or(|before| end > Some(before)) };
            if !rises {
                return Err(at);
            }
            before = end;
            ask.buckets.push((end, has));
        }
        asks.push(ask);
    }
    reader.end()?;
    Ok(asks)
}

fn read_bucket(reader: &mut Reader<'_>, lives: &[LifeId]) -> Result<(Option<Stamp>, Has), DecodeError> {
    let at = reader.error();
    let flags = reader.u8()?;
    if flags > HAS_MEMBERS | IS_OPEN {
        return Err(at);
    }
    let end = if flags & IS_OPEN == 0 { Some(read_stamp(reader, lives)?) } else { None };
    if flags & HAS_MEMBERS == 0 {
        return Ok((end, Has::Same(reader.u64()?)));
    }
    let count = reader.count(5)?;
    let mut members = Vec::with_capacity(count);
    for _ in 0..count {
        let mut bytes = [0; 8];
        bytes[..5].copy_from_slice(reader.take(5)?);
        members.push(u64::from_le_bytes(bytes));
    }
    Ok((end, Has::Members(members)))
}

/// Packs how far questions were answered, and outlines.
#[must_use]
pub fn encode_outcome(outcome: &Outcome) -> Vec<u8> {
    let (mut lives, mut rows) = (LifeWriter::default(), Writer::default());
    rows.u32(outcome.done);
    write_after(&mut lives, &mut rows, outcome.after);
    rows.count(outcome.outlines.len());
    for outline in &outcome.outlines {
        rows.u32(outline.worker);
        rows.u64(outline.holder);
        rows.u64(outline.whole);
        rows.u32(outline.segments);
        rows.count(outline.buckets.len());
        for (end, fingerprint) in &outline.buckets {
            lives.stamp(&mut rows, *end);
            rows.u64(*fingerprint);
        }
    }
    lives.finish(&rows)
}

/// Unpacks how far questions were answered, and outlines.
///
/// # Errors
/// [`DecodeError`] when the bytes are not one outcome, or an outline's buckets are not in order.
pub fn decode_outcome(bytes: &[u8]) -> Result<Outcome, DecodeError> {
    let mut reader = Reader::new(bytes);
    let reader = &mut reader;
    let lives = read_lives(reader)?;
    let (done, after) = (reader.u32()?, read_after(reader, &lives)?);
    let mut outlines = Vec::new();
    for _ in 0..reader.count(28)? {
        let (worker, holder, whole, segments) = (reader.u32()?, reader.u64()?, reader.u64()?, reader.u32()?);
        let count = reader.count(18)?;
        let mut buckets: Vec<(Stamp, u64)> = Vec::with_capacity(count);
        for _ in 0..count {
            let at = reader.error();
            let end = read_stamp(reader, &lives)?;
            if buckets.last().is_some_and(|(before, _)| *before >= end) {
                return Err(at);
            }
            buckets.push((end, reader.u64()?));
        }
        outlines.push(Outline { worker, holder, whole, segments, buckets });
    }
    reader.end()?;
    Ok(Outcome { done, after, outlines })
}
