//! Hazards of the engine model: wrong eviction order, wrong hit length, lost or doubled blocks, drifting time.

use std::sync::Arc;

use covey_mesh::input::MonoTime;
use proptest::prelude::*;

use super::reference::ReferencePool;
use super::*;

const STEP_US: u64 = 10_000;

fn config(cache_tokens: u64) -> EngineConfig {
    EngineConfig { cache_tokens, prefill_tokens_per_s: 3_200, decode_step_us: STEP_US, ..EngineConfig::default() }
}

/// A job whose prompt is the text of these letters, a block each, and whose answer is `answer` blocks of `x`.
fn job(blocks: &str, answer: usize) -> Job {
    let prompt: String = blocks.chars().flat_map(|letter| std::iter::repeat_n(letter, 64)).collect();
    Job::text("", &prompt, &"x".repeat(64 * answer))
}

/// A job that shares no block with one of another number.
fn apart(number: u64, prompt_tokens: u32, output_tokens: u32) -> Job {
    let ids: Vec<_> = (0..prompt_tokens).map(|nth| number as u32 * 1_000_000 + nth).collect();
    Job::new("", &ids, &vec![7; output_tokens as usize])
}

fn at(step: u64) -> MonoTime {
    MonoTime { us: step * STEP_US }
}

fn events(engine: &mut Engine) -> Vec<Event> {
    std::iter::from_fn(|| engine.poll_event()).collect()
}

/// Runs until idle; gives the events and the time of the last step.
fn drain(engine: &mut Engine) -> (Vec<Event>, MonoTime) {
    let mut last = MonoTime::default();
    while let Some(deadline) = engine.next_deadline() {
        engine.step(deadline);
        last = deadline;
    }
    (events(engine), last)
}

fn cached_tokens(events: &[Event], wanted: u64) -> Option<u32> {
    events.iter().find_map(|event| match *event {
        Event::Admitted { id, cached_tokens } if id.0 == wanted => Some(cached_tokens),
        Event::Admitted { .. } | Event::Token { .. } | Event::Preempted { .. } | Event::Finished { .. } => None,
    })
}

#[test]
fn the_last_prompt_token_is_always_computed() {
    let mut engine = Engine::new(config(1_600));
    for (id, cached) in [(1, 0), (2, 16 * 3)] {
        engine.submit(at(100 * id), RequestId(id), job("abcd", 1)).expect("it fits");
        let (events, _) = drain(&mut engine);
        assert_eq!(cached_tokens(&events, id), Some(cached), "a whole cached prompt hits all blocks but the last");
    }
}

#[test]
fn an_answer_is_cached_for_the_next_turn_except_its_last_token() {
    let mut engine = Engine::new(config(1_600));
    engine.submit(at(0), RequestId(1), job("ab", 2)).expect("it fits");
    drain(&mut engine);
    engine.submit(at(500), RequestId(2), job("abxxc", 1)).expect("it fits");
    let (events, _) = drain(&mut engine);
    assert_eq!(
        cached_tokens(&events, 2),
        Some(16 * 3),
        "two prompt blocks, one answer block; the second lacks a token"
    );
}

#[test]
fn prefill_takes_the_configured_time_and_decode_a_step_a_token() {
    let mut engine = Engine::new(config(16_000));
    engine.submit(at(0), RequestId(1), apart(1, 3_200, 5)).expect("it fits");
    let mut first = None;
    while let Some(deadline) = engine.next_deadline() {
        engine.step(deadline);
        if events(&mut engine).contains(&Event::Token { id: RequestId(1), emitted: 1 }) {
            first = Some(deadline);
        }
        if engine.next_deadline().is_none() {
            assert_eq!(deadline, at(104), "one second of prefill, then four more tokens");
        }
    }
    assert_eq!(first, Some(at(100)));
}

#[test]
fn queued_prefills_share_one_rate() {
    let mut engine = Engine::new(config(16_000));
    for id in 1..=4 {
        engine.submit(at(0), RequestId(id), apart(id, 800, 1)).expect("it fits");
    }
    let (_, last) = drain(&mut engine);
    // The first step had started with one request only, which takes all of a step's prefill anyway.
    assert_eq!(last, at(100));
}

#[test]
fn fractions_of_a_token_are_not_lost() {
    let slow = EngineConfig { prefill_tokens_per_s: 150, ..config(1_600) };
    let mut engine = Engine::new(slow);
    engine.submit(at(0), RequestId(1), apart(1, 30, 1)).expect("it fits");
    assert_eq!(drain(&mut engine).1, at(20), "1.5 tokens a step");
}

