//! Continuous batching in virtual time: steps of one length, in each of which every decoding request gets one token and
//! the prefills share the engine's prefill rate, first come first served and in chunks.
//!
//! Not here: a clock. Upholds: same calls, same times, same events; no step is ever longer or shorter than configured,
//! so an idle engine costs nothing and a busy one keeps no debt.

use std::collections::{BTreeMap, VecDeque};

use covey_mesh::input::MonoTime;

use super::content::{BLOCK_TOKENS, Job};
use super::event::{Event, Reject};
use super::kv::{KvBatch, KvLog, KvTruth};
use super::pool::BlockPool;
use super::request::{Request, RequestId};

/// Micro-tokens in a token: prefill credit is counted so that fractions are not lost between steps.
const MICRO: u64 = 1_000_000;

/// What an engine can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Tokens of KV cache; whole blocks are used, at least one.
    pub cache_tokens: u64,
    /// Tokens in a block; 0 is taken as 1.
    pub block_tokens: u32,
    /// Prompt tokens computed in a second, all requests together; 0 is taken as 1.
    pub prefill_tokens_per_s: u32,
    /// Length of a step, in which every decoding request gets one token, in microseconds; 0 is taken as 1.
    pub decode_step_us: u64,
    /// Requests that run at the same time, at least 1.
    pub running_max: usize,
    /// Requests that may wait; more are refused.
    pub waiting_max: usize,
    /// What its names of blocks are derived from; another one in every life.
    pub hash_seed: u64,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            cache_tokens: 120_000,
            block_tokens: BLOCK_TOKENS,
            prefill_tokens_per_s: 8_000,
            decode_step_us: 12_000,
            running_max: 256,
            waiting_max: 1_024,
            hash_seed: 0,
        }
    }
}

impl EngineConfig {
    /// Blocks the cache has.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        u32::try_from(self.cache_tokens / u64::from(self.block_tokens.max(1))).unwrap_or(u32::MAX - 1).max(1)
    }
}

/// What an engine counts, as vLLM's metrics do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests with blocks.
    pub running: usize,
    /// Requests without.
    pub waiting: usize,
    /// Blocks referred to.
    pub blocks_used: u32,
    /// Prompt tokens of requests whose prefill is done.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Prompt tokens looked up in the cache, first admissions only.
    pub queried_tokens: u64,
    /// Those of them found.
    pub hit_tokens: u64,
    /// Tokens prefilled, those of preempted requests again included.
    pub prefilled_tokens: u64,
    /// Requests that lost their blocks while running.
    pub preempted: u64,
    /// Requests that ended.
    pub finished: u64,
    /// Requests cancelled before their end.
    pub cancelled: u64,
}

/// The step that is being computed.
#[derive(Clone, Debug)]
struct Step {
    ends: MonoTime,
    /// Who computes how many tokens, in the order in which they were admitted.
    work: Vec<(RequestId, u32)>,
}

/// An engine. Feed it with [`submit`](Self::submit) and [`cancel`](Self::cancel), call [`step`](Self::step) when
/// [`next_deadline`](Self::next_deadline) has come, and drain [`poll_event`](Self::poll_event) and
/// [`poll_kv`](Self::poll_kv) after each call.
#[derive(Clone, Debug)]
pub struct Engine {
    config: EngineConfig,
    pool: BlockPool,
    requests: BTreeMap<RequestId, Request>,
    running: Vec<RequestId>,
    waiting: VecDeque<RequestId>,
    step: Option<Step>,
    /// Prefill credit below one token, in micro-tokens.
    credit: u64,
    events: VecDeque<Event>,
    kv: KvLog,
    batches: VecDeque<KvBatch>,
    /// Whether somebody waits for the truth, which the end of the present step will tell.
    truth_wanted: bool,
    truth: Option<KvTruth>,
    stats: Stats,
}

