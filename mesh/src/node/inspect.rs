//! Answering an inspection: one page of the node's state, with bounded work.
//!
//! Not here: the words of question and answer (`crate::inspect`). Nothing here alters the node.

use std::collections::BTreeMap;

use covey_crdt::hash::BlockHash;
use covey_crdt::id::{Incarnation, LifeId, WorkerId};
use covey_crdt::inspect::{HolderView, StoredStretch, Stretch};
use covey_crdt::replica::Replica;
use covey_crdt::stamp::Floor;
use covey_crdt::stored::FeedState;
use covey_crdt::worker::WorkerRecord;

use super::Node;
use crate::inspect::{
    AfterBlock, AfterStored, Answer, Ask, EndsRow, FeedRow, FloorRow, Hex64, Hex128, HolderPage, HolderRow,
    IncarnationRow, LogRow, Moment, PAGE_BLOCKS, PAGE_HOLDERS, PAGE_STORED, PAGE_WORKERS, SetRow, StampRow, StatePage,
    StoredPage, StretchRow, WorkerRow,
};

impl Node {
    /// One page of an inspection. Work is bounded by the page's size and the lives known.
    #[must_use]
    pub fn inspect(&self, ask: &Ask) -> Answer {
        match ask {
            Ask::State { after } => Answer::State(self.state_page(after.as_ref())),
            Ask::Holder { worker, id, after } => Answer::Holder(self.holder_page(worker, *id, *after)),
            Ask::Stored { worker, after } => Answer::Stored(self.stored_page(worker, *after)),
        }
    }

    fn moment(&self) -> Moment {
        Moment {
            name: self.config.name.to_string(),
            life: Hex128(self.life.0),
            mesh: Hex128(self.mesh.0),
            phase: self.phase(),
            digest: Hex128(self.replica.digest().0),
            wall_ms: self.wall.0,
            logs: self.log_rows(),
        }
    }

    fn log_rows(&self) -> Vec<LogRow> {
        let mut rows: BTreeMap<LifeId, LogRow> = BTreeMap::new();
        let row = |life: LifeId| LogRow { life: Hex128(life.0), ..LogRow::default() };
        for (life, head) in self.vector.lives() {
            rows.insert(life, LogRow { seq: head.seq, hash: Hex64(head.hash), ..row(life) });
        }
        for (life, record) in self.replica.lives() {
            let known = rows.entry(*life).or_insert_with(|| row(*life));
            known.name = Some(record.name.to_string());
            known.left = record.left;
        }
        for (life, log) in &self.logs {
            if let Some(known) = rows.get_mut(life) {
                known.held = log.held() as u64;
                known.gap_ms = log.gap.map(|since| self.now.since_ms(since));
            }
        }
        rows.into_values().collect()
    }

    fn state_page(&self, after: Option<&WorkerId>) -> StatePage {
        let ends = after.is_none().then(|| EndsRow {
            digest: Hex128(self.replica.ends_digest().0),
            retired: self.replica.retired().keys().map(|life| Hex128(life.0)).collect(),
            forgotten: self.replica.forgotten().into(),
        });
        let mut page = StatePage { at: self.moment(), ends, workers: Vec::new(), more: false };
        let mut holders = 0;
        for (id, record, views) in self.replica.workers_after(after) {
            if page.workers.len() >= PAGE_WORKERS || holders >= PAGE_HOLDERS {
                page.more = true;
                break;
            }
            holders += views.len();
            page.workers.push(worker_row(id, record, &views));
        }
        page
    }

