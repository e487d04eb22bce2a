//! A set of small numbers as a bitset: up to 256 without an allocation, beyond that as many as there are.
//!
//! Not here: what the numbers stand for.

const FEW_WORDS: usize = 4;

#[derive(Clone, Debug)]
enum Words {
    Few([u64; FEW_WORDS]),
    Many(Vec<u64>),
}

/// A set of `u32`s. Its size is that of the largest number it ever held.
#[derive(Clone, Debug)]
pub struct Bits(Words);

impl Default for Bits {
    fn default() -> Self {
        Self(Words::Few([0; FEW_WORDS]))
    }
}

impl Bits {
    /// Whether `bit` is in the set.
    #[must_use]
    pub fn contains(&self, bit: u32) -> bool {
        self.words().get(bit as usize / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    /// Puts `bit` in.
    pub fn insert(&mut self, bit: u32) {
        let at = bit as usize / 64;
        if at >= self.words().len() {
            let mut words = self.words().to_vec();
            words.resize(at + 1, 0);
            self.0 = Words::Many(words);
        }
        self.words_mut()[at] |= 1 << (bit % 64);
    }

    /// Takes `bit` out.
    pub fn remove(&mut self, bit: u32) {
        if let Some(word) = self.words_mut().get_mut(bit as usize / 64) {
            *word &= !(1 << (bit % 64));
        }
    }

    /// Whether nothing is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words().iter().all(|word| *word == 0)
    }

    /// How many numbers are in the set.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.words().iter().map(|word| word.count_ones()).sum()
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words().iter().zip(0u32..).flat_map(|(word, at)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros();
                (rest != 0).then(|| {
                    rest &= rest - 1;
                    at * 64 + bit
                })
            })
        })
    }

    /// Keeps only what is also in `other`.
    pub fn keep(&mut self, other: &Self) {
        let other = other.words();
        for (at, word) in self.words_mut().iter_mut().enumerate() {
            *word &= other.get(at).copied().unwrap_or(0);
        }
    }

    /// Takes out what is in `other`.
    pub fn subtract(&mut self, other: &Self) {
        for (word, gone) in self.words_mut().iter_mut().zip(other.words()) {
            *word &= !gone;
        }
    }

    /// Whether everything in this set is also in `other`.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let other = other.words();
        self.words().iter().enumerate().all(|(at, word)| word & !other.get(at).copied().unwrap_or(0) == 0)
    }

    fn words(&self) -> &[u64] {
        match &self.0 {
            Words::Few(words) => words,
            Words::Many(words) => words,
        }
    }

    fn words_mut(&mut self) -> &mut [u64] {
        match &mut self.0 {
            Words::Few(words) => words,
            Words::Many(words) => words,
        }
    }
}

impl PartialEq for Bits {
    fn eq(&self, other: &Self) -> bool {
        self.is_within(other) && other.is_within(self)
    }
}

impl Eq for Bits {}

impl FromIterator<u32> for Bits {
    fn from_iter<I: IntoIterator<Item = u32>>(bits: I) -> Self {
        let mut set = Self::default();
        bits.into_iter().for_each(|bit| set.insert(bit));
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_equal_an_ordered_set(
            a in prop::collection::btree_set(0u32..700, 0..40),
            b in prop::collection::btree_set(0u32..300, 0..40),
            gone in 0u32..700,
        ) {
            let (bits_a, bits_b): (Bits, Bits) = (a.iter().copied().collect(), b.iter().copied().collect());
            prop_assert_eq!(bits_a.iter().collect::<BTreeSet<_>>(), a.clone());
            prop_assert_eq!(bits_a.len() as usize, a.len());
            prop_assert_eq!(bits_a.is_within(&bits_b), a.is_subset(&b));
            prop_assert_eq!(bits_a == bits_b, a == b);
            let (mut both, mut rest, mut less) = (bits_a.clone(), bits_a.clone(), bits_a.clone());
            both.keep(&bits_b);
            rest.subtract(&bits_b);
            less.remove(gone);
            prop_assert_eq!(both.iter().collect::<BTreeSet<_>>(), a.intersection(&b).copied().collect());
            prop_assert_eq!(rest.iter().collect::<BTreeSet<_>>(), a.difference(&b).copied().collect());
            prop_assert!(!less.contains(gone) && rest.is_empty() == a.is_subset(&b));
        }
    }
}
