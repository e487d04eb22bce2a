//! I12: every gauge agrees with the all-knowing observer within one exchange interval, and is unknown when it cannot be
//! known. What a node says of a peer must have been true when the exchange it last heard was sent; what it says of itself
//! must be true now.
//!
//! Not here: collecting the truth (`world`), the clock's verdict once faults are over (`world`, with I10).

use std::collections::BTreeMap;

use covey_crdt::digest::Digest;
use covey_mesh::status::{PeerStatus, Phase, Status};

use super::Violation;

/// What can be said of a node at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// How far it was.
    pub phase: Phase,
    /// Its root digest.
    pub digest: Digest,
    /// The hash of its vector.
    pub vector: u64,
}

/// The truth about one peer.
#[derive(Clone, Debug, Default)]
pub struct PeerTruth {
    /// What it was while it sent what the node heard last; empty when the observer does not know either.
    pub moments: Vec<Moment>,
    /// Whether a connection exists, or its end has not been noticed yet.
    pub may_be_linked: bool,
    /// Ops it has applied now that the node has not.
    pub lag_ops: u64,
    /// Ops the node has applied that it has not applied now.
    pub their_lag_ops: u64,
    /// The hash of its vector now.
    pub vector: Option<u64>,
    /// Whether the same lives are retired at both: a vector says nothing of those that are retired where it was written.
    pub same_ends: bool,
}

/// The truth about a node and its peers.
#[derive(Clone, Debug)]
pub struct Truth {
    /// The node itself.
    pub own: Moment,
    /// Ops published by anybody that it has not applied.
    pub unapplied: u64,
    /// Peers by life, 32 hex digits.
    pub peers: BTreeMap<String, PeerTruth>,
}

pub(super) fn check(status: &Status, truth: &Truth) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut wrong = |what: String| found.push(Violation::new("I12", format!("{} says {what}", status.name)));
    if status.phase != truth.own.phase {
        wrong(format!("it is {:?} and is {:?}", status.phase, truth.own.phase));
    }
    let digest = (truth.own.phase == Phase::Clean).then(|| truth.own.digest.to_string());
    if status.digest != digest {
        wrong(format!("its digest is {:?} and it is {digest:?}", status.digest));
    }
    if status.vector != hash(truth.own.vector) {
        wrong(format!("its vector is {} and it is {}", status.vector, hash(truth.own.vector)));
    }
    if status.ops_held > truth.unapplied {
        wrong(format!("it holds {} ops where only {} are not applied", status.ops_held, truth.unapplied));
    }
    for peer in &status.peers {
        let nothing = PeerTruth::default();
        let truth = truth.peers.get(&peer.life).unwrap_or(&nothing);
        if let Some(what) = wrong_peer(peer, truth) {
            wrong(format!("of {} {what}", peer.name));
        }
    }
    found
}

fn hash(vector: u64) -> String {
    format!("{vector:016x}")
}

fn wrong_peer(peer: &PeerStatus, truth: &PeerTruth) -> Option<String> {
    if peer.heard_ms.is_none() {
        let claims = peer.phase.is_some() || peer.digest.is_some() || peer.vector.is_some() || peer.lag_ops.is_some();
        return claims.then(|| "more than nothing, without having heard it".to_owned());
    }
    if peer.linked && !truth.may_be_linked {
        return Some("it is linked, and there is no connection".to_owned());
    }
    let says = |moment: &Moment| {
        let digest = (moment.phase == Phase::Clean).then(|| moment.digest.to_string());
        peer.phase == Some(moment.phase) && peer.digest == digest && peer.vector == Some(hash(moment.vector))
    };
    if !truth.moments.is_empty() && !truth.moments.iter().any(says) {
        return Some(format!(
            "it is {:?} with digest {:?} and vector {:?}; when it sent that, it was {:?}",
            peer.phase, peer.digest, peer.vector, truth.moments
        ));
    }
    wrong_lag(peer, truth)
}

