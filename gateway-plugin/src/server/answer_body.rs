//! A streamed answer on its way from worker to client: passed on piece by piece, unchanged, and read in passing.
//!
//! Dropping it (the client went away) drops the connection to the worker, which stops generating.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::unfold;
use tokio::time::Instant;

use super::fault::Fault;
use super::flight::Flight;
use super::sse::{Overlong, SseParser};
use super::upstream::{self, Failure};

/// A stream of pieces from a worker.
pub(super) struct AnswerBody {
    upstream: reqwest::Response,
    ready: VecDeque<Bytes>,
    parser: SseParser,
    flight: Flight,
    idle: Duration,
    /// Whether events are still read; passed on unread after an error event.
    reading: bool,
    over: bool,
}

impl AnswerBody {
    /// A stream of events.
    pub(super) fn events(upstream: reqwest::Response, flight: Flight, idle: Duration) -> Self {
        Self {
            upstream,
            ready: VecDeque::new(),
            parser: SseParser::default(),
            flight,
            idle,
            reading: true,
            over: false,
        }
    }

    /// A body that is not read: an engine's own refusal. Its flight has landed.
    pub(super) fn unread(upstream: reqwest::Response, mut flight: Flight, idle: Duration) -> Self {
        flight.release();
        Self { reading: false, ..Self::events(upstream, flight, idle) }
    }

    /// Waits until the worker has said something that belongs into an event stream, so that nonsense can still be
    /// answered with an error of the gateway's own.
    pub(super) async fn open(&mut self, deadline: Instant) -> Result<(), Fault> {
        while self.reading && !self.parser.has_spoken() {
            let (by, late) = match self.ready.is_empty() {
                true => (deadline, Fault::FirstByteTimeout),
                false => (Instant::now() + self.idle, Fault::IdleTimeout),
            };
            let piece = match upstream::next(&mut self.upstream, by, late).await {
                Ok(Some(piece)) => piece,
                Ok(None) if self.ready.is_empty() => return Err(self.fail(Fault::Cut, "an empty stream")),
                Ok(None) => return Err(self.fail(Fault::Nonsense, "no event in the whole stream")),
                Err(failure) => return Err(self.fail(failure.fault, &failure.detail)),
            };
            self.read(&piece)?;
            self.ready.push_back(piece);
        }
        Ok(())
    }

    /// The body for the client.
    pub(super) fn into_body(self) -> Body {
        Body::from_stream(unfold(self, |mut body| async move { body.piece().await.map(|piece| (piece, body)) }))
    }

    async fn piece(&mut self) -> Option<io::Result<Bytes>> {
        if let Some(piece) = self.ready.pop_front() {
            return Some(Ok(piece));
        }
        if self.over {
            return None;
        }
        let by = Instant::now() + self.idle;
        match upstream::next(&mut self.upstream, by, Fault::IdleTimeout).await {
            Ok(Some(piece)) => Some(self.read(&piece).map(|()| piece).map_err(|fault| broken(fault.name()))),
            Ok(None) => {
                self.over = true;
                self.end();
                None
            }
            Err(Failure { fault, detail, .. }) => {
                self.fail(fault, &detail);
                Some(Err(broken(fault.name())))
            }
        }
    }

    /// Reads one piece. An error ends the stream: what follows would not make sense either.
    fn read(&mut self, piece: &[u8]) -> Result<(), Fault> {
        if !self.reading {
            return Ok(());
        }
        let mut events = Vec::new();
        let fed = self.parser.feed(piece, &mut events);
        self.take(&events)?;
        fed.map_err(|Overlong| self.fail(Fault::Overlong, "a line or event without an end"))
    }

    fn take(&mut self, events: &[Vec<u8>]) -> Result<(), Fault> {
        for event in events {
            match self.flight.read(event) {
                Ok(()) => {}
                Err(Fault::ErrorEvent) => {
                    self.flight.fail(Fault::ErrorEvent, &String::from_utf8_lossy(&event[..event.len().min(300)]));
                    self.reading = false;
                    return Ok(());
                }
                Err(fault) => {
                    let start = String::from_utf8_lossy(&event[..event.len().min(100)]).into_owned();
                    return Err(self.fail(fault, &format!("not an event of the API: {start:?}")));
                }
            }
        }
        Ok(())
    }

    /// The worker closed its stream.
    fn end(&mut self) {
        let mut events = Vec::new();
        if self.reading && self.parser.finish(&mut events).is_ok() && self.take(&events).is_ok() {
            if self.flight.is_complete() {
                self.flight.complete();
            } else {
                self.fail(Fault::Cut, "the stream ended without a finish reason or [DONE]");
            }
        }
    }

    fn fail(&mut self, fault: Fault, detail: &str) -> Fault {
        self.reading = false;
        self.over = true;
        self.flight.fail(fault, &detail);
        fault
    }
}

/// What the client's connection is ended with: it sees an incomplete answer, never a made-up end.
fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, what)
}
