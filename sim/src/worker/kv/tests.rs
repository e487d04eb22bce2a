//! Hazards of the wire: a form that the gateway reads otherwise, a cache that its events do not add up to.

use std::collections::BTreeMap;

use covey_crdt::hash::BlockHash;
use covey_crdt::lane::Tier;
use covey_gateway_plugin::ingest::{Decoded, Event, ExtraKey, Medium, decode};
use covey_mesh::input::MonoTime;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use serde_json::Value;

use super::*;
use crate::engine::{Engine, EngineConfig, Job, KvBatch, KvBlock, KvEvent, KvMedium, KvStored, KvTruth, RequestId};
use crate::events::Reader;

const BLOCK: u32 = 2;
const STEP_US: u64 = 10_000;

fn head(wire: Wire) -> Head {
    Head { wire, rank: 3, block_tokens: BLOCK }
}

fn read(wire: Wire, events: &[KvEvent]) -> Decoded {
    checked(decode(&head(wire).encode(12.5, events)))
}

fn checked(decoded: Decoded) -> Decoded {
    assert!(!decoded.is_broken && decoded.refused.is_empty() && decoded.unknown == 0, "{decoded:?}");
    assert_eq!((decoded.ts, decoded.rank), (12.5, Some(3)));
    decoded
}

fn salted(parent: Option<u64>) -> KvEvent {
    let (hashes, tokens) = (vec![u64::MAX - 1, 7], vec![1, 2, 300, 70_000]);
    KvEvent::Stored(KvStored { hashes, parent, tokens, salt: Some("tenant".into()), medium: KvMedium::Device })
}

fn removed(hash: u64) -> KvEvent {
    KvEvent::Removed { hash, medium: KvMedium::Device }
}

#[test]
fn every_form_of_vllm_says_what_happened() {
    for wire in [Wire::VllmMap, Wire::VllmArray] {
        let decoded = read(wire, &[salted(None), salted(Some(5)), removed(9), KvEvent::Cleared]);
        let [Event::Stored(first), Event::Stored(next), Event::Removed(removed), Event::Cleared] = &decoded.events[..]
        else {
            panic!("{wire:?}: {decoded:?}")
        };
        assert_eq!(first.hashes, [u64::MAX - 1, 7]);
        assert_eq!(first.tokens, [1, 2, 300, 70_000]);
        assert_eq!((first.block_tokens, first.group, first.is_full, first.medium), (BLOCK, 0, true, Medium::Device));
        assert_eq!((first.parent, &first.extra[..]), (None, &[Some(ExtraKey::salt("tenant")), None][..]));
        assert_eq!((next.parent, &next.extra[..]), (Some(5), &[][..]), "the salt is in a prompt's first block alone");
        assert_eq!((&removed.hashes[..], removed.medium), (&[9][..], Medium::Device));
    }
}

#[test]
fn sglang_tells_a_page_at_a_time_with_signed_hashes_and_the_salt_at_the_end() {
    let payload = head(Wire::Sglang).encode(12.5, &[salted(None)]);
    let decoded = read(Wire::Sglang, &[salted(None), removed(u64::MAX), KvEvent::Cleared]);
    let [Event::Stored(first), Event::Stored(second), Event::Removed(removed), Event::Cleared] = &decoded.events[..]
    else {
        panic!("{decoded:?}")
    };
    assert_eq!((&first.hashes[..], first.parent, &first.tokens[..]), (&[u64::MAX - 1][..], None, &[1, 2][..]));
    assert_eq!((&second.hashes[..], second.parent), (&[7][..], Some(u64::MAX - 1)));
    assert_eq!((&first.extra[..], &second.extra[..]), (&[Some(ExtraKey::salt("tenant"))][..], &[][..]));
    assert_eq!(removed.hashes, [u64::MAX]);
    let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
    let salt = "81aa63616368655f73616c74a674656e616e74";
    assert!(hex.contains("98ab426c6f636b53746f72656491fec0"), "eight items, the hash is -2, no parent: {hex}");
    assert_eq!(hex.matches(salt).count(), 2, "every page of a salted prompt has it: {hex}");
}

