//! What one gateway's view says about the whole mesh: one word, from its status alone.
//!
//! The worst that is certain wins. A gateway that said goodbye is not missed. What cannot be known is said to be
//! unknown (I12): a silent mesh thread, a linked peer that stopped exchanging.
//!
//! Not here: what other gateways see (`judge` adds that).

use covey_crdt::plant::{Plant, planted};
use covey_mesh::status::{PeerStatus, Phase, Status};
use serde::{Deserialize, Serialize};

/// A mesh thread that has not finished a turn for this long describes the past, milliseconds.
pub const SILENT_MS_MAX: u64 = 3_000;
/// A linked peer not heard of for this long may be anything, milliseconds (an exchange is due every 250; a few of them may
/// be late on a busy machine).
pub const HEARD_MS_MAX: u64 = 1_200;
/// Replicas that lack nothing older than this have converged as far as traffic lets them, milliseconds.
pub const LAG_MS_MAX: u64 = 1_000;

/// The state of the mesh, as one gateway can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Everybody is reachable, clean and equal, or behind by nothing but the traffic of the last second.
    Converged,
    /// Everybody is reachable, and somebody is behind or joining.
    Converging,
    /// It works with less than it should: few gateways are missing, or a clock is off.
    Degraded,
    /// Two clean replicas that saw the same ops differ. Must never happen.
    Diverged,
    /// Half of the gateways or more are out of reach, or one is alive and cannot be reached.
    Partitioned,
    /// It cannot be told.
    Unknown,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Self; 6] =
        [Self::Converged, Self::Converging, Self::Degraded, Self::Diverged, Self::Partitioned, Self::Unknown];

    /// The word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Converged => "converged",
            Self::Converging => "converging",
            Self::Degraded => "degraded",
            Self::Diverged => "diverged",
            Self::Partitioned => "partitioned",
            Self::Unknown => "unknown",
        }
    }

    /// The exit code of `covey status`.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Converged => 0,
            Self::Converging | Self::Degraded => 1,
            Self::Diverged | Self::Partitioned => 2,
            Self::Unknown => 3,
        }
    }
}

/// A verdict and the reason for it, in a sentence.
pub type Judged = (Verdict, String);

/// Judges a status that is `silent_ms` old.
#[must_use]
pub fn verdict(status: &Status, silent_ms: u64) -> Judged {
    if status.life.is_empty() || silent_ms > SILENT_MS_MAX {
        return (Verdict::Unknown, format!("this gateway's mesh thread has been silent for {}", age(silent_ms)));
    }
    let present: Vec<&PeerStatus> = status.peers.iter().filter(|peer| !peer.left).collect();
    if let Some(peer) = present.iter().find(|peer| differs(status, peer)) {
        return (Verdict::Diverged, format!("{} saw the same ops as {} and has another state", peer.name, status.name));
    }
    if let Some(judged) = missing(&present) {
        return judged;
    }
    if let Some(peer) = present.iter().find(|peer| is_silent(peer)) {
        let ms = peer.heard_ms.unwrap_or(0);
        return (Verdict::Unknown, format!("{} is connected and has been silent for {}", peer.name, age(ms)));
    }
    if let Some(peer) = present.iter().find(|peer| is_missing(peer)) {
        return (Verdict::Degraded, format!("{} cannot be reached", peer.name));
    }
    if !status.clock.is_empty() && status.clock != "good" {
        return (Verdict::Degraded, format!("the clock of {} is {} of the others'", status.name, status.clock));
    }
    if status.has_met_nobody && status.phase == Phase::Clean && present.is_empty() {
        let what = "no seed has answered: this gateway is alone (where it shall be, leave --mesh-seeds out)";
        return (Verdict::Degraded, what.to_owned());
    }
    settle(status, &present)
}

