//! The frames of a source, the latest ones kept: each is written to JSON once, whoever reads it.
//!
//! Not here: making frames. Bounded by bytes, frames and readers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::frame::MeshFrame;

/// Readers at once; more are told to come back.
pub const CLIENTS_MAX: usize = 64;
/// Frames kept: an hour, when nothing happens.
const FRAMES_MAX: usize = 3_600;
/// Bytes of frames kept.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// A stream with nothing to say says so this often, so that a reader can tell a quiet source from a dead one.
const QUIET: Duration = Duration::from_secs(15);
/// No frame has this number: there will be none any more.
const OVER: u64 = u64::MAX;

/// One frame, ready to be sent.
#[derive(Clone, Debug)]
struct Kept {
    seq: u64,
    /// The whole server-sent event, and where the JSON lies in it.
    event: Bytes,
    json: std::ops::Range<usize>,
}

#[derive(Debug, Default)]
struct Frames {
    kept: VecDeque<Kept>,
    bytes: usize,
    latest: Option<Arc<MeshFrame>>,
}

/// A source's frames.
#[derive(Debug)]
pub struct Reel {
    frames: Mutex<Frames>,
    newest: watch::Sender<u64>,
    clients: AtomicUsize,
}

impl Default for Reel {
    fn default() -> Self {
        Self { frames: Mutex::default(), newest: watch::Sender::new(0), clients: AtomicUsize::new(0) }
    }
}

impl Reel {
    fn lock(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the next frame and wakes its readers.
    pub fn push(&self, frame: MeshFrame) {
        let seq = frame.seq;
        let json = serde_json::to_string(&frame).expect("plain data serializes");
        let head = format!("event: frame\nid: {seq}\ndata: ");
        let json_at = head.len()..head.len() + json.len();
        let kept = Kept { seq, event: Bytes::from(head + &json + "\n\n"), json: json_at };
        let mut frames = self.lock();
        frames.bytes += kept.event.len();
        frames.kept.push_back(kept);
        while frames.kept.len() > 1 && (frames.bytes > BYTES_MAX || frames.kept.len() > FRAMES_MAX) {
            let oldest = frames.kept.pop_front().expect("more than one is kept");
            frames.bytes -= oldest.event.len();
        }
        frames.latest = Some(Arc::new(frame));
        drop(frames);
        self.newest.send_replace(seq);
    }

    /// The latest frame.
    #[must_use]
    pub fn latest(&self) -> Option<Arc<MeshFrame>> {
        self.lock().latest.clone()
    }

    /// The latest frame as JSON.
    #[must_use]
    pub fn latest_json(&self) -> Option<Bytes> {
        self.lock().kept.back().map(|kept| kept.event.slice(kept.json.clone()))
    }

    /// The oldest kept frame after `seq`.
    fn after(&self, seq: u64) -> Option<Kept> {
        let frames = self.lock();
        let first = frames.kept.partition_point(|kept| kept.seq <= seq);
        frames.kept.get(first).cloned()
    }

    /// Server-sent events: kept frames after `seq`, then every new one. A reader that is slow misses what is not kept any
    /// more. `None` for `seq` begins with the latest. Nothing, when there are too many readers.
    #[must_use]
    pub fn events(
        self: &Arc<Self>,
        seq: Option<u64>,
    ) -> Option<impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Send + 'static> {
        let client = Client::admit(self)?;
        let newest = self.newest.subscribe();
        let newest_seq = self.lock().kept.back().map_or(0, |kept| kept.seq);
        // A number from before a restart: what it named is gone, and this source's frames are all new to the reader.
        let last = seq.map_or(newest_seq.saturating_sub(1), |seq| if seq > newest_seq { 0 } else { seq });
        Some(unfold((client, newest, last), |(client, mut newest, last)| async move {
            loop {
                let is_over = *newest.borrow_and_update() == OVER;
                if let Some(kept) = client.0.after(last) {
                    return Some((Ok(kept.event), (client, newest, kept.seq)));
                }
                if is_over {
                    return None;
                }
                match timeout(QUIET, newest.changed()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return None,
                    Err(_) => return Some((Ok(Bytes::from_static(b": quiet\n\n")), (client, newest, last))),
                }
            }
        }))
    }

