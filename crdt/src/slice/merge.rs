//! A receiver's side: joining a slice.
//!
//! Not here: which slices come (`walk`), their chain content (`chain`). Upholds I3 and I5: floors first, then touches.

use super::Slice;
use crate::lattice::Merged;
use crate::replica::{ApplyError, Replica};
use crate::stamp::Floor;

impl Replica {
    /// Joins a slice.
    ///
    /// # Errors
    /// [`ApplyError::Unresolved`] when a chain it names is not stored; nothing is merged then.
    pub fn merge_slice(&mut self, slice: &Slice) -> Result<Merged, ApplyError> {
        self.merge_counted(slice).map(|(merged, _)| merged)
    }

    /// Joins a slice, and says how many of its segments were news.
    ///
    /// # Errors
    /// [`ApplyError::Unresolved`] when a chain it names is not stored; nothing is merged then.
    pub fn merge_counted(&mut self, slice: &Slice) -> Result<(Merged, u32), ApplyError> {
        let mut places = Vec::new();
        for (_, tip) in slice.holders.iter().flat_map(|holder| &holder.segments) {
            places.push(self.chains().resolve(*tip).ok_or(ApplyError::Unresolved(*tip))?);
        }
        let mut merged = Merged::Unchanged;
        // Chains are kept while the slice is merged: its own cuts may drop the last holder of one that comes later.
        for place in &places {
            self.keep(*place);
        }
        for (life, record) in &slice.lives {
            merged = merged.or(self.merge_life(*life, record));
        }
        for (worker, record) in &slice.workers {
            merged = merged.or(self.merge_record(worker, record));
        }
        let (mut nth, mut fresh) = (0, 0);
        for holder in &slice.holders {
            let (worker, keyspace, incarnation) = (&holder.worker, &holder.keyspace, &holder.incarnation);
            if holder.floor > Floor::LOWEST {
                merged = merged.or(self.floor(worker, keyspace, incarnation, holder.floor));
            }
            for (stamp, _) in &holder.segments {
                let grew = self.place(worker, keyspace, incarnation, places[nth], *stamp);
                fresh += u32::from(grew == Merged::Grew);
                merged = merged.or(grew);
                nth += 1;
            }
        }
        for place in places {
            self.release(place);
        }
        Ok((merged, fresh))
    }
}
