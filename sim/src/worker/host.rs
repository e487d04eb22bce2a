//! Gives an engine a clock: one task that steps it, and a ticket for each request.
//!
//! Not here: HTTP. Upholds: a ticket that goes away cancels its request, so a client that hangs up frees its blocks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use covey_mesh::input::MonoTime;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

use crate::engine::{Engine, EngineConfig, Event, Job, Reject, RequestId, Stats};

/// An engine in real time.
pub(super) struct Host {
    config: EngineConfig,
    started: Instant,
    started_unix_s: f64,
    state: Mutex<HostState>,
    /// Told when an idle engine may have got something to do.
    woken: Notify,
}

struct HostState {
    engine: Engine,
    next_id: u64,
    /// Where each live request's events go. A request has as many events as tokens and two more, so that is the bound.
    tickets: HashMap<RequestId, mpsc::UnboundedSender<Event>>,
}

impl Host {
    pub(super) fn new(config: EngineConfig) -> Arc<Self> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Arc::new(Self {
            config,
            started: Instant::now(),
            started_unix_s: since_epoch.as_secs_f64(),
            state: Mutex::new(HostState { engine: Engine::new(config), next_id: 0, tickets: HashMap::new() }),
            woken: Notify::new(),
        })
    }

    pub(super) const fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// When the process's engine started, seconds of Unix time.
    pub(super) const fn started_unix_s(&self) -> f64 {
        self.started_unix_s
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
    fn deliver(&mut self) {
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
