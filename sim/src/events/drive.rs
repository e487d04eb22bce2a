//! Sends conversations through gateways at a rate of stored blocks, and pairs what they predicted with what workers
//! reported.
//!
//! Not here: processes (`cluster`), figures. Upholds: every turn is asked once more at the next gateway when one fails, so a
//! dead gateway loses no request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::figures::Pair;
use super::traffic::{Traffic, Turn};
use crate::client::{Client, Ids, IdsReply};
use crate::engine::BLOCK_TOKENS;

/// Pause between two looks at the budget.
const TICK: Duration = Duration::from_millis(2);
/// What may be saved up, in seconds of the rate: after a stall the lost work is not made up for at once.
const SAVED_S: f64 = 0.5;

/// Tokens of a prompt that are kept of an answered turn, and turns at most.
const KEPT_TOKENS: usize = 768;
const KEPT_MAX: usize = 4_096;

/// Which worker answered, and how the prompt began.
type Answered = (String, Vec<u32>);

/// What others have to do with a drive under way.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// Send no more.
    pub(super) stop: AtomicBool,
    /// Turns that were answered: by which worker, and how their prompts began. Where it is kept.
    pub(super) answered: Option<Mutex<Vec<Answered>>>,
}

impl Control {
    fn keep(&self, worker: Option<String>, prompt: &[u32]) {
        let (Some(answered), Some(worker)) = (&self.answered, worker) else { return };
        let mut answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
        if answered.len() < KEPT_MAX {
            answered.push((worker, prompt[..prompt.len().min(KEPT_TOKENS)].to_vec()));
        }
    }
}

/// One request that was answered.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at: Duration,
    pub(super) pair: Pair,
    /// Blocks that the worker stored for it.
    pub(super) blocks: f64,
}

/// What a drive came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Driven {
    pub(super) samples: Vec<Sample>,
    /// Requests that no gateway answered, with the last reason.
    pub(super) failed: Vec<String>,
}

/// How and where to send.
pub(super) struct Drive<'a> {
    pub(super) client: &'a Arc<Client>,
    pub(super) model: &'a str,
    pub(super) gateways: &'a [String],
    /// Blocks a second, all workers together.
    pub(super) blocks_per_s: f64,
    pub(super) control: &'a Control,
}

impl Drive<'_> {
    /// Sends for so long, and waits for the answers.
    pub(super) async fn run(&self, traffic: &mut Traffic, lasts: Duration) -> Driven {
        let (began, mut driven) = (Instant::now(), Driven::default());
        let mut under_way = JoinSet::new();
        let (mut budget, mut last, mut turns) = (0.0_f64, began, 0_usize);
        while began.elapsed() < lasts && !self.control.stop.load(Ordering::Relaxed) {
            budget += self.blocks_per_s * last.elapsed().as_secs_f64();
            budget = budget.min(self.blocks_per_s * SAVED_S);
            last = Instant::now();
            while budget > 0.0 {
                let Some(turn) = traffic.next_turn() else { break };
                // What it will cost is known when it ends; until then it counts as a usual one.
                budget -= usual_blocks(&turn);
                under_way.spawn(self.ask(turn, turns, began.elapsed()));
                turns += 1;
            }
            while let Some(Ok(ended)) = under_way.try_join_next() {
                budget -= self.note(traffic, ended, &mut driven);
            }
            sleep(TICK).await;
        }
        while let Some(Ok(ended)) = under_way.join_next().await {
            self.note(traffic, ended, &mut driven);
        }
        driven
    }

    /// Notes an end; gives how many blocks more than usual it took.
    fn note(&self, traffic: &mut Traffic, ended: Ended, driven: &mut Driven) -> f64 {
        let Ended { turn, at, reply } = ended;
        let usual = usual_blocks(&turn);
        match reply {
            Ok(reply) => {
                let computed = turn.prompt.len() as u64 - reply.cached_tokens + reply.answer.len() as u64;
                let blocks = computed as f64 / f64::from(BLOCK_TOKENS);
                let predicted = reply.predicted_tokens.unwrap_or(0);
                let pair = Pair { predicted, reported: reply.cached_tokens };
                self.control.keep(reply.worker, &turn.prompt);
                driven.samples.push(Sample { at, pair, blocks });
                traffic.answered(turn.slot, &reply.answer);
                blocks - usual
            }
            Err(why) => {
                driven.failed.push(why);
                traffic.answered(turn.slot, &[]);
                -usual
            }
        }
    }

    fn ask(&self, turn: Turn, nth: usize, at: Duration) -> impl Future<Output = Ended> + use<> {
        let (client, model) = (Arc::clone(self.client), self.model.to_owned());
        let count = self.gateways.len();
        let order: Vec<_> = (0..count).map(|step| self.gateways[(nth + step) % count].clone()).collect();
        async move {
            let mut reply = Err("there is no gateway".to_owned());
            for gateway in order {
                let ids = Ids { model: &model, prompt: &turn.prompt, answer_tokens: turn.answer_tokens };
                reply = client.complete(&gateway, ids).await.map_err(|why| format!("{gateway}: {why}"));
                if reply.is_ok() {
                    break;
                }
            }
            Ended { turn, at, reply }
        }
    }
}

struct Ended {
    turn: Turn,
    at: Duration,
    reply: Result<IdsReply, String>,
}

/// Blocks of a turn if everything but its news and answer is cached.
fn usual_blocks(turn: &Turn) -> f64 {
    f64::from(180 + turn.answer_tokens) / f64::from(BLOCK_TOKENS)
}
