//! Frames as they are streamed by an admin port (`/api/frames`), across broken connections and restarts of the gateway.
//!
//! Not here: the frames' meaning (`frame`), what is done with them (`record`, `top`).

use std::collections::VecDeque;
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
/// Lives of the viewer that are remembered: it begins one when its process or its mesh thread restarts.
const LIVES_MAX: usize = 64;

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

/// Which frame it is: its number, and the life of its viewer, within which numbers only grow. Never its time: wall clocks
/// step back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    seq: u64,
    /// `None` for an observer, and before a gateway has a life.
    life: Option<String>,
}

impl Place {
    fn of(frame: &MeshFrame) -> Self {
        let me = frame.gateways.iter().find(|gateway| gateway.me);
        Self { seq: frame.seq, life: me.map(|me| me.life.clone()).filter(|life| !life.is_empty()) }
    }
}

/// What was read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Read {
    last: Place,
    /// The highest number of each of the latest [`LIVES_MAX`] lives, since a gateway keeps frames of lives before its own.
    lives: VecDeque<(String, u64)>,
}

impl Read {
    /// Whether this very frame was read already.
    fn has(&self, place: &Place) -> bool {
        match &place.life {
            Some(life) => self.lives.iter().any(|(known, seq)| known == life && place.seq <= *seq),
            None => place.seq == self.last.seq,
        }
    }

    /// Whether `place` belongs to another run than the last one: another life or, where one is not known, counting anew.
    fn is_restart(&self, place: &Place) -> bool {
        match (&self.last.life, &place.life) {
            (Some(known), Some(life)) => known != life,
            _ => place.seq < self.last.seq,
        }
    }

    fn add(&mut self, place: Place) {
        if let Some(life) = &place.life {
            self.lives.retain(|(known, _)| known != life);
            self.lives.push_back((life.clone(), place.seq));
            if self.lives.len() > LIVES_MAX {
                self.lives.pop_front();
            }
        }
        self.last = place;
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
    seen: Option<Read>,
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
                if seen.is_restart(&latest) { 0 } else { seen.last.seq }
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
        // What a gateway still has may reach back to what was read already, when only the life was new.
        if self.seen.as_ref().is_some_and(|seen| seen.has(&place)) {
            return Ok(Some(()));
        }
        if (restarted || std::mem::take(&mut self.lost)) && self.out.send(Heard::Back { restarted }).await.is_err() {
            return Ok(None);
        }
        self.seen.get_or_insert_default().add(place);
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
    use crate::frame::GatewayView;

    fn frame(seq: u64, t_ms: u64, life: &str) -> MeshFrame {
        let me = GatewayView { life: life.to_owned(), me: true, ..GatewayView::default() };
        MeshFrame { schema: SCHEMA.to_owned(), version: VERSION, seq, t_ms, gateways: vec![me], ..MeshFrame::default() }
    }

    /// The numbers of the frames passed on, and 0 for what is called a restart.
    async fn passed(frames: &[(u64, u64, &str)]) -> Vec<u64> {
        let (out, mut heard) = mpsc::channel(100);
        let client = AdminClient::new("a:1", None).expect("a client");
        let mut follower = Follower { client, from: From::Retained, seen: None, lost: false, out };
        for (seq, t_ms, life) in frames {
            let text = serde_json::to_string(&frame(*seq, *t_ms, life)).expect("JSON");
            assert_eq!(follower.take(text).await.expect("a frame"), Some(()));
        }
        drop(follower);
        let mut found = Vec::new();
        while let Some(heard) = heard.recv().await {
            match heard {
                Heard::Frame(frame, _) => found.push(frame.seq),
                Heard::Back { restarted } => found.push(u64::from(!restarted)),
                Heard::Lost(error) => panic!("{error}"),
            }
        }
        found
    }

    #[tokio::test]
    async fn a_wall_clock_that_steps_back_hides_no_frame() {
        assert_eq!(passed(&[(2, 9_000, "a"), (3, 4_000, "a"), (4, 4_000, "a")]).await, [2, 3, 4]);
        let restarted = [(5, 9_000, "a"), (2, 1_000, "b"), (3, 1_000, "b")];
        assert_eq!(passed(&restarted).await, [5, 0, 2, 3], "a new run before the old one's time");
    }

    #[tokio::test]
    async fn what_is_told_again_is_passed_on_once_even_of_earlier_lives() {
        let again = [(2, 1, "a"), (3, 2, "a"), (2, 1, "a"), (3, 9, "a"), (4, 3, "a")];
        assert_eq!(passed(&again).await, [2, 3, 4]);
        let reborn = [(2, 1, "a"), (3, 2, "b"), (2, 1, "a"), (3, 2, "b"), (4, 3, "c")];
        assert_eq!(passed(&reborn).await, [2, 0, 3, 0, 4]);
        assert_eq!(passed(&[(7, 1, ""), (7, 1, ""), (8, 0, ""), (2, 0, "")]).await, [7, 8, 0, 2], "an observer");
    }

    #[test]
    fn another_run_has_another_life_or_counts_anew_where_none_is_known() {
        let place = |seq, life: Option<&str>| Place { seq, life: life.map(str::to_owned) };
        let read = |seq, life| Read { last: place(seq, life), ..Read::default() };
        assert!(!read(5, Some("a")).is_restart(&place(9, Some("a"))));
        assert!(!read(5, Some("a")).is_restart(&place(4, Some("a"))), "one life counts on");
        assert!(read(5, Some("a")).is_restart(&place(9, Some("b"))));
        assert!(!read(5, None).is_restart(&place(9, Some("b"))), "an observer has no life");
        assert!(read(5, None).is_restart(&place(4, None)));
    }
}
