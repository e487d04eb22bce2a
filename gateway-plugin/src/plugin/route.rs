//! One routing decision: one reading of the index, one lookup, one choice, and the label for what it came to.
//!
//! Not here: scoring (`policy`), walking the index (`index`). Upholds I8: coverage, records and other gateways' load all
//! come from the one version that the decision names.

use std::sync::Arc;
use std::time::Duration;

use covey_crdt::id::{Incarnation, WorkerId};
use covey_mesh::input::Load;

use super::outcome::{Outcome, Skipped};
use super::routed::{Hints, NoWorker, Routed, RunnerUp};
use super::ticket::Ticket;
use super::{Plugin, RequestKey, spans};
use crate::index::{Overlap, Reading};
use crate::load::{Table, WorkerNo};
use crate::policy::{Choice, Fleet, Home, Policy, Query, Scored, choose};

/// The workers as one decision sees them.
struct Candidates<'a> {
    table: &'a Table,
    reading: &'a Reading,
    exclude: &'a [WorkerId],
    now_us: u64,
    /// Some gateways are not heard.
    is_apart: bool,
}

impl Candidates<'_> {
    /// Reachable from here, as far as known, and not removed.
    fn is_up(&self, worker: WorkerNo) -> bool {
        self.table.is_routable(worker)
            && self.table.cell(worker).is_some_and(|cell| !cell.is_masked())
            && !self.reading.worker(worker).is_some_and(|view| view.incarnation.is_removed())
    }

    fn id(&self, worker: WorkerNo) -> &WorkerId {
        self.table.cell(worker).expect("only workers of the table are compared").id()
    }

    fn nobody(&self) -> NoWorker {
        let known = self.table.routable();
        let up = known.iter().filter(|worker| self.is_up(**worker)).count();
        NoWorker { known: known.len(), unusable: known.len() - up, excluded: up }
    }
}

impl Fleet for Candidates<'_> {
    fn workers(&self) -> &[WorkerNo] {
        self.table.routable()
    }

    fn is_usable(&self, worker: WorkerNo) -> bool {
        self.is_up(worker) && (self.exclude.is_empty() || !self.exclude.contains(self.id(worker)))
    }

    fn own_load(&self, worker: WorkerNo) -> Load {
        self.table.cell(worker).map_or_else(Load::default, |cell| cell.load())
    }

    fn others_load(&self, worker: WorkerNo) -> Load {
        self.reading.others(worker)
    }

    fn unseen_load(&self, worker: WorkerNo, accounted: u64) -> Load {
        // In a whole mesh a difference is one of timing, or of requests that an engine counts several times.
        let cell = self.table.cell(worker).filter(|_| self.is_apart);
        cell.map_or_else(Load::default, |cell| cell.unseen(accounted, self.now_us))
    }

    fn computed_of(&self, worker: WorkerNo, queued_tokens: u64) -> u64 {
        self.table.cell(worker).map_or(0, |cell| cell.computed_of(queued_tokens, self.now_us))
    }

    fn slowness(&self, worker: WorkerNo) -> f64 {
        self.table.cell(worker).map_or(1.0, |cell| cell.slowness())
    }

    fn id_hash(&self, worker: WorkerNo) -> u64 {
        self.table.cell(worker).map_or(0, |cell| cell.id_hash())
    }
}

impl Plugin {
    /// Which workers hold how much of the prompt.
    ///
    /// # Errors
    /// [`Skipped`] when no lookup is made: the policy does not want one, the prompt has no whole block, or the view cannot
    /// be trusted. The request is routed on load then.
    pub fn overlap(&self, key: &RequestKey) -> Result<Overlap, Skipped> {
        self.look_up(key, &self.parts.index.load())
    }

