//! A node's view of itself and its peers, as plain data for `/mesh`, `covey status`, metrics and tests.
//!
//! Not here: the verdict over several gateways (the reader forms it). Honest by construction (I12): what the node cannot
//! know is `None`, never a default.

use serde::{Deserialize, Serialize};

/// How far a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It has merged nobody's state yet and has not decided that it is alone.
    #[default]
    Joining,
    /// Its vector describes its state exactly.
    Clean,
    /// It merged state its vector does not cover yet.
    Dirty,
}

/// A node at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The gateway's name.
    pub name: String,
    /// Its life, 32 hex digits.
    pub life: String,
    /// How far it is.
    pub phase: Phase,
    /// Root digest, 32 hex digits; only a clean replica has one.
    pub digest: Option<String>,
    /// Hash of the vector, 16 hex digits: equal vectors have equal hashes.
    pub vector: String,
    /// Clock state: `good`, `ahead`, `behind`.
    pub clock: String,
    /// Milliseconds ahead of the live members' median; `None` when nobody's clock is known.
    pub clock_ahead_ms: Option<i64>,
    /// Workers recorded (removed ones included).
    pub workers: u64,
    /// Holders with coverage.
    pub holders: u64,
    /// Blocks covered, summed over holders.
    pub blocks: u64,
    /// Ops applied in this life, all logs.
    pub ops_applied: u64,
    /// Ops received but held: out of order, unresolved or ahead of the clock.
    pub ops_held: u64,
    /// Bytes of retained logs.
    pub log_bytes: u64,
    /// Lives the vector has an entry for.
    pub lives: u64,
    /// Lives closed here that are not retired yet.
    pub closing: u64,
    /// Retired lives that are still remembered.
    pub retired: u64,
    /// Whether a repair session is running here as receiver.
    pub repairing: bool,
    /// Why a mesh refuses this gateway, while it has not joined one.
    #[serde(default)]
    pub refused: Option<String>,
    /// Whether it was told to expect peers and has met none in this life.
    #[serde(default)]
    pub has_met_nobody: bool,
    /// Every gateway known besides this one, one entry per name (its newest life).
    pub peers: Vec<PeerStatus>,
}

/// A peer as the node sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// Its life, 32 hex digits.
    pub life: String,
    /// Whether frames can be sent to it.
    pub linked: bool,
    /// Whether it is a live member as far as the membership service knows; `None` when that never said.
    pub member: Option<bool>,
    /// Whether it said goodbye.
    pub left: bool,
    /// Milliseconds since its last exchange; `None` before the first.
    pub heard_ms: Option<u64>,
    /// How far it says it is; `None` before its first exchange.
    pub phase: Option<Phase>,
    /// The digest it last advertised; only clean replicas do.
    pub digest: Option<String>,
    /// The hash of its vector at that exchange.
    pub vector: Option<String>,
    /// Ops it has applied that this node has not.
    pub lag_ops: Option<u64>,
    /// Feeds of which it has a later state than this node.
    #[serde(default)]
    pub lag_feeds: Option<u64>,
    /// Ops this node has applied that it had not at its last exchange.
    pub their_lag_ops: Option<u64>,
    /// Of those, the ones it had received and held at that exchange: nobody needs to send them again.
    pub their_held_ops: Option<u64>,
    /// For how long this node has lacked something that the peer is known to have, milliseconds; 0 when it lacks nothing.
    pub lag_ms: Option<u64>,
    /// For how long, at its last exchange, the peer had lacked something that this node had applied, milliseconds.
    pub their_lag_ms: Option<u64>,
    /// Round trip of the last exchange in microseconds, hold time excluded.
    pub rtt_us: Option<u64>,
    /// Its clock against this node's, milliseconds (positive: it is ahead).
    pub offset_ms: Option<i64>,
}
