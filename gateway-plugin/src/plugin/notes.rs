//! What a node observed, counted by kind. The closed list of kinds, and the words for them in metrics, are here and
//! nowhere else.
//!
//! Not here: log lines. A kind is (what, why); `why` is empty where there is only one.

use std::sync::atomic::{AtomicU64, Ordering};

use covey_mesh::note::{AbortWhy, Drop, Note, Refusal, RepairCost, RepairWhy};

/// Every kind, in the order of the counters.
const KINDS: [(&str, &str); 63] = [
    ("applied", ""),
    ("duplicate_ops", ""),
    ("dropped", "clock"),
    ("dropped", "incarnation"),
    ("dropped", "bound"),
    ("dropped", "unknown_worker"),
    ("refused", "cluster"),
    ("refused", "block_bytes"),
    ("refused", "name_taken"),
    ("refused", "lives_full"),
    ("refused_by", ""),
    ("malformed", ""),
    ("newer_version", ""),
    ("unknown_life", ""),
    ("fork", ""),
    ("pulled_logs", ""),
    ("wanted", ""),
    ("repair_started", "bootstrap"),
    ("repair_started", "trimmed"),
    ("repair_started", "mismatch"),
    ("repair_started", "unresolved"),
    ("repair_done", ""),
    ("repair_asks", ""),
    ("repair_pieces", ""),
    ("repair_summary_bytes", ""),
    ("repair_slice_bytes", ""),
    ("repair_content_bytes", ""),
    ("repair_segments", ""),
    ("repair_segments_new", ""),
    ("repair_dirty_pieces", ""),
    ("repair_refused", ""),
    ("repair_aborted", "timeout"),
    ("repair_aborted", "link_down"),
    ("repair_aborted", "refused"),
    ("repair_aborted", "future_stamp"),
    ("repair_aborted", "malformed"),
    ("repair_aborted", "outlived"),
    ("digest_mismatch", ""),
    ("restated", ""),
    ("closing", ""),
    ("retired", ""),
    ("forgotten_lives", ""),
    ("founded", ""),
    ("clean", ""),
    ("dirty", ""),
    ("clock", "good"),
    ("clock", "ahead"),
    ("clock", "behind"),
    ("token_flaps", ""),
    ("feed_ops", ""),
    ("feed_hashes", ""),
    ("generations", ""),
    ("feed_forks", ""),
    ("taken_over", ""),
    ("feed_dropped", ""),
    ("pulled_feeds", ""),
    ("fetched_feed_bytes", ""),
    ("sent_frames", "push"),
    ("sent_frames", "control"),
    ("sent_frames", "repair"),
    ("sent_bytes", "push"),
    ("sent_bytes", "control"),
    ("sent_bytes", "repair"),
];

pub use covey_mesh::summary::DELAY_BOUNDS_MS;

/// Live counters of one process, over all its lives.
#[derive(Debug)]
pub struct Notes {
    counts: [AtomicU64; KINDS.len()],
    delays: [AtomicU64; DELAY_BOUNDS_MS.len() + 1],
    delay_ms_sum: AtomicU64,
}

impl Default for Notes {
    fn default() -> Self {
        let zero = |_| AtomicU64::new(0);
        Self { counts: std::array::from_fn(zero), delays: std::array::from_fn(zero), delay_ms_sum: AtomicU64::new(0) }
    }
}

/// The counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotesSnapshot {
    /// (what, why, how often), every kind there is, zeros included.
    pub counts: Vec<(&'static str, &'static str, u64)>,
    /// Ops applied per bucket of [`DELAY_BOUNDS_MS`], by their age when they were applied; the last bucket is the rest.
    pub delays: [u64; DELAY_BOUNDS_MS.len() + 1],
    /// Sum of those ages in milliseconds.
    pub delay_ms_sum: u64,
}

impl NotesSnapshot {
    /// How often `what` for `why` was counted; 0 for a kind there is not.
    #[must_use]
    pub fn of(&self, what: &str, why: &str) -> u64 {
        self.counts.iter().find(|(a, b, _)| (*a, *b) == (what, why)).map_or(0, |(_, _, count)| *count)
    }

