//! Two intakes of one engine against a network and an engine that do everything wrong, and a literal engine beside them.

mod harness;

use covey_crdt::id::{Incarnation, Token};
use proptest::prelude::*;

use super::*;
use harness::{Action, Ends, World};

fn action() -> impl Strategy<Value = Action> {
    let who = 0..2_usize;
    prop_oneof![
        10 => (0..3_usize, 1..5_usize, any::<bool>()).prop_map(|(prompt, blocks, keeps)| Action::Step { prompt, blocks, keeps }),
        1 => Just(Action::Clear),
        12 => (who.clone(), 1..6_usize).prop_map(|(to, count)| Action::Deliver { to, count }),
        3 => who.clone().prop_map(|to| Action::Lose { to }),
        2 => who.clone().prop_map(|to| Action::Double { to }),
        2 => who.clone().prop_map(|to| Action::Swap { to }),
        1 => who.clone().prop_map(|to| Action::Cut { to }),
        1 => Just(Action::Restart),
        8 => (who.clone(), 0..40_usize, prop_oneof![Just(Ends::Marked), Just(Ends::Cut), Just(Ends::Silent)])
            .prop_map(|(to, count, ends)| Action::Replay { to, count, ends }),
        5 => (who, any::<bool>()).prop_map(|(to, has)| Action::HandOff { to, has }),
        4 => (1..2_500_u64).prop_map(|ms| Action::Tick { ms }),
        1 => Just(Action::Raise),
        2 => Just(Action::Probe),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(400), ..ProptestConfig::default() })]

    /// Whatever is lost, doubled, swapped, cut or restarted: nothing is called exact that is not, equal keys are equal ops,
    /// the replica never differs from the engine where it is complete; and once the faults stop, all are exact again.
    #[test]
    fn nothing_is_called_exact_that_is_not(actions in prop::collection::vec(action(), 0..120), keeps in prop_oneof![Just(10_000_usize), Just(5)]) {
        let mut world = World::new(keeps);
        for action in actions {
            world.act(action).map_err(TestCaseError::fail)?;
        }
        world.calm().map_err(TestCaseError::fail)?;
    }
}

#[test]
fn a_first_intake_takes_the_engines_past_and_a_second_takes_the_firsts_state() {
    let mut world = World::new(10_000);
    for _ in 0..5 {
        world.run(Action::Step { prompt: 0, blocks: 4, keeps: true });
    }
    world.run(Action::HandOff { to: 0, has: false });
    world.run(Action::Replay { to: 0, count: 100, ends: Ends::Marked });
    assert_eq!((world.phase(0), world.position(0)), (Phase::Exact, Some(5)));
    world.run(Action::HandOff { to: 1, has: true });
    assert_eq!((world.phase(1), world.position(1), world.counters(1).replays), (Phase::Exact, Some(5), 0));
    assert_eq!(world.counters(0).generations + world.counters(1).generations, 0);
}

#[test]
fn what_the_engine_no_longer_keeps_is_a_late_start_until_it_clears() {
    let mut world = World::new(3);
    for _ in 0..6 {
        world.run(Action::Step { prompt: 0, blocks: 4, keeps: true });
    }
    world.run(Action::HandOff { to: 0, has: false });
    world.run(Action::Replay { to: 0, count: 100, ends: Ends::Marked });
    assert_eq!((world.phase(0), world.position(0)), (Phase::Bootstrapping, Some(6)));
    assert!(!world.feed().expect("published").is_complete);
    world.run(Action::Clear);
    world.run(Action::Deliver { to: 0, count: 9 });
    assert_eq!(world.phase(0), Phase::Exact);
    assert!(world.feed().expect("published").is_complete);
}

