//! The wire, without a socket: a peer's bytes in any pieces become items, and what is said to a peer becomes bytes.
//!
//! Not here: deadlines and connections (`socket`). Every bound is checked when a header is read; a frame's buffer grows with
//! the bytes that really came.

use std::fmt;

use bytes::Bytes;

/// Bytes in all frames of one message at most, and so in one frame.
pub const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Frames in one message at most.
pub const PARTS_MAX: usize = 8;
/// Bytes in one command at most: a few properties of a few dozen bytes.
pub const COMMAND_BYTES_MAX: usize = 4 * 1024;
/// Bytes of a greeting.
const GREETING_BYTES: usize = 64;
/// What a frame's buffer has at first, whatever its header says.
const BODY_BYTES_FIRST: usize = 64 * 1024;

const MORE: u8 = 0b001;
const LONG: u8 = 0b010;
const COMMAND: u8 = 0b100;

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketType {
    /// Receives what it subscribed to.
    Sub,
    /// Asks and is answered, in any number of messages.
    Dealer,
}

impl SocketType {
    const fn name(self) -> &'static str {
        match self {
            Self::Sub => "SUB",
            Self::Dealer => "DEALER",
        }
    }

    /// Whether the protocol lets the two talk.
    fn talks_to(self, peer: &[u8]) -> bool {
        match self {
            Self::Sub => matches!(peer, b"PUB" | b"XPUB"),
            Self::Dealer => matches!(peer, b"ROUTER" | b"DEALER" | b"REP"),
        }
    }
}

/// Why a peer's bytes were refused. The connection is of no use any more: close it, and try again later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefuseWire {
    /// It does not greet as ZMTP 3 does. Fault: another protocol, or a very old library, at that port.
    Greeting {
        /// Which byte is wrong, from 0.
        at: usize,
    },
    /// It wants another security mechanism than NULL. Fault: the engine's configuration.
    Mechanism,
    /// Its flags are no frame's.
    Flags {
        /// The byte.
        flags: u8,
    },
    /// A frame, or its message so far, is larger than [`MESSAGE_BYTES_MAX`], or a command than [`COMMAND_BYTES_MAX`].
    TooLarge {
        /// What the header says.
        bytes: u64,
    },
    /// A message has more than [`PARTS_MAX`] frames.
    TooManyParts,
    /// A command is malformed.
    Command,
    /// Frames came before the peer said it is ready, or it said so twice.
    Order,
    /// The socket there is of a type that cannot talk to ours. Fault: a wrong port.
    Peer {
        /// What it says it is.
        socket: String,
    },
    /// The peer refused us.
    Refused {
        /// Its reason.
        why: String,
    },
}

impl fmt::Display for RefuseWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Greeting { at } => write!(f, "no ZMTP 3 greeting (byte {at}): is it the engine's KV event port?"),
            Self::Mechanism => write!(f, "the peer wants a ZMQ security mechanism other than NULL"),
            Self::Flags { flags } => write!(f, "no frame has flags {flags:#04x}"),
            Self::TooLarge { bytes } => {
                write!(f, "a frame of {bytes} bytes (a message has at most {MESSAGE_BYTES_MAX})")
            }
            Self::TooManyParts => write!(f, "a message of more than {PARTS_MAX} frames"),
            Self::Command => write!(f, "a malformed command"),
            Self::Order => write!(f, "frames in a wrong order"),
            Self::Peer { socket } => write!(f, "a {socket} socket is there: is the port the right one?"),
            Self::Refused { why } => write!(f, "the peer refused the connection: {why}"),
        }
    }
}

impl std::error::Error for RefuseWire {}

/// What a peer said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// It is ready: its socket may talk to ours.
    Ready,
    /// It wants to know whether we live; it is answered with [`pong`].
    Ping {
        /// What the answer carries back.
        context: Bytes,
    },
    /// A message: its frames.
    Message(Vec<Bytes>),
}

enum State {
    Greeting { seen: usize },
    Header { bytes: [u8; 9], seen: usize },
    Body { flags: u8, left: usize, body: Vec<u8> },
    Refused,
}

/// Reads a peer's bytes.
pub struct Reader {
    ours: SocketType,
    state: State,
    is_ready: bool,
    parts: Vec<Bytes>,
    parts_bytes: usize,
}

