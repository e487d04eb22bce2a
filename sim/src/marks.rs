//! Coverage marks: a name for every rare path, so that a batch of runs can show which it really took. Notes of the core
//! leave marks, and so does what the simulator itself does to it.
//!
//! Not here: leaving the simulator's marks (`world`).

use covey_mesh::note::{AbortWhy, Drop, Note, RepairWhy};

/// The mark a note leaves.
#[must_use]
pub const fn name(note: &Note) -> &'static str {
    match note {
        Note::Applied { .. } => "applied",
        Note::Duplicate { .. } => "duplicate",
        Note::Dropped { why: Drop::Clock } => "dropped-clock",
        Note::Dropped { why: Drop::Incarnation } => "dropped-incarnation",
        Note::Dropped { why: Drop::Bound } => "dropped-bound",
        Note::Dropped { why: Drop::UnknownWorker } => "dropped-unknown-worker",
        Note::Refused { .. } => "refused",
        Note::RefusedBy { .. } => "refused-by",
        Note::Malformed { .. } => "malformed",
        Note::NewerVersion { .. } => "newer-version",
        Note::UnknownLife { .. } => "unknown-life",
        Note::Fork { .. } => "fork",
        Note::Pulled { .. } => "pulled",
        Note::Wanted => "wanted",
        Note::RepairStarted { why: RepairWhy::Bootstrap, .. } => "repair-bootstrap",
        Note::RepairStarted { why: RepairWhy::Trimmed, .. } => "repair-trimmed",
        Note::RepairStarted { why: RepairWhy::Mismatch, .. } => "repair-mismatch",
        Note::RepairStarted { why: RepairWhy::Unresolved, .. } => "repair-unresolved",
        Note::RepairDone { .. } => "repair-done",
        Note::RepairAborted { why: AbortWhy::Timeout, .. } => "repair-aborted-timeout",
        Note::RepairAborted { why: AbortWhy::LinkDown, .. } => "repair-aborted-link",
        Note::RepairAborted { why: AbortWhy::Refused, .. } => "repair-aborted-refused",
        Note::RepairAborted { why: AbortWhy::FutureStamp, .. } => "repair-aborted-future",
        Note::RepairAborted { why: AbortWhy::Malformed, .. } => "repair-aborted-malformed",
        Note::RepairAborted { why: AbortWhy::Outlived, .. } => "repair-aborted-outlived",
        Note::RepairRefused { .. } => "repair-refused",
        Note::DigestMismatch { .. } => "digest-mismatch",
        Note::Restated { .. } => "restated",
        Note::Closing { .. } => "closing",
        Note::Retired { .. } => "retired",
        Note::Forgot { .. } => "forgot",
        Note::Founded => "founded",
        Note::Clean => "clean",
        Note::Dirty => "dirty",
        Note::Clock { .. } => "clock",
        Note::TokenFlaps { .. } => "token-flaps",
        Note::FeedApplied { .. } => "feed-applied",
        Note::Generation { .. } => "generation",
        Note::FeedForked { .. } => "feed-forked",
        Note::TakenOver { .. } => "taken-over",
        Note::FeedDropped => "feed-dropped",
        Note::FeedPulled { .. } => "feed-pulled",
        Note::FeedFetched { .. } => "feed-fetched",
        Note::Sent { .. } => "sent",
    }
}

/// A partition began.
pub const CUT: &str = "cut";
/// One ended while faults last.
pub const HEAL: &str = "heal";
/// One that comes and goes.
pub const FLAP: &str = "flap";
/// Nodes fell silent one by one.
pub const SWIZZLE: &str = "swizzle";
/// A frame arrived long after it was sent, on the same connection.
pub const STALE: &str = "stale";
/// A frame arrived after its connection was gone.
pub const STALE_RECONNECTED: &str = "stale-reconnected";
/// A frame arrived without its end.
pub const TRUNCATED: &str = "corrupted-truncated";
/// A copy of a node read a frame with flipped bits.
pub const FLIPPED: &str = "corrupted-flipped";
/// A sender was told to pause.
pub const BLOCKED: &str = "blocked";
/// It was told to go on.
pub const WRITABLE: &str = "writable";
/// A frame did not fit into its queue.
pub const QUEUE_FULL: &str = "queue-full";
/// A node did nothing for a while.
pub const PAUSED: &str = "paused";
/// So long that its connections died.
pub const PAUSED_LONG: &str = "paused-long";
/// A clock stood still.
pub const FROZEN: &str = "clock-frozen";
/// A clock jumped by decades.
pub const FAR_FUTURE: &str = "clock-far-future";
/// A life started anew without its state.
pub const REUSED: &str = "identity-reused";
/// A node was put back to what it was before.
pub const ROLLED_BACK: &str = "rolled-back";
/// Two nodes ran one life.
pub const TWIN: &str = "twin";
/// Two nodes had one name.
pub const NAMESAKE: &str = "namesake";
/// All nodes restarted one by one.
pub const ROLLING_RESTART: &str = "rolling-restart";
/// Most nodes started at once.
pub const JOIN_STORM: &str = "join-storm";
/// Membership said what is not so.
pub const MEMBERSHIP_WRONG: &str = "membership-wrong";
/// An ingester's state went to another gateway.
pub const HAND_OFF: &str = "hand-off";