/// A partition: half are gone, or one is alive and cannot be reached.
fn missing(present: &[&PeerStatus]) -> Option<Judged> {
    let missing: Vec<&str> = present.iter().filter(|peer| is_missing(peer)).map(|peer| peer.name.as_str()).collect();
    if let Some(alive) = present.iter().find(|peer| is_missing(peer) && peer.member == Some(true)) {
        return Some((Verdict::Partitioned, format!("{} is alive and cannot be reached", alive.name)));
    }
    // Of all gateways that have not left, this one included, more than half must be on this side.
    (missing.len() * 2 > present.len()).then(|| {
        let what = format!("{} of {} gateways cannot be reached: {}", missing.len(), present.len() + 1, list(&missing));
        (Verdict::Partitioned, what)
    })
}

/// Everybody is there: equal, or on the way.
fn settle(status: &Status, present: &[&PeerStatus]) -> Judged {
    if let Some(why) = &status.refused {
        return (Verdict::Degraded, format!("a gateway of the mesh refuses this one: {why}"));
    }
    if status.phase != Phase::Clean {
        let phase = if status.phase == Phase::Joining { "joining" } else { "dirty" };
        return (Verdict::Converging, format!("{} is {phase}", status.name));
    }
    let Some(peer) = present.iter().find(|peer| !equals(status, peer)) else {
        let count = present.len() + 1;
        let what = if count == 1 { "this gateway is alone".to_owned() } else { format!("{count} gateways agree") };
        return (Verdict::Converged, what);
    };
    (Verdict::Converging, format!("{} {}", peer.name, unequal(peer)))
}

/// What keeps a peer from being equal.
fn unequal(peer: &PeerStatus) -> String {
    match (peer.linked, peer.phase) {
        (false, _) => "is being connected".to_owned(),
        (true, Some(Phase::Joining)) => "is joining".to_owned(),
        (true, Some(Phase::Dirty)) => "is dirty: it merged state whose ops it has not all applied".to_owned(),
        (true, _) => match (peer.their_lag_ops, peer.lag_ops) {
            (Some(theirs), _) if theirs > 0 => format!("lacks {theirs} ops"),
            (_, Some(ops)) if ops > 0 => format!("has {ops} ops that are not here"),
            _ => "has not told yet what it has".to_owned(),
        },
    }
}

/// A few names, and how many more.
pub(super) fn list(names: &[&str]) -> String {
    match names {
        [few @ .., last] if few.len() < 3 => few.iter().map(|name| format!("{name}, ")).collect::<String>() + last,
        [a, b, c, rest @ ..] => format!("{a}, {b}, {c} and {} more", rest.len()),
        _ => String::new(),
    }
}

/// A duration for people.
pub(super) fn age(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..10_000 => format!("{:.1} s", ms as f64 / 1e3),
        10_000..600_000 => format!("{} s", ms / 1_000),
        _ => format!("{} min", ms / 60_000),
    }
}

/// Both clean, same ops seen, different content.
fn differs(status: &Status, peer: &PeerStatus) -> bool {
    let both_clean = status.phase == Phase::Clean && peer.phase == Some(Phase::Clean);
    let same_ops = peer.vector.as_deref() == Some(status.vector.as_str());
    both_clean && same_ops && status.digest.is_some() && peer.digest.is_some() && status.digest != peer.digest
}

/// Connected, and not heard.
fn is_silent(peer: &PeerStatus) -> bool {
    let silent = peer.linked && peer.heard_ms.is_some_and(|ms| ms > HEARD_MS_MAX);
    silent && !planted(Plant::VerdictIgnoresSilence)
}

/// Out of reach for a while after having been heard; one that was never heard of is still connecting, and one that was just
/// heard may only have restarted.
fn is_missing(peer: &PeerStatus) -> bool {
    !peer.linked && peer.heard_ms.map_or(peer.member == Some(false), |ms| ms > HEARD_MS_MAX)
}