#[test]
fn two_prompts_computed_at_once_keep_two_copies() {
    let mut engine = Engine::new(config(1_600));
    engine.submit(at(0), RequestId(1), job("abcd", 1)).expect("it fits");
    engine.submit(at(0), RequestId(2), job("abcd", 1)).expect("it fits");
    let (events, _) = drain(&mut engine);
    assert_eq!(
        cached_tokens(&events, 2),
        Some(48),
        "it came after the first one's prefill; only the last block is computed again"
    );
    let keys: Vec<_> = (0..engine.pool().len()).filter_map(|block| engine.pool().key(BlockId(block))).collect();
    let fourth = job("abcd", 1).chain(16)[3].key;
    assert_eq!(keys.iter().filter(|&&key| key == fourth).count(), 2, "vLLM does not merge equal blocks");
}

#[test]
fn evicting_one_copy_leaves_the_other_to_hit() {
    let mut pool = BlockPool::new(3);
    let key = keys(&[7]);
    let first = pool.acquire(&[], 1).expect("free");
    let second = pool.acquire(&[], 1).expect("free");
    pool.cache(&first, &key);
    pool.cache(&second, &key);
    pool.release(&first);
    pool.release(&second);
    assert_eq!(pool.lookup(&key, 9), first, "the copy cached first answers");
    let _ = pool.acquire(&[], 2).expect("the empty block and the first copy");
    assert_eq!(pool.lookup(&key, 9), second);
}

#[test]
fn the_tail_of_a_chain_is_evicted_before_its_prefix_and_earlier_requests_before_later() {
    let mut pool = BlockPool::new(6);
    let (one, two) = (pool.acquire(&[], 3).expect("free"), pool.acquire(&[], 3).expect("free"));
    pool.release(&two);
    pool.release(&one);
    let order: Vec<_> = pool.eviction_order().map(|block| block.0).collect();
    assert_eq!(order, [5, 4, 3, 2, 1, 0]);
}

#[test]
fn an_abort_frees_in_the_same_order_as_an_end() {
    let order = |abort: bool| {
        let mut engine = Engine::new(config(160));
        engine.submit(at(0), RequestId(1), job("ab", 1)).expect("it fits");
        if abort {
            engine.step(at(2));
            assert!(engine.cancel(at(2), RequestId(1)));
            assert_eq!(engine.next_deadline(), None, "nothing is left to do");
        } else {
            drain(&mut engine);
        }
        let order: Vec<_> = engine.pool().eviction_order().map(|block| block.0).collect();
        order
    };
    let (ended, aborted) = (order(false), order(true));
    assert_eq!(&ended[7..], [2, 1, 0], "tail first, behind what was free all along");
    assert_eq!(&aborted[7..], [2, 1, 0], "the block its second token opened included");
}

#[test]
fn a_request_waits_for_blocks_and_gets_them_when_another_ends() {
    let mut engine = Engine::new(config(96));
    engine.submit(at(0), RequestId(1), job("abcd", 1)).expect("it fits");
    engine.submit(at(0), RequestId(2), job("efgh", 1)).expect("it fits, later");
    engine.step(at(3));
    assert_eq!((engine.stats().running, engine.stats().waiting), (1, 1));
    let (events, _) = drain(&mut engine);
    let ended = events.iter().position(|event| *event == Event::Finished { id: RequestId(1) });
    let began = events.iter().position(|event| matches!(event, Event::Admitted { id: RequestId(2), .. }));
    assert!(ended < began && began.is_some());
    assert_eq!(engine.stats().finished, 2);
}

#[test]
fn decoding_past_the_cache_preempts_the_latest_request_which_then_completes() {
    let mut engine = Engine::new(config(96));
    engine.submit(at(0), RequestId(1), job("a", 3)).expect("it fits");
    engine.submit(at(0), RequestId(2), job("b", 3)).expect("it fits");
    let (events, _) = drain(&mut engine);
    assert!(events.contains(&Event::Preempted { id: RequestId(2) }));
    for id in [1, 2] {
        let tokens = events.iter().filter(|event| matches!(event, Event::Token { id: of, .. } if of.0 == id)).count();
        assert_eq!(tokens, 48, "no token twice, none lost");
    }
    assert_eq!(engine.stats().queried_tokens, 32, "a preempted request is looked up once in the counters");
}

#[test]
fn what_can_never_fit_is_refused_by_name() {
    let mut engine = Engine::new(EngineConfig { waiting_max: 1, running_max: 1, ..config(96) });
    let refused = engine.submit(at(0), RequestId(1), job("abcdef", 1)).expect_err("seven blocks of six");
    assert_eq!(refused, Reject::TooLong { tokens: 112, tokens_max: 96 });
    for id in 1..=2 {
        engine.submit(at(0), RequestId(id), job("a", 1)).expect("one runs, one waits");
    }
    assert_eq!(engine.submit(at(0), RequestId(3), job("a", 1)), Err(Reject::Busy { waiting: 1 }));
}

