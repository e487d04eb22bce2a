//! Reading a gateway's replica page by page.
//!
//! What answers is not trusted to end: every page must lead further, there are at most [`PAGES_MAX`], and all pages of one
//! reading together may take as long as one answer.
//!
//! A reading takes longer than a moment, so it keeps both its ends: whatever it holds, the gateway had applied at `first`
//! at least, and at `last` at most.
//!
//! Not here: what two readings mean together (`judge`).

use std::collections::BTreeMap;

use covey_crdt::stamp::{Floor, Rank, Stamp};
use covey_mesh::inspect::{
    EndsRow, Hex64, Hex128, HolderPage, IncarnationRow, Moment, PAGE_BLOCKS, StatePage, WorkerRow,
};

use crate::admin::client::{AdminClient, AskError};
use crate::admin::state::{HolderQuery, StateQuery};

/// Blocks read of one holder at most; a larger one is compared by its digest alone.
const BLOCKS_MAX: usize = 1 << 20;
/// Pages of one reading at most: twice those that so many blocks fill, since what is touched meanwhile comes again.
const PAGES_MAX: usize = 2 * BLOCKS_MAX / PAGE_BLOCKS;
/// Times a reading is begun again because the gateway or the worker began a new life in between.
const TRIES: usize = 3;

/// A worker: its id or URL, and its rank.
pub(super) type WorkerName = (String, u16);

/// Which holder: its worker, and its id among the worker's.
pub(super) type HolderName = (WorkerName, Hex64);

/// A gateway's state without its blocks.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) first: Moment,
    pub(super) last: Moment,
    pub(super) ends: EndsRow,
    pub(super) workers: BTreeMap<WorkerName, WorkerRow>,
}

/// Stamp and depth by path.
pub(super) type Blocks = BTreeMap<Hex128, (Stamp, u32)>;

/// One holder of a gateway.
#[derive(Clone, Debug)]
pub(super) struct HolderState {
    pub(super) first: Moment,
    pub(super) last: Moment,
    pub(super) incarnation: Option<IncarnationRow>,
    pub(super) floor: Floor,
    pub(super) blocks: Blocks,
    /// Whether there are more blocks than were read.
    pub(super) is_partial: bool,
}

impl HolderState {
    /// Nothing yet, of the holder that `page` is the first of.
    pub(super) fn of(page: &HolderPage) -> Self {
        Self {
            first: page.at.clone(),
            last: page.at.clone(),
            incarnation: page.incarnation.clone(),
            floor: Floor::LOWEST,
            blocks: Blocks::new(),
            is_partial: false,
        }
    }

    /// Takes the next page; `false` when it belongs to another life than those before.
    pub(super) fn take(&mut self, page: HolderPage) -> bool {
        if page.at.life != self.first.life || page.incarnation != self.incarnation {
            return false;
        }
        self.floor = page.floor.map_or(Floor::LOWEST, Rank::from);
        for stretch in page.blocks {
            let stamp = Stamp::from(stretch.stamp);
            for (nth, path) in (0_u32..).zip(stretch.paths) {
                let depth = stretch.from.saturating_add(nth);
                let known = self.blocks.entry(path).or_insert((stamp, depth));
                *known = (*known).max((stamp, depth));
            }
        }
        self.last = page.at;
        true
    }
}

/// The whole state, without blocks.
pub(super) async fn state(client: &AdminClient) -> Result<State, AskError> {
    for _ in 0..TRIES {
        if let Some(state) = client.whole("its state", try_state(client)).await? {
            return Ok(state);
        }
    }
    Err(restless(client))
}

async fn try_state(client: &AdminClient) -> Result<Option<State>, AskError> {
    let mut found: Option<State> = None;
    let (mut query, mut last) = (StateQuery::default(), None);
    for _ in 0..PAGES_MAX {
        let page: StatePage = client.json(&path("/mesh/state", &query)).await?;
        let next = page.workers.last().map(|row| (row.name.clone(), row.rank));
        if page.more && next <= last {
            return Err(endless(client));
        }
        let more = next.filter(|_| page.more);
        last.clone_from(&more);
        let at = page.at;
        let state = found.get_or_insert_with(|| State {
            first: at.clone(),
            last: at.clone(),
            ends: page.ends.unwrap_or_default(),
            workers: BTreeMap::new(),
        });
        if state.first.life != at.life {
            return Ok(None);
        }
        state.last = at;
        state.workers.extend(page.workers.into_iter().map(|row| ((row.name.clone(), row.rank), row)));
        match more {
            Some((name, rank)) => query = StateQuery { worker: Some(name), rank: Some(rank) },
            None => return Ok(found),
        }
    }
    Err(endless(client))
}

/// One holder with its blocks.
pub(super) async fn holder(client: &AdminClient, name: &HolderName) -> Result<HolderState, AskError> {
    for _ in 0..TRIES {
        if let Some(state) = client.whole("a holder", try_holder(client, name)).await? {
            return Ok(state);
        }
    }
    Err(restless(client))
}

async fn try_holder(client: &AdminClient, name: &HolderName) -> Result<Option<HolderState>, AskError> {
    let ((worker, rank), id) = name.clone();
    let mut query = HolderQuery { worker, rank: Some(rank), id, ..HolderQuery::default() };
    let (mut found, mut last): (Option<HolderState>, _) = (None, None);
    for _ in 0..PAGES_MAX {
        let page: HolderPage = client.json(&path("/mesh/state/holder", &query)).await?;
        let next = page.next;
        let state = found.get_or_insert_with(|| HolderState::of(&page));
        if !state.take(page) {
            return Ok(None);
        }
        if next.is_none() || state.blocks.len() >= BLOCKS_MAX {
            state.is_partial = next.is_some();
            return Ok(found);
        }
        let block = next.map(|block| (Stamp::from(block.stamp), block.depth));
        if block <= last {
            return Err(endless(client));
        }
        last = block;
        query = query.after(next);
    }
    Err(endless(client))
}

fn path(path: &str, query: &impl serde::Serialize) -> String {
    let query = serde_json::to_value(query).expect("plain data serializes");
    let mut pairs = url::form_urlencoded::Serializer::new(String::new());
    for (key, value) in query.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        pairs.append_pair(key, value.as_str().map_or_else(|| value.to_string(), str::to_owned).as_str());
    }
    let pairs = pairs.finish();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{pairs}") }
}

fn endless(client: &AdminClient) -> AskError {
    client.foreign("it goes on saying that there is more and does not come to an end".to_owned())
}

fn restless(client: &AdminClient) -> AskError {
    let error =
        format!("it, or a worker, began a new life {TRIES} times while it was read; ask again when it has settled");
    AskError::Refused { admin: client.admin().to_owned(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_what_is_not_asked_is_left_out() {
        assert_eq!(path("/mesh/state", &StateQuery::default()), "/mesh/state");
        let query = StateQuery { worker: Some("http://h:1/?a=b&c".into()), rank: Some(2) };
        assert_eq!(path("/mesh/state", &query), "/mesh/state?worker=http%3A%2F%2Fh%3A1%2F%3Fa%3Db%26c&rank=2");
    }
}
