//! Beginning a count, and beginning it anew.
//!
//! A state that is the engine's from its first batch on is the same wherever it is made, so it needs no generation of its
//! own. Everything else (a late start, a gap, a restart that has no incarnation yet) is opened under this gateway's life, and
//! what it cannot hold for sure it does not hold: claiming too much is worse than claiming too little.

use covey_crdt::stored::Generation;
use covey_mesh::input::MonoTime;

use super::super::cache::EngineCache;
use super::batch::Batch;
use super::machine::Intake;
use super::{FeedView, Note, Output, Why};

impl Intake {
    /// The largest generation of the present incarnation that is known.
    fn largest(&self) -> Generation {
        let feed = self.feed.as_ref().filter(|feed| Some(&feed.key.incarnation) == self.incarnation.as_ref());
        feed.map_or(self.generation, |feed| feed.key.generation.max(self.generation))
    }

    /// Begins at a position with nothing: all there was, if the position is the engine's first.
    pub(super) fn open_at(&mut self, position: u64, is_first: bool) {
        self.position = position;
        self.prints.clear();
        if is_first {
            self.cache = EngineCache::new(self.config.model.clone(), self.config.key, self.config.rules);
        } else {
            self.cache.miss();
        }
        (self.is_open, self.is_verified) = (true, true);
        if is_first && self.largest() == Generation::default() {
            return self.publish(&[], true);
        }
        self.open_next(if is_first { Why::Recovered } else { Why::Late });
    }

    /// Opens the next generation with what is held, where it is.
    pub(super) fn open_next(&mut self, why: Why) {
        self.generation = self.largest().next(self.config.life);
        self.counters.generations += 1;
        self.outputs.push_back(Output::Note(Note::Generation { why, position: self.position }));
        let contents = self.cache.contents();
        self.publish(&contents, true);
    }

    /// Opens the next generation elsewhere in the stream.
    pub(super) fn jump_to(&mut self, position: u64, why: Why) {
        self.position = position;
        self.prints.clear();
        self.open_next(why);
    }

    /// The engine's numbers started anew: what was known is of a life that is over.
    pub(super) fn restart(&mut self, now: MonoTime, batch: Option<Batch>) {
        self.counters.restarts += 1;
        self.outputs.extend([Output::Reset, Output::Probe]);
        self.forget();
        (self.is_open, self.is_verified) = (true, true);
        self.jump_to(0, Why::Restart);
        self.ask(now, 0);
        if let Some(batch) = batch {
            self.arrive(now, batch, false);
        }
    }

    /// How far the replica's feed is. When it is in a larger generation, another gateway opened one, and its state is the one
    /// to go on from.
    pub(super) fn on_feed(&mut self, now: MonoTime, feed: Option<FeedView>) {
        self.feed = feed;
        if self.is_open && self.largest() > self.generation {
            self.wait(now, Some(Why::Outrun));
        }
    }
}
