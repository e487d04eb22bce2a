//! The ways to route that are compared, behind one trait.
//!
//! Not here: workers (`fleet`), the loop that calls them (`play`).

mod blind;
mod indexed;
mod mesh;
mod setting;

use clap::ValueEnum;

pub use self::mesh::MeshFigures;
pub use self::setting::{Harm, Setting, Trouble};
use super::fleet::{Fleet, Sent};
use super::trace::Ask;
use crate::workload::Dice;

/// Least share of a prompt that makes a holder worth comparing, as one in so many.
const USEFUL_SHARE: u64 = 10;

/// Who routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Arm {
    /// Exact caches and queues: the two deepest useful holders against two random workers
    ExactP2c,
    /// Any worker
    Random,
    /// One worker after the other, each gateway for itself
    RoundRobin,
    /// A session stays where its first turn went (by turns)
    Sticky,
    /// The first two blocks decide
    PrefixHash,
    /// Each gateway knows what it sent itself, and exact queues; the rule of exact-p2c
    PerGateway,
    /// One index behind a network hop (0.5 ms, deadline 2 ms) that knows what was answered, and exact queues
    SharedTier,
    /// Covey: the real core, index and policy, by placements
    Covey,
    /// Covey by engines' events
    CoveyEvents,
    /// Covey with every gateway cut off from the others for the whole run
    CoveyIsolated,
}

impl Arm {
    /// The word for it in tables and JSON.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether it is Covey in some form.
    #[must_use]
    pub const fn is_covey(self) -> bool {
        match self {
            Self::Covey | Self::CoveyEvents | Self::CoveyIsolated => true,
            Self::ExactP2c
            | Self::Random
            | Self::RoundRobin
            | Self::Sticky
            | Self::PrefixHash
            | Self::PerGateway
            | Self::SharedTier => false,
        }
    }
}

/// What was decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) worker: usize,
    /// Tokens that it expects to be cached there; `None` when it expects nothing in particular.
    pub(super) predicted_tokens: Option<u64>,
    /// How long deciding took, in microseconds of virtual time.
    pub(super) took_us: u64,
    /// Whether coverage was not looked at though it should have been.
    pub(super) is_degraded: bool,
}

/// One request on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) nth: usize,
    pub(super) gateway: usize,
    pub(super) ask: &'a Ask,
}

/// A way to route.
pub(super) trait Router {
    /// Whether a gateway takes requests.
    fn is_ready(&mut self, _now_us: u64, _gateway: usize) -> bool {
        true
    }

    /// Chooses a worker.
    fn route(&mut self, now_us: u64, request: &Request<'_>, fleet: &Fleet) -> Decision;

    /// The request is at its worker.
    fn sent(&mut self, _now_us: u64, _request: &Request<'_>, _worker: usize) {}

    /// The first byte of the answer is here; the worker's cache changed.
    fn answered(&mut self, _now_us: u64, _request: &Request<'_>, _worker: usize, _sent: &Sent) {}

    /// After the last answer: what a mesh cost, where there is one.
    fn finish(&mut self) -> Option<MeshFigures> {
        None
    }
}

/// Compares the two deepest useful holders with two random workers by when the answer would begin.
struct TwoAndTwo<'a> {
    depths: &'a [usize],
    fleet: &'a Fleet,
    ask: &'a Ask,
    now_us: u64,
}

impl TwoAndTwo<'_> {
    fn choose(&self, dice: &mut Dice) -> Decision {
        let workers = self.depths.len();
        // Of equally deep ones any two.
        let turn = dice.below(workers);
        let mut holders: Vec<usize> =
            (0..workers).map(|nth| (nth + turn) % workers).filter(|worker| self.is_useful(*worker)).collect();
        holders.sort_by_key(|worker| std::cmp::Reverse(self.depths[*worker]));
        holders.truncate(2);
        holders.extend([dice.below(workers), dice.below(workers)]);
        let best = holders.into_iter().min_by_key(|worker| self.ttft_us(*worker)).unwrap_or(0);
        Decision { worker: best, predicted_tokens: Some(self.hit_tokens(best)), ..Decision::default() }
    }

    fn hit_tokens(&self, worker: usize) -> u64 {
        self.ask.tokens_in(self.depths[worker], self.fleet.config().block_tokens)
    }

    fn is_useful(&self, worker: usize) -> bool {
        self.depths[worker] > 0 && self.hit_tokens(worker) * USEFUL_SHARE >= self.ask.input_tokens
    }

    fn ttft_us(&self, worker: usize) -> u64 {
        self.fleet.backlog_us(worker, self.now_us)
            + self.fleet.prefill_us(self.ask.input_tokens - self.hit_tokens(worker))
    }
}

/// The router of an arm, for so many gateways.
pub(super) fn router(arm: Arm, fleet: &Fleet, setting: &Setting) -> Box<dyn Router> {
    let (seed, gateways) = (setting.seed, setting.gateways);
    match arm {
        Arm::ExactP2c => Box::new(indexed::Exact::new(seed)),
        Arm::Random => Box::new(blind::Random(Dice::new(seed, "eval random", 0))),
        Arm::RoundRobin => Box::new(blind::RoundRobin::new(gateways)),
        Arm::Sticky => Box::new(blind::Sticky::default()),
        Arm::PrefixHash => Box::new(blind::PrefixHash),
        Arm::PerGateway => Box::new(indexed::PerGateway::new(setting, fleet)),
        Arm::SharedTier => Box::new(indexed::SharedTier::new(seed, fleet)),
        Arm::Covey | Arm::CoveyEvents | Arm::CoveyIsolated => Box::new(mesh::MeshRouter::new(arm, fleet, setting)),
    }
}
