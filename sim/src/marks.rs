//! Coverage marks: a name for every note, so that a batch of runs can show which paths it really took.
//!
//! Not here: which marks a batch must hit (its test).

use covey_mesh::note::{Drop, Note, RepairWhy};

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
        Note::RepairRefused { .. } => "repair-refused",
        Note::DigestMismatch { .. } => "digest-mismatch",
        Note::Restated { .. } => "restated",
        Note::Founded => "founded",
        Note::Clean => "clean",
        Note::Dirty => "dirty",
        Note::Clock { .. } => "clock",
        Note::TokenFlaps { .. } => "token-flaps",
        Note::Sent { .. } => "sent",
    }
}
