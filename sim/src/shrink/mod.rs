//! A smaller plan that breaks the same invariant: fewer nodes, workers, ops, faults, lower magnitudes, an earlier end.
//!
//! Each pass proposes plans that are smaller in one way, tries them, and keeps those that still break the invariant;
//! passes repeat until none helps or the budget of runs is spent. Equal plans and budgets give equal results: a run has no
//! chance of its own, and every concern draws from its own stream, so leaving one fault out does not shift the others.
//!
//! Not here: the command line (`ring1`), carrying plans out (`world`).

mod leaves;
mod sizes;

use crate::invariants::Violation;
use crate::plan::Plan;
use crate::world::{Outcome, run};

/// Finds a smaller plan.
pub struct Shrinker<'a> {
    /// The invariant that has to stay broken.
    invariant: &'static str,
    best: Plan,
    outcome: Outcome,
    runs: u64,
    runs_max: u64,
    run: &'a mut dyn FnMut(&Plan) -> Outcome,
    each: &'a mut dyn FnMut(&Progress<'_>),
}

/// How far shrinking is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Plans run.
    pub runs: u64,
    /// Of how many.
    pub runs_max: u64,
    /// What the last smaller plan has less of.
    pub pass: &'a str,
    /// The smallest plan that breaks the invariant so far.
    pub plan: &'a Plan,
}

/// What shrinking came to.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smaller plan. It ends with the violation.
    pub plan: Plan,
    /// What it breaks.
    pub violation: Violation,
    /// Plans run.
    pub runs: u64,
    /// Whether the budget ended it: there may be smaller plans.
    pub is_spent: bool,
}

/// Shrinks a plan with at most `runs_max` runs; `None` when it breaks nothing.
pub fn shrink(plan: &Plan, runs_max: u64, each: &mut dyn FnMut(&Progress<'_>)) -> Option<Shrunk> {
    shrink_by(plan, runs_max, &mut run, each)
}

/// As [`shrink`], with `run` to carry a plan out.
pub fn shrink_by(
    plan: &Plan,
    runs_max: u64,
    run: &mut dyn FnMut(&Plan) -> Outcome,
    each: &mut dyn FnMut(&Progress<'_>),
) -> Option<Shrunk> {
    let outcome = run(plan);
    let invariant = outcome.violations.first()?.invariant;
    let mut shrinker = Shrinker { invariant, best: plan.clone(), outcome, runs: 1, runs_max, run, each };
    shrinker.best.end_us = None;
    while shrinker.pass() && !shrinker.is_spent() {}
    Some(shrinker.end())
}

impl Shrinker<'_> {
    /// Everything once; whether anything helped.
    fn pass(&mut self) -> bool {
        let before = self.best.clone();
        sizes::nodes(self);
        sizes::workers(self);
        sizes::duration(self);
        sizes::classes(self);
        sizes::events(self);
        leaves::neutral(self);
        leaves::lower(self);
        self.best != before
    }

    fn is_spent(&self) -> bool {
        self.runs >= self.runs_max
    }

    /// Keeps `plan` if it can be carried out and breaks the same invariant; whether it does.
    fn try_plan(&mut self, pass: &str, plan: Plan) -> bool {
        if self.is_spent() || plan == self.best || plan.check().is_err() {
            return false;
        }
        self.runs += 1;
        let outcome = (self.run)(&plan);
        let breaks = outcome.violations.first().is_some_and(|first| first.invariant == self.invariant);
        if breaks {
            self.best = plan;
            self.outcome = outcome;
            (self.each)(&Progress { runs: self.runs, runs_max: self.runs_max, pass, plan: &self.best });
        }
        breaks
    }

    /// The plan ends with the event that breaks the invariant. A panic has no such moment: its plan ends by itself.
    fn end(mut self) -> Shrunk {
        let is_spent = self.is_spent();
        if self.outcome.ended_us > 0 {
            let ended = Plan { end_us: Some(self.outcome.ended_us), ..self.best.clone() };
            let outcome = (self.run)(&ended);
            self.runs += 1;
            if outcome.violations.first().is_some_and(|first| first.invariant == self.invariant) {
                (self.best, self.outcome) = (ended, outcome);
            }
        }
        let violation = self.outcome.violations.into_iter().next().expect("only plans that break something are kept");
        Shrunk { plan: self.best, violation, runs: self.runs, is_spent }
    }
}

#[cfg(test)]
mod tests;