    /// The bucket bound in milliseconds that at least `share` (0 to 1) of the ages do not exceed; `None` without any, or
    /// when it lies beyond the last bound.
    #[must_use]
    pub fn delay_ms_at(&self, share: f64) -> Option<u64> {
        let all: u64 = self.delays.iter().sum();
        let wanted = (all as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = self.delays.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        DELAY_BOUNDS_MS.get(reached?).copied()
    }
}

impl Notes {
    /// Counts one observation.
    pub fn count(&self, note: &Note) {
        match note {
            Note::Applied { delay_ms } => {
                let bucket = DELAY_BOUNDS_MS.partition_point(|bound| bound < delay_ms);
                self.delays[bucket].fetch_add(1, Ordering::Relaxed);
                self.delay_ms_sum.fetch_add(*delay_ms, Ordering::Relaxed);
                self.add("applied", "", 1);
            }
            Note::RepairDone { cost, .. } => self.repaired(cost),
            Note::RepairRefused { .. } => self.add("repair_refused", "", 1),
            Note::Sent { class, bytes } => {
                self.add("sent_frames", class.name(), 1);
                self.add("sent_bytes", class.name(), u64::from(*bytes));
            }
            Note::Duplicate { ops } => self.add("duplicate_ops", "", u64::from(*ops)),
            Note::Pulled { logs } => self.add("pulled_logs", "", u64::from(*logs)),
            Note::Dropped { why } => self.add("dropped", drop_why(*why), 1),
            Note::Refused { why, .. } => self.add("refused", refusal(why), 1),
            Note::RepairStarted { why, .. } => self.add("repair_started", repair_why(*why), 1),
            Note::RepairAborted { why, .. } => self.add("repair_aborted", abort_why(*why), 1),
            Note::Clock { state, .. } => self.add("clock", state.name(), 1),
            Note::RefusedBy { .. } => self.add("refused_by", "", 1),
            Note::Malformed { .. } => self.add("malformed", "", 1),
            Note::NewerVersion { .. } => self.add("newer_version", "", 1),
            Note::UnknownLife { .. } => self.add("unknown_life", "", 1),
            Note::Fork { .. } => self.add("fork", "", 1),
            Note::Wanted => self.add("wanted", "", 1),
            Note::DigestMismatch { .. } => self.add("digest_mismatch", "", 1),
            Note::Restated { .. } => self.add("restated", "", 1),
            Note::Closing { .. } => self.add("closing", "", 1),
            Note::Retired { .. } => self.add("retired", "", 1),
            Note::Forgot { lives } => self.add("forgotten_lives", "", u64::from(*lives)),
            Note::Founded => self.add("founded", "", 1),
            Note::Clean => self.add("clean", "", 1),
            Note::Dirty => self.add("dirty", "", 1),
            Note::TokenFlaps { .. } => self.add("token_flaps", "", 1),
            Note::FeedApplied { hashes } => {
                self.add("feed_ops", "", 1);
                self.add("feed_hashes", "", u64::from(*hashes));
            }
            Note::Generation { .. } => self.add("generations", "", 1),
            Note::FeedForked { .. } => self.add("feed_forks", "", 1),
            Note::TakenOver { .. } => self.add("taken_over", "", 1),
            Note::FeedDropped => self.add("feed_dropped", "", 1),
            Note::FeedPulled { feeds } => self.add("pulled_feeds", "", u64::from(*feeds)),
            Note::FeedFetched { bytes, .. } => self.add("fetched_feed_bytes", "", *bytes),
        }
    }

    fn repaired(&self, cost: &RepairCost) {
        self.add("repair_done", "", 1);
        self.add("repair_asks", "", u64::from(cost.asks));
        self.add("repair_pieces", "", u64::from(cost.pieces));
        self.add("repair_summary_bytes", "", cost.summary_bytes);
        self.add("repair_slice_bytes", "", cost.slice_bytes);
        self.add("repair_content_bytes", "", cost.content_bytes);
        self.add("repair_segments", "", cost.segments);
        self.add("repair_segments_new", "", cost.segments_new);
        self.add("repair_dirty_pieces", "", u64::from(cost.dirty_pieces));
    }

    /// The counters now.
    #[must_use]
    pub fn snapshot(&self) -> NotesSnapshot {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        NotesSnapshot {
            counts: KINDS.iter().zip(&self.counts).map(|((what, why), n)| (*what, *why, load(n))).collect(),
            delays: self.delays.each_ref().map(load),
            delay_ms_sum: load(&self.delay_ms_sum),
        }
    }

    fn add(&self, what: &str, why: &str, amount: u64) {
        let kind = KINDS.iter().position(|kind| *kind == (what, why)).expect("every note's kind is listed");
        self.counts[kind].fetch_add(amount, Ordering::Relaxed);
    }
}

fn drop_why(why: Drop) -> &'static str {
    match why {
        Drop::Clock => "clock",
        Drop::Incarnation => "incarnation",
        Drop::Bound => "bound",
        Drop::UnknownWorker => "unknown_worker",
    }
}

fn refusal(why: &Refusal) -> &'static str {
    match why {
        Refusal::Cluster { .. } => "cluster",
        Refusal::BlockBytes { .. } => "block_bytes",
        Refusal::NameTaken { .. } => "name_taken",
        Refusal::LivesFull { .. } => "lives_full",
    }
}

fn repair_why(why: RepairWhy) -> &'static str {
    match why {
        RepairWhy::Bootstrap => "bootstrap",
        RepairWhy::Trimmed => "trimmed",
        RepairWhy::Mismatch => "mismatch",
        RepairWhy::Unresolved => "unresolved",
    }
}

