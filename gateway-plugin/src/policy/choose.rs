//! The choice itself. Coverage tolerates a second of age, load does not, so nobody takes the best of all workers: the two
//! deepest useful holders are compared with two sampled others, and what was sent is counted at once. Many gateways that
//! see the same numbers then still do not all pick the same worker. A session's worker is compared too, and wins only a tie; and
//! so is a prompt's home while some gateways are not heard.
//!
//! Not here: where the numbers come from. Pure: equal arguments give equal choices.

use covey_mesh::input::Load;

use super::prompt::Prompt;
use super::{Policy, Reason, Tuning};
use crate::index::{Overlap, Step};
use crate::load::WorkerNo;

/// What no more workers hold than these belongs to one conversation, as far as can be told.
const HOLDERS_FEW: usize = 2;

/// The request, as far as a choice depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// Who holds how much; `None` when coverage is not to be looked at.
    pub overlap: Option<&'a Overlap>,
    /// The prompt's length.
    pub prompt: Prompt,
    /// A hash of the session's key, if there is one.
    pub session: Option<u64>,
    /// A hash of the prompt's first blocks, if it has a block.
    pub prefix: Option<u64>,
    /// Where turns that this gateway cannot know of would have gone, while it does not hear all gateways.
    pub home: Option<Home>,
    /// How many requests this gateway routed before.
    pub turn: u64,
    /// The policy's numbers.
    pub tuning: Tuning,
}

/// The worker that every gateway picks for a prompt without asking another, by rendezvous hashing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Home {
    /// A hash that the prompt's other turns have, too.
    pub key: u64,
    /// The share of requests that come to gateways which this one does not hear: 0 to 1.
    pub unseen: f64,
}

/// The workers there are, as the gateway sees them at one moment.
pub trait Fleet {
    /// Every worker the gateway could route to, ascending.
    fn workers(&self) -> &[WorkerNo];
    /// Whether the worker can be chosen now: routable, not masked, not removed, not excluded.
    fn is_usable(&self, worker: WorkerNo) -> bool;
    /// What this gateway has outstanding on the worker.
    fn own_load(&self, worker: WorkerNo) -> Load;
    /// What the other live gateways have outstanding there.
    fn others_load(&self, worker: WorkerNo) -> Load;
    /// What the worker has to do besides so many queued tokens, as far as it told: no gateway accounts for it.
    fn unseen_load(&self, worker: WorkerNo, accounted: u64) -> Load;
    /// How much of so many queued tokens the worker has computed by now.
    fn computed_of(&self, worker: WorkerNo, queued_tokens: u64) -> u64;
    /// How many times longer than the fleet the worker computes at a token; 1 where they are alike, or it is not known.
    fn slowness(&self, worker: WorkerNo) -> f64;
    /// A hash of the worker's id that is the same on every gateway.
    fn id_hash(&self, worker: WorkerNo) -> u64;
}

/// One worker that was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scored {
    /// The worker.
    pub worker: WorkerNo,
    /// How many blocks of the prompt it holds.
    pub depth: u32,
    /// Tokens to be computed before the prompt's own: what is queued, less what is computed by now.
    pub queued: u64,
    /// Tokens to be computed before the answer begins, queue included, as many as the fleet computes in the time that this
    /// worker takes; the prompt's own uncached ones weighed by [`Tuning::uncached_weight`], running requests weighed in. Lower
    /// is better.
    pub score: u64,
}

/// A choice and what it was compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The worker.
    pub chosen: Scored,
    /// What decided.
    pub reason: Reason,
    /// Every other worker that was compared.
    pub runners_up: Vec<Scored>,
}

/// Chooses a worker; `None` when none is usable. `word` is the only chance in it.
pub fn choose(policy: Policy, query: &Query<'_>, fleet: &impl Fleet, word: u64) -> Option<Choice> {
    let breaks_ties = matches!(policy, Policy::Mesh | Policy::Local);
    let session = query.session.filter(|_| breaks_ties);
    let counts_others = policy != Policy::Local;
    let mut field = Field { query, fleet, counts_others, session, home: None, uncached_weight: uncached_weight(query) };
    field.home = query.home.filter(|_| policy == Policy::Mesh).and_then(|home| field.hoped(home));
    let mut chance = Chance(word);
    match policy {
        Policy::Mesh | Policy::Local => field.deepest_or_lighter(&mut chance),
        Policy::LeastLoad => field.least_loaded(&mut chance),
        Policy::RoundRobin => field.alone(field.usable_from(query.turn)?, Reason::Turn),
        Policy::Random => field.alone(field.usable_from(chance.next())?, Reason::Chance),
        Policy::Sticky => field.rendezvous(query.session, Reason::Session, &mut chance),
        Policy::PrefixHash => field.rendezvous(query.prefix, Reason::Prefix, &mut chance),
    }
}

