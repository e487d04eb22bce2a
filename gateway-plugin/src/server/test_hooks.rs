//! Breaking the mesh thread on purpose, so that a test on real processes can show that no request notices (I11).
//!
//! Only a gateway started with the hidden flag `--test-hooks`, which wants its operators' port on loopback, has any of
//! this. The host is where it breaks: it runs on the mesh thread, and the watchdog cannot tell it from the node.
//!
//! Not here: the routes (`admin`), noticing and starting again (the driver's watchdog).

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use covey_crdt::change::Change;
use covey_crdt::id::{LifeId, WorkerId};
use covey_mesh::input::Load;
use covey_mesh::net::{Host, MakeHost};
use covey_mesh::note::Note;
use covey_mesh::output::FeedOrder;
use tracing::warn;

/// How long a stall lasts: past the driver's limit, and past the new life's start, so that both are there together.
const STALL: Duration = Duration::from_secs(6);

/// What can be done to a mesh thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Breakage {
    /// It panics in its next turn.
    Panic = 1,
    /// Its next turn takes six seconds.
    Stall = 2,
}

/// The hooks of one gateway.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestHooks(Arc<AtomicU8>);

impl TestHooks {
    /// Breaks the mesh thread in its next turn, whichever life that belongs to; once.
    pub(crate) fn set(&self, breakage: Breakage) {
        self.0.store(breakage as u8, Ordering::Release);
    }

    /// Wraps hosts so that they break when asked to.
    pub(super) fn breaking(&self, inner: MakeHost) -> MakeHost {
        let hooks = self.clone();
        Arc::new(move |life| Box::new(BreakingHost { inner: inner(life), hooks: hooks.clone() }))
    }

    fn take(&self) -> Option<Breakage> {
        match self.0.swap(0, Ordering::AcqRel) {
            1 => Some(Breakage::Panic),
            2 => Some(Breakage::Stall),
            _ => None,
        }
    }
}

struct BreakingHost {
    inner: Box<dyn Host>,
    hooks: TestHooks,
}

impl Host for BreakingHost {
    fn changed(&mut self, change: Change) {
        self.inner.changed(change);
    }

    fn load(&mut self, life: LifeId, worker: &WorkerId, load: Option<Load>) {
        self.inner.load(life, worker, load);
    }

    fn note(&mut self, note: &Note) {
        self.inner.note(note);
    }

    fn feed(&mut self, order: FeedOrder) {
        self.inner.feed(order);
    }

    fn publish(&mut self) -> Option<Duration> {
        match self.hooks.take() {
            Some(Breakage::Panic) => panic!("asked to, by a test hook"),
            Some(Breakage::Stall) => {
                warn!("stalling the mesh thread: asked to, by a test hook");
                std::thread::sleep(STALL);
            }
            None => {}
        }
        self.inner.publish()
    }

    fn sample_load(&mut self, out: &mut Vec<(WorkerId, Load)>) {
        self.inner.sample_load(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_breaks_one_turn_only() {
        let hooks = TestHooks::default();
        assert_eq!(hooks.take(), None);
        hooks.set(Breakage::Stall);
        hooks.set(Breakage::Panic);
        assert_eq!((hooks.take(), hooks.take()), (Some(Breakage::Panic), None));
    }
}