/// A frame that vLLM wrote, and the same written by the model, from what the frame's own reader found in it.
#[test]
fn frames_of_a_real_vllm_are_written_alike_byte_by_byte() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../gateway-plugin/tests/captures/llama_bs32_sha256cbor.events.jsonl");
    let capture = std::fs::read_to_string(path).expect("it is in the repository");
    let mut kinds = BTreeMap::new();
    for line in capture.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON lines");
        let hex = line["frames_hex"][2].as_str().expect("a payload");
        let payload: Vec<_> =
            (0..hex.len() / 2).map(|nth| u8::from_str_radix(&hex[2 * nth..2 * nth + 2], 16).expect("hex")).collect();
        let decoded = decode(&payload);
        let Some(events) = decoded.events.iter().map(model).collect::<Option<Vec<_>>>() else { continue };
        for event in &events {
            *kinds.entry(format!("{:?}", std::mem::discriminant(event))).or_insert(0_usize) += 1;
        }
        let head = Head { wire: Wire::VllmMap, rank: decoded.rank.expect("vLLM says"), block_tokens: 32 };
        assert_eq!(head.encode(decoded.ts, &events), payload, "{line}");
    }
    assert!(kinds.len() == 3 && kinds.values().sum::<usize>() > 20, "stores, removals and clears: {kinds:?}");
}

/// The event that the model would have told; `None` of salted blocks, whose salt the reader only digests, and of removals
/// of several blocks at once.
fn model(event: &Event) -> Option<KvEvent> {
    match event {
        Event::Stored(stored) => stored.extra.is_empty().then(|| {
            let (hashes, tokens) = (stored.hashes.clone(), stored.tokens.clone());
            KvEvent::Stored(KvStored { hashes, parent: stored.parent, tokens, salt: None, medium: KvMedium::Device })
        }),
        Event::Removed(removed) => (removed.hashes.len() == 1).then(|| self::removed(removed.hashes[0])),
        Event::Cleared => Some(KvEvent::Cleared),
        Event::Unknown => None,
    }
}

/// A gateway's view of an engine, fed through the wire.
struct Fed {
    wire: Wire,
    reader: Reader,
    position: u64,
}

impl Fed {
    fn new(wire: Wire) -> Self {
        Self { wire, reader: Reader::new(BLOCK), position: 0 }
    }

    fn apply(&mut self, batch: &KvBatch) {
        assert_eq!(batch.seq, self.position, "numbers have no gap");
        self.position += 1;
        checked(self.reader.apply(&head(self.wire).encode(12.5, &batch.events)));
    }

    /// Its blocks are exactly those of the truth.
    fn check(&self, truth: &KvTruth) {
        assert_eq!(self.position, truth.position);
        let on = |medium| truth.blocks.iter().filter(move |block| block.medium == medium);
        assert_eq!(self.reader.blocks(Tier::Host).len(), on(KvMedium::Host).count(), "{truth:?}");
        let by_hash: BTreeMap<_, _> = on(KvMedium::Device).map(|block| (block.hash, block)).collect();
        let mut names: Vec<_> = on(KvMedium::Device).map(|block| self.name(&by_hash, block)).collect();
        names.sort_unstable();
        assert_eq!(self.reader.blocks(Tier::Device), names, "{truth:?}");
    }

    /// The gateway's name of a block, from the tokens of its whole prefix.
    fn name(&self, by_hash: &BTreeMap<u64, &KvBlock>, block: &KvBlock) -> BlockHash {
        let mut blocks = vec![block];
        while let Some(parent) = blocks[blocks.len() - 1].parent {
            blocks.push(by_hash[&parent]);
        }
        let tokens: Vec<_> = blocks.iter().rev().flat_map(|block| block.content.tokens.iter().copied()).collect();
        *self.reader.chain(&tokens, block.content.salt.as_deref()).last().expect("a block")
    }
}

/// What a generated history does to an engine.
#[derive(Clone, Debug)]
enum Op {
    Submit { prompt: Vec<u32>, answer: usize, is_salted: bool },
    Step(u8),
    Cancel(u64),
    Reset,
}