    /// Ends every stream: the source is going away.
    pub fn close(&self) {
        self.newest.send_replace(OVER);
    }

    /// How many read streams now.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }
}

/// A reader, counted as long as its stream lives.
struct Client(Arc<Reel>);

impl Client {
    fn admit(reel: &Arc<Reel>) -> Option<Self> {
        let admitted = reel.clients.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |clients| {
            (clients < CLIENTS_MAX).then_some(clients + 1)
        });
        admitted.ok().map(|_| Self(Arc::clone(reel)))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;

    fn frame(seq: u64) -> MeshFrame {
        MeshFrame { seq, ..MeshFrame::default() }
    }

    async fn next(stream: &mut (impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Unpin)) -> Option<u64> {
        let Ok(event) = stream.next().await?;
        let text = std::str::from_utf8(&event).expect("text").to_owned();
        let json = text.lines().find_map(|line| line.strip_prefix("data: ")).expect("data");
        let frame: MeshFrame = serde_json::from_str(json).expect("a frame");
        assert!(text.starts_with(&format!("event: frame\nid: {}\n", frame.seq)) && text.ends_with("\n\n"));
        Some(frame.seq)
    }

    #[tokio::test]
    async fn a_reader_gets_what_is_kept_and_then_what_comes_each_once() {
        let reel = Arc::new(Reel::default());
        (1..=3).for_each(|seq| reel.push(frame(seq)));
        let mut all = Box::pin(reel.events(Some(0)).expect("room"));
        let mut latest = Box::pin(reel.events(None).expect("room"));
        let mut resumed = Box::pin(reel.events(Some(3)).expect("room"));
        assert_eq!([next(&mut all).await, next(&mut all).await, next(&mut all).await], [Some(1), Some(2), Some(3)]);
        assert_eq!(next(&mut latest).await, Some(3));
        let pushing = Arc::clone(&reel);
        let later = tokio::spawn(async move {
            tokio::task::yield_now().await;
            pushing.push(frame(4));
        });
        let got = tokio::join!(next(&mut all), next(&mut latest), next(&mut resumed));
        assert_eq!(got, (Some(4), Some(4), Some(4)));
        later.await.expect("pushed");
        reel.close();
        assert_eq!(next(&mut all).await, None);
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded_and_a_slow_reader_goes_on_with_the_oldest_kept() {
        let reel = Arc::new(Reel::default());
        let mut slow = Box::pin(reel.events(Some(0)).expect("room"));
        (1..=FRAMES_MAX as u64 + 10).for_each(|seq| reel.push(frame(seq)));
        assert_eq!(next(&mut slow).await, Some(11));
        let text = "x".repeat(BYTES_MAX / 4);
        for seq in 0..6 {
            let source = crate::frame::Source { cluster: text.clone(), ..Default::default() };
            reel.push(MeshFrame { seq: 10_000 + seq, source, ..MeshFrame::default() });
        }
        assert!(reel.lock().bytes <= BYTES_MAX && reel.lock().kept.len() <= 4);
    }

    #[tokio::test]
    async fn a_reader_that_remembers_more_than_there_is_begins_anew() {
        let reel = Arc::new(Reel::default());
        (1..=2).for_each(|seq| reel.push(frame(seq)));
        let mut from_before_a_restart = Box::pin(reel.events(Some(500)).expect("room"));
        assert_eq!(
            [next(&mut from_before_a_restart).await, next(&mut from_before_a_restart).await],
            [Some(1), Some(2)]
        );
    }

    #[tokio::test]
    async fn too_many_readers_are_refused_and_room_comes_back() {
        let reel = Arc::new(Reel::default());
        let readers: Vec<_> = (0..CLIENTS_MAX).map(|_| reel.events(None).expect("room")).collect();
        assert!(reel.events(None).is_none());
        drop(readers);
        assert!(reel.events(None).is_some() && reel.clients() == 0);
    }
}
