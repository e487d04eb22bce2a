//! Shrinking by its hazards: a plan that breaks something else, one that does not end, a result that changes from run to
//! run. The runs are made up, so that what is smallest is known.

use super::*;
use crate::plan::{Burst, Cut, Event, Fault, Slow};

const CRASH: Fault = Fault::Crash { node: 3 };

/// A run that breaks I1 iff node 3 crashes while ops are written at 10 a second or more and frames get lost, 40 ms after
/// the crash.
fn made_up(plan: &Plan) -> Outcome {
    let crash = plan.events.iter().find(|event| event.fault == CRASH);
    let mut outcome = Outcome { converged_ms: Some(1), ended_us: 1_000 * plan.faults_ms, ..Outcome::default() };
    let Some(crash) = crash else { return outcome };
    let at_ms = crash.at_ms + 40;
    if plan.ops_per_s >= 10 && plan.network.loss > 0.0 && at_ms <= plan.faults_ms {
        outcome.ended_us = at_ms * 1_000;
        let invariant = if plan.workers >= 2 { "I1" } else { "I2" };
        outcome.violations.push(Violation::new(invariant, "made up".to_owned()));
    }
    outcome
}

fn large() -> Plan {
    let mut plan = Plan { nodes: 9, workers: 7, ops_per_s: 150, faults_ms: 9_000, ..Plan::from_seed(4) };
    plan.offsets_ms = vec![500; 9];
    plan.slow = vec![Slow { node: 8, every_ms: 900, for_ms: 100 }];
    plan.network.burst = Some(Burst { enter: 0.1, leave: 0.1, loss: 0.5 });
    plan.network.loss = 0.25;
    plan.events = (0..40)
        .map(|nth| Event { at_ms: 100 * nth, fault: Fault::Cut { cut: Cut::Split { side: nth }, for_ms: 50 } })
        .collect();
    plan.events.push(Event { at_ms: 4_500, fault: CRASH });
    plan.events.push(Event { at_ms: 5_000, fault: Fault::Restart { node: 8 } });
    plan
}

fn shrunk(runs_max: u64) -> Shrunk {
    shrink_by(&large(), runs_max, &mut made_up, &mut |_| {}).expect("it breaks something")
}

#[test]
fn everything_that_does_not_matter_goes() {
    let shrunk = shrunk(2_000);
    let plan = &shrunk.plan;
    assert_eq!((plan.nodes, plan.workers), (4, 2), "crashing node 3 needs 4; with one worker it is another invariant");
    assert_eq!(plan.ops_per_s, 10);
    assert_eq!(plan.events, [Event { at_ms: 0, fault: CRASH }]);
    assert!(plan.network.loss > 0.0 && plan.network.loss < 0.01);
    assert!(plan.offsets_ms.is_empty() && plan.slow.is_empty() && plan.network.burst.is_none());
    assert_eq!((plan.faults_ms, plan.end_us), (40, Some(40_000)), "it ends with the violation");
    assert_eq!(plan.knobs, covey_mesh::limits::Knobs::default());
    assert!(!shrunk.is_spent && shrunk.runs < 500, "{} runs", shrunk.runs);
    assert_eq!(made_up(plan).violations, [shrunk.violation]);
}

#[test]
fn equal_plans_shrink_to_equal_plans_within_the_budget() {
    assert_eq!(shrunk(2_000).plan, shrunk(2_000).plan);
    let short = shrunk(20);
    assert!(short.is_spent && short.runs <= 21);
    assert_eq!(short.violation.invariant, "I1");
}

#[test]
fn a_plan_that_holds_is_not_shrunk() {
    let plan = Plan { ops_per_s: 9, ..large() };
    assert!(shrink_by(&plan, 100, &mut made_up, &mut |_| {}).is_none());
}
