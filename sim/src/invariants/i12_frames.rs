//! I12 for what people see: a frame's numbers agree with the all-knowing observer, and a verdict never says more than is
//! known. What a gateway's summary says was true when it was sent; `converged` is said only while everybody is heard.
//!
//! Not here: what a status says of itself and of peers (`i12_gauges`), collecting the truth (`world`).

use std::collections::BTreeMap;

use covey_crdt::id::{LifeId, WorkerId};
use covey_crdt::replica::Expanded;
use covey_crdt::stamp::Floor;
use covey_gateway_plugin::frame::{HEARD_MS_MAX, Verdict};
use covey_mesh::input::Load;
use covey_mesh::status::Status;
use covey_mesh::summary::{Sight, Summary, View};

use super::Violation;
use super::i12_gauges::Moment;

/// What is true of one worker in one replica, counted block by block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerTruth {
    /// Blocks covered.
    pub blocks: u64,
    /// The highest floor, in the node's own wall clock.
    pub floor_ms: Option<u64>,
    /// The latest touch.
    pub newest_ms: Option<u64>,
}

/// The truth about what a node shows.
#[derive(Clone, Debug, Default)]
pub struct FrameTruth {
    /// Workers of its replica.
    pub workers: BTreeMap<WorkerId, WorkerTruth>,
    /// Frames and bytes its life sent, by class.
    pub sent: [(u64, u64); 3],
    /// Load per worker as its host was told, over all live gateways.
    pub loads: BTreeMap<WorkerId, Load>,
    /// What each life was while it sent the summary that reached the node last; a life is missing when nobody remembers.
    pub said: BTreeMap<LifeId, Vec<Moment>>,
    /// How long ago the last exchange of a life that runs reached the node, in milliseconds; `None` for never within
    /// memory.
    pub arrived_ms: BTreeMap<String, Option<u64>>,
}

impl FrameTruth {
    /// Counts a replica's workers block by block.
    #[must_use]
    pub fn workers(state: &Expanded) -> BTreeMap<WorkerId, WorkerTruth> {
        let mut workers: BTreeMap<WorkerId, WorkerTruth> =
            state.records.keys().map(|worker| (worker.clone(), WorkerTruth::default())).collect();
        for (holder, (floor, blocks)) in &state.coverage {
            let truth = workers.entry(holder.worker.clone()).or_default();
            truth.blocks += blocks.len() as u64;
            truth.floor_ms = truth.floor_ms.max((*floor > Floor::LOWEST).then(|| floor.stamp.hlc.ms()));
            truth.newest_ms = truth.newest_ms.max(blocks.values().map(|(stamp, _)| stamp.hlc.ms()).max());
        }
        workers
    }
}

pub(super) fn check(status: &Status, view: &View, verdict: Verdict, truth: &FrameTruth) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut wrong = |what: String| found.push(Violation::new("I12", format!("{} shows {what}", status.name)));
    let Some((own, others)) = view.sights.split_first() else {
        wrong("nothing, not even itself".to_owned());
        return found;
    };
    own_numbers(own, truth).into_iter().for_each(&mut wrong);
    if view.loads != truth.loads {
        wrong(format!("loads {:?}, and its host was told {:?}", view.loads, truth.loads));
    }
    for sight in others {
        if let Some(moments) = truth.said.get(&sight.life)
            && !moments.iter().any(|moment| says(&sight.summary, moment))
        {
            let said = (sight.summary.phase, &sight.summary.digest, sight.summary.vector);
            wrong(format!("{} as {said:?}; when it said so it was {moments:?}", sight.name));
        }
    }
    for peer in status.peers.iter().filter(|peer| !peer.left) {
        let Some(arrived_ms) = truth.arrived_ms.get(&peer.life) else { continue };
        // A millisecond of rounding on each of two clocks.
        let early = |heard: u64| arrived_ms.is_none_or(|ms| heard + 2 < ms);
        if let Some(heard) = peer.heard_ms.filter(|heard| *heard < 9_000 && early(*heard)) {
            wrong(format!("{} as heard {heard} ms ago; its last exchange came {arrived_ms:?} ms ago", peer.name));
        }
        let silent = arrived_ms.is_none_or(|ms| ms > HEARD_MS_MAX + 2);
        if verdict == Verdict::Converged && silent {
            wrong(format!("converged, and {} has not reached it for {arrived_ms:?} ms", peer.name));
        }
    }
    found
}

