//! Hazards of KV events: a copy not told, a batch at the wrong time, a truth that is not that of its position.

use covey_mesh::input::MonoTime;

use super::*;

const STEP_US: u64 = 10_000;

/// An engine that prefills two blocks a step.
fn engine(cache_tokens: u64) -> Engine {
    let config =
        EngineConfig { cache_tokens, prefill_tokens_per_s: 3_200, decode_step_us: STEP_US, ..EngineConfig::default() };
    Engine::new(config)
}

fn job(blocks: &str, answer: usize) -> Job {
    let prompt: String = blocks.chars().flat_map(|letter| std::iter::repeat_n(letter, 64)).collect();
    Job::text("", &prompt, &"x".repeat(64 * answer))
}

fn at(step: u64) -> MonoTime {
    MonoTime { us: step * STEP_US }
}

fn batches(engine: &mut Engine) -> Vec<KvBatch> {
    std::iter::from_fn(|| engine.poll_kv()).collect()
}

fn drain(engine: &mut Engine) -> Vec<KvBatch> {
    while let Some(deadline) = engine.next_deadline() {
        engine.step(deadline);
    }
    batches(engine)
}

fn truth(engine: &mut Engine) -> Option<KvTruth> {
    engine.want_truth();
    engine.poll_truth()
}

fn stored(batch: &KvBatch) -> Vec<&KvStored> {
    fn stored(event: &KvEvent) -> Option<&KvStored> {
        match event {
            KvEvent::Stored(stored) => Some(stored),
            KvEvent::Removed(_) | KvEvent::Cleared => None,
        }
    }
    batch.events.iter().filter_map(stored).collect()
}

#[test]
fn a_step_that_fills_blocks_is_one_batch_told_when_it_ends() {
    let mut engine = engine(1_600);
    engine.submit(at(0), RequestId(1), job("abcd", 1)).expect("it fits");
    assert_eq!(batches(&mut engine), [], "the step is not over");
    engine.step(at(1));
    let first = batches(&mut engine);
    engine.step(at(2));
    let second = batches(&mut engine);
    assert_eq!((first.len(), first[0].seq, first[0].at), (1, 0, at(1)));
    assert_eq!((second.len(), second[0].seq, second[0].at), (1, 1, at(2)));
    let (first, second) = (stored(&first[0])[0], stored(&second[0])[0]);
    assert_eq!((first.hashes.len(), first.parent), (2, None));
    assert_eq!((second.hashes.len(), second.parent), (2, Some(first.hashes[1])));
    assert_eq!(first.tokens, [[u32::from_le_bytes(*b"aaaa"); 16], [u32::from_le_bytes(*b"bbbb"); 16]].concat());
}

#[test]
fn generated_blocks_are_told_once_they_are_full_and_computed() {
    let mut engine = engine(1_600);
    engine.submit(at(0), RequestId(1), job("a", 2)).expect("it fits");
    let batches = drain(&mut engine);
    assert_eq!(batches.len(), 2, "the prompt's block and one of the answer; the other lacks a token");
    let answer = stored(&batches[1])[0];
    assert_eq!(answer.tokens, [u32::from_le_bytes(*b"xxxx"); 16]);
    assert_eq!(answer.parent, Some(stored(&batches[0])[0].hashes[0]));
    assert_eq!(batches[1].at, at(17), "sixteen tokens after the first");
}

#[test]
fn what_is_shorter_than_a_block_is_never_mentioned() {
    let mut engine = engine(1_600);
    engine.submit(at(0), RequestId(1), Job::text("", "short", "too")).expect("it fits");
    assert_eq!(drain(&mut engine), []);
}

#[test]
fn every_copy_is_told_when_it_comes_and_when_it_goes() {
    let mut engine = engine(6 * 16);
    for id in [1, 2] {
        engine.submit(at(0), RequestId(id), job("ab", 1)).expect("it fits");
    }
    let told = drain(&mut engine);
    let names: Vec<_> = told.iter().flat_map(stored).flat_map(|stored| stored.hashes.clone()).collect();
    assert_eq!(names.len(), 3, "the second request computes its last block again: {names:?}");
    assert_eq!(names[1], names[2], "under the name it has already");
    let mut copies: Vec<_> = truth(&mut engine).expect("idle").blocks.iter().map(|block| block.copies).collect();
    copies.sort_unstable();
    assert_eq!(copies, [1, 2]);

    engine.submit(at(100), RequestId(3), job("cdefgh", 0)).expect("it takes every block");
    let told = drain(&mut engine);
    let mut gone = removed(&told);
    gone.sort_unstable();
    let mut came = names;
    came.sort_unstable();
    assert_eq!(gone, came, "a removal for each copy");
}

fn removed(batches: &[KvBatch]) -> Vec<u64> {
    let removed = |event: &KvEvent| match event {
        KvEvent::Removed(hash) => Some(*hash),
        KvEvent::Stored(_) | KvEvent::Cleared => None,
    };
    batches.iter().flat_map(|batch| &batch.events).filter_map(removed).collect()
}

#[test]
fn a_reset_is_refused_in_use_and_told_with_the_next_step() {
    let mut engine = engine(1_600);
    engine.submit(at(0), RequestId(1), job("ab", 1)).expect("it fits");
    engine.step(at(1));
    assert!(!engine.reset_cache(at(1)), "blocks are in use");
    assert_eq!(drain(&mut engine).len(), 1);
    let before = truth(&mut engine).expect("idle");
    assert!(engine.reset_cache(at(100)));
    assert_eq!(drain(&mut engine), [], "an idle engine keeps it to itself");
    assert_eq!(truth(&mut engine), Some(before.clone()), "the truth of a position is what was told by then");

    engine.submit(at(200), RequestId(2), job("ab", 1)).expect("it fits");
    assert_eq!(truth(&mut engine), Some(before), "and stays so until the step is over");
    let told = drain(&mut engine);
    assert_eq!(told[0].events[0], KvEvent::Cleared);
    assert_eq!(stored(&told[0])[0].hashes.len(), 2, "nothing was hit");
    assert_eq!(truth(&mut engine).expect("idle").position, 2);
}

#[test]
fn a_step_whose_only_request_is_cancelled_still_tells_what_it_stored() {
    let mut engine = engine(1_600);
    engine.submit(at(0), RequestId(1), job("ab", 1)).expect("it fits");
    assert!(engine.cancel(at(0), RequestId(1)));
    assert_eq!(truth(&mut engine), None, "the step is not over");
    engine.want_truth();
    let told = drain(&mut engine);
    assert_eq!((told.len(), told[0].at), (1, at(1)));
    let truth = engine.poll_truth().expect("the step ended");
    assert_eq!((truth.position, truth.blocks.len()), (1, 2));
}

#[test]
fn another_life_names_the_same_blocks_otherwise() {
    let names = |seed| {
        let mut engine = Engine::new(EngineConfig { hash_seed: seed, ..EngineConfig::default() });
        engine.submit(at(0), RequestId(1), job("ab", 1)).expect("it fits");
        drain(&mut engine).iter().flat_map(stored).flat_map(|stored| stored.hashes.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(1), names(1));
    assert!(names(1).iter().all(|name| !names(2).contains(name)));
}
