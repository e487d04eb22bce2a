//! Whether a plan can be carried out, and if not, which field is wrong and what to do.
//!
//! Places are named as they stand in the plan's JSON, for example `events[3].fault.step.node`.
//!
//! Not here: whether it is a sensible plan.

use std::fmt;

use super::{Cut, Fault, Plan, Wrong};

/// Virtual milliseconds a run's faults may last: an hour.
const FAULTS_MS_MAX: u64 = 3_600_000;
/// Placements a second: more would only be dropped at the nodes' own bounds.
const OPS_PER_S_MAX: u64 = 100_000;

/// A plan that cannot be carried out: the place that is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPlan(pub String);

impl fmt::Display for BadPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the plan cannot be run: {}", self.0)
    }
}

impl std::error::Error for BadPlan {}

type Checked = Result<(), BadPlan>;

/// What a field of a fault names.
enum Names {
    Node(usize),
    Worker(usize),
    /// Nodes as bits.
    Mask(u64),
    /// A time between two things, which must not be 0.
    Period(u64),
}

impl Plan {
    /// Checks that the plan can be carried out.
    ///
    /// # Errors
    /// [`BadPlan`] naming the first field that is wrong.
    pub fn check(&self) -> Checked {
        self.check_sizes()?;
        self.check_lists()?;
        self.check_network()?;
        self.check_broken()?;
        for (nth, event) in self.events.iter().enumerate() {
            if event.at_ms > self.faults_ms {
                return wrong(format!(
                    "events[{nth}].at_ms is {}, but faults end at faults_ms = {}: move the event or raise faults_ms",
                    event.at_ms, self.faults_ms
                ));
            }
            self.check_fault(nth, event.fault)?;
        }
        Ok(())
    }

    fn check_sizes(&self) -> Checked {
        within("nodes", self.nodes as u64, 2, 64)?;
        within("workers", self.workers as u64, 1, 128)?;
        within("capacity_tokens", self.capacity_tokens, 1, 1 << 40)?;
        within("sessions", self.sessions, 1, 1 << 20)?;
        within("depth_max", self.depth_max, 1, 4_096)?;
        within("ops_per_s", self.ops_per_s, 1, OPS_PER_S_MAX)?;
        within("faults_ms", self.faults_ms, 1, FAULTS_MS_MAX)?;
        within("quiet_ms", self.quiet_ms, 0, FAULTS_MS_MAX)?;
        if let Some(feeds) = self.feeds {
            within("feeds.batches_per_s", feeds.batches_per_s, 1, 1_000)?;
            within("feeds.copies", feeds.copies, 1, 100_000)?;
            within("feeds.kept", feeds.kept, 0, 100_000)?;
            within("feeds.delay_ms", feeds.delay_ms, 0, 10_000)?;
            within("feeds.jitter_ms", feeds.jitter_ms, 0, 10_000)?;
        }
        within("hash_bits", u64::from(self.hash_bits), 1, 64)?;
        within("idle_ms", self.idle_ms, 1, 1 << 40)?;
        within("member_late_ms", self.member_late_ms, 0, FAULTS_MS_MAX)?;
        within("probe_late_ms", self.probe_late_ms, 0, FAULTS_MS_MAX)?;
        within("turn_blocks", self.turn_blocks, 0, self.depth_max)?;
        self.check_driver()
    }

    fn check_driver(&self) -> Checked {
        let driver = &self.driver;
        within("driver.handshake_delays", driver.handshake_delays, 0, 100)?;
        within("driver.redial_ms[0]", driver.redial_ms.0, 1, 60_000)?;
        for (name, (least, most)) in
            [("redial", driver.redial_ms), ("dead", driver.dead_ms), ("crash", driver.crash_ms)]
        {
            within(&format!("driver.{name}_ms[1]"), most, least, 600_000)?;
        }
        Ok(())
    }

    fn check_lists(&self) -> Checked {
        let lists = [
            ("starts_ms", self.starts_ms.len()),
            ("offsets_ms", self.offsets_ms.len()),
            ("drifts_ppm", self.drifts_ppm.len()),
        ];
        for (name, length) in lists {
            if length != 0 && length != self.nodes {
                let nodes = self.nodes;
                return wrong(format!(
                    "{name} has {length} entries, but there are {nodes} nodes: give one a node, or none"
                ));
            }
        }
        if let Some(nth) = self.starts_ms.iter().position(|ms| *ms > self.faults_ms) {
            return wrong(format!("starts_ms[{nth}] is {}, after faults_ms = {}", self.starts_ms[nth], self.faults_ms));
        }
        if let Some(nth) = self.drifts_ppm.iter().position(|ppm| ppm.abs() > 100_000) {
            return wrong(format!(
                "drifts_ppm[{nth}] is {}: a clock drifts by at most 100000 ppm",
                self.drifts_ppm[nth]
            ));
        }
        for (nth, slow) in self.slow.iter().enumerate() {
            self.node(&format!("slow[{nth}].node"), slow.node)?;
            within(&format!("slow[{nth}].every_ms"), slow.every_ms, slow.for_ms + 1, FAULTS_MS_MAX)?;
        }
        Ok(())
    }

