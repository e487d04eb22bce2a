//! Coverage marks: a name for every note, so that a batch of runs can show which paths it really took.
//!
//! Not here: what leaves them (`world`).

use covey_mesh::note::{Drop, Note, RepairWhy};

/// Marks that a batch of some hundred seeds must leave: paths that are easily missed by a change to plans or protocol.
pub const REQUIRED: &[&str] = &[
    "clean",
    "dirty",
    "founded",
    "pulled",
    "wanted",
    "duplicate",
    "repair-bootstrap",
    "repair-aborted",
    "dropped-clock",
    "dropped-incarnation",
    "reborn-clock",
    "clock",
];

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
        Note::RepairAborted { .. } => "repair-aborted",
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
        Note::Sent { .. } => "sent",
    }
}
