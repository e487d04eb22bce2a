//! The whole of a cache's state as bytes, for the gateway that ingests the same engine next: the same events lead to the
//! same effects there.
//!
//! Not here: position and generation (`intake`). What was counted stays where it was counted.

use std::num::NonZeroU64;

use covey_crdt::hash::BlockHash;
use covey_crdt::lane::LaneId;
use covey_crdt::limits::NAME_BYTES_MAX;

use super::super::bytes::{Reader, RefuseExport, Writer};
use super::super::event::ExtraKey;
use super::copies::{Copies, InLane};
use super::orphans::{ORPHANS_MAX, Orphan};
use super::{BLOCKS_MAX, EngineCache, Known};

/// Bytes of a block at least: hash, three flags.
const BLOCK_BYTES_MIN: usize = 8 + 3;
/// Bytes of an orphan at least: hash, parent, flag, count.
const ORPHAN_BYTES_MIN: usize = 8 + 8 + 1 + 4;

impl EngineCache {
    /// Appends the state. Equal states append equal bytes.
    pub(in crate::ingest) fn export_to(&self, out: &mut Writer) {
        out.text(self.model.as_str());
        out.u64(self.key.id().0);
        out.bool(self.is_whole);
        out.bool(self.reports_reuse);
        out.u32(self.block_tokens().unwrap_or_default());
        out.bool(self.attended.is_some());
        out.u8(self.attended.map_or(0, |lane| lane.0));
        let mut blocks: Vec<(u64, &Known)> = self.blocks.iter().map(|(hash, known)| (*hash, known)).collect();
        blocks.sort_unstable_by_key(|(hash, _)| *hash);
        out.count(blocks.len());
        for (hash, known) in blocks {
            out.u64(hash);
            out.maybe_u64(known.parent);
            out.maybe_u64(known.block.map(|block| block.0));
            let mut copies: Vec<&InLane> = known.copies.iter().collect();
            copies.sort_unstable_by_key(|of| of.lane);
            out.u8(u8::try_from(copies.len()).expect("there are fewer lanes than that"));
            for of in copies {
                out.u8(of.lane.0);
                out.u32(of.sure);
                out.u32(of.doubtful);
            }
        }
        let orphans = self.orphans.sorted();
        out.count(orphans.len());
        for (hash, orphan) in orphans {
            out.u64(hash);
            out.u64(orphan.parent);
            out.maybe_u64(orphan.extra.map(|extra| extra.0.get()));
            out.count(orphan.tokens.len());
            orphan.tokens.iter().for_each(|token| out.u32(*token));
        }
    }

    /// Reads a state of the same model and key; the rules are this cache's own.
    ///
    /// # Errors
    /// [`RefuseExport`].
    pub(in crate::ingest) fn import_from(&self, from: &mut Reader<'_>) -> Result<Self, RefuseExport> {
        let mut cache = Self::new(self.model.clone(), self.key, self.rules);
        if from.text(NAME_BYTES_MAX)? != self.model.as_str() || from.u64()? != self.key.id().0 {
            return Err(RefuseExport::Other);
        }
        let is_whole = from.bool()?;
        cache.reports_reuse = from.bool()?;
        let block_tokens = from.u32()?;
        let (is_attended, lane) = (from.bool()?, LaneId(from.u8()?));
        cache.attended = is_attended.then_some(lane);
        if block_tokens > 0 {
            if self.rules.block_tokens.is_some_and(|tokens| tokens != block_tokens) {
                return Err(RefuseExport::Other);
            }
            cache.learn(block_tokens);
            cache.keyspace().ok_or(RefuseExport::Malformed)?;
        }
        cache.import_blocks(from)?;
        cache.import_orphans(from, block_tokens as usize)?;
        cache.moved.clear();
        if cache.counts.over_bound > 0 {
            return Err(RefuseExport::Malformed);
        }
        cache.is_whole = is_whole;
        Ok(cache)
    }

    fn import_blocks(&mut self, from: &mut Reader<'_>) -> Result<(), RefuseExport> {
        let mut last = None;
        for _ in 0..from.count(BLOCKS_MAX, BLOCK_BYTES_MIN)? {
            let hash = from.u64()?;
            if last.replace(hash).is_some_and(|last| last >= hash) {
                return Err(RefuseExport::Malformed);
            }
            let parent = from.maybe_u64()?;
            let block = from.maybe_u64()?.map(BlockHash);
            let mut copies = Copies::default();
            for _ in 0..from.u8()? {
                let of = InLane { lane: LaneId(from.u8()?), sure: from.u32()?, doubtful: from.u32()? };
                if !copies.put(of) {
                    return Err(RefuseExport::Malformed);
                }
            }
            for lane in copies.lanes() {
                self.hold(block, lane);
            }
            self.blocks.insert(hash, Known { block, parent, copies });
        }
        Ok(())
    }

    fn import_orphans(&mut self, from: &mut Reader<'_>, block_tokens: usize) -> Result<(), RefuseExport> {
        for _ in 0..from.count(ORPHANS_MAX, ORPHAN_BYTES_MIN)? {
            let (hash, parent) = (from.u64()?, from.u64()?);
            let extra = from.maybe_u64()?.map(|extra| NonZeroU64::new(extra).ok_or(RefuseExport::Malformed));
            let extra = extra.transpose()?.map(ExtraKey);
            let count = from.count(block_tokens, 4)?;
            let tokens = (0..count).map(|_| from.u32()).collect::<Result<Box<[u32]>, _>>()?;
            let is_unnamed = self.blocks.get(&hash).is_some_and(|known| known.block.is_none());
            if !is_unnamed || count != block_tokens || !self.orphans.insert(hash, Orphan { parent, tokens, extra }) {
                return Err(RefuseExport::Malformed);
            }
        }
        Ok(())
    }

    /// The whole state as bytes, versioned by [`EXPORT_VERSION`].
    #[must_use]
    pub fn export(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u8(EXPORT_VERSION);
        self.export_to(&mut out);
        out.finish()
    }

    /// Replaces this cache's state by an exported one of the same model and key.
    ///
    /// # Errors
    /// [`RefuseExport`]; nothing is changed then.
    pub fn import(&mut self, bytes: &[u8]) -> Result<(), RefuseExport> {
        let mut from = Reader::new(bytes);
        let version = from.u8()?;
        if version != EXPORT_VERSION {
            return Err(RefuseExport::Version { version });
        }
        let mut cache = self.import_from(&mut from)?;
        from.end()?;
        cache.counts = self.counts;
        *self = cache;
        Ok(())
    }
}

/// The version of exported state.
pub const EXPORT_VERSION: u8 = 1;
