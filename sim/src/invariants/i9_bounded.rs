//! I9: logs, queues, held ops and chain content are bounded, and nothing is kept that nothing refers to.

use covey_crdt::limits::LIVES_MAX;
use covey_crdt::op::{Op, Touch};
use covey_mesh::limits::{HELD_OPS_MAX, Knobs, LOG_BYTES_MAX};
use covey_mesh::node::Node;

use super::Violation;

/// Frames a node may put out in one turn.
const TURN_OUTPUTS_MAX: usize = 20_000;

pub(super) fn check_turn(name: &str, queued: usize) -> Option<Violation> {
    let what = || format!("{name}: outputs of one turn are {queued}, above {TURN_OUTPUTS_MAX}");
    (queued > TURN_OUTPUTS_MAX).then(|| Violation::new("I9", what()))
}

pub(super) fn check(name: &str, node: &Node, knobs: &Knobs) -> Vec<Violation> {
    let status = node.status(covey_mesh::input::MonoTime::default());
    let mut found = Vec::new();
    let mut bound = |what: &str, value: u64, most: u64| {
        if value > most {
            found.push(Violation::new("I9", format!("{name}: {what} is {value}, above {most}")));
        }
    };
    bound("held ops", status.ops_held, HELD_OPS_MAX as u64);
    bound("retained log bytes", status.log_bytes, LOG_BYTES_MAX as u64);
    if knobs.log_bytes < LOG_BYTES_MAX {
        bound("retained log bytes that housekeeping has seen", node.settled_log_bytes() as u64, knobs.log_bytes as u64);
    }
    bound("lives", status.lives, 2 * LIVES_MAX as u64);
    bound("refusals at a bound of replicated state", node.replica().over_bound(), 0);
    found.extend(check_chains(name, node));
    found
}

/// A retained op must still be able to hand its chain on.
fn check_chains(name: &str, node: &Node) -> Option<Violation> {
    let replica = node.replica();
    let over =
        |touch: &Touch| replica.record(&touch.worker).is_some_and(|record| record.incarnation > touch.incarnation);
    for (life, first) in node.logs() {
        for (seq, op) in node.retained(life, first).into_iter().flatten() {
            let Op::Touch(touch) = op else { continue };
            if replica.chains().resolve(touch.tip).is_none() && !over(touch) {
                return Some(Violation::new(
                    "I9",
                    format!("{name}: the chain of retained op {seq} of {life:?} was freed"),
                ));
            }
        }
    }
    None
}
