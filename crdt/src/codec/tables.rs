//! The tables at the head of a blob: texts, and the (worker, keyspace, incarnation) triples rows are about.
//!
//! Not here: rows. A table has at most 65,536 entries; senders stay far below by bounding their batches.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{DecodeError, Reader, Writer};
use crate::id::{Incarnation, ModelName, Token, WorkerId};
use crate::keyspace::{HashKeyId, HashScheme, Keyspace, Unit};
use crate::limits::{BLOCK_UNITS_MAX, NAME_BYTES_MAX};

/// Texts in one blob: far above what a batch names, and few enough that empty ones cannot swell.
const TEXTS_MAX: usize = 8_192;

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) worker: WorkerId,
    pub(super) incarnation: Incarnation,
    pub(super) keyspace: Option<Arc<Keyspace>>,
}

/// Collects the tables while rows are written.
pub(super) struct TableWriter {
    texts: BTreeMap<Arc<str>, u16>,
    text_bytes: Writer,
    targets: BTreeMap<Target, u16>,
    target_bytes: Writer,
}

impl Default for TableWriter {
    fn default() -> Self {
        let (text_bytes, target_bytes) = (Writer::with_capacity(64), Writer::with_capacity(64));
        Self { texts: BTreeMap::new(), text_bytes, targets: BTreeMap::new(), target_bytes }
    }
}

impl TableWriter {
    pub(super) fn text(&mut self, text: &str) -> u16 {
        if let Some(&known) = self.texts.get(text) {
            return known;
        }
        let index = u16::try_from(self.texts.len()).expect("batches are bounded below 65,536 texts");
        self.texts.insert(Arc::from(text), index);
        self.text_bytes.u16(u16::try_from(text.len()).expect("names are bounded"));
        self.text_bytes.bytes.extend_from_slice(text.as_bytes());
        index
    }

    pub(super) fn target(&mut self, target: Target) -> u16 {
        if let Some(&known) = self.targets.get(&target) {
            return known;
        }
        let index = u16::try_from(self.targets.len()).expect("batches are bounded below 65,536 targets");
        let worker = self.text(target.worker.name());
        let token = self.text(target.incarnation.token.as_str());
        let model = target.keyspace.as_ref().map(|keyspace| self.text(keyspace.model.as_str()));
        let row = &mut self.target_bytes;
        row.u16(worker);
        row.u16(target.worker.rank());
        row.u64(target.incarnation.counter);
        row.u16(token);
        row.u8(u8::from(model.is_some()));
        if let (Some(keyspace), Some(model)) = (&target.keyspace, model) {
            row.u16(model);
            row.u8(keyspace.unit.to_byte());
            row.u32(keyspace.block_units);
            row.u8(keyspace.scheme.0);
            row.u64(keyspace.key_id.0);
        }
        self.targets.insert(target, index);
        index
    }

    /// The tables, followed by `rows`.
    pub(super) fn finish(self, rows: Writer) -> Vec<u8> {
        let bytes = self.text_bytes.bytes.len() + self.target_bytes.bytes.len() + rows.bytes.len();
        let mut blob = Writer::with_capacity(8 + bytes);
        blob.count(self.texts.len());
        blob.bytes.extend_from_slice(&self.text_bytes.bytes);
        blob.count(self.targets.len());
        blob.bytes.extend_from_slice(&self.target_bytes.bytes);
        blob.bytes.extend_from_slice(&rows.bytes);
        blob.bytes
    }
}

/// The tables of a blob being read.
pub(super) struct Tables {
    texts: Vec<Arc<str>>,
    targets: Vec<Target>,
}

impl Tables {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut tables = Self { texts: Vec::new(), targets: Vec::new() };
        let (at, texts) = (reader.error(), reader.count(2)?);
        if texts > TEXTS_MAX {
            return Err(at);
        }
        for _ in 0..texts {
            let at = reader.error();
            let len = usize::from(reader.u16()?);
            if len > NAME_BYTES_MAX {
                return Err(at);
            }
            let text = std::str::from_utf8(reader.take(len)?).map_err(|_| at)?;
            tables.texts.push(Arc::from(text));
        }
        for _ in 0..reader.count(15)? {
            let target = tables.read_target(reader)?;
            tables.targets.push(target);
        }
        Ok(tables)
    }

    fn read_target(&self, reader: &mut Reader<'_>) -> Result<Target, DecodeError> {
        let name = self.text(reader)?;
        let rank = reader.u16()?;
        let worker = reader.some(WorkerId::shared(name, rank).ok())?;
        let counter = reader.u64()?;
        let token = self.text(reader)?;
        let token = if token.is_empty() { Token::removed() } else { reader.some(Token::shared(token).ok())? };
        let keyspace = match reader.u8()? {
            0 => None,
            1 => Some(Arc::new(self.read_keyspace(reader)?)),
            _ => return Err(reader.error()),
        };
        Ok(Target { worker, incarnation: Incarnation { counter, token }, keyspace })
    }

    fn read_keyspace(&self, reader: &mut Reader<'_>) -> Result<Keyspace, DecodeError> {
        let model = self.text(reader)?;
        let model = reader.some(ModelName::shared(model).ok())?;
        let unit = reader.u8()?;
        let unit = reader.some(Unit::from_byte(unit))?;
        let block_units = reader.u32()?;
        if !(1..=BLOCK_UNITS_MAX).contains(&block_units) {
            return Err(reader.error());
        }
        let scheme = HashScheme(reader.u8()?);
        Ok(Keyspace { model, unit, block_units, scheme, key_id: HashKeyId(reader.u64()?) })
    }

    pub(super) fn text(&self, reader: &mut Reader<'_>) -> Result<&Arc<str>, DecodeError> {
        let index = usize::from(reader.u16()?);
        reader.some(self.texts.get(index))
    }

    pub(super) fn target(&self, reader: &mut Reader<'_>) -> Result<&Target, DecodeError> {
        let index = usize::from(reader.u16()?);
        reader.some(self.targets.get(index))
    }
}
