//! Sessions: their turns, texts and pauses.
//!
//! Not here: the text they quote (`corpus`).

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::corpus::{FILES, SYSTEM_PROMPT};
use super::dice::Dice;
use crate::engine::TOKEN_BYTES;

/// The longest pause, as a multiple of the mean.
const THINK_MAX: f64 = 5.0;

/// What sessions are like. Ranges include both ends; sizes are in tokens of the engine model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Tokens of each of so many system prompts, of which every session has one; `None`: all have [`SYSTEM_PROMPT`].
    pub systems: Option<(usize, usize)>,
    /// Turns of the shortest session.
    pub turns_min: usize,
    /// Turns of the longest: without a bound one session could outlast all others together.
    pub turns_max: usize,
    /// Mean of the geometric number of turns beyond the shortest, before it is cut at the longest; in tenths.
    pub turns_more_tenths: u32,
    /// A first message, beside the system prompt.
    pub first: (usize, usize),
    /// What a later turn quotes before its question.
    pub quoted: (usize, usize),
    /// An answer.
    pub answer: (usize, usize),
}

impl Shape {
    /// Agents: one system prompt for all, a long first message, about 8 turns with a tool's result each.
    pub const AGENTIC: Self = Self {
        systems: None,
        turns_min: 4,
        turns_max: 14,
        turns_more_tenths: 46,
        first: (6_700, 8_300),
        quoted: (380, 660),
        answer: (100, 150),
    };
    /// People who talk: one of eight short system prompts, short messages, few turns.
    pub const CHAT: Self = Self {
        systems: Some((8, 256)),
        turns_min: 2,
        turns_max: 6,
        turns_more_tenths: 20,
        first: (200, 900),
        quoted: (50, 300),
        answer: (60, 120),
    };
}

/// What to make sessions of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkloadConfig {
    /// Everything follows from it.
    pub seed: u64,
    /// How many sessions.
    pub sessions: usize,
    /// Mean pause between an answer and the next question.
    pub think_mean: Duration,
    /// Their sizes.
    pub shape: Shape,
}

/// All sessions of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// In the order in which they begin.
    pub sessions: Vec<Session>,
}

/// One conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its number.
    pub index: usize,
    /// What its prompts consist of.
    pub prompts: Prompts,
    /// Its turns, at least one.
    pub turns: Vec<Turn>,
}

/// What a turn's prompt consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompts {
    /// A system prompt, the turns before with their answers, and the turn's own messages.
    Grown {
        /// What the session begins with; other sessions have the same.
        system: Cow<'static, str>,
    },
    /// The turn's own messages and nothing else: they were recorded with all that came before them.
    Whole,
}

/// One question and its scripted answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Pause before it is asked.
    pub think: Duration,
    /// Messages that are new in this turn.
    pub messages: Vec<Message>,
    /// What the worker will answer.
    pub answer: String,
}

/// A chat message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: &'static str,
    /// Its text.
    pub content: String,
}

impl Workload {
    /// The sessions that a configuration names.
    #[must_use]
    pub fn new(config: &WorkloadConfig) -> Self {
        Self { sessions: (0..config.sessions).map(|index| Session::new(config, index)).collect() }
    }

    /// Requests in all sessions.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.sessions.iter().map(|session| session.turns.len()).sum()
    }
}

impl Session {
    fn new(config: &WorkloadConfig, index: usize) -> Self {
        let mut dice = Dice::new(config.seed, "session", index as u64);
        let shape = config.shape;
        let more = dice.exponential(1.0) / (1.0 + 10.0 / f64::from(shape.turns_more_tenths)).ln();
        let turns = (shape.turns_min + more as usize).min(shape.turns_max);
        let system = match shape.systems {
            None => Cow::Borrowed(SYSTEM_PROMPT),
            Some((many, tokens)) => Cow::Owned(system(dice.below(many), tokens * TOKEN_BYTES)),
        };
        let mut writer = Writer { dice, shape, session: index, line: 0 };
        let turns = (0..turns).map(|turn| writer.turn(turn, config.think_mean)).collect();
        Self { index, prompts: Prompts::Grown { system }, turns }
    }