#[test]
fn a_gap_is_filled_by_the_engine_and_its_tail_by_a_check() {
    let mut world = World::started();
    world.run(Action::Step { prompt: 0, blocks: 2, keeps: true });
    world.run(Action::Lose { to: 0 });
    assert_eq!(world.phase(0), Phase::Exact, "it cannot know");
    world.run(Action::Tick { ms: 6_000 });
    world.run(Action::Replay { to: 0, count: 100, ends: Ends::Marked });
    assert_eq!((world.phase(0), world.position(0)), (Phase::Exact, Some(1)), "the check found it");
    world.run(Action::Step { prompt: 0, blocks: 3, keeps: true });
    world.run(Action::Lose { to: 0 });
    world.run(Action::Step { prompt: 1, blocks: 3, keeps: true });
    world.run(Action::Deliver { to: 0, count: 1 });
    assert_eq!((world.phase(0), world.position(0), world.counters(0).gaps), (Phase::Gap, Some(1), 1));
    world.run(Action::Replay { to: 0, count: 1, ends: Ends::Cut });
    assert_eq!(world.phase(0), Phase::Gap, "a replay cut short is asked for again");
    world.run(Action::Tick { ms: 400 });
    world.run(Action::Replay { to: 0, count: 100, ends: Ends::Marked });
    assert_eq!((world.phase(0), world.position(0)), (Phase::Exact, Some(3)));
}

#[test]
fn a_gap_that_nobody_can_fill_opens_a_generation_that_claims_nothing_old() {
    let mut world = World::new(1);
    world.run(Action::HandOff { to: 0, has: false });
    world.run(Action::Replay { to: 0, count: 100, ends: Ends::Marked });
    world.run(Action::Step { prompt: 0, blocks: 4, keeps: true });
    world.run(Action::Deliver { to: 0, count: 1 });
    assert_eq!(world.held(0), 4);
    world.run(Action::Step { prompt: 1, blocks: 4, keeps: true });
    world.run(Action::Lose { to: 0 });
    world.run(Action::Step { prompt: 2, blocks: 2, keeps: true });
    world.run(Action::Deliver { to: 0, count: 1 });
    world.run(Action::Replay { to: 0, count: 100, ends: Ends::Marked });
    assert_eq!((world.phase(0), world.counters(0).hand_offs_asked), (Phase::Gap, 2));
    world.run(Action::HandOff { to: 0, has: false });
    assert_eq!((world.phase(0), world.position(0), world.held(0)), (Phase::Bootstrapping, Some(3), 2));
    assert_eq!(world.counters(0).generations, 1);
    assert!(world.notes(0).contains(&Note::Generation { why: Why::Gap, position: 2 }));
}

#[test]
fn an_engine_that_starts_anew_behind_a_standing_name_is_found_by_its_numbers() {
    let mut world = World::started();
    for _ in 0..3 {
        world.run(Action::Step { prompt: 0, blocks: 4, keeps: true });
        world.run(Action::Deliver { to: 0, count: 9 });
    }
    world.run(Action::Restart);
    assert_eq!(world.phase(0), Phase::Gap, "nothing proves that this is the same life");
    world.run(Action::Replay { to: 0, count: 100, ends: Ends::Marked });
    assert_eq!((world.counters(0).restarts, world.held(0), world.position(0)), (1, 0, Some(0)));
    assert_eq!(world.resets(0), 1);
    world.run(Action::Replay { to: 0, count: 100, ends: Ends::Marked });
    assert_eq!(world.phase(0), Phase::Exact);
    // The probe that was asked for names the new life, and all begins anew under it.
    world.run(Action::Probe);
    world.run(Action::Step { prompt: 1, blocks: 2, keeps: true });
    world.run(Action::Replay { to: 0, count: 100, ends: Ends::Marked });
    let key = world.feed().expect("published").key;
    assert_eq!((key.incarnation.counter, key.generation, key.position), (2, Default::default(), 1));
    assert_eq!(world.phase(0), Phase::Exact);
}

