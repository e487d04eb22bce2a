//! Whom to dial and when: seeds for ever, addresses that the membership service taught us, jittered, one second growing
//! to five; half a second, not growing, where a link was lost in the last minutes. A value: time is an argument, jitter is
//! seeded.
//!
//! Not here: resolving and dialling (`dial`). Upholds I9: targets and attempts under way are bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use covey_crdt::id::LifeId;

use super::metrics::LinkFailure;
use super::transport::HANDSHAKE_TIMEOUT;
use crate::input::MonoTime;

const BACKOFF_MS_MIN: u64 = 1_000;
const BACKOFF_MS_MAX: u64 = 5_000;
/// A link that lived this long was a good one: its peer is dialled again at once when it is lost.
const GOOD_LINK_MS: u64 = 5_000;
/// An address whose link was lost less than this ago is dialled in haste: replicas have to agree within two seconds of a
/// partition's end, redial included, and both sides of one notice only by dialling that it is over. Longer partitions,
/// and peers that are gone for good, take the long backoff: nobody waits for those.
const LOST_MS: u64 = 300_000;
/// The pause after a hasty dial. With [`HASTY_ANSWER`] it bounds how late a healed path is noticed: QUIC repeats a first
/// packet at growing intervals, so that most of one attempt's time is one long silence. A dial is a few packets; a peer
/// that stays away costs about 4 KB/s each of the others.
const HASTE_MS: u64 = 500;
/// How long a peer dialled in haste may take to its first sign of life. One that answers gets the usual time.
const HASTY_ANSWER: Duration = Duration::from_millis(1_500);
/// An address that turned out to be one's own is tried again after this long: addresses move.
const OWN_ADDRESS_MS: u64 = 600_000;
/// A member that is gone is dialled for this long; the horizon after which it rejoins empty anyway.
const GONE_MS: u64 = 900_000;
const TARGETS_MAX: usize = 1_024;
/// Dials under way at once. After a partition through the middle of the largest mesh half of it is dialled in haste.
const DIALS_MAX: usize = 64;

/// What is due now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    /// Seeds to resolve: index and text.
    pub(super) seeds: Vec<(usize, String)>,
    /// Addresses to dial, and how long each may take to its first sign of life.
    pub(super) dials: Vec<(SocketAddr, Duration)>,
}

#[derive(Debug)]
struct Seed {
    text: String,
    next_at: MonoTime,
    backoff_ms: u64,
    resolving: bool,
}

#[derive(Debug)]
struct Target {
    seeds: BTreeSet<usize>,
    /// Who answered there last.
    life: Option<LifeId>,
    next_at: MonoTime,
    backoff_ms: u64,
    /// When a good link with it was lost.
    lost_at: Option<MonoTime>,
    dialling: bool,
}

impl Target {
    /// Whether it is likely to come back any moment.
    fn is_urgent(&self, now: MonoTime) -> bool {
        self.lost_at.is_some_and(|at| now.since_ms(at) < LOST_MS)
    }
}

#[derive(Debug)]
struct Linked {
    dialer: LifeId,
    since: MonoTime,
}

#[derive(Debug)]
struct Known {
    address: SocketAddr,
    gone_at: Option<MonoTime>,
}

/// The plan of one life.
#[derive(Debug)]
pub(super) struct Plan {
    own_life: LifeId,
    own_addresses: BTreeSet<SocketAddr>,
    seeds: Vec<Seed>,
    targets: BTreeMap<SocketAddr, Target>,
    linked: BTreeMap<LifeId, Linked>,
    members: BTreeMap<LifeId, Known>,
    jitter: u64,
}

impl Plan {
    pub(super) fn new(own_life: LifeId, own_addresses: &[SocketAddr], seeds: &[String], jitter: u64) -> Self {
        let seed = |text: &String| Seed {
            text: text.clone(),
            next_at: MonoTime::default(),
            backoff_ms: BACKOFF_MS_MIN,
            resolving: false,
        };
        Self {
            own_life,
            own_addresses: own_addresses.iter().copied().collect(),
            seeds: seeds.iter().map(seed).collect(),
            targets: BTreeMap::new(),
            linked: BTreeMap::new(),
            members: BTreeMap::new(),
            jitter,
        }
    }

    /// Takes what is due and counts it as under way.
    pub(super) fn due(&mut self, now: MonoTime) -> Due {
        let mut due = Due::default();
        for (index, seed) in self.seeds.iter_mut().enumerate() {
            if !seed.resolving && seed.next_at <= now {
                seed.resolving = true;
                due.seeds.push((index, seed.text.clone()));
            }
        }
        self.forget(now);
        let under_way = self.targets.values().filter(|target| target.dialling).count();
        let linked = &self.linked;
        let ready = self.targets.iter_mut().filter(|(_, target)| {
            let is_linked = target.life.is_some_and(|life| linked.contains_key(&life));
            !target.dialling && !is_linked && target.next_at <= now
        });
        for (address, target) in ready.take(DIALS_MAX - under_way.min(DIALS_MAX)) {
            target.dialling = true;
            due.dials.push((*address, if target.is_urgent(now) { HASTY_ANSWER } else { HANDSHAKE_TIMEOUT }));
        }
        due
    }

    /// Drops members long gone, and targets that neither a seed nor a member names any more.
    fn forget(&mut self, now: MonoTime) {
        self.members.retain(|_, known| known.gone_at.is_none_or(|at| now.since_ms(at) < GONE_MS));
        let members = &self.members;
        self.targets.retain(|address, target| {
            target.dialling || !target.seeds.is_empty() || members.values().any(|known| known.address == *address)
        });
    }

