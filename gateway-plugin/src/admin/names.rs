//! Every metric name of a gateway, in one place: `covey_<subsystem>_<noun>_<unit>`. Counters get `_total` when they
//! are written out.
//!
//! Not here: values (`metrics`). Labels are closed enums, peer names or worker ids, never hashes or prompts.

/// A metric's name and what it says.
pub(super) type Named = (&'static str, &'static str);

pub(super) const BUILD_INFO: Named =
    ("covey_gateway_build_info", "Always 1; the label says which version of Covey this gateway runs");
pub(super) const UPTIME: Named = ("covey_gateway_uptime_seconds", "Seconds since the gateway was started");
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
    ("covey_gateway_lookup_cpu_seconds", "Seconds of thread CPU time of hash, lookup and policy, one decision each");
pub(super) const FIRST_BYTE: Named =
    ("covey_gateway_first_byte_seconds", "Seconds from a request being read to the first byte of its answer");
pub(super) const MEASURED: Named = (
    "covey_cache_measured_requests",
    "Requests whose worker reported cached tokens; the three sums below are over these",
);
pub(super) const PROMPT_TOKENS: Named = ("covey_cache_prompt_tokens", "Prompt tokens, as workers count them");
pub(super) const PREDICTED_TOKENS: Named = ("covey_cache_predicted_tokens", "Prompt tokens predicted to be cached");
pub(super) const CACHED_TOKENS: Named =
    ("covey_cache_reported_tokens", "Prompt tokens that workers reported as cached");
pub(super) const TOKENIZE: Named =
    ("covey_gateway_tokenize_cpu_seconds", "Seconds of thread CPU time of turning a request into token ids");
pub(super) const TOKENIZER_CACHE: Named =
    ("covey_gateway_tokenizer_cache_bytes", "Bytes of token ids kept of texts encoded before");
pub(super) const UNTOKENIZED: Named = (
    "covey_gateway_untokenized_requests",
    "Requests looked up by their bytes although the block size in tokens is known, by reason",
);
pub(super) const PREDICTIONS: Named = (
    "covey_gateway_prediction_requests",
    "Requests looked up by token ids whose worker reported cached tokens: predicted exactly, too high (over) or too low (under)",
);
pub(super) const PREDICTION_TOKENS: Named = (
    "covey_gateway_prediction_tokens",
    "Prompt tokens of the same: predicted and reported (exact), predicted in vain (over), reported unpredicted (under)",
);
pub(super) const PREDICTION_ERROR: Named =
    ("covey_gateway_prediction_error_tokens", "Tokens between prediction and report, of the same requests");
pub(super) const WORKER_MISMATCH: Named = (
    "covey_worker_prediction_mismatch",
    "1 for what a difference between predictions and the worker's reports looks like, 0 for the others; absent before its first report",
);
pub(super) const WORKER_UP: Named = ("covey_worker_up", "1 when this gateway can reach the worker");
pub(super) const WORKER_UNSEEN: Named = (
    "covey_worker_unseen_requests",
    "Requests that the worker lately reported beyond those of the gateways heard here: of others, or of clients that go round them",
);
pub(super) const PLACEMENTS: Named = ("covey_plugin_placements", "Placements handed to the mesh");
pub(super) const OPS_DROPPED: Named =
    ("covey_plugin_ops_dropped", "Local ops dropped because the mesh's queue was full");

pub(super) const PHASE: Named = ("covey_mesh_phase", "1 for the replica's phase, 0 for the others");
pub(super) const SILENT: Named = (
    "covey_mesh_silent_seconds",
    "Seconds since the mesh thread last finished a turn; past 1 s requests are routed on load alone",
);
pub(super) const PEERS: Named = ("covey_mesh_peers", "Gateways known besides this one, by state");
pub(super) const LAG: Named =
    ("covey_mesh_lag_ops", "Ops a peer has applied that this gateway has not; absent while unknown");
