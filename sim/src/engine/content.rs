//! What a request is to the cache: the ids of its tokens, and the chained contents of its full blocks.
//!
//! Without a tokenizer a token is four bytes of UTF-8 (ruling R12), and its id is these bytes; so byte capacity at a gateway
//! and cached tokens here agree. Prompt and answer are one run of tokens: a turn's answer is part of the next turn's
//! prompt, and its blocks hit again.
//!
//! Not here: which blocks are cached (`pool`), what they are called on the wire (`kv`).

use std::sync::Arc;

use covey_crdt::limits::BYTES_PER_TOKEN;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Bytes in one token; the last token of a text may have fewer.
pub const TOKEN_BYTES: usize = BYTES_PER_TOKEN as usize;
/// Tokens in one block, unless an engine is told otherwise.
pub const BLOCK_TOKENS: u32 = 16;

/// Names one block's content and everything before it. Equal keys are equal prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockKey(pub u128);

/// What one full block holds, and behind what it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockContent {
    /// Its name.
    pub key: BlockKey,
    /// The block before it; `None` at the start of a prompt.
    pub parent: Option<BlockKey>,
    /// The ids of its tokens.
    pub tokens: Box<[u32]>,
    /// The salt of the prompt it belongs to, in every block of it.
    pub salt: Option<Arc<str>>,
}

/// How many tokens a text of `bytes` bytes is.
///
/// # Panics
/// When that is more than `u32::MAX` tokens (16 GiB of text); callers bound their text far below.
#[must_use]
pub fn tokens_in(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(TOKEN_BYTES)).expect("texts are bounded far below 16 GiB")
}

/// The ids of a text's tokens: each is its four bytes, the first one lowest; missing bytes of the last are zero.
#[must_use]
pub fn text_tokens(text: &[u8]) -> Vec<u32> {
    let token = |bytes: &[u8]| bytes.iter().rev().fold(0, |id, byte| id << 8 | u32::from(*byte));
    text.chunks(TOKEN_BYTES).map(token).collect()
}

/// The full blocks of a run of tokens, root first. Runs under different salts share no block; an empty salt is none.
#[must_use]
pub fn chain(salt: &str, tokens: &[u32], block_tokens: u32) -> Vec<Arc<BlockContent>> {
    let mut before = xxh3_128(salt.as_bytes());
    let salt = (!salt.is_empty()).then(|| Arc::from(salt));
    let mut parent = None;
    let blocks = tokens.chunks_exact(block_tokens.max(1) as usize);
    blocks
        .map(|block| {
            let mut state = Xxh3::new();
            state.update(&before.to_le_bytes());
            block.iter().for_each(|id| state.update(&id.to_le_bytes()));
            before = state.digest128();
            let key = BlockKey(before);
            let parent = parent.replace(key);
            Arc::new(BlockContent { key, parent, tokens: block.into(), salt: salt.clone() })
        })
        .collect()
}

/// A request as the engine sees it. The answer is known beforehand; the engine only spends the time it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Ids of the prompt's tokens, then of those the engine generates.
    tokens: Arc<[u32]>,
    prompt_tokens: u32,
    salt: Arc<str>,
}

impl Job {
    /// The job of answering a prompt of token ids. An empty prompt is one token of id 0, and so is an empty answer.
    ///
    /// # Panics
    /// When these are more than `u32::MAX` tokens; callers bound them far below.
    #[must_use]
    pub fn new(salt: &str, prompt: &[u32], answer: &[u32]) -> Self {
        let or_one = |tokens: &[u32]| if tokens.is_empty() { vec![0] } else { tokens.to_vec() };
        let (mut tokens, answer) = (or_one(prompt), or_one(answer));
        let prompt_tokens = u32::try_from(tokens.len()).expect("prompts are bounded far below");
        tokens.extend(answer);
        u32::try_from(tokens.len()).expect("answers are bounded far below");
        Self { tokens: tokens.into(), prompt_tokens, salt: salt.into() }
    }

