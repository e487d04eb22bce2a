//! What the mesh node observes, as log lines: one place, one line each, none repeated more often than every ten seconds.
//!
//! Not here: counting (`plugin`), what the driver says about connections (`covey-mesh`). Observations that come with
//! every op are counted only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use covey_crdt::change::Change;
use covey_crdt::id::{LifeId, WorkerId};
use covey_mesh::input::Load;
use covey_mesh::net::{Host, MakeHost};
use covey_mesh::note::{ClockState, Drop, Note, Refusal, RepairWhy};
use covey_mesh::output::FeedOrder;
use tracing::{debug, error, info, warn};

/// How long one line is not repeated.
const QUIET: Duration = Duration::from_secs(10);
/// Lines remembered; when there are more, all may be repeated.
const LINES_MAX: usize = 256;

/// Wraps the plugin's hosts so that what they are told is also logged.
pub(super) fn logging(inner: MakeHost) -> MakeHost {
    Arc::new(move |life| Box::new(LoggingHost { inner: inner(life), said: BTreeMap::new() }))
}

struct LoggingHost {
    inner: Box<dyn Host>,
    said: BTreeMap<String, Instant>,
}

impl Host for LoggingHost {
    fn changed(&mut self, change: Change) {
        self.inner.changed(change);
    }

    fn load(&mut self, life: LifeId, worker: &WorkerId, load: Option<Load>) {
        self.inner.load(life, worker, load);
    }

    fn note(&mut self, note: &Note) {
        self.inner.note(note);
        if let Some((level, line)) = line(note)
            && self.is_news(&line)
        {
            match level {
                Level::Error => error!("{line}"),
                Level::Warn => warn!("{line}"),
                Level::Info => info!("{line}"),
                Level::Debug => debug!("{line}"),
            }
        }
    }

    fn feed(&mut self, order: FeedOrder) {
        self.inner.feed(order);
    }

    fn publish(&mut self) -> Option<Duration> {
        self.inner.publish()
    }

    fn sample_load(&mut self, out: &mut Vec<(WorkerId, Load)>) {
        self.inner.sample_load(out);
    }
}

