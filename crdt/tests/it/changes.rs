//! The read index lives on changes alone: replayed into a naive mirror they must rebuild the coverage exactly, and what
//! they free must be free.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use covey_crdt::change::{Change, Coverage, HolderKey, HolderSlot, Place, RunId, WorkerView};
use covey_crdt::hash::{BlockHash, PathId};
use covey_crdt::id::WorkerId;
use covey_crdt::limits::RUN_BLOCKS_MAX;
use covey_crdt::replica::Replica;
use proptest::prelude::*;

use crate::generate::{self, CUT_3, LONG, TIGHT};
use crate::run::{Schedule, Subject, schedule};

#[derive(Debug)]
struct Run {
    parent: Place,
    hashes: Arc<[BlockHash]>,
}

/// What a reader that sees only changes knows.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    runs: BTreeMap<RunId, Run>,
    holders: BTreeMap<HolderSlot, (HolderKey, BTreeMap<RunId, u32>)>,
    workers: BTreeMap<WorkerId, WorkerView>,
    pub(crate) runs_numbered: u32,
    pub(crate) slots_numbered: u32,
}

impl Mirror {
    /// Takes one change and refuses what makes no sense at this point.
    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Run { run, parent, hashes } => self.run(run, parent, hashes),
            Change::RunFreed { run } => {
                assert!(self.holders.values().all(|(_, reach)| !reach.contains_key(&run)), "{run:?} is still covered");
                assert!(self.runs.values().all(|other| other.parent.run != run), "something hangs from {run:?}");
                self.runs.remove(&run).expect("only a stored run is freed");
            }
            Change::Holder { slot, key, coverage } => {
                assert_eq!(coverage, Coverage::Placed, "histories hold no feeds: those are judged in `feeds`");
                self.slots_numbered = self.slots_numbered.max(slot.0 + 1);
                assert!(self.holders.values().all(|(other, _)| *other != key), "{key:?} has two slots");
                let before = self.holders.insert(slot, (key, BTreeMap::new()));
                assert!(before.is_none(), "{slot:?} stands for two holders");
            }
            Change::HolderFreed { slot } => {
                let (key, reach) = self.holders.remove(&slot).expect("only a holder's slot is freed");
                assert!(reach.is_empty(), "{key:?} still covered {reach:?} when it went");
            }
            Change::Reach { slot, run, blocks } => {
                assert!(blocks as usize <= self.runs[&run].hashes.len(), "reach past the end of {run:?}");
                let (_, reach) = self.holders.get_mut(&slot).expect("only a holder reaches");
                let before = if blocks == 0 { reach.remove(&run) } else { reach.insert(run, blocks) };
                assert_ne!(before.unwrap_or(0), blocks, "a change that changes nothing");
            }
            Change::Worker(view) => {
                let before = self.workers.insert(view.worker.clone(), view.clone());
                let went_back = before.is_some_and(|before| before.incarnation > view.incarnation);
                assert!(!went_back, "{:?} went back to an older incarnation", view.worker);
            }
            Change::Stored { .. } | Change::Feed { .. } => panic!("histories hold no feeds"),
            Change::WorkerFreed { worker } => {
                assert!(self.holders.values().all(|(key, _)| key.worker != worker), "{worker} still holds");
                self.workers.remove(&worker).expect("only a known worker is freed");
            }
        }
    }

    fn run(&mut self, run: RunId, parent: Place, hashes: Arc<[BlockHash]>) {
        self.runs_numbered = self.runs_numbered.max(run.0);
        assert!(run != RunId::ROOT && (1..=RUN_BLOCKS_MAX as usize).contains(&hashes.len()));
        if parent != Place::ROOT {
            let above = &self.runs[&parent.run].hashes;
            assert!(parent.blocks >= 1 && parent.blocks as usize <= above.len(), "{run:?} hangs in the air");
            assert_ne!(above.get(parent.blocks as usize), hashes.first(), "{run:?} repeats what it hangs from");
        }
        let twin = self.runs.values().any(|other| other.parent == parent && other.hashes[0] == hashes[0]);
        assert!(!twin, "two runs at one place begin alike");
        assert!(self.runs.insert(run, Run { parent, hashes }).is_none(), "{run:?} is in use");
    }

    fn path(&self, place: Place) -> PathId {
        let Some(run) = self.runs.get(&place.run) else { return PathId::ROOT };
        self.path(run.parent).extend(&run.hashes[..place.blocks as usize])
    }

    fn covered(&self, reach: &BTreeMap<RunId, u32>) -> BTreeSet<PathId> {
        let mut all = BTreeSet::new();
        for (run, blocks) in reach {
            let parent = self.runs[run].parent;
            assert!(
                parent == Place::ROOT || reach[&parent.run] >= parent.blocks,
                "{run:?} is covered, its root is not"
            );
            let mut path = self.path(parent);
            for hash in &self.runs[run].hashes[..*blocks as usize] {
                path = path.child(*hash);
                assert!(all.insert(path), "one path lies in two runs");
            }
        }
        all
    }

    /// The mirror shows what the replica holds.
    pub(crate) fn verify(&self, replica: &Replica) {
        let state = replica.expand();
        let mut shown = BTreeMap::new();
        for (key, reach) in self.holders.values() {
            shown.insert(key.clone(), self.covered(reach));
        }
        for (key, (_, blocks)) in &state.coverage {
            let shown = shown.remove(key).expect("a holder was announced");
            assert_eq!(shown, blocks.keys().copied().collect(), "{key:?}");
        }
        assert!(shown.values().all(BTreeSet::is_empty), "covered in the mirror only: {shown:?}");
        assert_eq!(self.runs.len(), replica.chains().runs());
        let blocks: usize = self.runs.values().map(|run| run.hashes.len()).sum();
        assert_eq!(blocks as u64, replica.chains().blocks());
        let views: Vec<_> =
            self.workers.values().map(|view| (&view.worker, &view.incarnation, view.capacity_tokens)).collect();
        let records: Vec<_> =
            replica.records().map(|(id, record)| (id, &record.incarnation, record.capacity_tokens)).collect();
        assert_eq!(views, records);
    }
}

