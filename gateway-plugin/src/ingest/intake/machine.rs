//! The machine: its state, and what each input does.
//!
//! Not here: fetching what is missing (`fill`), generations, hand-off, what can be said of the state (`live`).

use std::collections::{BTreeMap, VecDeque};

use covey_crdt::id::Incarnation;
use covey_crdt::plant::{Plant, planted};
use covey_crdt::stored::{Generation, StoredKey, StoredOp};
use covey_mesh::input::MonoTime;

use super::super::cache::{EngineCache, LaneNet, split};
use super::super::event::RefuseEvent;
use super::batch::{Arrival, Batch, Numbered, read_frames};
use super::buffer::{Buffer, Prints};
use super::fill::{Asking, Waiting};
use super::{FeedView, Input, IntakeConfig, IntakeState, Output, Phase, ReplayEnd, Why};

/// What was counted since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages of the subscription.
    pub messages: u64,
    /// Payload bytes of subscription and replays.
    pub bytes: u64,
    /// Batches applied.
    pub batches: u64,
    /// Events applied.
    pub events: u64,
    /// Events that could not be read, by reason.
    pub refused_events: BTreeMap<RefuseEvent, u64>,
    /// Messages that are no batch.
    pub refused_messages: u64,
    /// Batches of another data-parallel rank: their events are refused.
    pub refused_ranks: u64,
    /// Batches that came a second time.
    pub duplicates: u64,
    /// Times that batches were found missing.
    pub gaps: u64,
    /// Replays asked for.
    pub replays: u64,
    /// Replays that ended without their marker, or not at all.
    pub replays_cut: u64,
    /// Replays given up.
    pub replays_failed: u64,
    /// Hand-offs asked for.
    pub hand_offs_asked: u64,
    /// Hand-offs taken.
    pub hand_offs: u64,
    /// Hand-offs refused.
    pub hand_offs_refused: u64,
    /// Generations opened.
    pub generations: u64,
    /// Restarts of the engine that its numbers showed.
    pub restarts: u64,
    /// Connections after the first.
    pub reconnects: u64,
}

/// One worker's feed.
#[derive(Debug)]
pub struct Intake {
    pub(super) config: IntakeConfig,
    /// What ops are made under; `None` until it is known.
    pub(super) incarnation: Option<Incarnation>,
    pub(super) generation: Generation,
    /// Whether the generation has begun: there is a state at a position.
    pub(super) is_open: bool,
    /// Whether the connection is proven to be to the engine life the state is of.
    pub(super) is_verified: bool,
    /// Whether another gateway may have the state of this incarnation.
    pub(super) asks_gateways: bool,
    /// The rank of the stream.
    pub(super) rank: Option<u32>,
    pub(super) cache: EngineCache,
    /// The next number.
    pub(super) position: u64,
    pub(super) prints: Prints,
    pub(super) buffer: Buffer,
    pub(super) asking: Option<Asking>,
    pub(super) asks: u64,
    /// The engine has answered a replay with a batch.
    pub(super) has_replayed: bool,
    /// The last batch was heard on the present connection.
    pub(super) is_heard: bool,
    /// The engine answers replays and keeps nothing for them.
    pub(super) is_mute: bool,
    /// Replays were given up: what comes is taken as it comes.
    pub(super) is_alone: bool,
    pub(super) waiting: Option<Waiting>,
    pub(super) feed: Option<FeedView>,
    pub(super) is_connected: bool,
    pub(super) lost_at: Option<MonoTime>,
    pub(super) proven_at: MonoTime,
    pub(super) check_at: MonoTime,
    /// A number came that is too old to be judged: the check must not be put off.
    pub(super) is_suspect: bool,
    /// History was given up because replays failed, not because the engine lacks it: it is asked for once they work.
    pub(super) owes_past: bool,
    pub(super) batch_ts: Option<(f64, MonoTime)>,
    pub(super) state: IntakeState,
    pub(super) counters: Counters,
    pub(super) outputs: VecDeque<Output>,
}

