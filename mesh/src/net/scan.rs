//! Looking at a membership message before the membership service decodes it. chitchat's decoder trusts what it reads:
//! one message of 65 kB can expand to 195 MB. Here the outer shape is checked and what it can expand to is bounded.
//!
//! Not here: what a message means. Sources of the format: chitchat 0.13 `message_serialize.rs`, `serialize.rs`; zstd
//! frame format, RFC 8878 sections 3.1.1.1 and 3.1.1.2.

use std::fmt;

/// Bytes of the largest message: what chitchat puts into one datagram at most.
pub(super) const MESSAGE_BYTES_MAX: u32 = 65_507;
/// Bytes all blocks of one message may expand to.
const EXPANDED_BYTES_MAX: u64 = 256 * 1024;
/// Blocks in one message.
const BLOCKS_MAX: usize = 64;

const MAGIC: [u8; 2] = 45_139u16.to_le_bytes();
const VERSION: u8 = 1;
const ZSTD_MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefuseMessage {
    /// It is no message of the version in use.
    Shape,
    /// Its blocks are too many, or expand to too much, or do not say to how much.
    Bomb,
}

impl fmt::Display for RefuseMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape => write!(f, "not a membership message"),
            Self::Bomb => write!(f, "a membership message that expands to too much"),
        }
    }
}

/// Checks one message.
pub(super) fn scan(message: &[u8]) -> Result<(), RefuseMessage> {
    if message.len() > MESSAGE_BYTES_MAX as usize {
        return Err(RefuseMessage::Shape);
    }
    let mut scan = Scan { rest: message, blocks: 0, expanded: 0 };
    if scan.take(2)? != MAGIC || scan.byte()? != VERSION {
        return Err(RefuseMessage::Shape);
    }
    match scan.byte()? {
        // Syn: digest, cluster name.
        0 => {
            scan.stream()?;
            let length = scan.u16()?;
            scan.take(length)?;
        }
        // SynAck: digest, delta.
        1 => {
            scan.stream()?;
            scan.stream()?;
        }
        // Ack: delta.
        2 => scan.stream()?,
        // Wrong cluster.
        3 => {}
        _ => return Err(RefuseMessage::Shape),
    }
    if scan.rest.is_empty() { Ok(()) } else { Err(RefuseMessage::Shape) }
}

struct Scan<'a> {
    rest: &'a [u8],
    blocks: usize,
    expanded: u64,
}

impl<'a> Scan<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], RefuseMessage> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(RefuseMessage::Shape)?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, RefuseMessage> {
        Ok(self.take(1)?[0])
    }

    fn u16(&mut self) -> Result<usize, RefuseMessage> {
        let bytes = self.take(2)?;
        Ok(usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    }

    /// A stream of blocks: kind, length, bytes; kind 0 ends it.
    fn stream(&mut self) -> Result<(), RefuseMessage> {
        loop {
            let kind = self.byte()?;
            if kind == 0 {
                return Ok(());
            }
            let length = self.u16()?;
            let block = self.take(length)?;
            self.expanded += match kind {
                1 => zstd_content_bytes(block).ok_or(RefuseMessage::Bomb)?,
                2 => block.len() as u64,
                _ => return Err(RefuseMessage::Shape),
            };
            self.blocks += 1;
            if self.blocks > BLOCKS_MAX || self.expanded > EXPANDED_BYTES_MAX {
                return Err(RefuseMessage::Bomb);
            }
        }
    }
}

/// What a block expands to: it must be exactly one zstd frame that says its content size (the decoder holds it to that).
fn zstd_content_bytes(block: &[u8]) -> Option<u64> {
    let rest = block.strip_prefix(&ZSTD_MAGIC)?;
    let (descriptor, rest) = rest.split_first()?;
    let single_segment = descriptor & 0x20 != 0;
    let window_bytes = usize::from(!single_segment);
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size_bytes = match descriptor >> 6 {
        0 if single_segment => 1,
        0 => return None,
        1 => 2,
        2 => 4,
        _ => 8,
    };
    let rest = rest.get(window_bytes + dictionary_bytes..)?;
    let (size, rest) = rest.split_at_checked(size_bytes)?;
    let mut content = size.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    if size_bytes == 2 {
        content += 256;
    }
    let checksum_bytes = if descriptor & 4 != 0 { 4 } else { 0 };
    (skip_zstd_blocks(rest)?.len() == checksum_bytes).then_some(content)
}