#[test]
fn a_raised_incarnation_of_the_same_engine_carries_the_set() {
    let mut world = World::started();
    world.run(Action::Step { prompt: 0, blocks: 4, keeps: true });
    world.run(Action::Deliver { to: 0, count: 1 });
    world.run(Action::Raise);
    let feed = world.feed().expect("published");
    assert_eq!((feed.key.incarnation.counter, feed.key.generation.counter, feed.is_complete), (2, 1, true));
    assert_eq!((world.held(0), world.phase(0)), (4, Phase::Exact));
}

#[test]
fn a_feed_that_leads_nowhere_begins_anew_with_what_is_held_and_says_why() {
    let mut intake = begun(false);
    intake.handle(MonoTime::from_ms(2), batch(0));
    let _before = outputs(&mut intake);
    intake.handle(MonoTime::from_ms(3), Input::Restart);
    let said = outputs(&mut intake);
    assert!(said.contains(&Output::Note(Note::Generation { why: Why::Stranded, position: 1 })), "{said:?}");
    assert_eq!((intake.state().phase, intake.key().expect("open").generation.counter), (Phase::Exact, 1));
}

fn config(has_replay: bool) -> IntakeConfig {
    IntakeConfig { has_replay, ..harness::config(1) }
}

fn outputs(intake: &mut Intake) -> Vec<Output> {
    std::iter::from_fn(|| intake.poll_output()).collect()
}

fn begun(has_replay: bool) -> Intake {
    let mut intake = Intake::new(config(has_replay));
    let token = Token::new("boot-1").expect("a token");
    intake.handle(MonoTime::from_ms(0), Input::Incarnation(Incarnation { counter: 1, token }));
    intake.handle(MonoTime::from_ms(0), Input::Connected);
    intake.handle(MonoTime::from_ms(1), Input::HandedOff(None));
    intake
}

fn batch(seq: u64) -> Input {
    Input::Message(Arrival::Batch(Box::new(Batch { seq, print: seq + 100, ..Batch::default() })))
}

#[test]
fn without_replays_the_first_batch_that_comes_is_the_beginning() {
    let mut intake = begun(false);
    assert_eq!(intake.state().phase, Phase::Bootstrapping);
    intake.handle(MonoTime::from_ms(2), batch(0));
    assert_eq!(intake.state().phase, Phase::Exact);
    let mut late = begun(false);
    late.handle(MonoTime::from_ms(2), batch(7));
    assert_eq!((late.state().phase, late.key().expect("open").position), (Phase::Bootstrapping, 8));
}

#[test]
fn without_replays_a_connection_that_broke_leaves_nothing_that_is_still_claimed() {
    let mut intake = begun(false);
    intake.handle(MonoTime::from_ms(2), batch(0));
    intake.handle(MonoTime::from_ms(3), batch(1));
    intake.handle(MonoTime::from_ms(4), Input::Lost);
    intake.handle(MonoTime::from_ms(5), Input::Connected);
    assert_eq!(intake.state().phase, Phase::Gap, "the other gateway is asked");
    assert!(outputs(&mut intake).contains(&Output::Probe));
    intake.handle(MonoTime::from_ms(6), Input::HandedOff(None));
    let told = outputs(&mut intake)
        .into_iter()
        .any(|output| matches!(output, Output::Publish(op) if op.begins && !op.is_complete && op.lanes.is_empty()));
    assert!(told, "the feed claims nothing any more");
    // It is another life, by its first number: all of that is known.
    intake.handle(MonoTime::from_ms(7), batch(0));
    assert_eq!((intake.state().phase, intake.key().expect("open").position), (Phase::Exact, 1));
}