impl Intake {
    /// Knows nothing yet; it begins with an [`Input::Incarnation`] and an [`Input::Connected`].
    #[must_use]
    pub fn new(config: IntakeConfig) -> Self {
        let cache = EngineCache::new(config.model.clone(), config.key, config.rules);
        let rank = config.rank;
        Self {
            config,
            incarnation: None,
            generation: Generation::default(),
            is_open: false,
            is_verified: false,
            asks_gateways: true,
            rank,
            cache,
            position: 0,
            prints: Prints::default(),
            buffer: Buffer::default(),
            asking: None,
            asks: 0,
            has_replayed: false,
            is_heard: false,
            is_mute: false,
            is_alone: false,
            waiting: None,
            feed: None,
            is_connected: false,
            lost_at: None,
            proven_at: MonoTime::default(),
            check_at: MonoTime::default(),
            is_suspect: false,
            owes_past: false,
            batch_ts: None,
            state: IntakeState { phase: Phase::Stale, since: MonoTime::default() },
            counters: Counters::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Takes an input.
    pub fn handle(&mut self, now: MonoTime, input: Input) {
        match input {
            Input::Connected => self.on_connected(now),
            Input::Lost => self.on_lost(now),
            Input::Message(arrival) => self.on_message(now, arrival),
            Input::Replayed { ask, arrival } => self.on_replayed(now, ask, arrival),
            Input::ReplayEnded { ask, how } => self.on_replay_ended(now, ask, how),
            Input::Incarnation(incarnation) => self.on_incarnation(now, incarnation),
            Input::Feed(feed) => self.on_feed(now, feed),
            Input::Restart if self.is_open => self.open_next(Why::Stranded),
            Input::Restart => {}
            Input::HandedOff(bytes) => self.on_handed_off(now, bytes.as_deref()),
            Input::Elapsed => {}
        }
        self.on_time(now);
        self.tell_state(now);
    }

    /// The next output, oldest first.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// What was counted.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The engine's cache, as far as it is known.
    #[must_use]
    pub const fn cache(&self) -> &EngineCache {
        &self.cache
    }

    /// What the state can be said to be.
    #[must_use]
    pub const fn state(&self) -> IntakeState {
        self.state
    }

    /// The key of the state; `None` while there is none.
    #[must_use]
    pub fn key(&self) -> Option<StoredKey> {
        self.is_open.then(|| self.key_of(0)).flatten()
    }

    fn key_of(&self, part: u32) -> Option<StoredKey> {
        let incarnation = self.incarnation.clone()?;
        Some(StoredKey { incarnation, generation: self.generation, position: self.position, part })
    }

    fn on_connected(&mut self, now: MonoTime) {
        if self.lost_at.is_some() {
            // It may be another life, which has no name yet.
            self.counters.reconnects += 1;
            self.outputs.push_back(Output::Probe);
        }
        (self.is_connected, self.lost_at) = (true, None);
        (self.proven_at, self.is_alone) = (now, false);
        (self.is_verified, self.is_heard) = (false, false);
        if self.is_open { self.verify(now) } else { self.begin(now) }
    }

    fn on_lost(&mut self, now: MonoTime) {
        (self.is_connected, self.is_verified) = (false, false);
        self.lost_at = self.lost_at.or(Some(now));
        self.asking = None;
        // What comes next may be of another life, and must not be mixed with this; all of it can be asked for.
        self.buffer.clear();
    }

    fn on_message(&mut self, now: MonoTime, arrival: Arrival) {
        if !self.is_connected {
            return;
        }
        self.counters.messages += 1;
        let Some(batch) = self.read(arrival) else { return };
        self.proven_at = now;
        self.batch_ts = Some((batch.ts, now));
        self.quiet_from(now);
        if self.is_open && self.is_verified && self.waiting.is_none() {
            self.is_heard |= batch.seq == self.position;
            self.arrive(now, batch, true);
        } else {
            self.keep(now, batch);
            self.begin_alone(now);
        }
    }

    /// The batch of an arrival, counted; `None` for a message that is none.
    pub(super) fn read(&mut self, arrival: Arrival) -> Option<Batch> {
        let batch = match arrival {
            Arrival::Batch(batch) => *batch,
            Arrival::Frames(frames) => match read_frames(&frames) {
                Ok(Numbered::Batch(seq, payload)) => {
                    let (batch, decoded) = Batch::read(seq, &payload);
                    for (why, count) in decoded.refused {
                        *self.counters.refused_events.entry(why).or_default() += count;
                    }
                    batch
                }
                Ok(Numbered::End) | Err(_) => {
                    self.counters.refused_messages += 1;
                    return None;
                }
            },
        };
        self.counters.bytes += batch.bytes as u64;
        Some(batch)
    }

    /// Sequence first: a batch of a state that is open and proven to be of this engine life.
    pub(super) fn arrive(&mut self, now: MonoTime, batch: Batch, is_live: bool) {
        if batch.seq > self.position {
            self.keep(now, batch);
            self.fill(now);
        } else if batch.seq == self.position {
            self.apply(batch);
            self.drain(now);
        } else {
            match self.prints.of(batch.seq) {
                Some(print) if print == batch.print => self.counters.duplicates += u64::from(is_live),
                Some(_) => self.restart(now, Some(batch)),
                // Too old to tell. It is late, for a connection is to one life of the engine; a check will show.
                None if self.has_replay() => self.suspect(now),
                None => self.restart(now, Some(batch)),
            }
        }
    }

    pub(super) fn keep(&mut self, now: MonoTime, batch: Batch) {
        if let (Some(other), true) = (self.buffer.keep(batch), self.is_open) {
            self.restart(now, Some(other));
        }
    }

    /// Applies what is kept and follows.
    pub(super) fn drain(&mut self, now: MonoTime) {
        while let Some(batch) = self.buffer.take_to(self.position) {
            if batch.seq == self.position {
                self.apply(batch);
            } else if self.prints.of(batch.seq).is_some_and(|print| print != batch.print) {
                return self.restart(now, Some(batch));
            }
        }
        self.fill(now);
    }

    fn apply(&mut self, batch: Batch) {
        self.rank = self.rank.or(batch.rank);
        self.position = batch.seq + 1;
        self.prints.push(batch.seq, batch.print);
        self.counters.batches += 1;
        let is_foreign = batch.rank.is_some() && batch.rank != self.rank;
        let nets = if is_foreign { Vec::new() } else { self.cache.apply(&batch.events) };
        if is_foreign {
            self.counters.refused_ranks += 1;
        } else {
            self.counters.events += batch.events.len() as u64;
        }
        if is_foreign || batch.is_damaged {
            self.cache.miss();
        }
        self.publish(&nets, false);
    }

    /// The ops that lead to the present state.
    pub(super) fn publish(&mut self, nets: &[LaneNet], begins: bool) {
        let parts = split(nets, self.cache.keyspace());
        let last = parts.len() - 1;
        for (nth, lanes) in parts.into_iter().enumerate() {
            let part = u32::try_from(nth).expect("a cache is bounded");
            let Some(key) = self.key_of(part) else { return };
            self.outputs.push_back(Output::Publish(StoredOp {
                worker: self.config.worker.clone(),
                key,
                begins: begins && nth == 0,
                is_last: nth == last,
                is_complete: self.cache.is_whole(),
                lanes,
            }));
        }
    }

    fn on_incarnation(&mut self, now: MonoTime, incarnation: Incarnation) {
        let Some(old) = &self.incarnation else {
            self.incarnation = Some(incarnation);
            return self.begin(now);
        };
        if incarnation <= *old {
            return;
        }
        let is_same_engine = incarnation.token == old.token;
        self.incarnation = Some(incarnation);
        if is_same_engine {
            if self.is_open && !planted(Plant::RaisedContinues) {
                self.open_next(Why::Raised);
            }
            return;
        }
        self.forget();
        (self.generation, self.asks_gateways) = (Generation::default(), false);
        (self.has_replayed, self.is_mute, self.is_heard) = (false, false, false);
        (self.is_connected, self.lost_at) = (false, Some(now));
        self.outputs.push_back(Output::Reconnect);
    }

    /// Nothing is known of the engine any more.
    pub(super) fn forget(&mut self) {
        self.cache = EngineCache::new(self.config.model.clone(), self.config.key, self.config.rules);
        self.rank = self.config.rank;
        (self.is_open, self.is_verified, self.is_alone, self.position) = (false, false, false, 0);
        self.prints.clear();
        self.buffer.clear();
        (self.asking, self.waiting) = (None, None);
    }

    fn on_replayed(&mut self, now: MonoTime, ask: u64, arrival: Arrival) {
        if self.asking.as_ref().is_none_or(|asking| asking.ask != ask) {
            return;
        }
        if let Arrival::Frames(frames) = &arrival
            && read_frames(frames) == Ok(Numbered::End)
        {
            return self.on_replay_ended(now, ask, ReplayEnd::Marked);
        }
        if let Some(batch) = self.read(arrival) {
            self.proven_at = now;
            self.has_replayed = true;
            self.replayed(now, batch);
        }
    }
}