impl Engine {
    /// An idle engine with an empty cache.
    #[must_use]
    pub fn new(config: EngineConfig) -> Self {
        let config = EngineConfig { block_tokens: config.block_tokens.max(1), ..config };
        Self {
            config,
            pool: BlockPool::new(config.blocks()),
            requests: BTreeMap::new(),
            running: Vec::new(),
            waiting: VecDeque::new(),
            step: None,
            credit: 0,
            events: VecDeque::new(),
            kv: KvLog::new(config.hash_seed),
            batches: VecDeque::new(),
            truth_wanted: false,
            truth: None,
            stats: Stats::default(),
        }
    }

    /// The cache.
    #[must_use]
    pub const fn pool(&self) -> &BlockPool {
        &self.pool
    }

    /// Counters and gauges as of the last call.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let blocks_used = self.pool.len() - self.pool.free_blocks();
        Stats { running: self.running.len(), waiting: self.waiting.len(), blocks_used, ..self.stats }
    }

    /// When the step being computed ends; `None` when there is nothing to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<MonoTime> {
        self.step.as_ref().map(|step| step.ends)
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What happened to the cache, the oldest step first.
    pub fn poll_kv(&mut self) -> Option<KvBatch> {
        self.batches.pop_front()
    }

    /// Asks for the cache as it is after the last batch. While a step is computed its end is waited for.
    pub fn want_truth(&mut self) {
        self.truth = self.kv.truth(&self.pool);
        self.truth_wanted = self.truth.is_none();
    }

    /// The cache as asked for, once.
    pub fn poll_truth(&mut self) -> Option<KvTruth> {
        self.truth.take()
    }

    /// Empties the cache, as vLLM's `reset_prefix_cache` does: `false`, nothing changed, while a step is computed or a
    /// block is in use. It is told with the next batch, so an idle engine keeps it to itself.
    pub fn reset_cache(&mut self, now: MonoTime) -> bool {
        self.step(now);
        self.step.is_none() && self.kv.reset(&mut self.pool)
    }

    /// Queues a request. An idle engine starts a step at once, a busy one looks at it when its present step ends.
    ///
    /// # Errors
    /// When the request can never fit or too many wait.
    ///
    /// # Panics
    /// When `id` is that of a request still here.
    pub fn submit(&mut self, now: MonoTime, id: RequestId, job: Job) -> Result<(), Reject> {
        self.step(now);
        let block_tokens = self.config.block_tokens;
        if job.blocks(block_tokens) > self.pool.len() {
            let tokens = u64::from(job.prompt_tokens()) + u64::from(job.output_tokens());
            return Err(Reject::TooLong { tokens, tokens_max: u64::from(self.pool.len()) * u64::from(block_tokens) });
        }
        if self.waiting.len() >= self.config.waiting_max {
            return Err(Reject::Busy { waiting: self.waiting.len() });
        }
        let before = self.requests.insert(id, Request::new(job, block_tokens));
        assert!(before.is_none(), "request {} is here already", id.0);
        self.waiting.push_back(id);
        if self.step.is_none() {
            self.start_step(now);
        }
        Ok(())
    }

    /// Ends a request early and frees its blocks now, tail first, as an end does. `false` when it is not here.
    pub fn cancel(&mut self, now: MonoTime, id: RequestId) -> bool {
        self.step(now);
        let Some(mut request) = self.requests.remove(&id) else { return false };
        request.release(&mut self.pool);
        self.running.retain(|&running| running != id);
        self.waiting.retain(|&waiting| waiting != id);
        if let Some(step) = &mut self.step {
            step.work.retain(|&(worker, _)| worker != id);
        }
        if self.requests.is_empty() && !self.pool.has_changes() {
            self.step = None;
        }
        self.stats.cancelled += 1;
        true
    }

    /// Completes every step that ends at or before `now`.
    pub fn step(&mut self, now: MonoTime) {
        while let Some(step) = self.step.take_if(|step| step.ends <= now) {
            step.work.iter().for_each(|&(id, tokens)| self.complete(id, tokens));
            self.batches.extend(self.kv.batch(step.ends, &mut self.pool));
            if self.truth_wanted {
                self.want_truth();
            }
            if !self.requests.is_empty() {
                self.start_step(step.ends);
            }
        }
    }

    fn complete(&mut self, id: RequestId, tokens: u32) {
        let request = self.requests.get_mut(&id).expect("cancelled requests leave the step");
        self.stats.prefilled_tokens += u64::from(if request.decodes() { 0 } else { tokens });
        request.computed += tokens;
        if request.missing() > 0 {
            return;
        }
        if request.emitted == 0 {
            self.stats.prompt_tokens += u64::from(request.job.prompt_tokens());
        }
        request.emitted += 1;
        self.stats.generated_tokens += 1;
        self.events.push_back(Event::Token { id, emitted: request.emitted });
        if request.emitted == request.job.output_tokens() {
            request.release(&mut self.pool);
            self.requests.remove(&id);
            self.running.retain(|&running| running != id);
            self.stats.finished += 1;
            self.events.push_back(Event::Finished { id });
        }
    }

    fn start_step(&mut self, start: MonoTime) {
        let step_us = self.config.decode_step_us.max(1);
        let credit = self.credit + u64::from(self.config.prefill_tokens_per_s.max(1)) * step_us;
        self.credit = credit % MICRO;
        let mut budget = u32::try_from(credit / MICRO).unwrap_or(u32::MAX);
        let mut work = Vec::with_capacity(self.running.len());
        let preempted = self.continue_running(&mut budget, &mut work);
        if !preempted {
            self.admit_waiting(&mut budget, &mut work);
        }
        self.step = Some(Step { ends: MonoTime { us: start.us.saturating_add(step_us) }, work });
    }

    /// Plans the running requests. Says whether one of them had to give its blocks up; nobody is admitted then.
    fn continue_running(&mut self, budget: &mut u32, work: &mut Vec<(RequestId, u32)>) -> bool {
        let preempted_before = self.stats.preempted;
        let mut index = 0;
        while let Some(&id) = self.running.get(index) {
            let request = &self.requests[&id];
            let decodes = request.decodes();
            let tokens = if decodes { 1 } else { request.missing().min(*budget) };
            if tokens > 0 && self.grow(id, tokens) {
                *budget -= if decodes { 0 } else { tokens };
                self.plan(id, tokens, work);
            }
            index += 1;
        }
        self.stats.preempted > preempted_before
    }

    /// Adds the blocks `tokens` more need, taking them from the latest requests when none are free. `false` when the
    /// request itself was the latest and had to give its own up.
    fn grow(&mut self, id: RequestId, tokens: u32) -> bool {
        let short = self.requests[&id].blocks_short(tokens);
        loop {
            if let Some(fresh) = self.pool.acquire(&[], short) {
                self.requests.get_mut(&id).expect("it runs").blocks.extend(fresh);
                return true;
            }
            let latest = self.running.pop().expect("the request itself runs");
            self.requests.get_mut(&latest).expect("it runs").release(&mut self.pool);
            self.waiting.push_front(latest);
            self.stats.preempted += 1;
            self.events.push_back(Event::Preempted { id: latest });
            if latest == id {
                return false;
            }
        }
    }

    fn admit_waiting(&mut self, budget: &mut u32, work: &mut Vec<(RequestId, u32)>) {
        while *budget > 0 && self.running.len() < self.config.running_max.max(1) {
            let Some(&id) = self.waiting.front() else { break };
            let request = self.requests.get_mut(&id).expect("it waits");
            if !request.admit(&mut self.pool) {
                break;
            }
            if !request.admitted {
                request.admitted = true;
                self.stats.queried_tokens += u64::from(request.job.prompt_tokens());
                self.stats.hit_tokens += u64::from(request.computed);
                self.events.push_back(Event::Admitted { id, cached_tokens: request.computed });
            }
            let tokens = request.missing().min(*budget);
            *budget -= tokens;
            self.waiting.pop_front();
            self.running.push(id);
            self.plan(id, tokens, work);
        }
    }

    fn plan(&mut self, id: RequestId, tokens: u32, work: &mut Vec<(RequestId, u32)>) {
        self.requests.get_mut(&id).expect("it runs").fill(&mut self.pool, tokens);
        work.push((id, tokens));
    }

    /// Every request's blocks, for tests that count references.
    #[cfg(test)]
    pub(super) fn held_blocks(&self) -> Vec<Vec<super::BlockId>> {
        self.requests.values().map(|request| request.blocks.clone()).collect()
    }
}
