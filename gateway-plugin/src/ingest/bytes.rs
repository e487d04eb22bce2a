//! Little-endian fields for what one gateway hands to another, and their reading, which trusts no length.
//!
//! Not here: what the fields mean (`cache`, `intake`).

use std::fmt;

use bytes::{BufMut as _, BytesMut};

/// Why handed-off bytes were refused. Nothing was changed; do without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefuseExport {
    /// They end too early, go on too long, or contradict themselves.
    Malformed,
    /// Another version wrote them.
    Version {
        /// Which.
        version: u8,
    },
    /// They speak of another worker, model, key or incarnation.
    Other,
}

impl fmt::Display for RefuseExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => write!(f, "a handed-off ingest state is malformed"),
            Self::Version { version } => {
                write!(f, "a handed-off ingest state has version {version}, which is unknown here")
            }
            Self::Other => write!(f, "a handed-off ingest state is of another worker, model, key or incarnation"),
        }
    }
}

impl std::error::Error for RefuseExport {}

/// Writes fields.
#[derive(Default)]
pub(super) struct Writer(BytesMut);

impl Writer {
    pub(super) fn bool(&mut self, value: bool) {
        self.0.put_u8(u8::from(value));
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.0.put_u8(value);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.put_u32_le(value);
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.put_u64_le(value);
    }

    pub(super) fn u128(&mut self, value: u128) {
        self.0.put_u128_le(value);
    }

    /// A length that a bound keeps below 2^32.
    pub(super) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("every table is bounded"));
    }

    pub(super) fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.put_slice(text.as_bytes());
    }

    pub(super) fn maybe_u64(&mut self, value: Option<u64>) {
        self.bool(value.is_some());
        if let Some(value) = value {
            self.u64(value);
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0.into()
    }
}

/// Reads fields.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], RefuseExport> {
        let (head, rest) = self.0.split_at_checked(bytes).ok_or(RefuseExport::Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RefuseExport> {
        Ok(self.take(N)?.try_into().expect("so many were taken"))
    }

    pub(super) fn u8(&mut self) -> Result<u8, RefuseExport> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn bool(&mut self) -> Result<bool, RefuseExport> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(RefuseExport::Malformed),
        }
    }

    pub(super) fn u32(&mut self) -> Result<u32, RefuseExport> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, RefuseExport> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn u128(&mut self) -> Result<u128, RefuseExport> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    /// How many items follow: at most `most`, and no more than bytes are left for, at `bytes` each.
    pub(super) fn count(&mut self, most: usize, bytes: usize) -> Result<usize, RefuseExport> {
        let count = self.u32()? as usize;
        if count > most || count.saturating_mul(bytes) > self.0.len() {
            return Err(RefuseExport::Malformed);
        }
        Ok(count)
    }

    pub(super) fn text(&mut self, most: usize) -> Result<&'a str, RefuseExport> {
        let count = self.count(most, 1)?;
        std::str::from_utf8(self.take(count)?).map_err(|_| RefuseExport::Malformed)
    }

    pub(super) fn maybe_u64(&mut self) -> Result<Option<u64>, RefuseExport> {
        if self.bool()? { self.u64().map(Some) } else { Ok(None) }
    }

    /// Whether all was read.
    pub(super) fn end(&self) -> Result<(), RefuseExport> {
        if self.0.is_empty() { Ok(()) } else { Err(RefuseExport::Malformed) }
    }
}