pub(super) const THEIR_LAG: Named =
    ("covey_mesh_peer_lag_ops", "Ops this gateway has applied that a peer had not; absent while unknown");
pub(super) const EXCHANGE_RTT: Named =
    ("covey_mesh_exchange_rtt_seconds", "Seconds of round trip of the last exchange with a peer, hold time excluded");
pub(super) const HEARD: Named =
    ("covey_mesh_heard_seconds", "Seconds since the last exchange with a peer, as of the mesh thread's last turn");
pub(super) const CLOCK_AHEAD: Named =
    ("covey_mesh_clock_ahead_seconds", "Seconds this clock is ahead of the live members' median; absent while unknown");
pub(super) const WORKERS: Named = ("covey_mesh_workers", "Workers recorded, removed ones included");
pub(super) const HOLDERS: Named = ("covey_mesh_holders", "Holders with coverage");
pub(super) const BLOCKS: Named = ("covey_mesh_blocks", "Blocks covered, summed over holders");
pub(super) const OPS_APPLIED: Named = ("covey_mesh_ops_applied", "Ops applied in this life");
pub(super) const OPS_HELD: Named =
    ("covey_mesh_ops_held", "Ops received and held: out of order, unresolved or ahead of the clock");
pub(super) const LOG_BYTES: Named = ("covey_mesh_log_bytes", "Bytes of retained logs");
pub(super) const LIVES: Named = ("covey_mesh_lives", "Lives in the vector");
pub(super) const REPAIRING: Named = ("covey_mesh_repairing", "1 while a repair session is running here");
pub(super) const PROPAGATION: Named =
    ("covey_mesh_propagation_seconds", "Seconds from a peer's stamp to its op being applied here");
pub(super) const PROPAGATION_QUANTILES: Named = (
    "covey_mesh_propagation_quantile_seconds",
    "Seconds: quantiles of the same, over the life of the process; absent before the first op",
);
pub(super) const NOTES: Named =
    ("covey_mesh_notes", "What the node observed and no other counter says, by what and why");
pub(super) const QUIC_RTT: Named =
    ("covey_mesh_quic_rtt_seconds", "Seconds: quantiles of all connections' round trips over the life of the process");
pub(super) const RESTARTS: Named = (
    "covey_mesh_restarts",
    "Times the mesh member took a new life, by reason; panicked and stalled are faults of its thread",
);
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

pub(super) const ENABLED: Named =
    ("covey_mesh_enabled", "1 when this gateway is a member of a mesh, 0 when it is a replica of one");
pub(super) const VERDICT: Named = ("covey_mesh_verdict", "1 for the word that says how the mesh is, 0 for the others");
pub(super) const CONVERGED: Named =
    ("covey_mesh_converged", "1 when the verdict is converged, 0 when it is another; absent while it is unknown");
pub(super) const LAST_CONVERGED: Named = (
    "covey_mesh_last_converged_timestamp_seconds",
    "Unix time at which the verdict was last converged; absent while it never was",
);
pub(super) const STATE_GROUPS: Named =
    ("covey_mesh_state_groups", "Different states among the gateways whose state is known; 1 is right");
pub(super) const CLOCK_STATE: Named =
    ("covey_mesh_clock_state", "1 for the state of this gateway's clock, 0 for the others; ahead publishes nothing");
pub(super) const LIVES_CLOSING: Named = ("covey_mesh_lives_closing", "Lives closed here that are not retired yet");
pub(super) const LIVES_RETIRED: Named = ("covey_mesh_lives_retired", "Retired lives that are still remembered");
pub(super) const MEMBERS_LIVE: Named =
    ("covey_mesh_members_live", "Other gateways that the membership service believes alive");
pub(super) const MEMBERSHIP_RESTARTS: Named =
    ("covey_mesh_membership_restarts", "Times the membership service was started anew within a life");