impl Reader {
    /// For a connection that was just made by a socket of this type.
    #[must_use]
    pub const fn new(ours: SocketType) -> Self {
        Self { ours, state: State::Greeting { seen: 0 }, is_ready: false, parts: Vec::new(), parts_bytes: 0 }
    }

    /// Takes bytes off the front of `input` until an item is whole. `None`: all are taken and more are needed.
    ///
    /// # Errors
    /// [`RefuseWire`], and [`RefuseWire::Order`] for whatever comes after a refusal.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<Item>, RefuseWire> {
        let read = self.read_on(input);
        if read.is_err() {
            self.state = State::Refused;
            self.parts = Vec::new();
        }
        read
    }

    fn read_on(&mut self, input: &mut &[u8]) -> Result<Option<Item>, RefuseWire> {
        loop {
            match &mut self.state {
                State::Greeting { seen } => {
                    let Some(byte) = take_byte(input) else { return Ok(None) };
                    check_greeting(*seen, byte)?;
                    *seen += 1;
                    if *seen == GREETING_BYTES {
                        self.state = header();
                    }
                }
                State::Header { bytes, seen } => {
                    let Some(byte) = take_byte(input) else { return Ok(None) };
                    bytes[*seen] = byte;
                    *seen += 1;
                    let (flags, seen) = (bytes[0], *seen);
                    check_flags(flags)?;
                    if seen == if flags & LONG == 0 { 2 } else { 9 } {
                        let length = bytes[1..seen].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                        let left = self.check_length(flags, length)?;
                        let body = Vec::with_capacity(left.min(BODY_BYTES_FIRST));
                        self.state = State::Body { flags, left, body };
                    }
                }
                State::Body { flags, left, body } => {
                    let taken = input.len().min(*left);
                    body.extend_from_slice(&input[..taken]);
                    *input = &input[taken..];
                    *left -= taken;
                    if *left > 0 {
                        return Ok(None);
                    }
                    let (flags, body) = (*flags, std::mem::take(body));
                    self.state = header();
                    if let Some(item) = self.frame(flags, body)? {
                        return Ok(Some(item));
                    }
                }
                State::Refused => return Err(RefuseWire::Order),
            }
        }
    }

    /// Whether a frame of this length may come, before anything is allocated for it.
    fn check_length(&self, flags: u8, length: u64) -> Result<usize, RefuseWire> {
        let too_large = RefuseWire::TooLarge { bytes: length };
        let bytes = usize::try_from(length).map_err(|_| too_large.clone())?;
        if flags & COMMAND != 0 {
            return if bytes > COMMAND_BYTES_MAX { Err(too_large) } else { Ok(bytes) };
        }
        if !self.is_ready {
            return Err(RefuseWire::Order);
        }
        if self.parts.len() >= PARTS_MAX || (self.parts.len() + 1 == PARTS_MAX && flags & MORE != 0) {
            return Err(RefuseWire::TooManyParts);
        }
        if bytes > MESSAGE_BYTES_MAX - self.parts_bytes { Err(too_large) } else { Ok(bytes) }
    }

    fn frame(&mut self, flags: u8, body: Vec<u8>) -> Result<Option<Item>, RefuseWire> {
        if flags & COMMAND != 0 {
            return self.command(&body);
        }
        self.parts_bytes += body.len();
        self.parts.push(Bytes::from(body));
        if flags & MORE != 0 {
            return Ok(None);
        }
        self.parts_bytes = 0;
        Ok(Some(Item::Message(std::mem::take(&mut self.parts))))
    }

    fn command(&mut self, body: &[u8]) -> Result<Option<Item>, RefuseWire> {
        let (name, rest) = short(body).ok_or(RefuseWire::Command)?;
        match (name, self.is_ready) {
            (b"READY", false) => {
                let peer = property(rest, b"Socket-Type")?.ok_or(RefuseWire::Command)?;
                if !self.ours.talks_to(peer) {
                    return Err(RefuseWire::Peer { socket: printable(peer) });
                }
                self.is_ready = true;
                Ok(Some(Item::Ready))
            }
            (b"ERROR", false) => {
                let (why, _) = short(rest).ok_or(RefuseWire::Command)?;
                Err(RefuseWire::Refused { why: printable(why) })
            }
            (_, false) | (b"READY", true) => Err(RefuseWire::Order),
            (b"PING", true) => {
                let context = rest.get(2..).ok_or(RefuseWire::Command)?;
                Ok(Some(Item::Ping { context: Bytes::copy_from_slice(&context[..context.len().min(16)]) }))
            }
            // A later version's command says nothing to this one.
            (_, true) => Ok(None),
        }
    }
}

