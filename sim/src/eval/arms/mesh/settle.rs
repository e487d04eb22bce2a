//! What a mesh cost and came to, after the last answer.
//!
//! Not here: playing (`mesh`).

use super::gateway::Gateway;
use super::{LEAD_US, MeshRouter, SETTLE_US};

/// What the mesh cost and came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeshFigures {
    /// Bytes that a gateway sent in a second, on average.
    pub bytes_per_gateway_per_s: f64,
    /// Frames that a gateway sent in a second, on average.
    pub frames_per_gateway_per_s: f64,
    /// From a placement's stamp to its being applied at another gateway, in milliseconds: half of them.
    pub propagation_p50_ms: u64,
    /// The same for 99 %.
    pub propagation_p99_ms: u64,
    /// Holders on which two gateways differ at the end.
    pub diverged_holders: usize,
    /// Blocks that each gateway's replica has placed or stored at the end.
    pub blocks: u64,
    /// Bytes of ops that a gateway retains at the end, the largest.
    pub log_bytes: u64,
}

impl MeshRouter {
    /// Lets the mesh settle, and says what it came to.
    pub(super) fn settle(&mut self) -> MeshFigures {
        let lasted_s = self.now_us.saturating_sub(LEAD_US).max(1) as f64 / 1e6;
        let count = self.gateways.len() as f64;
        let (bytes, frames) = self
            .gateways
            .iter()
            .fold((0, 0), |(bytes, frames), gateway| (bytes + gateway.sent_bytes, frames + gateway.sent_frames));
        self.run_until(self.now_us + SETTLE_US);
        let mut delays: Vec<u64> = self.gateways.iter().flat_map(|gateway| gateway.delays_ms.iter().copied()).collect();
        delays.sort_unstable();
        let rank =
            |percent: usize| delays.get((delays.len() * percent / 100).min(delays.len().saturating_sub(1))).copied();
        MeshFigures {
            bytes_per_gateway_per_s: bytes as f64 / count / lasted_s,
            frames_per_gateway_per_s: frames as f64 / count / lasted_s,
            propagation_p50_ms: rank(50).unwrap_or(0),
            propagation_p99_ms: rank(99).unwrap_or(0),
            diverged_holders: self
                .gateways
                .iter()
                .skip(1)
                .map(|other| self.gateways[0].differing_holders(other))
                .max()
                .unwrap_or(0),
            blocks: self.gateways.iter().map(Gateway::blocks).max().unwrap_or(0),
            log_bytes: self.gateways.iter().map(|gateway| gateway.log_bytes(self.now_us)).max().unwrap_or(0),
        }
    }
}
