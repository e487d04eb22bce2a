//! Keyed chained block hashing, and the 128-bit identity of a path of hashes.
//!
//! A [`BlockHash`] names a block *and everything before it*: XXH3-64 of the block's little-endian bytes, hashed once
//! more with the previous hash as seed; the first block's seed is derived from the hash key, the keyspace and the salt. A [`PathId`] is
//! folded over the hashes of a whole chain and is what coverage is keyed by (P2). XXH3 is a frozen specification, so
//! both are stable across builds and platforms; the golden vectors below hold them to it.
//!
//! Not here: cutting text into units (that is the gateway's rendering). The key obfuscates, it does not encrypt.

use std::fmt;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed, xxh3_128};

use crate::keyspace::{HashKeyId, Keyspace, Unit};

/// The chained 64-bit name of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockHash(pub u64);

/// The 128-bit identity of a chain: folded over its block hashes from the root.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u128);

impl PathId {
    /// The empty chain.
    pub const ROOT: Self = Self(0);

    /// The chain one block longer.
    #[must_use]
    pub fn child(self, block: BlockHash) -> Self {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&self.0.to_le_bytes());
        bytes[16..].copy_from_slice(&block.0.to_le_bytes());
        Self(xxh3_128(&bytes))
    }

    /// The chain longer by `blocks`.
    #[must_use]
    pub fn extend(self, blocks: &[BlockHash]) -> Self {
        blocks.iter().fold(self, |path, block| path.child(*block))
    }
}

impl fmt::Debug for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0 >> 80)
    }
}

/// The mesh's key for block hashes. The zero key gives the golden vectors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey([u8; 32]);

impl HashKey {
    /// The key of a gateway that shares coverage with nobody.
    pub const ZERO: Self = Self([0; 32]);

    /// A key from 32 bytes of key material.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A name for the key that does not reveal it; 0 for the zero key.
    #[must_use]
    pub fn id(&self) -> HashKeyId {
        if self == &Self::ZERO {
            return HashKeyId(0);
        }
        let mut bytes = b"covey/hash-key-id/1\0".to_vec();
        bytes.extend_from_slice(&self.0);
        HashKeyId(xxh3_64_with_seed(&bytes, 0))
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashKey({:x})", self.id().0)
    }
}

/// Names the blocks of one prompt, unit by unit, as they arrive. Cheap to clone: a clone continues the same chain.
#[derive(Clone, Debug)]
pub struct BlockHasher {
    block_bytes: usize,
    previous: u64,
    pending: Vec<u8>,
}

impl BlockHasher {
    /// A hasher at the root of `keyspace`. `salt` keeps prompts apart whose cache entries an engine keeps apart
    /// (LoRA adapter, cache namespace); empty for none.
    ///
    /// # Panics
    /// When `key` is not the one `keyspace` names: that would mix two keys' coverage.
    #[must_use]
    pub fn new(keyspace: &Keyspace, key: &HashKey, salt: &[u8]) -> Self {
        assert_eq!(key.id(), keyspace.key_id, "a keyspace is hashed with the key it names");
        let unit_bytes = match keyspace.unit {
            Unit::Tokens => 4,
            Unit::Bytes => 1,
        };
        let mut root = b"covey/root/1\0".to_vec();
        root.extend_from_slice(&key.0);
        root.push(keyspace.unit.to_byte());
        root.extend_from_slice(&keyspace.block_units.to_le_bytes());
        root.extend_from_slice(&(keyspace.model.as_str().len() as u64).to_le_bytes());
        root.extend_from_slice(keyspace.model.as_str().as_bytes());
        root.extend_from_slice(salt);
        Self {
            block_bytes: keyspace.block_units as usize * unit_bytes,
            previous: xxh3_64_with_seed(&root, 0),
            pending: Vec::new(),
        }
    }

    /// Takes UTF-8 bytes of a byte keyspace and appends the hash of every block they complete to `out`.
    pub fn bytes(&mut self, mut bytes: &[u8], out: &mut Vec<BlockHash>) {
        if !self.pending.is_empty() {
            let missing = self.block_bytes - self.pending.len();
            let (head, rest) = bytes.split_at(missing.min(bytes.len()));
            self.pending.extend_from_slice(head);
            bytes = rest;
            if self.pending.len() < self.block_bytes {
                return;
            }
            self.previous = chained(&self.pending, self.previous);
            self.pending.clear();
            out.push(BlockHash(self.previous));
        }
        let mut blocks = bytes.chunks_exact(self.block_bytes);
        for block in blocks.by_ref() {
            self.previous = chained(block, self.previous);
            out.push(BlockHash(self.previous));
        }
        self.pending.extend_from_slice(blocks.remainder());
    }

    /// Takes token ids of a token keyspace; each counts as its 4 little-endian bytes.
    pub fn tokens(&mut self, tokens: &[u32], out: &mut Vec<BlockHash>) {
        for token in tokens {
            self.bytes(&token.to_le_bytes(), out);
        }
    }

    /// A hasher of the same keyspace that goes on behind the block of this hash.
    #[must_use]
    pub fn resume(&self, block: BlockHash) -> Self {
        Self { block_bytes: self.block_bytes, previous: block.0, pending: Vec::new() }
    }

