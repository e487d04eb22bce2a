//! Bytes of windows, questions and outcomes: what no session sends is refused or is harmless, and the layout is on file.

use covey_crdt::codec::{
    decode_holder_asks, decode_outcome, decode_window, encode_holder_asks, encode_outcome, encode_window,
};
use covey_crdt::outline::{Grain, Has, HolderAsk, Outcome, Outline, Room, Window};
use covey_crdt::slice::{Cursor, Request};
use covey_crdt::walk::{AskSizes, Walk};
use proptest::prelude::*;

use crate::generate::{self, TIGHT, stamp, worker};
use crate::slices::{owners, replica_of, share};

fn golden_window() -> Window {
    Window { workers: vec![(0x0102_0304, 0x05), (0xffff_ffff, u64::MAX)], until: Some(worker(1)) }
}

fn golden_asks() -> Vec<HolderAsk> {
    let (first, second) = (stamp(1_764_000_000_000, 0, 1), stamp(1_764_000_000_001, 0, 0));
    vec![
        HolderAsk {
            worker: 1,
            holder: 2,
            incarnation: 3,
            floor: 4,
            after: Some(first),
            buckets: vec![(Some(second), Has::Same(5)), (None, Has::Members(vec![6, (1 << 40) - 1]))],
        },
        HolderAsk {
            worker: 7,
            holder: 8,
            incarnation: 0,
            floor: 0,
            after: None,
            buckets: vec![(Some(first), Has::Members(Vec::new())), (None, Has::Same(9))],
        },
    ]
}

fn golden_outcome() -> Outcome {
    let (first, second) = (stamp(1_764_000_000_000, 0, 1), stamp(1_764_000_000_001, 0, 0));
    let outline = Outline { worker: 3, holder: 4, whole: 5, segments: 17, buckets: vec![(first, 6), (second, 7)] };
    Outcome { done: 2, after: Some(second), outlines: vec![outline] }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of wire version 1. A change here is a new wire version with a file of its own; this file stays.
#[test]
fn golden_bytes_of_wire_version_1() {
    let built = [
        ("window", encode_window(&golden_window())),
        ("window-empty", encode_window(&Window::default())),
        ("asks", encode_holder_asks(&golden_asks())),
        ("outcome", encode_outcome(&golden_outcome())),
        ("outcome-empty", encode_outcome(&Outcome::default())),
    ];
    let golden: Vec<_> = include_str!("../golden/outlines-1.txt").lines().map(str::to_owned).collect();
    let built: Vec<_> = built.iter().map(|(name, bytes)| format!("{name} {}", hex(bytes))).collect();
    assert_eq!(golden, built);
}

#[test]
fn a_blob_cut_anywhere_or_longer_is_refused() {
    let (window, asks, outcome) =
        (encode_window(&golden_window()), encode_holder_asks(&golden_asks()), encode_outcome(&golden_outcome()));
    assert_eq!(decode_window(&window), Ok(golden_window()));
    assert_eq!(decode_holder_asks(&asks), Ok(golden_asks()));
    assert_eq!(decode_outcome(&outcome), Ok(golden_outcome()));
    for keep in 0..window.len() {
        assert!(decode_window(&window[..keep]).is_err(), "{keep} bytes");
    }
    for keep in 0..asks.len() {
        assert!(decode_holder_asks(&asks[..keep]).is_err(), "{keep} bytes");
    }
    for keep in 0..outcome.len() {
        assert!(decode_outcome(&outcome[..keep]).is_err(), "{keep} bytes");
    }
    let longer = |bytes: &[u8]| [bytes, &[0]].concat();
    assert!(decode_window(&longer(&window)).is_err());
    assert!(decode_holder_asks(&longer(&asks)).is_err());
    assert!(decode_outcome(&longer(&outcome)).is_err());
}

#[test]
fn buckets_out_of_order_are_refused() {
    let mut asks = golden_asks();
    asks[0].buckets.reverse();
    assert!(decode_holder_asks(&encode_holder_asks(&asks)).is_err(), "an open bucket before another");
    let mut asks = golden_asks();
    asks[0].buckets[0].0 = asks[0].after;
    assert!(decode_holder_asks(&encode_holder_asks(&asks)).is_err(), "a bucket that ends where it begins");
    let mut outcome = golden_outcome();
    outcome.outlines[0].buckets.reverse();
    assert!(decode_outcome(&encode_outcome(&outcome)).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]
    #[test]
    fn garbage_is_refused_or_is_a_value(bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..400)) {
        let rows = |len: usize, size: usize| assert!(len * size <= 10 * bytes.len() + size, "{len} rows");
        if let Ok(window) = decode_window(&bytes) {
            rows(window.workers.len(), 16);
        }
        if let Ok(asks) = decode_holder_asks(&bytes) {
            rows(asks.len(), size_of::<HolderAsk>());
            rows(asks.iter().map(|ask| ask.buckets.len()).sum(), size_of::<(Option<covey_crdt::stamp::Stamp>, Has)>());
        }
        if let Ok(outcome) = decode_outcome(&bytes) {
            rows(outcome.outlines.len(), size_of::<Outline>());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// A broken or hostile member's questions are answered within bounds, its outcomes taken or refused.
    #[test]
    fn flipped_bytes_are_refused_or_answered(
        history in generate::history(TIGHT),
        owners in owners(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let damage = |mut bytes: Vec<u8>| {
            for (at, value) in &flips {
                let at = at.index(bytes.len());
                bytes[at] ^= value;
            }
            bytes
        };
        let [donor, receiver] = [0, 1].map(|nth| replica_of(&share(&history, &owners, nth)));
        let grain = Grain { bucket_segments: 1, buckets: 4 };
        let mut walk = Walk::new(1, AskSizes { window_workers: 1_024, room: Room { ask_bytes: 4_096, answer_bytes: 4_096 } });
        for _ in 0..4 {
            let ask = walk.ask(&receiver);
            let window = decode_window(&damage(encode_window(&ask.window))).unwrap_or_default();
            let holders = decode_holder_asks(&damage(encode_holder_asks(&ask.holders))).unwrap_or_default();
            let cursor = Some(&Cursor::Worker(None));
            let request = Request { salt: 1, holders: &holders, cursor, window: Some(&window), grain };
            let answer = donor.answer(&request, 4_096, &|_| false);
            prop_assert!(answer.outcome.done as usize <= holders.len());
            let outcome = decode_outcome(&damage(encode_outcome(&answer.outcome))).unwrap_or_default();
            if walk.take(&receiver, None, outcome).is_err() {
                break;
            }
        }
    }
}
