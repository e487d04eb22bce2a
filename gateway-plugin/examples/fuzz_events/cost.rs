//! What recorded messages cost a gateway that reads the engines of many workers: CPU time to decode them and to apply them
//! to the workers' caches.
//!
//! Not here: sockets, and what becomes of the effects in the mesh.

use covey_gateway_plugin::ingest::{EngineCache, decode};

use crate::cache;

/// Workers, each with one batch a second.
pub(crate) const WORKERS: usize = 2_000;
/// Percent of one core that they may cost.
pub(crate) const SHARE_MAX: f64 = 10.0;

/// What one stream costs.
pub(crate) struct Cost {
    /// Bytes of a batch, on average.
    pub(crate) bytes: usize,
    /// Microseconds of CPU time a batch.
    pub(crate) each_us: f64,
    /// Percent of one core, for all workers.
    pub(crate) share: f64,
}

/// CPU time of this thread, in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells threads their time");
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds come first") / 1e9
}

/// The workers' caches, each at another place of the stream, with all in it that the stream said before; and the places.
fn caught_up(stream: &[Vec<u8>]) -> Vec<(usize, EngineCache)> {
    let mut places: Vec<usize> = (0..WORKERS).map(|nth| nth * 7 % stream.len()).collect();
    places.sort_unstable();
    let (mut at, mut so_far) = (0, cache());
    let to = |place: usize| {
        for payload in &stream[at..place] {
            drop(so_far.apply(&decode(payload).events));
        }
        at = place;
        (place, so_far.clone())
    };
    places.into_iter().map(to).collect()
}

/// What `seconds` of a stream cost: a batch of each worker a second.
pub(crate) fn cost(stream: &[Vec<u8>], seconds: usize) -> Cost {
    let mut workers = caught_up(stream);
    let (mut bytes, before) = (0, cpu());
    for second in 0..seconds {
        for (place, cache) in &mut workers {
            let payload = &stream[(*place + second) % stream.len()];
            drop(std::hint::black_box(cache.apply(&decode(payload).events)));
            bytes += payload.len();
        }
    }
    let each = (cpu() - before) / (seconds * WORKERS) as f64;
    Cost { bytes: bytes / (seconds * WORKERS), each_us: each * 1e6, share: each * WORKERS as f64 * 100.0 }
}
