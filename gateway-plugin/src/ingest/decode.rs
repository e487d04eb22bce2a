//! One message of an engine: a batch of events, in any form that vLLM (array to 0.23, map from 0.24), SGLang or
//! TensorRT-LLM writes. Fields are taken by what they are, unknown ones are ignored, and an event that cannot be read is
//! counted and costs its batch-mates nothing.
//!
//! Not here: framing and sequence numbers. Nothing allocated here is larger than eight times the message.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use xxhash_rust::xxh3::Xxh3;

use super::event::{Event, ExtraKey, Medium, RefuseEvent, Removed, Stored};
use super::msgpack::{Broken, Cursor, Value};

/// Events in one batch at most; more are refused as broken.
pub const EVENTS_MAX: usize = 1 << 20;
/// Bytes of the smallest event that is kept: a removal of nothing.
const EVENT_BYTES_MIN: usize = 15;
/// Bytes of memory that a byte of a message may become, and what a small message may take beyond. Engines' messages stay far
/// below; events that say nearly nothing, by the thousand, would not.
const MEMORY_PER_BYTE: usize = 7;
const MEMORY_SPARE: usize = 2_048;
/// Tokens in a block at most: hybrid models have blocks of some thousands.
const BLOCK_TOKENS_MAX: u32 = 1 << 16;

/// A message, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// When the engine made it, seconds since 1970 by its clock.
    pub ts: f64,
    /// The data-parallel rank, where the engine says.
    pub rank: Option<u32>,
    /// The events that could be read, in order. Those of unknown types are left out.
    pub events: Vec<Event>,
    /// Events of types this version does not know.
    pub unknown: u64,
    /// Events that could not be read, by reason.
    pub refused: BTreeMap<RefuseEvent, u64>,
    /// Whether the message ended, or stopped making sense, before its last event: what came before counts.
    pub is_broken: bool,
}

/// Reads a payload.
#[must_use]
pub fn decode(payload: &[u8]) -> Decoded {
    let mut decoded = Decoded::default();
    if read(payload, &mut decoded).is_err() {
        decoded.is_broken = true;
    }
    decoded
}

fn read(payload: &[u8], decoded: &mut Decoded) -> Result<(), Broken> {
    let mut cursor = Cursor::new(payload);
    let outer = cursor.next()?;
    if let Value::Array(items @ 2..) = outer {
        decoded.ts = number(cursor.extent()?.next()?);
        events(&mut cursor, decoded)?;
        if items > 2 {
            decoded.rank = small(cursor.extent()?.next()?);
        }
        return Ok(());
    }
    // No release writes the batch as a map; one commit did.
    let Value::Map(items) = outer else { return Err(Broken) };
    for _ in 0..items {
        let Value::Text(name) = cursor.next()? else { return Err(Broken) };
        match name {
            "ts" => decoded.ts = number(cursor.extent()?.next()?),
            "events" => events(&mut cursor, decoded)?,
            "data_parallel_rank" => decoded.rank = small(cursor.extent()?.next()?),
            _ => {
                cursor.extent()?;
            }
        }
    }
    Ok(())
}

fn events(cursor: &mut Cursor<'_>, decoded: &mut Decoded) -> Result<(), Broken> {
    let Value::Array(count @ 0..=EVENTS_MAX) = cursor.next()? else { return Err(Broken) };
    let most = MEMORY_PER_BYTE * cursor.left() + MEMORY_SPARE;
    decoded.events.reserve_exact(count.min(cursor.left() / EVENT_BYTES_MIN));
    let mut taken = decoded.events.capacity() * size_of::<Event>();
    for _ in 0..count {
        match event(cursor.extent()?) {
            Ok(Event::Unknown) => decoded.unknown += 1,
            Ok(event) => {
                taken += event.heap_bytes();
                if taken > most {
                    *decoded.refused.entry(RefuseEvent::Dense).or_default() += 1;
                } else {
                    decoded.events.push(event);
                }
            }
            Err(why) => *decoded.refused.entry(why).or_default() += 1,
        }
    }
    Ok(())
}

fn number(value: Value<'_>) -> f64 {
    if let Value::Float(number) = value {
        return number;
    }
    if let Value::Int(number) = value { number as f64 } else { 0.0 }
}

fn small(value: Value<'_>) -> Option<u32> {
    if let Value::Int(number) = value { u32::try_from(number).ok() } else { None }
}

impl From<Broken> for RefuseEvent {
    fn from(_: Broken) -> Self {
        Self::Shape
    }
}

/// The fields of events, in the order in which the array form has them.
const STORED: [&str; 11] = [
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
    "kv_cache_spec_sliding_window",
];
const REMOVED: [&str; 3] = ["block_hashes", "medium", "group_idx"];

fn event(whole: Cursor<'_>) -> Result<Event, RefuseEvent> {
    let mut cursor = whole;
    let outer = cursor.next()?;
    if let Value::Array(items @ 1..) = outer {
        return positional(cursor, items);
    }
    if let Value::Map(items) = outer { named(cursor, items) } else { Err(RefuseEvent::Shape) }
}

