//! One connection from handshake to end: who is there, hello, the streams, the membership tunnel.
//!
//! Not here: dialling and accepting (`dial`), what frames mean (`node`). A peer counts as up only after its hello: with
//! TLS 1.3 a dialler is "connected" before its own certificate has been looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use covey_crdt::id::LifeId;
use quinn::{Connection, ConnectionError, RecvStream, SendStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{info, warn};

use super::context::{Context, Event, LinkId};
use super::framing::{FrameError, Hello, class_byte, prefix, read_class, read_frame};
use super::identity::Identity;
use super::link::{Link, Queues};
use super::metrics::LinkFailure;
use super::tls::{peer_identity, speaks};
use super::transport::{CloseCode, HANDSHAKE_TIMEOUT, canonical, failure};
use crate::output::Class;

/// Why nothing came of a connection, and who was there if that came out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) why: LinkFailure,
    pub(super) life: Option<LifeId>,
}

/// A connection on which both sides have said hello.
struct Greeted {
    peer: Identity,
    hello: Hello,
    control_out: SendStream,
    control_in: RecvStream,
}

/// Brings a connection up: identifies the peer, exchanges hellos, hands the link to the loop. Returns the peer's life
/// once that is done; the link then lives on its own task. `dial` is this side's number when it dialled.
pub(super) async fn establish(
    context: &Arc<Context>,
    connection: Connection,
    dial: Option<u64>,
) -> Result<LifeId, Refused> {
    let peer = identify(context, &connection).await?;
    let life = peer.life;
    let refused = |why| Refused { why, life: Some(life) };
    if dial.is_some() && context.plan().has_better_than_own_dial(life) {
        connection.close(CloseCode::Duplicate.code(), b"");
        return Err(refused(LinkFailure::Duplicate));
    }
    let greeted = match timeout(HANDSHAKE_TIMEOUT, greet(context, &connection, peer, dial)).await {
        Ok(greeted) => greeted.map_err(refused)?,
        Err(_) => {
            connection.close(CloseCode::Protocol.code(), b"no hello");
            return Err(refused(LinkFailure::TimedOut));
        }
    };
    let (id, queues) = (context.next_link(), Arc::new(Queues::new()));
    let (verdict, kept) = oneshot::channel();
    let link = Link {
        id,
        peer: greeted.peer.clone(),
        dialer: if dial.is_some() { context.me.life } else { life },
        dial: dial.unwrap_or(greeted.hello.dial),
        advertised: canonical(greeted.hello.advertised),
        connection: connection.clone(),
        queues: Arc::clone(&queues),
        since: context.now(),
        task: context.spawn(serve(Arc::clone(context), id, connection, greeted, queues, dial.is_some(), kept)),
    };
    let link = Box::new(link);
    context.events.send(Event::Established { link, verdict }).await.map_err(|_| refused(LinkFailure::Closed))?;
    Ok(life)
}

/// Who is there, and whether the two can talk at all.
async fn identify(context: &Context, connection: &Connection) -> Result<Identity, Refused> {
    let address = canonical(connection.remote_address());
    let Some(peer) = peer_identity(connection) else {
        connection.close(CloseCode::Protocol.code(), b"the certificate names no gateway");
        return Err(Refused { why: LinkFailure::Protocol, life: None });
    };
    if peer.life == context.me.life {
        connection.close(CloseCode::OwnAddress.code(), b"");
        return Err(Refused { why: LinkFailure::OwnAddress, life: Some(peer.life) });
    }
    if speaks(connection, &context.protocol) {
        return Ok(peer);
    }
    // The dialler waits for the other side's word, so that at least one log says both names.
    let theirs = if connection.side().is_client() {
        timeout(Duration::from_secs(1), connection.closed()).await.ok().and_then(|error| spoken(&error))
    } else {
        None
    };
    connection.close(CloseCode::Mismatch.code(), context.protocol.as_bytes());
    if context.throttle.allows(address, LinkFailure::Mismatch, context.now()) {
        warn!(
            peer = %peer.name, %address, ours = context.protocol, theirs = theirs.as_deref().unwrap_or("unknown"),
            "peer shares the mesh's secret but uses another hash key or wire version; \
             give every gateway the same hash key file, or finish the upgrade"
        );
    }
    Err(Refused { why: LinkFailure::Mismatch, life: Some(peer.life) })
}