    /// The job of answering a text, in tokens of four bytes. An answer that fits into the prompt's last, partial token
    /// counts as one token, and so does an empty one.
    #[must_use]
    pub fn text(salt: &str, prompt: &str, answer: &str) -> Self {
        let all = text_tokens(&[prompt.as_bytes(), answer.as_bytes()].concat());
        let (prompt, answer) = all.split_at(tokens_in(prompt.len()) as usize);
        Self::new(salt, prompt, answer)
    }

    /// Tokens of the prompt, at least 1.
    #[must_use]
    pub const fn prompt_tokens(&self) -> u32 {
        self.prompt_tokens
    }

    /// Ids of the prompt's tokens.
    #[must_use]
    pub fn prompt(&self) -> &[u32] {
        &self.tokens[..self.prompt_tokens as usize]
    }

    /// Tokens the engine generates, at least 1.
    #[must_use]
    pub fn output_tokens(&self) -> u32 {
        self.answer().len() as u32
    }

    /// Ids of the tokens the engine generates.
    #[must_use]
    pub fn answer(&self) -> &[u32] {
        &self.tokens[self.prompt_tokens as usize..]
    }

    /// The full blocks of prompt and answer, root first. Blocks it does not reach are never cached.
    #[must_use]
    pub fn chain(&self, block_tokens: u32) -> Vec<Arc<BlockContent>> {
        chain(&self.salt, &self.tokens, block_tokens)
    }

    /// Blocks the job needs at its longest: the last generated token is never computed, so it needs no room.
    #[must_use]
    pub fn blocks(&self, block_tokens: u32) -> u32 {
        (self.tokens.len() as u32 - 1).div_ceil(block_tokens.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(salt: &str, text: &str) -> Vec<BlockKey> {
        chain(salt, &text_tokens(text.as_bytes()), 16).iter().map(|block| block.key).collect()
    }

    #[test]
    fn an_id_is_its_bytes_and_a_block_names_its_parent() {
        assert_eq!(text_tokens(b"abcde"), [0x6463_6261, 0x65]);
        let chain = chain("s", &[1, 2, 3, 4, 5], 2);
        assert_eq!(chain.iter().map(|block| &*block.tokens).collect::<Vec<_>>(), [[1, 2], [3, 4]]);
        assert_eq!((chain[0].parent, chain[1].parent), (None, Some(chain[0].key)));
        assert_eq!(chain[1].salt.as_deref(), Some("s"));
    }

    #[test]
    fn a_partial_last_token_counts_as_one() {
        assert_eq!([0, 1, 4, 5].map(tokens_in), [0, 1, 1, 2]);
    }

    #[test]
    fn a_key_names_the_whole_prefix() {
        let (one, other) = ("a".repeat(200), format!("b{}", "a".repeat(199)));
        let (one, other) = (keys("", &one), keys("", &other));
        assert_eq!(one.len(), 3);
        assert_ne!(one[2], other[2], "equal third blocks after different first ones");
        assert_ne!(one[0], one[1], "a repeated block is another block");
    }

    #[test]
    fn a_salt_separates_everything() {
        let text = "c".repeat(128);
        assert_ne!(keys("", &text)[0], keys("tenant", &text)[0]);
    }

    #[test]
    fn a_turn_and_its_answer_are_a_prefix_of_the_next() {
        let (prompt, answer) = ("p".repeat(101), "q".repeat(37));
        let first = Job::text("", &prompt, &answer);
        let next = Job::text("", &format!("{prompt}{answer} and then"), "done");
        assert!(next.chain(16).starts_with(&first.chain(16)));
        assert_eq!((first.prompt_tokens(), first.output_tokens()), (26, 9));
    }

    #[test]
    fn an_answer_is_never_shorter_than_a_token() {
        assert_eq!(Job::text("", "abcde", "xy").output_tokens(), 1);
        assert_eq!(Job::text("", "", "").prompt_tokens(), 1);
    }
}