/// Clean, and equal or so little behind in either direction that it is only traffic under way.
fn equals(status: &Status, peer: &PeerStatus) -> bool {
    let same_ops = peer.vector.as_deref() == Some(status.vector.as_str());
    let same = same_ops && peer.digest.is_some() && peer.digest == status.digest;
    let recent = |lag: Option<u64>| lag.is_some_and(|ms| ms < LAG_MS_MAX);
    let close = !same_ops && recent(peer.lag_ms) && recent(peer.their_lag_ms);
    peer.linked && peer.phase == Some(Phase::Clean) && (same || close)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: &Status, silent_ms: u64) -> Verdict {
        super::verdict(status, silent_ms).0
    }

    fn peer(name: &str) -> PeerStatus {
        PeerStatus {
            name: name.to_owned(),
            life: "aa".to_owned(),
            linked: true,
            member: Some(true),
            heard_ms: Some(100),
            phase: Some(Phase::Clean),
            digest: Some("d".to_owned()),
            vector: Some("v".to_owned()),
            ..PeerStatus::default()
        }
    }

    fn status(peers: Vec<PeerStatus>) -> Status {
        Status {
            name: "me".to_owned(),
            life: "bb".to_owned(),
            phase: Phase::Clean,
            digest: Some("d".to_owned()),
            vector: "v".to_owned(),
            clock: "good".to_owned(),
            peers,
            ..Status::default()
        }
    }

    fn gone(name: &str) -> PeerStatus {
        PeerStatus { linked: false, member: Some(false), heard_ms: Some(60_000), ..peer(name) }
    }

    #[test]
    fn equal_clean_replicas_are_converged_and_so_is_one_alone() {
        assert_eq!(verdict(&status(vec![peer("a"), peer("b")]), 0), Verdict::Converged);
        assert_eq!(verdict(&status(vec![]), 0), Verdict::Converged);
    }

    #[test]
    fn ops_under_way_are_no_reason_to_say_converging() {
        let busy = PeerStatus { vector: Some("u".to_owned()), lag_ms: Some(5), their_lag_ms: Some(240), ..peer("a") };
        assert_eq!(verdict(&status(vec![busy.clone()]), 0), Verdict::Converged);
        let late = PeerStatus { their_lag_ms: Some(1_500), ..busy };
        assert_eq!(verdict(&status(vec![late]), 0), Verdict::Converging);
    }

    #[test]
    fn a_gateway_that_left_is_not_missed() {
        let left = PeerStatus { left: true, digest: Some("old".to_owned()), ..gone("a") };
        assert_eq!(verdict(&status(vec![left, peer("b")]), 0), Verdict::Converged);
    }

    #[test]
    fn somebody_behind_dirty_joining_or_connecting_is_converging() {
        let behind = PeerStatus { vector: Some("u".to_owned()), digest: Some("e".to_owned()), ..peer("a") };
        assert_eq!(verdict(&status(vec![behind]), 0), Verdict::Converging);
        let joining = PeerStatus { phase: Some(Phase::Joining), digest: None, ..peer("a") };
        assert_eq!(verdict(&status(vec![joining]), 0), Verdict::Converging);
        let connecting = PeerStatus { name: "a".to_owned(), member: Some(true), ..PeerStatus::default() };
        assert_eq!(verdict(&status(vec![connecting]), 0), Verdict::Converging);
        let mut me = status(vec![peer("a")]);
        me.phase = Phase::Dirty;
        me.digest = None;
        assert_eq!(verdict(&me, 0), Verdict::Converging);
        assert_eq!(verdict(&Status { phase: Phase::Joining, ..status(vec![]) }, 0), Verdict::Converging);
    }

    #[test]
    fn a_missing_minority_or_a_wrong_clock_is_degraded() {
        assert_eq!(verdict(&status(vec![gone("a"), peer("b")]), 0), Verdict::Degraded);
        assert_eq!(verdict(&Status { clock: "behind".to_owned(), ..status(vec![peer("a")]) }, 0), Verdict::Degraded);
    }

    #[test]
    fn a_missing_half_or_an_unreachable_member_is_a_partition() {
        assert_eq!(verdict(&status(vec![gone("a")]), 0), Verdict::Partitioned);
        assert_eq!(verdict(&status(vec![gone("a"), gone("b"), peer("c")]), 0), Verdict::Partitioned);
        let alive = PeerStatus { member: Some(true), ..gone("a") };
        assert_eq!(verdict(&status(vec![alive, peer("b"), peer("c"), peer("d")]), 0), Verdict::Partitioned);
    }

    #[test]
    fn equal_vectors_and_different_digests_are_diverged_whatever_else_is_wrong() {
        let other = PeerStatus { digest: Some("e".to_owned()), ..peer("a") };
        assert_eq!(verdict(&status(vec![other.clone(), gone("b"), gone("c")]), 0), Verdict::Diverged);
        let dirty = PeerStatus { phase: Some(Phase::Dirty), ..other };
        assert_eq!(verdict(&status(vec![dirty]), 0), Verdict::Converging, "a dirty replica's vector says nothing");
    }

    #[test]
    fn a_gateway_that_restarts_is_no_partition_and_one_that_stays_away_is() {
        let lost = |ms| PeerStatus { linked: false, member: Some(true), heard_ms: Some(ms), ..peer("a") };
        assert_eq!(verdict(&status(vec![lost(300), peer("b")]), 0), Verdict::Converging);
        assert_eq!(verdict(&status(vec![lost(HEARD_MS_MAX + 1), peer("b")]), 0), Verdict::Partitioned);
    }

    #[test]
    fn alone_although_peers_were_expected_or_refused_is_not_green() {
        let lonely = Status { has_met_nobody: true, ..status(vec![]) };
        assert_eq!(verdict(&lonely, 0), Verdict::Degraded);
        assert_eq!(verdict(&Status { phase: Phase::Joining, digest: None, ..lonely.clone() }, 0), Verdict::Converging);
        let refused = Status { phase: Phase::Joining, refused: Some("its name is taken".to_owned()), ..lonely };
        let (word, why) = super::verdict(&refused, 0);
        assert!(word == Verdict::Degraded && why.contains("its name is taken"));
    }

    #[test]
    fn what_cannot_be_known_is_unknown() {
        assert_eq!(verdict(&status(vec![peer("a")]), 10_000), Verdict::Unknown);
        assert_eq!(verdict(&Status::default(), 0), Verdict::Unknown);
        let silent = PeerStatus { heard_ms: Some(2_000), ..peer("a") };
        assert_eq!(verdict(&status(vec![silent]), 0), Verdict::Unknown);
    }

    #[test]
    fn the_reason_names_who_it_is_about() {
        let why = |peers| super::verdict(&status(peers), 0).1;
        assert_eq!(why(vec![peer("a"), peer("b")]), "3 gateways agree");
        assert_eq!(why(vec![gone("a"), peer("b")]), "a cannot be reached");
        assert_eq!(
            why(vec![gone("a"), gone("b"), gone("c"), gone("d")]),
            "4 of 5 gateways cannot be reached: a, b, c and 1 more"
        );
        let behind = PeerStatus { vector: Some("u".to_owned()), their_lag_ops: Some(12), ..peer("a") };
        assert_eq!(why(vec![behind]), "a lacks 12 ops");
        let silent = PeerStatus { heard_ms: Some(2_000), ..peer("a") };
        assert_eq!(why(vec![silent]), "a is connected and has been silent for 2.0 s");
    }

    #[test]
    fn exit_codes_are_what_the_manual_says() {
        let all = [
            (Verdict::Converged, 0),
            (Verdict::Converging, 1),
            (Verdict::Degraded, 1),
            (Verdict::Diverged, 2),
            (Verdict::Partitioned, 2),
            (Verdict::Unknown, 3),
        ];
        assert!(all.iter().all(|(verdict, code)| verdict.exit_code() == *code));
    }
}
