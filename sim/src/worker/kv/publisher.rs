//! The sockets of an engine: PUB for batches, ROUTER for replays, one task for both, as in vLLM: while a replay is sent,
//! nothing is published.
//!
//! Not here: what goes wrong (`line`), how it is written (`wire`).

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use zeromq::{PubSocket, RouterSocket, Socket, SocketRecv, SocketSend, ZmqMessage};

use super::fault::Fault;
use super::line::{Line, Message, Out};
use super::replay::Replay;
use super::wire::Head;
use crate::engine::KvEvent;

/// How long a reader of a replay may keep the publisher waiting for one message.
const REPLAY_SEND_PATIENCE: Duration = Duration::from_secs(1);
/// How long to try for the addresses that the former life had.
const REBIND_PATIENCE: Duration = Duration::from_secs(5);
const REBIND_EVERY: Duration = Duration::from_millis(20);

/// What the publisher is told, in the order in which it happened.
#[derive(Debug)]
pub(in crate::worker) enum Order {
    /// The engine made a batch.
    Batch {
        /// Its number.
        seq: u64,
        /// When, in seconds of Unix time by the engine's clock.
        ts: f64,
        /// What happened.
        events: Vec<KvEvent>,
    },
    /// Something goes wrong with the stream.
    Fault(Fault),
    /// A new life begins.
    Restart,
}

/// What a publisher is set to.
#[derive(Clone, Debug)]
pub(super) struct PublisherConfig {
    pub(super) head: Head,
    pub(super) topic: Bytes,
    pub(super) delay_us: u64,
    pub(super) replay_steps: usize,
}

/// Bound sockets.
pub(in crate::worker) struct Publisher {
    config: PublisherConfig,
    /// Where batches are published, with the port that was taken.
    pub(in crate::worker) events: String,
    /// Where replays are asked for.
    pub(in crate::worker) replay: Option<String>,
    sockets: Sockets,
}

struct Sockets {
    publish: PubSocket,
    router: Option<RouterSocket>,
}

impl Publisher {
    /// Binds both addresses.
    ///
    /// # Errors
    /// When one is no address or is taken, in words for a terminal.
    pub(super) async fn bind(config: PublisherConfig, events: &str, replay: Option<&str>) -> Result<Self, String> {
        let mut publish = PubSocket::new();
        let events = bind(&mut publish, events).await?;
        let mut sockets = Sockets { publish, router: None };
        let mut bound = None;
        if let Some(replay) = replay {
            let mut router = RouterSocket::new();
            bound = Some(bind(&mut router, replay).await?);
            sockets.router = Some(router);
        }
        Ok(Self { config, events, replay: bound, sockets })
    }

    /// Publishes for ever; ends when nobody can give orders any more, or the addresses are gone after a restart.
    pub(in crate::worker) async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) -> Result<(), String> {
        loop {
            let life = Life::new(&self.config);
            if !life.run(&mut self.sockets, &mut orders).await {
                return Ok(());
            }
            self = self.rebind().await?;
        }
    }

    /// The same addresses with new sockets. Whoever was connected has to connect again.
    async fn rebind(self) -> Result<Self, String> {
        let Self { config, events, replay, sockets } = self;
        let _ = sockets.publish.close().await;
        if let Some(router) = sockets.router {
            let _ = router.close().await;
        }
        let deadline = Instant::now() + REBIND_PATIENCE;
        loop {
            match Self::bind(config.clone(), &events, replay.as_deref()).await {
                Ok(bound) => return Ok(bound),
                Err(why) if Instant::now() > deadline => return Err(why),
                Err(_) => sleep(REBIND_EVERY).await,
            }
        }
    }
}

/// Binds a socket; gives the address with the port that was taken.
async fn bind(socket: &mut impl Socket, address: &str) -> Result<String, String> {
    let bound = socket.bind(address).await;
    Ok(bound.map_err(|why| format!("cannot bind {address}: {why}"))?.to_string())
}

/// The stream of one life.
struct Life {
    config: PublisherConfig,
    began: Instant,
    line: Line,
    replay: Replay,
}

/// What comes next.
enum Next {
    Order(Option<Order>),
    Ask(ZmqMessage),
    Due,
}

impl Life {
    fn new(config: &PublisherConfig) -> Self {
        let (line, replay) = (Line::new(config.delay_us), Replay::new(config.replay_steps));
        Self { config: config.clone(), began: Instant::now(), line, replay }
    }

    /// Runs until a restart (`true`) or until nobody can give orders.
    async fn run(mut self, sockets: &mut Sockets, orders: &mut mpsc::UnboundedReceiver<Order>) -> bool {
        loop {
            match self.next(sockets, orders).await {
                Next::Order(None) => return false,
                Next::Order(Some(Order::Restart)) => return true,
                Next::Order(Some(Order::Fault(fault))) => {
                    self.line.fault(self.now_us(), &fault);
                    self.replay.fault(&fault);
                }
                Next::Order(Some(Order::Batch { seq, ts, events })) => {
                    let payload = self.config.head.encode(ts, &events).into();
                    self.line.push(self.now_us(), Message { seq, payload });
                }
                Next::Ask(ask) => self.answer(sockets, ask).await,
                Next::Due => {}
            }
            self.publish(sockets).await;
        }
    }

    async fn next(&self, sockets: &mut Sockets, orders: &mut mpsc::UnboundedReceiver<Order>) -> Next {
        let deadline = self.line.next_deadline().map(|us| self.began + Duration::from_micros(us));
        let due = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let ask = async {
            match &mut sockets.router {
                Some(router) => match router.recv().await {
                    Ok(ask) => ask,
                    Err(_) => std::future::pending().await,
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            order = orders.recv() => Next::Order(order),
            () = due => Next::Due,
            ask = ask => Next::Ask(ask),
        }
    }

    async fn publish(&mut self, sockets: &mut Sockets) {
        while let Some(out) = self.line.poll(self.now_us()) {
            match out {
                Out::Keep(message) => self.replay.keep(message),
                Out::Send(message) => {
                    let seq = Bytes::copy_from_slice(&message.seq.to_be_bytes());
                    // A subscriber that went away is the socket's business, and one that is slow loses batches.
                    let _ = sockets.publish.send(frames(vec![self.config.topic.clone(), seq, message.payload])).await;
                }
            }
        }
    }

    /// Answers who asks in the one form that engines take, `[who, "", 8 bytes]`; others get nothing.
    async fn answer(&mut self, sockets: &mut Sockets, ask: ZmqMessage) {
        let ask = ask.into_vec();
        let (Some(router), [who, empty, start]) = (&mut sockets.router, &ask[..]) else { return };
        let Ok(start) = <[u8; 8]>::try_from(&start[..]) else { return };
        if !empty.is_empty() {
            return;
        }
        for answer in self.replay.answer(u64::from_be_bytes(start), self.config.head.wire, &self.config.topic) {
            let message = frames(std::iter::once(who.clone()).chain(answer).collect());
            let Ok(Ok(())) = timeout(REPLAY_SEND_PATIENCE, router.send(message)).await else { return };
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

fn frames(frames: Vec<Bytes>) -> ZmqMessage {
    ZmqMessage::try_from(frames).expect("every message here has a frame")
}