    /// What the next block depends on besides its tokens (a salt, multimodal input), as 64 bits; every block after it
    /// depends on it through the chain.
    pub fn fold(&mut self, extra: u64) {
        self.previous = xxh3_64_with_seed(&extra.to_le_bytes(), self.previous);
    }

    /// Bytes taken since the last whole block.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }
}

/// A block's hash behind another one's. Two steps, because XXH3 sets up a secret for every seeded input above 240 bytes:
/// seeding only the short second step halves the cost of a 256-byte block (8.6 to 3.8 µs for 48 KiB here).
fn chained(block: &[u8], previous: u64) -> u64 {
    xxh3_64_with_seed(&xxh3_64(block).to_le_bytes(), previous)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ModelName;

    fn keyspace(unit: Unit, block_units: u32, key: &HashKey) -> Keyspace {
        Keyspace::new(ModelName::new("golden").expect("a name"), unit, block_units, key.id()).expect("a block size")
    }

    fn of_bytes(key: &HashKey, salt: &[u8], text: &[u8]) -> Vec<BlockHash> {
        let mut out = Vec::new();
        BlockHasher::new(&keyspace(Unit::Bytes, 256, key), key, salt).bytes(text, &mut out);
        out
    }

    #[test]
    fn a_chain_goes_on_from_any_of_its_blocks_and_what_is_folded_in_keeps_it_apart() {
        let key = HashKey::ZERO;
        let hasher = BlockHasher::new(&keyspace(Unit::Tokens, 2, &key), &key, b"");
        let chain = |mut hasher: BlockHasher, tokens: &[u32]| {
            let mut out = Vec::new();
            hasher.tokens(tokens, &mut out);
            out
        };
        let whole = chain(hasher.clone(), &[1, 2, 3, 4, 5, 6]);
        assert_eq!(chain(hasher.resume(whole[0]), &[3, 4, 5, 6]), whole[1..]);
        let mut salted = hasher.clone();
        salted.fold(7);
        let salted = chain(salted, &[1, 2, 3, 4, 5, 6]);
        assert!(salted.iter().zip(&whole).all(|(salted, plain)| salted != plain));
        let mut other = hasher;
        other.fold(8);
        assert_ne!(chain(other, &[1, 2]), salted[..1]);
    }

    #[test]
    fn golden_vectors_with_the_zero_key() {
        let text: Vec<u8> = (0..1024u32).map(|i| (i % 251) as u8).collect();
        let hashes = of_bytes(&HashKey::ZERO, b"", &text);
        assert_eq!(hashes.iter().map(|h| h.0).collect::<Vec<_>>(), GOLDEN_BYTES);
        assert_eq!(PathId::ROOT.extend(&hashes).0, GOLDEN_PATH);
        let mut tokens = Vec::new();
        let ids: Vec<u32> = (0..48).collect();
        BlockHasher::new(&keyspace(Unit::Tokens, 16, &HashKey::ZERO), &HashKey::ZERO, b"lora-a")
            .tokens(&ids, &mut tokens);
        assert_eq!(tokens.iter().map(|h| h.0).collect::<Vec<_>>(), GOLDEN_TOKENS);
    }

    // Computed with another implementation of XXH3 (python-xxhash), from the description above.
    const GOLDEN_BYTES: [u64; 4] = [0x89c9cb1322d90bcd, 0xb082b7183a24ecb9, 0xbcfb10c04bbdd18e, 0xcf263d2b53cecf11];
    const GOLDEN_PATH: u128 = 0x4e94a5e940965418ab91895df2e9cfd1;
    const GOLDEN_TOKENS: [u64; 3] = [0x1a7bbd906b9b8876, 0xa49bcddff717b788, 0x7893109ba1fcf73b];

    #[test]
    fn any_split_of_the_text_gives_the_same_hashes() {
        let text: Vec<u8> = (0..2000u32).map(|i| (i * 7 % 256) as u8).collect();
        let whole = of_bytes(&HashKey::ZERO, b"s", &text);
        for cut in [1, 255, 256, 257, 1000, 1999] {
            let mut out = Vec::new();
            let mut hasher = BlockHasher::new(&keyspace(Unit::Bytes, 256, &HashKey::ZERO), &HashKey::ZERO, b"s");
            hasher.bytes(&text[..cut], &mut out);
            hasher.bytes(&text[cut..], &mut out);
            assert_eq!(out, whole, "cut at {cut}");
            assert_eq!(hasher.pending_bytes(), 2000 % 256);
        }
    }

    #[test]
    fn key_salt_model_and_block_size_keep_prompts_apart() {
        let text = [7u8; 256];
        let plain = of_bytes(&HashKey::ZERO, b"", &text);
        assert_ne!(of_bytes(&HashKey::ZERO, b"lora", &text), plain);
        assert_ne!(of_bytes(&HashKey::new([1; 32]), b"", &text), plain);
        assert_ne!(HashKey::new([1; 32]).id(), HashKey::new([2; 32]).id());
    }

    #[test]
    fn a_block_hash_names_everything_before_it() {
        let mut text = vec![1u8; 768];
        let before = of_bytes(&HashKey::ZERO, b"", &text);
        text[0] = 2;
        let after = of_bytes(&HashKey::ZERO, b"", &text);
        assert!(before.iter().zip(&after).all(|(a, b)| a != b));
    }
}
