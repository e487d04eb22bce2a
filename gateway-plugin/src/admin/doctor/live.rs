//! `/doctor` and `covey doctor ADDR`: for each worker of a running gateway, what was predicted, what it reported, and what a
//! difference looks like.
//!
//! Not here: judging (`plugin::Detector`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use crate::admin::client::{AdminClient, AskError};
use crate::admin::printable::printable;
use crate::cli::args::DoctorArgs;
use crate::plugin::{FeedState, Judgement};
use crate::server::{Gateway, Worker};

/// What is known of one model's tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelDoctor {
    /// The model.
    pub model: String,
    /// Whether its prompts can be turned into token ids.
    pub tokenizer: bool,
    /// Tokens in a block, as requests are looked up; `None` while that is unknown.
    pub block_tokens: Option<u32>,
    /// What `--block-tokens` says.
    pub flag: Option<u32>,
    /// Workers whose events named a size.
    pub learned_from: usize,
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerDoctor {
    /// Its id.
    pub worker: String,
    /// Whether this gateway can reach it.
    pub up: Option<bool>,
    /// What is known of its events.
    pub feed: FeedState,
    /// Tokens in its blocks by its events.
    pub block_tokens: Option<u32>,
    /// The last requests.
    #[serde(flatten)]
    pub judgement: Judgement,
    /// What to do about the mismatch; empty without one.
    pub remedy: String,
}

/// A gateway's predictions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorReport {
    /// The models.
    pub models: Vec<ModelDoctor>,
    /// The workers.
    pub workers: Vec<WorkerDoctor>,
    /// Requests looked up by their bytes although blocks are known, by why; reasons that never occurred are left out.
    pub untokenized: BTreeMap<String, u64>,
}

impl DoctorReport {
    /// The gateway at this moment.
    #[must_use]
    pub fn of(gateway: &Gateway) -> Self {
        let config = gateway.config();
        let model = |model| {
            let size = gateway.block_sizes().of(model);
            ModelDoctor {
                model: model.to_string(),
                tokenizer: config.tokens.tokenizers.iter().any(|(known, _)| known == model),
                block_tokens: size.used,
                flag: size.flag,
                learned_from: size.workers.len(),
            }
        };
        let untokenized = gateway.untokenized().filter(|(_, count)| *count > 0);
        Self {
            models: config.models.iter().map(model).collect(),
            workers: gateway.workers().all().iter().map(|of| worker(gateway, of)).collect(),
            untokenized: untokenized.map(|(why, count)| (why.to_owned(), count)).collect(),
        }
    }

    /// Workers with a mismatch.
    #[must_use]
    pub fn mismatches(&self) -> usize {
        self.workers.iter().filter(|worker| worker.judgement.mismatch.is_some()).count()
    }
}

fn worker(gateway: &Gateway, of: &Arc<Worker>) -> WorkerDoctor {
    let (feed, judgement) = {
        let detector = of.detector();
        (detector.feed_state(), detector.judge())
    };
    let sizes = gateway.config().models.iter().map(|model| gateway.block_sizes().of(model));
    WorkerDoctor {
        worker: of.id.to_string(),
        up: of.is_up(),
        feed,
        block_tokens: sizes.into_iter().find_map(|size| size.workers.get(&of.id).copied()),
        remedy: judgement.mismatch.map(|mismatch| mismatch.remedy().to_owned()).unwrap_or_default(),
        judgement,
    }
}

pub(in crate::admin) async fn serve(State(gateway): State<Arc<Gateway>>) -> Response {
    let body = serde_json::to_string(&DoctorReport::of(&gateway)).expect("plain data serializes");
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

/// Asks a gateway: the text to print, and whether no mismatch is named.
///
/// # Errors
/// [`AskError`] when nobody answers, or nobody who can be understood.
pub(super) async fn ask(args: &DoctorArgs) -> Result<(bool, String, DoctorReport), AskError> {
    let report: DoctorReport = AdminClient::new(&args.admin, Some(args.timeout))?.json("/doctor").await?;
    Ok((report.mismatches() == 0, words(&report), report))
}

fn words(report: &DoctorReport) -> String {
    let mut text = String::new();
    for model in &report.models {
        let _ = writeln!(text, "model {}: {}", printable(&model.model), of_model(model));
    }
    for (why, count) in &report.untokenized {
        let _ = writeln!(text, "{count} requests have no token ids ({}): looked up by their bytes", printable(why));
    }
    for worker in &report.workers {
        of_worker(&mut text, worker);
    }
    text
}

fn of_model(model: &ModelDoctor) -> String {
    let tokens =
        if model.tokenizer { "tokenizer given" } else { "no --tokenizer: only prompts of token ids have tokens" };
    let blocks = match (model.block_tokens, model.flag, model.learned_from) {
        (None, _, _) => "block size unknown (--block-tokens, or a worker's events): looked up by bytes".to_owned(),
        (Some(used), _, 0) => format!("blocks of {used} tokens by --block-tokens"),
        (Some(used), Some(flag), _) if flag != used => {
            format!("blocks of {used} tokens by events, which win over --block-tokens {flag}: correct the flag")
        }
        (Some(used), _, workers) => format!("blocks of {used} tokens by the events of {workers} workers"),
    };
    format!("{tokens}; {blocks}")
}

fn of_worker(text: &mut String, worker: &WorkerDoctor) {
    let judgement = &worker.judgement;
    let word = judgement.mismatch.map_or("ok", |mismatch| mismatch.name());
    let word = if judgement.requests == 0 { "nothing to judge" } else { word };
    let feed = match worker.feed {
        FeedState::None => "no events",
        FeedState::Partial => "events incomplete",
        FeedState::Complete => "events complete",
    };
    let _ = writeln!(
        text,
        "worker {}: {word}; of {} requests {} reported cached tokens and {} were predicted exactly; predicted {} tokens, \
         reported {}; {feed}{}",
        printable(&worker.worker),
        judgement.requests,
        judgement.reported,
        judgement.exact,
        judgement.predicted_tokens,
        judgement.reported_tokens,
        worker.block_tokens.map(|tokens| format!(" in blocks of {tokens} tokens")).unwrap_or_default(),
    );
    if judgement.mismatch.is_some() {
        let _ = writeln!(text, "  {}", printable(&judgement.evidence));
        let _ = writeln!(text, "  to do: {}", printable(&worker.remedy));
    }
    if judgement.requests > 0 && judgement.reported == 0 {
        let _ = writeln!(
            text,
            "  it never reported cached tokens: nothing was cached, or it does not report them (vLLM: \
             --enable-prompt-tokens-details)"
        );
    }
}
