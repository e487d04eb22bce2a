//! Hashes by which repair speaks of names and content.
//!
//! Names are hashed alike everywhere; content is seeded with the session and the incarnation. Not here: what is compared
//! with what (`outline`).

use std::sync::Arc;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::chain::Chains;
use crate::change::Place;
use crate::digest::Digest;
use crate::id::{Incarnation, WorkerId};
use crate::keyspace::Keyspace;
use crate::lane::LaneId;
use crate::placed::Placed;
use crate::stamp::{Floor, Stamp};
use crate::worker::{Worker, holder_bytes, worker_bytes};

/// The bits of a segment's fingerprint by which a receiver names what it has.
const MEMBER_BITS: u64 = (1 << 40) - 1;

/// Fingerprint of one segment.
pub(crate) fn element(chains: &Chains, seed: u64, stamp: Stamp, place: Place) -> u64 {
    let mut bytes = [0; 40];
    bytes[..24].copy_from_slice(&stamp.to_bytes());
    bytes[24..].copy_from_slice(&chains.tip(place).path.0.to_be_bytes());
    xxh3_64_with_seed(&bytes, seed)
}

/// The bits by which a receiver names a segment it has.
pub(crate) const fn member(element: u64) -> u64 {
    element & MEMBER_BITS
}

/// The seed of a worker's fingerprints in a session.
pub(crate) fn seed(incarnation: &Incarnation, salt: u64) -> u64 {
    xxh3_64_with_seed(&incarnation_bytes(incarnation), salt)
}

/// Hash of an incarnation.
pub(crate) fn incarnation_hash(incarnation: &Incarnation) -> u32 {
    xxh3_64(&incarnation_bytes(incarnation)) as u32
}

/// Hash of a floor.
pub(crate) fn floor_hash(floor: Floor) -> u64 {
    let mut bytes = [0; 28];
    bytes[..24].copy_from_slice(&floor.stamp.to_bytes());
    bytes[24..].copy_from_slice(&floor.depth.to_be_bytes());
    xxh3_64(&bytes)
}

/// Hash of a worker's name.
pub(crate) fn worker_name(worker: &WorkerId) -> u32 {
    xxh3_64(&worker_bytes(worker)) as u32
}

/// Hash of a holder's name.
pub(crate) fn holder_name(worker: &WorkerId, key: &(Arc<Keyspace>, LaneId)) -> u64 {
    xxh3_64(&holder_bytes(worker, &key.0, key.1))
}

/// Fingerprint of a holder's floor and segments.
pub(super) fn whole(seed: u64, placed: &Placed) -> u64 {
    xxh3_64_with_seed(&placed.digest().0.to_be_bytes(), seed)
}

/// Fingerprint of everything of a worker.
pub(super) fn worker_fingerprint(id: &WorkerId, worker: &Worker, salt: u64) -> u64 {
    let mut bytes = worker.record.digest(id).0.to_be_bytes().to_vec();
    for holder in worker.holders.values() {
        let digest = holder.placed.digest();
        if digest != Digest::default() {
            bytes.extend_from_slice(&holder.name.to_be_bytes());
            bytes.extend_from_slice(&digest.0.to_be_bytes());
        }
    }
    xxh3_64_with_seed(&bytes, salt)
}

fn incarnation_bytes(incarnation: &Incarnation) -> Vec<u8> {
    let mut bytes = incarnation.counter.to_be_bytes().to_vec();
    bytes.extend_from_slice(incarnation.token.as_str().as_bytes());
    bytes
}
