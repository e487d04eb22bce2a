//! What the dashboard shows, in the order of an operator's questions: is it converged, who is behind, what does it cost,
//! what is it good for.
//!
//! Not here: how panels look (`board`). Queries need no recording rule, so the dashboard works without them.

use super::board::{Panel, Row, dashboard};

/// The words of a verdict, with a number each for the query of the lanes.
const WORDS: [(u64, &str, &str); 6] = [
    (1, "converged", "#009E73"),
    (2, "converging", "#56B4E9"),
    (3, "degraded", "#F0E442"),
    (4, "diverged", "#D55E00"),
    (5, "partitioned", "#CC79A7"),
    (6, "unknown", "#808080"),
];
const PHASES: [(u64, &str, &str); 3] = [(1, "joining", "#F0E442"), (2, "clean", "#009E73"), (3, "dirty", "#56B4E9")];

/// The file's text.
pub(crate) fn dashboard_text() -> String {
    let rows = [verdict(), lag(), traffic(), connections(), replica(), effect(), workers(), feeds(), process()];
    let mut text = serde_json::to_string_pretty(&dashboard(&rows)).expect("plain data serializes");
    text.push('\n');
    text
}

/// The selected gateways' series of `metric`, further matchers included.
fn of(metric: &str, matchers: &str) -> String {
    let comma = if matchers.is_empty() { "" } else { ", " };
    format!("{metric}{{job=\"$job\", instance=~\"$instance\"{comma}{matchers}}}")
}

fn rate(metric: &str, matchers: &str) -> String {
    format!("rate({}[$__rate_interval])", of(metric, matchers))
}

/// One number per gateway for a family of words of which one is 1.
fn coded(metric: &str, label: &str, words: &[(u64, &str, &str)]) -> String {
    let terms: Vec<_> = words
        .iter()
        .map(|(code, word, _)| format!("{code} * {}", of(metric, &format!("{label}=\"{word}\""))))
        .collect();
    format!("sum by (instance) ({})", terms.join(" or "))
}

fn quantile(q: f64, bucket: &str) -> String {
    format!("histogram_quantile({q}, sum by (le) ({}))", rate(bucket, ""))
}

fn sum_rate(by: &str, metric: &str) -> String {
    format!("sum by ({by}) ({})", rate(metric, ""))
}

fn share(part: &str, whole: &str) -> String {
    format!("sum ({}) / sum ({})", rate(part, ""), rate(whole, ""))
}

fn verdict() -> Row {
    let all = |metric: &str| of(metric, "");
    let converged = format!("sum ({}) / count ({})", all("covey_mesh_converged"), all("covey_mesh_enabled"));
    let since = format!("time() - min ({})", all("covey_mesh_last_converged_timestamp_seconds"));
    let groups = format!("max ({})", all("covey_mesh_state_groups"));
    let mismatches = format!("sum (increase({}[1d]))", all("covey_mesh_digest_mismatches_total"));
    let worst = format!("max ({})", all("covey_mesh_lag_seconds"));
    let down = "count (up{job=\"$job\"} == 0) or vector(0)";
    let panels = vec![
        Panel::number("Gateways that say: converged", "percentunit", &converged, 1.0, 0.0)
            .about("A gateway whose verdict is unknown, or that does not answer, does not count."),
        Panel::number("Since all were converged", "s", &since, 0.0, 60.0),
        Panel::number("Worst lag", "s", &worst, 0.0, 1.0),
        Panel::number("Different states", "none", &groups, 1.0, 2.0).about("Among clean replicas; 1 is right."),
        Panel::number("Mismatches in a day", "none", &mismatches, 0.0, 1.0)
            .about("Clean replicas that saw the same ops and differ. Must be 0 for ever."),
        Panel::number("Gateways that do not answer", "none", down, 0.0, 1.0),
        Panel::lanes("Verdict of each gateway", (&coded("covey_mesh_verdict", "word", &WORDS), "{{instance}}"), &WORDS),
    ];
    Row { title: "Has it converged?", panels }
}