/// What the prompt's own uncached tokens weigh: more than queued ones where few hold as much of it as anybody does. A
/// conversation that moves is computed twice for nothing; a beginning that many share is worth having at one more worker.
fn uncached_weight(query: &Query<'_>) -> f64 {
    let deepest = query.overlap.and_then(|overlap| overlap.steps().first());
    let is_rare = deepest.is_some_and(|step| is_useful(query, step.depth) && step.len() as usize <= HOLDERS_FEW);
    if is_rare { query.tuning.uncached_weight } else { 1.0 }
}

fn is_useful(query: &Query<'_>, depth: u32) -> bool {
    let saved = query.prompt.reusable_tokens(depth);
    saved > 0 && saved as f64 >= query.tuning.useful_share * query.prompt.tokens() as f64
}

struct Field<'a, F> {
    query: &'a Query<'a>,
    fleet: &'a F,
    counts_others: bool,
    /// The session whose worker wins ties.
    session: Option<u64>,
    /// The prompt's home, and how many of its tokens that may be hoped to hold.
    home: Option<(WorkerNo, u64)>,
    /// What an uncached token of the prompt's own weighs against a queued one.
    uncached_weight: f64,
}

impl<F: Fleet> Field<'_, F> {
    fn deepest_or_lighter(&self, chance: &mut Chance) -> Option<Choice> {
        let Tuning { holders: holders_max, samples, .. } = self.query.tuning;
        let mut compared: Vec<Scored> = Vec::with_capacity(holders_max + samples);
        for step in self.query.overlap.map_or(&[][..], Overlap::steps) {
            if compared.len() == holders_max || !is_useful(self.query, step.depth) {
                break;
            }
            // Of a prefix that many hold, any two: its holders are alike, so load decides among them.
            while compared.len() < holders_max {
                let Some(worker) = self.usable_of(step, chance.next(), &compared) else { break };
                compared.push(self.scored(worker));
            }
        }
        let holders = compared.len();
        for _ in 0..samples {
            let start = chance.next();
            let new = |worker: &WorkerNo| compared.iter().all(|other| other.worker != *worker);
            let Some(worker) = self.usable_where(start, new) else { break };
            compared.push(self.scored(worker));
        }
        let of_session = self.session.and_then(|key| self.highest(key));
        for worker in self.home.map(|(worker, _)| worker).into_iter().chain(of_session) {
            if compared.iter().all(|other| other.worker != worker) {
                compared.push(self.scored(worker));
            }
        }
        self.best(compared, holders, of_session)
    }

    /// The lowest score. Of equals the session's worker, or the first, so holders before samples.
    fn best(&self, mut compared: Vec<Scored>, holders: usize, home: Option<WorkerNo>) -> Option<Choice> {
        let first = (0..compared.len()).min_by_key(|at| compared[*at].score)?;
        let lowest = compared[first].score;
        let equals = compared.iter().filter(|scored| scored.score == lowest).count();
        let is_home = |scored: &Scored| scored.score == lowest && Some(scored.worker) == home;
        let tied_home = compared.iter().position(is_home).filter(|_| equals > 1);
        let at = tied_home.unwrap_or(first);
        let reason = match holders {
            _ if tied_home.is_some() => Reason::Session,
            _ if at >= holders && self.hope_beats_knowledge(&compared[at]) => Reason::Home,
            0 => Reason::Load,
            _ if at < holders => Reason::Holder,
            _ => Reason::Lighter,
        };
        Some(Choice { chosen: compared.swap_remove(at), reason, runners_up: compared })
    }

    fn least_loaded(&self, chance: &mut Chance) -> Option<Choice> {
        let workers = self.fleet.workers();
        let start = chance.below(workers.len());
        let from_start = workers[start..].iter().chain(&workers[..start]);
        let usable = from_start.filter(|worker| self.fleet.is_usable(**worker));
        let chosen = usable.map(|worker| self.scored(*worker)).min_by_key(|scored| scored.score)?;
        Some(Choice { chosen, reason: Reason::Load, runners_up: Vec::new() })
    }

    /// The worker whose id hashes highest together with `key`: it stays the same while that worker is usable, whatever
    /// becomes of the others. Without a key, load decides.
    fn rendezvous(&self, key: Option<u64>, reason: Reason, chance: &mut Chance) -> Option<Choice> {
        let Some(key) = key else { return self.deepest_or_lighter(chance) };
        self.alone(self.highest(key)?, reason)
    }

    fn highest(&self, key: u64) -> Option<WorkerNo> {
        let usable = self.fleet.workers().iter().filter(|worker| self.fleet.is_usable(**worker));
        usable.max_by_key(|worker| mix(key ^ self.fleet.id_hash(**worker))).copied()
    }

    fn alone(&self, worker: WorkerNo, reason: Reason) -> Option<Choice> {
        Some(Choice { chosen: self.scored(worker), reason, runners_up: Vec::new() })
    }

    /// The home, and how many tokens of the prompt it may be hoped to hold; `None` when that is too little to look at.
    fn hoped(&self, home: Home) -> Option<(WorkerNo, u64)> {
        let Tuning { hope, useful_share, .. } = self.query.tuning;
        let share = (home.unseen * hope).clamp(0.0, 1.0);
        if share < useful_share {
            return None;
        }
        let all = self.query.prompt.reusable_tokens(u32::MAX);
        self.highest(home.key).map(|worker| (worker, (all as f64 * share) as u64))
    }

    fn hope_beats_knowledge(&self, chosen: &Scored) -> bool {
        let known = self.query.prompt.reusable_tokens(chosen.depth);
        self.home.is_some_and(|(worker, hoped)| worker == chosen.worker && hoped > known)
    }

    fn scored(&self, worker: WorkerNo) -> Scored {
        let depth = self.query.overlap.map_or(0, |overlap| overlap.depth_of(worker));
        let own = self.fleet.own_load(worker);
        let others = if self.counts_others { self.fleet.others_load(worker) } else { Load::default() };
        let hoped = self.home.filter(|(home, _)| *home == worker).map_or(0, |(_, tokens)| tokens);
        let uncached = self.query.prompt.tokens() - self.query.prompt.reusable_tokens(depth).max(hoped);
        let queued = own.queued_tokens.saturating_add(others.queued_tokens);
        let unseen = if self.counts_others { self.fleet.unseen_load(worker, queued) } else { Load::default() };
        let requests = u64::from(own.requests) + u64::from(others.requests) + u64::from(unseen.requests);
        let queued = queued - self.fleet.computed_of(worker, queued).min(queued);
        let queued = queued.saturating_add(unseen.queued_tokens);
        let request_tokens = self.query.tuning.request_tokens;
        let work = uncached.saturating_add(queued) as f64 * self.fleet.slowness(worker);
        let work = (work + (self.uncached_weight - 1.0) * uncached as f64).max(0.0) as u64;
        Scored { worker, depth, queued, score: work.saturating_add(requests * request_tokens) }
    }

    /// A usable worker of the step that was not taken yet, any with equal chance as long as most are usable.
    fn usable_of(&self, step: &Step, start: u64, taken: &[Scored]) -> Option<WorkerNo> {
        let free =
            |worker: &WorkerNo| self.fleet.is_usable(*worker) && taken.iter().all(|other| other.worker != *worker);
        let start = (start % u64::from(step.len().max(1))) as usize;
        step.iter().skip(start).find(free).or_else(|| step.iter().take(start).find(free))
    }

    /// The first usable worker from a position on, wrapping round.
    fn usable_from(&self, start: u64) -> Option<WorkerNo> {
        self.usable_where(start, |_| true)
    }

    fn usable_where(&self, start: u64, also: impl Fn(&WorkerNo) -> bool) -> Option<WorkerNo> {
        let workers = self.fleet.workers();
        let start = (start % (workers.len().max(1) as u64)) as usize;
        let mut from_start = workers[start..].iter().chain(&workers[..start]);
        from_start.find(|worker| self.fleet.is_usable(**worker) && also(worker)).copied()
    }
}

/// Random words out of one (SplitMix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// SplitMix64's finisher: every bit of the word moves every bit of the result.
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
