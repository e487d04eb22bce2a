//! Drives one [`Intake`] with real sockets and a real clock: a subscription that is made again whenever it breaks, a dealer
//! per replay, and nothing of its own to decide.
//!
//! Not here: what to ask and when (`intake`), who ingests whom (`covey-mesh`). One task per feed; a slow or hostile engine
//! holds up no other. A subscriber that does not keep up leaves the messages with the engine, which drops them; the gap shows
//! in their numbers.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use covey_crdt::id::{Incarnation, WorkerId};
use covey_crdt::stored::{StoredKey, StoredOp};
use covey_mesh::input::MonoTime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, sleep_until};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::cache::Counts;
use super::intake::{Arrival, Counters, FeedView, Input, Intake, IntakeConfig, IntakeState, Note, Output, ReplayEnd};
use super::zmtp::{Endpoint, SocketError, ZmtpSocket};

/// Commands of the host that wait at most; more are waited for.
const COMMANDS_MAX: usize = 64;
/// Messages of a replay that wait for the intake at most.
const REPLAYED_MAX: usize = 64;
/// How long until a connection is tried again, at first and at most; a fifth more or less.
const RECONNECT_MS_MIN: u64 = 100;
const RECONNECT_MS_MAX: u64 = 5_000;
/// How long a connection must stand for the next to be tried at once.
const STOOD_MS_MIN: u64 = 5_000;
/// How often the host is told how things are.
const REPORT_MS: u64 = 1_000;

/// Where an engine's events are.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where it publishes.
    pub events: Endpoint,
    /// Where it answers replays, if it does.
    pub replay: Option<Endpoint>,
    /// What its topics begin with; empty for all.
    pub topic: String,
}

/// How a feed is, for status and metrics.
#[derive(Clone, Debug)]
pub struct FeedReport {
    /// What can be said of the state.
    pub state: IntakeState,
    /// For how long that has been so, in milliseconds.
    pub state_ms: u64,
    /// Its key; `None` while there is none.
    pub key: Option<StoredKey>,
    /// Tokens in a block, once the engine has told.
    pub block_tokens: Option<u32>,
    /// How much later than it was made the last batch came, in milliseconds, where the clocks allow to say.
    pub lag_ms: Option<u64>,
    /// How long ago the engine last proved that it lives, in milliseconds.
    pub proven_ms: u64,
    /// What was counted.
    pub counters: Counters,
    /// What was counted of events.
    pub counts: Counts,
    /// Why there is no connection; `None` while there is one.
    pub trouble: Option<String>,
}

/// The host of a runner. Nothing here may wait.
pub trait Sink: Send + Sync + 'static {
    /// The feed went on: for the node.
    fn ingested(&self, op: StoredOp);
    /// An engine restart was seen: raise the floor of the worker's placements.
    fn reset(&self, worker: &WorkerId);
    /// Ask the worker for its token now.
    fn probe(&self, worker: &WorkerId);
    /// Ask the other ingester for its state and answer with [`RunnerHandle::handed_off`], at once when there is none.
    fn ask_hand_off(&self, worker: &WorkerId);
    /// Something an operator may want to know.
    fn note(&self, worker: &WorkerId, note: Note);
    /// How the feed is: when its state changes, and every second.
    fn report(&self, worker: &WorkerId, report: FeedReport);
}

enum Command {
    Input(Input),
    Export(oneshot::Sender<Option<Bytes>>),
}

/// A running feed. Dropping it stops the feed.
#[derive(Debug)]
pub struct RunnerHandle {
    commands: mpsc::Sender<Command>,
    task: JoinHandle<()>,
}

impl RunnerHandle {
    /// Starts a feed, on the present runtime. It begins once it is told an incarnation.
    #[must_use]
    pub fn start(config: IntakeConfig, source: Source, sink: Arc<dyn Sink>) -> Self {
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let task = tokio::spawn(Runner::new(config, source, sink).run(inbox));
        Self { commands, task }
    }

    async fn tell(&self, input: Input) {
        // The task ends with the handle only.
        let _ = self.commands.send(Command::Input(input)).await;
    }

    /// The replicated record's incarnation, at first and whenever it changes.
    pub async fn incarnation(&self, incarnation: Incarnation) {
        self.tell(Input::Incarnation(incarnation)).await;
    }

    /// How far the replica's feed is, at first and whenever it changes.
    pub async fn feed(&self, feed: Option<FeedView>) {
        self.tell(Input::Feed(feed)).await;
    }

    /// What was published last leads nowhere: open a generation.
    pub async fn restart(&self) {
        self.tell(Input::Restart).await;
    }

