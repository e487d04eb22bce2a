//! Why is my hit ratio zero? What a worker reports of each prompt against what was predicted of it, over a bounded window,
//! and a name for what a difference looks like. One detector per worker.
//!
//! Judged are prompts that were looked up by their token ids. A reported count of prompt tokens that is not ours is
//! tokenization, whatever else is wrong; then the block size, which every reported count of cached tokens must be a multiple
//! of; then salts and adapters, when plain requests are right; then the worker's events, when they claim more than is hit.
//!
//! Not here: reading reports (`server`), saying so (`admin`, `server`). Pure: no clock, no I/O.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use serde::{Deserialize, Serialize};

/// Requests that a judgement looks at.
const WINDOW: usize = 64;
/// Requests of a kind that a name is based on at least.
const EVIDENCE_MIN: usize = 4;
/// Different reports whose greatest common divisor says what a block is.
const DISTINCT_MIN: usize = 6;

/// What a difference between prediction and report looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mismatch {
    /// The worker counts other prompt tokens than this gateway: another tokenizer, template or template option.
    Tokenization,
    /// What the worker reports is made of other blocks than predictions are.
    BlockSize,
    /// Only requests with a cache salt or an adapter differ.
    SaltOrAdapter,
    /// The worker's events claim blocks that it does not reuse.
    Events,
    /// Something else.
    Unknown,
}

impl Mismatch {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Tokenization, Self::BlockSize, Self::SaltOrAdapter, Self::Events, Self::Unknown];

    /// The label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokenization => "tokenization",
            Self::BlockSize => "block_size",
            Self::SaltOrAdapter => "salt_or_adapter",
            Self::Events => "events",
            Self::Unknown => "unknown",
        }
    }

    /// What an operator can do.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Tokenization => {
                "give --tokenizer the directory that this worker serves the model from (tokenizer.json, \
                 tokenizer_config.json, chat_template.jinja); look for another --chat-template or default template \
                 options of the worker, and for another time zone if the template writes a date"
            }
            Self::BlockSize => {
                "set --block-tokens to what the worker uses (vLLM: block_size in cache_config_info of its /metrics), \
                 or leave the flag out and let its events say it"
            }
            Self::SaltOrAdapter => {
                "name LoRA adapters with --adapter rather than --model, under the names the worker has for them, and \
                 pass cache_salt on unchanged"
            }
            Self::Events => {
                "the worker reuses less than its events say: look whether prefix caching is on, whether its attention \
                 is hybrid, and whether another engine publishes on its endpoint"
            }
            Self::Unknown => "compare a single request by hand: x-covey-debug shows the prediction, usage the report",
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is known of a worker's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedState {
    /// Nobody reads events of it: predictions rest on placements, and eviction is not seen.
    #[default]
    None,
    /// They are being caught up with, or a piece is missing: what is predicted may be too little or too much.
    Partial,
    /// Everything the cache holds is known.
    Complete,
}

/// One request whose worker reported usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Prompt tokens, as counted here.
    pub prompt_tokens: u64,
    /// Prompt tokens, as the worker counts; 0 when it does not say.
    pub reported_prompt_tokens: u64,
    /// Tokens predicted to be cached.
    pub predicted_tokens: u64,
    /// Tokens reported as cached; `None` when the worker does not say.
    pub reported_tokens: Option<u64>,
    /// Tokens in a block of the prediction.
    pub block_tokens: u32,
    /// Whether it has a cache salt or an adapter.
    pub is_scoped: bool,
}

impl Observation {
    /// Predicted less reported tokens; `None` without a report.
    #[must_use]
    pub fn error(&self) -> Option<i64> {
        let signed = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        Some(signed(self.predicted_tokens) - signed(self.reported_tokens?))
    }

    fn counts_differ(&self) -> bool {
        self.reported_prompt_tokens > 0 && self.reported_prompt_tokens != self.prompt_tokens
    }

    /// Off by more than a block, which is what a placement may miss at an answer's end.
    fn is_off(&self) -> bool {
        self.error().is_some_and(|error| error.unsigned_abs() > u64::from(self.block_tokens))
    }
}

/// What a worker's window says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Requests in the window.
    pub requests: u64,
    /// Of these, with a report of cached tokens.
    pub reported: u64,
    /// Of these, predicted exactly.
    pub exact: u64,
    /// Tokens predicted to be cached, over the same.
    pub predicted_tokens: u64,
    /// Tokens reported as cached, over the same.
    pub reported_tokens: u64,
    /// Prompt counts that differ.
    pub prompt_counts_differ: u64,
    /// The mismatch, if there is one.
    pub mismatch: Option<Mismatch>,
    /// What it is concluded from.
    pub evidence: String,
}

/// A worker's last requests.
#[derive(Clone, Debug, Default)]
pub struct Detector {
    window: VecDeque<Observation>,
    feed: FeedState,
    /// By the worker's events.
    learned_block_tokens: Option<u32>,
    /// Whether it ever reported cached tokens. Engines leave the field out when the count is 0.
    reports: bool,
    named: Option<Mismatch>,
}

impl Detector {
    /// Takes one request in; the new name when the judgement changed, `Some(None)` when all is well again.
    pub fn observe(&mut self, mut seen: Observation) -> Option<Option<Mismatch>> {
        self.reports |= seen.reported_tokens.is_some();
        if self.reports {
            seen.reported_tokens = seen.reported_tokens.or(Some(0));
        }
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        self.window.push_back(seen);
        self.changed()
    }

    /// What is known of the worker's events from now on, and the block size that they name.
    pub fn feed(&mut self, state: FeedState, block_tokens: Option<u32>) -> Option<Option<Mismatch>> {
        self.feed = state;
        self.learned_block_tokens = block_tokens.or(self.learned_block_tokens);
        self.changed()
    }

