//! From a request's body to what it is looked up by: the engine's token ids where the tokenizer and the block size are
//! known, otherwise the canonical bytes.
//!
//! Long bodies are read on a blocking thread, at most one a core at a time, so that encoding delays nobody else's pieces.
//! Not here: the decision (`proxy`). Upholds I11: what cannot be scored is routed all the same, and the reason is counted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;

use bytes::Bytes;
use covey_crdt::hash::BlockHash;
use covey_crdt::id::ModelName;
use covey_crdt::keyspace::Keyspace;
use tokio::sync::Semaphore;
use tracing::debug;
use xxhash_rust::xxh3::xxh3_64;

use super::cpu::CpuTime;
use super::fault::Fault;
use super::gateway::Gateway;
use crate::cli::TokenSettings;
use crate::ingest::Scope;
use crate::plugin::RequestKey;
use crate::tokens::{Answer, AnswerForm, Api, Continuation, Envelope, TokenPrompt, Tokenizer, Unscorable};

/// Bodies longer than this are read on a blocking thread: a cold 8 KiB takes about 2 ms to encode.
const INLINE_BYTES_MAX: usize = 8 << 10;
/// The same for what an answer adds: prompts of more tokens are continued on a blocking thread.
const INLINE_TOKENS_MAX: usize = 2 << 10;

/// What routing needs to know of a request.
pub(super) struct Question {
    pub(super) key: RequestKey,
    pub(super) then: Then,
    pub(super) scorable: bool,
    /// Whether the engine keeps its blocks apart from those of the same tokens.
    pub(super) is_scoped: bool,
    pub(super) session: Option<u64>,
    /// Thread CPU time of naming the blocks, microseconds.
    pub(super) hashing_us: u64,
}

/// How the answer extends the key.
#[derive(Clone, Debug)]
pub(super) enum Then {
    /// By its bytes.
    Bytes(AnswerForm),
    /// By its token ids.
    Tokens(Arc<TokenPrompt>, Option<Arc<Tokenizer>>),
}

impl Then {
    /// The chain of the prompt and its answer.
    pub(super) fn extended(&self, key: &RequestKey, answer: &Answer) -> Arc<[BlockHash]> {
        match self {
            // The engine's own words about what it computed are better than any guess.
            Self::Tokens(..) if !answer.computed_ids().is_empty() => key.extended_by(answer.computed_ids()),
            Self::Bytes(form) => key.extended(&answer.render(*form)),
            Self::Tokens(prompt, Some(tokenizer)) => {
                let whole = catch_unwind(AssertUnwindSafe(|| tokenizer.continued(prompt, answer))).unwrap_or_default();
                // The last token was sampled and never computed.
                let more = whole.get(prompt.ids.len()..).and_then(<[u32]>::split_last);
                key.extended_by(more.map_or(&[][..], |(_, computed)| computed))
            }
            Self::Tokens(_, None) => Arc::clone(key.chain()),
        }
    }

    /// Whether extending takes so long that others should not wait for it.
    pub(super) fn is_long(&self) -> bool {
        matches!(self, Self::Tokens(prompt, Some(_)) if prompt.ids.len() > INLINE_TOKENS_MAX)
    }

    /// The prompt's length in tokens where it was looked up by its tokens.
    pub(super) fn prompt_tokens(&self) -> Option<u64> {
        match self {
            Self::Bytes(_) => None,
            Self::Tokens(prompt, _) => Some(prompt.ids.len() as u64),
        }
    }
}

/// Tokenizers, and what was counted of them.
#[derive(Debug)]
pub(super) struct Scoring {
    settings: TokenSettings,
    blocking: Semaphore,
    untokenized: [AtomicU64; Unscorable::COUNT],
}

impl Scoring {
    pub(super) fn new(settings: TokenSettings) -> Self {
        let cores = available_parallelism().map_or(2, usize::from);
        Self { settings, blocking: Semaphore::new(cores), untokenized: Default::default() }
    }

    fn tokenizer(&self, model: &ModelName) -> Option<&Arc<Tokenizer>> {
        self.settings.tokenizers.iter().find(|(of, _)| of == model).map(|(_, tokenizer)| tokenizer)
    }

    /// Requests that have no token ids, by why.
    pub(super) fn untokenized(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let count = |(why, count): (Unscorable, &AtomicU64)| (why.name(), count.load(Ordering::Relaxed));
        Unscorable::ALL.into_iter().zip(&self.untokenized).map(count)
    }

    /// Bytes of token ids kept of texts encoded before.
    pub(super) fn cached_bytes(&self) -> usize {
        let mut seen: Vec<&Arc<Tokenizer>> = Vec::new();
        for (_, tokenizer) in &self.settings.tokenizers {
            if !seen.iter().any(|known| Arc::ptr_eq(known, tokenizer)) {
                seen.push(tokenizer);
            }
        }
        seen.iter().map(|tokenizer| tokenizer.cached_bytes()).sum()
    }

