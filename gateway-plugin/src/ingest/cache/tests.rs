//! An engine's cache by its events, against hazards that broke other readers.

use std::collections::BTreeSet;

use covey_crdt::stored::StoredLane;
use proptest::prelude::*;

use super::super::bytes::RefuseExport;
use super::super::event::ExtraKey;
use super::*;

const BLOCK: u32 = 2;

fn cache_of(rules: CacheRules) -> EngineCache {
    EngineCache::new(ModelName::new("m").expect("a name"), HashKey::ZERO, rules)
}

fn cache() -> EngineCache {
    cache_of(CacheRules::default())
}

fn net(added: usize, removed: usize) -> [(usize, usize); 1] {
    [(added, removed)]
}

fn sizes(nets: &[LaneNet]) -> Vec<(usize, usize)> {
    nets.iter().map(|net| (net.added.len(), net.removed.len())).collect()
}

const HOST: LaneId = LaneId(0b0100_0000);

fn stored(hashes: &[u64], parent: Option<u64>, tokens: &[u32]) -> Event {
    let (hashes, tokens) = (hashes.to_vec(), tokens.to_vec());
    Event::Stored(Box::new(Stored { hashes, parent, tokens, block_tokens: BLOCK, is_full: true, ..Stored::default() }))
}

fn removed(hash: u64) -> Event {
    Event::Removed(Removed { hashes: vec![hash], ..Removed::default() })
}

fn prefix(cache: &EngineCache, tokens: &[u32]) -> u32 {
    cache.prefix(&cache.chain(tokens, None, None))
}

#[test]
fn a_prompt_is_found_as_deep_as_it_was_stored() {
    let mut cache = cache();
    let changed = cache.apply(&[stored(&[10, 11], None, &[1, 2, 3, 4]), stored(&[12], Some(11), &[5, 6])]);
    assert_eq!(sizes(&changed), net(3, 0));
    let mut chain = cache.chain(&[1, 2, 3, 4, 5, 6], None, None);
    chain.sort();
    assert_eq!(changed[0].added, chain, "by our own names, sorted");
    assert_eq!(prefix(&cache, &[1, 2, 3, 4, 5, 6, 7]), 3);
    assert_eq!(prefix(&cache, &[1, 2, 9, 9]), 1);
    assert_eq!(prefix(&cache, &[9, 9]), 0);
}

#[test]
fn of_two_copies_one_removal_leaves_the_other() {
    let mut cache = cache();
    let _ = cache.apply(&[stored(&[10], None, &[1, 2]), stored(&[10], None, &[1, 2])]);
    assert_eq!(cache.apply(&[removed(10)]), [], "nothing went on balance");
    assert_eq!(prefix(&cache, &[1, 2]), 1);
    let gone = cache.apply(&[removed(10)]);
    assert_eq!((sizes(&gone), prefix(&cache, &[1, 2])), (net(0, 1).to_vec(), 0));
    let _ = cache.apply(&[removed(10)]);
    assert_eq!(cache.counts().unknown_removed, 1);
}

#[test]
fn a_child_that_comes_before_its_parent_waits_for_it() {
    let mut cache = cache();
    assert_eq!(cache.apply(&[stored(&[12], Some(11), &[5, 6]), stored(&[11], Some(10), &[3, 4])]), []);
    assert_eq!((prefix(&cache, &[1, 2, 3, 4, 5, 6]), cache.orphans()), (0, 2));
    let came = cache.apply(&[stored(&[10], None, &[1, 2])]);
    assert_eq!((sizes(&came), prefix(&cache, &[1, 2, 3, 4, 5, 6]), cache.orphans()), (net(3, 0).to_vec(), 3, 0));
}

#[test]
fn an_orphan_that_goes_waits_no_more() {
    let mut cache = cache();
    let _ = cache.apply(&[stored(&[12], Some(11), &[5, 6]), removed(12)]);
    assert_eq!(cache.orphans(), 0);
    let _ = cache.apply(&[stored(&[10, 11], None, &[1, 2, 3, 4])]);
    assert_eq!(prefix(&cache, &[1, 2, 3, 4, 5, 6]), 2);
}

#[test]
fn a_hole_ends_the_prefix_until_it_is_filled_again() {
    let mut cache = cache();
    let _ = cache.apply(&[stored(&[10, 11, 12], None, &[1, 2, 3, 4, 5, 6]), removed(11)]);
    assert_eq!(prefix(&cache, &[1, 2, 3, 4, 5, 6]), 1);
    let _ = cache.apply(&[stored(&[11], Some(10), &[3, 4])]);
    assert_eq!(prefix(&cache, &[1, 2, 3, 4, 5, 6]), 3);
}

