//! A donor's side of comparing one holder with a receiver's.
//!
//! Buckets are settled in the order of their stamps, least recent first. A touch only ever moves blocks to newer stamps,
//! so a block that leaves a bucket before it is settled turns up in a later one: nothing the holder held when the walk
//! began is missed, however many answers the comparison takes.
//!
//! Not here: what the receiver says of itself (`outline`), walking on (`slice`).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Filling, SEGMENT_BYTES};
use crate::change::Place;
use crate::id::WorkerId;
use crate::keyspace::Keyspace;
use crate::lane::LaneId;
use crate::outline::{
    Has, HolderAsk, Named, Outcome, element, floor_hash, incarnation_hash, member, seed, worker_name,
};
use crate::placed::Placed;
use crate::plant::{Plant, planted};
use crate::slice::HolderSlice;
use crate::stamp::{Floor, Stamp};
use crate::worker::WorkerRecord;

/// Bytes of a question's answer when nothing differs.
const ANSWER_BYTES: usize = 4;

impl Filling<'_> {
    /// Answers as many of the questions as the budget allows.
    pub(super) fn compare(&mut self, asks: &[HolderAsk], salt: u64) -> Outcome {
        let mut outcome = Outcome::default();
        if asks.is_empty() {
            return outcome;
        }
        let named = self.replica.named();
        for ask in asks {
            if self.left == 0 {
                break;
            }
            self.spend(ANSWER_BYTES);
            outcome.after = match named.get(&ask.holder) {
                Some(own) => self.compare_holder(own, ask, salt),
                None => self.records_named(ask.worker),
            };
            if outcome.after.is_some() {
                break;
            }
            outcome.done += 1;
        }
        outcome
    }

    /// The holder is gone, so its worker began another incarnation: that is what there is to say.
    fn records_named(&mut self, name: u32) -> Option<Stamp> {
        let replica = self.replica;
        for (id, record) in replica.records().filter(|(id, _)| worker_name(id) == name) {
            self.record(id, record);
        }
        None
    }

    /// Sends what the receiver lacks of a holder; up to where, when the budget ran out on the way.
    fn compare_holder(&mut self, own: &Named<'_>, ask: &HolderAsk, salt: u64) -> Option<Stamp> {
        if incarnation_hash(&own.record.incarnation) != ask.incarnation {
            self.record(own.worker, own.record);
        }
        let mut slice = None;
        if own.placed.floor() > Floor::LOWEST && floor_hash(own.placed.floor()) != ask.floor {
            slice = Some(self.holder_slice(own.worker, own.record, own.key, own.placed));
        }
        let seed = seed(&own.record.incarnation, salt);
        let chains = self.replica.chains();
        let mut segments = own.placed.segments(ask.after).peekable();
        for (end, has) in &ask.buckets {
            let mut bucket = Vec::new();
            while let Some((stamp, place)) = segments.next_if(|(stamp, _)| end.is_none_or(|end| *stamp <= end)) {
                bucket.push((stamp, place, element(chains, seed, stamp, place)));
            }
            match has {
                Has::Same(theirs) => {
                    let ours = bucket.iter().fold(0u64, |sum, (_, _, element)| sum.wrapping_add(*element));
                    if ours == *theirs {
                        continue;
                    }
                }
                Has::Members(members) => {
                    let members: BTreeSet<u64> = members.iter().copied().collect();
                    bucket.retain(|(_, _, element)| !members.contains(&member(*element)));
                }
            }
            for (stamp, place, _) in bucket {
                let nth = *slice.get_or_insert_with(|| self.holder_slice(own.worker, own.record, own.key, own.placed));
                self.segment(nth, stamp, place);
                if self.left == 0 {
                    return Some(stamp);
                }
            }
        }
        None
    }

    fn segment(&mut self, nth: usize, stamp: Stamp, place: Place) {
        self.content(place);
        let tip = self.replica.chains().tip(place);
        self.piece.slice.holders[nth].segments.push((stamp, tip));
        self.spend(SEGMENT_BYTES);
    }

    /// Opens a holder's part of the slice: its floor goes ahead.
    pub(super) fn holder_slice(
        &mut self,
        worker: &WorkerId,
        record: &WorkerRecord,
        key: &(Arc<Keyspace>, LaneId),
        placed: &Placed,
    ) -> usize {
        self.spend(super::HOLDER_BYTES + key.0.model.as_str().len());
        self.piece.slice.holders.push(HolderSlice {
            worker: worker.clone(),
            keyspace: Arc::clone(&key.0),
            incarnation: record.incarnation.clone(),
            floor: if planted(Plant::FloorDroppedInRepair) { Floor::LOWEST } else { placed.floor() },
            segments: Vec::new(),
        });
        self.piece.slice.holders.len() - 1
    }
}
