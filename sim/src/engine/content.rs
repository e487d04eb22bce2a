//! What a request is to the cache: token counts, and the chained keys of its full blocks.
//!
//! A token is four bytes of UTF-8 (ruling R12), so byte capacity at a gateway and cached tokens here agree. Prompt and
//! answer are one run of bytes: a turn's answer is part of the next turn's prompt, and its blocks hit again.
//!
//! Not here: which blocks are cached (`pool`).

use covey_crdt::limits::BYTES_PER_TOKEN;
use xxhash_rust::xxh3::xxh3_128;

/// Bytes in one token; the last token of a text may have fewer.
pub const TOKEN_BYTES: usize = BYTES_PER_TOKEN as usize;
/// Tokens in one block.
pub const BLOCK_TOKENS: u32 = 16;
/// Bytes in one full block.
const BLOCK_BYTES: usize = TOKEN_BYTES * BLOCK_TOKENS as usize;
/// Bytes of a chained key.
const KEY_BYTES: usize = 16;

/// Names one block's content and everything before it. Equal keys are equal prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockKey(pub u128);

/// How many tokens a text of `bytes` bytes is.
///
/// # Panics
/// When that is more than `u32::MAX` tokens (16 GiB of text); callers bound their text far below.
#[must_use]
pub fn tokens_in(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(TOKEN_BYTES)).expect("texts are bounded far below 16 GiB")
}

/// The keys of a text's full blocks, root first. Texts under different salts share no block.
#[must_use]
pub fn chain(salt: &str, text: &[u8]) -> Vec<BlockKey> {
    let mut before = xxh3_128(salt.as_bytes()).to_le_bytes();
    let blocks = text.chunks_exact(BLOCK_BYTES);
    blocks
        .map(|block| {
            let mut input = [0_u8; KEY_BYTES + BLOCK_BYTES];
            input[..KEY_BYTES].copy_from_slice(&before);
            input[KEY_BYTES..].copy_from_slice(block);
            let key = xxh3_128(&input);
            before = key.to_le_bytes();
            BlockKey(key)
        })
        .collect()
}

/// A request as the engine sees it. The answer is known beforehand; the engine only spends the time it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Tokens of the prompt, at least 1.
    pub prompt_tokens: u32,
    /// Tokens the engine generates, at least 1.
    pub output_tokens: u32,
    /// Keys of the full blocks of prompt and answer, root first. Blocks it does not reach are never cached.
    pub chain: Vec<BlockKey>,
}

impl Job {
    /// The job of answering `prompt` with `answer`. An answer that fits into the prompt's last, partial token counts as
    /// one token, and so does an empty one.
    #[must_use]
    pub fn new(salt: &str, prompt: &str, answer: &str) -> Self {
        let prompt_tokens = tokens_in(prompt.len()).max(1);
        let all_tokens = tokens_in(prompt.len() + answer.len());
        let text = [prompt.as_bytes(), answer.as_bytes()].concat();
        Self {
            prompt_tokens,
            output_tokens: all_tokens.saturating_sub(prompt_tokens).max(1),
            chain: chain(salt, &text),
        }
    }

    /// Blocks the job needs at its longest: the last generated token is never computed, so it needs no room.
    #[must_use]
    pub const fn blocks(&self) -> u32 {
        (self.prompt_tokens + self.output_tokens - 1).div_ceil(BLOCK_TOKENS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_last_token_counts_as_one() {
        assert_eq!([0, 1, 4, 5].map(tokens_in), [0, 1, 1, 2]);
    }

    #[test]
    fn a_key_names_the_whole_prefix() {
        let (one, other) = ("a".repeat(200), format!("b{}", "a".repeat(199)));
        let (one, other) = (chain("", one.as_bytes()), chain("", other.as_bytes()));
        assert_eq!(one.len(), 3);
        assert_ne!(one[2], other[2], "equal third blocks after different first ones");
        assert_ne!(one[0], one[1], "a repeated block is another block");
    }

    #[test]
    fn a_salt_separates_everything() {
        let text = "c".repeat(128);
        assert_ne!(chain("", text.as_bytes())[0], chain("tenant", text.as_bytes())[0]);
    }

    #[test]
    fn a_turn_and_its_answer_are_a_prefix_of_the_next() {
        let (prompt, answer) = ("p".repeat(101), "q".repeat(37));
        let first = Job::new("", &prompt, &answer);
        let next = Job::new("", &format!("{prompt}{answer} and then"), "done");
        assert!(next.chain.starts_with(&first.chain));
        assert_eq!((first.prompt_tokens, first.output_tokens), (26, 9));
    }

    #[test]
    fn an_answer_is_never_shorter_than_a_token() {
        assert_eq!(Job::new("", "abcde", "xy").output_tokens, 1);
        assert_eq!(Job::new("", "", "").prompt_tokens, 1);
    }
}
