//! Histories: what a handful of gateways with bad clocks could have written about a handful of restless workers.
//!
//! A strategy draws a list of small actions, which shrink well; [`History::build`] plays them into ops. Stamps are unique
//! and rise within a life, but clocks are skewed and readings tie across lives. Blocks come from a tiny alphabet, so
//! chains branch at every kind of place and one 64-bit name stands under many paths.

use std::sync::Arc;

use covey_crdt::chain::Tip;
use covey_crdt::hash::{BlockHash, BlockHasher, HashKey, PathId};
use covey_crdt::id::{GatewayName, Incarnation, LifeId, ModelName, Token, WorkerId};
use covey_crdt::keyspace::{HashKeyId, Keyspace, Unit};
use covey_crdt::lane::{LaneId, LaneKind, LaneMeta};
use covey_crdt::op::{FloorRaise, Op, Touch, WorkerUpdate};
use covey_crdt::stamp::{Floor, Hlc, Rank, Stamp, WallMs};
use covey_crdt::worker::WorkerMeta;
use proptest::prelude::*;

use crate::reference::Entry;

const LIVES: usize = 3;

/// How wild a history is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) actions_max: usize,
    /// Blocks in a fresh chain.
    pub(crate) chain_blocks_max: usize,
    /// Tokens of capacity an update may carry; keyspaces have 16 tokens and 32 bytes a block.
    pub(crate) capacity_tokens_max: u64,
    pub(crate) naming: Naming,
}

/// How blocks get their 64-bit names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Naming {
    /// The block's letter itself: every path of the same last letter shares one name.
    Letters,
    /// The real keyed hash of the text so far, cut to this many bits.
    CutHash(u32),
}

/// Tight caches, short chains: the cut works at every step.
pub(crate) const TIGHT: Shape =
    Shape { actions_max: 40, chain_blocks_max: 9, capacity_tokens_max: 130, naming: Naming::Letters };
/// Long chains over several runs and anchors, caches of a few dozen blocks.
pub(crate) const LONG: Shape =
    Shape { actions_max: 30, chain_blocks_max: 70, capacity_tokens_max: 2_000, naming: Naming::Letters };
/// Real hashes cut to 16 bits.
pub(crate) const CUT_16: Shape =
    Shape { actions_max: 40, chain_blocks_max: 24, capacity_tokens_max: 600, naming: Naming::CutHash(16) };
/// Real hashes cut to 3 bits: siblings collide as well.
pub(crate) const CUT_3: Shape =
    Shape { actions_max: 40, chain_blocks_max: 24, capacity_tokens_max: 600, naming: Naming::CutHash(3) };

/// Which op; every index is taken modulo what there is.
#[derive(Clone, Debug)]
enum Deed {
    /// A fresh chain.
    Touch(Vec<u8>),
    /// The chain of an earlier touch, kept up to a depth and extended.
    Again { earlier: prop::sample::Index, keep: u32, more: Vec<u8> },
    /// A floor at the stamp of an earlier touch: whole, or at a depth inside it.
    Floor { earlier: prop::sample::Index, depth: u32 },
    /// A floor at the op's own stamp, as a reset is.
    Reset,
    /// A worker update.
    Update { capacity_tokens: Option<u64>, rules: Option<u16> },
}

#[derive(Clone, Debug)]
struct Action {
    life: usize,
    worker: usize,
    keyspace: usize,
    incarnation: usize,
    wait_ms: u64,
    deed: Deed,
}

/// A set of ops in the order they were written, each log in its own order.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) entries: Vec<Entry>,
}

fn letters(max: usize) -> impl Strategy<Value = Vec<u8>> {
    // Mostly one letter, so that long prefixes are shared and then left.
    prop::collection::vec(prop_oneof![6 => Just(0u8), 2 => Just(1), 1 => Just(2)], 1..=max)
}

fn deed(shape: Shape) -> impl Strategy<Value = Deed> {
    let again = (any::<prop::sample::Index>(), 0..=shape.chain_blocks_max as u32, letters(4), any::<bool>()).prop_map(
        |(earlier, keep, more, extend)| Deed::Again { earlier, keep, more: if extend { more } else { vec![] } },
    );
    let floor = (any::<prop::sample::Index>(), prop_oneof![Just(0), 1..=shape.chain_blocks_max as u32])
        .prop_map(|(earlier, depth)| Deed::Floor { earlier, depth });
    let update = (prop::option::weighted(0.7, 1..=shape.capacity_tokens_max), prop::option::of(0u16..4))
        .prop_map(|(capacity_tokens, rules)| Deed::Update { capacity_tokens, rules });
    prop_oneof![
        8 => letters(shape.chain_blocks_max).prop_map(Deed::Touch),
        8 => again,
        2 => floor,
        1 => Just(Deed::Reset),
        3 => update,
    ]
}