    fn check_network(&self) -> Checked {
        let network = &self.network;
        share("network.loss", network.loss)?;
        share("network.duplicate", network.duplicate)?;
        within("network.delay_ms", network.delay_ms, 0, 60_000)?;
        within("network.jitter_ms", network.jitter_ms, 0, 60_000)?;
        if let Some(burst) = network.burst {
            share("network.burst.enter", burst.enter)?;
            share("network.burst.leave", burst.leave)?;
            share("network.burst.loss", burst.loss)?;
        }
        for (nth, pair) in network.pairs.iter().enumerate() {
            self.node(&format!("network.pairs[{nth}].from"), pair.from)?;
            self.node(&format!("network.pairs[{nth}].to"), pair.to)?;
            share(&format!("network.pairs[{nth}].loss"), pair.loss)?;
        }
        if let Some(stale) = network.stale {
            share("network.stale.share", stale.share)?;
            within("network.stale.least_ms", stale.least_ms, 1, FAULTS_MS_MAX)?;
            within("network.stale.most_ms", stale.most_ms, stale.least_ms, FAULTS_MS_MAX)?;
        }
        if let Some(corruption) = network.corruption {
            share("network.corruption.truncated", corruption.truncated)?;
            share("network.corruption.flipped", corruption.flipped)?;
        }
        if let Some(window) = &network.window {
            for (nth, node) in window.nodes.iter().enumerate() {
                self.node(&format!("network.window.nodes[{nth}]"), *node)?;
            }
            within("network.window.bytes", window.bytes, 1, 1 << 30)?;
            within("network.window.bytes_per_s", window.bytes_per_s, 1, 1 << 40)?;
        }
        Ok(())
    }

    fn check_broken(&self) -> Checked {
        let (broken, nodes) = (self.broken.len(), self.nodes);
        if broken * 2 >= nodes {
            return wrong(format!("broken names {broken} of {nodes} nodes: only a minority may be left broken"));
        }
        for (nth, broken) in self.broken.iter().enumerate() {
            self.node(&format!("broken[{nth}].node"), broken.node)?;
            if self.broken[..nth].iter().any(|other| other.node == broken.node) {
                return wrong(format!("broken[{nth}].node is {}, which is named before", broken.node));
            }
            match broken.how {
                Wrong::Clock { ms } if ms.unsigned_abs() < 600 => {
                    return wrong(format!("broken[{nth}].how.clock.ms is {ms}: less than 600 either way is not wrong"));
                }
                Wrong::Slow { every_ms, for_ms } => {
                    within(&format!("broken[{nth}].how.slow.every_ms"), every_ms, for_ms + 1, FAULTS_MS_MAX)?;
                }
                Wrong::Dead | Wrong::Isolated | Wrong::Deaf | Wrong::Mute | Wrong::Clock { .. } => {}
            }
        }
        Ok(())
    }

    fn check_fault(&self, nth: usize, fault: Fault) -> Checked {
        for (field, names) in named(fault) {
            let place = format!("events[{nth}].fault.{field}");
            match names {
                Names::Node(node) => self.node(&place, node)?,
                Names::Worker(worker) if worker >= self.workers => {
                    let (workers, last) = (self.workers, self.workers - 1);
                    return wrong(format!("{place} is {worker}, but there are {workers} workers (0 to {last})"));
                }
                Names::Mask(mask) if self.nodes < 64 && mask >> self.nodes != 0 => {
                    let nodes = self.nodes;
                    return wrong(format!("{place} has bits above those of the {nodes} nodes: clear them"));
                }
                Names::Period(0) => return wrong(format!("{place} is 0: give it at least 1")),
                Names::Worker(_) | Names::Mask(_) | Names::Period(_) => {}
            }
        }
        Ok(())
    }

    fn node(&self, place: &str, node: usize) -> Checked {
        if node < self.nodes {
            return Ok(());
        }
        wrong(format!("{place} is {node}, but there are {} nodes (0 to {})", self.nodes, self.nodes - 1))
    }
}

