//! What a worker answers: the script, or words that follow from the prompt.
//!
//! Not here: how long it takes.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::engine::TOKEN_BYTES;

/// An answer, and whether it is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) text: String,
    /// `stop`, or `length` when `max_tokens` cut it.
    pub(super) finish_reason: &'static str,
}

impl Answer {
    /// The script, cut after `tokens_max` tokens.
    pub(super) fn scripted(script: &str, tokens_max: Option<u32>) -> Self {
        let bytes_max = tokens_max.map_or(usize::MAX, |tokens| (tokens as usize).saturating_mul(TOKEN_BYTES));
        let cut = script.floor_char_boundary(bytes_max.min(script.len()));
        let finish_reason = if cut < script.len() { "length" } else { "stop" };
        Self { text: script[..cut].to_owned(), finish_reason }
    }

    /// Exactly `tokens` tokens that depend on nothing but the prompt.
    pub(super) fn made_up(prompt: &[u8], tokens: u32) -> Self {
        let text = (0..tokens).flat_map(|token| word(xxh3_64_with_seed(prompt, u64::from(token)))).collect();
        Self { text, finish_reason: "length" }
    }
}

/// A word of one token: a pronounceable syllable and a space.
fn word(hash: u64) -> [char; TOKEN_BYTES] {
    let pick = |letters: &[u8], shift: u32| char::from(letters[(hash >> shift) as usize % letters.len()]);
    [pick(b"bdfgklmnprstvz", 0), pick(b"aeiou", 16), pick(b"lmnrst", 32), ' ']
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tokens_in;

    #[test]
    fn made_up_answers_have_their_length_and_depend_on_the_prompt() {
        let one = Answer::made_up(b"a prompt", 40);
        assert_eq!(tokens_in(one.text.len()), 40);
        assert_eq!(one, Answer::made_up(b"a prompt", 40));
        assert_ne!(one.text, Answer::made_up(b"another", 40).text);
    }

    #[test]
    fn a_script_is_cut_between_characters_and_says_so() {
        assert_eq!(Answer::scripted("grün", None), Answer { text: "grün".into(), finish_reason: "stop" });
        assert_eq!(Answer::scripted("abcü", Some(1)), Answer { text: "abc".into(), finish_reason: "length" });
    }
}
