//! Flags of an operator's tools: each asks running gateways.
//!
//! Not here: the gateway's own flags.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::super::quantity::parse_duration;

/// Flags of `covey status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Admin address of the gateway to ask.
    #[arg(long, env = "COVEY_ADMIN", default_value = "127.0.0.1:9080", value_name = "ADDR:PORT")]
    pub admin: String,
    /// Print one JSON object instead of lines for people.
    #[arg(long)]
    pub json: bool,
    /// How long the gateway may take to answer (seconds, or with a unit: ms, s, m, h).
    #[arg(long, default_value = "3s", value_parser = parse_duration, value_name = "TIME")]
    pub timeout: Duration,
}

/// Flags of `covey diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Admin address of one gateway.
    #[arg(value_name = "ADDR:PORT")]
    pub one: String,
    /// Admin address of the other.
    #[arg(value_name = "ADDR:PORT")]
    pub other: String,
    /// Print one JSON object instead of lines for people.
    #[arg(long)]
    pub json: bool,
    /// Pause before what differs is read again, up to three times; what goes away meanwhile was under way (seconds, or with a
    /// unit: ms, s, m, h).
    #[arg(long, default_value = "500ms", value_parser = parse_duration, value_name = "TIME")]
    pub settle: Duration,
    /// Holders read block by block, those that differ most first; of the others only their number is told.
    #[arg(long, default_value_t = 20, value_name = "HOLDERS")]
    pub limit: usize,
    /// Blocks listed for each holder and gateway.
    #[arg(long, default_value_t = 4, value_name = "BLOCKS")]
    pub blocks: usize,
    /// How long a gateway may take for one answer, and for all pages of its state or of a holder together (seconds, or
    /// with a unit: ms, s, m, h).
    #[arg(long, default_value = "5s", value_parser = parse_duration, value_name = "TIME")]
    pub timeout: Duration,
}

/// Flags of `covey record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Admin address of the gateway to record.
    #[arg(long, env = "COVEY_ADMIN", default_value = "127.0.0.1:9080", value_name = "ADDR:PORT")]
    pub admin: String,
    /// File to write, JSON lines.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// How long to record (seconds, or with a unit: ms, s, m, h). Default: until Ctrl-C.
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    pub r#for: Option<Duration>,
    /// Begin with the frames that the gateway still has of the last minutes.
    #[arg(long)]
    pub history: bool,
    /// Overwrite the file if it exists.
    #[arg(long)]
    pub force: bool,
}

/// Flags of `covey top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Admin address of the gateway whose view is shown.
    #[arg(long, env = "COVEY_ADMIN", default_value = "127.0.0.1:9080", value_name = "ADDR:PORT")]
    pub admin: String,
    /// Print one screen as plain text and end; needs no terminal.
    #[arg(long)]
    pub once: bool,
    /// Columns of that screen.
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u16).range(20..=500), value_name = "COLUMNS")]
    pub columns: u16,
    /// Rows of that screen.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(4..=500), value_name = "ROWS")]
    pub rows: u16,
    /// With --once: how long the gateway may take to answer (seconds, or with a unit: ms, s, m, h).
    #[arg(long, default_value = "5s", value_parser = parse_duration, value_name = "TIME")]
    pub timeout: Duration,
}

/// Flags of `covey doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Admin address of the gateway to ask.
    #[arg(env = "COVEY_ADMIN", default_value = "127.0.0.1:9080", value_name = "ADDR:PORT")]
    pub admin: String,
    /// How long the gateway may take to answer (seconds, or with a unit: ms, s, m, h).
    #[arg(long, default_value = "3s", value_parser = parse_duration, value_name = "TIME")]
    pub timeout: Duration,
    /// Ask no gateway, judge these engine events as they came: JSON lines, plain or gzip, of objects with `t` (seconds) and
    /// `frames_hex` (topic, number, payload), or a stream of operations.
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// The requests of that time, JSON lines with times, token ids and cached tokens; a stream has its own.
    #[arg(long, value_name = "FILE", requires = "capture")]
    pub requests: Option<PathBuf>,
    /// Write the report there as one JSON object, too.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Flags of `covey explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The request: the x-request-id of its answer.
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub id: String,
    /// Admin address of a gateway that may know it (repeatable or comma-separated); they are asked in turn until one does.
    #[arg(
        long,
        env = "COVEY_ADMIN",
        value_delimiter = ',',
        default_value = "127.0.0.1:9080",
        value_name = "ADDR:PORT"
    )]
    pub admin: Vec<String>,
    /// Print one JSON object instead of lines for people.
    #[arg(long)]
    pub json: bool,
    /// How long each gateway may take to answer (seconds, or with a unit: ms, s, m, h).
    #[arg(long, default_value = "3s", value_parser = parse_duration, value_name = "TIME")]
    pub timeout: Duration,
}
