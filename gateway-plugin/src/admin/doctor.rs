//! `covey doctor`: why is my hit ratio zero? Asks a running gateway (`live`), or judges recorded engine events against what
//! the engine reported.
//!
//! Not here: replaying (`ingest::capture`), judging predictions (`plugin::Detector`).

pub(super) mod live;

use std::io;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use serde::Serialize;

use super::client::AskError;
use crate::cli::args::DoctorArgs;
use crate::ingest::capture::{self, CaptureError, Report};

/// Mismatches shown on a terminal.
const SHOWN_MAX: usize = 10;

/// Why nothing could be judged.
#[derive(Debug)]
pub enum DoctorError {
    /// The capture cannot be used.
    Capture(CaptureError),
    /// The gateway cannot be asked.
    Ask(AskError),
    /// The report cannot be written.
    Write {
        /// Where.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl fmt::Display for DoctorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capture(error) => error.fmt(f),
            Self::Ask(error) => error.fmt(f),
            Self::Write { path, error } => write!(f, "--json: {} cannot be written: {error}", path.display()),
        }
    }
}

impl std::error::Error for DoctorError {}

/// Judges a capture or a running gateway: the text to print, and whether nothing is wrong.
///
/// # Errors
/// [`DoctorError`] when nobody can be asked, or a file cannot be read, understood or written.
pub async fn doctor(args: &DoctorArgs) -> Result<(bool, String), DoctorError> {
    let (is_fine, text, json) = match &args.capture {
        Some(path) => {
            let report = capture::replay(path, args.requests.as_deref()).map_err(DoctorError::Capture)?;
            (report.exact == report.requests, words(&report), json(&report))
        }
        None => {
            let (is_fine, text, report) = live::ask(args).await.map_err(DoctorError::Ask)?;
            (is_fine, text, json(&report))
        }
    };
    if let Some(path) = &args.json {
        write(path, &json)?;
    }
    Ok((is_fine, text))
}

fn json(report: &impl Serialize) -> String {
    serde_json::to_string_pretty(report).expect("plain data serializes") + "\n"
}

fn write(path: &Path, json: &str) -> Result<(), DoctorError> {
    fs::write(path, json).map_err(|error| DoctorError::Write { path: path.to_owned(), error })
}

fn words(report: &Report) -> String {
    let mut text = format!("{} frames", report.frames);
    if report.missing_frames > 0 {
        text += &format!(", {} missing", report.missing_frames);
    }
    text += &format!("; of {} requests {} predicted exactly", report.requests, report.exact);
    if report.unjudged > 0 {
        text += &format!("; {} without recorded token ids, not judged", report.unjudged);
    }
    text.push('\n');
    for (why, count) in &report.refused {
        text += &format!("  not used: {why} {count}\n");
    }
    for mismatch in report.mismatches.iter().take(SHOWN_MAX) {
        let (line, predicted, reported) = (mismatch.line, mismatch.predicted, mismatch.reported);
        text += &format!("  line {line}: predicted {predicted}, reported {reported}: {}\n", mismatch.why);
    }
    let hidden = (report.requests - report.exact) as usize - report.mismatches.len().min(SHOWN_MAX);
    if hidden > 0 {
        text += &format!("  and {hidden} more (--json FILE lists them)\n");
    }
    text
}
