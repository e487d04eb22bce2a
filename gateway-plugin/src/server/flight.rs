//! One request at one worker, from being routed until its answer is over, whatever ends it.
//!
//! Dropping a flight ends its ticket: a client that goes away drops the handler or the body, and with it the flight.
//! Upholds I6: nothing is placed before the worker's answer made sense, and nothing is added after it failed.

use std::fmt::Display;
use std::sync::Arc;

use tracing::{Span, warn};

use super::counters::InFlight;
use super::fault::Fault;
use super::gateway::Gateway;
use super::trace::{self, Trace};
use super::wire::{self, Message};
use crate::plugin::{End, RequestKey, Routed, Ticket};
use crate::tokens::{Answer, AnswerForm};

/// A request at a worker.
pub(super) struct Flight {
    gateway: Arc<Gateway>,
    ticket: Option<Ticket>,
    key: RequestKey,
    form: AnswerForm,
    answer: Answer,
    /// Until the worker has said how much it had cached: it may repeat that in every event.
    predicted_tokens: Option<u64>,
    end: End,
    trace: Option<Trace>,
    /// What is waited for: the first byte, then the rest of the answer.
    stage: Span,
    _in_flight: Arc<InFlight>,
}

impl Flight {
    pub(super) fn new(
        gateway: &Arc<Gateway>,
        routed: Routed,
        key: &RequestKey,
        form: AnswerForm,
        in_flight: &Arc<InFlight>,
        trace: &Trace,
    ) -> Self {
        Self {
            stage: trace.waiting(&routed.worker),
            trace: Some(trace.clone()),
            gateway: Arc::clone(gateway),
            ticket: Some(routed.ticket),
            key: key.clone(),
            form,
            answer: Answer::default(),
            predicted_tokens: Some(routed.predicted_tokens),
            end: End::Aborted,
            _in_flight: Arc::clone(in_flight),
        }
    }

    /// Reads one event or body. A part of an answer proves that the worker has accepted the prompt.
    pub(super) fn read(&mut self, data: &[u8]) -> Result<(), Fault> {
        match wire::read(data, &mut self.answer) {
            Message::Part { usage } => {
                self.accept();
                if let Some((prompt, cached)) =
                    usage.and_then(|usage| Some((usage.prompt_tokens, usage.cached_tokens?)))
                    && let Some(predicted) = self.predicted_tokens.take()
                {
                    self.gateway.counters().usage(prompt, predicted, cached);
                    if let Some(trace) = &self.trace {
                        trace.reported(cached);
                    }
                }
                Ok(())
            }
            Message::Done if self.is_accepted() => {
                self.end = End::Completed;
                Ok(())
            }
            Message::Error => Err(Fault::ErrorEvent),
            Message::Done | Message::Nonsense => Err(Fault::Nonsense),
        }
    }

    /// A part of an answer is here.
    fn accept(&mut self) {
        let Some(ticket) = &mut self.ticket else { return };
        if !ticket.is_accepted()
            && let Some(trace) = &self.trace
        {
            // One ends before the other begins.
            self.stage = Span::none();
            self.stage = trace.answering();
        }
        self.gateway.plugin().accepted(ticket, &self.key);
    }

    /// The answer is over. Ends the ticket at once, however long the client takes to read what is buffered.
    pub(super) fn land(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        self.stage = Span::none();
        if let Some(trace) = self.trace.take().filter(|_| ticket.is_accepted()) {
            trace.ended(self.end);
        }
        let output = if self.end == End::Failed { Vec::new() } else { self.answer.render(self.form) };
        self.gateway.plugin().ended(ticket, &self.key, &output, self.end);
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
            trace::failed(&self.stage, fault);
            if let Some(trace) = self.trace.as_ref().filter(|_| ticket.is_accepted()) {
                trace.broke(fault);
            }
        }
        self.release();
    }

    /// The worker did not take the request, and said so in its own words.
    pub(super) fn release(&mut self) {
        self.end = End::Failed;
        self.land();
    }

    pub(super) fn is_accepted(&self) -> bool {
        self.ticket.as_ref().is_some_and(Ticket::is_accepted)
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