    fn holder_page(&self, worker: &WorkerId, id: u64, after: Option<AfterBlock>) -> HolderPage {
        let mut page = HolderPage { at: self.moment(), incarnation: None, floor: None, blocks: Vec::new(), next: None };
        let Some((record, view)) = self.replica.holder_view(worker, id) else { return page };
        page.incarnation = Some(incarnation_row(&record.incarnation));
        let Some(view) = view else { return page };
        page.floor = floor_row(view.placed.floor());
        let after = after.map(|block| (block.stamp.into(), block.depth));
        let blocks = self.replica.stretches(view.placed, after, PAGE_BLOCKS);
        let count: usize = blocks.iter().map(|stretch| stretch.paths.len()).sum();
        if let Some(last) = blocks.last().filter(|_| count >= PAGE_BLOCKS) {
            page.next = Some(AfterBlock { stamp: last.stamp.into(), depth: last.last() });
        }
        page.blocks = blocks.into_iter().map(stretch_row).collect();
        page
    }

    fn stored_page(&self, worker: &WorkerId, after: Option<AfterStored>) -> StoredPage {
        let mut page = StoredPage { at: self.moment(), feed: None, sets: Vec::new(), next: None };
        let Some(feed) = self.replica.feed(worker) else { return page };
        page.feed = Some(feed_row(feed));
        let after = after.map(|last| (last.id.0, BlockHash(last.block.0)));
        let sets = Replica::stored_stretches(worker, feed, after, PAGE_STORED);
        let count: usize = sets.iter().map(|set| set.blocks.len()).sum();
        let last = sets.iter().rev().find_map(|set| set.blocks.last().map(|block| (set.id, *block)));
        let next = last.filter(|_| count >= PAGE_STORED);
        page.next = next.map(|(id, block)| AfterStored { id: Hex64(id), block: Hex64(block.0) });
        page.sets = sets.into_iter().map(set_row).collect();
        page
    }
}

fn feed_row(feed: &FeedState) -> FeedRow {
    FeedRow {
        incarnation: incarnation_row(&feed.key.incarnation),
        generation: feed.key.generation.counter,
        generation_life: Hex128(feed.key.generation.life),
        position: feed.key.position,
        is_last: feed.is_last,
        is_complete: feed.is_complete,
        blocks: feed.blocks() as u64,
        contents: Hex128(feed.contents().0),
    }
}

fn set_row(set: StoredStretch<'_>) -> SetRow {
    let (keyspace, lane) = set.holder;
    SetRow {
        id: Hex64(set.id),
        model: keyspace.model.to_string(),
        block_units: keyspace.block_units,
        lane: lane.0,
        digest: Hex128(set.digest.0),
        blocks: set.count as u64,
        hashes: set.blocks.into_iter().map(|block| Hex64(block.0)).collect(),
    }
}

fn worker_row(id: &WorkerId, record: &WorkerRecord, views: &[HolderView<'_>]) -> WorkerRow {
    WorkerRow {
        name: id.name().to_owned(),
        rank: id.rank(),
        incarnation: incarnation_row(&record.incarnation),
        capacity_tokens: record.capacity_tokens,
        meta: record.meta.as_ref().map(|meta| StampRow::from(meta.stamp)),
        record: Hex128(record.digest(id).0),
        holders: views.iter().map(holder_row).collect(),
    }
}

fn incarnation_row(incarnation: &Incarnation) -> IncarnationRow {
    IncarnationRow { counter: incarnation.counter, token: incarnation.token.as_str().to_owned() }
}

fn holder_row(view: &HolderView<'_>) -> HolderRow {
    HolderRow {
        id: Hex64(view.id),
        model: view.keyspace.model.to_string(),
        block_units: view.keyspace.block_units,
        lane: view.lane.0,
        digest: Hex128(view.placed.digest().0),
        blocks: u64::from(view.placed.blocks()),
        floor: floor_row(view.placed.floor()),
    }
}

fn floor_row(floor: Floor) -> Option<FloorRow> {
    (floor > Floor::LOWEST).then(|| FloorRow { stamp: floor.stamp.into(), depth: floor.depth })
}

fn stretch_row(stretch: Stretch) -> StretchRow {
    let paths = stretch.paths.into_iter().map(|path| Hex128(path.0)).collect();
    StretchRow { stamp: stretch.stamp.into(), from: stretch.from, paths }
}
