//! Join-semilattices: the shape every replicated value has.
//!
//! Not here: any value. The laws are proved once, generically, in `tests/it/laws.rs`.

/// Whether a merge taught the receiver anything; forwarding and dirtiness read this answer.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The receiver is exactly as before.
    Unchanged,
    /// The receiver grew.
    Grew,
}

impl Merged {
    /// `Grew` if either did.
    pub const fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unchanged, Self::Unchanged) => Self::Unchanged,
            _ => Self::Grew,
        }
    }
}

/// Idempotent, commutative, associative; `Unchanged` iff `self` did not change.
pub trait Lattice: Clone + Eq {
    /// Joins `other` into `self`.
    fn merge(&mut self, other: &Self) -> Merged;
}

/// Joins by keeping the larger value.
pub(crate) fn raise<T: Ord + Clone>(value: &mut T, other: &T) -> Merged {
    if other > value {
        *value = other.clone();
        Merged::Grew
    } else {
        Merged::Unchanged
    }
}