/// The protocol name in a mismatch's reason.
fn spoken(error: &ConnectionError) -> Option<String> {
    if let ConnectionError::ApplicationClosed(close) = error
        && close.error_code == CloseCode::Mismatch.code()
        && close.reason.len() <= 64
    {
        return Some(String::from_utf8_lossy(&close.reason).escape_debug().to_string());
    }
    None
}

async fn greet(
    context: &Context,
    connection: &Connection,
    peer: Identity,
    dial: Option<u64>,
) -> Result<Greeted, LinkFailure> {
    let hello = Hello { life: context.me.life, dial: dial.unwrap_or(0), advertised: context.advertised }.encode();
    let gone = |_| connection.close_reason().map_or(LinkFailure::Closed, |error| failure(&error));
    let mut control_out = connection.open_uni().await.map_err(|error| failure(&error))?;
    let _ = control_out.set_priority(priority(Class::Control));
    let mut first = vec![class_byte(Class::Control)];
    first.extend_from_slice(&prefix(&hello));
    first.extend_from_slice(&hello);
    control_out.write_all(&first).await.map_err(|_| gone(FrameError::Ended))?;
    // Streams arrive in the order they were opened, so the first is the control stream.
    let mut control_in = connection.accept_uni().await.map_err(|error| failure(&error))?;
    let class = read_class(&mut control_in).await.map_err(gone)?;
    let hello = match class {
        Some(Class::Control) => Hello::read(&mut control_in).await,
        Some(Class::Push | Class::Repair) | None => Ok(None),
    };
    match hello {
        Ok(Some(hello)) if hello.life == peer.life => Ok(Greeted { peer, hello, control_out, control_in }),
        Ok(_) | Err(FrameError::TooLong { .. }) => {
            breach(context, connection, "a hello that is none");
            Err(LinkFailure::Protocol)
        }
        Err(error @ (FrameError::Ended | FrameError::Cut | FrameError::Finished)) => Err(gone(error)),
    }
}

/// The peer broke the framing: close, count, one log line.
fn breach(context: &Context, connection: &Connection, what: &str) {
    let address = canonical(connection.remote_address());
    context.counters().frames_malformed.add(1);
    if context.throttle.allows(address, LinkFailure::Protocol, context.now()) {
        warn!(%address, what, "peer broke the protocol; closing the link");
    }
    connection.close(CloseCode::Protocol.code(), what.as_bytes());
}

/// Repair yields to everything, membership and control to nothing: they are small.
const fn priority(class: Class) -> i32 {
    match class {
        Class::Control => 2,
        Class::Push => 1,
        Class::Repair => -1,
    }
}

/// Serves a connection until it ends, once the loop has said that it is kept.
async fn serve(
    context: Arc<Context>,
    id: LinkId,
    connection: Connection,
    greeted: Greeted,
    queues: Arc<Queues>,
    dialled: bool,
    kept: oneshot::Receiver<bool>,
) {
    if kept.await != Ok(true) {
        return;
    }
    let streams = Streams { context, id, connection, queues, life: greeted.peer.life, taken: AtomicU8::new(0) };
    let streams = Arc::new(streams);
    let mut tasks = JoinSet::new();
    tasks.spawn(Arc::clone(&streams).write(Class::Control, Some(greeted.control_out)));
    tasks.spawn(Arc::clone(&streams).write(Class::Push, None));
    tasks.spawn(Arc::clone(&streams).write(Class::Repair, None));
    streams.take(Class::Control);
    tasks.spawn(Arc::clone(&streams).read(Class::Control, greeted.control_in));
    let (pumped, logical) = (&streams, canonical(greeted.hello.advertised));
    let tunnelled =
        pumped.context.shared.ground.tunnel(Arc::clone(&pumped.context), pumped.connection.clone(), dialled, logical);
    // Nobody ends it before the connection.
    tasks.spawn(async move {
        tunnelled.await.map_err(|error| if error == FrameError::Finished { FrameError::Cut } else { error })
    });
    let error = streams.run(&mut tasks).await;
    let refused = matches!(&error, ConnectionError::ApplicationClosed(close)
        if close.error_code == CloseCode::Refused.code() || close.error_code == CloseCode::Leaving.code());
    let closed = Event::Closed { link: id, life: streams.life, why: failure(&error), refused };
    // The loop is gone when this fails: then nobody needs to know.
    let _ = streams.context.events.send(closed).await;
}