    fn has_tokenizers(&self) -> bool {
        !self.settings.tokenizers.is_empty()
    }
}

/// What a request is looked up by. `session` is the session that a header names; it goes before the
/// `user` field.
pub(super) async fn question(
    gateway: &Arc<Gateway>,
    api: Api,
    session: Option<Bytes>,
    body: &Bytes,
) -> Result<Question, (Fault, String)> {
    if body.len() <= INLINE_BYTES_MAX || !gateway.scoring().has_tokenizers() {
        return ask(gateway, api, session.as_deref(), body);
    }
    let _permit = gateway.scoring().blocking.acquire().await;
    let (in_thread, body) = (Arc::clone(gateway), body.clone());
    let asked = tokio::task::spawn_blocking(move || ask(&in_thread, api, session.as_deref(), &body)).await;
    asked.unwrap_or_else(|_| Err((Fault::NoWorker, "the gateway failed to read the request".to_owned())))
}

fn ask(gateway: &Gateway, api: Api, session: Option<&[u8]>, body: &[u8]) -> Result<Question, (Fault, String)> {
    let envelope = Envelope::parse(body).map_err(|error| (Fault::BadRequest, error.to_string()))?;
    let keyspace = gateway.keyspace(envelope.model.as_deref()).ok_or_else(|| {
        let known: Vec<_> = gateway.served().map(|model| format!("`{model}`")).collect();
        let asked = envelope.model.as_deref().unwrap_or_default();
        (Fault::UnknownModel, format!("The model `{asked}` does not exist; this gateway serves {}.", known.join(", ")))
    })?;
    let user = envelope.user.as_deref().filter(|_| gateway.config().session.from_user).map(str::as_bytes);
    let session = session.or(user).filter(|session| !session.is_empty()).map(xxh3_64);
    let mut question = match by_tokens(gateway, &keyspace.model, &envelope, api) {
        Some(question) => question,
        None => by_bytes(gateway, keyspace, &envelope, api),
    };
    question.session = session;
    Ok(question)
}

/// By token ids; `None` where they cannot be told, or not what a block of them is.
fn by_tokens(gateway: &Gateway, model: &ModelName, envelope: &Envelope<'_>, api: Api) -> Option<Question> {
    let settings = &gateway.scoring().settings;
    let adapter = settings.adapters.iter().find(|adapter| *adapter == model);
    let base = if adapter.is_some() { gateway.config().models.first()? } else { model };
    let keyspace = gateway.block_sizes().keyspace(base)?;
    let tokenizer = gateway.scoring().tokenizer(base);
    let start = CpuTime::now();
    let prompt = match (tokenizer, api) {
        // A template or a file that makes the library panic costs the request its token ids, not its answer.
        (Some(tokenizer), _) => {
            catch_unwind(AssertUnwindSafe(|| tokenizer.prompt(envelope, api))).unwrap_or(Err(Unscorable::Tokenizer))
        }
        (None, Api::Completions) => envelope
            .token_ids()
            .and_then(|ids| ids.ok_or(Unscorable::NoTokenizer))
            .map(|ids| TokenPrompt { ids, continuation: Continuation::Ids }),
        (None, Api::Chat) => Err(Unscorable::NoTokenizer),
    };
    if tokenizer.is_some() {
        gateway.counters().tokenize_cpu.record_us(start.elapsed_us());
    }
    let prompt = match prompt {
        Ok(prompt) => prompt,
        Err(why) => {
            gateway.scoring().untokenized[why as usize].fetch_add(1, Ordering::Relaxed);
            debug!(why = why.name(), "no token ids: looked up by its bytes");
            return None;
        }
    };
    let scope = Scope { adapter: adapter.map(ModelName::as_str), salt: envelope.salt() };
    let start = CpuTime::now();
    let key = RequestKey::of_tokens(&keyspace, &gateway.config().mesh.hash_key, scope, &prompt.ids);
    Some(Question {
        key,
        then: Then::Tokens(Arc::new(prompt), tokenizer.map(Arc::clone)),
        scorable: true,
        is_scoped: !scope.is_plain(),
        session: None,
        hashing_us: start.elapsed_us(),
    })
}

fn by_bytes(gateway: &Gateway, keyspace: &Arc<Keyspace>, envelope: &Envelope<'_>, api: Api) -> Question {
    let prompt = envelope.prompt(api);
    let scorable = prompt.is_ok();
    let (bytes, salt, form) = match prompt {
        Ok(prompt) => (prompt.bytes, prompt.salt, prompt.form),
        Err(why) => {
            debug!(why = why.name(), "no rendering: routed on load");
            (Vec::new(), Vec::new(), AnswerForm::Opaque)
        }
    };
    let start = CpuTime::now();
    let key = RequestKey::of_bytes(keyspace, &gateway.config().mesh.hash_key, &salt, &bytes);
    let hashing_us = start.elapsed_us();
    Question { key, then: Then::Bytes(form), scorable, is_scoped: !salt.is_empty(), session: None, hashing_us }
}
