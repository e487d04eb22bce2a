//! `covey record`: writes a gateway's frames to a file, one JSON object a line, until it is told to stop.
//!
//! Every frame is written whole with one call, so that a recording that is cut off ends with a whole line.
//!
//! Not here: reading the stream (`stream`); playing a recording (`covey-sim serve`, the page).

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

use super::client::{AdminClient, AskError};
use super::stream::{From, Heard, follow};
use crate::cli::args::RecordArgs;

/// Why nothing more is recorded. What was written before stays.
#[derive(Debug)]
pub enum RecordError {
    /// The file is there already. Nothing was asked or written.
    Exists(PathBuf),
    /// It cannot be written. Fault: the path, or the disk.
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The gateway could not be asked at all. A file without frames may be left behind only with `--force`.
    Ask(AskError),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists(path) => {
                write!(f, "{} exists: choose another --out, or overwrite it with --force", path.display())
            }
            Self::Write { path, error } => write!(f, "cannot write {}: {error}", path.display()),
            Self::Ask(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RecordError {}

impl RecordError {
    /// 1: the file cannot be written, 3: the gateway could not be asked.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Exists(_) | Self::Write { .. } => 1,
            Self::Ask(_) => 3,
        }
    }
}

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Where.
    pub path: PathBuf,
    /// Frames.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From the first frame to the last, milliseconds; where the gateway's clock stepped back, nothing is counted.
    pub span_ms: u64,
    /// Times the stream broke.
    pub breaks: u64,
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, seconds) = (self.path.display(), self.span_ms as f64 / 1e3);
        write!(f, "wrote {} frames over {seconds:.1} s ({} bytes) to {path}", self.frames, self.bytes)?;
        if self.breaks > 0 {
            write!(f, "; the stream broke {} time{}", self.breaks, if self.breaks == 1 { "" } else { "s" })?;
        }
        Ok(())
    }
}

/// The file, and what is in it so far.
struct Tape {
    file: File,
    last_ms: Option<u64>,
    /// Whether the stream is broken now.
    broken: bool,
    recorded: Recorded,
}

impl Tape {
    fn create(path: &Path, force: bool) -> Result<Self, RecordError> {
        let mut options = OpenOptions::new();
        let options =
            if force { options.write(true).create(true).truncate(true) } else { options.write(true).create_new(true) };
        let file = options.open(path).map_err(|error| {
            let path = path.to_owned();
            if error.kind() == io::ErrorKind::AlreadyExists {
                RecordError::Exists(path)
            } else {
                RecordError::Write { path, error }
            }
        })?;
        Ok(Self {
            file,
            last_ms: None,
            broken: false,
            recorded: Recorded { path: path.to_owned(), ..Recorded::default() },
        })
    }

    fn write(&mut self, t_ms: u64, mut line: String) -> Result<(), RecordError> {
        line.push('\n');
        let path = &self.recorded.path;
        self.file.write_all(line.as_bytes()).map_err(|error| RecordError::Write { path: path.clone(), error })?;
        let step = t_ms.saturating_sub(self.last_ms.replace(t_ms).unwrap_or(t_ms));
        self.recorded.frames += 1;
        self.recorded.bytes += line.len() as u64;
        self.recorded.span_ms = self.recorded.span_ms.saturating_add(step);
        Ok(())
    }
}

/// Records until the time is over or the process is told to stop (SIGINT, SIGTERM). `say` is told of breaks.
///
/// # Errors
/// [`RecordError`] when there is nothing to record or nowhere to write it.
pub async fn record(args: &RecordArgs, mut say: impl FnMut(&str)) -> Result<Recorded, RecordError> {
    if !args.force && args.out.exists() {
        return Err(RecordError::Exists(args.out.clone()));
    }
    let refused = |error| RecordError::Write { path: args.out.clone(), error };
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt()).map_err(refused)?, signal(SignalKind::terminate()).map_err(refused)?);
    let client = AdminClient::new(&args.admin, None).map_err(RecordError::Ask)?;
    let mut frames = follow(client, if args.history { From::Retained } else { From::Latest });
    let mut tape: Option<Tape> = None;
    let over = sleep(args.r#for.unwrap_or(FOR_EVER));
    tokio::pin!(over);
    let began = Instant::now();
    loop {
        let heard = tokio::select! {
            heard = frames.recv() => heard,
            () = &mut over => None,
            _ = interrupt.recv() => None,
            _ = terminate.recv() => None,
        };
        match (heard, &mut tape) {
            (None, Some(tape)) => return Ok(std::mem::take(&mut tape.recorded)),
            (None, None) => return Ok(Tape::create(&args.out, args.force)?.recorded),
            // Nothing was ever heard: the address is wrong, or nobody is there.
            (Some(Heard::Lost(error)), None) => return Err(RecordError::Ask(error)),
            (Some(Heard::Lost(error)), Some(tape)) => {
                if !std::mem::replace(&mut tape.broken, true) {
                    tape.recorded.breaks += 1;
                    say(&format!("after {:.1} s: {error}; trying again", began.elapsed().as_secs_f64()));
                }
            }
            (Some(Heard::Back { restarted }), tape) => {
                if let Some(tape) = tape {
                    tape.broken = false;
                }
                say(if restarted { "the gateway began anew; recording goes on" } else { "recording goes on" });
            }
            (Some(Heard::Frame(frame, line)), tape) => {
                let tape = match tape {
                    Some(tape) => tape,
                    None => tape.insert(Tape::create(&args.out, args.force)?),
                };
                tape.write(frame.t_ms, line)?;
            }
        }
    }
}

/// Longer than anybody records.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);
