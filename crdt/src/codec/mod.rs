//! Wire columns: ops, chain pieces and repair slices as packed little-endian bytes.
//!
//! A blob starts with the tables its rows refer to (texts, then targets), so names are sent once a frame. Every length
//! is checked against the bytes that are there before anything is allocated, so decoding never takes more than a small
//! multiple of the blob; every value is checked against its bound; trailing bytes are refused.
//!
//! Not here: the envelope around a blob and its version (`covey-mesh`). The layout is held by golden bytes.

mod chains;
mod ops;
mod outline;
mod slice;
mod stored;
mod tables;

pub use chains::{decode_chains, encode_chains};
pub use ops::{decode_ops, encode_ops};
pub use outline::{
    decode_holder_asks, decode_outcome, decode_window, encode_holder_asks, encode_outcome, encode_window,
};
pub use slice::{decode_cursor, decode_slice, encode_cursor, encode_slice};
pub use stored::{decode_feed, decode_stored, encode_feed, encode_stored};

/// Bytes that do not parse, break a bound or carry an impossible value. Fault: the peer, or corruption. Nothing was
/// changed; close the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The byte at which reading failed.
    pub offset: usize,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the blob does not parse at byte {}", self.offset)
    }
}

impl std::error::Error for DecodeError {}

type Decoded<T> = Result<T, DecodeError>;

/// Reads packed little-endian values, and knows where it is when one is not there.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    pub(crate) const fn error(&self) -> DecodeError {
        DecodeError { offset: self.offset }
    }

    pub(crate) fn take(&mut self, len: usize) -> Decoded<&'a [u8]> {
        let end = self.offset.checked_add(len).filter(|end| *end <= self.bytes.len()).ok_or(self.error())?;
        let taken = &self.bytes[self.offset..end];
        self.offset = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let taken = self.take(N)?;
        let mut array = [0; N];
        array.copy_from_slice(taken);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Decoded<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Decoded<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Decoded<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Decoded<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Decoded<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// A count of elements of at least `element_bytes` each: refused when they cannot all be there.
    pub(crate) fn count(&mut self, element_bytes: usize) -> Decoded<usize> {
        let at = self.error();
        let count = self.u32()? as usize;
        let left = self.bytes.len() - self.offset;
        if count.checked_mul(element_bytes).is_none_or(|bytes| bytes > left) { Err(at) } else { Ok(count) }
    }

    /// `value` if it is there, an error at this place if not.
    pub(crate) fn some<T>(&self, value: Option<T>) -> Decoded<T> {
        value.ok_or(self.error())
    }

    pub(crate) fn end(&self) -> Decoded<()> {
        if self.offset == self.bytes.len() { Ok(()) } else { Err(self.error()) }
    }
}

/// Writes packed little-endian values.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    /// With room for `bytes`: one op is a few dozen, and most are encoded alone, for their hash.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u128(&mut self, value: u128) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("blobs are far smaller than 4 Gi elements"));
    }
}