fn action(shape: Shape) -> impl Strategy<Value = Action> {
    let worker = prop_oneof![4 => Just(0usize), 1 => Just(1)];
    let keyspace = prop_oneof![4 => Just(0usize), 1 => Just(1)];
    // One incarnation is the usual one; stale ones, a counter tie, a later one and removals are rare.
    let incarnation = prop_oneof![40 => Just(2usize), 2 => 0usize..2, 1 => 3usize..7];
    (0..LIVES, worker, keyspace, incarnation, 0u64..3, deed(shape)).prop_map(
        |(life, worker, keyspace, incarnation, wait_ms, deed)| Action {
            life,
            worker,
            keyspace,
            incarnation,
            wait_ms,
            deed,
        },
    )
}

/// Histories of a shape.
pub(crate) fn history(shape: Shape) -> impl Strategy<Value = History> {
    let clocks = prop::collection::vec((0u64..12, prop_oneof![3 => Just(0u16), 1 => Just(u16::MAX - 1)]), LIVES);
    let leaves = prop::collection::vec(any::<bool>(), LIVES);
    (clocks, leaves, prop::collection::vec(action(shape), 1..=shape.actions_max))
        .prop_map(move |(clocks, leaves, actions)| History::build(shape.naming, &clocks, &leaves, &actions))
}

/// The life `nth`.
pub(crate) fn life(nth: usize) -> LifeId {
    LifeId(0x1000_0000_0000_0000_0000_0000_0000_0000 * (nth as u128 + 1) + 7)
}

/// The worker `nth`.
pub(crate) fn worker(nth: usize) -> WorkerId {
    WorkerId::new(&format!("http://10.0.0.{}:8000", nth + 1), nth as u16).expect("a printable name")
}

/// A token keyspace of 16 tokens a block, or a byte keyspace of 32 bytes.
pub(crate) fn keyspace(nth: usize) -> Arc<Keyspace> {
    let (unit, block_units) = if nth == 0 { (Unit::Tokens, 16) } else { (Unit::Bytes, 32) };
    let model = ModelName::new("model").expect("a printable name");
    Arc::new(Keyspace::new(model, unit, block_units, HashKeyId(0)).expect("a block size"))
}

/// In rising order: unknown, a first life, its rival of the same counter, the next, its rival, a removal, a life after it.
pub(crate) fn incarnation(nth: usize) -> Incarnation {
    let token = |text| Token::new(text).expect("a printable token");
    let (counter, token) = match nth {
        0 => return Incarnation::unknown(),
        1 => (1, token("a")),
        2 => (1, token("b")),
        3 => (2, token("a")),
        4 => (2, token("c")),
        5 => (3, Token::removed()),
        _ => (4, token("a")),
    };
    Incarnation { counter, token }
}

/// The reading `ms`, `counter` of life `nth`.
pub(crate) fn stamp(ms: u64, counter: u16, nth: usize) -> Stamp {
    Stamp { hlc: Hlc::new(ms, counter), life: life(nth) }
}

fn name_blocks(naming: Naming, letters: &[u8]) -> Vec<BlockHash> {
    match naming {
        Naming::Letters => letters.iter().map(|letter| BlockHash(u64::from(*letter))).collect(),
        Naming::CutHash(bits) => {
            let mut out = Vec::new();
            let mut hasher = BlockHasher::new(&keyspace(0), &HashKey::ZERO, b"");
            hasher.tokens(&letters.iter().flat_map(|letter| [u32::from(*letter); 16]).collect::<Vec<_>>(), &mut out);
            out.into_iter().map(|hash| BlockHash(hash.0 & ((1 << bits) - 1))).collect()
        }
    }
}

/// How an op names a chain.
pub(crate) fn tip(chain: &[BlockHash]) -> Tip {
    Tip { path: chain.iter().fold(PathId::ROOT, |path, hash| path.child(*hash)), depth: chain.len() as u32 }
}

