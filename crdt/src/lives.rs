//! The lives a replica knows of: those that joined, those that are retired, and up to when retired ones are forgotten.
//!
//! A retired life is a pair of its id and its last op's number, kept so that nothing of it is taken again (P9). `forgotten`
//! is a floor over the stamps at which lives were retired: raising it drops pairs the same way on every replica, whatever
//! order things come in.
//!
//! Not here: when a life may be retired, and what its end does to vectors (`covey-mesh`).

use std::collections::BTreeMap;

use crate::digest::Digest;
use crate::id::{GatewayName, LifeId};
use crate::lattice::Merged;
use crate::stamp::Stamp;

/// A life that joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifeRecord {
    /// The gateway's name.
    pub name: GatewayName,
    /// Whether it left gracefully.
    pub left: bool,
}

/// The end of a retired life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Retirement {
    /// The number of its last op.
    pub last: u64,
    /// When it was retired.
    pub at: Stamp,
}

/// All lives.
#[derive(Clone, Debug)]
pub(crate) struct Lives {
    records: BTreeMap<LifeId, LifeRecord>,
    retired: BTreeMap<LifeId, Retirement>,
    forgotten: Stamp,
    /// The digest of the retired ones and of what is forgotten.
    ends: Digest,
}

impl Default for Lives {
    fn default() -> Self {
        Self { records: BTreeMap::new(), retired: BTreeMap::new(), forgotten: Stamp::ZERO, ends: Digest::default() }
    }
}

impl Lives {
    pub(crate) const fn records(&self) -> &BTreeMap<LifeId, LifeRecord> {
        &self.records
    }

    pub(crate) const fn retired(&self) -> &BTreeMap<LifeId, Retirement> {
        &self.retired
    }

    pub(crate) const fn forgotten(&self) -> Stamp {
        self.forgotten
    }

    pub(crate) const fn ends_digest(&self) -> Digest {
        self.ends
    }

    fn swap(&mut self, root: &mut Digest, before: Digest, after: Digest) {
        for digest in [root, &mut self.ends] {
            digest.remove(before);
            digest.add(after);
        }
    }

    pub(crate) fn merge(&mut self, root: &mut Digest, life: LifeId, record: &LifeRecord) -> Merged {
        if self.retired.contains_key(&life) {
            return Merged::Unchanged;
        }
        let joined = match self.records.get(&life) {
            Some(known) if known.left || !record.left => return Merged::Unchanged,
            Some(known) => LifeRecord { name: known.name.clone(), left: true },
            None => record.clone(),
        };
        root.add(record_digest(life, &joined));
        if let Some(before) = self.records.insert(life, joined) {
            root.remove(record_digest(life, &before));
        }
        Merged::Grew
    }

    pub(crate) fn leave(&mut self, root: &mut Digest, life: LifeId) -> Merged {
        match self.records.get(&life) {
            Some(known) => {
                let left = LifeRecord { name: known.name.clone(), left: true };
                self.merge(root, life, &left)
            }
            None => Merged::Unchanged,
        }
    }

    pub(crate) fn retire(&mut self, root: &mut Digest, life: LifeId, end: Retirement) -> Merged {
        let mut merged = Merged::Unchanged;
        if let Some(record) = self.records.remove(&life) {
            root.remove(record_digest(life, &record));
            merged = Merged::Grew;
        }
        if end.at <= self.forgotten {
            return merged;
        }
        let known = self.retired.get(&life).copied();
        let joined = known.map_or(end, |known| Retirement { last: known.last.max(end.last), at: known.at.max(end.at) });
        if known == Some(joined) {
            return merged;
        }
        let before = known.map_or(Digest::default(), |known| retired_digest(life, known));
        self.swap(root, before, retired_digest(life, joined));
        self.retired.insert(life, joined);
        Merged::Grew
    }

