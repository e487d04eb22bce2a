//! Answers as vLLM shapes them: one JSON object, or server-sent events that end in usage (when asked) and `[DONE]`.
//!
//! Not here: the words (`answer`) and the times (`engine`).

use std::convert::Infallible;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};

use super::ask::{Ask, Route};
use super::host::Ticket;
use crate::engine::{Event, Job};

/// One request on its way back to the client. Dropping it cancels the request.
pub(super) struct Reply {
    ask: Ask,
    ticket: Ticket,
    job: JobTokens,
    id: String,
    created: u64,
    model: String,
    fingerprint: String,
    cached_tokens: u32,
    /// Bytes of the answer that were sent.
    sent: usize,
    ended: bool,
}

struct JobTokens {
    prompt: u32,
    output: u32,
}

impl Reply {
    pub(super) fn new(ask: Ask, ticket: Ticket, model: &str, fingerprint: &str) -> Self {
        let Job { prompt_tokens, output_tokens, .. } = ask.job();
        let kind = match ask.route {
            Route::Chat => "chatcmpl",
            Route::Text => "cmpl",
        };
        // Unique over restarts: the engine's start, then the request's number.
        let id = format!("{kind}-{fingerprint}-{:.3}-{}", ticket.started_unix_s(), ticket.serial());
        Self {
            id,
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            job: JobTokens { prompt: prompt_tokens, output: output_tokens },
            model: model.to_owned(),
            fingerprint: fingerprint.to_owned(),
            cached_tokens: 0,
            sent: 0,
            ended: false,
            ask,
            ticket,
        }
    }

    pub(super) const fn streams(&self) -> bool {
        self.ask.stream
    }

    /// Waits for the end and answers with one object.
    pub(super) async fn whole(mut self) -> Response {
        while let Some(event) = self.ticket.next().await {
            self.note_admission(event);
        }
        let (object, choice) = match self.ask.route {
            Route::Chat => {
                let message = json!({"role": "assistant", "content": self.ask.answer.text, "tool_calls": []});
                ("chat.completion", json!({"index": 0, "message": message}))
            }
            Route::Text => ("text_completion", json!({"index": 0, "text": self.ask.answer.text})),
        };
        let choice = finished(choice, Some(self.ask.answer.finish_reason));
        let mut body = self.envelope(object, vec![choice]);
        body["usage"] = self.usage();
        Json(body).into_response()
    }

    /// Answers with one event a token.
    pub(super) fn stream(self) -> Response {
        let events = stream::unfold(self, |mut reply| async {
            let bytes = reply.next_bytes().await?;
            Some((Ok::<_, Infallible>(bytes), reply))
        });
        ([(CONTENT_TYPE, "text/event-stream; charset=utf-8")], Body::from_stream(events)).into_response()
    }

    /// The next non-empty run of server-sent events; `None` after `[DONE]`.
    async fn next_bytes(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        loop {
            match self.ticket.next().await {
                Some(Event::Token { emitted, .. }) => {
                    let text = self.token(emitted);
                    if !text.is_empty() {
                        return Some(Bytes::from(text));
                    }
                }
                Some(Event::Finished { .. }) | None => {
                    self.ended = true;
                    return Some(Bytes::from(self.end()));
                }
                Some(event @ (Event::Admitted { .. } | Event::Preempted { .. })) => self.note_admission(event),
            }
        }
    }

    fn note_admission(&mut self, event: Event) {
        if let Event::Admitted { cached_tokens, .. } = event {
            self.cached_tokens = cached_tokens;
        }
    }

    fn token(&mut self, emitted: u32) -> String {
        let answer = &self.ask.answer.text;
        let cut = answer.len() as u64 * u64::from(emitted) / u64::from(self.job.output);
        let cut = answer.floor_char_boundary(usize::try_from(cut).expect("not longer than the answer"));
        let piece = answer[self.sent..cut].to_owned();
        self.sent = cut;
        let role = (emitted == 1 && self.ask.route == Route::Chat).then(|| self.chunk("role", "", None));
        let piece = (!piece.is_empty()).then(|| self.chunk("content", &piece, None));
        role.into_iter().chain(piece).collect()
    }

    fn end(&self) -> String {
        let mut text = self.chunk("end", "", Some(self.ask.answer.finish_reason));
        if self.ask.include_usage {
            let mut usage = self.envelope(self.chunk_object(), vec![]);
            usage["usage"] = self.usage();
            text.push_str(&event(&usage));
        }
        text + "data: [DONE]\n\n"
    }

    const fn chunk_object(&self) -> &'static str {
        match self.ask.route {
            Route::Chat => "chat.completion.chunk",
            Route::Text => "text_completion",
        }
    }

    fn chunk(&self, what: &str, text: &str, finish_reason: Option<&str>) -> String {
        let choice = match (self.ask.route, what) {
            (Route::Text, _) => json!({"index": 0, "text": text}),
            (Route::Chat, "role") => json!({"index": 0, "delta": {"role": "assistant", "content": ""}}),
            (Route::Chat, "content") => json!({"index": 0, "delta": {"content": text}}),
            (Route::Chat, _) => json!({"index": 0, "delta": {}}),
        };
        event(&self.envelope(self.chunk_object(), vec![finished(choice, finish_reason)]))
    }

    fn envelope(&self, object: &str, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
            "system_fingerprint": self.fingerprint,
        })
    }

    fn usage(&self) -> Value {
        json!({
            "prompt_tokens": self.job.prompt,
            "total_tokens": self.job.prompt + self.job.output,
            "completion_tokens": self.job.output,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        })
    }
}

fn finished(mut choice: Value, reason: Option<&str>) -> Value {
    choice["logprobs"] = Value::Null;
    choice["finish_reason"] = json!(reason);
    choice["stop_reason"] = Value::Null;
    choice
}

fn event(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// The body of `/v1/models`.
pub(super) fn models(model: &str, tokens_max: u64) -> Value {
    let model = json!({"id": model, "object": "model", "created": 0, "owned_by": "covey-sim", "root": model,
        "parent": null, "max_model_len": tokens_max});
    json!({"object": "list", "data": [model]})
}