fn abort_why(why: AbortWhy) -> &'static str {
    match why {
        AbortWhy::Timeout => "timeout",
        AbortWhy::LinkDown => "link_down",
        AbortWhy::Refused => "refused",
        AbortWhy::FutureStamp => "future_stamp",
        AbortWhy::Malformed => "malformed",
        AbortWhy::Outlived => "outlived",
    }
}

#[cfg(test)]
mod tests {
    use covey_crdt::id::{GatewayName, LifeId, WorkerId};
    use covey_mesh::note::ClockState;
    use covey_mesh::output::Class;

    use super::*;

    /// One note of every kind. A kind that is missing from the list would panic on the mesh thread.
    fn every_note() -> Vec<Note> {
        let (peer, donor, life) = (LifeId(1), LifeId(2), LifeId(3));
        let name = GatewayName::new("g").expect("a name");
        let worker = WorkerId::new("w", 0).expect("a name");
        let refusals = [
            Refusal::Cluster { theirs: "x".into() },
            Refusal::BlockBytes { theirs: 1 },
            Refusal::NameTaken { name: name.clone(), holder: life },
            Refusal::LivesFull { lives: 256 },
        ];
        let aborts = [
            AbortWhy::Timeout,
            AbortWhy::LinkDown,
            AbortWhy::Refused,
            AbortWhy::FutureStamp,
            AbortWhy::Malformed,
            AbortWhy::Outlived,
        ];
        let repairs = [RepairWhy::Bootstrap, RepairWhy::Trimmed, RepairWhy::Mismatch, RepairWhy::Unresolved];
        let drops = [Drop::Clock, Drop::Incarnation, Drop::Bound, Drop::UnknownWorker];
        let cost = RepairCost {
            asks: 2,
            pieces: 3,
            summary_bytes: 10,
            slice_bytes: 40,
            content_bytes: 20,
            segments: 2,
            segments_new: 1,
            dirty_pieces: 1,
        };
        let mut all = vec![
            Note::Applied { delay_ms: 3 },
            Note::Duplicate { ops: 2 },
            Note::RefusedBy { peer, why: "no".into() },
            Note::Malformed { peer, offset: 0 },
            Note::NewerVersion { peer, got: 2 },
            Note::UnknownLife { life },
            Note::Fork { life, peer },
            Note::Pulled { logs: 2 },
            Note::Wanted,
            Note::RepairDone { donor, cost },
            Note::RepairRefused { donor, retry_after_ms: 300 },
            Note::DigestMismatch { peer },
            Note::Restated { lives: 1 },
            Note::Closing { life: LifeId(1) },
            Note::Retired { life: LifeId(1) },
            Note::Forgot { lives: 2 },
            Note::Founded,
            Note::Clean,
            Note::Dirty,
            Note::TokenFlaps { worker: worker.clone() },
            Note::FeedApplied { hashes: 3 },
            Note::Generation { worker: worker.clone() },
            Note::FeedForked { worker: worker.clone(), peer },
            Note::TakenOver { worker: worker.clone() },
            Note::FeedDropped,
            Note::FeedPulled { feeds: 1 },
            Note::FeedFetched { worker, bytes: 9 },
        ];
        all.extend(refusals.map(|why| Note::Refused { peer, name: name.clone(), why }));
        all.extend(aborts.map(|why| Note::RepairAborted { donor, why }));
        all.extend(repairs.map(|why| Note::RepairStarted { donor, why }));
        all.extend(drops.map(|why| Note::Dropped { why }));
        all.extend(
            [ClockState::Good, ClockState::Ahead, ClockState::Behind].map(|state| Note::Clock { state, ahead_ms: 0 }),
        );
        all.extend(Class::ALL.map(|class| Note::Sent { class, bytes: 10 }));
        all
    }

    #[test]
    fn every_note_is_counted_under_a_listed_kind() {
        let notes = Notes::default();
        every_note().iter().for_each(|note| notes.count(note));
        let snapshot = notes.snapshot();
        let untouched: Vec<_> = snapshot.counts.iter().filter(|(_, _, count)| *count == 0).collect();
        assert!(untouched.is_empty(), "no note counts as {untouched:?}");
        assert_eq!((snapshot.of("repair_slice_bytes", ""), snapshot.of("sent_bytes", "push")), (40, 10));
        assert_eq!((snapshot.of("duplicate_ops", ""), snapshot.of("clock", "ahead")), (2, 1));
    }

    #[test]
    fn delays_are_read_off_the_buckets() {
        let notes = Notes::default();
        assert_eq!(notes.snapshot().delay_ms_at(0.5), None);
        for delay_ms in (0..98).map(|_| 3).chain([180, 9_999]) {
            notes.count(&Note::Applied { delay_ms });
        }
        let snapshot = notes.snapshot();
        assert_eq!((snapshot.delay_ms_at(0.5), snapshot.delay_ms_at(0.99)), (Some(3), Some(200)));
        assert_eq!(snapshot.delay_ms_at(1.0), None, "beyond the last bound");
        assert_eq!(snapshot.delay_ms_sum, 98 * 3 + 180 + 9_999);
    }
}