    pub(crate) fn forget(&mut self, root: &mut Digest, through: Stamp) -> Merged {
        if through <= self.forgotten {
            return Merged::Unchanged;
        }
        self.swap(root, forgotten_digest(self.forgotten), forgotten_digest(through));
        self.forgotten = through;
        let over: Vec<(LifeId, Retirement)> =
            self.retired.iter().filter(|(_, end)| end.at <= through).map(|(life, end)| (*life, *end)).collect();
        for (life, end) in over {
            self.swap(root, retired_digest(life, end), Digest::default());
            self.retired.remove(&life);
        }
        Merged::Grew
    }

    /// The digest of everything here, computed anew.
    pub(crate) fn digest(&self) -> Digest {
        let mut all = forgotten_digest(self.forgotten);
        for (life, end) in &self.retired {
            all.add(retired_digest(*life, *end));
        }
        debug_assert_eq!(all, self.ends, "the digest of ends is kept in step");
        for (life, record) in &self.records {
            all.add(record_digest(*life, record));
        }
        all
    }
}

fn record_digest(life: LifeId, record: &LifeRecord) -> Digest {
    let mut bytes = b"life\0".to_vec();
    bytes.extend_from_slice(&life.0.to_be_bytes());
    bytes.push(u8::from(record.left));
    bytes.extend_from_slice(record.name.as_str().as_bytes());
    Digest::of(&bytes)
}

fn retired_digest(life: LifeId, end: Retirement) -> Digest {
    let mut bytes = b"retired\0".to_vec();
    bytes.extend_from_slice(&life.0.to_be_bytes());
    bytes.extend_from_slice(&end.last.to_be_bytes());
    bytes.extend_from_slice(&end.at.to_bytes());
    Digest::of(&bytes)
}

/// Nothing forgotten is no element, so that an empty replica's digest is zero.
fn forgotten_digest(through: Stamp) -> Digest {
    if through == Stamp::ZERO {
        return Digest::default();
    }
    let mut bytes = b"forgotten\0".to_vec();
    bytes.extend_from_slice(&through.to_bytes());
    Digest::of(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Hlc;

    fn at(ms: u64) -> Stamp {
        Stamp { hlc: Hlc::new(ms, 0), life: LifeId(9) }
    }

    /// Every order of the same updates, retirements and forgettings ends in the same lives and digest.
    #[test]
    fn the_order_of_ends_and_forgetting_does_not_matter() {
        let record = LifeRecord { name: GatewayName::new("a").expect("a name"), left: false };
        let ends = [
            (LifeId(1), Retirement { last: 3, at: at(10) }),
            (LifeId(1), Retirement { last: 4, at: at(12) }),
            (LifeId(2), Retirement { last: 1, at: at(20) }),
        ];
        let build = |order: &[usize]| {
            let (mut lives, mut root) = (Lives::default(), Digest::default());
            let _ = lives.merge(&mut root, LifeId(1), &record);
            let _ = lives.merge(&mut root, LifeId(2), &record);
            for step in order {
                match step {
                    3 => _ = lives.forget(&mut root, at(12)),
                    nth => _ = lives.retire(&mut root, ends[*nth].0, ends[*nth].1),
                }
            }
            assert_eq!(lives.digest(), root);
            (lives.records.clone(), lives.retired.clone(), root)
        };
        let expected = build(&[0, 1, 2, 3]);
        assert_eq!(expected.1.keys().collect::<Vec<_>>(), [&LifeId(2)]);
        for order in [[3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1], [0, 3, 1, 2], [1, 3, 0, 2]] {
            assert_eq!(build(&order), expected, "{order:?}");
        }
    }

    #[test]
    fn a_retired_life_does_not_come_back() {
        let record = LifeRecord { name: GatewayName::new("a").expect("a name"), left: false };
        let (mut lives, mut root) = (Lives::default(), Digest::default());
        let _ = lives.merge(&mut root, LifeId(1), &record);
        let _ = lives.retire(&mut root, LifeId(1), Retirement { last: 3, at: at(10) });
        assert_eq!(lives.merge(&mut root, LifeId(1), &record), Merged::Unchanged);
        assert!(lives.records().is_empty());
    }
}
