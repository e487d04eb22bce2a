//! Passes over what a plan has many of: nodes, workers, time, fault classes, events.
//!
//! Not here: single numbers (`leaves`).

use std::collections::BTreeSet;

use super::Shrinker;
use super::leaves::to_json;
use crate::plan::{Event, Plan};

/// Fewer nodes: the last ones go, and with them what names them.
pub(super) fn nodes(shrinker: &mut Shrinker<'_>) {
    bisect(shrinker, "nodes", 2, |plan| plan.nodes as u64, |plan, nodes| with_nodes(plan, nodes as usize));
}

/// Fewer workers.
pub(super) fn workers(shrinker: &mut Shrinker<'_>) {
    let with = |plan: &Plan, workers: u64| fitting(Plan { workers: workers as usize, ..plan.clone() });
    bisect(shrinker, "workers", 1, |plan| plan.workers as u64, with);
}

/// Shorter: no faults and no load after the violation, then as little before it as possible.
pub(super) fn duration(shrinker: &mut Shrinker<'_>) {
    let cut = |plan: &Plan, ms: u64| fitting(Plan { faults_ms: ms, ..plan.clone() });
    let broke_ms = shrinker.outcome.ended_us / 1_000 + 1;
    if broke_ms < shrinker.best.faults_ms {
        let plan = cut(&shrinker.best, broke_ms);
        shrinker.try_plan("duration", plan);
    }
    bisect(shrinker, "duration", 1, |plan| plan.faults_ms, cut);
}

/// Tries ever smaller values of one size: the least, then halfway to it from the present one, until halving ends.
fn bisect(
    shrinker: &mut Shrinker<'_>,
    pass: &str,
    least: u64,
    of: impl Fn(&Plan) -> u64,
    with: impl Fn(&Plan, u64) -> Plan,
) {
    let mut too_small = least.saturating_sub(1);
    while too_small + 1 < of(&shrinker.best) && !shrinker.is_spent() {
        let present = of(&shrinker.best);
        let value = if too_small < least { least } else { too_small + (present - too_small) / 2 };
        let plan = with(&shrinker.best, value);
        if !shrinker.try_plan(pass, plan) {
            too_small = value;
        }
    }
}

/// The plan with its first `nodes` nodes.
fn with_nodes(plan: &Plan, nodes: usize) -> Plan {
    let mut plan = Plan { nodes, ..plan.clone() };
    plan.starts_ms.truncate(nodes);
    plan.offsets_ms.truncate(nodes);
    plan.drifts_ppm.truncate(nodes);
    plan.slow.retain(|slow| slow.node < nodes);
    plan.network.pairs.retain(|pair| pair.from < nodes && pair.to < nodes);
    if let Some(window) = &mut plan.network.window {
        window.nodes.retain(|node| *node < nodes);
    }
    plan.broken.retain(|broken| broken.node < nodes);
    // Only a minority may stay broken.
    while plan.broken.len() * 2 >= nodes && plan.broken.pop().is_some() {}
    fitting(plan)
}

/// The plan without the events that come too late or name nodes or workers it does not have.
fn fitting(mut plan: Plan) -> Plan {
    plan.starts_ms.iter_mut().for_each(|ms| *ms = plan.faults_ms.min(*ms));
    let events = std::mem::take(&mut plan.events);
    let fits = |event: &Event| Plan { events: vec![*event], ..plan.clone() }.check().is_ok();
    let events = events.into_iter().filter(fits).collect();
    Plan { events, ..plan }
}

/// The name of an event's kind of fault.
fn class(event: &Event) -> String {
    let fault = to_json(&event.fault);
    let name = fault.as_object().and_then(|fault| fault.keys().next()).map(String::as_str).or(fault.as_str());
    name.unwrap_or_default().to_owned()
}

/// Leaves whole classes of faults out.
pub(super) fn classes(shrinker: &mut Shrinker<'_>) {
    if !shrinker.best.events.is_empty() {
        let none = Plan { events: Vec::new(), ..shrinker.best.clone() };
        if shrinker.try_plan("all faults", none) {
            return;
        }
    }
    let names: BTreeSet<String> = shrinker.best.events.iter().map(class).collect();
    for name in names {
        let mut plan = shrinker.best.clone();
        plan.events.retain(|event| class(event) != name);
        shrinker.try_plan(&name, plan);
    }
}

/// Leaves events out, by delta debugging: large parts first, then ever smaller ones.
pub(super) fn events(shrinker: &mut Shrinker<'_>) {
    let mut part = shrinker.best.events.len().div_ceil(2);
    while part > 0 && !shrinker.is_spent() {
        let mut from = 0;
        while from < shrinker.best.events.len() {
            let mut plan = shrinker.best.clone();
            let to = (from + part).min(plan.events.len());
            plan.events.drain(from..to);
            if !shrinker.try_plan("events", plan) {
                from = to;
            }
        }
        part = if part == 1 { 0 } else { part.div_ceil(2) };
    }
}