    /// The answer to [`Sink::ask_hand_off`].
    pub async fn handed_off(&self, state: Option<Bytes>) {
        self.tell(Input::HandedOff(state)).await;
    }

    /// The ingest state, for another gateway; `None` while there is none to hand off.
    pub async fn export(&self) -> Option<Bytes> {
        let (answer, asked) = oneshot::channel();
        self.commands.send(Command::Export(answer)).await.ok()?;
        asked.await.ok().flatten()
    }

    /// Ends the feed, and waits until it has ended.
    pub async fn stop(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for RunnerHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The subscription.
enum Link {
    Down(Attempt),
    Up(Box<ZmtpSocket>),
}

/// An attempt to subscribe, on a task of its own, so that nothing that happens meanwhile cuts it short.
struct Attempt(JoinHandle<Result<ZmtpSocket, SocketError>>);

impl Attempt {
    fn start(source: &Source, delay: Duration) -> Self {
        let source = source.clone();
        Self(tokio::spawn(async move {
            sleep(delay).await;
            ZmtpSocket::subscribe(&source.events, source.topic.as_bytes()).await
        }))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What happened next.
enum Happened {
    Command(Option<Command>),
    Connected(Result<ZmtpSocket, SocketError>),
    Heard(Result<Vec<Bytes>, SocketError>),
    Replay(u64, Answer),
    Time,
}

/// Part of the answer to a replay.
enum Answer {
    Message(Vec<Bytes>),
    Ended(ReplayEnd),
}

/// A replay's own task, ended when this is dropped.
struct Replay {
    ask: u64,
    answers: mpsc::Receiver<Answer>,
    task: JoinHandle<()>,
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Runner {
    worker: WorkerId,
    intake: Intake,
    source: Source,
    sink: Arc<dyn Sink>,
    started: Instant,
    link: Link,
    connected_at: Option<Instant>,
    failures: u32,
    trouble: Option<String>,
    replay: Option<Replay>,
    report_at: Instant,
}

impl Runner {
    fn new(config: IntakeConfig, source: Source, sink: Arc<dyn Sink>) -> Self {
        let started = Instant::now();
        let worker = config.worker.clone();
        let intake = Intake::new(IntakeConfig { has_replay: source.replay.is_some(), ..config });
        let link = Link::Down(Attempt::start(&source, Duration::ZERO));
        let (connected_at, replay, trouble) = (None, None, Some("not tried yet".to_owned()));
        Self {
            worker,
            intake,
            source,
            sink,
            started,
            link,
            connected_at,
            failures: 0,
            trouble,
            replay,
            report_at: started,
        }
    }

    async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        loop {
            match self.next(&mut inbox).await {
                Happened::Command(None) => return,
                Happened::Command(Some(Command::Input(input))) => self.handle(input),
                Happened::Command(Some(Command::Export(answer))) => {
                    // A host that gave up waiting is no error.
                    let _ = answer.send(self.intake.export().map(Bytes::from));
                }
                Happened::Connected(Ok(socket)) => {
                    self.link = Link::Up(Box::new(socket));
                    (self.connected_at, self.trouble) = (Some(Instant::now()), None);
                    self.handle(Input::Connected);
                }
                Happened::Connected(Err(why)) => self.back_off(&why),
                Happened::Heard(Ok(frames)) => self.handle(Input::Message(Arrival::Frames(frames))),
                Happened::Heard(Err(why)) => {
                    let stood =
                        self.connected_at.take().is_some_and(|at| at.elapsed().as_millis() >= STOOD_MS_MIN.into());
                    self.failures = if stood { 0 } else { self.failures };
                    self.back_off(&why);
                    self.handle(Input::Lost);
                }
                Happened::Replay(ask, Answer::Message(frames)) => {
                    self.handle(Input::Replayed { ask, arrival: Arrival::Frames(frames) });
                }
                Happened::Replay(ask, Answer::Ended(how)) => {
                    self.replay = None;
                    self.handle(Input::ReplayEnded { ask, how });
                }
                Happened::Time => self.handle(Input::Elapsed),
            }
            self.report();
        }
    }

    /// Waits for whatever happens first. Each branch can be cancelled without a loss.
    async fn next(&mut self, inbox: &mut mpsc::Receiver<Command>) -> Happened {
        let deadline = self.intake.next_deadline().map(|at| self.started + Duration::from_micros(at.us));
        let until = deadline.map_or(self.report_at, |at| at.min(self.report_at));
        let link = &mut self.link;
        let replay = &mut self.replay;
        let subscription = async {
            match link {
                Link::Down(attempt) => Happened::Connected((&mut attempt.0).await.unwrap_or(Err(SocketError::Closed))),
                Link::Up(socket) => Happened::Heard(socket.receive().await),
            }
        };
        let answer = async {
            match replay {
                Some(replay) => {
                    let answer = replay.answers.recv().await;
                    Happened::Replay(replay.ask, answer.unwrap_or(Answer::Ended(ReplayEnd::Cut)))
                }
                None => std::future::pending().await,
            }
        };
        first(inbox, subscription, answer, until).await
    }

    fn now(&self) -> MonoTime {
        MonoTime { us: u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX) }
    }

    fn handle(&mut self, input: Input) {
        let before = self.intake.state();
        self.intake.handle(self.now(), input);
        while let Some(output) = self.intake.poll_output() {
            match output {
                Output::Ask { ask, from } => {
                    self.replay = self.source.replay.clone().map(|at| Replay::start(at, ask, from))
                }
                Output::AskHandOff => self.sink.ask_hand_off(&self.worker),
                Output::Reconnect => {
                    (self.link, self.connected_at) = (Link::Down(Attempt::start(&self.source, Duration::ZERO)), None);
                    self.replay = None;
                }
                Output::Publish(op) => self.sink.ingested(op),
                Output::Reset => self.sink.reset(&self.worker),
                Output::Probe => self.sink.probe(&self.worker),
                Output::Note(note) => self.sink.note(&self.worker, note),
                Output::State(_) => {}
            }
        }
        if self.intake.state() != before {
            self.report_at = Instant::now();
        }
    }

    fn back_off(&mut self, why: &SocketError) {
        self.trouble = Some(format!("{}: {why}", self.source.events));
        let delay = (RECONNECT_MS_MIN << self.failures.min(10)).min(RECONNECT_MS_MAX);
        let seed = u64::from(self.failures) ^ self.now().us;
        let jitter = xxh3_64_with_seed(self.worker.name().as_bytes(), seed) % (2 * delay / 5 + 1);
        self.failures = self.failures.saturating_add(1);
        let delay = (delay - delay / 5 + jitter).clamp(RECONNECT_MS_MIN, RECONNECT_MS_MAX);
        self.link = Link::Down(Attempt::start(&self.source, Duration::from_millis(delay)));
    }

    fn report(&mut self) {
        if self.report_at > Instant::now() {
            return;
        }
        self.report_at = Instant::now() + Duration::from_millis(REPORT_MS);
        let now = self.now();
        let wall_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let state = self.intake.state();
        let report = FeedReport {
            state,
            state_ms: now.since_ms(state.since),
            key: self.intake.key(),
            block_tokens: self.intake.cache().block_tokens(),
            lag_ms: self.intake.lag_ms(now, wall_ms),
            proven_ms: self.intake.proven_ms(now),
            counters: self.intake.counters().clone(),
            counts: self.intake.cache().counts(),
            trouble: self.trouble.clone(),
        };
        self.sink.report(&self.worker, report);
    }
}

async fn first(
    inbox: &mut mpsc::Receiver<Command>,
    subscription: impl Future<Output = Happened>,
    answer: impl Future<Output = Happened>,
    until: Instant,
) -> Happened {
    tokio::select! {
        biased;
        command = inbox.recv() => Happened::Command(command),
        happened = answer => happened,
        happened = subscription => happened,
        () = sleep_until(until.into()) => Happened::Time,
    }
}

impl Replay {
    fn start(endpoint: Endpoint, ask: u64, from: u64) -> Self {
        let (sender, answers) = mpsc::channel(REPLAYED_MAX);
        Self { ask, answers, task: tokio::spawn(replay(endpoint, from, sender)) }
    }
}

/// One replay over a connection of its own: a dealer does not survive its router. It ends with the connection, with the
/// receiver, or when the intake asks for another.
async fn replay(endpoint: Endpoint, from: u64, answers: mpsc::Sender<Answer>) {
    let how = match ZmtpSocket::dealer(&endpoint).await {
        Err(_) => {
            // No faster than a connection would take.
            sleep(Duration::from_millis(RECONNECT_MS_MIN)).await;
            ReplayEnd::Refused
        }
        Ok(mut socket) => {
            let mut received = socket.send(&[b"", &from.to_be_bytes()]).await.map(|()| Vec::new());
            while let Ok(frames) = received {
                let is_end = frames.last().is_some_and(Bytes::is_empty);
                if !frames.is_empty() && answers.send(Answer::Message(frames)).await.is_err() {
                    return;
                }
                if is_end {
                    return;
                }
                received = socket.receive().await;
            }
            ReplayEnd::Cut
        }
    };
    let _ = answers.send(Answer::Ended(how)).await;
}

#[cfg(test)]
mod tests;
