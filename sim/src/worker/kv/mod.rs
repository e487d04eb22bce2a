//! The engine's KV events on real ZMQ sockets, in the forms of vLLM and SGLang, with faults on request.
//!
//! Not here: what the events are (`engine`), HTTP (`worker`).

mod fault;
mod line;
mod publisher;
mod replay;
mod truth;
mod wire;

pub(crate) mod payload;

use bytes::Bytes;
use clap::Args;

pub(super) use fault::{Fault, FaultKind};
use publisher::PublisherConfig;
pub(super) use publisher::{Order, Publisher};
pub(super) use truth::json as truth_json;
use wire::Head;
pub use wire::Wire;

/// How often to look for free ports that follow one another.
const FREE_PORTS_TRIES: u32 = 32;

/// What `covey-sim worker` is told about its KV events.
#[derive(Args, Clone, Debug)]
pub struct KvArgs {
    /// Address to publish KV events on, `tcp://HOST:PORT`: `*` is every interface, port 0 takes a free one, which a line
    /// of output names; the rank is added to any other port, and with --data-parallel-size to that one too. Without it
    /// nothing is published
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub kv_events: Option<String>,
    /// Address to serve replays of KV events on, as `--kv-events`. Without it there is no replay
    #[arg(long, value_name = "ADDRESS", value_parser = address, requires = "kv_events")]
    pub replay: Option<String>,
    /// Topic of the events
    #[arg(long, default_value = "")]
    pub kv_topic: String,
    /// Form of the events
    #[arg(long, value_enum, default_value_t = Wire::VllmMap)]
    pub wire: Wire,
    /// Batches kept for replays
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub replay_steps: u32,
    /// Milliseconds by which publication lags behind the engine
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=600_000))]
    pub kv_delay_ms: u32,
    /// Data-parallel rank: written into each batch and added to the ports
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_023))]
    pub dp_rank: u32,
}

impl Default for KvArgs {
    fn default() -> Self {
        Self {
            kv_events: None,
            replay: None,
            kv_topic: String::new(),
            wire: Wire::VllmMap,
            replay_steps: 10_000,
            kv_delay_ms: 0,
            dp_rank: 0,
        }
    }
}

impl KvArgs {
    /// Binds the sockets of so many ranks, those of each on the ports after the one before; none when no events are wanted.
    ///
    /// # Errors
    /// When an address cannot be bound, in words for a terminal.
    pub(super) async fn bind(&self, block_tokens: u32, ranks: u32) -> Result<Vec<Publisher>, String> {
        let Some(events) = &self.kv_events else { return Ok(Vec::new()) };
        let is_free = [Some(events), self.replay.as_ref()].into_iter().flatten().any(|address| address.ends_with(":0"));
        for _ in 1..FREE_PORTS_TRIES {
            match self.bind_all(block_tokens, ranks, events).await {
                // The port that was free may have none behind it.
                Err(_) if is_free && ranks > 1 => {}
                bound => return bound,
            }
        }
        self.bind_all(block_tokens, ranks, events).await
    }

    async fn bind_all(&self, block_tokens: u32, ranks: u32, events: &str) -> Result<Vec<Publisher>, String> {
        let (events, replay) = (of_rank(events, self.dp_rank)?, self.replay.as_ref());
        let replay = replay.map(|replay| of_rank(replay, self.dp_rank)).transpose()?;
        let first = self.bind_one(block_tokens, 0, &events, replay.as_deref()).await?;
        let (events, replay) = (first.events.clone(), first.replay.clone());
        let mut bound = vec![first];
        for rank in 1..ranks {
            let replay = replay.as_ref().map(|replay| of_rank(replay, rank)).transpose()?;
            bound.push(self.bind_one(block_tokens, rank, &of_rank(&events, rank)?, replay.as_deref()).await?);
        }
        Ok(bound)
    }

    async fn bind_one(
        &self,
        block_tokens: u32,
        rank: u32,
        events: &str,
        replay: Option<&str>,
    ) -> Result<Publisher, String> {
        let config = PublisherConfig {
            head: Head { wire: self.wire, rank: self.dp_rank + rank, block_tokens },
            topic: Bytes::from(self.kv_topic.clone()),
            delay_us: u64::from(self.kv_delay_ms) * 1_000,
            replay_steps: self.replay_steps as usize,
        };
        Publisher::bind(config, events, replay).await
    }
}

/// The address of a rank, given that of rank 0.
fn of_rank(address: &str, rank: u32) -> Result<String, String> {
    let (host, port) = split(address)?;
    let port = match port {
        0 => 0,
        port => u32::from(port) + rank,
    };
    let port = u16::try_from(port).map_err(|_| format!("{address}: port and rank exceed 65535"))?;
    Ok(format!("tcp://{}:{port}", if host == "*" { "0.0.0.0" } else { host }))
}

/// An address as it is, if it is one.
fn address(text: &str) -> Result<String, String> {
    split(text).map(|_| text.to_owned())
}

fn split(address: &str) -> Result<(&str, u16), String> {
    let parts = address.strip_prefix("tcp://").and_then(|rest| rest.rsplit_once(':'));
    let parts = parts.filter(|(host, _)| !host.is_empty()).and_then(|(host, port)| Some((host, port.parse().ok()?)));
    parts.ok_or_else(|| format!("{address} is no address like tcp://127.0.0.1:5557 or tcp://*:0"))
}

#[cfg(test)]
mod tests;
