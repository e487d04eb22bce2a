//! What a node knows of one other life.
//!
//! Not here: decisions. Kept after the link is gone, for status; bounded by the number of lives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use covey_crdt::digest::Digest;
use covey_crdt::id::{GatewayName, LifeId, WorkerId};
use covey_crdt::stored::StoredKey;

use crate::clocks::Reading;
use crate::input::MonoTime;
use crate::load::PeerLoads;
use crate::status::Phase;
use crate::summary::{FeedSeen, Summary, WorkerSeen};
use crate::vector::Head;

/// What a life told of itself, and when. Kept after the link is gone: it was true then.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) at: MonoTime,
    pub(crate) summary: Arc<Summary>,
    /// Every worker it told of, and when.
    pub(crate) workers: BTreeMap<WorkerId, (MonoTime, Arc<WorkerSeen>)>,
    /// The feeds it ingests as far as it told, and when.
    pub(crate) feeds: BTreeMap<WorkerId, (MonoTime, Arc<FeedSeen>)>,
}

/// One other life.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    /// Its name, once it said one.
    pub(crate) name: Option<GatewayName>,
    /// Whether frames can be sent to it.
    pub(crate) linked: bool,
    /// Whether its push queue is full.
    pub(crate) blocked: bool,
    /// Whether its exchanges were accepted on this link.
    pub(crate) admitted: bool,
    /// What the membership service last said.
    pub(crate) member: Option<bool>,
    /// Its bit in the masks of chain knowledge.
    pub(crate) slot: Option<u8>,
    /// When it was first heard on this link.
    pub(crate) contact: Option<MonoTime>,
    /// When it was last heard.
    pub(crate) heard: Option<MonoTime>,
    /// Its monotonic clock at its last exchange.
    pub(crate) mono_us: u64,
    pub(crate) rtt_us: Option<u64>,
    pub(crate) reading: Option<Reading>,
    pub(crate) phase: Option<Phase>,
    pub(crate) digest: Option<Digest>,
    pub(crate) vector_hash: Option<u64>,
    /// Its vector as far as heard.
    pub(crate) known: BTreeMap<LifeId, Head>,
    /// How far its feeds are as far as heard.
    pub(crate) feeds: BTreeMap<WorkerId, StoredKey>,
    /// Whether it reads engines' events, and since when it was fit to own feeds.
    pub(crate) ingests: bool,
    pub(crate) fit_since: Option<MonoTime>,
    /// The version of its vector that is here in full.
    pub(crate) known_version: u64,
    /// The version of the own vector that it has in full.
    pub(crate) acked_version: u64,
    /// Ops it had received and not applied at its last exchange, as far as they follow what it had applied.
    pub(crate) held: u64,
    /// The lives it closed, as of the exchange that made `known` complete.
    pub(crate) closed: BTreeSet<LifeId>,
    /// It closed this life, which does not know it any more: it is told so on this link.
    pub(crate) stranger: bool,
    /// The digest of the ends it knows.
    pub(crate) ends: Option<Digest>,
    /// What it last told of itself.
    pub(crate) said: Option<Said>,
    /// The last exchange's time.
    pub(crate) exchange_at: MonoTime,
    pub(crate) loads: PeerLoads,
    /// The version of the own load registers that was sent to it, and that it has in full.
    pub(crate) load_sent: u64,
    pub(crate) load_acked: u64,
    /// It is not asked for repair before this time.
    pub(crate) shunned_until: Option<MonoTime>,
    /// Nor before this time, which it named itself: it is busy.
    pub(crate) busy_until: Option<MonoTime>,
}

impl Peer {
    /// Whether it takes part: linked, admitted, and not suspected dead.
    pub(crate) fn live(&self) -> bool {
        self.linked && self.admitted && self.member != Some(false)
    }

    /// Whether it failed or was busy as a donor just now.
    pub(crate) fn shunned(&self, now: MonoTime) -> bool {
        self.shunned_until.max(self.busy_until).is_some_and(|until| until > now)
    }

    /// Its log position for a life, as far as heard.
    pub(crate) fn seq(&self, life: LifeId) -> u64 {
        self.known.get(&life).map_or(0, |head| head.seq)
    }

    /// The link is gone: what was remembered of the connection goes with it.
    pub(crate) fn unlink(&mut self) {
        self.linked = false;
        self.blocked = false;
        self.admitted = false;
        self.slot = None;
        self.contact = None;
        // The next connection begins with the whole vector, whoever of the two hears the other first.
        self.acked_version = 0;
        self.closed.clear();
        self.stranger = false;
        self.ends = None;
        self.reading = None;
        self.loads = PeerLoads::default();
        self.load_sent = 0;
        self.load_acked = 0;
        self.mono_us = 0;
        self.busy_until = None;
        self.feeds.clear();
        self.ingests = false;
        self.fit_since = None;
    }

    /// How long to wait for an answer before asking again, in milliseconds.
    pub(crate) fn patience_ms(&self, least: u64, round_trips: u64) -> u64 {
        least.max(self.rtt_us.unwrap_or(0) * round_trips / 1_000)
    }
}
