//! Remembers when the mesh was last known to be converged, whether or not anybody asks.
//!
//! Not here: the verdict (`frame`), the metric (`metrics`).

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::frame::{Verdict, verdict};
use crate::server::Gateway;

/// The mesh thread publishes its status this often.
const PAUSE: Duration = Duration::from_millis(250);

/// Looks until it is dropped.
pub(crate) async fn watch(gateway: Arc<Gateway>) {
    let mut turn = tokio::time::interval(PAUSE);
    turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        turn.tick().await;
        let silent_ms = u64::try_from(gateway.mesh().silent_for().as_millis()).unwrap_or(u64::MAX);
        if verdict(&gateway.mesh().status(), silent_ms).0 == Verdict::Converged {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            gateway.set_converged(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
        }
    }
}