    /// The prompt of turn `turn`: the whole conversation up to its question.
    #[must_use]
    pub fn messages(&self, turn: usize) -> Vec<Message> {
        let system = match &self.prompts {
            Prompts::Grown { system } => system.clone().into_owned(),
            Prompts::Whole => return self.turns[turn].messages.clone(),
        };
        let mut messages = vec![Message { role: "system", content: system }];
        for (index, past) in self.turns[..=turn].iter().enumerate() {
            messages.extend(past.messages.iter().cloned());
            if index < turn {
                messages.push(Message { role: "assistant", content: past.answer.clone() });
            }
        }
        messages
    }
}

/// The system prompt of a group of sessions: its number, then text that the others have, too.
fn system(group: usize, bytes: usize) -> String {
    let mut text = format!("You are assistant {group}.\n{SYSTEM_PROMPT}");
    text.truncate(text.floor_char_boundary(bytes));
    text
}

/// Writes one session's text.
struct Writer {
    dice: Dice,
    shape: Shape,
    session: usize,
    /// Lines quoted so far; they are numbered through, which keeps two quotes of one passage apart.
    line: usize,
}

impl Writer {
    fn turn(&mut self, turn: usize, think_mean: Duration) -> Turn {
        let think_s = self.dice.exponential(think_mean.as_secs_f64()).min(THINK_MAX * think_mean.as_secs_f64());
        let messages = if turn == 0 { vec![self.task()] } else { self.tool_result(turn) };
        let tokens = self.dice.between(self.shape.answer.0, self.shape.answer.1);
        Turn { think: Duration::from_secs_f64(think_s), messages, answer: self.answer(turn, tokens * TOKEN_BYTES) }
    }

    fn task(&mut self) -> Message {
        let ticket = self.dice.below(1 << 20);
        let mut content = format!(
            "Task {}-{ticket}: find out how the parts below work together, then propose the smallest change.\n",
            self.session
        );
        let bytes = self.dice.between(self.shape.first.0, self.shape.first.1) * TOKEN_BYTES;
        self.quote(&mut content, bytes);
        Message { role: "user", content }
    }

    fn tool_result(&mut self, turn: usize) -> Vec<Message> {
        let mut result = format!("Result of call {turn} in session {}:\n", self.session);
        let bytes = self.dice.between(self.shape.quoted.0, self.shape.quoted.1) * TOKEN_BYTES;
        self.quote(&mut result, bytes);
        let (path, _) = self.pick_file();
        let question = format!("What does this mean for {path}, and what do you look at next?");
        vec![Message { role: "user", content: result }, Message { role: "user", content: question }]
    }

    fn answer(&mut self, turn: usize, bytes: usize) -> String {
        let mut text = format!("Finding {turn}.");
        while text.len() < bytes {
            let (path, lines) = self.pick_file();
            let line = self.dice.below(lines.lines().count());
            let words = lines.lines().nth(line).expect("below the count").trim();
            let _ = write!(text, " {path}:{line} says `{words}`.");
        }
        text.truncate(text.floor_char_boundary(bytes));
        text
    }

    /// Appends numbered passages of the sources until `content` has grown by about `bytes`.
    fn quote(&mut self, content: &mut String, bytes: usize) {
        let end = content.len() + bytes;
        while content.len() < end {
            let (path, text) = self.pick_file();
            let lines = text.lines().count();
            let (first, many) = (self.dice.below(lines), self.dice.between(20, 80));
            let _ = writeln!(content, "--- {path}, from line {first}");
            for line in text.lines().skip(first).take(many) {
                self.line += 1;
                let _ = writeln!(content, "{}|{line}", self.line);
                if content.len() >= end {
                    break;
                }
            }
        }
    }

    fn pick_file(&mut self) -> (&'static str, &'static str) {
        FILES[self.dice.below(FILES.len())]
    }
}
