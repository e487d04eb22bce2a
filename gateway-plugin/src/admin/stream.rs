//! Frames as they are streamed by an admin port (`/api/frames`), across broken connections and restarts of the gateway.
//!
//! Not here: the frames' meaning (`frame`), what is done with them (`record`, `top`).

use std::time::Duration;

use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::client::{AdminClient, AskError};
use crate::frame::{MeshFrame, SCHEMA, VERSION};
use crate::server::SseParser;

/// A stream that says nothing for this long is broken; a quiet one says so every 15 seconds.
const SILENT_MAX: Duration = Duration::from_secs(20);
/// How long a gateway may take to begin an answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How streams of frames are labelled.
const STREAM: &str = "text/event-stream";
/// Pause before connecting again.
const RETRY: Duration = Duration::from_millis(500);
/// Frames that may wait for whoever reads them.
const WAITING_MAX: usize = 64;

/// What comes from a stream.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A frame, and its JSON as it came, in one line.
    Frame(Box<MeshFrame>, String),
    /// The stream broke, or could not be opened; it is tried again.
    Lost(AskError),
    /// It is there again.
    Back {
        /// Whether it is another run of the gateway, which counts its frames from 1 again.
        restarted: bool,
    },
}

/// Which frames are wanted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// The latest, and what follows.
    Latest,
    /// All that the gateway still has.
    Retained,
}

/// What is known of the run that was read last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    seq: u64,
    t_ms: u64,
    life: Option<String>,
}

impl Place {
    fn of(frame: &MeshFrame) -> Self {
        let me = frame.gateways.iter().find(|gateway| gateway.me);
        Self { seq: frame.seq, t_ms: frame.t_ms, life: me.map(|me| me.life.clone()) }
    }

    /// Whether `latest` belongs to another run: it counts from 1 again, or its gateway has another life.
    fn is_restart(&self, latest: &Self) -> bool {
        latest.seq < self.seq || (latest.life.is_some() && self.life.is_some() && latest.life != self.life)
    }
}

/// Follows a gateway's frames until the receiver is dropped. The first message says whether there is anybody: a frame, or
/// what is wrong.
pub(crate) fn follow(client: AdminClient, from: From) -> mpsc::Receiver<Heard> {
    let (out, frames) = mpsc::channel(WAITING_MAX);
    tokio::spawn(async move {
        let mut follower = Follower { client, from, seen: None, lost: false, out };
        loop {
            let Err(error) = follower.read().await else { return };
            follower.lost = true;
            if follower.out.send(Heard::Lost(error)).await.is_err() {
                return;
            }
            sleep(RETRY).await;
        }
    });
    frames
}

struct Follower {
    client: AdminClient,
    from: From,
    seen: Option<Place>,
    lost: bool,
    out: mpsc::Sender<Heard>,
}

/// As much of a frame as tells whether it is one.
#[derive(Deserialize)]
struct Header {
    schema: String,
    version: u32,
}

impl Follower {
    /// Reads one connection. `Ok` when nobody wants more frames, `Err` when it broke.
    async fn read(&mut self) -> Result<(), AskError> {
        let mut response = timeout(ANSWER_MAX, self.open())
            .await
            .unwrap_or_else(|_| Err(self.broken(format!("no answer within {} s", ANSWER_MAX.as_secs()))))?;
        let (mut parser, mut events) = (SseParser::default(), Vec::new());
        loop {
            let chunk = timeout(SILENT_MAX, response.chunk()).await;
            let chunk = chunk.map_err(|_| self.broken(format!("no frame for {} s", SILENT_MAX.as_secs())))?;
            let chunk = chunk.map_err(|error| self.client.unreachable(&error))?;
            let chunk = chunk.ok_or_else(|| self.broken("the gateway closed the stream".to_owned()))?;
            parser.feed(&chunk, &mut events).map_err(|_| self.client.foreign("an event without end".to_owned()))?;
            for event in events.drain(..) {
                let text = String::from_utf8(event).map_err(|error| self.client.foreign(error.to_string()))?;
                if self.take(text).await?.is_none() {
                    return Ok(());
                }
            }
        }
    }

    async fn open(&self) -> Result<reqwest::Response, AskError> {
        let response = self.client.get(&self.path().await?, &[("accept", STREAM)]).await?;
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or("nothing");
        if kind.starts_with(STREAM) {
            return Ok(response);
        }
        Err(self.client.foreign(format!("its frames come as {kind}, not as {STREAM}")))
    }

    /// Where to go on. After a break the latest frame tells whether it is still the same run of the gateway.
    async fn path(&self) -> Result<String, AskError> {
        let after = match (&self.seen, self.from) {
            (None, From::Latest) => return Ok("/api/frames".to_owned()),
            (None, From::Retained) => 0,
            (Some(seen), _) => {
                let latest = Place::of(&self.client.json::<MeshFrame>("/api/frame").await?);
                if seen.is_restart(&latest) { 0 } else { seen.seq }
            }
        };
        Ok(format!("/api/frames?after={after}"))
    }

    /// Passes a frame on; `None` when nobody wants it.
    async fn take(&mut self, text: String) -> Result<Option<()>, AskError> {
        let foreign = |error: serde_json::Error| self.client.foreign(error.to_string());
        let header: Header = serde_json::from_str(&text).map_err(foreign)?;
        if header.schema != SCHEMA || header.version != VERSION {
            let (schema, version) = (header.schema, header.version);
            let error = format!("frames are {schema} version {version}, this is for {SCHEMA} version {VERSION}");
            return Err(self.client.foreign(error));
        }
        let frame: MeshFrame = serde_json::from_str(&text).map_err(foreign)?;
        let place = Place::of(&frame);
        let restarted = self.seen.as_ref().is_some_and(|seen| seen.is_restart(&place));
        // A new run's retained frames may reach back to what was read already, when only the life was new.
        let again = self.seen.as_ref().is_some_and(|seen| place.t_ms <= seen.t_ms);
        if again {
            return Ok(Some(()));
        }
        if (restarted || std::mem::take(&mut self.lost)) && self.out.send(Heard::Back { restarted }).await.is_err() {
            return Ok(None);
        }
        self.seen = Some(place);
        let text = if text.contains('\n') { text.replace('\n', " ") } else { text };
        Ok(self.out.send(Heard::Frame(Box::new(frame), text)).await.ok())
    }

    fn broken(&self, error: String) -> AskError {
        AskError::Unreachable { admin: self.client.admin().to_owned(), error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_run_counts_anew_or_has_another_life() {
        let place = |seq, life: &str| Place { seq, t_ms: 0, life: Some(life.to_owned()) };
        assert!(!place(5, "a").is_restart(&place(9, "a")));
        assert!(place(5, "a").is_restart(&place(4, "a")));
        assert!(place(5, "a").is_restart(&place(9, "b")));
        assert!(!Place { life: None, ..place(5, "") }.is_restart(&place(9, "b")), "an observer has no life");
    }
}
