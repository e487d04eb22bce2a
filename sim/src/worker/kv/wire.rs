//! Batches as engines write them: vLLM's map form (0.24 and later), its array form (0.20 to 0.23) and SGLang's.
//!
//! Only the form differs: SGLang's own cache would not report copies, this engine does under every form.
//!
//! Not here: topic and sequence number (`line`), reading (`covey_gateway_plugin::ingest`).

use clap::ValueEnum;
use rmp::encode::{self, ByteBuf};

use crate::engine::{KvEvent, KvStored};

/// Writing to memory fails never, and its error type says so.
const INFALLIBLE: &str = "writing to memory cannot fail";

/// How batches and replays are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Wire {
    /// vLLM 0.26 and later: events are maps, replies to a replay have a topic
    #[default]
    VllmMap,
    /// vLLM 0.23: events are arrays, replies to a replay have no topic
    VllmArray,
    /// SGLang: arrays, an event for each page, signed hashes, the salt as a map at the end
    Sglang,
}

/// What every batch of an engine has in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) wire: Wire,
    /// Data-parallel rank.
    pub(super) rank: u32,
    /// Tokens in a block.
    pub(super) block_tokens: u32,
}

impl Head {
    /// The payload of a batch that was made at `ts`, in seconds of Unix time by the engine's clock.
    pub(super) fn encode(&self, ts: f64, events: &[KvEvent]) -> Vec<u8> {
        let mut out = Out(ByteBuf::new());
        out.array(3);
        encode::write_f64(&mut out.0, ts).expect(INFALLIBLE);
        let pages = |event: &KvEvent| match event {
            KvEvent::Stored(stored) if self.wire == Wire::Sglang => stored.hashes.len(),
            KvEvent::Stored(_) | KvEvent::Removed(_) | KvEvent::Cleared => 1,
        };
        out.array(events.iter().map(pages).sum());
        for event in events {
            match (self.wire, event) {
                (Wire::VllmMap, event) => self.map(&mut out, event),
                (Wire::VllmArray, event) => self.positional(&mut out, event),
                (Wire::Sglang, event) => self.pages(&mut out, event),
            }
        }
        out.number(u64::from(self.rank));
        out.0.into_vec()
    }

    fn map(&self, out: &mut Out, event: &KvEvent) {
        match event {
            KvEvent::Stored(stored) => {
                out.map(11);
                out.named("type").text("BlockStored");
                out.named("block_hashes").hashes(&stored.hashes);
                out.named("parent_block_hash").number_or_nil(stored.parent);
                out.named("token_ids").tokens(&stored.tokens);
                out.named("block_size").number(u64::from(self.block_tokens));
                out.named("lora_id").nil();
                out.named("medium").text("GPU");
                out.named("lora_name").nil();
                out.named("extra_keys").extra_keys(stored);
                out.named("group_idx").number(0);
                out.named("kv_cache_spec_kind").text("full_attention");
            }
            KvEvent::Removed(hash) => {
                out.map(4);
                out.named("type").text("BlockRemoved");
                out.named("block_hashes").hashes(&[*hash]);
                out.named("medium").text("GPU");
                out.named("group_idx").number(0);
            }
            KvEvent::Cleared => {
                out.map(1);
                out.named("type").text("AllBlocksCleared");
            }
        }
    }

    fn positional(&self, out: &mut Out, event: &KvEvent) {
        match event {
            KvEvent::Stored(stored) => {
                out.array(11);
                out.text("BlockStored");
                out.hashes(&stored.hashes);
                out.number_or_nil(stored.parent);
                out.tokens(&stored.tokens);
                out.number(u64::from(self.block_tokens));
                out.nil();
                out.text("GPU");
                out.nil();
                out.extra_keys(stored);
                out.number(0);
                out.text("full_attention");
            }
            KvEvent::Removed(hash) => {
                out.array(4);
                out.text("BlockRemoved");
                out.hashes(&[*hash]);
                out.text("GPU");
                out.number(0);
            }
            KvEvent::Cleared => out.cleared(),
        }
    }

    fn pages(&self, out: &mut Out, event: &KvEvent) {
        match event {
            KvEvent::Stored(stored) => {
                let mut parent = stored.parent;
                let pages = stored.tokens.chunks(self.block_tokens as usize);
                for (&hash, tokens) in stored.hashes.iter().zip(pages) {
                    self.page(out, hash, parent.replace(hash), tokens, stored.salt.as_deref());
                }
            }
            KvEvent::Removed(hash) => {
                out.array(3);
                out.text("BlockRemoved");
                out.array(1);
                out.signed(*hash);
                out.text("GPU");
            }
            KvEvent::Cleared => out.cleared(),
        }
    }

    fn page(&self, out: &mut Out, hash: u64, parent: Option<u64>, tokens: &[u32], salt: Option<&str>) {
        out.array(7 + usize::from(salt.is_some()));
        out.text("BlockStored");
        out.array(1);
        out.signed(hash);
        match parent {
            Some(parent) => out.signed(parent),
            None => out.nil(),
        }
        out.tokens(tokens);
        out.number(u64::from(self.block_tokens));
        out.nil();
        out.text("GPU");
        if let Some(salt) = salt {
            out.map(1);
            out.named("cache_salt").text(salt);
        }
    }
}

/// MessagePack, each number as short as it gets, as msgspec writes it.
struct Out(ByteBuf);

impl Out {
    fn array(&mut self, items: usize) {
        encode::write_array_len(&mut self.0, small(items)).expect(INFALLIBLE);
    }

    fn map(&mut self, items: usize) {
        encode::write_map_len(&mut self.0, small(items)).expect(INFALLIBLE);
    }

    fn text(&mut self, text: &str) {
        encode::write_str(&mut self.0, text).expect(INFALLIBLE);
    }

    fn named(&mut self, name: &str) -> &mut Self {
        self.text(name);
        self
    }

    fn nil(&mut self) {
        encode::write_nil(&mut self.0).expect(INFALLIBLE);
    }

    fn number(&mut self, number: u64) {
        encode::write_uint(&mut self.0, number).expect(INFALLIBLE);
    }

    fn signed(&mut self, bits: u64) {
        encode::write_sint(&mut self.0, bits.cast_signed()).expect(INFALLIBLE);
    }

    fn number_or_nil(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.number(number),
            None => self.nil(),
        }
    }

    fn hashes(&mut self, hashes: &[u64]) {
        self.array(hashes.len());
        hashes.iter().for_each(|&hash| self.number(hash));
    }

    fn tokens(&mut self, tokens: &[u32]) {
        self.array(tokens.len());
        tokens.iter().for_each(|&id| self.number(u64::from(id)));
    }

    /// One item a block; the salt is in the first block of a prompt alone.
    fn extra_keys(&mut self, stored: &KvStored) {
        self.array(stored.hashes.len());
        for nth in 0..stored.hashes.len() {
            match stored.salt.as_deref().filter(|_| nth == 0 && stored.parent.is_none()) {
                Some(salt) => {
                    self.array(1);
                    self.text(salt);
                }
                None => self.nil(),
            }
        }
    }

    fn cleared(&mut self) {
        self.array(1);
        self.text("AllBlocksCleared");
    }
}

fn small(items: usize) -> u32 {
    u32::try_from(items).expect("a step has far fewer events than 4 billion")
}