fn wrong(what: String) -> Checked {
    Err(BadPlan(what))
}

fn within(place: &str, value: u64, least: u64, most: u64) -> Checked {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    wrong(format!("{place} is {value}: give it {least} to {most}"))
}

fn share(place: &str, value: f64) -> Checked {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    wrong(format!("{place} is {value}: a share is 0 to 1"))
}

fn named(fault: Fault) -> Vec<(&'static str, Names)> {
    use Names::{Mask, Node, Period, Worker};
    match fault {
        Fault::Heal => Vec::new(),
        Fault::Cut { cut, .. } => named_by_cut(cut, false),
        Fault::Flap { cut, on_ms, off_ms, .. } => {
            let mut all = named_by_cut(cut, true);
            all.extend([("flap.on_ms", Period(on_ms)), ("flap.off_ms", Period(off_ms))]);
            all
        }
        Fault::Swizzle { nodes, .. } => vec![("swizzle.nodes", Mask(nodes))],
        Fault::Crash { node } => vec![("crash.node", Node(node))],
        Fault::Restart { node } => vec![("restart.node", Node(node))],
        Fault::Leave { node } => vec![("leave.node", Node(node))],
        Fault::Pause { node, .. } => vec![("pause.node", Node(node))],
        Fault::Roll { .. } => Vec::new(),
        Fault::Reuse { node } => vec![("reuse.node", Node(node))],
        Fault::Rollback { node, .. } => vec![("rollback.node", Node(node))],
        Fault::Namesake { node, of } => vec![("namesake.node", Node(node)), ("namesake.of", Node(of))],
        Fault::Twin { node, of } => vec![("twin.node", Node(node)), ("twin.of", Node(of))],
        Fault::Newer { node, .. } => vec![("newer.node", Node(node))],
        Fault::Step { node, .. } => vec![("step.node", Node(node))],
        Fault::Freeze { node, .. } => vec![("freeze.node", Node(node))],
        Fault::Suspect { node, of, .. } => vec![("suspect.node", Node(node)), ("suspect.of", Node(of))],
        Fault::MemberFlap { node, every_ms, .. } => {
            vec![("member-flap.node", Node(node)), ("member-flap.every_ms", Period(every_ms))]
        }
        Fault::Ghost { node } => vec![("ghost.node", Node(node))],
        Fault::WorkerRestart { worker } => vec![("worker-restart.worker", Worker(worker))],
        Fault::Unsubscribe { node, worker } => {
            vec![("unsubscribe.node", Node(node)), ("unsubscribe.worker", Worker(worker))]
        }
        Fault::WorkerOldToken { worker, .. } => vec![("worker-old-token.worker", Worker(worker))],
        Fault::WorkerFlap { worker, .. } => vec![("worker-flap.worker", Worker(worker))],
        Fault::Remove { worker, .. } => vec![("remove.worker", Worker(worker))],
        Fault::Capacity { worker, .. } => vec![("capacity.worker", Worker(worker))],
        Fault::Raise { node, worker } => vec![("raise.node", Node(node)), ("raise.worker", Worker(worker))],
        Fault::Reset { node, worker } => vec![("reset.node", Node(node)), ("reset.worker", Worker(worker))],
    }
}

fn named_by_cut(cut: Cut, flaps: bool) -> Vec<(&'static str, Names)> {
    use Names::{Mask, Node};
    let pick = |cut: &'static str, flap: &'static str| if flaps { flap } else { cut };
    match cut {
        Cut::Split { side } => vec![(pick("cut.cut.split.side", "flap.cut.split.side"), Mask(side))],
        Cut::Isolate { node } => vec![(pick("cut.cut.isolate.node", "flap.cut.isolate.node"), Node(node))],
        Cut::Deaf { node } => vec![(pick("cut.cut.deaf.node", "flap.cut.deaf.node"), Node(node))],
        Cut::Mute { node } => vec![(pick("cut.cut.mute.node", "flap.cut.mute.node"), Node(node))],
        Cut::OneWay { from, to } => vec![
            (pick("cut.cut.one-way.from", "flap.cut.one-way.from"), Node(from)),
            (pick("cut.cut.one-way.to", "flap.cut.one-way.to"), Node(to)),
        ],
        Cut::Pair { one, other } => vec![
            (pick("cut.cut.pair.one", "flap.cut.pair.one"), Node(one)),
            (pick("cut.cut.pair.other", "flap.cut.pair.other"), Node(other)),
        ],
    }
}

#[cfg(test)]
mod tests;
