//! Gives an engine a clock: one task that steps it, and a ticket for each request.
//!
//! An engine lives once or, when a restart is asked for, several times in a row, each time with an empty cache and new
//! names; its KV events go to the publisher in the order in which they happened.
//!
//! Not here: HTTP, sockets. Upholds: a ticket that goes away cancels its request, so a client that hangs up frees its
//! blocks.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use covey_mesh::input::MonoTime;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::kv::{Fault, FaultKind, Order};
use crate::engine::{Engine, EngineConfig, Event, Job, KvTruth, Reject, RequestId, Stats};

/// An engine in real time.
pub(super) struct Host {
    config: EngineConfig,
    started: Instant,
    state: Mutex<HostState>,
    /// Told when an idle engine may have got something to do.
    woken: Notify,
}

struct HostState {
    engine: Engine,
    /// When this life began, by its own clock, in seconds of Unix time.
    started_unix_s: f64,
    /// Seconds by which its clock is behind.
    clock_back_s: f64,
    next_id: u64,
    /// Who publishes KV events, if anybody does.
    orders: Option<mpsc::UnboundedSender<Order>>,
    /// Who waits for the truth.
    truths: Vec<oneshot::Sender<Truth>>,
    /// Where each live request's events go. A request has as many events as tokens and two more, so that is the bound.
    tickets: HashMap<RequestId, mpsc::UnboundedSender<Event>>,
}

/// A cache at a position, and whose.
#[derive(Clone, Debug)]
pub(super) struct Truth {
    pub(super) kv: KvTruth,
    /// When the life began, in seconds of Unix time.
    pub(super) started_unix_s: f64,
}

impl Host {
    /// An engine whose KV events go to `orders`.
    pub(super) fn new(config: EngineConfig, orders: Option<mpsc::UnboundedSender<Order>>) -> Arc<Self> {
        let state = HostState {
            engine: new_engine(config),
            started_unix_s: unix_s(),
            clock_back_s: 0.0,
            next_id: 0,
            orders,
            truths: Vec::new(),
            tickets: HashMap::new(),
        };
        Arc::new(Self { config, started: Instant::now(), state: Mutex::new(state), woken: Notify::new() })
    }

    pub(super) const fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// When the engine started, seconds of Unix time by its clock.
    pub(super) fn started_unix_s(&self) -> f64 {
        self.lock().started_unix_s
    }

    /// The cache as it is after the last batch; waits for the end of the step that is being computed.
    pub(super) async fn truth(&self) -> Truth {
        loop {
            let (sender, truth) = oneshot::channel();
            {
                let mut state = self.lock();
                state.truths.push(sender);
                state.engine.want_truth();
                state.deliver();
            }
            // A restart forgets who waits: ask the new life.
            if let Ok(truth) = truth.await {
                return truth;
            }
        }
    }

    /// Makes something go wrong. `false` when the engine is asked to forget what is in use.
    pub(super) fn fault(&self, fault: &Fault) -> bool {
        let mut state = self.lock();
        match fault.kind {
            FaultKind::Reset => {
                let is_done = state.engine.reset_cache(self.now());
                state.deliver();
                return is_done;
            }
            FaultKind::Restart => state.restart(self.config, fault.clock_back_s),
            FaultKind::Drop
            | FaultKind::Delay
            | FaultKind::Reorder
            | FaultKind::Duplicate
            | FaultKind::Pause
            | FaultKind::LoseReplay
            | FaultKind::TruncateReplay => state.order(Order::Fault(*fault)),
        }
        true
    }

    pub(super) fn stats(&self) -> Stats {
        self.lock().engine.stats()
    }

    /// Queues a job. Its events arrive at the ticket; dropping that cancels it.
    pub(super) fn submit(self: &Arc<Self>, job: Job) -> Result<Ticket, Reject> {
        let mut state = self.lock();
        let id = RequestId(state.next_id);
        state.next_id += 1;
        state.engine.submit(self.now(), id, job)?;
        let (sender, events) = mpsc::unbounded_channel();
        state.tickets.insert(id, sender);
        state.deliver();
        drop(state);
        self.woken.notify_one();
        Ok(Ticket { id, events, host: Arc::clone(self) })
    }

    /// Steps the engine for ever.
    pub(super) async fn run(&self) {
        loop {
            let deadline = {
                let mut state = self.lock();
                state.engine.step(self.now());
                state.deliver();
                state.engine.next_deadline()
            };
            match deadline {
                Some(deadline) => tokio::select! {
                    () = sleep_until(self.started + Duration::from_micros(deadline.us)) => {}
                    () = self.woken.notified() => {}
                },
                None => self.woken.notified().await,
            }
        }
    }

    fn cancel(&self, id: RequestId) {
        let mut state = self.lock();
        state.tickets.remove(&id);
        state.engine.cancel(self.now(), id);
        state.deliver();
    }

    fn now(&self) -> MonoTime {
        MonoTime { us: u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX) }
    }

    fn lock(&self) -> MutexGuard<'_, HostState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostState {
    /// A new life. Who was served sees its connection break.
    fn restart(&mut self, config: EngineConfig, clock_back_s: f64) {
        self.engine = new_engine(config);
        self.clock_back_s = clock_back_s;
        self.started_unix_s = unix_s() - clock_back_s;
        self.tickets.clear();
        self.truths.clear();
        self.order(Order::Restart);
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // An error means that the process is going down.
            let _ = orders.send(order);
        }
    }

    fn deliver(&mut self) {
        while let Some(batch) = self.engine.poll_kv() {
            self.order(Order::Batch { seq: batch.seq, ts: unix_s() - self.clock_back_s, events: batch.events });
        }
        if let Some(kv) = self.engine.poll_truth() {
            let truth = Truth { kv, started_unix_s: self.started_unix_s };
            for waiting in self.truths.drain(..) {
                // An error means that nobody waits any more.
                let _ = waiting.send(truth.clone());
            }
        }
        while let Some(event) = self.engine.poll_event() {
            let (id, ended) = match event {
                Event::Finished { id } => (id, true),
                Event::Admitted { id, .. } | Event::Token { id, .. } => (id, false),
                // The client only sees that its next token takes longer.
                Event::Preempted { .. } => continue,
            };
            let Some(ticket) = self.tickets.get(&id) else { continue };
            // An error means that the ticket is being dropped, which cancels the request.
            let _ = ticket.send(event);
            if ended {
                self.tickets.remove(&id);
            }
        }
    }
}

/// An engine with names of its own.
fn new_engine(config: EngineConfig) -> Engine {
    Engine::new(EngineConfig { hash_seed: RandomState::new().hash_one(0), ..config })
}

fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64()
}

/// A request's claim on the engine.
pub(super) struct Ticket {
    id: RequestId,
    events: mpsc::UnboundedReceiver<Event>,
    host: Arc<Host>,
}

impl Ticket {
    /// The next event; `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    pub(super) const fn serial(&self) -> u64 {
        self.id.0
    }

    /// Seconds of Unix time at which the engine that runs it started, and this request's number: together unique.
    pub(super) fn started_unix_s(&self) -> f64 {
        self.host.started_unix_s()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.host.cancel(self.id);
    }
}
