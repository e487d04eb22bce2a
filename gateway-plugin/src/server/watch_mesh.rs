//! Films the mesh: a frame a second, and one at once when something worth seeing changed; and tells the mesh what routing
//! came to, for other gateways' frames.
//!
//! Not here: what is in a frame (`frame`), who reads it (`dashboard`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use covey_crdt::id::WorkerId;
use covey_mesh::input::Local;
use covey_mesh::status::{PeerStatus, Phase, Status};
use covey_mesh::summary::Effect;
use tokio::time::{MissedTickBehavior, interval};

use super::Gateway;
use super::gateway::unix_ms;
use crate::dashboard::Reel;
use crate::frame::{FrameMaker, HEARD_MS_MAX, Scene, Source, Viewer, WorkerFacts};
use crate::plugin::Outcome;

/// How often it is looked whether something changed.
const LOOK: Duration = Duration::from_millis(250);
/// A frame comes at least every so many looks.
const LOOKS_A_FRAME: u32 = 4;

/// Films for ever.
pub(super) async fn film(gateway: Arc<Gateway>, reel: Arc<Reel>) {
    let mut maker = FrameMaker::default();
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut seen, mut since) = (Vec::new(), LOOKS_A_FRAME);
    loop {
        looks.tick().await;
        let status = gateway.mesh().status();
        let silent_ms = u64::try_from(gateway.mesh().silent_for().as_millis()).unwrap_or(u64::MAX);
        let unheard = unheard(&status);
        if unheard > 0.0 && gateway.plugin().unheard() == 0.0 {
            // What others send from now on is known from workers alone.
            gateway.workers().all().iter().for_each(|worker| worker.probe_wanted.notify_one());
        }
        gateway.plugin().set_unheard(unheard);
        let look = glance(&status, silent_ms);
        since += 1;
        if since < LOOKS_A_FRAME && look == seen {
            continue;
        }
        if since >= LOOKS_A_FRAME {
            // A queue that is full loses it; the next one says more.
            let _ = gateway.mesh().submit(Local::Effect(Box::new(effect(&gateway))));
        }
        (seen, since) = (look, 0);
        reel.push(maker.frame(Scene {
            t_ms: unix_ms(),
            source: source(&gateway),
            viewer: Some(Viewer { status: &status, silent_ms }),
            view: &gateway.mesh().view(),
            gone: &[],
            workers: &facts(&gateway),
            events: Vec::new(),
            faults: Vec::new(),
        }));
    }
}

/// The share of the other gateways that cannot be heard. By name, because one that began anew has another life; one that left
/// is not missed. All of them while those that should be there were never met.
fn unheard(status: &Status) -> f64 {
    if status.has_met_nobody {
        return 1.0;
    }
    let mut others: BTreeMap<&str, bool> = BTreeMap::new();
    for peer in status.peers.iter().filter(|peer| !peer.left && peer.name != status.name) {
        *others.entry(&peer.name).or_default() |= is_heard(peer);
    }
    let silent = others.values().filter(|is_heard| !**is_heard).count();
    silent as f64 / others.len().max(1) as f64
}

fn is_heard(peer: &PeerStatus) -> bool {
    peer.linked && peer.member != Some(false) && peer.heard_ms.is_some_and(|ms| ms <= HEARD_MS_MAX)
}

/// What is worth a frame at once when it changes: who is there, how far, and whether they agree.
fn glance(status: &Status, silent_ms: u64) -> Vec<(String, Option<Phase>, [bool; 4])> {
    let mut look = vec![(status.life.clone(), Some(status.phase), [silent_ms > 1_000, status.repairing, false, false])];
    look.extend(status.peers.iter().map(|peer| {
        let heard = peer.heard_ms.is_some_and(|ms| ms <= HEARD_MS_MAX);
        // Traffic of the last second is no difference; nobody wants a frame for each op.
        let recent = |ms: Option<u64>| ms.is_some_and(|ms| ms < crate::frame::LAG_MS_MAX);
        let agrees = peer.digest == status.digest || (recent(peer.lag_ms) && recent(peer.their_lag_ms));
        (peer.life.clone(), peer.phase, [peer.linked, heard, agrees, peer.left])
    }));
    look
}

