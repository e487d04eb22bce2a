//! The chain store against plain lists of hashes.

use super::*;
use proptest::prelude::*;

fn hashes(values: impl IntoIterator<Item = u64>) -> Vec<BlockHash> {
    values.into_iter().map(BlockHash).collect()
}

#[test]
fn a_branch_hangs_inside_a_run_and_both_ends_resolve() {
    let (mut chains, mut changes) = (Chains::default(), Vec::new());
    let long = chains.insert(Place::ROOT, &hashes(0..40), &mut changes).expect("short enough");
    let branch: Vec<_> = hashes((0..20).chain(100..105));
    let other = chains.insert(Place::ROOT, &branch, &mut changes).expect("short enough");
    assert_eq!(chains.chain(long), hashes(0..40));
    assert_eq!(chains.chain(other), branch);
    assert_eq!(chains.parent(other.run), Place { run: long.run, blocks: 20 });
    assert_eq!(chains.resolve(chains.tip(other)), Some(other));
    assert_eq!(chains.tip(other).path, PathId::ROOT.extend(&branch));
    assert_eq!(changes.len(), 2);
}

#[test]
fn two_chains_that_share_a_64_bit_hash_stay_two_chains_p2() {
    let (mut chains, mut changes) = (Chains::default(), Vec::new());
    let a = chains.insert(Place::ROOT, &hashes([1, 7]), &mut changes).expect("short enough");
    let b = chains.insert(Place::ROOT, &hashes([2, 7]), &mut changes).expect("short enough");
    assert_ne!(chains.tip(a).path, chains.tip(b).path);
    assert_eq!(chains.chain(b), hashes([2, 7]));
}

#[test]
fn a_chain_past_the_bound_is_refused_whole() {
    let (mut chains, mut changes) = (Chains::default(), Vec::new());
    let all = hashes(0..u64::from(CHAIN_BLOCKS_MAX));
    let end = chains.insert(Place::ROOT, &all, &mut changes).expect("exactly the bound");
    assert_eq!(chains.insert(end, &hashes([1]), &mut changes), Err(TooDeep));
    assert_eq!(chains.runs() as u32, CHAIN_BLOCKS_MAX / RUN_BLOCKS_MAX);
}

#[test]
fn the_last_reference_frees_the_whole_path_hazard_16() {
    let (mut chains, mut changes) = (Chains::default(), Vec::new());
    let trunk = chains.insert(Place::ROOT, &hashes(0..10), &mut changes).expect("short enough");
    let leaf = chains.insert(trunk, &hashes(50..60), &mut changes).expect("short enough");
    chains.release(trunk.run, &mut changes);
    assert_eq!(chains.runs(), 2, "the leaf keeps its trunk");
    chains.release(leaf.run, &mut changes);
    assert_eq!((chains.runs(), chains.blocks()), (0, 0));
    assert!(chains.places.is_empty() && chains.children.is_empty());
}

proptest! {
    /// Chains over a tiny alphabet share prefixes at every kind of place; each must read back, resolve, and be
    /// describable to a peer that has any subset of the runs.
    #[test]
    fn chains_read_back_resolve_and_describe(
        all in prop::collection::vec(prop::collection::vec(0u64..3, 1..70), 1..12),
        has_bits in any::<u64>(),
    ) {
        let (mut chains, mut changes) = (Chains::default(), Vec::new());
        let mut ends = Vec::new();
        for chain in &all {
            let chain = hashes(chain.iter().copied());
            let place = chains.insert(Place::ROOT, &chain, &mut changes).expect("short enough");
            let tip = chains.name(place);
            ends.push((chain, place, tip));
        }
        for (chain, place, tip) in &ends {
            prop_assert_eq!(&chains.chain(*place), chain);
            prop_assert_eq!(chains.resolve(*tip), Some(*place));
            prop_assert_eq!(tip.path, PathId::ROOT.extend(chain));
            for depth in 0..=tip.depth {
                let above = chains.ancestor(*place, depth);
                prop_assert_eq!(chains.chain(above), &chain[..depth as usize]);
            }
            let has = |run: RunId| has_bits >> (run.0 % 64) & 1 == 1;
            // A peer that has those runs and their ancestors must be able to place the tip from the pieces alone.
            let has_path = |run: RunId| chains.ascend(Place { run, blocks: 1 }).all(|at| has(at.run));
            let (mut peer, mut peer_changes) = (Chains::default(), Vec::new());
            for (known, end, _) in &ends {
                if has_path(end.run) && chains.is_end(*end) {
                    let end = peer.insert(Place::ROOT, known, &mut peer_changes).expect("short enough");
                    peer.name(end);
                }
            }
            let known_ends = |run: RunId| has_path(run) && ends.iter().any(|(_, end, _)| end.run == run && chains.is_end(*end));
            let all_known = |run: RunId| chains.ascend(Place { run, blocks: 1 }).all(|at| known_ends(at.run));
            for (_, piece) in chains.pieces(*place, &all_known) {
                let base = peer.resolve(piece.base).expect("a base can be resolved");
                let end = peer.insert(base, &piece.hashes, &mut peer_changes).expect("short enough");
                peer.name(end);
            }
            prop_assert_eq!(&peer.chain(peer.resolve(*tip).expect("the tip can be resolved")), chain);
        }
        for (_, place, _) in &ends {
            chains.release(place.run, &mut changes);
        }
        prop_assert_eq!((chains.runs(), chains.blocks(), chains.places.len(), chains.children.len()), (0, 0, 0, 0));
    }
}
