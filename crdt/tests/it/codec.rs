//! Wire columns: what goes in comes out, no bytes whatever break the reader, and the layout is the one on file.

use std::collections::BTreeMap;
use std::sync::Arc;

use covey_crdt::chain::{ChainPiece, Tip};
use covey_crdt::codec::{
    DecodeError, decode_chains, decode_cursor, decode_ops, decode_slice, encode_chains, encode_cursor, encode_ops,
    encode_slice,
};
use covey_crdt::hash::{BlockHash, PathId};
use covey_crdt::id::{GatewayName, LifeId, WorkerId};
use covey_crdt::lane::LaneId;
use covey_crdt::limits::CHAIN_BLOCKS_MAX;
use covey_crdt::lives::LifeRecord;
use covey_crdt::op::{FloorRaise, Forget, LifeEnd, Op, Touch, WorkerUpdate};
use covey_crdt::replica::Replica;
use covey_crdt::slice::{Cursor, HolderSlice, Slice};
use covey_crdt::stamp::{Rank, Stamp};
use covey_crdt::worker::WorkerRecord;
use proptest::prelude::*;

use crate::generate::{self, History, LONG, TIGHT, incarnation, keyspace, life, meta, stamp, worker};

/// The ops of each log, in its order.
fn logs(history: &History) -> BTreeMap<LifeId, Vec<Op>> {
    let mut logs: BTreeMap<LifeId, Vec<Op>> = BTreeMap::new();
    for entry in &history.entries {
        logs.entry(entry.life).or_default().push(entry.op.clone());
    }
    logs
}

fn replica_of(history: &History) -> Replica {
    let mut replica = Replica::default();
    for entry in &history.entries {
        let (place, _) = replica.learn_chain(&entry.chain).expect("short enough");
        let _ = replica.apply(entry.life, &entry.op).expect("its content has just been learned");
        replica.release(place);
    }
    replica
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn ops_round_trip_alone_and_in_batches(history in generate::history(TIGHT)) {
        for (life, ops) in logs(&history) {
            prop_assert_eq!(decode_ops(&encode_ops(&ops), life), Ok(ops.clone()));
            for op in &ops {
                let alone = encode_ops([op]);
                let back = decode_ops(&alone, life).expect("our own bytes");
                prop_assert_eq!(&back, std::slice::from_ref(op));
                prop_assert_eq!(encode_ops(&back), alone, "one op has one form");
            }
        }
    }

    #[test]
    fn slices_cursors_and_chains_round_trip(history in generate::history(LONG), budget_bytes in 1usize..2_000) {
        let replica = replica_of(&history);
        let mut cursor = Cursor::Start;
        loop {
            prop_assert_eq!(decode_cursor(&encode_cursor(&cursor)), Ok(cursor.clone()));
            let piece = replica.piece(&cursor, budget_bytes, &|_| false);
            prop_assert_eq!(decode_slice(&encode_slice(&piece.slice)), Ok(piece.slice.clone()));
            prop_assert_eq!(decode_chains(&encode_chains(&piece.chains)), Ok(piece.chains.clone()));
            let Some(next) = piece.slice.next else { break };
            cursor = next;
        }
    }

    /// Whatever a broken or hostile member makes of real bytes parses or is refused; what parses is small, merges, and
    /// leaves the replica consistent.
    #[test]
    fn flipped_and_cut_bytes_are_refused_or_are_values(
        history in generate::history(TIGHT),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        keep in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let damage = |bytes: Vec<u8>| {
            let mut bytes = bytes;
            if bytes.is_empty() {
                return bytes;
            }
            for (at, value) in &flips {
                let at = at.index(bytes.len());
                bytes[at] ^= value;
            }
            if cut {
                bytes.truncate(keep.index(bytes.len()));
            }
            bytes
        };
        let mut replica = replica_of(&history);
        let held: Vec<_> = history
            .entries
            .iter()
            .map(|entry| replica.learn_chain(&entry.chain).expect("short enough").0)
            .collect();
        for (life, ops) in logs(&history) {
            let bytes = damage(encode_ops(&ops));
            for op in try_ops(&bytes, life).iter().flatten() {
                let _ = replica.apply(life, op);
                prop_assert!(replica.is_consistent());
            }
        }
        let piece = replica.piece(&Cursor::Start, 4_096, &|_| false);
        for chain in try_chains(&damage(encode_chains(&piece.chains))).iter().flatten() {
            if let Ok(Some(place)) = replica.learn(chain) {
                replica.release(place);
            }
        }
        if let Ok(slice) = try_slice(&damage(encode_slice(&piece.slice))) {
            let _ = replica.merge_slice(&slice);
            if let Some(cursor) = &slice.next {
                let _ = replica.piece(cursor, 4_096, &|_| false);
            }
        }
        if let Ok(cursor) = decode_cursor(&damage(encode_cursor(&piece.slice.next.unwrap_or_default()))) {
            let _ = replica.piece(&cursor, 4_096, &|_| false);
        }
        held.into_iter().for_each(|place| replica.release(place));
        prop_assert!(replica.is_consistent());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]
    #[test]
    fn garbage_is_refused_or_is_a_value(bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..400)) {
        let _ = (try_ops(&bytes, life(0)), try_chains(&bytes), try_slice(&bytes), decode_cursor(&bytes));
    }
}

