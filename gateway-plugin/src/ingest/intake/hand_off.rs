//! The state of an intake as bytes, for the gateway that ingests the same engine next.
//!
//! Not here: how they travel. A state is taken only when it is of the same worker and incarnation, and further than ours.

use covey_crdt::id::{Incarnation, Token};
use covey_crdt::limits::NAME_BYTES_MAX;
use covey_crdt::stored::Generation;
use covey_mesh::input::MonoTime;

use super::super::bytes::{Reader, RefuseExport, Writer};
use super::super::cache::{EXPORT_VERSION, EngineCache};
use super::buffer::PRINTS_MAX;
use super::machine::Intake;
use super::{Note, Why};

/// Prints handed over: enough to compare with what a receiver has kept.
const PRINTS_HANDED: usize = 256;
/// Bytes of a print.
const PRINT_BYTES: usize = 16;

struct HandedOff {
    incarnation: Incarnation,
    generation: Generation,
    position: u64,
    rank: Option<u32>,
    owes_past: bool,
    prints: Vec<(u64, u64)>,
    cache: EngineCache,
}

impl Intake {
    /// The whole state, versioned; `None` while there is none to go on from, or it is not proven to be of the engine life
    /// that is there now: whoever takes it goes on from it without asking the engine.
    #[must_use]
    pub fn export(&self) -> Option<Vec<u8>> {
        let is_outrun = self.waiting.is_some_and(|waiting| waiting.why == Some(Why::Outrun));
        let incarnation = self.incarnation.as_ref().filter(|_| self.is_open && self.is_verified && !is_outrun)?;
        let mut out = Writer::default();
        out.u8(EXPORT_VERSION);
        out.text(self.config.worker.name());
        out.u32(u32::from(self.config.worker.rank()));
        out.u64(incarnation.counter);
        out.text(incarnation.token.as_str());
        out.u32(self.generation.counter);
        out.u128(self.generation.life);
        out.u64(self.position);
        out.maybe_u64(self.rank.map(u64::from));
        out.bool(self.owes_past);
        let prints = self.prints.latest(PRINTS_HANDED);
        out.count(prints.len());
        for (seq, print) in prints {
            out.u64(seq);
            out.u64(print);
        }
        self.cache.export_to(&mut out);
        Some(out.finish())
    }

    fn import(&self, bytes: &[u8]) -> Result<HandedOff, RefuseExport> {
        let mut from = Reader::new(bytes);
        let version = from.u8()?;
        if version != EXPORT_VERSION {
            return Err(RefuseExport::Version { version });
        }
        let worker = (from.text(NAME_BYTES_MAX)?, from.u32()?);
        if worker != (self.config.worker.name(), u32::from(self.config.worker.rank())) {
            return Err(RefuseExport::Other);
        }
        let counter = from.u64()?;
        let token = from.text(NAME_BYTES_MAX)?;
        let token =
            if token.is_empty() { Token::removed() } else { Token::new(token).map_err(|_| RefuseExport::Malformed)? };
        let generation = Generation { counter: from.u32()?, life: from.u128()? };
        let position = from.u64()?;
        let rank =
            from.maybe_u64()?.map(|rank| u32::try_from(rank).map_err(|_| RefuseExport::Malformed)).transpose()?;
        let owes_past = from.bool()?;
        let count = from.count(PRINTS_MAX, PRINT_BYTES)?;
        let prints = (0..count).map(|_| Ok((from.u64()?, from.u64()?))).collect::<Result<Vec<_>, RefuseExport>>()?;
        let follows = prints.windows(2).all(|two| two[0].0.checked_add(1) == Some(two[1].0));
        if !follows || prints.last().is_some_and(|(seq, _)| seq.checked_add(1) != Some(position)) {
            return Err(RefuseExport::Malformed);
        }
        let cache = self.cache.import_from(&mut from)?;
        from.end()?;
        let incarnation = Incarnation { counter, token };
        Ok(HandedOff { incarnation, generation, position, rank, owes_past, prints, cache })
    }

    pub(super) fn on_handed_off(&mut self, now: MonoTime, bytes: Option<&[u8]>) {
        let Some(waiting) = self.waiting.take() else { return };
        let Some(bytes) = bytes else { return self.alone_after(now, waiting) };
        match self.import(bytes) {
            Ok(state) if self.is_further(&state) => self.adopt(now, state),
            Ok(_) | Err(_) => {
                self.counters.hand_offs_refused += 1;
                self.outputs.push_back(super::Output::Note(Note::HandOffRefused));
                self.alone_after(now, waiting);
            }
        }
    }

    /// Whether a state is of this incarnation, and leads further than what is here and than the replica's feed.
    fn is_further(&self, state: &HandedOff) -> bool {
        let is_same_life = self.incarnation.as_ref() == Some(&state.incarnation);
        let feed = self.feed.as_ref().filter(|feed| feed.key.incarnation == state.incarnation);
        let is_current = feed.is_none_or(|feed| feed.key.generation <= state.generation);
        let ours = self.is_open.then_some((self.generation, self.position));
        is_same_life && is_current && ours.is_none_or(|ours| ours < (state.generation, state.position))
    }

    fn adopt(&mut self, now: MonoTime, state: HandedOff) {
        self.counters.hand_offs += 1;
        let HandedOff { incarnation: _, generation, position, rank, owes_past, prints, cache } = state;
        self.owes_past = owes_past;
        (self.generation, self.position, self.cache) = (generation, position, cache);
        self.rank = self.config.rank.or(rank);
        self.prints.clear();
        prints.into_iter().for_each(|(seq, print)| self.prints.push(seq, print));
        // What is kept was heard since the connection stands, so it shows whether the state is of that engine life; where
        // nothing was heard, the next check shows it.
        (self.is_open, self.is_verified) = (true, self.is_connected);
        self.asking = None;
        self.outputs.push_back(super::Output::Note(Note::HandedOff { position }));
        self.quiet_from(now);
        self.drain(now);
    }
}
