//! Who can be reached: links as the driver reports them, membership, and whose load registers count.
//!
//! Not here: whether a linked peer is talked to (`exchange`).

use covey_crdt::id::LifeId;
use covey_crdt::plant::{Plant, planted};

use super::Node;
use crate::input::{Link, Member};
use crate::output::Output;

impl Node {
    pub(super) fn on_link(&mut self, link: Link) {
        let life = link.life();
        if life == self.life {
            return;
        }
        if matches!(link, Link::Up(_) | Link::Down(_)) {
            self.summary_at = self.now;
        }
        let peer = self.peers.entry(life).or_default();
        match link {
            Link::Up(_) => {
                peer.linked = true;
                peer.exchange_at = self.now;
                if peer.slot.is_none() {
                    peer.slot = self.masks.open();
                }
            }
            Link::Down(_) => self.unlink(life),
            Link::Blocked(_) => peer.blocked = true,
            Link::Writable(_) => peer.blocked = false,
        }
    }

    pub(super) fn unlink(&mut self, life: LifeId) {
        self.hush(life);
        self.permits.drop_link(life);
        self.donations.drop_link(life);
        let Some(peer) = self.peers.get_mut(&life) else { return };
        if let Some(slot) = peer.slot {
            self.masks.close(slot);
        }
        peer.unlink();
    }

    pub(super) fn on_member(&mut self, member: Member) {
        let (life, up) = match member {
            Member::Up(life) => (life, true),
            Member::Down(life) => (life, false),
        };
        if life == self.life {
            return;
        }
        // Only lives that were ever linked are recorded: the service may name anybody.
        let Some(peer) = self.peers.get_mut(&life) else { return };
        let before = peer.live();
        peer.member = Some(up);
        let after = peer.live();
        if before && !after {
            self.hush(life);
        } else if after && !before {
            self.voice(life);
        }
    }

    /// The life's load registers do not count any more.
    pub(super) fn hush(&mut self, life: LifeId) {
        if planted(Plant::DeadLoadsCount) {
            return;
        }
        let Some(peer) = self.peers.get(&life) else { return };
        for (worker, _) in peer.loads.all() {
            self.outbox.push_back(Output::Load { life, worker: worker.clone(), load: None });
        }
    }

    /// They count again.
    pub(super) fn voice(&mut self, life: LifeId) {
        let Some(peer) = self.peers.get(&life) else { return };
        for (worker, load) in peer.loads.all() {
            self.outbox.push_back(Output::Load { life, worker: worker.clone(), load: Some(load) });
        }
    }
}