#[test]
fn a_blob_cut_anywhere_is_refused_or_holds_a_prefix_of_its_rows() {
    let (ops, slice, cursor, chains) = (golden_ops(), golden_slice(), golden_cursor(), golden_chains());
    for keep in 0..encode_ops(&ops).len() {
        if let Ok(fewer) = decode_ops(&encode_ops(&ops)[..keep], life(0)) {
            assert_eq!(fewer, ops[..fewer.len()]);
        }
    }
    for keep in 0..encode_chains(&chains).len() {
        if let Ok(fewer) = decode_chains(&encode_chains(&chains)[..keep]) {
            assert_eq!(fewer, chains[..fewer.len()]);
        }
    }
    for keep in 0..encode_slice(&slice).len() {
        assert!(decode_slice(&encode_slice(&slice)[..keep]).is_err(), "{keep} bytes");
    }
    for keep in 0..encode_cursor(&cursor).len() {
        assert!(decode_cursor(&encode_cursor(&cursor)[..keep]).is_err(), "{keep} bytes");
    }
    let longer = |bytes: Vec<u8>| [bytes, vec![0]].concat();
    assert!(decode_slice(&longer(encode_slice(&slice))).is_err(), "trailing bytes");
    assert!(decode_cursor(&longer(encode_cursor(&cursor))).is_err(), "trailing bytes");
}

/// The rows of a decoded value may take this many times the bytes they came from, and one row more (I9). The dearest
/// is a worker update that sets nothing: 21 bytes.
const SWELL_MAX: usize = 10;

fn check_swell(rows: usize, row_bytes: usize, bytes: &[u8]) {
    let swollen = rows * row_bytes;
    assert!(swollen <= SWELL_MAX * bytes.len() + row_bytes, "{rows} rows take {swollen} bytes, from {}", bytes.len());
}

fn try_ops(bytes: &[u8], life: LifeId) -> Result<Vec<Op>, DecodeError> {
    let ops = decode_ops(bytes, life)?;
    check_swell(ops.len(), size_of::<Op>(), bytes);
    assert!(ops.iter().all(|op| op.belongs_to(life)));
    Ok(ops)
}

fn try_chains(bytes: &[u8]) -> Result<Vec<ChainPiece>, DecodeError> {
    let chains = decode_chains(bytes)?;
    check_swell(chains.len(), size_of::<ChainPiece>(), bytes);
    assert!(chains.iter().all(|chain| chain.base.depth as usize + chain.hashes.len() <= CHAIN_BLOCKS_MAX as usize));
    Ok(chains)
}

fn try_slice(bytes: &[u8]) -> Result<Slice, DecodeError> {
    let slice = decode_slice(bytes)?;
    check_swell(slice.lives.len(), size_of::<(LifeId, LifeRecord)>(), bytes);
    check_swell(slice.holders.len(), size_of::<HolderSlice>(), bytes);
    check_swell(slice.workers.len(), size_of::<(WorkerId, WorkerRecord)>(), bytes);
    Ok(slice)
}

/// The cheapest row of each kind, as many as fit into a frame: decoding them must not cost a multiple of the frame.
#[test]
fn i9_a_frame_of_the_cheapest_rows_does_not_swell() {
    let blob = |rows: &[u8]| [&[0; 8], rows].concat();
    let lefts = blob(&[2; 10_000]);
    assert!(try_ops(&lefts, life(0)).is_err(), "nothing follows the end of a log");
    let one_text = [&[1, 0, 0, 0, 1, 0, b'g', 0, 0, 0, 0][..], &[1, 0, 0].repeat(10_000)].concat();
    assert!(try_ops(&one_text, life(0)).is_err(), "a log begins once");
    assert_eq!(try_ops(&blob(&[2]), life(0)), Ok(vec![Op::Left]));
}