#[test]
fn salts_and_adapters_keep_prompts_apart() {
    let mut cache = cache();
    let salted = |salt: &str| {
        let extra = vec![Some(ExtraKey::salt(salt)), None];
        let of = Stored {
            hashes: vec![20, 21],
            tokens: vec![1, 2, 3, 4],
            block_tokens: BLOCK,
            is_full: true,
            extra,
            ..Stored::default()
        };
        Event::Stored(Box::new(of))
    };
    let _ = cache.apply(&[salted("tenant-1")]);
    let of = |salt: Option<&str>| cache.prefix(&cache.chain(&[1, 2, 3, 4], None, salt));
    assert_eq!([of(Some("tenant-1")), of(Some("tenant-2")), of(None)], [2, 0, 0]);
    assert_ne!(cache.chain(&[1, 2], Some("ad"), None), cache.chain(&[1, 2], None, None));
}

#[test]
fn media_are_kept_apart_and_a_reset_empties_all() {
    let mut cache = cache();
    let host = |event: Event| match event {
        Event::Stored(of) => Event::Stored(Box::new(Stored { medium: Medium::Host, ..*of })),
        Event::Removed(_) | Event::Cleared | Event::Unknown => panic!("a store"),
    };
    let _ = cache.apply(&[stored(&[10], None, &[1, 2]), host(stored(&[10], None, &[1, 2]))]);
    let _ = cache.apply(&[removed(10)]);
    assert_eq!((prefix(&cache, &[1, 2]), cache.blocks(HOST), cache.blocks(LaneId::PLAIN)), (0, 1, 0));
    let gone = cache.apply(&[Event::Cleared]);
    assert_eq!((sizes(&gone), gone[0].lane, cache.blocks(HOST)), (net(0, 1).to_vec(), HOST, 0));
}

#[test]
fn sparse_partial_and_foreign_stores_are_counted_and_place_nothing() {
    let mut cache = cache_of(CacheRules { block_tokens: Some(BLOCK), ..CacheRules::default() });
    let sparse = stored(&[10], None, &[1, 2, 3, 4]);
    let partial = stored(&[11], None, &[1]);
    let empty = stored(&[], None, &[1, 2]);
    let window = match stored(&[12], None, &[1, 2]) {
        Event::Stored(of) => Event::Stored(Box::new(Stored { is_full: false, group: 1, ..*of })),
        Event::Removed(_) | Event::Cleared | Event::Unknown => panic!("a store"),
    };
    assert_eq!(cache.apply(&[sparse, partial, empty, window]), []);
    let counts = cache.counts();
    assert_eq!((counts.sparse, counts.partial, counts.other_group), (1, 1, 1));
    assert_eq!(prefix(&cache, &[1, 2, 3, 4]), 0);
}

/// A step of a physical cache with two prompts of four blocks: store so many copies of a block, or remove one.
#[derive(Clone, Copy, Debug)]
enum Step {
    Store(usize, usize),
    Remove(usize, usize),
    Clear,
}

proptest! {
    /// A block is held exactly while a copy is, whatever the order of copies, evictions, early children and resets.
    #[test]
    fn what_is_held_is_what_has_a_copy(steps in prop::collection::vec(prop_oneof![
        8 => (0..2_usize, 0..4_usize).prop_map(|(prompt, block)| Step::Store(prompt, block)),
        4 => (0..2_usize, 0..4_usize).prop_map(|(prompt, block)| Step::Remove(prompt, block)),
        1 => Just(Step::Clear),
    ], 0..60)) {
        let tokens = |prompt: usize| (0..8).map(|nth| (prompt * 100 + nth) as u32).collect::<Vec<u32>>();
        let hash = |prompt: usize, block: usize| (prompt * 10 + block + 1) as u64;
        let mut cache = cache();
        let mut copies = [[0_u32; 4]; 2];
        let mut shown = BTreeSet::new();
        // A place is known once every block before it was announced since the last reset.
        for step in steps {
            let event = match step {
                Step::Store(prompt, block) => {
                    copies[prompt][block] += 1;
                    let parent = block.checked_sub(1).map(|before| hash(prompt, before));
                    stored(&[hash(prompt, block)], parent, &tokens(prompt)[2 * block..2 * block + 2])
                }
                Step::Remove(prompt, block) => {
                    copies[prompt][block] = copies[prompt][block].saturating_sub(1);
                    removed(hash(prompt, block))
                }
                Step::Clear => {
                    copies = [[0; 4]; 2];
                    Event::Cleared
                }
            };
            for net in cache.apply(&[event]) {
                prop_assert!(net.added.iter().all(|block| shown.insert(*block)), "{net:?} was said before");
                prop_assert!(net.removed.iter().all(|block| shown.remove(block)), "{net:?} was said before");
            }
            let shown: Vec<BlockHash> = shown.iter().copied().collect();
            let contents = cache.contents().pop().map_or_else(Vec::new, |net| net.added);
            prop_assert_eq!(contents, shown);
            // Handed off at any moment, the state says the same of what follows, because it is the same.
            let mut other = self::cache();
            other.import(&cache.export()).expect("just exported");
            prop_assert_eq!(other.export(), cache.export());
            prop_assert_eq!(other.contents(), cache.contents());
            for prompt in 0..2 {
                let held = copies[prompt].iter().take_while(|copies| **copies > 0).count();
                prop_assert_eq!(prefix(&cache, &tokens(prompt)) as usize, held);
            }
        }
        prop_assert_eq!(shown.len(), cache.blocks(LaneId::PLAIN));
    }
}

