//! The side of a partition that a gateway is on, as it sees it itself.
//!
//! Not here: what sides are compared for (`node::retire`).

use std::cmp::Reverse;

use covey_crdt::id::LifeId;

/// One side: the larger one goes on, of two equal ones that with the smallest life (P10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    /// How many gateways, by name, are on it.
    pub(crate) names: u32,
    /// The smallest life on it.
    pub(crate) smallest: LifeId,
    /// Who sees it so.
    pub(crate) own: LifeId,
}

impl Side {
    const fn key(&self) -> (u32, Reverse<LifeId>, Reverse<LifeId>) {
        (self.names, Reverse(self.smallest), Reverse(self.own))
    }
}

impl PartialOrd for Side {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Side {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_side_wins_and_of_equal_ones_that_with_the_smallest_life() {
        let side = |names, smallest, own| Side { names, smallest: LifeId(smallest), own: LifeId(own) };
        assert!(side(3, 9, 9) > side(2, 1, 1));
        assert!(side(2, 1, 5) > side(2, 2, 2));
        assert!(side(2, 1, 3) > side(2, 1, 4));
    }
}
