//! Whom to dial and when: seeds for ever, addresses that the membership service taught us, jittered, one second growing
//! to five. A value: time is an argument, jitter is seeded.
//!
//! Not here: resolving and dialling (`dial`). Upholds I9: targets and attempts under way are bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use covey_crdt::id::LifeId;

use super::metrics::LinkFailure;
use crate::input::MonoTime;

const BACKOFF_MS_MIN: u64 = 1_000;
const BACKOFF_MS_MAX: u64 = 5_000;
/// A link that lived this long was a good one: its peer is dialled again at once when it is lost.
const GOOD_LINK_MS: u64 = 5_000;
/// An address that turned out to be one's own is tried again after this long: addresses move.
const OWN_ADDRESS_MS: u64 = 600_000;
/// A member that is gone is dialled for this long; the horizon after which it rejoins empty anyway.
const GONE_MS: u64 = 900_000;
const TARGETS_MAX: usize = 1_024;
const DIALS_MAX: usize = 16;

/// What is due now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    /// Seeds to resolve: index and text.
    pub(super) seeds: Vec<(usize, String)>,
    /// Addresses to dial.
    pub(super) addresses: Vec<SocketAddr>,
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
    dialling: bool,
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
            due.addresses.push(*address);
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
            let target =
                Target { seeds: BTreeSet::new(), life: None, next_at, backoff_ms: BACKOFF_MS_MIN, dialling: false };
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
        let wait_ms = self.targets.get(&address).map_or(BACKOFF_MS_MIN, |target| target.backoff_ms);
        let wait_ms = self.jittered(wait_ms);
        let Some(target) = self.targets.get_mut(&address) else { return false };
        target.dialling = false;
        target.life = life.or(target.life);
        let own = result == Err(LinkFailure::OwnAddress);
        target.next_at = now.plus_ms(if own { OWN_ADDRESS_MS } else { wait_ms });
        target.backoff_ms = grown(target.backoff_ms);
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
            } else if refused {
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
mod tests {
    use super::*;

    const ME: LifeId = LifeId(10);
    const PEER: LifeId = LifeId(20);

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    fn at(ms: u64) -> MonoTime {
        MonoTime::from_ms(ms)
    }

    fn plan(seeds: &[&str]) -> Plan {
        let seeds: Vec<String> = seeds.iter().map(|s| (*s).to_owned()).collect();
        Plan::new(ME, &[address(1)], &seeds, 7)
    }

    /// Runs a plan whose every dial fails and says when each dial happened.
    fn dials_until(plan: &mut Plan, end_ms: u64) -> Vec<u64> {
        let mut dials = Vec::new();
        for ms in (0..end_ms).step_by(10) {
            let due = plan.due(at(ms));
            for (index, _) in due.seeds {
                plan.resolved(index, &[address(2)], at(ms));
            }
            for address in due.addresses {
                dials.push(ms);
                plan.dialled(address, None, Err(LinkFailure::TimedOut), at(ms));
            }
        }
        dials
    }

    #[test]
    fn seeds_are_dialled_for_ever_one_second_growing_to_five() {
        let dials = dials_until(&mut plan(&["a:2"]), 120_000);
        let gaps: Vec<u64> = dials.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(dials[0] < 200 && (740..=1_270).contains(&gaps[0]), "{dials:?}");
        assert!(gaps.iter().skip(4).all(|gap| (3_740..=6_270).contains(gap)), "{gaps:?}");
        assert!(dials.last().is_some_and(|last| *last > 110_000));
    }

    #[test]
    fn a_linked_peer_is_not_dialled_and_a_lost_one_is_dialled_soon() {
        let mut plan = plan(&["a:2"]);
        dials_until(&mut plan, 3_000);
        plan.linked(PEER, PEER, &[address(2)], at(3_000));
        for ms in (3_000..60_000).step_by(10) {
            assert_eq!(plan.due(at(ms)).addresses, []);
        }
        plan.unlinked(PEER, false, at(60_000));
        assert_eq!(plan.due(at(60_200)).addresses, [address(2)]);
    }

    #[test]
    fn a_refused_peer_is_dialled_late() {
        let mut plan = plan(&["a:2"]);
        dials_until(&mut plan, 200);
        plan.linked(PEER, PEER, &[address(2)], at(200));
        plan.unlinked(PEER, true, at(10_000));
        assert_eq!(plan.due(at(13_000)).addresses, []);
        assert_eq!(plan.due(at(16_500)).addresses, [address(2)]);
    }

    #[test]
    fn own_and_unusable_addresses_are_never_targets() {
        let mut plan = plan(&["a:1"]);
        plan.due(at(0));
        plan.resolved(0, &[address(1), address(0), SocketAddr::from(([0, 0, 0, 0], 5))], at(0));
        plan.learned(ME, address(9), at(0));
        assert_eq!(plan.due(at(60_000)).addresses, []);
    }

    #[test]
    fn an_address_that_proves_to_be_ones_own_rests() {
        let mut plan = plan(&["a:2"]);
        plan.due(at(0));
        plan.resolved(0, &[address(2)], at(0));
        assert_eq!(plan.due(at(100)).addresses, [address(2)]);
        assert!(plan.dialled(address(2), Some(ME), Err(LinkFailure::OwnAddress), at(100)));
        assert_eq!(plan.due(at(500_000)).addresses, []);
        assert_eq!(plan.due(at(700_000)).addresses, [address(2)]);
    }

    #[test]
    fn a_name_that_moves_takes_its_target_along() {
        let mut plan = plan(&["a:2"]);
        plan.due(at(0));
        plan.resolved(0, &[address(2), address(3)], at(0));
        plan.resolved(0, &[address(3), address(4)], at(0));
        assert_eq!(plan.due(at(1_000)).addresses, [address(3), address(4)]);
        // A resolver that fails for a while takes nothing away.
        plan.resolved(0, &[], at(1_000));
        assert_eq!(plan.targets.len(), 2);
    }

    #[test]
    fn a_member_is_dialled_until_it_has_been_gone_for_the_horizon() {
        let mut plan = plan(&[]);
        plan.learned(PEER, address(5), at(0));
        assert_eq!(plan.due(at(100)).addresses, [address(5)]);
        plan.dialled(address(5), None, Err(LinkFailure::TimedOut), at(100));
        plan.gone(PEER, at(200));
        assert_eq!(plan.due(at(800_000)).addresses, [address(5)]);
        plan.dialled(address(5), None, Err(LinkFailure::TimedOut), at(800_000));
        assert_eq!(plan.due(at(1_000_000)), Due::default());
        assert!(plan.targets.is_empty());
    }

    #[test]
    fn targets_and_dials_under_way_are_bounded() {
        let mut plan = plan(&["a:2"]);
        let many: Vec<SocketAddr> = (2..5_000).map(address).collect();
        plan.due(at(0));
        plan.resolved(0, &many, at(0));
        assert_eq!(plan.targets.len(), TARGETS_MAX);
        assert_eq!(plan.due(at(1_000)).addresses.len(), DIALS_MAX);
        assert_eq!(plan.due(at(2_000)).addresses, []);
    }

    #[test]
    fn the_smaller_life_keeps_its_dial() {
        let mut plan = plan(&[]);
        plan.linked(PEER, PEER, &[], at(0));
        assert!(!plan.has_better_than_own_dial(PEER));
        plan.linked(PEER, ME, &[], at(0));
        assert!(plan.has_better_than_own_dial(PEER));
        plan.linked(LifeId(3), LifeId(3), &[], at(0));
        assert!(plan.has_better_than_own_dial(LifeId(3)));
    }
}