    /// Chooses a worker and counts the request as pending there, until the ticket is dropped.
    ///
    /// # Errors
    /// [`NoWorker`] when every worker is masked, removed or excluded.
    pub fn route(&self, key: &RequestKey, hints: &Hints<'_>) -> Result<Routed, NoWorker> {
        // The reading first: it keeps the numbers of its workers from being given to others.
        let reading = self.parts.index.load();
        let table = self.parts.workers.table();
        let now_us = self.parts.clock.now_us();
        let is_apart = self.unheard() > 0.0;
        let fleet = Candidates { table: &table, reading: &reading, exclude: hints.exclude, now_us, is_apart };
        let looked = self.look_up(key, &reading);
        let (turn, word) = self.next_turn();
        let query = Query {
            overlap: looked.as_ref().ok(),
            prompt: key.prompt(),
            session: hints.session,
            prefix: key.prefix(),
            home: if is_apart { self.home(key) } else { None },
            turn,
            tuning: self.tuning,
        };
        let Some(choice) = spans::policy(|| choose(self.policy, &query, &fleet, word)) else {
            self.counters.no_worker();
            return Err(fleet.nobody());
        };
        let outcome = self.label(&choice.chosen, &looked, &fleet, hints);
        self.counters.outcome(outcome);
        let routed = routed(key, choice, outcome, &fleet, self.view_age());
        self.load_changed();
        Ok(routed)
    }

    fn home(&self, key: &RequestKey) -> Option<Home> {
        Some(Home { key: key.stem()?, unseen: self.parts.workers.unseen_share() })
    }

    fn look_up(&self, key: &RequestKey, reading: &Reading) -> Result<Overlap, Skipped> {
        if !self.policy.uses_coverage() {
            return Err(Skipped::Off);
        }
        if key.chain().is_empty() {
            return Err(Skipped::TooShort);
        }
        if self.is_stale() {
            return Err(Skipped::Stale);
        }
        Ok(spans::lookup(|| reading.lookup(key.keyspace(), key.chain())))
    }

    /// What the decision came to, seen after everything that can spoil an answer (hazard 4).
    fn label(
        &self,
        chosen: &Scored,
        looked: &Result<Overlap, Skipped>,
        fleet: &Candidates<'_>,
        hints: &Hints<'_>,
    ) -> Outcome {
        let overlap = match looked {
            Err(Skipped::Off) if self.policy == Policy::Sticky && hints.session.is_some() => return Outcome::Sticky,
            Err(skipped) => return (*skipped).into(),
            Ok(_) if self.parts.view.is_clock_off() => return Outcome::Clock,
            Ok(overlap) => overlap,
        };
        let held_by_usable = || overlap.steps().iter().flat_map(|step| step.iter()).any(|no| fleet.is_usable(no));
        if chosen.depth > 0 {
            Outcome::Hit
        } else if held_by_usable() {
            Outcome::Miss
        } else if overlap.is_partly_hidden() || !overlap.steps().is_empty() {
            Outcome::Unscorable
        } else {
            Outcome::None
        }
    }
}

/// The decision, with the request counted on its worker.
fn routed(key: &RequestKey, choice: Choice, outcome: Outcome, fleet: &Candidates<'_>, view_age: Duration) -> Routed {
    let Choice { chosen, reason, runners_up } = choice;
    let cell = fleet.table.cell(chosen.worker).expect("only workers of the table are chosen");
    let record = fleet.reading.worker(chosen.worker);
    let incarnation = record.map_or_else(Incarnation::unknown, |view| view.incarnation.clone());
    let predicted_tokens = key.reusable_tokens(chosen.depth);
    let uncached_tokens = key.prompt_tokens() - predicted_tokens;
    let runners_up = runners_up.into_iter().map(|scored| RunnerUp {
        worker: fleet.id(scored.worker).clone(),
        predicted_tokens: key.reusable_tokens(scored.depth),
        queued_tokens: scored.queued,
        score: scored.score,
    });
    Routed {
        worker: cell.id().clone(),
        incarnation: incarnation.clone(),
        outcome,
        predicted_tokens,
        prompt_tokens: key.prompt_tokens(),
        reason,
        queued_tokens: chosen.queued,
        score: chosen.score,
        runners_up: runners_up.collect(),
        version: fleet.reading.version(),
        view_age,
        ticket: Ticket::new(Arc::clone(cell), incarnation, uncached_tokens, chosen.queued == 0, fleet.now_us),
    }
}
