//! Answers as vLLM shapes them: one JSON object, or server-sent events that end in usage (when asked) and `[DONE]`.
//!
//! Not here: the words (`answer`) and the times (`engine`).

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};

use super::ask::{Ask, Route};
use super::error::ApiError;
use super::host::Ticket;
use crate::engine::Event;

/// One request on its way back to the client. Dropping it cancels the request.
pub(super) struct Reply {
    ask: Ask,
    ticket: Ticket,
    id: String,
    created: u64,
    model: String,
    fingerprint: String,
    cached_tokens: u32,
    /// Bytes of the answer that were sent.
    sent: usize,
    /// Tokens of the answer whose ids were sent.
    sent_ids: usize,
    ended: bool,
}

impl Reply {
    pub(super) fn new(ask: Ask, ticket: Ticket, model: &str, fingerprint: &str) -> Self {
        let kind = match ask.route {
            Route::Chat => "chatcmpl",
            Route::Text => "cmpl",
        };
        // Unique over restarts: the engine's start, then the request's number.
        let id = format!("{kind}-{fingerprint}-{:.3}-{}", ticket.started_unix_s(), ticket.serial());
        Self {
            id,
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            model: model.to_owned(),
            fingerprint: fingerprint.to_owned(),
            cached_tokens: 0,
            sent: 0,
            sent_ids: 0,
            ended: false,
            ask,
            ticket,
        }
    }

    pub(super) const fn streams(&self) -> bool {
        self.ask.stream
    }

    /// Waits for the end and answers with one object.
    ///
    /// # Errors
    /// When the engine's life ended before the answer did.
    pub(super) async fn whole(mut self) -> Result<Response, ApiError> {
        loop {
            match self.ticket.next().await {
                Some(Event::Finished { .. }) => break,
                Some(event) => self.note_admission(event),
                None => return Err(ApiError::engine_died()),
            }
        }
        let (object, mut choice) = match self.ask.route {
            Route::Chat => {
                let message = json!({"role": "assistant", "content": self.ask.answer.text, "tool_calls": []});
                ("chat.completion", json!({"index": 0, "message": message}))
            }
            Route::Text => ("text_completion", json!({"index": 0, "text": self.ask.answer.text})),
        };
        self.tell_ids(&mut choice, self.ask.job.answer().len());
        let choice = finished(choice, Some(self.ask.answer.finish_reason));
        let mut body = self.envelope(object, vec![choice]);
        body["usage"] = self.usage();
        Ok(Json(body).into_response())
    }

    /// Answers with one event a token.
    pub(super) fn stream(self) -> Response {
        let events = stream::unfold(self, |mut reply| async {
            let bytes = reply.next_bytes().await?;
            Some((bytes, reply))
        });
        ([(CONTENT_TYPE, "text/event-stream; charset=utf-8")], Body::from_stream(events)).into_response()
    }

    /// The next non-empty run of server-sent events; `None` after `[DONE]`, an error when the engine's life ended before.
    async fn next_bytes(&mut self) -> Option<io::Result<Bytes>> {
        if self.ended {
            return None;
        }
        loop {
            match self.ticket.next().await {
                Some(Event::Token { emitted, .. }) => {
                    let text = self.token(emitted);
                    if !text.is_empty() {
                        return Some(Ok(Bytes::from(text)));
                    }
                }
                Some(Event::Finished { .. }) => {
                    self.ended = true;
                    return Some(Ok(Bytes::from(self.end())));
                }
                None => {
                    self.ended = true;
                    return Some(Err(io::Error::other("the engine's life ended")));
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
        let cut = answer.len() as u64 * u64::from(emitted) / u64::from(self.ask.job.output_tokens());
        let cut = answer.floor_char_boundary(usize::try_from(cut).expect("not longer than the answer"));
        let piece = answer[self.sent..cut].to_owned();
        self.sent = cut;
        let role = (emitted == 1 && self.ask.route == Route::Chat).then(|| self.chunk("role", "", None, emitted));
        let says = !piece.is_empty() || self.ask.tells_ids;
        let piece = says.then(|| self.chunk("content", &piece, None, emitted));
        role.into_iter().chain(piece).collect()
    }

    fn end(&mut self) -> String {
        let mut text = self.chunk("end", "", Some(self.ask.answer.finish_reason), self.ask.job.output_tokens());
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

    /// One event. Where ids are told, those of the tokens up to `emitted` that were not told before are in it; an event that
    /// only names the role has none.
    fn chunk(&mut self, what: &str, text: &str, finish_reason: Option<&str>, emitted: u32) -> String {
        let mut choice = match (self.ask.route, what) {
            (Route::Text, _) => json!({"index": 0, "text": text}),
            (Route::Chat, "role") => json!({"index": 0, "delta": {"role": "assistant", "content": ""}}),
            (Route::Chat, "content") => json!({"index": 0, "delta": {"content": text}}),
            (Route::Chat, _) => json!({"index": 0, "delta": {}}),
        };
        if what != "role" {
            self.tell_ids(&mut choice, emitted as usize);
        }
        event(&self.envelope(self.chunk_object(), vec![finished(choice, finish_reason)]))
    }

    fn tell_ids(&mut self, choice: &mut Value, until: usize) {
        if self.ask.tells_ids {
            choice["token_ids"] = json!(self.ask.job.answer()[self.sent_ids..until]);
            self.sent_ids = until;
        }
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
        let (prompt, output) = (self.ask.job.prompt_tokens(), self.ask.job.output_tokens());
        json!({
            "prompt_tokens": prompt,
            "total_tokens": prompt + output,
            "completion_tokens": output,
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

/// What the engine would compute for a request, as vLLM's render routes tell it: the prompt's ids. Routers ask for it.
pub(super) fn rendered(ask: &Ask, model: &str) -> Value {
    let generate = json!({
        "request_id": format!("render-{model}"),
        "model": model,
        "token_ids": ask.job.prompt(),
        "features": null,
        "sampling_params": {"max_tokens": ask.job.output_tokens()},
        "stream": ask.stream,
        "stream_options": null,
        "cache_salt": null,
        "priority": 0,
    });
    match ask.route {
        Route::Chat => generate,
        Route::Text => json!([generate]),
    }
}

/// The body of `/v1/models`.
pub(super) fn models(model: &str, tokens_max: u64) -> Value {
    let model = json!({"id": model, "object": "model", "created": 0, "owned_by": "covey-sim", "root": model,
        "parent": null, "max_model_len": tokens_max});
    json!({"object": "list", "data": [model]})
}
