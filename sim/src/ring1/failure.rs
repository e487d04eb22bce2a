//! The text of a failure: how to repeat it, what was broken, what is known of those involved, and what led up to it.
//!
//! Not here: finding out that something broke (`invariants`).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use covey_crdt::id::WorkerId;
use covey_mesh::input::MonoTime;
use covey_mesh::node::Node;

use crate::plan::Plan;
use crate::trace::{Collector, node_name, plan_hash};
use crate::world::{Watch, World};

/// Events shown.
const EVENTS: usize = 30;
/// Violations shown.
const VIOLATIONS: usize = 5;

/// Runs a failing plan again, watched, and says what there is to say. `again` names the plan on a command line.
pub(super) fn text(plan: &Plan, again: &str, until_us: Option<u64>) -> String {
    let collector = Collector::default();
    let watch = Watch { tracer: Some(Box::new(collector.clone())), until_us, ..Watch::default() };
    let mut world = World::new(plan.clone(), watch);
    world.run_out();
    let violations = &world.outcome().violations;
    let mut text = String::new();
    for violation in violations.iter().take(VIOLATIONS) {
        let _ = writeln!(text, "VIOLATION {}: {}", violation.invariant, violation.what);
    }
    if violations.len() > VIOLATIONS {
        let _ = writeln!(text, "  and {} more at the same moment", violations.len() - VIOLATIONS);
    }
    let at_s = world.now_us() as f64 / 1e6;
    let _ = writeln!(text, "at {at_s:.6} s, event {}", world.outcome().events);
    let hash = plan_hash(plan);
    let _ = writeln!(text, "repeat: covey-sim run {again}  (plan {hash}, covey-sim {})", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(text, "shrink: covey-sim shrink {again}");
    let about: String = violations.iter().take(VIOLATIONS).map(|violation| format!("{} ", violation.what)).collect();
    let nodes = named_nodes(&world, &about);
    involved(&mut text, &world, &nodes, &named_workers(&world, &about));
    let kept = collector.take();
    let _ = writeln!(text, "\nwhat led up to it:");
    for step in kept.leading_up(&nodes, EVENTS) {
        let _ = writeln!(text, "{step}");
    }
    text
}

/// The words of a text as names are written: letters, digits, dashes.
fn words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect()
}

/// Nodes that are named, by name or by the life that runs there.
fn named_nodes(world: &World, text: &str) -> Vec<usize> {
    let words = words(text);
    let runs =
        |node: usize| world.live().find(|(nth, _, _)| *nth == node).map(|(_, node, _)| format!("{:?}", node.life()));
    let is_named = |node: &usize| {
        let life = runs(*node);
        words.contains(node_name(*node).as_str()) || life.is_some_and(|life| words.contains(life.as_str()))
    };
    (0..world.plan().nodes).filter(is_named).collect()
}

fn named_workers(world: &World, text: &str) -> Vec<WorkerId> {
    let words = words(text);
    let mut found: BTreeSet<&WorkerId> = BTreeSet::new();
    for (_, node, _) in world.live() {
        found.extend(node.replica().records().map(|(id, _)| id).filter(|id| words.contains(id.name())));
    }
    found.into_iter().cloned().collect()
}

fn involved(text: &mut String, world: &World, nodes: &[usize], workers: &[WorkerId]) {
    let _ = writeln!(text, "\nwhat is known of those involved:");
    for (nth, node, now) in world.live() {
        if nodes.is_empty() || nodes.contains(&nth) {
            let _ = writeln!(text, "  {}", node_line(nth, node, now));
        }
        for worker in workers {
            worker_lines(text, nth, node, worker);
        }
    }
}

fn node_line(nth: usize, node: &Node, now: MonoTime) -> String {
    let status = node.status(now);
    let linked = status.peers.iter().filter(|peer| peer.linked).count();
    format!(
        "{} {:?}, digest {:?}, vector {} of {} lives, clock {}, {} applied, {} held, {linked} peers linked",
        node_name(nth),
        status.phase,
        node.replica().digest(),
        status.vector,
        status.lives,
        status.clock,
        status.ops_applied,
        status.ops_held,
    )
}

fn worker_lines(text: &mut String, nth: usize, node: &Node, worker: &WorkerId) {
    let Some(record) = node.replica().record(worker) else {
        let _ = writeln!(text, "  {} has no record of {worker}", node_name(nth));
        return;
    };
    let incarnation = &record.incarnation;
    let capacity = record.capacity_tokens.map_or_else(|| "unknown".to_owned(), |tokens| format!("{tokens} tokens"));
    let _ = writeln!(
        text,
        "  {} has {worker} in incarnation {} {:?}, capacity {capacity}",
        node_name(nth),
        incarnation.counter,
        incarnation.token.as_str(),
    );
    for (_, keyspace, placed) in node.replica().holders().filter(|(id, _, _)| *id == worker) {
        let _ = writeln!(
            text,
            "    {}: {} of {} blocks in {} segments, floor {:?}, digest {:?}",
            keyspace.model.as_str(),
            placed.blocks(),
            placed.capacity(),
            placed.segments(None).count(),
            placed.floor(),
            placed.digest(),
        );
    }
}
