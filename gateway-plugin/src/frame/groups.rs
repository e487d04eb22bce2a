//! State groups: which replicas have the same state, or lack of each other only what is under way.
//!
//! Not here: what a group means for the verdict (`judge`).

use covey_mesh::status::Phase;

use super::verdict::LAG_MS_MAX;
use super::{Cell, GatewayView};

/// How two replicas compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pair {
    /// The same state, or only traffic of the last second between them.
    Same,
    /// Not the same, and there is a reason: somebody is behind, joining or dirty.
    Other,
    /// Equal vectors, both clean, and different digests. Must never happen.
    Diverged,
}

/// Compares two gateways by what is known of each, and of what they lack of one another.
pub(super) fn compare(one: &GatewayView, other: &GatewayView, cells: [Option<&Cell>; 2]) -> Pair {
    let both_clean = [one, other].iter().all(|gateway| gateway.phase == Some(Phase::Clean));
    if !both_clean {
        return Pair::Other;
    }
    if one.digest.is_some() && one.digest == other.digest {
        return Pair::Same;
    }
    if one.vector.is_some() && one.vector == other.vector && one.digest.is_some() && other.digest.is_some() {
        return Pair::Diverged;
    }
    let recent = |cell: Option<&Cell>| cell.and_then(|cell| cell.lag_ms).is_some_and(|ms| ms < LAG_MS_MAX);
    if cells.into_iter().all(recent) { Pair::Same } else { Pair::Other }
}

/// Numbers the groups of the gateways that are `fresh` into their `group`: by size, of equal ones that with the first
/// gateway; everybody else has none. Returns the first pair that diverged.
pub(super) fn number(
    gateways: &mut [GatewayView],
    fresh: &[bool],
    compare: impl Fn(usize, usize) -> Pair,
) -> Option<(usize, usize)> {
    let known: Vec<usize> = (0..gateways.len()).filter(|nth| fresh[*nth] && gateways[*nth].phase.is_some()).collect();
    let pairs =
        || known.iter().flat_map(|one| known.iter().filter(move |other| *other > one).map(move |other| (*one, *other)));
    let diverged = pairs().find(|(one, other)| compare(*one, *other) == Pair::Diverged);
    let digest = |nth: usize| gateways[nth].digest.as_deref();
    let mut leader: Vec<usize> = (0..gateways.len()).collect();
    for (one, other) in pairs() {
        // Where replicas diverged, being close to both must not make them one.
        let same = match diverged {
            None => compare(one, other) == Pair::Same,
            Some(_) => digest(one).is_some() && digest(one) == digest(other),
        };
        if same {
            let (one, other) = (leader[one], leader[other]);
            let first = one.min(other);
            leader.iter_mut().filter(|leader| **leader == one || **leader == other).for_each(|leader| *leader = first);
        }
    }
    let mut groups: Vec<(usize, usize)> = Vec::new();
    for nth in &known {
        match groups.iter_mut().find(|(first, _)| *first == leader[*nth]) {
            Some((_, size)) => *size += 1,
            None => groups.push((leader[*nth], 1)),
        }
    }
    groups.sort_by_key(|(first, size)| (std::cmp::Reverse(*size), *first));
    for nth in known {
        let group = groups.iter().position(|(first, _)| *first == leader[nth]);
        gateways[nth].group = group.and_then(|group| u32::try_from(group).ok());
    }
    diverged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(name: &str, digest: &str, vector: &str) -> GatewayView {
        let text = |text: &str| Some(text.to_owned());
        GatewayView {
            name: name.to_owned(),
            phase: Some(Phase::Clean),
            digest: text(digest),
            vector: text(vector),
            ..GatewayView::default()
        }
    }

    fn groups(gateways: &mut [GatewayView], lag_ms: Option<u64>) -> (Vec<Option<u32>>, Option<(usize, usize)>) {
        let cell = Cell { lag_ms, ..Cell::default() };
        let known = gateways.to_vec();
        let fresh = vec![true; known.len()];
        let diverged =
            number(gateways, &fresh, |one, other| compare(&known[one], &known[other], [Some(&cell), Some(&cell)]));
        (gateways.iter().map(|gateway| gateway.group).collect(), diverged)
    }

    #[test]
    fn the_largest_group_is_the_first_and_of_two_equal_ones_that_with_the_first_gateway() {
        let mut all = [gateway("a", "1", "1"), gateway("b", "2", "2"), gateway("c", "2", "2")];
        assert_eq!(groups(&mut all, None), (vec![Some(1), Some(0), Some(0)], None));
        let mut two = [gateway("a", "1", "1"), gateway("b", "2", "2")];
        assert_eq!(groups(&mut two, None).0, [Some(0), Some(1)]);
    }

    #[test]
    fn traffic_of_the_last_second_makes_no_groups_and_older_lag_does() {
        let mut all = [gateway("a", "1", "1"), gateway("b", "2", "2")];
        assert_eq!(groups(&mut all, Some(30)).0, [Some(0), Some(0)]);
        assert_eq!(groups(&mut all, Some(1_000)).0, [Some(0), Some(1)]);
    }

    #[test]
    fn diverged_replicas_are_never_one_group_however_close_they_are_to_a_third() {
        let mut all = [gateway("a", "1", "v"), gateway("b", "2", "v"), gateway("c", "3", "w")];
        let (groups, diverged) = groups(&mut all, Some(0));
        assert_eq!(diverged, Some((0, 1)));
        assert!(groups[0] != groups[1] && groups[1] != groups[2]);
    }

    #[test]
    fn dirty_and_unknown_replicas_are_no_part_of_a_group() {
        let dirty = GatewayView { phase: Some(Phase::Dirty), digest: None, ..gateway("b", "1", "1") };
        let unknown = GatewayView { phase: None, ..gateway("c", "1", "1") };
        let mut all = [gateway("a", "1", "1"), dirty, unknown];
        assert_eq!(groups(&mut all, Some(0)).0, [Some(0), Some(1), None]);
    }
}
