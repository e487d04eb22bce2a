//! I9: logs, queues, held ops and chain content are bounded, and nothing is kept that nothing refers to.

use covey_crdt::limits::LIVES_MAX;
use covey_mesh::limits::{HELD_OPS_MAX, LOG_BYTES_MAX};
use covey_mesh::node::Node;

use super::Violation;

/// Frames a node may put out in one turn.
const TURN_OUTPUTS_MAX: usize = 20_000;

pub(super) fn check(name: &str, node: &Node, queued: usize) -> Vec<Violation> {
    let status = node.status(covey_mesh::input::MonoTime::default());
    let mut found = Vec::new();
    let mut bound = |what: &str, value: u64, most: u64| {
        if value > most {
            found.push(Violation::new("I9", format!("{name}: {what} is {value}, above {most}")));
        }
    };
    bound("held ops", status.ops_held, HELD_OPS_MAX as u64);
    bound("retained log bytes", status.log_bytes, LOG_BYTES_MAX as u64);
    bound("lives", status.lives, 2 * LIVES_MAX as u64);
    bound("outputs of one turn", queued as u64, TURN_OUTPUTS_MAX as u64);
    bound("refusals at a bound of replicated state", node.replica().over_bound(), 0);
    found
}
