//! Hazard: bytes of an admitted peer that make a node panic, or grow without bound.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::limits::{HELD_OPS_MAX, LOG_BYTES_MAX};

/// Frames of every kind that a real mesh sent, repair sessions and refusals among them.
fn frames() -> Vec<Bytes> {
    let mut net = Net::new(&["a", "b", "c"]);
    for node in &mut net.nodes {
        node.set_knobs(crate::limits::Knobs { slice_bytes: 200, log_bytes: 400, ..crate::limits::Knobs::default() });
    }
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        net.link(one, other);
    }
    net.run(3_000);
    net.probe(0, "t");
    for nth in 0..40 {
        net.place(0, &[nth % 5, nth]);
        net.input(
            0,
            Input::Local(Local::Load {
                worker: worker(),
                load: crate::input::Load { requests: 1 + nth as u32, queued_tokens: nth },
            }),
        );
        net.run(20);
        if nth == 10 {
            net.cut(0, 1);
            net.cut(1, 2);
        }
    }
    net.input(0, Input::Local(Local::Reset { worker: worker() }));
    feeds::play(&mut net);
    net.swallow(|_, _, message| matches!(message, Message::Content(_)));
    net.link(0, 1);
    net.run(3_000);
    net.sent.iter().map(|(_, _, message)| message.encode()).collect()
}

thread_local! {
    static FRAMES: RefCell<Option<(Vec<Bytes>, Net)>> = const { RefCell::new(None) };
}

#[derive(Clone, Debug)]
enum Mutation {
    Keep,
    Flip(Index, u8),
    Cut(Index),
    Insert(Index, Vec<u8>),
    Splice(Index, Index),
    Random(Vec<u8>),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        2 => Just(Mutation::Keep),
        6 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Flip(at, byte)),
        1 => any::<Index>().prop_map(Mutation::Cut),
        1 => (any::<Index>(), proptest::collection::vec(any::<u8>(), 1..9)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        2 => (any::<Index>(), any::<Index>()).prop_map(|(at, other)| Mutation::Splice(at, other)),
        1 => proptest::collection::vec(any::<u8>(), 0..64).prop_map(Mutation::Random),
    ]
}

fn mutate(frame: &[u8], mutation: &Mutation, all: &[Bytes]) -> Bytes {
    let mut bytes = frame.to_vec();
    match mutation {
        Mutation::Keep => {}
        Mutation::Flip(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Mutation::Cut(at) => bytes.truncate(at.index(bytes.len())),
        Mutation::Insert(at, more) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, more.iter().copied());
        }
        Mutation::Splice(at, other) => {
            let other = &all[other.index(all.len())];
            let at = at.index(bytes.len().min(other.len()));
            bytes.truncate(at);
            bytes.extend_from_slice(&other[at..]);
        }
        Mutation::Random(random) => {
            bytes.truncate(2);
            bytes.extend_from_slice(random);
        }
    }
    bytes.into()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn no_frame_of_an_admitted_peer_makes_a_node_panic_or_grow(
        steps in proptest::collection::vec((any::<Index>(), mutation(), 0..120_u64, any::<bool>()), 1..60),
    ) {
        FRAMES.with_borrow_mut(|kept| {
            let (all, _) = kept.get_or_insert_with(|| (frames(), Net::new(&[])));
            let mut net = Net::new(&["a", "b", "c"]);
            net.link(0, 1);
            net.link(0, 2);
            net.run(2_500);
            for (frame, change, pause_ms, second) in &steps {
                let bytes = mutate(&all[frame.index(all.len())], change, all);
                let from = LifeId(if *second { 2 } else { 3 });
                // A link that was closed is dialled again.
                net.closed.clear();
                net.input(0, Input::Received { from, bytes });
                if net.nodes[0].over {
                    return;
                }
                net.run(*pause_ms / 4);
                net.input(0, Input::Link(Link::Up(from)));
            }
            let status = net.nodes[0].status(MonoTime::from_ms(0));
            assert!(status.ops_held <= HELD_OPS_MAX as u64 && status.log_bytes <= LOG_BYTES_MAX as u64);
            assert!(net.nodes[0].held_bytes <= crate::limits::FEED_HELD_BYTES_MAX);
            assert!(net.nodes[0].peers.len() <= 3 && net.nodes[0].logs.len() <= 1_024);
            assert!(net.nodes[0].replica().is_consistent());
        });
    }
}
