//! The most that could be found cached: one cache as large as all workers' together sees every request, and has each answer
//! by the next one.
//!
//! Not here: what engines found (`arm`). Computed from the bodies that are sent, in the engine model's own blocks; exact but
//! for requests that overlap, which here never do.

use super::schedule::Schedule;
use crate::engine::BLOCK_TOKENS;
use crate::eval::Lru;
use crate::worker::chat_job;

/// What the bound comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bound {
    /// Cached share of the prompt tokens of turns after the first; 0 when there is none.
    pub share: f64,
    /// Prompt tokens of all requests.
    pub prompt_tokens: u64,
    /// Those that have to be computed even so.
    pub computed_tokens: u64,
}

/// Replays a schedule on a cache of `cache_tokens` tokens that forgets the least recent first.
///
/// # Errors
/// When the engine model would refuse a request.
pub fn bound(schedule: &Schedule, cache_tokens: u64) -> Result<Bound, String> {
    let block = u64::from(BLOCK_TOKENS);
    let mut cache = Lru::new(usize::try_from(cache_tokens / block).map_err(|why| format!("--cache-tokens: {why}"))?);
    let (mut bound, mut followup_tokens, mut followup_cached) = (Bound::default(), 0, 0);
    for due in schedule.in_order() {
        let messages = schedule.messages(&due);
        let job = chat_job(schedule.chat(&due, &messages).body().to_string().as_bytes())?;
        let prompt = u64::from(job.prompt_tokens());
        let total = prompt + u64::from(job.output_tokens());
        // 64 of 128 bits are enough to tell blocks of one run apart.
        let mut chain: Vec<u64> = job.chain(BLOCK_TOKENS).iter().map(|block| block.key.0 as u64).collect();
        // The prompt's last token is always computed, the answer's last never.
        let most = ((prompt - 1) / block) as usize;
        let cached = cache.depth(&chain).min(most) as u64 * block;
        chain.truncate(((total - 1) / block) as usize);
        cache.touch(&chain);
        bound.prompt_tokens += prompt;
        bound.computed_tokens += prompt - cached;
        if due.turn > 0 {
            followup_tokens += prompt;
            followup_cached += cached;
        }
    }
    if followup_tokens > 0 {
        bound.share = followup_cached as f64 / followup_tokens as f64;
    }
    Ok(bound)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::args::WorkloadName;
    use super::super::schedule::Due;
    use super::super::schedule::tests::args;
    use super::*;
    use crate::workload::{Message, Prompts, Session, Turn};

    /// Two turns of which every token can be counted.
    fn session(index: usize) -> Session {
        let user =
            |letter: char, tokens: usize| Message { role: "user", content: letter.to_string().repeat(4 * tokens) };
        let letter = if index == 0 { 'a' } else { 'b' };
        let turn = |messages, answer: &str| Turn { think: Duration::ZERO, messages, answer: answer.to_owned() };
        let turns = vec![turn(vec![user(letter, 400)], &"x".repeat(4 * 40)), turn(vec![user('c', 100)], "done")];
        let prompts = Prompts::Grown { system: letter.to_string().repeat(4).into() };
        Session { index, prompts, turns }
    }

    fn schedule(order: &[(usize, usize)]) -> Schedule {
        let at = |nth: usize| Duration::from_secs(nth as u64);
        let due = |nth, session, turn| Due { session, turn, at: at(nth), gateway: 0 };
        let all: Vec<_> = order.iter().enumerate().map(|(nth, (session, turn))| due(nth, *session, *turn)).collect();
        let of = |session| all.iter().filter(|due| due.session == session).copied().collect();
        Schedule {
            workload: WorkloadName::Chat,
            gateways: 1,
            sessions: vec![session(0), session(1)],
            dues: vec![of(0), of(1)],
        }
    }

    fn prompt_tokens(schedule: &Schedule, nth: usize) -> (u64, u64) {
        let due = schedule.in_order()[nth];
        let messages = schedule.messages(&due);
        let job = chat_job(schedule.chat(&due, &messages).body().to_string().as_bytes()).expect("a request");
        (u64::from(job.prompt_tokens()), u64::from(job.output_tokens()))
    }

    #[test]
    fn a_follow_up_finds_the_prompt_and_the_answer_before_it_in_whole_blocks() {
        let schedule = schedule(&[(0, 0), (0, 1)]);
        let (first, answer) = prompt_tokens(&schedule, 0);
        let (second, _) = prompt_tokens(&schedule, 1);
        let cached = (first + answer - 1) / 16 * 16;
        assert!(first > 400 && answer >= 40 && second > first + answer, "{first} {answer} {second}");
        let bound = bound(&schedule, 100_000).expect("requests");
        assert_eq!(bound.share, cached as f64 / second as f64);
        assert_eq!((bound.prompt_tokens, bound.computed_tokens), (first + second, first + second - cached));
    }

    #[test]
    fn what_no_longer_fits_is_not_found() {
        // Between the turns of the first session another one needs the room.
        let schedule = schedule(&[(0, 0), (1, 0), (0, 1)]);
        assert!(bound(&schedule, 100_000).expect("requests").share > 0.7);
        assert!(bound(&schedule, 16 * 30).expect("requests").share < 0.1);
    }

    #[test]
    fn of_real_sessions_nearly_all_of_a_follow_up_is_found() {
        let args = args(&["--seconds", "6"]);
        let agentic = Schedule::new(&args, WorkloadName::Agentic, 1);
        let share = bound(&agentic, 1 << 30).expect("requests").share;
        assert!((0.90..0.97).contains(&share), "{share}");
        let small = bound(&agentic, 30_000).expect("requests").share;
        assert!(small < share - 0.1, "{small}");
    }
}