fn lag() -> Row {
    let buckets = format!("sum by (le) ({})", rate("covey_mesh_propagation_seconds_bucket", ""));
    let at = |q| quantile(q, "covey_mesh_propagation_seconds_bucket");
    let age = format!("max by (instance) (time() - {})", of("covey_mesh_replicated_timestamp_seconds", ""));
    let worst = format!("max by (instance) ({})", of("covey_mesh_lag_seconds", ""));
    let panels = vec![
        Panel::heat("Propagation: from a peer's stamp to being applied", &buckets),
        Panel::lines("Propagation", "s", &[(&at(0.5), "p50"), (&at(0.99), "p99")]).sized(12, 8),
        Panel::matrix("Seconds the row lacks something of the column", "s", &of("covey_mesh_lag_seconds", ""), 1.0),
        Panel::matrix("Ops the row lacks of the column", "none", &of("covey_mesh_lag_ops", ""), 1000.0),
        Panel::lines("Lag, worst peer", "s", &[(&worst, "{{instance}}")]).sized(12, 8),
        Panel::lines("Age of what is replicated, worst peer", "s", &[(&age, "{{instance}}")])
            .about("From absolute times: goes on growing when a mesh thread stands still.")
            .sized(12, 8),
    ];
    Row { title: "Who is behind?", panels }
}

fn traffic() -> Row {
    let received = "covey_mesh_ops_received_total";
    let useful = format!("sum ({}) / sum ({})", rate(received, "use=\"applied\""), rate(received, ""));
    let held = format!("sum by (instance) ({})", of("covey_mesh_peer_queued_bytes", ""));
    let running = format!("sum by (instance) ({})", of("covey_mesh_repairing", ""));
    let sum = sum_rate;
    let panels = vec![
        Panel::stacked("Bytes sent, by class", "Bps", &[(&sum("class", "covey_mesh_sent_bytes_total"), "{{class}}")]),
        Panel::stacked(
            "Bytes received, by class",
            "Bps",
            &[(&sum("class", "covey_mesh_received_bytes_total"), "{{class}}")],
        ),
        Panel::lines(
            "Frames, by class",
            "cps",
            &[
                (&sum("class", "covey_mesh_frames_sent_total"), "sent {{class}}"),
                (&sum("class", "covey_mesh_frames_received_total"), "received {{class}}"),
            ],
        ),
        Panel::lines("Ops from peers that were news", "percentunit", &[(&useful, "useful")]),
        Panel::stacked("Ops from peers", "cps", &[(&sum("use", received), "{{use}}")]),
        Panel::lines(
            "Logs pulled because of a gap",
            "cps",
            &[(&sum("instance", "covey_mesh_pulled_logs_total"), "{{instance}}")],
        ),
        Panel::stacked(
            "Repairs begun, by reason",
            "cps",
            &[
                (&sum("reason", "covey_mesh_repairs_started_total"), "{{reason}}"),
                (&sum("instance", "covey_mesh_repairs_refused_total"), "donor busy ({{instance}})"),
            ],
        ),
        Panel::stacked(
            "Repairs ended, by outcome",
            "cps",
            &[(&sum("outcome", "covey_mesh_repairs_ended_total"), "{{outcome}}")],
        ),
        Panel::lines("Repairs running", "none", &[(&running, "{{instance}}")]),
        Panel::stacked(
            "Bytes received in repairs, by part",
            "Bps",
            &[(&sum("part", "covey_mesh_repair_received_bytes_total"), "{{part}}")],
        ),
        Panel::stacked(
            "Segments received in repairs, by use",
            "cps",
            &[
                (&sum("use", "covey_mesh_repair_segments_total"), "{{use}}"),
                (&sum("instance", "covey_mesh_repair_pieces_total"), "pieces ({{instance}})"),
            ],
        ),
        Panel::lines(
            "Queues: bytes waiting, and what was dropped",
            "none",
            &[
                (&held, "waiting on {{instance}}"),
                (&sum("queue", "covey_mesh_queue_dropped_total"), "dropped a second: {{queue}}"),
            ],
        ),
    ];
    Row { title: "What does it cost?", panels }
}

