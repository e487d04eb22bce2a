//! Sessions of real agents, as a recording has them: JSON lines
//! `{"timestamp": µs, "input": text, "output": text, "session_id": text}`.
//!
//! Not here: files and lines (`lines`), who sends what where (`demo`). Upholds: prompts are sent as they were recorded,
//! to the byte.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::session::{Message, Prompts, Session, Turn, Workload};
use crate::engine::TOKEN_BYTES;
use crate::lines;

/// What stands for an answer without text, one token of the engine model: agents' calls of tools are recorded without
/// what they call, and an engine answers no request with nothing.
const NO_TEXT: &str = "call";

/// How to read a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingConfig {
    /// The longest pause before a request; longer ones are cut to it.
    pub gap_max: Duration,
    /// Tokens of the engine model in the longest answer, at least 1; longer ones are cut to it.
    pub answer_tokens_max: usize,
}

/// What a recording holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The file's name, without its directory.
    pub name: String,
    /// Its sessions in the order of their first requests, each with its requests by their times.
    pub workload: Workload,
    /// Requests with an empty prompt, which are left out.
    pub skipped: usize,
    /// Answers that were cut.
    pub answers_cut: usize,
}

#[derive(Deserialize)]
struct Line {
    /// When it was asked, in microseconds since any moment.
    timestamp: f64,
    input: String,
    output: String,
    session_id: String,
}

impl Recording {
    /// Reads a file, plain or compressed with Zstandard.
    ///
    /// A recording tells when requests were made, not when they were answered: what was between two requests of a session
    /// is taken for the pause after the answer.
    ///
    /// # Errors
    /// When the file cannot be read, a line has another form or no line has a prompt; names the file and the line.
    pub fn read(path: &Path, config: &RecordingConfig) -> Result<Self, String> {
        let lines = lines::read::<Line>(path)?;
        let all = lines.len();
        let mut by_session: BTreeMap<String, Vec<Line>> = BTreeMap::new();
        for line in lines.into_iter().filter(|line| !line.input.is_empty()) {
            by_session.entry(line.session_id.clone()).or_default().push(line);
        }
        let mut sessions: Vec<_> = by_session.into_values().collect();
        if sessions.is_empty() {
            return Err(lines::unreadable(path, &"no request in it has a prompt"));
        }
        // A stable sort: requests of one moment keep the file's order, as sessions keep that of their ids.
        sessions.iter_mut().for_each(|asks| asks.sort_by(|one, other| one.timestamp.total_cmp(&other.timestamp)));
        sessions.sort_by(|one, other| one[0].timestamp.total_cmp(&other[0].timestamp));
        let kept: usize = sessions.iter().map(Vec::len).sum();
        let bytes_max = config.answer_tokens_max.saturating_mul(TOKEN_BYTES);
        let answers_cut = sessions.iter().flatten().filter(|ask| ask.output.len() > bytes_max).count();
        let sessions = sessions.into_iter().enumerate().map(|(index, asks)| session(index, asks, config)).collect();
        Ok(Self {
            name: path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            workload: Workload { sessions },
            skipped: all - kept,
            answers_cut,
        })
    }
}

fn session(index: usize, asks: Vec<Line>, config: &RecordingConfig) -> Session {
    let mut before = None;
    let turns = asks.into_iter().map(|ask| {
        let gap_us = before.map_or(0.0, |before| ask.timestamp - before);
        before = Some(ask.timestamp);
        turn(gap_us, ask, config)
    });
    Session { index, turns: turns.collect(), prompts: Prompts::Whole }
}

