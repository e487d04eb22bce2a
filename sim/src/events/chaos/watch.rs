//! Looks at what gateways say of feeds (`/feeds`), again and again, and at the blocks themselves where they say that these are
//! not all (`/mesh/state/stored`).
//!
//! Not here: whether it is right (`judge`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use covey_crdt::hash::BlockHash;
use covey_mesh::feed::{FeedState, Role};
use covey_mesh::inspect::{FeedRow, Hex128, StoredPage};
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::client::Client;

/// Pause between two looks at one gateway.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const PAGE_MAX: Duration = Duration::from_secs(2);

/// A worker's line of `/feeds`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Row {
    pub(super) worker: String,
    pub(super) role: Role,
    pub(super) state: Option<FeedState>,
    pub(super) incarnation: Option<u64>,
    pub(super) position: Option<u64>,
    pub(super) is_last: bool,
    pub(super) generation: Option<u32>,
    pub(super) generation_life: Option<Hex128>,
    pub(super) blocks: Option<usize>,
    pub(super) contents: Option<Hex128>,
    pub(super) is_complete: bool,
}

/// Which count of which life of the cache.
pub(super) type Count = (u64, u32, Hex128);

impl Row {
    /// Which count the state is in; `None` while there is none.
    pub(super) fn count(&self) -> Option<Count> {
        Some((self.incarnation?, self.generation?, self.generation_life?))
    }
}

/// One look.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) gateway: String,
    /// When the answer was here.
    pub(super) at: Instant,
    pub(super) row: Row,
    /// All blocks, where they were asked for and came in one page.
    pub(super) blocks: Option<Vec<BlockHash>>,
}

/// Everything that was seen; looking ends when it is dropped.
pub(super) struct Watch {
    looks: Arc<Mutex<Vec<Look>>>,
    tasks: JoinSet<()>,
}

/// A gateway's feeds now.
pub(super) async fn feeds(client: &Client, admin: &str) -> Result<Vec<Row>, String> {
    let page = client.page(&format!("{admin}/feeds"), PAGE_MAX).await?;
    serde_json::from_str(&page).map_err(|why| format!("{admin}/feeds has another form: {why}"))
}

impl Watch {
    /// Looks at these gateways (name and admin address) from now on.
    pub(super) fn start(client: &Arc<Client>, gateways: impl Iterator<Item = (String, String)>) -> Self {
        let looks: Arc<Mutex<Vec<Look>>> = Arc::default();
        let mut tasks = JoinSet::new();
        for (name, admin) in gateways {
            tasks.spawn(watch(Arc::clone(client), name, admin, Arc::clone(&looks)));
        }
        Self { looks, tasks }
    }

    /// Ends; gives all looks in the order of their time.
    pub(super) fn finish(mut self) -> Vec<Look> {
        self.tasks.abort_all();
        let mut looks = std::mem::take(&mut *self.looks.lock().unwrap_or_else(PoisonError::into_inner));
        looks.sort_by_key(|look| look.at);
        looks
    }
}

async fn watch(client: Arc<Client>, gateway: String, admin: String, looks: Arc<Mutex<Vec<Look>>>) {
    let mut seen: HashMap<String, Row> = HashMap::new();
    loop {
        for row in feeds(&client, &admin).await.unwrap_or_default() {
            let (at, worker) = (Instant::now(), row.worker.clone());
            if seen.get(&worker) == Some(&row) {
                continue;
            }
            let mut found = vec![Look { gateway: gateway.clone(), at, row: row.clone(), blocks: None }];
            if row.position.is_some() && !row.is_complete {
                found.extend(stored(&client, &gateway, &admin, &row).await);
            }
            looks.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
            seen.insert(worker, row);
        }
        sleep(LOOK_EVERY).await;
    }
}

/// The blocks behind a row, or behind what has become of it meanwhile.
async fn stored(client: &Client, gateway: &str, admin: &str, row: &Row) -> Option<Look> {
    let page = client.page(&format!("{admin}/mesh/state/stored?worker={}", row.worker), PAGE_MAX).await.ok()?;
    let page: StoredPage = serde_json::from_str(&page).ok()?;
    let feed: FeedRow = page.feed.filter(|_| page.next.is_none())?;
    let blocks = page.sets.iter().flat_map(|set| set.hashes.iter().map(|hash| BlockHash(hash.0)));
    let row = Row {
        incarnation: Some(feed.incarnation.counter),
        position: Some(feed.position),
        is_last: feed.is_last,
        generation: Some(feed.generation),
        generation_life: Some(feed.generation_life),
        blocks: usize::try_from(feed.blocks).ok(),
        contents: Some(feed.contents),
        is_complete: feed.is_complete,
        ..row.clone()
    };
    Some(Look { gateway: gateway.to_owned(), at: Instant::now(), row, blocks: Some(blocks.collect()) })
}
