//! Folding what the membership service says to one member per gateway name: the highest generation ever seen.
//!
//! Not here: running the service (`membership`). A restarted gateway's old generation lingers for a while; it must
//! never be taken for the member again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use covey_crdt::id::LifeId;

/// Names whose highest generation is remembered.
const NAMES_MAX: usize = 4_096;

/// One live entry of the membership service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: Arc<str>,
    pub(super) generation: u64,
    /// `None` until the entry's keys have arrived.
    pub(super) life: Option<LifeId>,
    pub(super) address: SocketAddr,
}

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberChange {
    /// A life is a live member and can be dialled there.
    Up(LifeId, SocketAddr),
    /// A life is not a live member any more.
    Down(LifeId),
}

/// The members as of the last update.
#[derive(Debug, Default)]
pub(super) struct Members {
    live: BTreeMap<Arc<str>, (u64, LifeId)>,
    newest: BTreeMap<Arc<str>, u64>,
}

impl Members {
    /// Takes the live entries (one's own left out). `may_remove` is false while a freshly started service has not had
    /// the time to hear from everybody.
    pub(super) fn update(&mut self, entries: &[Entry], may_remove: bool) -> Vec<MemberChange> {
        let mut changes = Vec::new();
        let mut present = BTreeMap::new();
        for entry in entries {
            if self.newest.len() < NAMES_MAX || self.newest.contains_key(&entry.name) {
                let newest = self.newest.entry(Arc::clone(&entry.name)).or_default();
                *newest = (*newest).max(entry.generation);
            }
        }
        for entry in entries {
            let newest = self.newest.get(&entry.name).copied().unwrap_or(entry.generation);
            // An older generation counts only until the newer one has told who it is.
            let known = self.live.get(&entry.name).is_some_and(|(generation, _)| *generation == entry.generation);
            if entry.generation == newest || known {
                let best = present.entry(Arc::clone(&entry.name)).or_insert(entry);
                if (entry.life.is_some(), entry.generation) > (best.life.is_some(), best.generation) {
                    *best = entry;
                }
            }
        }
        for (name, entry) in &present {
            let Some(life) = entry.life else { continue };
            match self.live.insert(Arc::clone(name), (entry.generation, life)) {
                Some((_, old)) if old == life => {}
                Some((_, old)) => changes.extend([MemberChange::Down(old), MemberChange::Up(life, entry.address)]),
                None => changes.push(MemberChange::Up(life, entry.address)),
            }
        }
        if may_remove {
            self.live.retain(|name, (_, life)| {
                let stays = present.contains_key(name);
                if !stays {
                    changes.push(MemberChange::Down(*life));
                }
                stays
            });
            if self.newest.len() >= NAMES_MAX {
                self.newest.retain(|name, _| present.contains_key(name));
            }
        }
        changes
    }

    /// Members alive.
    pub(super) fn len(&self) -> usize {
        self.live.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, generation: u64, life: u128) -> Entry {
        let life = (life != 0).then_some(LifeId(life));
        Entry { name: name.into(), generation, life, address: SocketAddr::from(([10, 0, 0, 1], 1)) }
    }

    fn up(life: u128) -> MemberChange {
        MemberChange::Up(LifeId(life), SocketAddr::from(([10, 0, 0, 1], 1)))
    }

    fn down(life: u128) -> MemberChange {
        MemberChange::Down(LifeId(life))
    }

    #[test]
    fn a_member_counts_once_its_keys_are_there() {
        let mut members = Members::default();
        assert_eq!(members.update(&[entry("a", 5, 0)], true), []);
        assert_eq!(members.update(&[entry("a", 5, 1)], true), [up(1)]);
        assert_eq!(members.update(&[entry("a", 5, 1)], true), []);
        assert_eq!(members.update(&[], true), [down(1)]);
        assert_eq!(members.len(), 0);
    }

    #[test]
    fn a_restart_swaps_lives_once_and_the_old_generation_never_comes_back() {
        let mut members = Members::default();
        assert_eq!(members.update(&[entry("a", 5, 1)], true), [up(1)]);
        assert_eq!(members.update(&[entry("a", 5, 1), entry("a", 9, 0)], true), []);
        assert_eq!(members.update(&[entry("a", 5, 1), entry("a", 9, 2)], true), [down(1), up(2)]);
        assert_eq!(members.update(&[entry("a", 9, 2), entry("a", 5, 1)], true), []);
        assert_eq!(members.update(&[entry("a", 5, 1)], true), [down(2)]);
        assert_eq!(members.update(&[entry("a", 5, 1)], true), []);
    }

    #[test]
    fn a_service_that_has_just_started_takes_nobody_away() {
        let mut members = Members::default();
        assert_eq!(members.update(&[entry("a", 5, 1), entry("b", 5, 2)], true), [up(1), up(2)]);
        assert_eq!(members.update(&[entry("b", 5, 2)], false), []);
        assert_eq!(members.update(&[entry("b", 5, 2)], true), [down(1)]);
    }

    #[test]
    fn a_life_that_takes_a_higher_generation_stays_up() {
        let mut members = Members::default();
        assert_eq!(members.update(&[entry("a", 5, 1)], true), [up(1)]);
        assert_eq!(members.update(&[entry("a", 6, 1)], true), []);
    }
}