/// A peer's vector only grows, so the node can know of too little lag of its own and of too much of the peer's, never the
/// other way round; once it has heard the peer's present vector both are exact.
fn wrong_lag(peer: &PeerStatus, truth: &PeerTruth) -> Option<String> {
    let now = truth.vector?;
    let (lag, theirs) = (peer.lag_ops?, peer.their_lag_ops?);
    let is_current = peer.vector == Some(hash(now)) && truth.same_ends;
    if lag > truth.lag_ops || (is_current && lag != truth.lag_ops) {
        return Some(format!("it lacks {lag} of its ops and lacks {}", truth.lag_ops));
    }
    if theirs < truth.their_lag_ops || (is_current && theirs != truth.their_lag_ops) {
        return Some(format!("that one lacks {theirs} ops and lacks {}", truth.their_lag_ops));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: Moment = Moment { phase: Phase::Clean, digest: Digest(7), vector: 70 };

    /// A status that is true, with one peer that was heard and one that was not.
    fn sound() -> (Status, Truth) {
        let heard = PeerStatus {
            name: "gw-1".to_owned(),
            life: "1".to_owned(),
            linked: true,
            heard_ms: Some(90),
            phase: Some(Phase::Clean),
            digest: Some(Digest(8).to_string()),
            vector: Some(hash(80)),
            lag_ops: Some(3),
            their_lag_ops: Some(5),
            ..PeerStatus::default()
        };
        let unheard = PeerStatus { name: "gw-2".to_owned(), life: "2".to_owned(), ..PeerStatus::default() };
        let status = Status {
            name: "gw-0".to_owned(),
            phase: Phase::Clean,
            digest: Some(Digest(7).to_string()),
            vector: hash(70),
            ops_held: 2,
            peers: vec![heard, unheard],
            ..Status::default()
        };
        let peer = PeerTruth {
            moments: vec![Moment { phase: Phase::Clean, digest: Digest(8), vector: 80 }],
            may_be_linked: true,
            lag_ops: 4,
            their_lag_ops: 5,
            vector: Some(81),
            same_ends: true,
        };
        (status, Truth { own: CLEAN, unapplied: 2, peers: BTreeMap::from([("1".to_owned(), peer)]) })
    }

    fn fires(change: impl Fn(&mut Status, &mut Truth)) -> bool {
        let (mut status, mut truth) = sound();
        assert_eq!(check(&status, &truth), []);
        change(&mut status, &mut truth);
        let found = check(&status, &truth);
        assert!(found.iter().all(|violation| violation.invariant == "I12"));
        !found.is_empty()
    }

    #[test]
    fn a_node_that_is_wrong_about_itself_is_found() {
        assert!(fires(|status, _| status.phase = Phase::Dirty));
        assert!(fires(|status, _| status.digest = None), "a clean replica has a digest");
        assert!(fires(|_, truth| truth.own.phase = Phase::Dirty), "and a dirty one has none");
        assert!(fires(|status, _| status.vector = hash(71)));
        assert!(fires(|status, _| status.ops_held = 3));
    }

    #[test]
    fn a_node_that_is_wrong_about_a_peer_is_found() {
        assert!(fires(|status, _| status.peers[0].phase = Some(Phase::Dirty)));
        assert!(fires(|status, _| status.peers[0].digest = Some(Digest(9).to_string())));
        assert!(fires(|status, _| status.peers[0].digest = None));
        assert!(fires(|status, _| status.peers[0].vector = Some(hash(99))));
        assert!(fires(|_, truth| truth.peers.get_mut("1").expect("there").may_be_linked = false));
        assert!(fires(|status, _| status.peers[0].lag_ops = Some(5)), "more than there is to lack");
        assert!(fires(|status, _| status.peers[0].their_lag_ops = Some(4)), "less than it surely lacks");
        assert!(
            fires(|_, truth| truth.peers.get_mut("1").expect("there").vector = Some(80)),
            "heard all and yet wrong"
        );
    }

    #[test]
    fn what_cannot_be_known_must_be_unknown() {
        assert!(fires(|status, _| status.peers[1].lag_ops = Some(0)));
        assert!(fires(|status, _| status.peers[1].phase = Some(Phase::Joining)));
    }
}