fn connections() -> Row {
    let pair = "{{instance}} → {{peer}}";
    let one = |metric: &str| of(metric, "");
    let heard = format!("time() - {}", one("covey_mesh_heard_timestamp_seconds"));
    let states = format!("sum by (state) ({})", one("covey_mesh_peers"));
    let lost = rate("covey_mesh_peer_packets_lost_total", "");
    let linked = format!("1 - {}", one("covey_mesh_peer_linked"));
    let panels = vec![
        Panel::matrix("Not linked", "bool_yes_no", &linked, 1.0),
        Panel::lines(
            "Peers by state, as each sees them",
            "none",
            &[(&states, "{{state}}"), (&format!("max ({})", one("covey_mesh_members_live")), "live members")],
        )
        .sized(12, 8),
        Panel::lines("Round trip of connections", "s", &[(&one("covey_mesh_peer_quic_rtt_seconds"), pair)]),
        Panel::lines("Round trip of exchanges", "s", &[(&one("covey_mesh_exchange_rtt_seconds"), pair)]),
        Panel::lines("Since the last exchange", "s", &[(&heard, pair)]),
        Panel::lines("Packets lost", "cps", &[(&lost, pair)]),
        Panel::lines("Congestion window", "bytes", &[(&one("covey_mesh_peer_congestion_window_bytes"), pair)]),
        Panel::lines("Age of connections", "s", &[(&one("covey_mesh_peer_connection_age_seconds"), pair)])
            .about("A saw tooth is a link that flaps."),
        Panel::lines(
            "Clock of the peer against this one",
            "s",
            &[(&one("covey_mesh_peer_clock_offset_seconds"), pair)],
        )
        .signed(),
        Panel::lines(
            "Clock ahead of the mesh's median",
            "s",
            &[(&one("covey_mesh_clock_ahead_seconds"), "{{instance}}")],
        )
        .about("Past 0.25 s a gateway publishes nothing of its own.")
        .signed(),
        Panel::stacked(
            "Dials and handshakes that came to nothing",
            "cps",
            &[
                (&sum_rate("reason", "covey_mesh_dials_failed_total"), "dial: {{reason}}"),
                (&sum_rate("reason", "covey_mesh_handshakes_refused_total"), "handshake: {{reason}}"),
                (&sum_rate("reason", "covey_mesh_peers_refused_total"), "refused: {{reason}}"),
            ],
        ),
    ];
    Row { title: "Connections and clocks", panels }
}

fn replica() -> Row {
    let one = |metric: &str| of(metric, "");
    let each = "{{instance}}";
    let panels = vec![
        Panel::lanes("Phase of each replica", (&coded("covey_mesh_phase", "phase", &PHASES), each), &PHASES)
            .sized(24, 5),
        Panel::lines("Blocks covered", "none", &[(&one("covey_mesh_blocks"), each)])
            .about("Lines that lie on each other are replicas that agree."),
        Panel::lines("Holders", "none", &[(&one("covey_mesh_holders"), each)]),
        Panel::lines("Workers recorded", "none", &[(&one("covey_mesh_workers"), each)]),
        Panel::lines("Ops held", "none", &[(&one("covey_mesh_ops_held"), each)]),
        Panel::lines("Retained logs", "bytes", &[(&one("covey_mesh_log_bytes"), each)]),
        Panel::lines(
            "Lives",
            "none",
            &[
                (&one("covey_mesh_lives"), "in the vector of {{instance}}"),
                (&one("covey_mesh_lives_closing"), "closing at {{instance}}"),
                (&one("covey_mesh_lives_retired"), "retired, remembered at {{instance}}"),
            ],
        ),
        Panel::stacked(
            "Lives begun anew, by reason",
            "cps",
            &[(&sum_rate("reason", "covey_mesh_restarts_total"), "{{reason}}")],
        ),
        Panel::lines("Mesh thread silent", "s", &[(&one("covey_mesh_silent_seconds"), each)]),
        Panel::stacked(
            "Local ops lost",
            "cps",
            &[
                (&sum_rate("instance", "covey_plugin_ops_dropped_total"), "queue full at {{instance}}"),
                (&sum_rate("reason", "covey_mesh_ops_unpublished_total"), "not published: {{reason}}"),
            ],
        ),
    ];
    Row { title: "Replicas", panels }
}

fn effect() -> Row {
    let of_prompt = |part: &str| share(part, "covey_cache_prompt_tokens_total");
    let (predicted, reported) =
        (of_prompt("covey_cache_predicted_tokens_total"), of_prompt("covey_cache_reported_tokens_total"));
    let first = |q| quantile(q, "covey_gateway_first_byte_seconds_bucket");
    let lookup = |q| quantile(q, "covey_gateway_lookup_cpu_seconds_bucket");
    let panels = vec![
        Panel::stacked(
            "Decisions, by outcome",
            "reqps",
            &[(&sum_rate("outcome", "covey_gateway_decisions_total"), "{{outcome}}")],
        ),
        Panel::lines(
            "Prompt tokens cached",
            "percentunit",
            &[(&predicted, "predicted"), (&reported, "reported by workers")],
        )
        .about("Over requests whose worker reports cached tokens."),
        Panel::stacked(
            "Errors, by reason",
            "cps",
            &[
                (&sum_rate("reason", "covey_gateway_errors_total"), "{{reason}}"),
                (&sum_rate("instance", "covey_gateway_retries_total"), "retried ({{instance}})"),
                (&sum_rate("instance", "covey_gateway_client_aborts_total"), "client left ({{instance}})"),
            ],
        ),
        Panel::lines("Time to first byte", "s", &[(&first(0.5), "p50"), (&first(0.99), "p99")]),
        Panel::lines("CPU time of a decision", "s", &[(&lookup(0.5), "p50"), (&lookup(0.99), "p99")]),
        Panel::lines("Requests under way", "none", &[(&of("covey_gateway_requests_in_flight", ""), "{{instance}}")]),
    ];
    Row { title: "What is it good for?", panels }
}

