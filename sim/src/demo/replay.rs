//! The demo with a recording of real agents: what was played of it, and whether the mesh kept what one gateway finds.
//!
//! Not here: reading it (`workload`), playing it (`drive`).

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::workload::Recording;

/// The mesh must find at least this part of the cached tokens that one gateway finds.
pub(super) const KEPT_MIN: f64 = 0.98;

/// What was played of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The file's name.
    pub trace: String,
    /// Requests played in each arm.
    pub requests: usize,
    /// Their sessions.
    pub sessions: usize,
    /// Requests with an empty prompt, which were left out.
    pub skipped: usize,
    /// Answers that were cut to the longest there may be.
    pub answers_cut: usize,
}

impl Replay {
    pub(super) fn of(recording: &Recording) -> Self {
        Self {
            trace: recording.name.clone(),
            requests: recording.workload.requests(),
            sessions: recording.workload.sessions.len(),
            skipped: recording.skipped,
            answers_cut: recording.answers_cut,
        }
    }

    /// What was played, on one line.
    pub(super) fn words(&self) -> String {
        let Self { trace, requests, sessions, skipped, answers_cut } = self;
        format!(
            "{trace}: {requests} requests of {sessions} sessions in each arm; {skipped} with an empty prompt skipped, \
             {answers_cut} answers cut"
        )
    }

    pub(super) fn json(&self, kept: Kept) -> Value {
        json!({
            "name": self.trace,
            "requests": self.requests,
            "sessions": self.sessions,
            "skipped_empty_prompts": self.skipped,
            "answers_cut": self.answers_cut,
            "kept": kept.part,
            "kept_min": KEPT_MIN,
            "passed": kept.is_enough,
        })
    }
}

/// The cached share with the mesh beside that with one gateway.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kept {
    /// The one over the other; `None` when one of them is not there, or one gateway found nothing.
    pub part: Option<f64>,
    /// Whether that is enough; also true when it could not be judged.
    pub is_enough: bool,
}

impl Kept {
    /// Judges cached shares of all prompt tokens.
    pub(super) fn of(bound: Option<f64>, mesh: Option<f64>) -> Self {
        let part = bound.zip(mesh).and_then(|(bound, mesh)| (bound > 0.0).then(|| mesh / bound));
        Self { part, is_enough: part.is_none_or(|part| part >= KEPT_MIN) }
    }

    /// The verdict, on a line of its own.
    pub(super) fn push_words(self, text: &mut String) {
        let mark = format!("the mark is {:.0}%", KEPT_MIN * 100.0);
        let _ = match self.part {
            // Cut, not rounded: a miss must not look like the mark.
            Some(part) => {
                let percent = (part * 1_000.0).floor() / 10.0;
                let fault = if self.is_enough { "" } else { "FAILED: " };
                writeln!(
                    text,
                    "{fault}The mesh found {percent:.1}% of the cached tokens that one gateway finds; {mark}."
                )
            }
            None => {
                writeln!(text, "Not judged: {mark} of what one gateway finds, which takes the arms bound and mesh.")
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bound: Option<f64>, mesh: Option<f64>) -> String {
        let mut text = String::new();
        Kept::of(bound, mesh).push_words(&mut text);
        text
    }

    #[test]
    fn the_mark_is_met_at_the_mark_and_missed_below_it() {
        assert!(Kept::of(Some(0.5), Some(0.49)).is_enough);
        let missed = Kept::of(Some(0.9), Some(0.881));
        assert!(!missed.is_enough && missed.part.is_some());
        assert!(words(Some(0.9), Some(0.8819)).contains("FAILED: The mesh found 97.9%"), "not rounded up to the mark");
        assert!(words(Some(0.9), Some(0.91)).starts_with("The mesh found 101.1%"));
    }

    #[test]
    fn what_did_not_run_is_not_judged_and_the_report_says_so() {
        for (bound, mesh) in [(None, Some(0.1)), (Some(0.9), None), (Some(0.0), Some(0.0))] {
            assert_eq!(Kept::of(bound, mesh), Kept { part: None, is_enough: true });
            assert!(words(bound, mesh).starts_with("Not judged"));
        }
    }
}
