//! One request at one worker, from being routed until its answer is over, whatever ends it.
//!
//! Dropping a flight ends its ticket: a client that goes away drops the handler or the body, and with it the flight.
//! Upholds I6: nothing is placed before the worker took the request, and nothing is added after it failed.

use std::fmt::Display;
use std::sync::Arc;

use covey_crdt::id::WorkerId;
use tokio::runtime::Handle;
use tracing::{Span, warn};

use super::counters::InFlight;
use super::decisions::{Ending, Entry};
use super::fault::Fault;
use super::gateway::Gateway;
use super::scoring::{Question, Then};
use super::trace::{self, Trace};
use super::wire::{self, Message, Usage};
use crate::plugin::{End, Observation, RequestKey, Routed, Ticket};
use crate::tokens::Answer;

/// A request at a worker.
pub(super) struct Flight {
    gateway: Arc<Gateway>,
    ticket: Option<Ticket>,
    key: RequestKey,
    then: Then,
    is_scoped: bool,
    answer: Answer,
    /// Until the worker has said how much it had cached: it may repeat that in every event.
    predicted_tokens: u64,
    /// The worker's last word on what it computed: some say it with every piece.
    usage: Option<Usage>,
    end: End,
    /// What operators are told of it; `None` when no decisions are kept.
    entry: Option<Arc<Entry>>,
    trace: Option<Trace>,
    /// What is waited for: the first byte, then the rest of the answer.
    stage: Span,
    _in_flight: Arc<InFlight>,
}

impl Flight {
    pub(super) fn new(
        gateway: &Arc<Gateway>,
        routed: Routed,
        question: &Question,
        entry: Option<Arc<Entry>>,
        in_flight: &Arc<InFlight>,
        trace: &Trace,
    ) -> Self {
        Self {
            stage: trace.waiting(&routed.worker),
            trace: Some(trace.clone()),
            entry,
            gateway: Arc::clone(gateway),
            ticket: Some(routed.ticket),
            key: question.key.clone(),
            then: question.then.clone(),
            is_scoped: question.is_scoped,
            answer: Answer::default(),
            predicted_tokens: routed.predicted_tokens,
            usage: None,
            end: End::Aborted,
            _in_flight: Arc::clone(in_flight),
        }
    }

    /// Reads one event or body. A part of an answer proves that the worker has accepted the prompt.
    pub(super) fn read(&mut self, data: &[u8]) -> Result<(), Fault> {
        match wire::read(data, &mut self.answer) {
            Message::Part { usage } => {
                self.answering();
                if let Some(usage) = usage {
                    let known = self.usage.and_then(|usage| usage.cached_tokens);
                    self.usage = Some(Usage { cached_tokens: usage.cached_tokens.or(known), ..usage });
                }
                Ok(())
            }
            Message::Done if self.is_answering() => {
                self.end = End::Completed;
                Ok(())
            }
            Message::Error => Err(Fault::ErrorEvent),
            Message::Done | Message::Nonsense => Err(Fault::Nonsense),
        }
    }

    /// The worker took the request: the head of a stream of events is here. Engines send it before they compute anything.
    pub(super) fn accept(&mut self) {
        if let Some(ticket) = &mut self.ticket {
            self.gateway.plugin().accepted(ticket, &self.key);
        }
    }

    /// A part of an answer is here.
    fn answering(&mut self) {
        let Some(ticket) = &mut self.ticket else { return };
        if !ticket.is_answering()
            && let Some(trace) = &self.trace
        {
            // One ends before the other begins.
            self.stage = Span::none();
            self.stage = trace.answering();
        }
        if let Some(entry) = &self.entry {
            entry.answering();
        }
        let plugin = self.gateway.plugin();
        plugin.accepted(ticket, &self.key);
        plugin.answering(ticket);
    }

    /// The answer is over. Ends the ticket at once, however long the client takes to read what is buffered.
    pub(super) fn land(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        self.stage = Span::none();
        self.report(ticket.worker());
        self.ended(match self.end {
            End::Completed => Ending::Completed,
            End::Aborted => Ending::Aborted,
            End::Failed => Ending::Unread,
        });
        if let Some(trace) = self.trace.take().filter(|_| ticket.is_answering()) {
            trace.ended(self.end);
        }
        let (gateway, key, end) = (Arc::clone(&self.gateway), self.key.clone(), self.end);
        let (then, answer) = (self.then.clone(), std::mem::take(&mut self.answer));
        let is_long = then.is_long();
        let end = move || gateway.plugin().ended_with(ticket, &key, end, |key| then.extended(key, &answer));
        match Handle::try_current() {
            Ok(runtime) if is_long => drop(runtime.spawn_blocking(end)),
            _ => end(),
        }
    }

    /// Passes on what the worker said of the prompt, once.
    fn report(&mut self, worker: &WorkerId) {
        let Some(usage) = self.usage.take() else { return };
        if let Some(entry) = &self.entry {
            entry.reported(usage.prompt_tokens, usage.cached_tokens);
        }
        if let Some(cached) = usage.cached_tokens {
            self.gateway.counters().usage(usage.prompt_tokens, self.predicted_tokens, cached);
            if let Some(trace) = &self.trace {
                trace.reported(cached);
            }
        }
        let is_last_word = usage.cached_tokens.is_some() || self.is_complete();
        if let Some(prompt_tokens) = self.then.prompt_tokens().filter(|_| is_last_word) {
            let seen = Observation {
                prompt_tokens,
                reported_prompt_tokens: usage.prompt_tokens,
                predicted_tokens: self.predicted_tokens,
                reported_tokens: usage.cached_tokens,
                block_tokens: self.key.keyspace().block_units,
                is_scoped: self.is_scoped,
            };
            self.gateway.observe(worker, seen);
        }
    }

    /// The whole answer was read.
    pub(super) fn complete(&mut self) {
        self.end = End::Completed;
        self.land();
    }

    /// The worker failed: counted and logged once, nothing more is placed.
    pub(super) fn fail(&mut self, fault: Fault, detail: &dyn Display) {
        if let Some(ticket) = &self.ticket {
            warn!(worker = %ticket.worker(), fault = fault.name(), "worker failed a request: {detail}");
            self.gateway.counters().fault(fault);
            self.ended(Ending::Failed(fault));
            trace::failed(&self.stage, fault);
            if let Some(trace) = self.trace.as_ref().filter(|_| ticket.is_answering()) {
                trace.broke(fault);
            }
        }
        self.release();
    }

    /// The worker refused with a status: its words pass through.
    pub(super) fn refused(&self, status: u16) {
        self.ended(Ending::Refused(status));
    }

    /// The first word on how it ended stands.
    fn ended(&self, ending: Ending) {
        if let Some(entry) = &self.entry {
            entry.ended(ending);
        }
    }

    /// Nothing of the answer is read: the worker did not take the request, or what it says cannot be understood.
    pub(super) fn release(&mut self) {
        self.end = End::Failed;
        self.land();
    }

    pub(super) fn is_answering(&self) -> bool {
        self.ticket.as_ref().is_some_and(Ticket::is_answering)
    }

    /// Whether the worker gave a finish reason or closed its stream properly.
    pub(super) fn is_complete(&self) -> bool {
        self.end == End::Completed || self.answer.is_finished()
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            if self.end == End::Aborted {
                self.gateway.counters().client_gone();
            }
            self.land();
        }
    }
}