fn workers() -> Row {
    let age = |metric: &str| format!("min by (worker) (time() - {})", of(metric, ""));
    let (floor, newest) = (age("covey_worker_floor_timestamp_seconds"), age("covey_worker_newest_timestamp_seconds"));
    let by = |metric: &str, how: &str| format!("{how} by (worker) ({})", of(metric, ""));
    let panels = vec![
        Panel::lines("Gateways that reach the worker", "none", &[(&by("covey_worker_up", "sum"), "{{worker}}")]),
        Panel::stacked("Requests under way", "none", &[(&by("covey_worker_requests_in_flight", "sum"), "{{worker}}")]),
        Panel::stacked(
            "Prompt tokens yet to compute",
            "none",
            &[(&by("covey_worker_queued_tokens", "sum"), "{{worker}}")],
        ),
        Panel::lines(
            "Blocks held, as each gateway says",
            "none",
            &[(&of("covey_worker_blocks", ""), "{{worker}} by {{instance}}")],
        ),
        Panel::lines("Age of the oldest coverage kept (of the floor)", "s", &[(&floor, "{{worker}}")])
            .about("Absent until a worker's cache was full once. Short: the cache turns over quickly."),
        Panel::lines("Since the latest touch", "s", &[(&newest, "{{worker}}")]),
        Panel::lines("Capacity in tokens", "none", &[(&by("covey_worker_capacity_tokens", "max"), "{{worker}}")]),
        Panel::lines("Incarnation", "none", &[(&by("covey_worker_incarnation", "max"), "{{worker}}")])
            .about("A step is a cache that began anew."),
        Panel::stacked(
            "Answers of workers, by status",
            "reqps",
            &[(&sum_rate("class", "covey_upstream_responses_total"), "{{class}}")],
        ),
    ];
    Row { title: "Workers", panels }
}

fn feeds() -> Row {
    let by = |role: &str| format!("sum by (state) ({})", of("covey_feed_state", &format!("role=\"{role}\"")));
    let (publisher, standby) = (by("publisher"), by("standby"));
    let panels = vec![
        Panel::stacked("Workers' caches, by how well they are known", "none", &[(&publisher, "{{state}}")])
            .about("As the gateways say that publish their events. exact is right."),
        Panel::stacked("The same, as standbys say", "none", &[(&standby, "{{state}}")]),
        Panel::lines(
            "From an event's making to its reading, the worst worker",
            "s",
            &[(&of("covey_feed_lag_seconds", ""), "{{role}} {{instance}}")],
        ),
        Panel::lines(
            "Ops and hashes of feeds applied",
            "cps",
            &[
                (&sum_rate("instance", "covey_feed_ops_applied_total"), "ops at {{instance}}"),
                (&sum_rate("instance", "covey_feed_hashes_applied_total"), "hashes at {{instance}}"),
            ],
        ),
        Panel::stacked(
            "What went wrong with feeds",
            "cps",
            &[
                (&sum_rate("instance", "covey_feed_generations_total"), "new generation at {{instance}}"),
                (&sum_rate("instance", "covey_feed_forks_total"), "forked at {{instance}}"),
                (&sum_rate("instance", "covey_feed_taken_over_total"), "taken over by {{instance}}"),
                (&sum_rate("instance", "covey_feed_ops_dropped_total"), "ops dropped at {{instance}}"),
                (&sum_rate("instance", "covey_feed_pulled_total"), "pulled by {{instance}}"),
            ],
        ),
        Panel::stacked(
            "Whole feeds fetched from peers",
            "Bps",
            &[(&sum_rate("instance", "covey_feed_fetched_bytes_total"), "{{instance}}")],
        ),
    ];
    Row { title: "Events of engines", panels }
}

fn process() -> Row {
    let one = |metric: &str| of(metric, "");
    let cpu = rate("process_cpu_seconds_total", "");
    let up = format!("time() - {}", one("process_start_time_seconds"));
    let panels = vec![
        Panel::lines("CPU", "percentunit", &[(&cpu, "{{instance}}")]).about("Of one core.").sized(6, 8),
        Panel::lines("Resident memory", "bytes", &[(&one("process_resident_memory_bytes"), "{{instance}}")])
            .sized(6, 8),
        Panel::lines("File descriptors", "none", &[(&one("process_open_fds"), "{{instance}}")]).sized(6, 8),
        Panel::lines("Up for", "s", &[(&up, "{{instance}}")]).sized(6, 8),
    ];
    Row { title: "Processes", panels }
}
