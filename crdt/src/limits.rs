//! Every bound of the replicated state, in one place and tied together at compile time.
//!
//! Not here: queue and frame bounds (those belong to the mesh). Upholds I9.

/// Bytes in the text of a worker id, gateway name, model or token.
pub const NAME_BYTES_MAX: usize = 256;
/// Blocks in one chain: half of agentic requests exceed 5,000 blocks, so this is generous.
pub const CHAIN_BLOCKS_MAX: u32 = 131_072;
/// Blocks in one run of the chain store. A longer chain is several runs in a row.
pub const RUN_BLOCKS_MAX: u32 = 4_096;
/// Every how many blocks a place inside a chain can be named without being a tip.
pub const ANCHOR_BLOCKS: u32 = 16;
/// Blocks a holder may have when its engine's capacity is unknown. Labelled wherever it is used.
pub const CAPACITY_BLOCKS_UNKNOWN: u32 = 1 << 24;
/// Bytes of text taken as one token when a byte keyspace is measured against a token capacity (ruling R12).
pub const BYTES_PER_TOKEN: u64 = 4;
/// Lanes of one worker.
pub const LANES_MAX: usize = 64;
/// Workers one replica records. Ops about further workers are refused and counted.
pub const WORKERS_MAX: usize = 4_096;
/// Keyspaces one worker may have coverage in.
pub const KEYSPACES_PER_WORKER_MAX: usize = 64;
/// Blocks in one worker's stored coverage, all its caches together.
pub const STORED_BLOCKS_MAX: usize = 1 << 20;
/// Block hashes in one op of a feed; a larger batch of an engine's is several ops.
pub const HASHES_PER_OP_MAX: usize = 4_096;
/// Units in one block.
pub const BLOCK_UNITS_MAX: u32 = 65_536;
/// Lives whose logs a replica keeps a vector entry for; the joiner after that is refused, by name.
pub const LIVES_MAX: usize = 256;
/// Bytes of one op: a frame holds at least one, with the content of its chain.
pub const OP_BYTES_MAX: usize = 64 * 1024;

const _: () = assert!(RUN_BLOCKS_MAX.is_multiple_of(ANCHOR_BLOCKS));
const _: () = assert!(CHAIN_BLOCKS_MAX.is_multiple_of(RUN_BLOCKS_MAX));
const _: () = assert!(CAPACITY_BLOCKS_UNKNOWN > CHAIN_BLOCKS_MAX);