/// A count that the bytes behind it cannot hold is refused before anything is allocated for it.
#[test]
fn i9_a_count_beyond_the_bytes_is_refused_at_its_place() {
    let huge = u32::MAX.to_le_bytes();
    assert_eq!(decode_ops(&huge, life(0)), Err(DecodeError { offset: 0 }), "texts");
    assert_eq!(decode_ops(&[&[0; 4], &huge[..]].concat(), life(0)), Err(DecodeError { offset: 4 }), "targets");
    assert_eq!(decode_slice(&[&[0; 8], &huge[..]].concat()), Err(DecodeError { offset: 8 }), "stampers");
    assert_eq!(decode_slice(&[&[0; 12], &huge[..]].concat()), Err(DecodeError { offset: 12 }), "lives");
    assert_eq!(decode_slice(&[&[0; 16], &huge[..]].concat()), Err(DecodeError { offset: 16 }), "workers");
    assert_eq!(decode_slice(&[&[0; 20], &huge[..]].concat()), Err(DecodeError { offset: 20 }), "holders");
    assert_eq!(decode_chains(&[&[0; 20], &huge[..]].concat()), Err(DecodeError { offset: 20 }), "hashes");
    let deep = (CHAIN_BLOCKS_MAX + 1).to_le_bytes();
    assert!(decode_chains(&[&[0; 16], &deep[..], &[0; 4]].concat()).is_err(), "a base beyond every chain");
}

/// An op of another life cannot be smuggled into a log, nor a floor later than its op.
#[test]
fn ops_that_do_not_belong_to_the_log_are_refused() {
    let at = stamp(1_000, 0, 0);
    let raise = |floor| {
        let (worker, keyspace, incarnation) = (worker(0), keyspace(0), incarnation(1));
        encode_ops(&[Op::Floor(FloorRaise { worker, keyspace, incarnation, floor, stamp: at })])
    };
    assert!(decode_ops(&raise(Rank::whole(at)), life(0)).is_ok());
    let later = Stamp { life: life(1), ..at };
    assert!(decode_ops(&raise(Rank::whole(later)), life(0)).is_err(), "a floor later than its op");
}

#[test]
fn restated_state_round_trips_and_must_be_complete() {
    let whole = Op::Restated(Box::new(Slice { next: None, ..golden_slice() }));
    assert_eq!(decode_ops(&encode_ops([&whole]), life(0)), Ok(vec![whole.clone()]));
    let segments = golden_slice().holders.iter().map(|holder| holder.segments.len()).sum::<usize>();
    assert_eq!(whole.tips().count(), segments, "every chain it names is asked for");
    let unfinished = Op::Restated(Box::new(golden_slice()));
    assert!(decode_ops(&encode_ops([&unfinished]), life(0)).is_err(), "a slice that goes on elsewhere");
}

fn golden_ops() -> Vec<Op> {
    let (at, tip) = (stamp(1_764_000_000_000, 3, 0), Tip { path: PathId(0x0102_0304_0506_0708 << 64 | 9), depth: 77 });
    let (worker, keyspace, incarnation) = (worker(1), keyspace(1), incarnation(3));
    let touch = Touch {
        worker: worker.clone(),
        keyspace: Arc::clone(&keyspace),
        incarnation: incarnation.clone(),
        tip,
        stamp: at,
    };
    let raise = FloorRaise {
        worker: worker.clone(),
        keyspace: Arc::clone(&keyspace),
        incarnation: incarnation.clone(),
        floor: Rank { stamp: stamp(1_763_000_000_000, 1, 2), depth: 5 },
        stamp: at,
    };
    let update = WorkerUpdate {
        worker: worker.clone(),
        incarnation: incarnation.clone(),
        capacity_tokens: Some(120_000),
        meta: Some(meta(at, 3)),
        stamp: at,
    };
    let removal = WorkerUpdate {
        worker: generate::worker(0),
        incarnation: generate::incarnation(5),
        capacity_tokens: None,
        meta: None,
        stamp: at,
    };
    vec![
        Op::Joined { name: GatewayName::new("gateway-0").expect("a printable name") },
        Op::Touch(touch),
        Op::Floor(raise),
        Op::Worker(update),
        Op::Worker(removal),
        Op::Left,
    ]
}

fn golden_cursor() -> Cursor {
    Cursor::Holder {
        worker: worker(1),
        keyspace: keyspace(1),
        lane: LaneId::PLAIN,
        after: stamp(1_764_000_000_001, 0, 1),
    }
}

