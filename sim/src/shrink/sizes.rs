//! Passes over what a plan has many of: nodes, workers, time, fault classes, events.
//!
//! Not here: single numbers (`leaves`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::Shrinker;
use super::leaves::{from_json, to_json};
use crate::plan::{Event, Plan};

/// Fewer nodes: the last ones go, and with them what names them.
pub(super) fn nodes(shrinker: &mut Shrinker<'_>) {
    bisect(shrinker, "nodes", 2, |plan| plan.nodes as u64, |plan, nodes| with_nodes(plan, nodes as usize));
}

/// Fewer workers.
pub(super) fn workers(shrinker: &mut Shrinker<'_>) {
    let with = |plan: &Plan, workers: u64| Some(fitting(Plan { workers: workers as usize, ..plan.clone() }));
    bisect(shrinker, "workers", 1, |plan| plan.workers as u64, with);
}

/// Shorter: no faults and no load after the violation, then as little before it as possible.
pub(super) fn duration(shrinker: &mut Shrinker<'_>) {
    let cut = |plan: &Plan, ms: u64| {
        let mut plan = Plan { faults_ms: ms, ..plan.clone() };
        plan.events.retain(|event| event.at_ms <= ms);
        Some(plan)
    };
    let broke_ms = shrinker.outcome.ended_us / 1_000 + 1;
    if broke_ms < shrinker.best.faults_ms
        && let Some(plan) = cut(&shrinker.best, broke_ms)
    {
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
    with: impl Fn(&Plan, u64) -> Option<Plan>,
) {
    let mut too_small = least.saturating_sub(1);
    while too_small + 1 < of(&shrinker.best) && !shrinker.is_spent() {
        let present = of(&shrinker.best);
        let value = if too_small < least { least } else { too_small + (present - too_small) / 2 };
        let helped = with(&shrinker.best, value).is_some_and(|plan| shrinker.try_plan(pass, plan));
        if !helped {
            too_small = value;
        }
    }
}

/// The plan with its first `nodes` nodes: per-node lists are cut, whatever they are.
fn with_nodes(plan: &Plan, nodes: usize) -> Option<Plan> {
    let mut json = to_json(plan);
    for value in json.as_object_mut()?.values_mut() {
        if let Value::Array(list) = value
            && list.len() == plan.nodes
            && list.iter().all(Value::is_number)
        {
            list.truncate(nodes);
        }
    }
    let mut plan = from_json(json)?;
    plan.nodes = nodes;
    Some(fitting(plan))
}

/// The plan without the events that name nodes or workers it does not have.
fn fitting(mut plan: Plan) -> Plan {
    let events = std::mem::take(&mut plan.events);
    let fits = |event: &Event| Plan { events: vec![*event], ..plan.clone() }.check().is_ok();
    let events = events.into_iter().filter(fits).collect();
    Plan { events, ..plan }
}

/// The name of an event's kind of fault.
fn class(event: &Event) -> String {
    match to_json(&event.fault) {
        Value::Object(fault) => fault.into_iter().next().map(|(name, _)| name).unwrap_or_default(),
        Value::String(name) => name,
        other => other.to_string(),
    }
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
