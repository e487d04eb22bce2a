//! Recorded engine events, replayed offline: what the events said a prompt had cached, against what the engine reported.
//!
//! A capture is JSON lines, plain or gzip: frames as they came (`{"t", "frames_hex": [topic, seq, payload]}`), or a
//! stream of operations (`config`, `batch`, `request`, `reset`). Requests may be in a file of their own, as exchanges over
//! HTTP or as token ids with what was cached, and are put between the frames by time.
//!
//! Not here: reading events (`decode`), live ingestion.

mod lines;

use std::collections::BTreeMap;
use std::path::Path;

use covey_crdt::hash::HashKey;
use covey_crdt::id::ModelName;
use serde::{Deserialize, Serialize};

pub use lines::CaptureError;

use super::{CacheRules, EngineCache, Event, decode};
use lines::{for_lines, unhex};

/// Mismatches listed at most; all are counted.
const MISMATCHES_MAX: usize = 1_000;

/// A request whose prediction differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// Its line in the file it is in, from 1.
    pub line: usize,
    /// Tokens that the events said were cached.
    pub predicted: u64,
    /// Tokens that the engine reported.
    pub reported: u64,
    /// What may explain it.
    pub why: String,
}

/// What a replay came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Messages read.
    pub frames: u64,
    /// Events that could not be used, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Requests whose prompt's token ids are known and whose engine reported cached tokens.
    pub requests: u64,
    /// Those of them predicted exactly.
    pub exact: u64,
    /// Requests that cannot be judged: their token ids are not recorded.
    pub unjudged: u64,
    /// Messages that are missing by their numbers.
    pub missing_frames: u64,
    /// The others, in order; the first thousand.
    pub mismatches: Vec<Mismatch>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Op {
    Config {},
    Batch { seq: u64, payload_hex: String },
    Request { tokens: Vec<u32>, hit_tokens: u64 },
    Reset {},
}

#[derive(Deserialize)]
struct Frames {
    t: f64,
    frames_hex: Vec<String>,
}

