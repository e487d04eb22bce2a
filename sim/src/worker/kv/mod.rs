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

/// What `covey-sim worker` is told about its KV events.
#[derive(Args, Clone, Debug)]
pub struct KvArgs {
    /// Address to publish KV events on, `tcp://HOST:PORT`: `*` is every interface, port 0 takes a free one, which a line
    /// of output names; the rank is added to any other port. Without it nothing is published
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
    /// Binds the sockets; `None` when no events are wanted.
    ///
    /// # Errors
    /// When an address cannot be bound, in words for a terminal.
    pub(super) async fn bind(&self, block_tokens: u32) -> Result<Option<Publisher>, String> {
        let Some(events) = &self.kv_events else { return Ok(None) };
        let config = PublisherConfig {
            head: Head { wire: self.wire, rank: self.dp_rank, block_tokens },
            topic: Bytes::from(self.kv_topic.clone()),
            delay_us: u64::from(self.kv_delay_ms) * 1_000,
            replay_steps: self.replay_steps as usize,
        };
        let events = self.of_rank(events)?;
        let replay = self.replay.as_ref().map(|replay| self.of_rank(replay)).transpose()?;
        Publisher::bind(config, &events, replay.as_deref()).await.map(Some)
    }

    /// The address of this rank.
    fn of_rank(&self, address: &str) -> Result<String, String> {
        let (host, port) = split(address)?;
        let port = match port {
            0 => 0,
            port => u32::from(port) + self.dp_rank,
        };
        let port = u16::try_from(port).map_err(|_| format!("{address}: port and rank exceed 65535"))?;
        Ok(format!("tcp://{}:{port}", if host == "*" { "0.0.0.0" } else { host }))
    }
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