/// Changes taken in batches tell the same as changes taken one by one.
fn batches_rebuild_the_coverage(history: &generate::History, schedule: &Schedule, batches: &[bool]) {
    let mut subject = Subject::new(&history.entries);
    for (nth, (entry, way)) in schedule.deliveries(&history.entries).into_iter().enumerate() {
        let _ = subject.deliver(entry, way);
        if batches[nth % batches.len()] {
            subject.reflect();
        }
    }
    subject.reflect();
    subject.release_all();
    for nth in 0..2 {
        let record = covey_crdt::worker::WorkerRecord::new(
            generate::incarnation(6).next(covey_crdt::id::Token::new("restarted").expect("a printable token")),
        );
        let _ = subject.replica.merge_record(&generate::worker(nth), &record);
    }
    subject.reflect();
    let chains = subject.replica.chains();
    assert_eq!((chains.runs(), chains.blocks()), (0, 0), "a chain nobody refers to is still stored (hazard 16)");
    assert!(subject.mirror.holders.is_empty());
    // Two workers with two keyspaces each are all there is at one time, however many incarnations came and went.
    assert!(subject.mirror.slots_numbered <= 4, "slots are reused: {}", subject.mirror.slots_numbered);
    assert!(subject.replica.is_consistent());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]
    #[test]
    fn changes_rebuild_the_coverage_of_tight_caches_and_nothing_is_left_behind(
        history in generate::history(TIGHT), schedule in schedule(), batches in prop::collection::vec(any::<bool>(), 16),
    ) {
        batches_rebuild_the_coverage(&history, &schedule, &batches);
    }

    #[test]
    fn changes_rebuild_the_coverage_of_aliased_chains_and_nothing_is_left_behind(
        history in generate::history(CUT_3), schedule in schedule(), batches in prop::collection::vec(any::<bool>(), 16),
    ) {
        batches_rebuild_the_coverage(&history, &schedule, &batches);
    }

    #[test]
    fn changes_rebuild_the_coverage_of_long_chains_and_nothing_is_left_behind(
        history in generate::history(LONG), schedule in schedule(), batches in prop::collection::vec(any::<bool>(), 16),
    ) {
        batches_rebuild_the_coverage(&history, &schedule, &batches);
    }
}