/// The streams of one connection.
struct Streams {
    context: Arc<Context>,
    id: LinkId,
    connection: Connection,
    queues: Arc<Queues>,
    life: LifeId,
    /// Which classes have an incoming stream, one bit each.
    taken: AtomicU8,
}

impl Streams {
    /// Takes in streams and watches the tasks until the connection ends.
    async fn run(self: &Arc<Self>, tasks: &mut JoinSet<Result<(), FrameError>>) -> ConnectionError {
        loop {
            tokio::select! {
                biased;
                stream = self.connection.accept_uni() => match stream {
                    Ok(stream) => { tasks.spawn(Arc::clone(self).read_new(stream)); }
                    Err(error) => return error,
                },
                Some(ended) = tasks.join_next() => match ended {
                    Ok(Ok(()) | Err(FrameError::Ended | FrameError::Finished)) => {}
                    // A class whose stream is gone would be silent for as long as the link lasts: links are made anew.
                    Ok(Err(error @ (FrameError::TooLong { .. } | FrameError::Cut))) => {
                        breach(&self.context, &self.connection, &error.to_string());
                    }
                    Err(error) => {
                        info!(%error, "a stream task ended badly; closing the link");
                        self.connection.close(CloseCode::Protocol.code(), b"");
                    }
                },
            }
        }
    }

    /// Whether the class had no incoming stream so far; it has one now.
    fn take(&self, class: Class) -> bool {
        let bit = 1 << class as u8;
        self.taken.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    async fn read_new(self: Arc<Self>, mut stream: RecvStream) -> Result<(), FrameError> {
        match read_class(&mut stream).await? {
            Some(class) if self.take(class) => self.read(class, stream).await,
            Some(_) | None => {
                breach(&self.context, &self.connection, "a stream of no class, or a second one of a class");
                Err(FrameError::Ended)
            }
        }
    }

    async fn read(self: Arc<Self>, class: Class, mut stream: RecvStream) -> Result<(), FrameError> {
        let counters = self.context.counters();
        loop {
            let bytes = read_frame(&mut stream).await?;
            counters.frames_in.add(class, 1);
            counters.bytes_in.add(class, bytes.len() as u64);
            let frame = Event::Frame { link: self.id, from: self.life, bytes };
            self.context.events.send(frame).await.map_err(|_| FrameError::Ended)?;
        }
    }

    async fn write(self: Arc<Self>, class: Class, stream: Option<SendStream>) -> Result<(), FrameError> {
        let mut stream = stream;
        let (counters, queue) = (self.context.counters(), self.queues.of(class));
        loop {
            let popped = queue.pop().await;
            if popped.frames.is_empty() {
                break;
            }
            let stream = match &mut stream {
                Some(stream) => stream,
                None => stream.insert(self.open(class).await?),
            };
            counters.frames_out.add(class, popped.frames.len() as u64);
            counters.bytes_out.add(class, popped.frames.iter().map(|frame| frame.len() as u64).sum());
            let mut chunks: Vec<_> = popped.frames.into_iter().flat_map(|frame| [prefix(&frame), frame]).collect();
            stream.write_all_chunks(&mut chunks).await?;
            if popped.writable && class == Class::Push {
                let writable = Event::Writable { link: self.id, to: self.life };
                self.context.events.send(writable).await.map_err(|_| FrameError::Ended)?;
            }
        }
        if let Some(mut stream) = stream {
            let _ = stream.finish();
            let _ = stream.stopped().await;
        }
        queue.set_drained();
        Ok(())
    }

    async fn open(&self, class: Class) -> Result<SendStream, FrameError> {
        let mut stream = self.connection.open_uni().await?;
        let _ = stream.set_priority(priority(class));
        stream.write_all(&[class_byte(class)]).await?;
        Ok(stream)
    }
}