pub(super) const MEMBERSHIP_MESSAGES: Named =
    ("covey_mesh_membership_messages", "Membership messages carried over connections, by direction");
pub(super) const MEMBERSHIP_BYTES: Named =
    ("covey_mesh_membership_sent_bytes", "Bytes of membership messages carried to peers");
pub(super) const MEMBERSHIP_REFUSED: Named =
    ("covey_mesh_membership_refused", "Membership messages refused before they reached the membership service");

pub(super) const LINKED: Named =
    ("covey_mesh_peer_linked", "1 when frames can be sent to the peer, 0 when they cannot");
pub(super) const LAG_SECONDS: Named = (
    "covey_mesh_lag_seconds",
    "Seconds this gateway has lacked something that the peer is known to have; absent while unknown",
);
pub(super) const REPLICATED: Named = (
    "covey_mesh_replicated_timestamp_seconds",
    "Unix time up to which everything the peer is known to have had is applied here; stands still with the mesh thread",
);
pub(super) const THEIR_LAG_SECONDS: Named = (
    "covey_mesh_peer_lag_seconds",
    "Seconds the peer had lacked something this gateway had applied, at its last exchange; absent while unknown",
);
pub(super) const THEIR_HELD: Named =
    ("covey_mesh_peer_held_ops", "Ops the peer had received and held at its last exchange; absent while unknown");
pub(super) const HEARD_AT: Named = (
    "covey_mesh_heard_timestamp_seconds",
    "Unix time of the last exchange with a peer; stands still when it does not talk",
);
pub(super) const CLOCK_OFFSET: Named = (
    "covey_mesh_peer_clock_offset_seconds",
    "Seconds the peer's clock is ahead of this one, known to half a round trip; absent while unknown",
);
pub(super) const LINK_RTT: Named =
    ("covey_mesh_peer_quic_rtt_seconds", "Seconds of smoothed round trip of the connection with a peer");
pub(super) const LINK_LOST: Named =
    ("covey_mesh_peer_packets_lost", "Packets lost since the present connection with a peer began");
pub(super) const LINK_WINDOW: Named =
    ("covey_mesh_peer_congestion_window_bytes", "Bytes that may be under way to a peer before it acknowledges");
pub(super) const LINK_QUEUED: Named = ("covey_mesh_peer_queued_bytes", "Bytes waiting in the send queues to a peer");
pub(super) const LINK_AGE: Named = (
    "covey_mesh_peer_connection_age_seconds",
    "Seconds the present connection with a peer has been up; falls when it was replaced",
);

pub(super) const OPS_RECEIVED: Named = (
    "covey_mesh_ops_received",
    "Ops that came from peers, by use: applied, or duplicate of what was known; the useful ratio is applied over all",
);
pub(super) const OPS_UNPUBLISHED: Named =
    ("covey_mesh_ops_unpublished", "Local ops that the node did not publish, by reason");
pub(super) const MISMATCHES: Named =
    ("covey_mesh_digest_mismatches", "Times a clean peer with the same vector had another digest; must stay 0");
pub(super) const FORKS: Named =
    ("covey_mesh_forks", "Times a life's log was found to have two versions: an identity was used twice");
pub(super) const REFUSALS: Named = ("covey_mesh_peers_refused", "Peers refused by this gateway, by reason");
pub(super) const REPAIRS_STARTED: Named =
    ("covey_mesh_repairs_started", "Repair sessions begun here as receiver, by reason");
pub(super) const REPAIRS_ENDED: Named =
    ("covey_mesh_repairs_ended", "Repair sessions ended here as receiver: done, or why they were given up");
pub(super) const REPAIRS_REFUSED: Named =
    ("covey_mesh_repairs_refused", "Times a donor was busy and said when to ask again");
pub(super) const REPAIR_PIECES: Named = ("covey_mesh_repair_pieces", "Pieces that came in finished repair sessions");
pub(super) const REPAIR_SEGMENTS: Named =
    ("covey_mesh_repair_segments", "Segments that came in finished repair sessions, by use: new, or known already");
