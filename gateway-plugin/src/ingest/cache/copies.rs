//! How many copies of one block each lane has.
//!
//! Not here: what a copy means. Nearly every block has copies in one lane, so that one is kept in place.

use covey_crdt::lane::LaneId;

use super::CopyReports;

/// What a store reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A copy.
    Sure,
    /// A copy, or the reuse of one.
    Doubtful,
    /// The reuse of one.
    None,
}

/// Copies in one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InLane {
    pub(super) lane: LaneId,
    pub(super) sure: u32,
    pub(super) doubtful: u32,
}

impl InLane {
    const fn is_held(&self) -> bool {
        self.sure > 0 || self.doubtful > 0
    }
}

/// Copies in all lanes; every entry has one at least.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Copies {
    first: Option<InLane>,
    more: Vec<InLane>,
}

impl Copies {
    pub(super) fn iter(&self) -> impl Iterator<Item = &InLane> {
        self.first.iter().chain(&self.more)
    }

    fn get_mut(&mut self, lane: LaneId) -> Option<&mut InLane> {
        self.first.iter_mut().chain(&mut self.more).find(|of| of.lane == lane)
    }

    /// An entry with a copy; `false` for one without, or of a lane that has one.
    pub(super) fn put(&mut self, of: InLane) -> bool {
        if !of.is_held() || self.any(of.lane) {
            return false;
        }
        match self.first {
            None => self.first = Some(of),
            Some(_) => self.more.push(of),
        }
        true
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn any(&self, lane: LaneId) -> bool {
        self.iter().any(|of| of.lane == lane)
    }

    pub(super) fn any_doubtful(&self) -> bool {
        self.iter().any(|of| of.doubtful > 0)
    }

    pub(super) fn lanes(&self) -> Vec<LaneId> {
        self.iter().map(|of| of.lane).collect()
    }

    /// One more. Whether it is the lane's first.
    pub(super) fn add(&mut self, lane: LaneId, kind: Kind, reports: CopyReports) -> bool {
        let (sure, doubtful) = match kind {
            Kind::Sure => (1, 0),
            Kind::Doubtful => (0, 1),
            Kind::None => return false,
        };
        match self.get_mut(lane) {
            None => self.put(InLane { lane, sure, doubtful }),
            Some(of) => {
                if reports == CopyReports::Each {
                    of.sure = of.sure.saturating_add(sure);
                    of.doubtful = of.doubtful.saturating_add(doubtful);
                }
                false
            }
        }
    }

    /// One less, of those that are sure first. Whether it was the lane's last; `None` when the lane has none.
    pub(super) fn remove(&mut self, lane: LaneId, reports: CopyReports) -> Option<bool> {
        let of = self.get_mut(lane)?;
        match (reports, of.sure) {
            (CopyReports::Last, _) => (of.sure, of.doubtful) = (0, 0),
            (CopyReports::Each, 0) => of.doubtful -= 1,
            (CopyReports::Each, _) => of.sure -= 1,
        }
        let is_last = !of.is_held();
        if is_last {
            self.tidy();
        }
        Some(is_last)
    }

    /// There is a copy in the lane, if only a doubtful one: one is sure now. `false` when the lane has none.
    pub(super) fn confirm(&mut self, lane: LaneId) -> bool {
        let Some(of) = self.get_mut(lane) else { return false };
        if of.sure == 0 {
            (of.sure, of.doubtful) = (1, of.doubtful - 1);
        }
        true
    }

    /// Doubtful copies never were. The lanes that have none now.
    pub(super) fn drop_doubtful(&mut self) -> Vec<LaneId> {
        let mut gone = Vec::new();
        for of in self.first.iter_mut().chain(&mut self.more) {
            of.doubtful = 0;
            if !of.is_held() {
                gone.push(of.lane);
            }
        }
        self.tidy();
        gone
    }

    fn tidy(&mut self) {
        self.more.retain(InLane::is_held);
        if self.first.as_ref().is_some_and(|of| !of.is_held()) {
            self.first = self.more.pop();
        }
    }
}
