//! A cursor over MessagePack bytes that never allocates and never trusts a length: every read is checked against what is
//! left.
//!
//! Not here: what the values mean. The format's own reading is `rmp`'s.

use rmp::Marker;
use rmp::decode::{RmpRead as _, bytes::Bytes};

/// The bytes do not go on as they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// A place in a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a>(&'a [u8]);

/// One value's kind and, of scalars and texts, the value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Nil,
    Bool(bool),
    /// Every integer an engine may name a block by, as its 64 bits.
    Int(u64),
    /// A negative integer keeps its bits in [`Value::Int`]; a float is a float.
    Float(f64),
    Text(&'a str),
    Bin(&'a [u8]),
    Array(usize),
    Map(usize),
    Ext,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) const fn left(&self) -> usize {
        self.0.len()
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Broken> {
        let (head, rest) = self.0.split_at_checked(bytes).ok_or(Broken)?;
        self.0 = rest;
        Ok(head)
    }

    fn number(&mut self, bytes: usize) -> Result<u64, Broken> {
        Ok(self.take(bytes)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn length(&mut self, bytes: usize) -> Result<usize, Broken> {
        usize::try_from(self.number(bytes)?).map_err(|_| Broken)
    }

    fn text(&mut self, bytes: usize) -> Result<Value<'a>, Broken> {
        std::str::from_utf8(self.take(bytes)?).map(Value::Text).map_err(|_| Broken)
    }

    /// A signed integer of so many bytes, as 64 bits.
    fn signed(&mut self, bytes: usize) -> Result<Value<'a>, Broken> {
        let shift = 64 - 8 * bytes as u32;
        let value = ((self.number(bytes)? << shift) as i64) >> shift;
        Ok(Value::Int(value as u64))
    }

    fn ext(&mut self, bytes: usize) -> Result<Value<'a>, Broken> {
        self.take(bytes + 1).map(|_| Value::Ext)
    }

    /// The next value; of arrays and maps only how many items follow, which are never more than bytes are left.
    pub(super) fn next(&mut self) -> Result<Value<'a>, Broken> {
        let mut first = Bytes::new(self.0);
        let marker = Marker::from_u8(first.read_u8().map_err(|_| Broken)?);
        self.take(1)?;
        let value = match marker {
            Marker::Null => Value::Nil,
            Marker::True => Value::Bool(true),
            Marker::False => Value::Bool(false),
            Marker::FixPos(value) => Value::Int(u64::from(value)),
            Marker::FixNeg(value) => Value::Int(i64::from(value) as u64),
            Marker::U8 => Value::Int(self.number(1)?),
            Marker::U16 => Value::Int(self.number(2)?),
            Marker::U32 => Value::Int(self.number(4)?),
            Marker::U64 => Value::Int(self.number(8)?),
            Marker::I8 => self.signed(1)?,
            Marker::I16 => self.signed(2)?,
            Marker::I32 => self.signed(4)?,
            Marker::I64 => self.signed(8)?,
            Marker::F32 => Value::Float(f64::from(f32::from_bits(self.number(4)? as u32))),
            Marker::F64 => Value::Float(f64::from_bits(self.number(8)?)),
            Marker::FixStr(bytes) => self.text(usize::from(bytes))?,
            Marker::Str8 => self.length(1).and_then(|bytes| self.text(bytes))?,
            Marker::Str16 => self.length(2).and_then(|bytes| self.text(bytes))?,
            Marker::Str32 => self.length(4).and_then(|bytes| self.text(bytes))?,
            Marker::Bin8 => self.length(1).and_then(|bytes| self.take(bytes)).map(Value::Bin)?,
            Marker::Bin16 => self.length(2).and_then(|bytes| self.take(bytes)).map(Value::Bin)?,
            Marker::Bin32 => self.length(4).and_then(|bytes| self.take(bytes)).map(Value::Bin)?,
            Marker::FixArray(items) => Value::Array(usize::from(items)),
            Marker::Array16 => Value::Array(self.length(2)?),
            Marker::Array32 => Value::Array(self.length(4)?),
            Marker::FixMap(items) => Value::Map(usize::from(items)),
            Marker::Map16 => Value::Map(self.length(2)?),
            Marker::Map32 => Value::Map(self.length(4)?),
            Marker::FixExt1 => self.ext(1)?,
            Marker::FixExt2 => self.ext(2)?,
            Marker::FixExt4 => self.ext(4)?,
            Marker::FixExt8 => self.ext(8)?,
            Marker::FixExt16 => self.ext(16)?,
            Marker::Ext8 => self.length(1).and_then(|bytes| self.ext(bytes))?,
            Marker::Ext16 => self.length(2).and_then(|bytes| self.ext(bytes))?,
            Marker::Ext32 => self.length(4).and_then(|bytes| self.ext(bytes))?,
            Marker::Reserved => return Err(Broken),
        };
        match value {
            Value::Array(items) if items > self.left() => Err(Broken),
            Value::Map(items) if items > self.left() / 2 => Err(Broken),
            whole @ (Value::Nil
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Text(_)
            | Value::Bin(_)
            | Value::Array(_)
            | Value::Map(_)
            | Value::Ext) => Ok(whole),
        }
    }

    /// The bytes of the next value, whatever is in it.
    pub(super) fn extent(&mut self) -> Result<Self, Broken> {
        let whole = self.0;
        let mut due: usize = 1;
        while due > 0 {
            due -= 1;
            due += match self.next()? {
                Value::Array(items) => items,
                Value::Map(items) => items * 2,
                Value::Nil
                | Value::Bool(_)
                | Value::Int(_)
                | Value::Float(_)
                | Value::Text(_)
                | Value::Bin(_)
                | Value::Ext => 0,
            };
            // Every item has a byte at least.
            if due > self.left() {
                return Err(Broken);
            }
        }
        Ok(Self(&whole[..whole.len() - self.left()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_keep_their_64_bits_whatever_their_width_and_sign() {
        fn read(bytes: &[u8]) -> Result<Value<'_>, Broken> {
            Cursor::new(bytes).next()
        }
        assert_eq!(read(&[0x7f]), Ok(Value::Int(127)));
        assert_eq!(read(&[0xff]), Ok(Value::Int(u64::MAX)));
        assert_eq!(read(&[0xd0, 0x80]), Ok(Value::Int((-128_i64) as u64)));
        assert_eq!(read(&[0xcd, 1, 2]), Ok(Value::Int(258)));
        assert_eq!(read(&[0xcf, 255, 255, 255, 255, 255, 255, 255, 254]), Ok(Value::Int(u64::MAX - 1)));
        assert_eq!(read(&[0xd3, 255, 255, 255, 255, 255, 255, 255, 254]), Ok(Value::Int(u64::MAX - 1)));
    }

    #[test]
    fn lengths_that_cannot_be_are_refused_before_anything_is_done() {
        for bytes in [
            &[0xdd, 0xff, 0xff, 0xff, 0xff][..],
            &[0xdf, 0xff, 0xff, 0xff, 0xff, 1],
            &[0xdb, 0xff, 0xff, 0xff, 0xff],
            &[0xc6, 0, 0, 0, 9, 1],
            &[0xc9, 0xff, 0xff, 0xff, 0xff, 1],
            &[0x92, 1],
            &[0xc1],
            &[],
        ] {
            assert!(Cursor::new(bytes).extent().is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn deep_nesting_takes_no_stack() {
        let mut bytes = vec![0x91; 1_000_000];
        bytes.push(0xc0);
        let mut cursor = Cursor::new(&bytes);
        assert_eq!(cursor.extent().map(|extent| extent.left()), Ok(bytes.len()));
        assert_eq!(cursor.left(), 0);
    }
}