#[test]
fn a_report_of_reuse_is_no_copy_once_the_engine_shows_that_it_makes_them() {
    let mut cache = cache();
    let prompt = &[1, 2, 3, 4, 5, 6];
    let (first, other) = (stored(&[10, 11], None, &prompt[..4]), stored(&[20, 21], None, &[8, 8, 9, 9]));
    let _ = cache.apply(&[first.clone(), other.clone()]);
    // Repeats from the root, alone: they may be second copies, and count as such.
    let _ = cache.apply(&[first.clone(), other.clone()]);
    let _ = cache.apply(&[removed(20), removed(21)]);
    assert_eq!((prefix(&cache, prompt), prefix(&cache, &[8, 8, 9, 9]), cache.counts().repeats), (2, 2, 2));
    // Once or twice is chance.
    for nth in 1..super::reuse::REUSE_SIGNS_MIN {
        let more = stored(&[100 + u64::from(nth)], Some(11), &[50 + nth, 60]);
        let _ = cache.apply(&[first.clone(), more]);
        assert_eq!(prefix(&cache, &[8, 8, 9, 9]), 2);
    }
    // A repeat, and right behind it in the same batch what was computed on top of it: that is a report of a reuse.
    let changed = cache.apply(&[first.clone(), stored(&[12], Some(11), &prompt[4..])]);
    assert_eq!(sizes(&changed), net(1, 2), "the doubtful copies of the other prompt never were");
    assert_eq!(prefix(&cache, prompt), 3);
    let _ = cache.apply(std::slice::from_ref(&first));
    let _ = cache.apply(&[first, removed(10)]);
    assert_eq!(prefix(&cache, prompt), 0, "repeats count for nothing from now on");
}

#[test]
fn a_report_of_reuse_proves_that_its_blocks_are_held() {
    let mut cache = cache();
    let first = stored(&[10, 11], None, &[1, 2, 3, 4]);
    let _ = cache.apply(&[first.clone(), first.clone(), removed(10), removed(11)]);
    assert_eq!(sizes(&cache.apply(&[first, stored(&[12], Some(11), &[5, 6])])), net(1, 0));
    assert_eq!(prefix(&cache, &[1, 2, 3, 4, 5, 6]), 3);
}

#[test]
fn a_prompt_of_one_block_that_is_computed_again_shows_no_reuse() {
    let mut cache = cache();
    let _ = cache.apply(&[stored(&[10], None, &[1, 2])]);
    // Two requests in one batch: the last block of a fully cached prompt is computed anew, and another prompt goes on behind it.
    let _ = cache.apply(&[stored(&[10], None, &[1, 2]), stored(&[11], Some(10), &[3, 4]), removed(10)]);
    assert_eq!(prefix(&cache, &[1, 2, 3, 4]), 2, "the other copy is there");
}

#[test]
fn an_engine_that_reports_only_the_last_removal_is_believed_when_it_is_known_to() {
    let twice = [stored(&[10], None, &[1, 2]), stored(&[10], None, &[1, 2]), removed(10)];
    let mut each = cache();
    let _ = each.apply(&twice);
    let mut last = cache_of(CacheRules { copies: CopyReports::Last, ..CacheRules::default() });
    let _ = last.apply(&twice);
    assert_eq!((prefix(&each, &[1, 2]), prefix(&last, &[1, 2])), (1, 0));
    for cache in [&mut each, &mut last] {
        let _ = cache.apply(&[removed(10), removed(10), removed(10), stored(&[10], None, &[1, 2])]);
        assert_eq!(prefix(cache, &[1, 2]), 1, "removals of nothing leave no debt");
    }
}

