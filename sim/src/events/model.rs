//! One engine and one reader of its events in virtual time: how exact a prediction made at the moment of sending can be,
//! when events lag and blocks are evicted.
//!
//! Between sending and admission an engine goes on: it fills, evicts, finishes. A reader cannot know that, so this is the
//! yardstick for gateways, not a bound they could pass.
//!
//! Not here: several engines, processes, sockets. Upholds: same settings, same figures.

use std::collections::{BTreeMap, VecDeque};

use covey_mesh::input::MonoTime;

use super::figures::{Figures, Pair};
use super::reader::Reader;
use super::traffic::{Traffic, TrafficConfig, Turn};
use crate::engine::{Engine, EngineConfig, Event, Job, RequestId};
use crate::worker::payload;

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct ModelConfig {
    /// The engine.
    pub engine: EngineConfig,
    /// The conversations.
    pub traffic: TrafficConfig,
    /// Blocks that the engine is to store in a second.
    pub blocks_per_s: u32,
    /// Microseconds between the end of a step and the reading of its batch.
    pub lag_us: u64,
    /// Virtual seconds.
    pub seconds: u32,
    /// For how long the reader believes in what it sent and saw answered, in microseconds; 0 for not at all.
    pub bridge_us: u64,
}

/// What a run came to.
#[derive(Clone, Copy, Debug)]
pub struct ModelFigures {
    /// Predicted against reported.
    pub figures: Figures,
    /// Blocks stored in a second.
    pub blocks_per_s: f64,
    /// Blocks evicted, all in all.
    pub evicted: u64,
}

struct Run {
    config: ModelConfig,
    engine: Engine,
    reader: Reader,
    traffic: Traffic,
    now_us: u64,
    /// Payloads on their way, with their times of arrival.
    feed: VecDeque<(u64, Vec<u8>)>,
    asked: BTreeMap<RequestId, (Turn, u64)>,
    /// What was answered lately: when, and the ids that are computed by then.
    placed: BTreeMap<usize, (u64, Vec<u32>)>,
    pairs: Vec<Pair>,
    next_id: u64,
    stored: u64,
    /// Tokens that may be asked for, in millionths.
    budget: i64,
}

/// Runs it.
#[must_use]
pub fn run(config: ModelConfig) -> ModelFigures {
    let mut run = Run {
        config,
        engine: Engine::new(config.engine),
        reader: Reader::new(config.engine.block_tokens),
        traffic: Traffic::new(config.traffic),
        now_us: 0,
        feed: VecDeque::new(),
        asked: BTreeMap::new(),
        placed: BTreeMap::new(),
        pairs: Vec::new(),
        next_id: 0,
        stored: 0,
        budget: 0,
    };
    let end_us = u64::from(config.seconds) * 1_000_000;
    while run.now_us < end_us {
        run.tick();
    }
    ModelFigures {
        figures: Figures::of(&run.pairs),
        blocks_per_s: run.stored as f64 / f64::from(config.seconds),
        evicted: run.engine.pool().evicted(),
    }
}

impl Run {
    /// One millisecond.
    fn tick(&mut self) {
        self.now_us += 1_000;
        self.budget += i64::from(self.config.blocks_per_s) * i64::from(self.config.engine.block_tokens) * 1_000;
        self.engine.step(MonoTime { us: self.now_us });
        self.drain();
        while self.feed.front().is_some_and(|(due, _)| *due <= self.now_us) {
            let (_, payload) = self.feed.pop_front().expect("looked at");
            let _ = self.reader.apply(&payload);
        }
        while self.budget > 0 {
            let Some(turn) = self.traffic.next_turn() else { break };
            self.ask(turn);
        }
    }

    fn ask(&mut self, turn: Turn) {
        let predicted = self.reader.predict(&turn.prompt).max(self.bridged(&turn));
        let id = RequestId(self.next_id);
        self.next_id += 1;
        let answer: Vec<_> = (0..turn.answer_tokens).map(|nth| id.0 as u32 * 131 + nth).collect();
        let job = Job::new("", &turn.prompt, &answer);
        let cost = turn.prompt.len() as u64 + answer.len() as u64 - predicted;
        self.budget -= i64::try_from(cost * 1_000_000).expect("prompts are short");
        if self.engine.submit(MonoTime { us: self.now_us }, id, job).is_err() {
            self.traffic.answered(turn.slot, &[]);
            return;
        }
        self.asked.insert(id, (Turn { prompt: [&turn.prompt[..], &answer].concat(), ..turn }, predicted));
        self.drain();
    }

    /// What the reader believes because it saw the conversation's last answer a moment ago.
    fn bridged(&self, turn: &Turn) -> u64 {
        let Some((at, ids)) = self.placed.get(&turn.slot) else { return 0 };
        if self.now_us - at > self.config.bridge_us || !turn.prompt.starts_with(ids) {
            return 0;
        }
        let block = u64::from(self.config.engine.block_tokens);
        (ids.len() as u64).min(turn.prompt.len() as u64 - 1) / block * block
    }

    fn drain(&mut self) {
        while let Some(batch) = self.engine.poll_kv() {
            self.stored += payload::stored_blocks(&batch.events);
            let bytes = payload::vllm(self.config.engine.block_tokens, &batch.events);
            self.feed.push_back((batch.at.us + self.config.lag_us, bytes));
        }
        while let Some(event) = self.engine.poll_event() {
            match event {
                Event::Admitted { id, cached_tokens } => {
                    let predicted = self.asked[&id].1;
                    self.pairs.push(Pair { predicted, reported: u64::from(cached_tokens) });
                }
                Event::Finished { id } => {
                    let (turn, _) = self.asked.remove(&id).expect("it was asked");
                    let (computed, prompt) = (turn.prompt.len() - 1, turn.prompt.len() - turn.answer_tokens as usize);
                    self.placed.insert(turn.slot, (self.now_us, turn.prompt[..computed].to_vec()));
                    self.traffic.answered(turn.slot, &turn.prompt[prompt..]);
                }
                Event::Token { .. } | Event::Preempted { .. } => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(lag_us: u64, bridge_us: u64) -> ModelConfig {
        let engine = EngineConfig { cache_tokens: 40_000, prefill_tokens_per_s: 16_000, ..EngineConfig::default() };
        let traffic = TrafficConfig::default();
        ModelConfig { engine, traffic, blocks_per_s: 300, lag_us, seconds: 240, bridge_us }
    }

    #[test]
    fn events_predict_nearly_every_request_under_eviction() {
        let run = run(config(5_000, 1_000_000));
        assert!((250.0..350.0).contains(&run.blocks_per_s), "{run:?}");
        assert!(run.evicted > 5_000, "{run:?}");
        assert!(run.figures.exact_share() >= 0.99 && run.figures.p95_error == 0, "{run:?}");
    }

    #[test]
    fn late_events_predict_worse() {
        let run = run(config(3_000_000, 0));
        assert!(run.figures.exact_share() < 0.9, "{run:?}");
    }
}
