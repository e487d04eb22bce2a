//! What all tasks of one life share, and what they tell the loop.
//!
//! Not here: the loop (`driver`).

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use bytes::Bytes;
use covey_crdt::id::LifeId;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

use super::identity::Identity;
use super::link::Link;
use super::mesh::Shared;
use super::metrics::{Counters, LinkFailure};
use super::plan::Plan;
use super::throttle::Throttle;
use super::tunnel::Tunnel;
use crate::input::MonoTime;

/// Frames and link events waiting for the loop. Readers wait for room, and QUIC makes their peers wait in turn.
pub(super) const EVENTS_MAX: usize = 64;

/// Names one connection within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkId(u64);

/// What connection tasks tell the loop. Of one link, in order.
#[derive(Debug)]
pub(super) enum Event {
    /// Both sides have accepted each other. The answer says whether the connection is kept.
    Established {
        /// The connection.
        link: Box<Link>,
        /// Where the answer goes.
        verdict: oneshot::Sender<bool>,
    },
    /// A frame came.
    Frame {
        /// On which connection.
        link: LinkId,
        /// From whom.
        from: LifeId,
        /// The frame.
        bytes: Bytes,
    },
    /// The push queue has room again.
    Writable {
        /// Of which connection.
        link: LinkId,
        /// To whom.
        to: LifeId,
    },
    /// The connection is over.
    Closed {
        /// Which.
        link: LinkId,
        /// With whom.
        life: LifeId,
        /// Why.
        why: LinkFailure,
        /// Whether the node at the other end refused this gateway.
        refused: bool,
    },
}

/// Shared by the tasks of one life.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) me: Identity,
    pub(super) advertised: SocketAddr,
    pub(super) bound: SocketAddr,
    pub(super) protocol: String,
    pub(super) shared: Arc<Shared>,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) tunnel: Tunnel,
    pub(super) throttle: Throttle,
    /// What the next dial uses; replaced with every certificate.
    pub(super) client: ArcSwap<quinn::ClientConfig>,
    /// Wakes the dialler after a change of plan.
    pub(super) replan: Notify,
    plan: Mutex<Plan>,
    tasks: Mutex<JoinSet<()>>,
    next: AtomicU64,
}

impl Context {
    pub(super) fn new(
        me: Identity,
        (bound, advertised): (SocketAddr, SocketAddr),
        protocol: String,
        shared: Arc<Shared>,
        events: mpsc::Sender<Event>,
        plan: Plan,
        client: quinn::ClientConfig,
    ) -> Self {
        Self {
            me,
            advertised,
            bound,
            protocol,
            shared,
            events,
            tunnel: Tunnel::default(),
            throttle: Throttle::default(),
            client: ArcSwap::from_pointee(client),
            replan: Notify::new(),
            plan: Mutex::new(plan),
            tasks: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }

    pub(super) fn now(&self) -> MonoTime {
        self.shared.ground.mono()
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// The plan, for a moment.
    pub(super) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a task that ends with the life at the latest, whatever it waits for.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }

    /// The life is over, and every task of it.
    pub(super) fn end_tasks(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    /// A number larger than any before: newer dials have larger ones.
    pub(super) fn next_dial(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn next_link(&self) -> LinkId {
        LinkId(self.next.fetch_add(1, Ordering::Relaxed))
    }
}
