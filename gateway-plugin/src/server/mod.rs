//! `covey gateway`: an OpenAI-compatible HTTP server in front of inference workers.
//!
//! One request: its bytes are read whole, rendered and hashed once, routed by the plugin, and sent to the worker
//! unchanged. The answer is consumed as a stream whatever the client asked for; the placement is published when the
//! worker has accepted, and extended by what it produced. Nothing here waits for the mesh (I11).
//!
//! Not here: what operators read (`admin`), command-line parsing (`cli`). Deliberate absences: no TLS towards clients (a
//! load balancer has it), no body compression (upstream is asked for plain text, because the answer is read).

mod answer_body;
mod counters;
mod cpu;
mod decisions;
mod exchange;
mod fault;
mod flight;
mod gateway;
mod headers;
mod health;
mod ingest;
mod note_log;
mod predictions;
mod probe;
mod proxy;
mod request_id;
mod routes;
mod run;
mod scoring;
mod sse;
mod test_hooks;
mod trace;
mod upstream;
mod watch_mesh;
mod wire;
mod workers;

pub use counters::{Counters, Latency, TokenSums};
pub use decisions::{AnswerShown, CandidateShown, DecisionShown, Decisions, ViewShown};
pub use fault::Fault;
pub use gateway::{Gateway, Readiness};
pub use ingest::FeedShown;
pub use predictions::{ERROR_BUCKETS_TOKENS, Outcomes, Predictions};
pub(crate) use routes::{healthz, readyz};
pub use run::{RunError, Running, run, start};
pub(crate) use sse::SseParser;
pub(crate) use test_hooks::{Breakage, TestHooks};
#[cfg(feature = "otel")]
pub(crate) use trace::DECISION_TARGET;
pub use workers::{Worker, Workers};