fn positional(mut cursor: Cursor<'_>, items: usize) -> Result<Event, RefuseEvent> {
    let Value::Text(tag) = cursor.next()? else { return Err(RefuseEvent::Shape) };
    let names: &[&str] = match tag {
        "BlockStored" => &STORED,
        "BlockRemoved" => &REMOVED,
        "AllBlocksCleared" => return Ok(Event::Cleared),
        _ => return Ok(Event::Unknown),
    };
    let mut fields = Fields::default();
    for nth in 0..items - 1 {
        let value = cursor.extent()?;
        if let Some(name) = names.get(nth) {
            fields.set(name, value);
        }
    }
    fields.event(tag)
}

fn named(mut cursor: Cursor<'_>, items: usize) -> Result<Event, RefuseEvent> {
    let (mut fields, mut tag) = (Fields::default(), None);
    for _ in 0..items {
        let Value::Text(name) = cursor.next()? else { return Err(RefuseEvent::Shape) };
        let mut value = cursor.extent()?;
        if name == "type" {
            tag = if let Value::Text(tag) = value.next()? { Some(tag) } else { None };
        } else {
            fields.set(name, value);
        }
    }
    fields.event(tag.ok_or(RefuseEvent::Shape)?)
}

/// The fields of an event that matter, wherever they were written.
#[derive(Clone, Copy, Default)]
struct Fields<'a> {
    hashes: Option<Cursor<'a>>,
    parent: Option<Cursor<'a>>,
    tokens: Option<Cursor<'a>>,
    block_size: Option<Cursor<'a>>,
    medium: Option<Cursor<'a>>,
    lora: Option<Cursor<'a>>,
    extra: Option<Cursor<'a>>,
    group: Option<Cursor<'a>>,
    kind: Option<Cursor<'a>>,
}

impl<'a> Fields<'a> {
    fn set(&mut self, name: &str, value: Cursor<'a>) {
        let field = match name {
            "block_hashes" => &mut self.hashes,
            "parent_block_hash" => &mut self.parent,
            "token_ids" => &mut self.tokens,
            "block_size" => &mut self.block_size,
            "medium" => &mut self.medium,
            "lora_name" => &mut self.lora,
            "extra_keys" => &mut self.extra,
            "group_idx" => &mut self.group,
            "kv_cache_spec_kind" => &mut self.kind,
            _ => return,
        };
        *field = Some(value);
    }

    fn event(self, tag: &str) -> Result<Event, RefuseEvent> {
        match tag {
            "BlockStored" => self.stored().map(Box::new).map(Event::Stored),
            "BlockRemoved" => {
                let hashes = hashes(self.hashes.ok_or(RefuseEvent::Field)?)?;
                Ok(Event::Removed(Removed { hashes, medium: medium(self.medium)?, group: group(self.group)? }))
            }
            "AllBlocksCleared" => Ok(Event::Cleared),
            _ => Ok(Event::Unknown),
        }
    }

    fn stored(self) -> Result<Stored, RefuseEvent> {
        let parent = match self.parent.map(|mut value| value.next()).transpose()? {
            None | Some(Value::Nil) => None,
            Some(value) => Some(hash(value).ok_or(RefuseEvent::Field)?),
        };
        let size = self.block_size.ok_or(RefuseEvent::Field)?.next()?;
        let size = small(size).filter(|tokens| (1..=BLOCK_TOKENS_MAX).contains(tokens));
        let block_tokens = size.ok_or(RefuseEvent::BlockSize)?;
        let (lora, salt) = lora(self.lora)?;
        let mut extra = extra(self.extra)?;
        if let Some(salt) = salt.filter(|_| parent.is_none()) {
            // SGLang says the salt with every block of a prompt; the first one's place tells those behind it apart.
            match extra.first_mut() {
                Some(first) => *first = Some(salt),
                None => extra.push(Some(salt)),
            }
        }
        Ok(Stored {
            hashes: hashes(self.hashes.ok_or(RefuseEvent::Field)?)?,
            parent,
            tokens: tokens(self.tokens.ok_or(RefuseEvent::Field)?)?,
            block_tokens,
            lora,
            medium: medium(self.medium)?,
            extra,
            group: group(self.group)?,
            is_full: matches!(text(self.kind)?, None | Some("full_attention" | "mla_attention" | "unknown")),
        })
    }
}

/// An engine's name of a block as 64 bits: integers as they are, bytes by their last eight, as engines shorten them.
fn hash(value: Value<'_>) -> Option<u64> {
    if let Value::Int(hash) = value {
        return Some(hash);
    }
    let Value::Bin(bytes) = value else { return None };
    bytes.last_chunk::<8>().map(|last| u64::from_be_bytes(*last))
}

fn hashes(mut cursor: Cursor<'_>) -> Result<Vec<u64>, RefuseEvent> {
    let Value::Array(count) = cursor.next()? else { return Err(RefuseEvent::Field) };
    let mut hashes = Vec::with_capacity(count);
    for _ in 0..count {
        hashes.push(hash(cursor.next()?).ok_or(RefuseEvent::Field)?);
    }
    Ok(hashes)
}

