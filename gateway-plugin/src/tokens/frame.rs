//! The framing bytes of the rendering. Each is a byte that valid UTF-8 never holds, so no content can imitate a frame
//! and nothing needs escaping.
//!
//! A message is `MESSAGE role BODY [REASONING text BODY] content [CALL name ARGUMENTS text CALL_ID id]* [NAME name]
//! [ANSWERS id] END`; what precedes the messages is `OPTIONS json` and `TOOLS json`, each only when present. Every
//! field runs to the next framing byte.

/// Template options that alter the prompt, as compact JSON.
pub(super) const OPTIONS: u8 = 0xC0;
/// The tools offered, as compact JSON.
pub(super) const TOOLS: u8 = 0xC1;
/// The id of the call that a tool message answers.
pub(super) const ANSWERS: u8 = 0xF5;
/// The author's name.
pub(super) const NAME: u8 = 0xF6;
/// A tool call's id.
pub(super) const CALL_ID: u8 = 0xF7;
/// A tool call's arguments.
pub(super) const ARGUMENTS: u8 = 0xF8;
/// A tool call; the function's name follows.
pub(super) const CALL: u8 = 0xF9;
/// Reasoning that precedes the content.
pub(super) const REASONING: u8 = 0xFA;
/// A content part that is not text, as the hex digest of its JSON.
pub(super) const OPAQUE: u8 = 0xFB;
/// Between two content parts.
pub(super) const PART: u8 = 0xFC;
/// The end of a message.
pub(super) const END: u8 = 0xFD;
/// The role (or the reasoning) is over, the content follows.
pub(super) const BODY: u8 = 0xFE;
/// A message; its role follows.
pub(super) const MESSAGE: u8 = 0xFF;

/// Appends `tag` and the text after it.
pub(super) fn field(out: &mut Vec<u8>, tag: u8, text: &str) {
    out.push(tag);
    out.extend_from_slice(text.as_bytes());
}
