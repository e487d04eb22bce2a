//! Metrics of the mesh as this gateway's node sees it: the verdict, its replica, its clock, what it observed.
//!
//! Not here: single peers (`peers`), connections and bytes (`driver`). Upholds I12: what is not known is absent.

use std::fmt::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use covey_mesh::status::{Phase, Status};

use super::feeds;
use super::page::{Page, flag};
use crate::admin::names;
use crate::frame::{MeshFrame, SILENT_MS_MAX, Verdict, verdict};
use crate::plugin::{DELAY_BOUNDS_MS, NotesSnapshot};

/// Kinds of notes that have a counter of their own below (or in the driver's numbers, or with feeds); the rest is one
/// family.
const NAMED_ELSEWHERE: [&str; 18] = [
    "applied",
    "duplicate_ops",
    "dropped",
    "refused",
    "fork",
    "pulled_logs",
    "repair_started",
    "repair_done",
    "repair_aborted",
    "repair_refused",
    "repair_pieces",
    "repair_summary_bytes",
    "repair_slice_bytes",
    "repair_content_bytes",
    "repair_segments",
    "repair_segments_new",
    "digest_mismatch",
    "sent_frames",
];

/// The verdict and the replica; `silent` is how old the status is. The verdict is the dashboard's, which has heard what
/// other gateways see; before the first frame it is this gateway's alone.
pub(super) fn write(
    page: &mut Page<'_>,
    status: &Status,
    silent: Duration,
    frame: Option<&MeshFrame>,
) -> Result<(), Error> {
    let silent_ms = u64::try_from(silent.as_millis()).unwrap_or(u64::MAX);
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let is_old = |frame: &MeshFrame| now_ms.saturating_sub(u128::from(frame.t_ms)) > u128::from(SILENT_MS_MAX);
    let word = match frame {
        Some(frame) if silent_ms > SILENT_MS_MAX || is_old(frame) => Verdict::Unknown,
        Some(frame) => of_word(&frame.verdict.word),
        None => verdict(status, silent_ms).0,
    };
    judge(page, word)?;
    if let Some(ms) = frame.and_then(|frame| frame.verdict.converged_ms) {
        page.gauge(names::LAST_CONVERGED, ms as f64 / 1e3)?;
    }
    let groups = frame.and_then(|frame| frame.gateways.iter().filter_map(|gateway| gateway.group).max());
    if let Some(last) = groups.filter(|_| word != Verdict::Unknown) {
        page.gauge(names::STATE_GROUPS, f64::from(last) + 1.0)?;
    }
    page.gauge(names::SILENT, silent.as_secs_f64())?;
    let phases = [("joining", Phase::Joining), ("clean", Phase::Clean), ("dirty", Phase::Dirty)];
    page.one_of(names::PHASE, "phase", phases.map(|(name, phase)| (name, status.phase == phase)))?;
    if !status.clock.is_empty() {
        page.one_of(names::CLOCK_STATE, "state", ["good", "ahead", "behind"].map(|word| (word, status.clock == word)))?;
    }
    if let Some(ms) = status.clock_ahead_ms {
        page.gauge(names::CLOCK_AHEAD, ms as f64 / 1e3)?;
    }
    replica(page, status)
}

/// A word that this version does not know says nothing.
fn of_word(word: &str) -> Verdict {
    Verdict::ALL.into_iter().find(|verdict| verdict.name() == word).unwrap_or(Verdict::Unknown)
}

fn judge(page: &mut Page<'_>, word: Verdict) -> Result<(), Error> {
    page.one_of(names::VERDICT, "word", Verdict::ALL.map(|each| (each.name(), each == word)))?;
    if word != Verdict::Unknown {
        page.gauge(names::CONVERGED, flag(word == Verdict::Converged))?;
    }
    Ok(())
}

fn replica(page: &mut Page<'_>, status: &Status) -> Result<(), Error> {
    for (named, value) in [
        (names::WORKERS, status.workers),
        (names::HOLDERS, status.holders),
        (names::BLOCKS, status.blocks),
        (names::OPS_HELD, status.ops_held),
        (names::LOG_BYTES, status.log_bytes),
        (names::LIVES, status.lives),
        (names::LIVES_CLOSING, status.closing),
        (names::LIVES_RETIRED, status.retired),
        (names::REPAIRING, u64::from(status.repairing)),
    ] {
        page.gauge(named, value as f64)?;
    }
    page.counter(names::OPS_APPLIED, status.ops_applied)
}

/// What the node observed, over all lives of the process.
pub(super) fn observed(page: &mut Page<'_>, notes: &NotesSnapshot) -> Result<(), Error> {
    let by_why = |what: &'static str| {
        notes.counts.iter().filter(move |(kind, ..)| *kind == what).map(|(_, why, count)| (*why, *count))
    };
    let of = |what: &str| notes.of(what, "");
    let received = [("applied", of("applied")), ("duplicate", of("duplicate_ops"))];
    page.counters(names::OPS_RECEIVED, "use", received)?;
    page.counters(names::OPS_UNPUBLISHED, "reason", by_why("dropped"))?;
    page.counters(names::REFUSALS, "reason", by_why("refused"))?;
    page.counter(names::MISMATCHES, of("digest_mismatch"))?;
    page.counter(names::FORKS, of("fork"))?;
    page.counter(names::PULLED_LOGS, of("pulled_logs"))?;
    page.counters(names::REPAIRS_STARTED, "reason", by_why("repair_started"))?;
    let ended = std::iter::once(("done", of("repair_done"))).chain(by_why("repair_aborted"));
    page.counters(names::REPAIRS_ENDED, "outcome", ended)?;
    page.counter(names::REPAIRS_REFUSED, of("repair_refused"))?;
    page.counter(names::REPAIR_PIECES, of("repair_pieces"))?;
    let (all, new) = (of("repair_segments"), of("repair_segments_new"));
    page.counters(names::REPAIR_SEGMENTS, "use", [("new", new), ("known", all.saturating_sub(new))])?;
    let parts =
        [("summary", "repair_summary_bytes"), ("slice", "repair_slice_bytes"), ("content", "repair_content_bytes")];
    page.counters(names::REPAIR_BYTES, "part", parts.map(|(part, kind)| (part, of(kind))))?;
    let elsewhere =
        |kind: &str| NAMED_ELSEWHERE.contains(&kind) || feeds::NAMED_HERE.contains(&kind) || kind == "sent_bytes";
    let rest = notes.counts.iter().filter(|(kind, ..)| !elsewhere(kind)).copied();
    page.counters_by_two(names::NOTES, ["what", "why"], rest)?;
    propagation(page, notes)
}

fn propagation(page: &mut Page<'_>, notes: &NotesSnapshot) -> Result<(), Error> {
    let bounds = DELAY_BOUNDS_MS.iter().map(|ms| *ms as f64 / 1e3).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(notes.delays).collect();
    page.histogram(names::PROPAGATION, notes.delay_ms_sum as f64 / 1e3, notes.delays.iter().sum(), &buckets)
}