/// What a node says of itself in numbers.
fn own_numbers(own: &Sight, truth: &FrameTruth) -> Vec<String> {
    let mut found = Vec::new();
    let (counts, tally) = (&own.summary.replica, &own.summary.tally);
    let blocks: u64 = truth.workers.values().map(|worker| worker.blocks).sum();
    if (counts.blocks, counts.workers) != (blocks, truth.workers.len() as u64) {
        let (is, workers) = (blocks, truth.workers.len());
        found.push(format!("{} blocks on {} workers; it has {is} on {workers}", counts.blocks, counts.workers));
    }
    let sent = [0, 1, 2].map(|class| (tally.frames[class], tally.bytes[class]));
    if sent != truth.sent {
        found.push(format!("{sent:?} frames and bytes sent by class; it sent {:?}", truth.sent));
    }
    for (worker, is) in &truth.workers {
        let shown = own.workers.get(worker).map(|dated| WorkerTruth {
            blocks: dated.of.blocks,
            floor_ms: dated.of.floor_ms,
            newest_ms: dated.of.newest_ms,
        });
        if shown != Some(*is) {
            found.push(format!("worker {worker} as {shown:?}; it has {is:?}"));
        }
    }
    found
}

fn says(summary: &Summary, moment: &Moment) -> bool {
    let digest = (moment.phase == covey_mesh::status::Phase::Clean).then(|| moment.digest.to_string());
    summary.phase == moment.phase && summary.vector == moment.vector && summary.digest == digest
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use covey_crdt::digest::Digest;
    use covey_mesh::input::MonoTime;
    use covey_mesh::status::{PeerStatus, Phase};

    use super::*;
    use crate::invariants::made;

    /// A node that covers something, and a peer that it heard.
    fn sound() -> (Status, View, FrameTruth) {
        let made = made::lone();
        let now = MonoTime::from_ms(60_000);
        let (mut status, mut view) = (made.node.status(now), made.node.view(now));
        let peer = LifeId(77);
        let summary =
            Summary { phase: Phase::Clean, digest: Some(Digest(5).to_string()), vector: 50, ..Summary::default() };
        view.sights.push(Sight {
            life: peer,
            name: covey_crdt::id::GatewayName::new("gw-1").expect("a name"),
            summary: Arc::new(summary),
            age_ms: 400,
            workers: BTreeMap::new(),
            feeds: BTreeMap::new(),
        });
        let life = peer.to_string();
        status.peers.push(PeerStatus { name: "gw-1".to_owned(), life, heard_ms: Some(100), ..PeerStatus::default() });
        let truth = FrameTruth {
            workers: FrameTruth::workers(&made.node.replica().expand()),
            sent: [(0, 0); 3],
            loads: view.loads.clone(),
            said: BTreeMap::from([(peer, vec![Moment { phase: Phase::Clean, digest: Digest(5), vector: 50 }])]),
            arrived_ms: BTreeMap::from([(peer.to_string(), Some(100))]),
        };
        (status, view, truth)
    }

    fn fires(verdict: Verdict, change: impl Fn(&mut Status, &mut View, &mut FrameTruth)) -> bool {
        let (mut status, mut view, mut truth) = sound();
        assert_eq!(check(&status, &view, Verdict::Converged, &truth), []);
        change(&mut status, &mut view, &mut truth);
        !check(&status, &view, verdict, &truth).is_empty()
    }

    #[test]
    fn wrong_numbers_of_its_own_are_found() {
        let any = Verdict::Unknown;
        assert!(fires(any, |_, view, _| Arc::make_mut(&mut view.sights[0].summary).replica.blocks += 1));
        assert!(fires(any, |_, view, _| Arc::make_mut(&mut view.sights[0].summary).tally.bytes[1] += 1));
        assert!(fires(any, |_, _, truth| truth.sent[0] = (1, 9)));
        assert!(fires(any, |_, view, _| {
            let rows = view.sights[0].workers.values_mut();
            rows.for_each(|dated| Arc::make_mut(&mut dated.of).floor_ms = Some(3));
        }));
        assert!(fires(any, |_, view, _| view.sights[0].workers.clear()));
        assert!(fires(any, |_, view, _| {
            view.loads.insert(made::worker(0), Load { requests: 1, queued_tokens: 0 });
        }));
        assert!(fires(any, |_, view, _| view.sights.clear()));
    }

    #[test]
    fn a_summary_that_was_never_true_and_a_silence_denied_are_found() {
        let any = Verdict::Unknown;
        assert!(fires(any, |_, view, _| Arc::make_mut(&mut view.sights[1].summary).vector = 51));
        assert!(fires(any, |_, view, _| Arc::make_mut(&mut view.sights[1].summary).digest = None));
        assert!(fires(any, |_, _, truth| truth.arrived_ms.values_mut().for_each(|ms| *ms = Some(2_000))));
        assert!(fires(any, |_, _, truth| truth.arrived_ms.values_mut().for_each(|ms| *ms = None)));
        assert!(fires(Verdict::Converged, |status, _, truth| {
            status.peers[0].heard_ms = Some(2_000);
            truth.arrived_ms.values_mut().for_each(|ms| *ms = Some(2_000));
        }));
        assert!(!fires(Verdict::Unknown, |status, _, truth| {
            status.peers[0].heard_ms = Some(2_000);
            truth.arrived_ms.values_mut().for_each(|ms| *ms = Some(2_000));
        }));
    }
}
