//! Sessions over this repository's own text: every prompt and every answer follows from a seed.
//!
//! An agentic one begins with a system prompt that all sessions share (about 500 tokens) and a long first message of its own;
//! each further turn carries the answer before it, a tool's result and a question. Chats are
//! shorter ([`Shape::CHAT`]). Answers are scripted, so every arm of a comparison does the same work.
//!
//! [`Recording`] has sessions of real agents instead, read from a file.
//!
//! Not here: who sends them where (`demo`, `race`). Upholds: same seed and same sources, same bytes.

mod corpus;
mod dice;
mod recording;
mod session;

pub use corpus::{FILES, SYSTEM_PROMPT};
pub use dice::Dice;
pub use recording::{Recording, RecordingConfig};
pub use session::{Message, Prompts, Session, Shape, Turn, Workload, WorkloadConfig};

#[cfg(test)]
mod tests;