    /// A seed was resolved (to nothing, when that failed). Addresses it no longer resolves to are no longer its.
    pub(super) fn resolved(&mut self, index: usize, addresses: &[SocketAddr], now: MonoTime) {
        let wait_ms = self.jittered(self.seeds[index].backoff_ms);
        let seed = &mut self.seeds[index];
        seed.resolving = false;
        seed.next_at = now.plus_ms(wait_ms);
        seed.backoff_ms = grown(seed.backoff_ms);
        if addresses.is_empty() {
            return;
        }
        for (address, target) in &mut self.targets {
            if !addresses.contains(address) {
                target.seeds.remove(&index);
            }
        }
        for address in addresses {
            if let Some(target) = self.target(*address, now) {
                target.seeds.insert(index);
            }
        }
    }

    /// The membership service says where a life can be dialled.
    pub(super) fn learned(&mut self, life: LifeId, address: SocketAddr, now: MonoTime) {
        if life == self.own_life || self.target(address, now).is_none() {
            return;
        }
        self.members.insert(life, Known { address, gone_at: None });
    }

    /// The membership service says that a life is gone.
    pub(super) fn gone(&mut self, life: LifeId, now: MonoTime) {
        if let Some(known) = self.members.get_mut(&life) {
            known.gone_at.get_or_insert(now);
        }
    }

    fn target(&mut self, address: SocketAddr, now: MonoTime) -> Option<&mut Target> {
        if self.own_addresses.contains(&address) || address.ip().is_unspecified() || address.port() == 0 {
            return None;
        }
        if !self.targets.contains_key(&address) {
            if self.targets.len() >= TARGETS_MAX {
                return None;
            }
            // A little jitter even for the first dial: a mesh that starts together would dial in pairs.
            let next_at = now.plus_ms(self.jittered(60));
            let target = Target {
                seeds: BTreeSet::new(),
                life: None,
                next_at,
                backoff_ms: BACKOFF_MS_MIN,
                lost_at: None,
                dialling: false,
            };
            self.targets.insert(address, target);
        }
        self.targets.get_mut(&address)
    }

    /// A dial ended: with a link, or for a reason; `life` is who was there, if that came out. Returns whether the address
    /// turned out just now to be this gateway's own.
    pub(super) fn dialled(
        &mut self,
        address: SocketAddr,
        life: Option<LifeId>,
        result: Result<(), LinkFailure>,
        now: MonoTime,
    ) -> bool {
        let Some(target) = self.targets.get(&address) else { return false };
        // Only silence is worth haste: whoever answers and does not take part will say the same in half a second.
        let silent = matches!(result, Err(LinkFailure::TimedOut | LinkFailure::Unreachable | LinkFailure::Closed));
        let hasty = silent && target.is_urgent(now);
        let wait_ms = self.jittered(if hasty { HASTE_MS } else { target.backoff_ms });
        let target = self.targets.get_mut(&address).expect("it was there");
        target.dialling = false;
        target.life = life.or(target.life);
        let own = result == Err(LinkFailure::OwnAddress);
        target.next_at = now.plus_ms(if own { OWN_ADDRESS_MS } else { wait_ms });
        if !hasty {
            target.backoff_ms = grown(target.backoff_ms);
        }
        own
    }

    /// A link came up.
    pub(super) fn linked(&mut self, life: LifeId, dialer: LifeId, at: &[SocketAddr], now: MonoTime) {
        self.linked.insert(life, Linked { dialer, since: now });
        for address in at {
            if let Some(target) = self.targets.get_mut(address) {
                target.life = Some(life);
            }
        }
    }

    /// A link was lost. The peer's addresses are dialled soon when the link was a good one; `refused`: not soon.
    pub(super) fn unlinked(&mut self, life: LifeId, refused: bool, now: MonoTime) {
        let Some(link) = self.linked.remove(&life) else { return };
        let good = !refused && now.since_ms(link.since) >= GOOD_LINK_MS;
        let soon_ms = self.jittered(100);
        let late_ms = self.jittered(BACKOFF_MS_MAX);
        for target in self.targets.values_mut().filter(|target| target.life == Some(life)) {
            if good {
                target.backoff_ms = BACKOFF_MS_MIN;
                target.next_at = now.plus_ms(soon_ms);
                target.lost_at = Some(now);
            } else if refused {
                target.lost_at = None;
                target.backoff_ms = BACKOFF_MS_MAX;
                target.next_at = now.plus_ms(late_ms);
            }
        }
        for seed in self.seeds.iter_mut().filter(|_| good) {
            seed.backoff_ms = BACKOFF_MS_MIN;
            seed.next_at = seed.next_at.min(now.plus_ms(soon_ms));
        }
    }

    /// Whether a link that this gateway dialled would lose against the one it has with `life`.
    pub(super) fn has_better_than_own_dial(&self, life: LifeId) -> bool {
        self.linked.get(&life).is_some_and(|link| link.dialer <= self.own_life)
    }

    /// Between three and five quarters of `ms`.
    fn jittered(&mut self, ms: u64) -> u64 {
        self.jitter = self.jitter.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ms * 3 / 4 + (self.jitter >> 33) % (ms / 2 + 1)
    }
}

fn grown(backoff_ms: u64) -> u64 {
    (backoff_ms * 8 / 5).min(BACKOFF_MS_MAX)
}

#[cfg(test)]
mod tests;