fn tokens(mut cursor: Cursor<'_>) -> Result<Vec<u32>, RefuseEvent> {
    let Value::Array(count) = cursor.next()? else { return Err(RefuseEvent::Field) };
    let mut tokens = Vec::with_capacity(count);
    for _ in 0..count {
        tokens.push(small(cursor.next()?).ok_or(RefuseEvent::Tokens)?);
    }
    Ok(tokens)
}

fn text<'a>(field: Option<Cursor<'a>>) -> Result<Option<&'a str>, RefuseEvent> {
    text_or_nil(field.map_or(Ok(Value::Nil), |mut value| value.next())?)
}

fn text_or_nil(value: Value<'_>) -> Result<Option<&str>, RefuseEvent> {
    if let Value::Text(text) = value {
        return Ok(Some(text));
    }
    if value == Value::Nil { Ok(None) } else { Err(RefuseEvent::Field) }
}

fn medium(field: Option<Cursor<'_>>) -> Result<Medium, RefuseEvent> {
    Ok(Medium::named(text(field)?))
}

fn group(field: Option<Cursor<'_>>) -> Result<u32, RefuseEvent> {
    match field.map(|mut value| value.next()).transpose()? {
        None | Some(Value::Nil) => Ok(0),
        Some(value) => small(value).ok_or(RefuseEvent::Field),
    }
}

/// vLLM has the adapter's name there; SGLang a map with the salt of the prompt.
fn lora(field: Option<Cursor<'_>>) -> Result<(Option<String>, Option<ExtraKey>), RefuseEvent> {
    let Some(mut cursor) = field else { return Ok((None, None)) };
    let value = cursor.next()?;
    let Value::Map(items) = value else {
        let name = text_or_nil(value)?;
        return Ok((name.map(str::to_owned), None));
    };
    let mut salt = None;
    for _ in 0..items {
        let Value::Text(name) = cursor.next()? else { return Err(RefuseEvent::Field) };
        let mut value = cursor.extent()?;
        if name == "cache_salt"
            && let Value::Text(text) = value.next()?
        {
            salt = Some(ExtraKey::salt(text));
        }
    }
    Ok((None, salt))
}

fn extra(field: Option<Cursor<'_>>) -> Result<Vec<Option<ExtraKey>>, RefuseEvent> {
    let Some(mut cursor) = field else { return Ok(Vec::new()) };
    let value = cursor.next()?;
    if value == Value::Nil {
        return Ok(Vec::new());
    }
    let Value::Array(count) = value else { return Err(RefuseEvent::Field) };
    let mut keys = Vec::with_capacity(count);
    for _ in 0..count {
        let mut item = cursor.extent()?;
        let value = item.next()?;
        keys.push(if let Value::Array(parts) = value {
            ExtraKey::of(item, parts)?
        } else if value == Value::Nil {
            None
        } else {
            return Err(RefuseEvent::Field);
        });
    }
    if keys.iter().all(Option::is_none) {
        keys = Vec::new();
    }
    Ok(keys)
}

impl ExtraKey {
    /// The key of a block that depends on a salt alone.
    #[must_use]
    pub fn salt(salt: &str) -> Self {
        let mut state = Xxh3::new();
        part(&mut state, b't', salt.as_bytes());
        Self::digest(&state)
    }

    /// The key of a block's parts; `None` when there are none. The same values make the same key however they were packed.
    fn of(mut cursor: Cursor<'_>, parts: usize) -> Result<Option<Self>, RefuseEvent> {
        if parts == 0 {
            return Ok(None);
        }
        let mut state = Xxh3::new();
        while cursor.left() > 0 {
            match cursor.next()? {
                Value::Nil => part(&mut state, b'n', &[]),
                Value::Bool(is) => part(&mut state, b'b', &[u8::from(is)]),
                Value::Int(number) => part(&mut state, b'i', &number.to_be_bytes()),
                Value::Float(number) => part(&mut state, b'f', &number.to_bits().to_be_bytes()),
                Value::Text(text) => part(&mut state, b't', text.as_bytes()),
                Value::Bin(bytes) => part(&mut state, b'x', bytes),
                Value::Array(items) => part(&mut state, b'a', &(items as u64).to_be_bytes()),
                Value::Map(items) => part(&mut state, b'm', &(items as u64).to_be_bytes()),
                Value::Ext => return Err(RefuseEvent::Field),
            }
        }
        Ok(Some(Self::digest(&state)))
    }

    fn digest(state: &Xxh3) -> Self {
        Self(NonZeroU64::new(state.digest()).unwrap_or(NonZeroU64::MIN))
    }
}

fn part(state: &mut Xxh3, kind: u8, bytes: &[u8]) {
    state.update(&[kind]);
    state.update(&(bytes.len() as u64).to_be_bytes());
    state.update(bytes);
}

#[cfg(test)]
mod tests;