/// Steps over the blocks of a zstd frame; what follows the last is left.
fn skip_zstd_blocks(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let (header, after) = rest.split_first_chunk::<3>()?;
        let header = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let size = (header >> 3) as usize;
        let stored = match header >> 1 & 3 {
            0 | 2 => size,
            // One byte repeated `size` times.
            1 => 1,
            _ => return None,
        };
        rest = after.get(stored..)?;
        if header & 1 == 1 {
            return Some(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        [&MAGIC[..], &[VERSION, kind], body].concat()
    }

    /// A zstd frame of one repeated byte: `size` bytes of content in 4 + 1 + 4 + 4 bytes.
    fn repeated(size: u32, said: u32) -> Vec<u8> {
        let block = (size << 3 | 1 << 1 | 1).to_le_bytes();
        [&ZSTD_MAGIC[..], &[0xa0], &said.to_le_bytes(), &block[..3], &[0]].concat()
    }

    fn block(kind: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u16::try_from(bytes.len()).expect("a short block");
        [&[kind][..], &length.to_le_bytes(), bytes].concat()
    }

    #[test]
    fn whole_messages_pass_and_no_part_of_one_does() {
        let digest = [block(1, &repeated(100, 100)), block(2, b"plain"), vec![0]].concat();
        let syn = message(0, &[&digest[..], &[3, 0], b"abc"].concat());
        let syn_ack = message(1, &[digest.clone(), digest.clone()].concat());
        for whole in [syn, syn_ack, message(2, &digest), message(3, &[])] {
            assert_eq!(scan(&whole), Ok(()));
            for cut in 0..whole.len() {
                assert!(scan(&whole[..cut]).is_err(), "cut at {cut}");
            }
            assert_eq!(scan(&[&whole[..], &[0]].concat()), Err(RefuseMessage::Shape));
        }
    }

    #[test]
    fn a_bomb_of_many_small_blocks_is_refused() {
        let bomb = [block(1, &repeated(65_000, 65_000)).repeat(3_000), vec![0]].concat();
        assert!(bomb.len() < MESSAGE_BYTES_MAX as usize);
        assert_eq!(scan(&message(2, &bomb)), Err(RefuseMessage::Bomb));
        let many = [block(2, b"x").repeat(BLOCKS_MAX + 1), vec![0]].concat();
        assert_eq!(scan(&message(2, &many)), Err(RefuseMessage::Bomb));
    }

    #[test]
    fn a_block_that_hides_what_it_expands_to_is_refused() {
        let two = [repeated(10, 10), repeated(60_000, 60_000)].concat();
        let nameless = [&ZSTD_MAGIC[..], &[0x00, 0x50], &[3, 0, 0], &[0]].concat();
        for hidden in [two, nameless, b"no zstd frame".to_vec(), Vec::new()] {
            let body = [block(1, &hidden), vec![0]].concat();
            assert_eq!(scan(&message(2, &body)), Err(RefuseMessage::Bomb));
        }
    }

    #[test]
    fn other_versions_and_kinds_are_refused() {
        let mut old = message(3, &[]);
        old[2] = 0;
        assert_eq!(scan(&old), Err(RefuseMessage::Shape));
        assert_eq!(scan(&message(4, &[])), Err(RefuseMessage::Shape));
        assert_eq!(scan(b""), Err(RefuseMessage::Shape));
        assert_eq!(scan(&vec![0; MESSAGE_BYTES_MAX as usize + 1]), Err(RefuseMessage::Shape));
    }
}
