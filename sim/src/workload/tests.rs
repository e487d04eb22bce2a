//! Hazards of the workload: not the same twice, not the shape it claims.

use std::time::Duration;

use super::*;
use crate::engine::tokens_in;

fn workload(seed: u64, sessions: usize) -> Workload {
    Workload::new(&WorkloadConfig { seed, sessions, think_mean: Duration::from_millis(800), shape: Shape::AGENTIC })
}

/// Tokens of a turn's prompt as the worker would count them, template marks left out.
fn prompt_tokens(session: &Session, turn: usize) -> f64 {
    f64::from(session.messages(turn).iter().map(|message| tokens_in(message.content.len())).sum::<u32>())
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<_> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn a_seed_names_one_workload() {
    assert_eq!(workload(7, 5), workload(7, 5));
    assert_ne!(workload(7, 5), workload(8, 5));
}

#[test]
fn more_sessions_do_not_change_the_first_ones() {
    assert_eq!(workload(7, 9).sessions[..4], workload(7, 4).sessions[..]);
}

#[test]
fn sizes_are_what_the_demo_claims() {
    let workload = workload(1, 400);
    let turns = mean(workload.sessions.iter().map(|session| session.turns.len() as f64));
    assert!((7.5..8.5).contains(&turns), "mean turns {turns}");
    let first = mean(workload.sessions.iter().map(|session| prompt_tokens(session, 0)));
    assert!((7_700.0..8_300.0).contains(&first), "first prompt {first}");
    let growth = mean(workload.sessions.iter().map(|session| prompt_tokens(session, 1) - prompt_tokens(session, 0)));
    assert!((600.0..800.0).contains(&growth), "growth a turn {growth}");
    let think = mean(workload.sessions.iter().flat_map(|session| &session.turns).map(|turn| turn.think.as_secs_f64()));
    assert!((0.7..0.85).contains(&think), "think time {think}");
    let system = tokens_in(SYSTEM_PROMPT.len());
    assert!((450..=560).contains(&system), "system prompt {system}");
}

#[test]
fn sessions_share_the_system_prompt_and_nothing_after_it() {
    let workload = workload(3, 2);
    let [one, other] = [0, 1].map(|index| workload.sessions[index].messages(0));
    assert_eq!(one[0], other[0]);
    let shared = one[1].content.bytes().zip(other[1].content.bytes()).take_while(|(a, b)| a == b).count();
    assert!(shared < 64, "first messages part within a block, not after {shared} bytes");
}

#[test]
fn chats_are_short_and_share_one_of_few_beginnings() {
    let shape = Shape::CHAT;
    let chats = Workload::new(&WorkloadConfig { seed: 1, sessions: 400, think_mean: Duration::from_secs(1), shape });
    let turns = mean(chats.sessions.iter().map(|session| session.turns.len() as f64));
    assert!((3.0..4.5).contains(&turns), "mean turns {turns}");
    let first = mean(chats.sessions.iter().map(|session| prompt_tokens(session, 0)));
    assert!((750.0..900.0).contains(&first), "first prompt {first}");
    let system = |session: &Session| session.messages(0)[0].content.clone();
    let beginnings: std::collections::BTreeSet<_> = chats.sessions.iter().map(system).collect();
    assert_eq!(beginnings.len(), 8);
    assert!(beginnings.iter().all(|system| (250..=256).contains(&tokens_in(system.len()))));
}

#[test]
fn a_turn_begins_with_the_whole_turn_before_it_and_its_answer() {
    let session = &workload(3, 1).sessions[0];
    let (before, after) = (session.messages(1), session.messages(2));
    assert_eq!(after[..before.len()], before[..]);
    assert_eq!(after[before.len()].content, session.turns[1].answer);
}

#[test]
fn the_embedded_text_is_wide_enough() {
    assert!(FILES.len() >= 12);
    let shown: usize = workload(1, 50).sessions.iter().map(|session| session.messages(0)[1].content.len()).sum();
    assert!(shown > 200_000, "{shown} bytes of first messages");
}