pub(super) const REPAIR_BYTES: Named =
    ("covey_mesh_repair_received_bytes", "Bytes that came in finished repair sessions, by part");
pub(super) const PULLED_LOGS: Named = ("covey_mesh_pulled_logs", "Logs asked for by pulls because of a gap");
pub(super) const HANDSHAKES_IGNORED: Named =
    ("covey_mesh_handshakes_ignored", "Incoming handshakes ignored because too many were under way");

pub(super) const FEED_STATE: Named =
    ("covey_feed_state", "Feeds that this gateway reads, by its role and by how well they are known");
pub(super) const FEED_LAG: Named = (
    "covey_feed_lag_seconds",
    "Seconds from an event's making to its reading, the longest of the feeds read here; absent while unknown",
);
pub(super) const FEED_OPS: Named =
    ("covey_feed_ops_applied", "Ops of feeds applied that this gateway did not make, or not first");
pub(super) const FEED_HASHES: Named = ("covey_feed_hashes_applied", "Block hashes that those ops added or removed");
pub(super) const FEED_GENERATIONS: Named =
    ("covey_feed_generations", "Times a feed began a new generation: events were lost for good, or who read them was");
pub(super) const FEED_FORKS: Named =
    ("covey_feed_forks", "Times two states stood under one key of a feed: a defect; must stay 0");
pub(super) const FEED_TAKEN_OVER: Named =
    ("covey_feed_taken_over", "Times this gateway published, as standby, what the publisher had not");
pub(super) const FEED_OPS_DROPPED: Named =
    ("covey_feed_ops_dropped", "Ops of feeds dropped: not to be used, or too many that nobody published");
pub(super) const FEED_PULLS: Named = ("covey_feed_pulled", "Feeds asked of peers because ops were missing");
pub(super) const FEED_FETCHED: Named = ("covey_feed_fetched_bytes", "Bytes of whole feeds that came from peers");

pub(super) const WORKER_CAPACITY: Named =
    ("covey_worker_capacity_tokens", "Tokens the worker's cache holds, configured or probed; absent while unknown");
pub(super) const WORKER_INCARNATION: Named = (
    "covey_worker_incarnation",
    "Counter of the worker's incarnation in this replica; grows when its cache began anew",
);
pub(super) const WORKER_BLOCKS: Named =
    ("covey_worker_blocks", "Blocks that this replica says the worker holds; gateways that agree have one value");
pub(super) const WORKER_FLOOR: Named = (
    "covey_worker_floor_timestamp_seconds",
    "Unix time of the highest floor of the worker's holders: older coverage is cut; absent before the first cut",
);
pub(super) const WORKER_NEWEST: Named =
    ("covey_worker_newest_timestamp_seconds", "Unix time of the latest touch of the worker's coverage in this replica");
pub(super) const WORKER_REQUESTS: Named =
    ("covey_worker_requests_in_flight", "Requests of this gateway under way on the worker");
pub(super) const WORKER_QUEUED: Named =
    ("covey_worker_queued_tokens", "Prompt tokens of this gateway's requests that the worker has yet to compute");

#[cfg(feature = "otel")]
pub(super) const TRACE_SPANS: Named = (
    "covey_trace_spans",
    "Spans of decisions: exported, dropped because the queue was full, or failed at the collector",
);

pub(super) const PROCESS_CPU: Named = ("process_cpu_seconds", "Seconds of CPU time of the process, all threads");
pub(super) const PROCESS_RESIDENT: Named = ("process_resident_memory_bytes", "Bytes of memory that are resident");
pub(super) const PROCESS_START: Named = ("process_start_time_seconds", "Unix time at which the process was started");
pub(super) const PROCESS_FDS: Named = ("process_open_fds", "File descriptors open");

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