    /// What is known of the worker's events.
    #[must_use]
    pub const fn feed_state(&self) -> FeedState {
        self.feed
    }

    /// The mismatch that was named last and still holds.
    #[must_use]
    pub const fn named(&self) -> Option<Mismatch> {
        self.named
    }

    /// The cache was begun anew: what was seen of the old one says nothing.
    pub fn forget(&mut self) {
        self.window.clear();
        self.named = None;
    }

    fn changed(&mut self) -> Option<Option<Mismatch>> {
        let now = self.judge().mismatch;
        (self.named != now).then(|| {
            self.named = now;
            now
        })
    }

    /// The window's judgement.
    #[must_use]
    pub fn judge(&self) -> Judgement {
        let told = || self.window.iter().filter(|seen| seen.reported_tokens.is_some());
        let reported = |seen: &Observation| seen.reported_tokens.unwrap_or_default();
        let mut judgement = Judgement {
            requests: self.window.len() as u64,
            reported: told().count() as u64,
            exact: told().filter(|seen| seen.error() == Some(0)).count() as u64,
            predicted_tokens: told().map(|seen| seen.predicted_tokens).sum(),
            reported_tokens: told().map(reported).sum(),
            prompt_counts_differ: self.window.iter().filter(|seen| seen.counts_differ()).count() as u64,
            ..Judgement::default()
        };
        let found = self
            .tokenization()
            .or_else(|| self.block_size())
            .or_else(|| self.salt_or_adapter())
            .or_else(|| self.events())
            .or_else(|| self.unknown());
        if let Some((mismatch, evidence)) = found {
            judgement.mismatch = Some(mismatch);
            judgement.evidence = evidence;
        }
        judgement
    }

    fn tokenization(&self) -> Option<(Mismatch, String)> {
        let counted = self.window.iter().filter(|seen| seen.reported_prompt_tokens > 0).count();
        let mut differ = self.window.iter().rev().filter(|seen| seen.counts_differ());
        let latest = differ.next()?;
        let count = 1 + differ.count();
        // One in twenty: a template that fails for tools alone is a mismatch, too.
        (count + 1 >= EVIDENCE_MIN && count * 20 >= counted).then(|| {
            let (ours, theirs) = (latest.prompt_tokens, latest.reported_prompt_tokens);
            let of = format!(
                "{count} of {counted} prompts have another length there, the latest {theirs} tokens not {ours}"
            );
            (Mismatch::Tokenization, of)
        })
    }

    fn block_size(&self) -> Option<(Mismatch, String)> {
        let used = self.window.back()?.block_tokens;
        if let Some(learned) = self.learned_block_tokens.filter(|learned| *learned != used) {
            let of = format!("its events have blocks of {learned} tokens, predictions of {used}");
            return Some((Mismatch::BlockSize, of));
        }
        let same = || self.window.iter().filter(|seen| seen.block_tokens == used);
        let reports: Vec<u64> = same().filter_map(|seen| seen.reported_tokens).filter(|tokens| *tokens > 0).collect();
        let odd = reports.iter().filter(|tokens| !tokens.is_multiple_of(u64::from(used))).count();
        let divisor = reports.iter().copied().fold(0, gcd);
        if odd >= EVIDENCE_MIN && odd * 4 >= reports.len() {
            let of =
                format!("{odd} of {} reports are no multiples of {used} tokens; all are of {divisor}", reports.len());
            return Some((Mismatch::BlockSize, of));
        }
        let distinct = reports.iter().collect::<BTreeSet<_>>().len();
        let wrong = same().filter(|seen| seen.error().is_some_and(|error| error != 0)).count();
        let larger = divisor > u64::from(used) && distinct >= DISTINCT_MIN && wrong >= EVIDENCE_MIN;
        larger.then(|| {
            (Mismatch::BlockSize, format!("all reports are multiples of {divisor} tokens, predictions of {used}"))
        })
    }

    fn salt_or_adapter(&self) -> Option<(Mismatch, String)> {
        let (scoped, scoped_off) = self.count(|seen| seen.is_scoped);
        let (plain, plain_off) = self.count(|seen| !seen.is_scoped);
        let told = scoped_off >= EVIDENCE_MIN && scoped_off * 2 >= scoped;
        (told && plain >= EVIDENCE_MIN && plain_off * 10 <= plain).then(|| {
            let of = format!(
                "{scoped_off} of {scoped} salted or adapted requests are off, and {plain_off} of {plain} others"
            );
            (Mismatch::SaltOrAdapter, of)
        })
    }

    fn events(&self) -> Option<(Mismatch, String)> {
        let told = self.window.iter().filter_map(Observation::error);
        let (count, over) = told.fold((0, 0), |(count, over), error| (count + 1, over + usize::from(error > 0)));
        (self.feed == FeedState::Complete && over >= EVIDENCE_MIN && over * 4 >= count)
            .then(|| (Mismatch::Events, format!("{over} of {count} requests were cached less than its events claim")))
    }

    fn unknown(&self) -> Option<(Mismatch, String)> {
        let (told, off) = self.count(|_| true);
        (told >= 2 * EVIDENCE_MIN && off * 2 >= told)
            .then(|| (Mismatch::Unknown, format!("{off} of {told} predictions are off by more than a block")))
    }

    /// Requests of a kind with a report, and those off by more than a block.
    fn count(&self, is_of: impl Fn(&Observation) -> bool) -> (usize, usize) {
        let of = self.window.iter().filter(|seen| seen.reported_tokens.is_some() && is_of(seen));
        of.fold((0, 0), |(told, off), seen| (told + 1, off + usize::from(seen.is_off())))
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests;