/// What a generated history does to a pool: `Begin` looks a chain up, takes and fills it; `End` releases one.
#[derive(Clone, Debug)]
enum Op {
    Begin { chain: Vec<u8>, fill: usize },
    End { which: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let begin = (prop::collection::vec(0_u8..3, 1..8), 0_usize..8).prop_map(|(chain, fill)| Op::Begin { chain, fill });
    prop_oneof![3 => begin, 2 => (0_usize..8).prop_map(|which| Op::End { which })]
}

/// Keys of a chain of one-letter blocks.
fn keys(chain: &[u8]) -> Vec<Arc<BlockContent>> {
    super::chain("", &chain.iter().flat_map(|&letter| [u32::from(letter); 16]).collect::<Vec<_>>(), 16)
}

proptest! {
    #[test]
    fn the_pool_equals_the_reference(ops in prop::collection::vec(op(), 1..60), blocks in 1_u32..12) {
        let (mut fast, mut slow) = (BlockPool::new(blocks), ReferencePool::new(blocks));
        let mut live: Vec<Vec<BlockId>> = Vec::new();
        for op in ops {
            match op {
                Op::Begin { chain, fill } => {
                    let chain = keys(&chain);
                    let limit = u32::try_from(chain.len()).expect("short") - 1;
                    let hits = fast.lookup(&chain, limit);
                    prop_assert_eq!(&hits, &slow.lookup(&chain, limit));
                    let fresh = u32::try_from(chain.len() - hits.len()).expect("short");
                    let taken = fast.acquire(&hits, fresh);
                    prop_assert_eq!(&taken, &slow.acquire(&hits, fresh));
                    let Some(taken) = taken else { continue };
                    let filled = hits.len()..chain.len().min(fill).max(hits.len());
                    fast.cache(&taken[filled.clone()], &chain[filled.clone()]);
                    filled.for_each(|index| slow.cache(taken[index], chain[index].key));
                    live.push(taken);
                }
                Op::End { which } if !live.is_empty() => {
                    let ended = live.remove(which % live.len());
                    fast.release(&ended);
                    slow.release(&ended);
                }
                Op::End { .. } => {}
            }
            prop_assert_eq!(fast.eviction_order().collect::<Vec<_>>(), slow.free.clone());
            check_conservation(&fast, &live);
        }
    }

    #[test]
    fn every_request_gets_its_tokens_and_every_block_comes_back(
        jobs in prop::collection::vec((prop::collection::vec(0_u8..3, 1..6), 0_usize..80, 0_u64..30, 0_u64..60), 1..20),
    ) {
        let mut engine = Engine::new(config(128));
        let mut now = 0;
        let mut seen = Vec::new();
        let mut cancelled = Vec::new();
        for (serial, (letters, answer, gap, cancel)) in jobs.iter().enumerate() {
            now += gap;
            let text: String = letters.iter().flat_map(|letter| std::iter::repeat_n(char::from(b'a' + letter), 64)).collect();
            let job = Job::text("", &text, &"y".repeat(*answer));
            let id = RequestId(serial as u64);
            if engine.submit(at(now), id, job).is_err() { cancelled.push(id); }
            if *cancel < 10 && serial > 0 {
                let victim = RequestId(cancel % serial as u64);
                if engine.cancel(at(now), victim) { cancelled.push(victim); }
            }
            check_conservation(engine.pool(), &engine.held_blocks());
            seen.extend(events(&mut engine));
        }
        while let Some(deadline) = engine.next_deadline() {
            engine.step(deadline);
            check_conservation(engine.pool(), &engine.held_blocks());
            seen.extend(events(&mut engine));
        }
        prop_assert_eq!(engine.pool().free_blocks(), engine.pool().len());
        for (serial, (letters, answer, _, _)) in jobs.iter().enumerate() {
            let id = RequestId(serial as u64);
            let prompt = u32::try_from(letters.len()).expect("short") * BLOCK_TOKENS;
            if let Some(cached) = cached_tokens(&seen, id.0) {
                prop_assert!(cached < prompt && cached.is_multiple_of(BLOCK_TOKENS));
            }
            if cancelled.contains(&id) { continue; }
            let tokens: Vec<_> = seen.iter().filter_map(|event| match event {
                Event::Token { id: of, emitted } if *of == id => Some(*emitted),
                Event::Token { .. } | Event::Admitted { .. } | Event::Preempted { .. } | Event::Finished { .. } => None,
            }).collect();
            let expected = tokens_in(*answer).max(1);
            prop_assert_eq!(tokens, (1..=expected).collect::<Vec<_>>());
            let finished = seen.contains(&Event::Finished { id });
            prop_assert!(finished);
        }
    }
}

/// Every block is either free and unreferenced or referenced exactly as often as chains hold it.
fn check_conservation(pool: &BlockPool, held: &[Vec<BlockId>]) {
    let free: std::collections::BTreeSet<_> = pool.eviction_order().collect();
    assert_eq!(free.len(), pool.free_blocks() as usize);
    for block in (0..pool.len()).map(BlockId) {
        let holders = held.iter().flatten().filter(|&&other| other == block).count();
        assert_eq!(pool.refs(block) as usize, holders, "references of {block:?}");
        assert_eq!(free.contains(&block), holders == 0, "a block is free or referenced, never both: {block:?}");
    }
}
