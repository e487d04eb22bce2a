//! An engine's cache by its events, against hazards that broke other readers.

use covey_crdt::id::ModelName;
use covey_crdt::keyspace::Unit;
use proptest::prelude::*;

use super::*;

const BLOCK: u32 = 2;

fn cache() -> EngineCache {
    let model = ModelName::new("m").expect("a name");
    let keyspace = Keyspace::new(model, Unit::Tokens, BLOCK, HashKey::ZERO.id()).expect("a block size");
    EngineCache::new(Arc::new(keyspace), HashKey::ZERO)
}

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
    let net = cache.apply(&[stored(&[10, 11], None, &[1, 2, 3, 4]), stored(&[12], Some(11), &[5, 6])]);
    assert_eq!(net.iter().map(|net| (net.depth, net.came)).collect::<Vec<_>>().len(), 3);
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
    assert!(gone.len() == 1 && !gone[0].came && prefix(&cache, &[1, 2]) == 0);
    let _ = cache.apply(&[removed(10)]);
    assert_eq!(cache.counts().unknown_removed, 1);
}

#[test]
fn a_child_that_comes_before_its_parent_waits_for_it() {
    let mut cache = cache();
    assert_eq!(cache.apply(&[stored(&[12], Some(11), &[5, 6]), stored(&[11], Some(10), &[3, 4])]), []);
    assert_eq!((prefix(&cache, &[1, 2, 3, 4, 5, 6]), cache.orphans()), (0, 2));
    let net = cache.apply(&[stored(&[10], None, &[1, 2])]);
    assert_eq!((net.len(), prefix(&cache, &[1, 2, 3, 4, 5, 6]), cache.orphans()), (3, 3, 0));
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
    assert_eq!((prefix(&cache, &[1, 2]), cache.blocks(Medium::Host), cache.blocks(Medium::Device)), (0, 1, 0));
    let net = cache.apply(&[Event::Cleared]);
    assert_eq!((net.len(), cache.blocks(Medium::Host)), (1, 0));
}

#[test]
fn sparse_partial_and_foreign_stores_are_counted_and_place_nothing() {
    let mut cache = cache();
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
                let is_news = if net.came { shown.insert(net.path) } else { shown.remove(&net.path) };
                prop_assert!(is_news, "{net:?} was said before");
            }
            for prompt in 0..2 {
                let held = copies[prompt].iter().take_while(|copies| **copies > 0).count();
                prop_assert_eq!(prefix(&cache, &tokens(prompt)) as usize, held);
            }
        }
        prop_assert_eq!(shown.len(), cache.blocks(Medium::Device));
    }
}
