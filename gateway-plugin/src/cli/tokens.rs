//! How prompts become token ids: tokenizers by model, the block size, and which names are adapters.
//!
//! Not here: what a tokenizer does (`tokens`), block sizes learned from events (`tokens::BlockSizes`).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use covey_crdt::id::ModelName;
use covey_crdt::limits::BLOCK_UNITS_MAX;

use super::args::TokenArgs;
use super::error::{ConfigError, named};
use crate::tokens::{LoadTokenizer, Tokenizer, TokenizerOptions};

/// What is wrong with a flag about token ids.
#[derive(Debug)]
pub enum TokensError {
    /// `--tokenizer` cannot be loaded.
    Load(LoadTokenizer),
    /// Two tokenizers for one model.
    Two {
        /// The model.
        model: String,
    },
    /// A name that is a model and an adapter.
    AdapterIsModel {
        /// The name.
        given: String,
    },
}

impl fmt::Display for TokensError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(error) => write!(f, "{}: {error}", named("tokenizer")),
            Self::Two { model } => write!(
                f,
                "{}: {model:?} has two tokenizers; give each model one: --tokenizer MODEL=PATH",
                named("tokenizer")
            ),
            Self::AdapterIsModel { given } => write!(
                f,
                "{}: {given:?} is also given with {}; a name is either a model or an adapter of the first model",
                named("adapter"),
                named("model")
            ),
        }
    }
}

/// What is known of models' tokens.
#[derive(Clone, Debug, Default)]
pub struct TokenSettings {
    /// Tokenizers by model; a model without one is looked up by its bytes, but for prompts of token ids.
    pub tokenizers: Vec<(ModelName, Arc<Tokenizer>)>,
    /// Tokens in a block, until a worker's events say it.
    pub block_tokens: Option<u32>,
    /// Names that mean the first model with a LoRA adapter.
    pub adapters: Vec<ModelName>,
}

impl TokenSettings {
    /// Loads what the flags name. `models` are those of `--model`.
    pub(super) fn parse(args: &TokenArgs, models: &[ModelName]) -> Result<Self, ConfigError> {
        if let Some(given) = args.block_tokens.filter(|given| !(1..=BLOCK_UNITS_MAX).contains(given)) {
            let must = "1 to 65536, the block size of the workers; leave the flag out to learn it from their events";
            return Err(ConfigError::Range { flag: "block-tokens", given: given.into(), must });
        }
        let mut adapters = Vec::new();
        for text in given(&args.adapter) {
            let name = |why| ConfigError::Name { flag: "adapter", given: text.to_owned(), why };
            let adapter = ModelName::new(text).map_err(name)?;
            if models.contains(&adapter) {
                return Err(ConfigError::Tokens(TokensError::AdapterIsModel { given: text.to_owned() }));
            }
            adapters.push(adapter);
        }
        let options = TokenizerOptions {
            cache_bytes: usize::try_from(args.tokenizer_cache_bytes).unwrap_or(usize::MAX),
            trust_request_template: args.trust_request_chat_template,
        };
        let mut tokenizers: Vec<(ModelName, Arc<Tokenizer>)> = Vec::new();
        for text in given(&args.tokenizer) {
            // A path may have a `=` of its own: only a served model's name in front of it is one.
            let named = text.split_once('=').and_then(|(name, path)| Some((of(models, name)?, path)));
            let (served, path) = named.map_or((models, text), |(model, path)| (std::slice::from_ref(model), path));
            let tokenizer = Tokenizer::load(Path::new(path), options)
                .map_err(|error| ConfigError::Tokens(TokensError::Load(error)))?;
            let tokenizer = Arc::new(tokenizer);
            for model in served {
                if tokenizers.iter().any(|(known, _)| known == model) {
                    return Err(ConfigError::Tokens(TokensError::Two { model: model.to_string() }));
                }
                tokenizers.push((model.clone(), Arc::clone(&tokenizer)));
            }
        }
        Ok(Self { tokenizers, block_tokens: args.block_tokens, adapters })
    }
}

fn given(texts: &[String]) -> impl Iterator<Item = &str> {
    texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty())
}

fn of<'m>(models: &'m [ModelName], name: &str) -> Option<&'m ModelName> {
    models.iter().find(|model| model.as_str() == name)
}
