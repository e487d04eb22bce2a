//! Cutting a gateway's network both ways for a while, and waiting until all gateways agree again.

use std::time::Duration;

use covey_mesh::status::Status;
use tokio::time::{Instant, sleep};

use super::{BACK_MAX, CutFigures};
use crate::client::Client;
use crate::demo::fleet::Fleet;
use crate::demo::probe::{self, Replicas};
use crate::processes::POLL;

/// Pause between two looks at whether all processes still run.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Cuts, heals, and waits for equal digests and for every link. What there is to say about requests is left out. Gives
/// also how long, from the healing on, digests differed.
///
/// Times are taken after the answers were read, so they err on the side of too slow.
pub(super) async fn strike(
    index: usize,
    cut: Duration,
    fleet: &mut Fleet,
    client: &Client,
) -> Result<(Duration, CutFigures), String> {
    let began = Instant::now();
    fleet.switch()?.cut(index);
    while began.elapsed() < cut {
        fleet.check()?;
        sleep(LOOK_EVERY.min(cut.saturating_sub(began.elapsed()))).await;
    }
    let parted = are_parted(index, &probe::statuses(client, fleet).await);
    let cut = began.elapsed();
    fleet.switch()?.heal();
    let healed = Instant::now();
    let (mut equal, mut relinked) = (None, None);
    loop {
        let statuses = probe::statuses(client, fleet).await;
        let replicas = Replicas::of(&statuses);
        if replicas.clean && replicas.equal {
            equal.get_or_insert(healed.elapsed());
        }
        if are_linked(&statuses) {
            relinked.get_or_insert(healed.elapsed());
        }
        if let (Some(equal), Some(relinked)) = (equal, relinked) {
            let (_, dropped) = fleet.switch()?.counts();
            return Ok((equal, CutFigures { cut, dropped, parted, relinked, ..CutFigures::default() }));
        }
        if healed.elapsed() > BACK_MAX {
            return Err(format!(
                "g{index} was cut off, and {BACK_MAX:?} after healing: equal {equal:?}, linked {relinked:?};\n{}",
                replicas.words.join("\n")
            ));
        }
        fleet.check()?;
        sleep(POLL).await;
    }
}

/// Whether a gateway has no link and another digest than all others.
fn are_parted(index: usize, statuses: &[Result<Status, String>]) -> bool {
    let Some(Ok(own)) = statuses.get(index) else { return false };
    let alone = !own.peers.is_empty() && own.peers.iter().all(|peer| !peer.linked);
    let others = statuses.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, status)| status);
    let differs = |status: &Result<Status, String>| {
        status.as_ref().is_ok_and(|status| status.digest.is_some() && status.digest != own.digest)
    };
    alone && own.digest.is_some() && others.into_iter().all(differs)
}

/// Whether everybody has a link with everybody.
fn are_linked(statuses: &[Result<Status, String>]) -> bool {
    statuses.iter().all(|status| {
        let links = |status: &Status| status.peers.iter().filter(|peer| peer.linked).count();
        status.as_ref().is_ok_and(|status| links(status) + 1 == statuses.len())
    })
}

#[cfg(test)]
mod tests {
    use covey_mesh::status::PeerStatus;

    use super::*;

    fn status(digest: &str, linked: [bool; 2]) -> Result<Status, String> {
        let peers = linked.map(|linked| PeerStatus { linked, ..PeerStatus::default() }).to_vec();
        Ok(Status { digest: Some(digest.to_owned()), peers, ..Status::default() })
    }

    #[test]
    fn a_gateway_with_a_link_or_the_digest_of_others_was_not_parted() {
        let rest = || [status("b", [true, false]), status("b", [true, false])];
        let judged = |own| are_parted(0, &[vec![own], rest().to_vec()].concat());
        assert!(judged(status("a", [false, false])));
        assert!(!judged(status("a", [true, false])));
        assert!(!judged(status("b", [false, false])));
        assert!(!judged(Err("gone".to_owned())));
    }

    #[test]
    fn all_are_linked_only_when_each_has_every_other() {
        let full = || status("a", [true, true]);
        assert!(are_linked(&[full(), full(), full()]));
        assert!(!are_linked(&[full(), status("a", [true, false]), full()]));
        assert!(!are_linked(&[full(), Err("gone".to_owned()), full()]));
    }
}
