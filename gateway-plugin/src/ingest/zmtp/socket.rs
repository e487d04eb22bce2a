//! The protocol over TCP: connect, shake hands within a deadline, send and receive. One read buffer of fixed size; a peer
//! that is silent, slow or hostile costs a connection no more than that and one message's bytes.
//!
//! Not here: reconnecting (`runner`). TCP keep-alive finds a peer that vanished without a word.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::codec::{self, Item, Reader, RefuseWire, SocketType};

/// Bytes of the read buffer.
const READ_BYTES: usize = 64 * 1024;
/// How long a connection may take, handshake not included.
const CONNECT: Duration = Duration::from_secs(3);
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// How long a peer may take to accept what we send.
const SEND: Duration = Duration::from_secs(3);
/// After so much silence the system asks whether the peer is there, so often, so many times.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(2);
const KEEP_ALIVE_PROBES: u32 = 3;

/// Where an engine publishes: `tcp://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    authority: String,
}

/// A text is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointError {
    text: String,
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no endpoint: write tcp://HOST:PORT, as in tcp://10.0.0.7:5557", self.text)
    }
}

impl std::error::Error for EndpointError {}

impl Endpoint {
    /// Reads `tcp://HOST:PORT`.
    ///
    /// # Errors
    /// [`EndpointError`] for other schemes, a missing or impossible port, and wildcards, which only an engine can bind.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let wrong = || EndpointError { text: text.chars().take(256).collect() };
        let authority = text.strip_prefix("tcp://").ok_or_else(wrong)?;
        let (host, port) = authority.rsplit_once(':').ok_or_else(wrong)?;
        let is_number = port.parse::<u16>().is_ok_and(|port| port > 0);
        let is_host = !host.is_empty() && host != "*" && host.chars().all(|c| c.is_ascii_graphic() && c != '/');
        let is_bare_v6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
        if !is_number || !is_host || is_bare_v6 {
            return Err(wrong());
        }
        Ok(Self { authority: authority.to_owned() })
    }

    /// The same host, `ranks` ports further: where an engine's data-parallel rank publishes. `None` past the last port.
    #[must_use]
    pub fn of_rank(&self, rank: u16) -> Option<Self> {
        let (host, port) = self.authority.rsplit_once(':')?;
        let port = port.parse::<u16>().ok()?.checked_add(rank)?;
        Some(Self { authority: format!("{host}:{port}") })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tcp://{}", self.authority)
    }
}

/// Why a connection is of no use. Make another one, later.
#[derive(Debug)]
pub enum SocketError {
    /// The system says so.
    Io(io::Error),
    /// The peer closed it.
    Closed,
    /// The peer took too long to connect, greet or accept what was sent.
    Slow,
    /// The peer's bytes were refused.
    Wire(RefuseWire),
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Closed => write!(f, "the engine closed the connection"),
            Self::Slow => write!(f, "the engine took too long to answer"),
            Self::Wire(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for SocketError {}

impl From<io::Error> for SocketError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<RefuseWire> for SocketError {
    fn from(why: RefuseWire) -> Self {
        Self::Wire(why)
    }
}

/// A connection to one engine's socket.
pub struct ZmtpSocket {
    stream: TcpStream,
    reader: Reader,
    buffer: Box<[u8]>,
    /// What of the buffer is not read yet.
    unread: std::ops::Range<usize>,
    /// What is to be sent before the next read: answers to pings.
    owed: VecDeque<Vec<u8>>,
}

impl ZmtpSocket {
    /// A subscriber of every topic that begins with `topic`.
    ///
    /// # Errors
    /// [`SocketError`] when there is no such publisher within some seconds.
    pub async fn subscribe(endpoint: &Endpoint, topic: &[u8]) -> Result<Self, SocketError> {
        let mut socket = Self::connect(endpoint, SocketType::Sub).await?;
        let subscription = [b"\x01", topic].concat();
        socket.send(&[&subscription]).await?;
        Ok(socket)
    }

    /// A dealer.
    ///
    /// # Errors
    /// [`SocketError`] when there is no router within some seconds.
    pub async fn dealer(endpoint: &Endpoint) -> Result<Self, SocketError> {
        Self::connect(endpoint, SocketType::Dealer).await
    }

    async fn connect(endpoint: &Endpoint, kind: SocketType) -> Result<Self, SocketError> {
        let connecting = TcpStream::connect(&endpoint.authority);
        let stream = timeout(CONNECT, connecting).await.map_err(|_| SocketError::Slow)??;
        stream.set_nodelay(true)?;
        let keep_alive = TcpKeepalive::new()
            .with_time(KEEP_ALIVE_IDLE)
            .with_interval(KEEP_ALIVE_EVERY)
            .with_retries(KEEP_ALIVE_PROBES);
        SockRef::from(&stream).set_tcp_keepalive(&keep_alive)?;
        let buffer = vec![0; READ_BYTES].into_boxed_slice();
        let reader = Reader::new(kind);
        let mut socket = Self { stream, reader, buffer, unread: 0..0, owed: VecDeque::new() };
        timeout(HANDSHAKE, socket.shake_hands(kind)).await.map_err(|_| SocketError::Slow)??;
        Ok(socket)
    }

    async fn shake_hands(&mut self, kind: SocketType) -> Result<(), SocketError> {
        self.stream.write_all(&codec::greeting()).await?;
        self.stream.write_all(&codec::ready(kind)).await?;
        // No message can come before READY, and no ping: the reader refuses them.
        self.item().await.map(|_| ())
    }

    /// Sends one message.
    ///
    /// # Errors
    /// [`SocketError`].
    pub async fn send(&mut self, parts: &[&[u8]]) -> Result<(), SocketError> {
        let bytes = codec::message(parts);
        timeout(SEND, self.stream.write_all(&bytes)).await.map_err(|_| SocketError::Slow)??;
        Ok(())
    }

    /// The next message. Cancelling the future loses nothing of it.
    ///
    /// # Errors
    /// [`SocketError`]; the connection is of no use afterwards.
    pub async fn receive(&mut self) -> Result<Vec<Bytes>, SocketError> {
        loop {
            while let Some(owed) = self.owed.front() {
                timeout(SEND, self.stream.write_all(owed)).await.map_err(|_| SocketError::Slow)??;
                self.owed.pop_front();
            }
            match self.item().await? {
                Item::Message(parts) => return Ok(parts),
                Item::Ping { context } => self.owed.push_back(codec::pong(&context)),
                Item::Ready => return Err(RefuseWire::Order.into()),
            }
        }
    }

    async fn item(&mut self) -> Result<Item, SocketError> {
        loop {
            let mut input = &self.buffer[self.unread.clone()];
            let item = self.reader.read(&mut input)?;
            self.unread.start = self.unread.end - input.len();
            if let Some(item) = item {
                return Ok(item);
            }
            let read = self.stream.read(&mut self.buffer).await?;
            if read == 0 {
                return Err(SocketError::Closed);
            }
            self.unread = 0..read;
        }
    }
}
