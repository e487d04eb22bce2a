//! Knows what one engine held at each position: begins with the engine's own word, follows its events on a subscription of its
//! own, and begins again where it missed one.
//!
//! Not here: what gateways say (`watch`), comparing the two (`judge`).

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use covey_crdt::digest::Digest;
use covey_crdt::hash::BlockHash;
use covey_gateway_plugin::ingest::decode;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use zeromq::{Socket as _, SocketRecv as _, SubSocket};

use super::truth::{Held, Naming, Told};
use crate::client::Client;

/// How long the engine may take to say what it holds.
const TRUTH_MAX: Duration = Duration::from_secs(5);
/// Silence after which the subscription is checked.
const SILENCE: Duration = Duration::from_millis(300);
const AGAIN: Duration = Duration::from_millis(20);

/// What a batch changed.
struct Change {
    contents: Digest,
    added: Vec<BlockHash>,
    removed: Vec<BlockHash>,
}

/// Positions in a row of one life.
struct Stretch {
    token: String,
    first: u64,
    base: Vec<BlockHash>,
    contents: Digest,
    changes: BTreeMap<u64, Change>,
}

impl Stretch {
    fn last(&self) -> u64 {
        self.changes.keys().next_back().copied().unwrap_or(self.first)
    }

    fn contents_at(&self, position: u64) -> Option<Digest> {
        if position == self.first {
            return Some(self.contents);
        }
        self.changes.get(&position).map(|change| change.contents)
    }

    fn blocks_at(&self, position: u64) -> HashSet<BlockHash> {
        let mut held: HashSet<BlockHash> = self.base.iter().copied().collect();
        for (_, change) in self.changes.range(..=position) {
            for block in &change.removed {
                held.remove(block);
            }
            held.extend(&change.added);
        }
        held
    }
}

#[derive(Default)]
struct Record {
    stretches: Vec<Stretch>,
    /// What could not be followed.
    wrong: Vec<String>,
}

/// One worker's.
pub(super) struct Witness {
    /// The worker's name.
    pub(super) worker: String,
    client: Arc<Client>,
    base: String,
    events: String,
    naming: Arc<Naming>,
    record: Arc<Mutex<Record>>,
    task: JoinHandle<()>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The engine's own word.
pub(super) async fn told(client: &Client, base: &str) -> Result<Told, String> {
    let page = client.page(&format!("{base}/covey/truth"), TRUTH_MAX).await;
    let page = page.map_err(|why| format!("{base} does not say what it holds: {why}"))?;
    serde_json::from_str(&page).map_err(|why| format!("{base} says what it holds in another form: {why}"))
}

impl Witness {
    /// Follows a worker from now on.
    pub(super) fn start(client: &Arc<Client>, worker: &str, base: &str, events: &str, naming: &Arc<Naming>) -> Self {
        let record = Arc::default();
        let task = tokio::spawn(async {});
        let mut witness = Self {
            worker: worker.to_owned(),
            client: Arc::clone(client),
            base: base.to_owned(),
            events: events.to_owned(),
            naming: Arc::clone(naming),
            record,
            task,
        };
        witness.connect();
        witness
    }

    /// Subscribes anew: the engine begins another life.
    pub(super) fn connect(&mut self) {
        self.task.abort();
        let (client, base, events) = (Arc::clone(&self.client), self.base.clone(), self.events.clone());
        let (naming, record) = (Arc::clone(&self.naming), Arc::clone(&self.record));
        self.task = tokio::spawn(async move {
            loop {
                if let Err(why) = follow(&client, &base, &events, &naming, &record).await {
                    lock(&record).wrong.push(why);
                }
                sleep(AGAIN).await;
            }
        });
    }

    /// What the engine itself says now.
    pub(super) async fn told(&self) -> Result<(Told, Held), String> {
        let told = told(&self.client, &self.base).await?;
        let held = Held::of(&told, &self.naming)?;
        Ok((told, held))
    }

    /// Over what a life held at a position, where that is known.
    pub(super) fn contents_at(&self, token: &str, position: u64) -> Option<Digest> {
        let record = lock(&self.record);
        let of_life = record.stretches.iter().filter(|stretch| stretch.token == token);
        of_life.rev().find_map(|stretch| stretch.contents_at(position))
    }

    /// What a life held at a position, where that is known.
    pub(super) fn blocks_at(&self, token: &str, position: u64) -> Option<HashSet<BlockHash>> {
        let record = lock(&self.record);
        let mut of_life = record.stretches.iter().filter(|stretch| stretch.token == token).rev();
        of_life.find(|stretch| stretch.contents_at(position).is_some()).map(|stretch| stretch.blocks_at(position))
    }

    /// The last position that is known, and its life's token.
    pub(super) fn latest(&self) -> Option<(String, u64)> {
        lock(&self.record).stretches.last().map(|stretch| (stretch.token.clone(), stretch.last()))
    }

    /// What could not be followed.
    pub(super) fn wrong(&self) -> Vec<String> {
        lock(&self.record).wrong.iter().map(|why| format!("{}'s events: {why}", self.worker)).collect()
    }
}

fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Follows until the subscription is of no use any more.
///
/// # Errors
/// When what the engine says does not fit together.
async fn follow(
    client: &Client,
    base: &str,
    events: &str,
    naming: &Arc<Naming>,
    record: &Mutex<Record>,
) -> Result<(), String> {
    let mut sub = SubSocket::new();
    let Ok(Ok(())) = timeout(SILENCE, sub.connect(events)).await else { return Ok(()) };
    if sub.subscribe("").await.is_err() {
        return Ok(());
    }
    let mut held = begin(client, base, naming, record).await?;
    let mut heard_at = Instant::now();
    loop {
        let Ok(message) = timeout(SILENCE, sub.recv()).await else {
            let Ok(now) = told(client, base).await else { return Ok(()) };
            let is_new = lock(record).stretches.last().is_none_or(|stretch| stretch.token != now.token);
            if is_new || (now.position > held.position() && heard_at.elapsed() > 2 * SILENCE) {
                return Ok(());
            }
            continue;
        };
        heard_at = Instant::now();
        let Ok(message) = message else { return Ok(()) };
        let frames = message.into_vec();
        let [.., number, payload] = &frames[..] else { return Err("a message of one frame".to_owned()) };
        let number = <[u8; 8]>::try_from(&number[..]).map_err(|_| "a number that is not 8 bytes")?;
        let seq = u64::from_be_bytes(number);
        if seq < held.position() {
            continue;
        }
        if seq > held.position() {
            held = begin(client, base, naming, record).await?;
            continue;
        }
        let (added, removed) = held.apply(&decode(payload).events)?;
        let change = Change { contents: held.contents(), added, removed };
        if let Some(stretch) = lock(record).stretches.last_mut() {
            stretch.changes.insert(held.position(), change);
        }
    }
}

/// Begins a stretch with what the engine says it holds.
async fn begin(client: &Client, base: &str, naming: &Arc<Naming>, record: &Mutex<Record>) -> Result<Held, String> {
    let told = told(client, base).await?;
    let held = Held::of(&told, naming)?;
    let (contents, base) = (held.contents(), held.blocks());
    let stretch = Stretch { token: told.token, first: told.position, base, contents, changes: BTreeMap::new() };
    lock(record).stretches.push(stretch);
    Ok(held)
}