#[test]
fn an_engine_that_is_silent_too_long_or_gone_is_stale() {
    let mut intake = begun(true);
    intake.handle(MonoTime::from_ms(10), Input::ReplayEnded { ask: 1, how: ReplayEnd::Marked });
    assert_eq!(intake.state().phase, Phase::Exact);
    let mut stale_at = None;
    while stale_at.is_none() {
        let now = intake.next_deadline().expect("something is always due");
        intake.handle(now, Input::Elapsed);
        stale_at = (intake.state().phase == Phase::Stale).then_some(now);
    }
    assert_eq!(stale_at, Some(MonoTime::from_ms(10_010)), "replays go unanswered");
    let mut gone = begun(false);
    gone.handle(MonoTime::from_ms(5), batch(0));
    gone.handle(MonoTime::from_ms(20), Input::Lost);
    assert_eq!(gone.state().phase, Phase::Gap, "at once");
    gone.handle(MonoTime::from_ms(1_020), Input::Elapsed);
    assert_eq!(gone.state().phase, Phase::Stale);
}

#[test]
fn a_batch_of_another_rank_or_one_that_cannot_be_read_makes_the_state_incomplete() {
    let of_rank = |seq, rank, is_damaged| {
        let events = vec![super::super::event::Event::Cleared];
        let events = if is_damaged { vec![] } else { events };
        Input::Message(Arrival::Batch(Box::new(Batch {
            seq,
            rank: Some(rank),
            events,
            is_damaged,
            ..Batch::default()
        })))
    };
    let mut intake = begun(false);
    intake.handle(MonoTime::from_ms(2), of_rank(0, 3, false));
    assert_eq!(intake.state().phase, Phase::Exact);
    intake.handle(MonoTime::from_ms(3), of_rank(1, 4, false));
    assert_eq!((intake.state().phase, intake.counters().refused_ranks), (Phase::Bootstrapping, 1));
    intake.handle(MonoTime::from_ms(4), of_rank(2, 3, false));
    assert_eq!(intake.state().phase, Phase::Exact, "a clear makes it whole");
    intake.handle(MonoTime::from_ms(5), of_rank(3, 3, true));
    assert_eq!(intake.state().phase, Phase::Bootstrapping);
}

#[test]
fn hostile_hand_offs_are_refused_and_the_engine_is_asked() {
    let mut giver = begun(false);
    giver.handle(MonoTime::from_ms(2), batch(0));
    let good = giver.export().expect("open");
    for cut in 0..good.len() {
        let mut taker = Intake::new(config(true));
        let token = Token::new("boot-1").expect("a token");
        taker.handle(MonoTime::from_ms(0), Input::Incarnation(Incarnation { counter: 1, token }));
        taker.handle(MonoTime::from_ms(0), Input::Connected);
        taker.handle(MonoTime::from_ms(1), Input::HandedOff(Some(Bytes::copy_from_slice(&good[..cut]))));
        assert_eq!(taker.counters().hand_offs_refused, 1);
        assert!(outputs(&mut taker).contains(&Output::Ask { ask: 1, from: 0 }));
    }
}

#[test]
fn frames_are_read_from_the_right() {
    let seq = Bytes::copy_from_slice(&7_u64.to_be_bytes());
    let (payload, end) = (Bytes::from_static(b"p"), Bytes::from_static(&[0xff; 8]));
    let batch = Ok(Numbered::Batch(7, payload.clone()));
    assert_eq!(read_frames(&[Bytes::new(), seq.clone(), payload.clone()]), batch);
    assert_eq!(read_frames(&[Bytes::new(), "kv".into(), seq.clone(), payload.clone()]), batch);
    assert_eq!(read_frames(&[seq.clone(), payload]), batch);
    assert_eq!(read_frames(&[Bytes::new(), end.clone(), Bytes::new()]), Ok(Numbered::End));
    assert_eq!(read_frames(&[Bytes::new(), Bytes::new(), end, Bytes::new()]), Ok(Numbered::End));
    assert_eq!(read_frames(std::slice::from_ref(&seq)), Err(RefuseMessage::Frames));
    assert_eq!(read_frames(&["kv".into(), seq]), Err(RefuseMessage::Number));
}
