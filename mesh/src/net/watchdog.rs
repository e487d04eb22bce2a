//! The thread that starts the mesh thread and watches it: a panic, a stall or the node's own wish ends a life, and the
//! next begins under a fresh id with a fresh node and host.
//!
//! Not here: what a life does (`driver`). Upholds I11: nobody waits for a mesh thread that is stuck, this thread
//! included; a stuck thread finds itself superseded and ends without publishing anything.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use tracing::{error, info, warn};

use super::MeshConfig;
use super::driver::{Exit, Setup, live};
use super::ground::random_life;
use super::mesh::{Ending, LifeState, Shared};
use super::network::Base;
use crate::input::MonoTime;

const BACKOFF_MS_MIN: u64 = 50;
const BACKOFF_MS_MAX: u64 = 5_000;
/// A life that lasted this long was a good one; the next starts at once.
const GOOD_LIFE_MS: u64 = 10_000;
/// Threads stuck at once; with this many, no further life is started until one ends.
const STUCK_MAX: usize = 4;
/// How long an ending waits for a mesh thread that has stopped answering.
const END_WAIT_MS: u64 = 400;

/// Supervises the lives of one mesh member.
pub(super) struct Watchdog {
    pub(super) config: Arc<MeshConfig>,
    pub(super) base: Option<Arc<Base>>,
    pub(super) shared: Arc<Shared>,
}

/// The life that is running.
struct Running {
    state: Arc<LifeState>,
    thread: JoinHandle<Exit>,
    since: MonoTime,
}

/// Wakes the watchdog when a mesh thread ends, however it ends.
struct Wake(Thread);

impl Drop for Wake {
    fn drop(&mut self) {
        self.0.unpark();
    }
}

impl Watchdog {
    /// Starts the watchdog thread, which starts the first life.
    pub(super) fn start(self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name("covey-watchdog".into()).spawn(move || self.watch())?;
        shared.watchdog.get_or_init(|| thread.thread().clone());
        Ok(())
    }

    fn watch(self) {
        let look_every = (self.config.stall_after / 8).clamp(Duration::from_millis(5), Duration::from_millis(100));
        let mut running = self.begin(self.shared.current.load_full());
        let mut stuck: Vec<JoinHandle<Exit>> = Vec::new();
        let mut backoff_ms = BACKOFF_MS_MIN;
        let mut begin_at = MonoTime::default();
        let mut stop_by = None;
        loop {
            thread::park_timeout(look_every);
            let now = self.shared.ground.mono();
            stuck.retain(|thread| !thread.is_finished());
            if let Some(ended) = running.take_if(|life| life.thread.is_finished() || self.has_stalled(life, now)) {
                if now.since_ms(ended.since) >= GOOD_LIFE_MS {
                    backoff_ms = BACKOFF_MS_MIN;
                }
                begin_at = now.plus_ms(self.bury(ended, &mut stuck, backoff_ms));
                backoff_ms = (backoff_ms * 2).min(BACKOFF_MS_MAX);
            }
            if self.shared.ending() == Ending::Stop {
                let stop_by = *stop_by.get_or_insert(now.plus_ms(END_WAIT_MS));
                if let Some(life) = running.take_if(|_| now >= stop_by) {
                    warn!("the mesh thread does not answer; leaving it behind");
                    life.state.supersede();
                }
            }
            if running.is_none() && self.shared.ending() != Ending::No {
                // Whoever waits may want the port next.
                let shared = Arc::clone(&self.shared);
                drop(self);
                shared.set_ended();
                return;
            }
            if running.is_none() && now >= begin_at && stuck.len() < STUCK_MAX {
                running = self.begin_next();
                begin_at = now.plus_ms(backoff_ms);
            }
        }
    }

    fn has_stalled(&self, life: &Running, now: MonoTime) -> bool {
        life.state.silent_for(now) >= self.config.stall_after
    }

    fn begin_next(&self) -> Option<Running> {
        let (name, now) = (self.config.node.name.as_str(), self.shared.ground.mono());
        let state = Arc::new(LifeState::new(random_life(&*self.shared.ground), name, now));
        self.shared.current.store(Arc::clone(&state));
        self.begin(state)
    }

    fn begin(&self, state: Arc<LifeState>) -> Option<Running> {
        let setup = Setup {
            config: Arc::clone(&self.config),
            base: self.base.clone(),
            shared: Arc::clone(&self.shared),
            state: Arc::clone(&state),
        };
        let wake = Wake(thread::current());
        let thread = thread::Builder::new().name("covey-mesh".into()).spawn(move || {
            let _wake = wake;
            live(&setup)
        });
        match thread {
            Ok(thread) => Some(Running { state, thread, since: self.shared.ground.mono() }),
            Err(error) => {
                self.shared.counters.restarts_failed.add(1);
                error!(%error, "cannot start the mesh thread; trying again");
                None
            }
        }
    }

    /// Takes leave of a life that ended or stalled. Returns how long to wait before the next, in milliseconds.
    fn bury(&self, life: Running, stuck: &mut Vec<JoinHandle<Exit>>, backoff_ms: u64) -> u64 {
        life.state.supersede();
        let counters = &self.shared.counters;
        let id = life.state.life;
        if !life.thread.is_finished() {
            counters.restarts_stalled.add(1);
            error!(life = %id, stall_ms = self.config.stall_after.as_millis(), "the mesh thread stalled; starting a new life");
            stuck.push(life.thread);
            return backoff_ms;
        }
        match life.thread.join() {
            Ok(Exit::Ended | Exit::Superseded) => 0,
            Ok(Exit::Reborn(why)) => {
                counters.restarts_reborn.add(1);
                info!(life = %id, ?why, "this life is over; starting a new one");
                if backoff_ms == BACKOFF_MS_MIN { 0 } else { backoff_ms }
            }
            Ok(Exit::Failed(why)) => {
                counters.restarts_failed.add(1);
                error!(life = %id, why, "the mesh failed; starting a new life");
                backoff_ms
            }
            Err(panic) => {
                counters.restarts_panicked.add(1);
                error!(life = %id, panic = panic_text(&*panic), "the mesh thread panicked; starting a new life");
                backoff_ms
            }
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text")
}