const fn header() -> State {
    State::Header { bytes: [0; 9], seen: 0 }
}

fn take_byte(input: &mut &[u8]) -> Option<u8> {
    let (first, rest) = input.split_first()?;
    *input = rest;
    Some(*first)
}

/// The greeting, byte by byte: signature, version at least 3, mechanism "NULL"; the rest is filler.
fn check_greeting(at: usize, byte: u8) -> Result<(), RefuseWire> {
    let is_right = match at {
        0 => byte == 0xff,
        9 => byte == 0x7f,
        10 => byte >= 3,
        12..32 => {
            let wanted = b"NULL".get(at - 12).copied().unwrap_or_default();
            return if byte == wanted { Ok(()) } else { Err(RefuseWire::Mechanism) };
        }
        _ => true,
    };
    if is_right { Ok(()) } else { Err(RefuseWire::Greeting { at }) }
}

fn check_flags(flags: u8) -> Result<(), RefuseWire> {
    let is_command_with_more = flags & COMMAND != 0 && flags & MORE != 0;
    if flags & !(MORE | LONG | COMMAND) != 0 || is_command_with_more {
        return Err(RefuseWire::Flags { flags });
    }
    Ok(())
}

/// A text behind its length in one byte, and what follows.
fn short(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*length))
}

/// One of a READY's properties. Names are compared without case, as the protocol says.
fn property<'a>(mut bytes: &'a [u8], wanted: &[u8]) -> Result<Option<&'a [u8]>, RefuseWire> {
    let mut found = None;
    while !bytes.is_empty() {
        let (name, rest) = short(bytes).ok_or(RefuseWire::Command)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or(RefuseWire::Command)?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or(RefuseWire::Command)?;
        if name.eq_ignore_ascii_case(wanted) {
            found = Some(value);
        }
        bytes = rest;
    }
    Ok(found)
}

/// A peer's text as it may go into a log: bounded, and nothing but what prints.
fn printable(bytes: &[u8]) -> String {
    bytes
        .iter()
        .take(64)
        .map(|byte| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '?' })
        .collect()
}

/// Our greeting. Version 3.0: no peer then sends heartbeats, and subscriptions are messages.
#[must_use]
pub fn greeting() -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[0] = 0xff;
    bytes[9] = 0x7f;
    bytes[10] = 3;
    bytes[12..16].copy_from_slice(b"NULL");
    bytes
}

/// Our READY.
#[must_use]
pub fn ready(socket: SocketType) -> Vec<u8> {
    let mut body = b"\x05READY".to_vec();
    let mut put = |name: &[u8], value: &[u8]| {
        body.push(name.len() as u8);
        body.extend_from_slice(name);
        body.extend_from_slice(&(value.len() as u32).to_be_bytes());
        body.extend_from_slice(value);
    };
    put(b"Socket-Type", socket.name().as_bytes());
    if socket == SocketType::Dealer {
        put(b"Identity", b"");
    }
    frame(COMMAND, &body)
}

/// The answer to a [`Item::Ping`].
#[must_use]
pub fn pong(context: &[u8]) -> Vec<u8> {
    let mut body = b"\x04PONG".to_vec();
    body.extend_from_slice(context);
    frame(COMMAND, &body)
}

/// A message of these frames. A subscription is the message `\x01` and the topic's first bytes.
#[must_use]
pub fn message(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (nth, part) in parts.iter().enumerate() {
        bytes.extend(frame(if nth + 1 < parts.len() { MORE } else { 0 }, part));
    }
    bytes
}

fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len() + 9);
    match u8::try_from(body.len()) {
        Ok(length) => bytes.extend_from_slice(&[flags, length]),
        Err(_) => {
            bytes.push(flags | LONG);
            bytes.extend_from_slice(&(body.len() as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(body);
    bytes
}