struct Building {
    naming: Naming,
    clocks: Vec<Hlc>,
    walls: Vec<u64>,
    touched: Vec<(Stamp, Vec<u8>)>,
    entries: Vec<Entry>,
}

impl History {
    fn build(naming: Naming, clocks: &[(u64, u16)], leaves: &[bool], actions: &[Action]) -> Self {
        let mut building = Building {
            naming,
            clocks: clocks.iter().map(|(skew, counter)| Hlc::new(1_000 + skew, *counter)).collect(),
            walls: clocks.iter().map(|(skew, _)| 1_000 + skew).collect(),
            touched: Vec::new(),
            entries: Vec::new(),
        };
        for nth in 0..LIVES {
            let name = GatewayName::new(&format!("gateway-{nth}")).expect("a printable name");
            building.push(nth, Op::Joined { name }, &[]);
        }
        for action in actions {
            building.act(action);
        }
        for (nth, leaves) in leaves.iter().enumerate() {
            if *leaves {
                building.push(nth, Op::Left, &[]);
            }
        }
        Self { entries: building.entries }
    }
}

impl Building {
    fn push(&mut self, nth: usize, op: Op, chain: &[BlockHash]) {
        assert!(op.belongs_to(life(nth)), "a generated op stands in the log of who wrote it");
        self.entries.push(Entry { life: life(nth), op, chain: Arc::from(chain) });
    }

    fn act(&mut self, action: &Action) {
        let nth = action.life;
        self.walls[nth] += action.wait_ms;
        self.clocks[nth] = self.clocks[nth].tick(WallMs(self.walls[nth]));
        let stamp = Stamp { hlc: self.clocks[nth], life: life(nth) };
        match &action.deed {
            Deed::Touch(letters) => self.touch(action, stamp, letters.clone()),
            Deed::Again { earlier, keep, more } => {
                let mut letters = self.earlier(*earlier).map_or_else(|| vec![0], |(_, letters)| letters.clone());
                letters.truncate((*keep as usize).max(1));
                letters.extend_from_slice(more);
                self.touch(action, stamp, letters);
            }
            Deed::Floor { earlier, depth } => {
                let at = self.earlier(*earlier).map_or(stamp, |(at, _)| *at).min(stamp);
                self.floor(action, stamp, Rank { stamp: at, depth: *depth });
            }
            Deed::Reset => self.floor(action, stamp, Floor::whole(stamp)),
            Deed::Update { capacity_tokens, rules } => {
                let op = Op::Worker(WorkerUpdate {
                    worker: worker(action.worker),
                    incarnation: incarnation(action.incarnation),
                    capacity_tokens: *capacity_tokens,
                    meta: rules.map(|rules| meta(stamp, rules)),
                    stamp,
                });
                self.push(nth, op, &[]);
            }
        }
    }

    fn earlier(&self, nth: prop::sample::Index) -> Option<&(Stamp, Vec<u8>)> {
        (!self.touched.is_empty()).then(|| nth.get(&self.touched))
    }

    fn touch(&mut self, action: &Action, stamp: Stamp, letters: Vec<u8>) {
        let chain = name_blocks(self.naming, &letters);
        let op = Op::Touch(Touch {
            worker: worker(action.worker),
            keyspace: keyspace(action.keyspace),
            incarnation: incarnation(action.incarnation),
            tip: tip(&chain),
            stamp,
        });
        self.touched.push((stamp, letters));
        self.push(action.life, op, &chain);
    }

    fn floor(&mut self, action: &Action, stamp: Stamp, floor: Floor) {
        let op = Op::Floor(FloorRaise {
            worker: worker(action.worker),
            keyspace: keyspace(action.keyspace),
            incarnation: incarnation(action.incarnation),
            floor,
            stamp,
        });
        self.push(action.life, op, &[]);
    }
}

/// Meta set at `stamp`.
pub(crate) fn meta(stamp: Stamp, rules: u16) -> WorkerMeta {
    let lane = |lane| LaneMeta {
        lane: LaneId(lane),
        kind: LaneKind::from_byte(lane),
        window_tokens: u32::from(lane) * 128,
        block_tokens: 16,
    };
    WorkerMeta {
        stamp,
        rules,
        lanes: (0..rules as u8).map(lane).collect(),
        labels: (0..rules).map(|nth| Arc::from(format!("zone={nth}"))).collect(),
    }
}