fn golden_slice() -> Slice {
    let name = GatewayName::new("gateway-1").expect("a printable name");
    let record = WorkerRecord {
        incarnation: incarnation(3),
        capacity_tokens: Some(120_000),
        meta: Some(meta(stamp(1_764_000_000_000, 3, 0), 2)),
    };
    let tip = |path, depth| Tip { path: PathId(path), depth };
    Slice {
        lives: vec![
            (life(0), LifeRecord { name: name.clone(), left: true }),
            (life(1), LifeRecord { name, left: false }),
        ],
        workers: vec![(worker(0), WorkerRecord::new(incarnation(0))), (worker(1), record)],
        holders: vec![HolderSlice {
            worker: worker(1),
            keyspace: keyspace(1),
            incarnation: incarnation(3),
            floor: Rank { stamp: stamp(1_763_000_000_000, 1, 2), depth: 5 },
            segments: vec![
                (stamp(1_764_000_000_000, 0, 1), tip(0xaa << 100, 40)),
                (stamp(1_764_000_000_001, 0, 1), tip(0xbb, 16)),
            ],
        }],
        next: Some(golden_cursor()),
    }
}

fn golden_chains() -> Vec<ChainPiece> {
    vec![
        ChainPiece { base: Tip::ROOT, hashes: vec![BlockHash(0x0102_0304_0506_0708), BlockHash(2)] },
        ChainPiece { base: Tip { path: PathId(0xcc << 64), depth: 32 }, hashes: vec![BlockHash(u64::MAX)] },
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|nth| u8::from_str_radix(&text[2 * nth..2 * nth + 2], 16).expect("hex digits")).collect()
}

/// The bytes of wire version 1. A change here is a new wire version with a file of its own; this file stays.
#[test]
fn golden_bytes_of_wire_version_1() {
    let file = include_str!("../golden/wire-1.txt");
    let golden: BTreeMap<&str, &str> = file.lines().filter_map(|line| line.split_once(' ')).collect();
    let mut built = vec![("batch".to_owned(), encode_ops(&golden_ops()))];
    for (op, kind) in golden_ops().iter().zip(["joined", "touch", "floor", "worker", "removal", "left"]) {
        built.push((format!("op-{kind}"), encode_ops([op])));
    }
    let at = stamp(1_764_000_000_000, 3, 0);
    let later = [
        ("op-restated", Op::Restated(Box::default())),
        ("op-retired", Op::Retired(LifeEnd { life: life(1), last: 77, stamp: at })),
        ("op-forget", Op::Forget(Forget { through: stamp(1_763_000_000_000, 1, 2), stamp: at })),
    ];
    for (name, op) in &later {
        built.push(((*name).to_owned(), encode_ops([op])));
    }
    built.push(("slice".to_owned(), encode_slice(&golden_slice())));
    built.push(("slice-empty".to_owned(), encode_slice(&Slice::default())));
    let cursors =
        [Cursor::Start, Cursor::Life(life(1)), Cursor::Worker(None), Cursor::Worker(Some(worker(1))), golden_cursor()];
    for (nth, cursor) in cursors.iter().enumerate() {
        built.push((format!("cursor-{nth}"), encode_cursor(cursor)));
    }
    built.push(("chains".to_owned(), encode_chains(&golden_chains())));
    built.extend(crate::feeds::golden());
    // Until a version is released its file follows the layout: COVEY_WRITE_GOLDEN=1 writes it anew.
    if std::env::var_os("COVEY_WRITE_GOLDEN").is_some() {
        let lines: String = built.iter().map(|(name, bytes)| format!("{name} {}\n", hex(bytes))).collect();
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/wire-1.txt"), lines).expect("written");
        return;
    }
    assert_eq!(golden.len(), built.len());
    for (name, bytes) in &built {
        let kept = golden.get(name.as_str()).copied().unwrap_or("");
        assert_eq!(hex(bytes), kept, "the layout of {name} has changed");
    }
    for (name, op) in later {
        assert_eq!(decode_ops(&unhex(golden[name]), life(0)), Ok(vec![op]));
    }
    assert_eq!(decode_ops(&unhex(golden["batch"]), life(0)), Ok(golden_ops()));
    assert_eq!(decode_slice(&unhex(golden["slice"])), Ok(golden_slice()));
    assert_eq!(decode_chains(&unhex(golden["chains"])), Ok(golden_chains()));
    assert_eq!(decode_cursor(&unhex(golden["cursor-4"])), Ok(golden_cursor()));
}
