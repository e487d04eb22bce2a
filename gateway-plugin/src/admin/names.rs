//! Every metric name of a gateway, in one place: `covey_<subsystem>_<noun>_<unit>`. Counters get `_total` when they
//! are written out.
//!
//! Not here: values (`metrics`). Labels are closed enums, peer names or worker ids, never hashes or prompts.

/// A metric's name and what it says.
pub(super) type Named = (&'static str, &'static str);

pub(super) const BUILD_INFO: Named = ("covey_gateway_build", "Version of this gateway");
pub(super) const UPTIME: Named = ("covey_gateway_uptime_seconds", "Time since the gateway was started");
pub(super) const READY: Named = ("covey_gateway_ready", "1 when clients should be sent here");
pub(super) const REQUESTS: Named =
    ("covey_gateway_decisions", "Routing decisions by outcome, labelled after aggregation; one more for each retry");
pub(super) const FAULTS: Named = ("covey_gateway_errors", "Requests and attempts gone wrong, by reason");
pub(super) const RETRIES: Named = ("covey_gateway_retries", "Requests sent to a second worker");
pub(super) const CLIENTS_GONE: Named =
    ("covey_gateway_client_aborts", "Clients that left before their answer was complete");
pub(super) const UNMEASURED: Named =
    ("covey_gateway_answers_unread", "Answers passed on in a coding the gateway does not read");
pub(super) const IN_FLIGHT: Named = ("covey_gateway_requests_in_flight", "Requests under way");
pub(super) const STATUSES: Named = ("covey_upstream_responses", "Answers of workers by status class");
pub(super) const LOOKUP: Named =
    ("covey_gateway_lookup_cpu_seconds", "Thread CPU time of hash, lookup and policy, one decision each");
pub(super) const FIRST_BYTE: Named =
    ("covey_gateway_first_byte_seconds", "From a request being read to the first byte of its answer");
pub(super) const MEASURED: Named = (
    "covey_cache_measured_requests",
    "Requests whose worker reported cached tokens; the three sums below are over these",
);
pub(super) const PROMPT_TOKENS: Named = ("covey_cache_prompt_tokens", "Prompt tokens, as workers count them");
pub(super) const PREDICTED_TOKENS: Named = ("covey_cache_predicted_tokens", "Prompt tokens predicted to be cached");
pub(super) const CACHED_TOKENS: Named =
    ("covey_cache_reported_tokens", "Prompt tokens that workers reported as cached");
pub(super) const WORKER_UP: Named = ("covey_worker_up", "1 when this gateway can reach the worker");
pub(super) const PLACEMENTS: Named = ("covey_plugin_placements", "Placements handed to the mesh");
pub(super) const OPS_DROPPED: Named =
    ("covey_plugin_ops_dropped", "Local ops dropped because the mesh's queue was full");

pub(super) const PHASE: Named = ("covey_mesh_phase", "1 for the replica's phase, 0 for the others");
pub(super) const SILENT: Named = ("covey_mesh_silent_seconds", "Time since the mesh thread last finished a turn");
pub(super) const PEERS: Named = ("covey_mesh_peers", "Gateways known besides this one, by state");
pub(super) const LAG: Named =
    ("covey_mesh_lag_ops", "Ops a peer has applied that this gateway has not; absent while unknown");
pub(super) const THEIR_LAG: Named =
    ("covey_mesh_peer_lag_ops", "Ops this gateway has applied that a peer had not; absent while unknown");
pub(super) const EXCHANGE_RTT: Named =
    ("covey_mesh_exchange_rtt_seconds", "Round trip of the last exchange with a peer");
pub(super) const HEARD: Named = ("covey_mesh_heard_seconds", "Time since the last exchange with a peer");
pub(super) const CLOCK_AHEAD: Named =
    ("covey_mesh_clock_ahead_seconds", "This clock against the live members' median; absent while unknown");
pub(super) const WORKERS: Named = ("covey_mesh_workers", "Workers recorded, removed ones included");
pub(super) const HOLDERS: Named = ("covey_mesh_holders", "Holders with coverage");
pub(super) const BLOCKS: Named = ("covey_mesh_blocks", "Blocks covered, summed over holders");
pub(super) const OPS_APPLIED: Named = ("covey_mesh_ops_applied", "Ops applied in this life");
pub(super) const OPS_HELD: Named = ("covey_mesh_ops_held", "Ops received but held");
pub(super) const LOG_BYTES: Named = ("covey_mesh_log_bytes", "Bytes of retained logs");
pub(super) const LIVES: Named = ("covey_mesh_lives", "Lives in the vector");
pub(super) const REPAIRING: Named = ("covey_mesh_repairing", "1 while a repair session is running here");
pub(super) const PROPAGATION: Named =
    ("covey_mesh_propagation_seconds", "From a peer's stamp to its op being applied here");
pub(super) const PROPAGATION_QUANTILES: Named =
    ("covey_mesh_propagation_quantile_seconds", "Quantiles of the same, over the life of the process");
pub(super) const NOTES: Named = ("covey_mesh_notes", "What the node observed, by what and why");
pub(super) const QUIC_RTT: Named = ("covey_mesh_quic_rtt_seconds", "Quantiles of connections' round trips");
pub(super) const RESTARTS: Named = ("covey_mesh_restarts", "Lives restarted, by reason");
pub(super) const QUEUE_DROPS: Named = ("covey_mesh_queue_dropped", "What found its queue full, by queue");
pub(super) const FRAMES_OUT: Named = ("covey_mesh_frames_sent", "Frames sent, by class");
pub(super) const BYTES_OUT: Named = ("covey_mesh_sent_bytes", "Bytes sent in frames, by class");
pub(super) const FRAMES_IN: Named = ("covey_mesh_frames_received", "Frames received, by class");
pub(super) const BYTES_IN: Named = ("covey_mesh_received_bytes", "Bytes received in frames, by class");
pub(super) const DIALS: Named = ("covey_mesh_dials", "Connection attempts started");
pub(super) const DIALS_FAILED: Named =
    ("covey_mesh_dials_failed", "Connection attempts that came to nothing, by reason");
pub(super) const HANDSHAKES_REFUSED: Named =
    ("covey_mesh_handshakes_refused", "Incoming handshakes that came to nothing, by reason");
pub(super) const FRAMES_MALFORMED: Named =
    ("covey_mesh_frames_malformed", "Connections closed because a frame broke the framing");

#[cfg(test)]
mod tests {
    /// The rules of this file, checked on its own text: the list above is what Prometheus sees.
    #[test]
    fn names_follow_the_rule_and_are_unique() {
        let mut names: Vec<&str> = include_str!("names.rs")
            .split('"')
            .filter(|text| text.len() > 8 && text.starts_with("covey_") && !text.contains(' '))
            .collect();
        assert!(names.len() > 40);
        for name in &names {
            let parts = name.split('_').count();
            assert!(parts >= 3 && !name.ends_with("_total"), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a name is used twice");
    }
}
