//! I9: logs, queues, held ops and chain content are bounded, and nothing is kept that nothing refers to.

use covey_crdt::id::LifeId;
use covey_crdt::limits::LIVES_MAX;
use covey_crdt::op::{Op, Touch};
use covey_mesh::limits::{FEED_LOG_BYTES_MAX, HELD_OPS_MAX, LOG_BYTES_MAX, PULL_BYTES_MAX};
use covey_mesh::node::Node;
use covey_mesh::status::Status;

use super::Violation;

/// Frames a node may put out in one turn.
const TURN_OUTPUTS_MAX: usize = 2 * PULL_BYTES_MAX / OP_BYTES_MIN;

/// Bytes of the smallest op that comes in numbers.
const OP_BYTES_MIN: usize = 24;

pub(super) fn check_turn(name: &str, queued: usize) -> Option<Violation> {
    let what = || format!("{name}: frames of one turn are {queued}, above {TURN_OUTPUTS_MAX}");
    (queued > TURN_OUTPUTS_MAX).then(|| Violation::new("I9", what()))
}

pub(super) fn check(name: &str, node: &Node) -> Vec<Violation> {
    let status = node.status(covey_mesh::input::MonoTime::default());
    let mut found = check_sizes(name, &status, node.replica().over_bound());
    found.extend(check_chains(name, node));
    found
}

fn check_sizes(name: &str, status: &Status, over_bound: u64) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut bound = |what: &str, value: u64, most: u64| {
        if value > most {
            found.push(Violation::new("I9", format!("{name}: {what} is {value}, above {most}")));
        }
    };
    bound("held ops", status.ops_held, HELD_OPS_MAX as u64);
    bound("retained log bytes", status.log_bytes, (LOG_BYTES_MAX + FEED_LOG_BYTES_MAX) as u64);
    bound("lives", status.lives, 2 * LIVES_MAX as u64);
    bound("refusals at a bound of replicated state", over_bound, 0);
    found
}

/// Retention as turned down: what housekeeping has looked at fits.
pub(super) fn check_log(name: &str, settled_bytes: usize, most: usize) -> Option<Violation> {
    let what = || format!("{name}: {settled_bytes} bytes of retained ops outlived housekeeping, above {most}");
    (settled_bytes > most).then(|| Violation::new("I9", what()))
}

/// A retained op must still be able to hand its chain on.
fn check_chains(name: &str, node: &Node) -> Option<Violation> {
    let replica = node.replica();
    let logs = node.logs();
    let ops = logs.flat_map(|(life, first)| {
        let ops = node.retained(life, first).into_iter().flatten();
        ops.map(move |(seq, op)| (life, seq, op))
    });
    let over =
        |touch: &Touch| replica.record(&touch.worker).is_some_and(|record| record.incarnation > touch.incarnation);
    freed(name, ops, |touch| replica.chains().resolve(touch.tip).is_some() || over(touch))
}

fn freed<'a>(
    name: &str,
    ops: impl Iterator<Item = (LifeId, u64, &'a Op)>,
    is_kept: impl Fn(&Touch) -> bool,
) -> Option<Violation> {
    let touches =
        ops.filter_map(|(life, seq, op)| if let Op::Touch(touch) = op { Some((life, seq, touch)) } else { None });
    let (life, seq, _) = touches.into_iter().find(|(_, _, touch)| !is_kept(touch))?;
    Some(Violation::new("I9", format!("{name}: the chain of retained op {seq} of {life:?} was freed")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::made;

    #[test]
    fn a_turn_of_endless_outputs_is_found() {
        assert_eq!(check_turn("gw-0", TURN_OUTPUTS_MAX), None);
        assert!(check_turn("gw-0", TURN_OUTPUTS_MAX + 1).is_some());
    }

    #[test]
    fn a_log_that_outlives_housekeeping_is_found() {
        assert_eq!(check_log("gw-0", 500, 500), None);
        assert!(check_log("gw-0", 501, 500).is_some());
    }

    #[test]
    fn every_size_above_its_bound_is_found() {
        let sound = Status {
            ops_held: HELD_OPS_MAX as u64,
            log_bytes: (LOG_BYTES_MAX + FEED_LOG_BYTES_MAX) as u64,
            ..Status::default()
        };
        assert_eq!(check_sizes("gw-0", &sound, 0), []);
        let held = Status { ops_held: HELD_OPS_MAX as u64 + 1, ..sound.clone() };
        let log = Status { log_bytes: (LOG_BYTES_MAX + FEED_LOG_BYTES_MAX) as u64 + 1, ..sound.clone() };
        let lives = Status { lives: 2 * LIVES_MAX as u64 + 1, ..sound.clone() };
        for (status, over_bound) in [(held, 0), (log, 0), (lives, 0), (sound, 1)] {
            assert_eq!(check_sizes("gw-0", &status, over_bound).len(), 1, "{status:?}");
        }
    }

    #[test]
    fn a_chain_freed_under_a_retained_op_is_found() {
        let made = made::lone();
        assert_eq!(check("gw-0", &made.node), []);
        let ops = || made.node.retained(made.node.life(), 1).expect("all").map(|(seq, op)| (made.node.life(), seq, op));
        assert_eq!(freed("gw-0", ops(), |_| true), None);
        assert!(freed("gw-0", ops(), |touch| touch.tip.depth != 3).is_some(), "the second chain is gone");
    }
}