#[derive(Deserialize)]
struct Exchange {
    t0: f64,
    path: Option<String>,
    status: Option<u16>,
    request: Option<Asked>,
    response: Option<Answered>,
    prompt_token_ids: Option<Vec<u32>>,
    num_cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Asked {
    prompt: Option<Prompt>,
    cache_salt: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Prompt {
    Tokens(Vec<u32>),
    Other(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answered {
    Completion { usage: Usage, prompt_token_ids: Option<Vec<u32>> },
    Other(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}

/// Something that passed a gateway.
enum Passed {
    /// A request to judge.
    Request(Request),
    /// The engine was told to forget everything, and agreed: whoever passes that on knows it at once.
    Reset,
}

/// A request to judge.
struct Request {
    line: usize,
    tokens: Option<Vec<u32>>,
    salt: Option<String>,
    reported: u64,
}

/// Replays the events of `capture`, and judges the requests in it and in `requests`.
///
/// # Errors
/// [`CaptureError`] names file and line. Events that cannot be read are no error: they are counted, as they would be live.
pub fn replay(capture: &Path, requests: Option<&Path>) -> Result<Report, CaptureError> {
    let mut asked = match requests {
        Some(path) => read_requests(path)?,
        None => Vec::new(),
    };
    asked.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let mut asked = asked.into_iter().peekable();
    let mut replay = Replay::new();
    for_lines(capture, |line, text| {
        if let Ok(op) = serde_json::from_str::<Op>(text) {
            replay.op(line, op)
        } else {
            let frames: Frames = serde_json::from_str(text).map_err(|why| why.to_string())?;
            while let Some((_, passed)) = asked.next_if(|(at, _)| *at < frames.t) {
                replay.pass(&passed);
            }
            replay.frames(&frames.frames_hex)
        }
    })?;
    for (_, passed) in asked {
        replay.pass(&passed);
    }
    if replay.report.frames == 0 {
        return Err(CaptureError::Empty { path: capture.to_owned() });
    }
    Ok(replay.finish())
}

struct Replay {
    cache: EngineCache,
    report: Report,
    last_seq: Option<u64>,
    /// The engine was told to forget everything, and has published nothing since.
    was_reset: bool,
}

impl Replay {
    fn new() -> Self {
        let model = ModelName::new("capture").expect("a good name");
        let cache = EngineCache::new(model, HashKey::ZERO, CacheRules::default());
        Self { cache, report: Report::default(), last_seq: None, was_reset: false }
    }

    fn op(&mut self, line: usize, op: Op) -> Result<(), String> {
        match op {
            Op::Config {} => {}
            Op::Reset {} => self.was_reset = true,
            Op::Batch { seq, payload_hex } => self.batch(seq, &unhex(&payload_hex)?),
            Op::Request { tokens, hit_tokens } => {
                let tokens = Some(tokens);
                self.judge(&Request { line, tokens, salt: None, reported: hit_tokens });
            }
        }
        Ok(())
    }

    /// `[topic,] seq, payload`: read from the right, because the topic may be missing.
    fn frames(&mut self, frames: &[String]) -> Result<(), String> {
        let [.., seq, payload] = frames else {
            return Err(format!("{} frames, a message has at least a number and a payload", frames.len()));
        };
        let seq = unhex(seq)?;
        let seq = seq.as_slice().try_into().map_err(|_| format!("the number has {} bytes, not 8", seq.len()))?;
        self.batch(u64::from_be_bytes(seq), &unhex(payload)?);
        Ok(())
    }

    fn batch(&mut self, seq: u64, payload: &[u8]) {
        self.report.frames += 1;
        self.was_reset = false;
        let expected = self.last_seq.map_or(seq, |last| last + 1);
        self.report.missing_frames += seq.saturating_sub(expected);
        self.last_seq = Some(seq);
        let decoded = decode(payload);
        for (why, count) in &decoded.refused {
            *self.report.refused.entry(why.name().to_owned()).or_default() += count;
        }
        if decoded.is_broken {
            *self.report.refused.entry("broken".to_owned()).or_default() += 1;
        }
        let _ = self.cache.apply(&decoded.events);
    }

    fn pass(&mut self, passed: &Passed) {
        match passed {
            Passed::Request(request) => self.judge(request),
            Passed::Reset => {
                let _ = self.cache.apply(&[Event::Cleared]);
            }
        }
    }

    fn judge(&mut self, request: &Request) {
        let Some(tokens) = &request.tokens else {
            self.report.unjudged += 1;
            return;
        };
        self.report.requests += 1;
        let predicted = predict(&self.cache, tokens, request.salt.as_deref());
        if predicted == request.reported {
            self.report.exact += 1;
        } else if self.report.mismatches.len() < MISMATCHES_MAX {
            let why = self.why(predicted, request.reported);
            let (line, reported) = (request.line, request.reported);
            self.report.mismatches.push(Mismatch { line, predicted, reported, why });
        }
    }

    fn why(&self, predicted: u64, reported: u64) -> String {
        let counts = self.cache.counts();
        let why = match (self.cache.block_tokens().is_some(), predicted > reported) {
            (false, _) => "no event has told of a block yet",
            (true, true) if self.was_reset => "the cache was reset, and the engine publishes that with its next batch",
            (true, true) if counts.other_group > 0 => "another attention group holds less than this one",
            (true, true) => "blocks went that no event told of",
            (true, false) if self.report.missing_frames > 0 => "messages are missing",
            (true, false) if predicted == 0 => "not one block matches: tokenization, salt or adapter differ",
            (true, false) => "blocks came that no event told of",
        };
        why.to_owned()
    }

    fn finish(mut self) -> Report {
        let counts = self.cache.counts();
        for (why, count) in [
            ("other_group", counts.other_group),
            ("sparse", counts.sparse),
            ("unknown_removed", counts.unknown_removed),
            ("over_bound", counts.over_bound),
        ] {
            if count > 0 {
                self.report.refused.insert(why.to_owned(), count);
            }
        }
        self.report
    }
}

/// Cached tokens of a prompt: whole blocks, and never all of it, because an engine computes the last token again.
fn predict(cache: &EngineCache, tokens: &[u32], salt: Option<&str>) -> u64 {
    let Some(block) = cache.block_tokens().map(u64::from) else { return 0 };
    let most = (tokens.len() as u64).saturating_sub(1) / block;
    u64::from(cache.prefix(&cache.chain(tokens, None, salt))).min(most) * block
}

fn read_requests(path: &Path) -> Result<Vec<(f64, Passed)>, CaptureError> {
    let mut requests = Vec::new();
    for_lines(path, |line, text| {
        let exchange: Exchange = serde_json::from_str(text).map_err(|why| why.to_string())?;
        let at = exchange.t0;
        requests.extend(passed(line, exchange).map(|passed| (at, passed)));
        Ok(())
    })?;
    Ok(requests)
}

/// What an exchange did; nothing for those that generate nothing.
fn passed(line: usize, exchange: Exchange) -> Option<Passed> {
    let request = |tokens, salt, reported| Passed::Request(Request { line, tokens, salt, reported });
    if let Some(reported) = exchange.num_cached_tokens {
        return Some(request(exchange.prompt_token_ids, None, reported));
    }
    if exchange.path?.ends_with("/reset_prefix_cache") {
        return (exchange.status == Some(200)).then_some(Passed::Reset);
    }
    let Answered::Completion { usage, prompt_token_ids } = exchange.response? else { return None };
    let asked = exchange.request?;
    let tokens = match asked.prompt {
        Some(Prompt::Tokens(tokens)) => Some(tokens),
        Some(Prompt::Other(_)) | None => prompt_token_ids,
    };
    let reported = usage.prompt_tokens_details?.cached_tokens?;
    Some(request(tokens, asked.cache_salt, reported))
}
