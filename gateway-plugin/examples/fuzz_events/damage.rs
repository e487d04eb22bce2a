//! What a damaged engine, or a hostile one, might send: real messages changed, and very dense ones.
//!
//! A function of the seed alone, so a run can be repeated. Not here: who reads it (`fuzz`).

/// A small generator: SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Very many events that say nearly nothing, in an array, or in a map that has several lists of them; behind them, at
/// times, one that says very much in few bytes. The count may be a lie.
pub(crate) fn dense(random: &mut Random) -> Vec<u8> {
    let (is_array, lists) = (random.below(2) == 0, 1 + random.below(4) as u8);
    if is_array {
        let mut bytes = vec![0x92, 0x00];
        dense_list(random, &mut bytes, 20_000);
        return bytes;
    }
    let mut bytes = vec![0x80 | lists];
    for _ in 0..lists {
        bytes.extend_from_slice(b"\xa6events");
        dense_list(random, &mut bytes, 10_000);
    }
    bytes
}

fn dense_list(random: &mut Random, bytes: &mut Vec<u8>, most: usize) {
    const EVENTS: [&[u8]; 4] = [
        b"\x92\xacBlockRemoved\x90",
        b"\x95\xabBlockStored\x91\x01\xc0\x90\x01",
        b"\x95\xabBlockStored\x90\xc0\x91\x07\x01",
        b"\x91\xb0AllBlocksCleared",
    ];
    let (count, which) = (random.below(most) as u32, random.below(EVENTS.len() + 1));
    let (hashes, said) = (random.below(4 * most) as u32, random.below(3 * most) as u32);
    let is_large = random.below(2) == 0;
    let said = if random.below(2) == 0 { said } else { count + u32::from(is_large) };
    bytes.push(0xdd);
    bytes.extend_from_slice(&said.to_be_bytes());
    for _ in 0..count {
        bytes.extend_from_slice(EVENTS.get(which).copied().unwrap_or(EVENTS[random.below(EVENTS.len())]));
    }
    if is_large {
        bytes.extend_from_slice(b"\x92\xacBlockRemoved\xdd");
        bytes.extend_from_slice(&hashes.to_be_bytes());
        bytes.resize(bytes.len() + hashes as usize, 1);
    }
}

/// Flips, cuts, repeats, splices, and lengths made large.
pub(crate) fn damage(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = corpus[random.below(corpus.len())].clone();
    for _ in 0..random.below(9) {
        let at = random.below(bytes.len());
        match random.below(8) {
            _ if bytes.is_empty() => bytes.push(random.next() as u8),
            0 | 1 => bytes[at] = random.next() as u8,
            2 => bytes[at] ^= 1 << random.below(8),
            3 => bytes.truncate(at),
            4 => {
                let until = at + random.below(64.min(bytes.len() - at));
                let piece = bytes[at..until].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            5 => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            6 => {
                const MARKERS: [u8; 12] = [0xdd, 0xdf, 0xdc, 0xde, 0xc6, 0xdb, 0xc9, 0xcf, 0xd3, 0xc1, 0xc0, 0x9f];
                bytes[at] = MARKERS[random.below(MARKERS.len())];
            }
            _ => {
                let until = bytes.len().min(at + 4);
                bytes[at..until].fill(0xff);
            }
        }
    }
    bytes
}