/// The mark of what an intake noted.
#[must_use]
pub const fn of_intake(note: &covey_gateway_plugin::ingest::intake::Note) -> &'static str {
    use covey_gateway_plugin::ingest::intake::{Note, Why};
    match note {
        Note::Generation { why: Why::Late, .. } => "generation-late",
        Note::Generation { why: Why::Gap, .. } => "generation-gap",
        Note::Generation { why: Why::Restart, .. } => "generation-restart",
        Note::Generation { why: Why::Recovered, .. } => "generation-recovered",
        Note::Generation { why: Why::Outrun, .. } => "generation-outrun",
        Note::Generation { why: Why::Stranded, .. } => "generation-stranded",
        Note::Generation { why: Why::Raised, .. } => "generation-raised",
        Note::Gap { .. } => "feed-gap",
        Note::HandedOff { .. } => "handed-off",
        Note::HandOffRefused => "hand-off-refused",
    }
}

/// Discovery removed a worker.
pub const WORKER_REMOVED: &str = "worker-removed";
/// Discovery found it again.
pub const WORKER_RETURNED: &str = "worker-returned";
/// An engine came back with a token it had before.
pub const TOKEN_REPEATED: &str = "token-repeated";
/// An engine said more capacity than before.
pub const CAPACITY_GREW: &str = "capacity-grew";
/// An engine said less.
pub const CAPACITY_SHRANK: &str = "capacity-shrank";
/// Another life than before expired a worker's placements.
pub const TAKEOVER: &str = "takeover";
/// One node held two paths whose last blocks share a hash.
pub const COLLISION: &str = "collision";
/// An op was held until the local clock reaches it.
pub const HOLD: &str = "hold";
/// The converged cluster never stopped having something to tell.
pub const NEVER_QUIET: &str = "never-quiet";
/// A node stayed dead.
pub const LEFT_DEAD: &str = "left-dead";
/// A node stayed cut off.
pub const LEFT_CUT: &str = "left-cut-off";
/// A clock stayed wrong.
pub const LEFT_CLOCK: &str = "left-clock-wrong";
/// A node stayed slow.
pub const LEFT_SLOW: &str = "left-slow";

/// Marks that a batch of at least 300 drawn plans must leave.
pub const REQUIRED: &[&str] = &[
    "applied",
    "clean",
    "clock",
    "dirty",
    "dropped-clock",
    "dropped-incarnation",
    "dropped-unknown-worker",
    "duplicate",
    "fork",
    "founded",
    "generation-raised",
    "malformed",
    "newer-version",
    "pulled",
    "reborn-clock",
    "reborn-forked",
    "refused",
    "refused-by",
    "repair-aborted-future",
    "repair-aborted-link",
    "repair-aborted-refused",
    "repair-aborted-timeout",
    "repair-bootstrap",
    "repair-done",
    "repair-refused",
    "repair-trimmed",
    "repair-unresolved",
    "restated",
    "token-flaps",
    "wanted",
    BLOCKED,
    CAPACITY_GREW,
    CAPACITY_SHRANK,
    COLLISION,
    CUT,
    FAR_FUTURE,
    FLAP,
    FLIPPED,
    FROZEN,
    HEAL,
    HOLD,
    JOIN_STORM,
    LEFT_CLOCK,
    LEFT_CUT,
    LEFT_DEAD,
    LEFT_SLOW,
    MEMBERSHIP_WRONG,
    NAMESAKE,
    PAUSED,
    PAUSED_LONG,
    QUEUE_FULL,
    REUSED,
    ROLLED_BACK,
    ROLLING_RESTART,
    STALE,
    STALE_RECONNECTED,
    SWIZZLE,
    TAKEOVER,
    TOKEN_REPEATED,
    TRUNCATED,
    TWIN,
    WORKER_REMOVED,
    WORKER_RETURNED,
    WRITABLE,
];