fn source(gateway: &Gateway) -> Source {
    Source {
        kind: "live".to_owned(),
        viewer: Some(gateway.config().mesh.name.to_string()),
        cluster: gateway.config().mesh.cluster.clone(),
        package_version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: None,
    }
}

fn effect(gateway: &Gateway) -> Effect {
    let (counters, sums) = (gateway.counters(), gateway.counters().token_sums());
    Effect {
        measured: sums.requests,
        prompt_tokens: sums.prompt,
        predicted_tokens: sums.predicted,
        cached_tokens: sums.cached,
        in_flight: counters.in_flight(),
        outcomes: Outcome::ALL.iter().map(|of| (of.name().to_owned(), counters.outcome_count(*of))).collect(),
    }
}

fn facts(gateway: &Gateway) -> BTreeMap<WorkerId, WorkerFacts> {
    let configured = gateway.config().worker_capacity_tokens;
    let of = |worker: &Arc<super::Worker>| {
        let probed = worker.last_probe().and_then(|probed| probed.capacity_tokens);
        let source = configured.map(|_| "configured").or(probed.map(|_| "probed"));
        let facts = WorkerFacts {
            url: Some(worker.url.clone()),
            up: worker.is_up(),
            capacity_tokens: configured.or(probed),
            capacity_source: source,
        };
        (worker.id.clone(), facts)
    };
    gateway.workers().all().iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_that_is_not_heard_goes_by_names_without_those_that_left() {
        let heard_ms = Some(HEARD_MS_MAX);
        let peer = |name: &str, linked, left| PeerStatus {
            name: name.into(),
            linked,
            left,
            heard_ms,
            ..PeerStatus::default()
        };
        let share = |peers: Vec<PeerStatus>| unheard(&Status { name: "me".into(), peers, ..Status::default() });
        assert_eq!(share(Vec::new()), 0.0, "nobody was ever met");
        assert_eq!(share(vec![peer("a", true, false), peer("me", false, false)]), 0.0, "an earlier life of one's own");
        assert_eq!(share(vec![peer("a", false, false), peer("a", true, false), peer("b", false, true)]), 0.0);
        assert_eq!(share(vec![peer("a", false, false), peer("b", true, false)]), 0.5);
        assert_eq!(share(vec![PeerStatus { member: Some(false), ..peer("a", true, false) }]), 1.0);
        let silent = PeerStatus { heard_ms: Some(HEARD_MS_MAX + 1), ..peer("a", true, false) };
        assert_eq!(share(vec![silent, peer("b", true, false)]), 0.5, "linked as far as is known, and silent");
        assert_eq!(unheard(&Status { has_met_nobody: true, ..Status::default() }), 1.0);
    }

    #[test]
    fn a_frame_is_due_when_somebody_falls_silent_or_differs_and_not_for_each_op() {
        let peer = |heard_ms, digest: &str, lag_ms| PeerStatus {
            linked: true,
            heard_ms: Some(heard_ms),
            digest: Some(digest.to_owned()),
            lag_ms: Some(lag_ms),
            their_lag_ms: Some(0),
            ..PeerStatus::default()
        };
        let status = |peer| Status { digest: Some("a".to_owned()), peers: vec![peer], ..Status::default() };
        let quiet = glance(&status(peer(100, "a", 0)), 0);
        assert_eq!(glance(&status(peer(300, "b", 20)), 0), quiet, "an op under way");
        assert_ne!(glance(&status(peer(HEARD_MS_MAX + 1, "a", 0)), 0), quiet);
        assert_ne!(glance(&status(peer(100, "b", 2_000)), 0), quiet);
        assert_ne!(glance(&status(peer(100, "a", 0)), 2_000), quiet, "the mesh thread is silent");
    }
}