impl LoggingHost {
    fn is_news(&mut self, line: &str) -> bool {
        let now = Instant::now();
        if self.said.get(line).is_some_and(|at| now.duration_since(*at) < QUIET) {
            return false;
        }
        if self.said.len() >= LINES_MAX {
            self.said.clear();
        }
        self.said.insert(line.to_owned(), now);
        true
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

/// The line for an observation; none for those that are only counted. Lines hold no measured value, so that repetitions
/// are recognised.
fn line(note: &Note) -> Option<(Level, String)> {
    let said = match note {
        Note::Applied { .. }
        | Note::Duplicate { .. }
        | Note::Pulled { .. }
        | Note::Wanted
        | Note::Sent { .. }
        | Note::Dropped { why: Drop::UnknownWorker | Drop::Incarnation } => return None,
        Note::Dropped { why: Drop::Clock } => (Level::Warn, "not publishing: this gateway's clock is ahead".to_owned()),
        Note::Dropped { why: Drop::Bound } => {
            (Level::Warn, "not publishing: a bound of the replica is reached".to_owned())
        }
        Note::Refused { name, why, .. } => (Level::Warn, format!("refused gateway {name}: {}", refusal(why))),
        Note::RefusedBy { peer, why } => (Level::Warn, format!("refused by life {peer}: {why}")),
        Note::Malformed { peer, .. } => (Level::Warn, format!("life {peer} sent a frame that does not parse")),
        Note::NewerVersion { peer, got } => (Level::Warn, format!("life {peer} speaks the newer wire version {got}")),
        Note::UnknownLife { life } => (Level::Warn, format!("refused ops of life {life}: nobody admitted it")),
        Note::Fork { life, peer } => {
            (Level::Error, format!("life {peer} knows another log of life {life}: used twice"))
        }
        Note::RepairStarted { donor, why } => (Level::Info, format!("repair from life {donor}: {}", repair(*why))),
        Note::RepairDone { donor, cost } => {
            let bytes = cost.summary_bytes + cost.slice_bytes + cost.content_bytes;
            let (new, all, pieces) = (cost.segments_new, cost.segments, cost.pieces);
            (
                Level::Info,
                format!(
                    "repair from life {donor} is done: {new} of {all} segments new, {bytes} bytes, {pieces} pieces"
                ),
            )
        }
        Note::RepairRefused { donor, retry_after_ms } => {
            (Level::Info, format!("life {donor} is busy with other repairs: asking again in {retry_after_ms} ms"))
        }
        Note::RepairAborted { donor, why } => (Level::Info, format!("repair from life {donor} was given up: {why:?}")),
        Note::DigestMismatch { peer } => {
            (Level::Error, format!("life {peer} saw the same ops and has another digest: repairing, please report"))
        }
        Note::Restated { lives } => (
            Level::Warn,
            format!("ops of {lives} gateways were lost with them; published what was left of their effects"),
        ),
        Note::Closing { life } => {
            (Level::Info, format!("life {life} is closed: it left or was not heard of for too long"))
        }
        Note::Retired { life } => (Level::Info, format!("life {life} is retired: its log is over")),
        Note::Forgot { lives } => (Level::Debug, format!("{lives} retired lives are forgotten")),
        Note::Founded => (Level::Info, "no other gateway in sight: founding the mesh".to_owned()),
        Note::Clean => (Level::Info, "the replica is clean".to_owned()),
        Note::Dirty => (Level::Debug, "the replica is dirty: catching up".to_owned()),
        Note::Clock { state, .. } => clock(*state),
        Note::FeedApplied { .. } | Note::FeedPulled { .. } => return None,
        Note::Generation { worker } => (
            Level::Warn,
            format!("events of worker {worker} were lost for good: its stored coverage begins a new generation"),
        ),
        Note::FeedForked { worker, peer } => (
            Level::Error,
            format!("life {peer} has another state of worker {worker}'s events under the same key: please report"),
        ),
        Note::TakenOver { worker } => {
            (Level::Info, format!("publishing worker {worker}'s events in place of a gateway that does not"))
        }
        Note::FeedDropped => (Level::Debug, "an op of a feed was dropped: nobody here ingests it any more".to_owned()),
        Note::FeedFetched { worker, bytes } => {
            (Level::Debug, format!("worker {worker}'s stored coverage came whole, in {bytes} bytes"))
        }
        Note::TokenFlaps { worker } => (
            Level::Warn,
            format!(
                "worker {worker} changes its life back and forth: are two engines behind one URL? It is not believed"
            ),
        ),
    };
    Some(said)
}

fn refusal(why: &Refusal) -> String {
    match why {
        Refusal::Cluster { theirs } => format!("it belongs to cluster {theirs:?} (--mesh-cluster)"),
        Refusal::BlockBytes { theirs } => format!("its blocks have {theirs} bytes (--block-bytes must be the same)"),
        Refusal::NameTaken { name, .. } => {
            format!("another live gateway is called {name} (--mesh-name must be unique)")
        }
        Refusal::LivesFull { lives } => format!("the mesh knows {lives} lives already, the most it can"),
    }
}

const fn repair(why: RepairWhy) -> &'static str {
    match why {
        RepairWhy::Bootstrap => "starting out empty",
        RepairWhy::Trimmed => "no log reaches back far enough",
        RepairWhy::Mismatch => "digests differ",
        RepairWhy::Unresolved => "an op could not be resolved",
    }
}

fn clock(state: ClockState) -> (Level, String) {
    match state {
        ClockState::Good => (Level::Info, "the clock agrees with the mesh".to_owned()),
        ClockState::Ahead => {
            (Level::Warn, "the clock is ahead of the mesh: nothing of this gateway is published".to_owned())
        }
        ClockState::Behind => (Level::Warn, "the clock is behind the mesh".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use covey_crdt::id::GatewayName;

    struct Silent;

    impl Host for Silent {
        fn changed(&mut self, _: Change) {}
        fn load(&mut self, _: LifeId, _: &WorkerId, _: Option<Load>) {}
        fn note(&mut self, _: &Note) {}
        fn feed(&mut self, _: FeedOrder) {}
        fn publish(&mut self) -> Option<Duration> {
            None
        }
        fn sample_load(&mut self, _: &mut Vec<(WorkerId, Load)>) {}
    }

    #[test]
    fn a_line_is_said_once_and_the_next_one_too() {
        let mut host = LoggingHost { inner: Box::new(Silent), said: BTreeMap::new() };
        assert!(host.is_news("one") && !host.is_news("one") && host.is_news("two"));
        for i in 0..10_000 {
            host.is_news(&i.to_string());
            assert!(host.said.len() <= LINES_MAX);
        }
    }

    #[test]
    fn refusals_say_which_flag_to_mend() {
        let (peer, name) = (LifeId(1), GatewayName::new("gw-b").expect("a name"));
        let refused = |why| line(&Note::Refused { peer, name: name.clone(), why }).expect("a line").1;
        assert!(refused(Refusal::BlockBytes { theirs: 64 }).contains("--block-bytes"));
        assert!(refused(Refusal::NameTaken { name: name.clone(), holder: peer }).contains("--mesh-name"));
        assert!(refused(Refusal::Cluster { theirs: "x".to_owned() }).contains("--mesh-cluster"));
        assert!(line(&Note::Applied { delay_ms: 1 }).is_none());
    }
}