fn op() -> impl Strategy<Value = Op> {
    let prompt = prop::collection::vec(0_u32..2, 1..14);
    prop_oneof![
        4 => (prompt, 0_usize..6, any::<bool>()).prop_map(|(prompt, answer, is_salted)| Op::Submit { prompt, answer, is_salted }),
        4 => (1_u8..6).prop_map(Op::Step),
        1 => (0_u64..40).prop_map(Op::Cancel),
        1 => Just(Op::Reset),
    ]
}

/// Runs a history, comparing at every batch; counts removals, copies and clears that were seen.
fn history(ops: Vec<Op>, blocks: u64, host_blocks: u64, wire: Wire) -> (usize, u32, usize) {
    let config = EngineConfig {
        cache_tokens: blocks * u64::from(BLOCK),
        host_cache_tokens: host_blocks * u64::from(BLOCK),
        block_tokens: BLOCK,
        prefill_tokens_per_s: 500,
        decode_step_us: STEP_US,
        hash_seed: 99,
        ..EngineConfig::default()
    };
    let (mut engine, mut reader, mut seen) = (Engine::new(config), Fed::new(wire), (0, 0, 0));
    let mut now = MonoTime::default();
    let mut watch = |engine: &mut Engine, reader: &mut Fed| {
        while let Some(batch) = engine.poll_kv() {
            reader.apply(&batch);
            seen.0 += batch.events.iter().filter(|event| matches!(event, KvEvent::Removed { .. })).count();
            seen.2 += batch.events.iter().filter(|event| matches!(event, KvEvent::Cleared)).count();
        }
        if let Some(truth) = engine.poll_truth() {
            seen.1 = seen.1.max(truth.blocks.iter().map(|block| block.copies).max().unwrap_or(0));
            reader.check(&truth);
        }
    };
    for (serial, op) in ops.into_iter().enumerate() {
        match op {
            Op::Submit { prompt, answer, is_salted } => {
                let job = Job::new(if is_salted { "salt" } else { "" }, &prompt, &vec![1; answer]);
                let _ = engine.submit(now, RequestId(serial as u64), job);
            }
            Op::Step(steps) => {
                for _ in 0..steps {
                    engine.want_truth();
                    watch(&mut engine, &mut reader);
                    now = engine.next_deadline().unwrap_or(MonoTime { us: now.us + STEP_US });
                    engine.step(now);
                    watch(&mut engine, &mut reader);
                }
            }
            Op::Cancel(id) => drop(engine.cancel(now, RequestId(id))),
            Op::Reset => drop(engine.reset_cache(now)),
        }
    }
    seen
}

proptest! {
    #[test]
    fn the_events_add_up_to_the_cache_at_every_position(
        ops in prop::collection::vec(op(), 1..40), blocks in 4_u64..14, host in 0_u64..6, wire in 0_usize..3,
    ) {
        history(ops, blocks, host, [Wire::VllmMap, Wire::VllmArray, Wire::Sglang][wire]);
    }
}

/// What the property above is worth: these things do happen in its histories.
#[test]
fn generated_histories_evict_copy_and_clear() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = (0, 0, 0);
    for _ in 0..200 {
        let ops = prop::collection::vec(op(), 20..40).new_tree(&mut runner).expect("a tree").current();
        let (removed, copies, cleared) = history(ops, 9, 0, Wire::VllmMap);
        seen = (seen.0 + removed, seen.1.max(copies), seen.2 + cleared);
    }
    assert!(seen.0 > 100 && seen.1 > 1 && seen.2 > 10, "removals, copies, clears: {seen:?}");
}

#[test]
fn addresses_are_those_of_the_rank() {
    let of = |rank, address: &str| of_rank(address, rank);
    assert_eq!(of(2, "tcp://*:5557"), Ok("tcp://0.0.0.0:5559".to_owned()));
    assert_eq!(of(2, "tcp://127.0.0.1:0"), Ok("tcp://127.0.0.1:0".to_owned()));
    assert!(of(2, "tcp://*:65535").is_err());
    for bad in ["127.0.0.1:5", "tcp://:5", "tcp://h:port", "ipc:///x"] {
        assert!(address(bad).is_err_and(|why| why.contains(bad)), "{bad}");
    }
}
