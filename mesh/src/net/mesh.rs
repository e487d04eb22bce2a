//! The handle that request threads hold, and what it shares with the mesh thread.
//!
//! Not here: the threads (`watchdog`, `driver`), inspections (`inspect`). Upholds I11: nothing in this file waits for the
//! mesh thread except [`Mesh::leave`] and [`Mesh::shutdown`], which are for the end.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use covey_crdt::id::LifeId;
use crossbeam::queue::ArrayQueue;
use tokio::sync::Notify;

use super::ground::Ground;
use super::inspect::Inspections;
use super::metrics::{Counters, LinkSnapshot, NetSnapshot};
use super::sampling::Rest;
use crate::input::{Local, MonoTime};
use crate::status::Status;
use crate::summary::View;

/// What request threads may have waiting for the mesh thread. A placement is a few dozen bytes beside its chain, which
/// it shares with the request, so a full queue is about a second of the busiest gateway's work.
pub const COMMANDS_MAX: usize = 8_192;

/// How a mesh is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Ending {
    /// It is not.
    No,
    /// Say goodbye to the peers first.
    Leave,
    /// At once.
    Stop,
}

/// One life as the outside sees it. A life that was superseded keeps writing only here, where nobody reads any more.
#[derive(Debug)]
pub(super) struct LifeState {
    pub(super) life: LifeId,
    pub(super) status: ArcSwap<Status>,
    pub(super) view: ArcSwap<View>,
    pub(super) links: ArcSwap<Vec<LinkSnapshot>>,
    heartbeat_us: AtomicU64,
    superseded: AtomicBool,
}

impl LifeState {
    pub(super) fn new(life: LifeId, name: &str, now: MonoTime) -> Self {
        let status = Status { name: name.to_owned(), life: life.to_string(), ..Status::default() };
        Self {
            life,
            status: ArcSwap::from_pointee(status),
            view: ArcSwap::default(),
            links: ArcSwap::default(),
            heartbeat_us: AtomicU64::new(now.us),
            superseded: AtomicBool::new(false),
        }
    }

    /// The life finished a turn.
    pub(super) fn beat(&self, now: MonoTime) {
        self.heartbeat_us.store(now.us, Ordering::Release);
    }

    /// How long it has not finished one.
    pub(super) fn silent_for(&self, now: MonoTime) -> Duration {
        Duration::from_micros(now.us.saturating_sub(self.heartbeat_us.load(Ordering::Acquire)))
    }

    /// Another life took over: this one must stop touching anything.
    pub(super) fn supersede(&self) {
        self.superseded.store(true, Ordering::Release);
    }

    pub(super) fn is_superseded(&self) -> bool {
        self.superseded.load(Ordering::Acquire)
    }
}

/// What the handle, the watchdog and every life's thread share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) ground: Arc<dyn Ground>,
    pub(super) commands: ArrayQueue<Local>,
    pub(super) inspections: Inspections,
    /// Wakes the loop for commands, endings and load that changed.
    pub(super) wake: Notify,
    /// Whether the loop waits to be told of a change of load.
    pub(super) load_rests: Rest,
    pub(super) current: ArcSwap<LifeState>,
    pub(super) counters: Counters,
    pub(super) watchdog: OnceLock<Thread>,
    ending: AtomicU8,
    ended: Mutex<bool>,
    ended_changed: Condvar,
}

impl Shared {
    pub(super) fn new(ground: Arc<dyn Ground>, first: Arc<LifeState>) -> Self {
        Self {
            ground,
            commands: ArrayQueue::new(COMMANDS_MAX),
            inspections: Inspections::default(),
            wake: Notify::new(),
            load_rests: Rest::default(),
            current: ArcSwap::new(first),
            counters: Counters::default(),
            watchdog: OnceLock::new(),
            ending: AtomicU8::new(Ending::No as u8),
            ended: Mutex::new(false),
            ended_changed: Condvar::new(),
        }
    }

    pub(super) fn ending(&self) -> Ending {
        match self.ending.load(Ordering::Acquire) {
            0 => Ending::No,
            1 => Ending::Leave,
            _ => Ending::Stop,
        }
    }