/// The prompt is one user message. It was recorded as one text, without the roles that its parts had, and a request's text
/// mostly begins with that of one before it; inside one message it still does. A chat is what agents send and what
/// gateways are tried with elsewhere; the marks of its template around the text are the same in every request.
fn turn(gap_us: f64, ask: Line, config: &RecordingConfig) -> Turn {
    let mut answer = if ask.output.is_empty() { NO_TEXT.to_owned() } else { ask.output };
    let bytes_max = config.answer_tokens_max.saturating_mul(TOKEN_BYTES);
    answer.truncate(answer.floor_char_boundary(bytes_max));
    Turn {
        think: Duration::from_micros(gap_us as u64).min(config.gap_max),
        messages: vec![Message { role: "user", content: ask.input }],
        answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::written;

    const CONFIG: RecordingConfig = RecordingConfig { gap_max: Duration::from_millis(500), answer_tokens_max: 3 };

    /// Session b begins first; a's requests are not in order, and one of them has no prompt.
    const TEXT: &str = r#"{"timestamp": 9000000, "input": "one two three", "output": "a long answer", "session_id": "a"}
{"timestamp": 7000000, "input": "one", "output": "grün", "session_id": "a"}
{"timestamp": 7200000, "input": "one two", "output": "", "session_id": "a"}
{"timestamp": 7100000, "input": "", "output": "nothing asked", "session_id": "a"}
{"timestamp": 6999999, "input": "other", "output": "yes", "session_id": "b"}
"#;

    fn read(text: &str) -> Result<Recording, String> {
        Recording::read(written(text.as_bytes()).path(), &CONFIG)
    }

    #[test]
    fn requests_come_by_time_within_their_session_and_gaps_are_capped() {
        let recording = read(TEXT).expect("a recording");
        let sessions = &recording.workload.sessions;
        let prompts = |index: usize| {
            let session: &Session = &sessions[index];
            let prompt = |turn| session.messages(turn).iter().map(|of| of.content.clone()).collect::<Vec<_>>().concat();
            (0..session.turns.len()).map(prompt).collect::<Vec<_>>()
        };
        assert_eq!((sessions.len(), prompts(0)), (2, vec!["other".to_owned()]), "the session that began first");
        assert_eq!(prompts(1), ["one", "one two", "one two three"], "each whole, with nothing of the ones before");
        let gaps: Vec<_> = sessions[1].turns.iter().map(|turn| turn.think.as_millis()).collect();
        assert_eq!(gaps, [0, 200, 500]);
        assert_eq!((sessions[0].index, sessions[1].index), (0, 1));
    }

    #[test]
    fn what_is_left_out_and_cut_is_counted() {
        let recording = read(TEXT).expect("a recording");
        assert_eq!((recording.skipped, recording.answers_cut, recording.workload.requests()), (1, 1, 4));
        let answers: Vec<_> = recording.workload.sessions[1].turns.iter().map(|turn| &turn.answer[..]).collect();
        assert_eq!(answers, ["grün", NO_TEXT, "a long answe"], "three tokens at most, and never nothing");
    }

    #[test]
    fn gaps_that_are_negative_or_beyond_all_measure_are_none_and_the_cap() {
        let line =
            |at: &str| format!("{{\"timestamp\": {at}, \"input\": \"x\", \"output\": \"y\", \"session_id\": \"a\"}}\n");
        let recording = read(&[line("-1e300"), line("1e300")].concat()).expect("a recording");
        let gaps: Vec<_> = recording.workload.sessions[0].turns.iter().map(|turn| turn.think).collect();
        assert_eq!(gaps, [Duration::ZERO, CONFIG.gap_max]);
    }

    #[test]
    fn a_line_of_another_form_is_named_with_what_it_lacks() {
        let why = read(&format!("{TEXT}{{\"timestamp\": 1, \"output\": \"y\", \"session_id\": \"a\"}}\n"));
        let why = why.expect_err("no prompt");
        assert!(why.contains("line 6: missing field `input`"), "{why}");
        let empty = "{\"timestamp\": 1, \"input\": \"\", \"output\": \"y\", \"session_id\": \"a\"}\n";
        let why = read(empty).expect_err("nothing to play");
        assert!(why.contains("no request in it has a prompt"), "{why}");
    }
}