#[test]
fn a_group_stores_in_its_own_lane_and_is_looked_up_there() {
    let mut cache = cache();
    let Event::Stored(of) = stored(&[10], None, &[1, 2]) else { panic!("a store") };
    let in_group = |group: u32| Event::Stored(Box::new(Stored { group, ..(*of).clone() }));
    let nets = cache.apply(&[in_group(5), in_group(70), in_group(3_000_000)]);
    assert_eq!((nets.len(), nets[0].lane, prefix(&cache, &[1, 2])), (1, LaneId(5), 1));
    assert_eq!(cache.counts().other_group, 2, "no lane has such a number");
    let nets = cache.apply(&[in_group(0), removed(10)]);
    assert_eq!((nets.len(), prefix(&cache, &[1, 2])), (0, 1), "another group's copy is another lane's");
}

#[test]
fn after_a_gap_nothing_is_claimed_but_what_a_later_store_proves() {
    let mut cache = cache();
    let prompt = &[1, 2, 3, 4, 5, 6, 7, 8];
    let _ = cache.apply(&[stored(&[10, 11, 12], None, &prompt[..6])]);
    cache.doubt();
    assert_eq!((prefix(&cache, prompt), cache.is_whole(), cache.contents()), (0, false, vec![]));
    let came = cache.apply(&[stored(&[13], Some(11), &[9, 9])]);
    assert_eq!((sizes(&came), prefix(&cache, prompt)), (net(3, 0).to_vec(), 2), "its parents, not its sibling");
    let _ = cache.apply(&[removed(12), removed(11)]);
    assert_eq!(prefix(&cache, prompt), 1);
    let _ = cache.apply(&[stored(&[14], Some(12), &prompt[6..])]);
    assert_eq!((prefix(&cache, prompt), cache.orphans()), (1, 1), "a name that is gone is not known");
    let _ = cache.apply(&[Event::Cleared]);
    assert!(cache.is_whole());
}

#[test]
fn orphans_are_bounded_and_what_is_beyond_is_said_to_be_missing() {
    let mut cache = cache_of(CacheRules { block_tokens: Some(BLOCK), ..CacheRules::default() });
    let most = orphans::ORPHANS_MAX as u64;
    let events: Vec<Event> = (0..most + 5).map(|nth| stored(&[1 + nth], Some(u64::MAX - nth), &[1, 2])).collect();
    assert_eq!(cache.apply(&events), []);
    assert_eq!((cache.orphans() as u64, cache.counts().over_bound, cache.is_whole()), (most, 5, false));
}

#[test]
fn large_effects_are_several_parts_with_removals_first() {
    let mut cache = cache();
    let many = |from: u64, count: u64| -> Vec<Event> {
        (from..from + count).map(|nth| stored(&[nth], None, &[nth as u32, 7])).collect()
    };
    let _ = cache.apply(&many(1, 5_000));
    let mut events = vec![Event::Cleared];
    events.extend(many(6_000, 5_000));
    let parts = split(&cache.apply(&events), cache.keyspace());
    let count = |part: &[StoredLane]| part.iter().map(|of| (of.added.len(), of.removed.len())).collect::<Vec<_>>();
    let counts: Vec<_> = parts.iter().map(|part| count(part)).collect();
    assert_eq!(counts, [vec![(0, 4_096)], vec![(3_192, 904)], vec![(1_808, 0)]]);
    assert_eq!(split(&[], cache.keyspace()), vec![Vec::new()], "a batch without effect is one empty part");
}

#[test]
fn hostile_exports_are_refused_before_anything_is_made_of_them() {
    let mut cache = cache();
    let _ = cache.apply(&[stored(&[10, 11], None, &[1, 2, 3, 4]), stored(&[12], Some(9), &[5, 6])]);
    let good = cache.export();
    for cut in 0..good.len() {
        assert!(self::cache().import(&good[..cut]).is_err(), "{cut}");
    }
    let longer = [&good[..], &[0]].concat();
    assert_eq!(self::cache().import(&longer), Err(RefuseExport::Malformed));
    let mut newer = good.clone();
    newer[0] = 9;
    assert_eq!(self::cache().import(&newer), Err(RefuseExport::Version { version: 9 }));
    let mut keyed =
        EngineCache::new(ModelName::new("m").expect("a name"), HashKey::new([1; 32]), CacheRules::default());
    assert_eq!(keyed.import(&good), Err(RefuseExport::Other));
    let mut other = EngineCache::new(ModelName::new("n").expect("a name"), HashKey::ZERO, CacheRules::default());
    assert_eq!(other.import(&good), Err(RefuseExport::Other));
}

proptest! {
    /// Damaged exports either are refused or make a state that exports what it was made of.
    #[test]
    fn damaged_exports_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut cache = cache();
        let _ = cache.apply(&[stored(&[10, 11], None, &[1, 2, 3, 4]), stored(&[12], Some(9), &[5, 6]), removed(11)]);
        let mut bytes = cache.export();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut other = self::cache();
        if other.import(&bytes).is_ok() {
            prop_assert_eq!(other.export(), bytes);
        }
    }
}