    /// Asks for an end; a later, stronger wish wins, a weaker one changes nothing.
    pub(super) fn end(&self, how: Ending) {
        self.ending.fetch_max(how as u8, Ordering::AcqRel);
        self.wake.notify_one();
        if let Some(watchdog) = self.watchdog.get() {
            watchdog.unpark();
        }
    }

    /// All threads that can be ended have ended.
    pub(super) fn set_ended(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended_changed.notify_all();
    }

    fn wait_ended(&self, timeout: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let (ended, _) = self
            .ended_changed
            .wait_timeout_while(ended, timeout, |ended| !*ended)
            .unwrap_or_else(PoisonError::into_inner);
        *ended
    }
}

/// Ends the mesh when the last handle is gone.
struct Owner {
    shared: Arc<Shared>,
    bound: Option<SocketAddr>,
    advertised: Option<SocketAddr>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.end(Ending::Stop);
    }
}

/// A running mesh member, as request threads hold it. Cheap to clone; nothing here blocks but [`Self::leave`] and
/// [`Self::shutdown`]. Dropping the last handle stops the mesh without a goodbye.
#[derive(Clone)]
pub struct Mesh {
    owner: Arc<Owner>,
}

impl Mesh {
    pub(super) fn new(shared: Arc<Shared>, bound: Option<SocketAddr>, advertised: Option<SocketAddr>) -> Self {
        Self { owner: Arc::new(Owner { shared, bound, advertised }) }
    }

    /// Hands something to the mesh thread. `false`: the bounded queue was full and it was dropped and counted.
    #[must_use]
    pub fn submit(&self, local: Local) -> bool {
        let shared = &self.owner.shared;
        if shared.commands.push(local).is_err() {
            shared.counters.commands_dropped.add(1);
            return false;
        }
        shared.wake.notify_one();
        true
    }

    /// The status as the mesh thread last published it (at most 250 ms apart while it is healthy).
    #[must_use]
    pub fn status(&self) -> Arc<Status> {
        self.owner.shared.current.load().status.load_full()
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.owner.shared
    }

    /// All that the mesh thread knows of the mesh, for people, as it last published it (a second apart, and at once after
    /// links or the phase changed); empty at the start of a life.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.owner.shared.current.load().view.load_full()
    }

    /// The present life; another one after every restart of the mesh thread.
    #[must_use]
    pub fn life(&self) -> LifeId {
        self.owner.shared.current.load().life
    }

    /// What this gateway has outstanding changed. Costs the calling request thread one atomic load, or, when load had not changed
    /// for a while, waking the mesh thread. Optional: load is looked at ten times a second in any case.
    pub fn load_changed(&self) {
        let shared = &self.owner.shared;
        if shared.load_rests.disturb() {
            shared.wake.notify_one();
        }
    }

    /// How long ago the mesh thread last finished a turn; the gateway calls its view stale past 1 s.
    #[must_use]
    pub fn silent_for(&self) -> Duration {
        let shared = &self.owner.shared;
        shared.current.load().silent_for(shared.ground.mono())
    }

    /// What the driver counted so far.
    #[must_use]
    pub fn metrics(&self) -> NetSnapshot {
        let shared = &self.owner.shared;
        shared.counters.snapshot(shared.current.load().links.load().to_vec())
    }

    /// The UDP address bound; `None` when the mesh is off.
    #[must_use]
    pub fn bound_address(&self) -> Option<SocketAddr> {
        self.owner.bound
    }

    /// The address the peers are told; `None` when the mesh is off.
    #[must_use]
    pub fn advertised_address(&self) -> Option<SocketAddr> {
        self.owner.advertised
    }

    /// Says goodbye to the peers, flushes what was sent, closes and stops the threads. Blocks for at most `timeout` and
    /// a little; `false` when it had to be cut short. Callable from any thread that may block, more than once.
    #[must_use]
    pub fn leave(&self, timeout: Duration) -> bool {
        self.owner.shared.end(Ending::Leave);
        self.owner.shared.wait_ended(timeout) || {
            self.shutdown();
            false
        }
    }

    /// Stops without a goodbye: closes the connections and ends the threads. Blocks for at most half a second.
    pub fn shutdown(&self) {
        self.owner.shared.end(Ending::Stop);
        self.owner.shared.wait_ended(Duration::from_millis(500));
    }
}
