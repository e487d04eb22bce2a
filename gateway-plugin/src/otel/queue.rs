//! Finished spans on their way to the collector: a bounded queue, and a thread of its own that sends batches.
//!
//! Not here: HTTP (`client`). The SDK's own batch processor drops as well, but does not tell how much.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use opentelemetry::Context;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter as _, SpanProcessor};
use tracing::{info, warn};

use super::SpanCounts;

/// Spans that may wait; a request has eight.
const QUEUE_MAX: usize = 4_096;
/// Spans in one batch.
const BATCH_MAX: usize = 512;
/// How long the first span of a batch waits for others.
const GATHER: Duration = Duration::from_millis(200);
/// How long what is queued may take to go out at the end.
const LAST: Duration = Duration::from_secs(2);

/// What became of spans, by whatever thread.
#[derive(Debug)]
pub(super) struct Counts([AtomicU64; 3]);

pub(super) static COUNTS: Counts = Counts([AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)]);

impl Counts {
    pub(super) fn read(&self) -> SpanCounts {
        let [exported, dropped, failed] = self.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        SpanCounts { exported, dropped, failed }
    }

    fn add(&self, which: usize, spans: usize) {
        self.0[which].fetch_add(spans as u64, Ordering::Relaxed);
    }

    fn exported(&self, spans: usize) {
        self.add(0, spans);
    }

    fn dropped(&self) {
        self.add(1, 1);
    }

    fn failed(&self, spans: usize) {
        self.add(2, spans);
    }
}

/// The queue's end that requests put spans into.
#[derive(Debug)]
pub(super) struct Queue {
    spans: SyncSender<SpanData>,
    stopping: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Queue {
    pub(super) fn start(exporter: SpanExporter) -> io::Result<Self> {
        let (spans, queued) = sync_channel(QUEUE_MAX);
        let stopping = Arc::new(AtomicBool::new(false));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let sender = Sender { exporter, queued, runtime, stopping: Arc::clone(&stopping), is_failing: false };
        let thread = std::thread::Builder::new().name("covey-otlp".to_owned()).spawn(move || sender.run())?;
        Ok(Self { spans, stopping, thread: Mutex::new(Some(thread)) })
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() && self.spans.try_send(span).is_err() {
            COUNTS.dropped();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.stopping.store(true, Ordering::Release);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return Err(OTelSdkError::AlreadyShutdown) };
        let (start, limit) = (Instant::now(), timeout.min(LAST));
        while !thread.is_finished() {
            if start.elapsed() > limit {
                return Err(OTelSdkError::Timeout(limit));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

struct Sender {
    exporter: SpanExporter,
    queued: Receiver<SpanData>,
    runtime: tokio::runtime::Runtime,
    stopping: Arc<AtomicBool>,
    is_failing: bool,
}

impl Sender {
    fn run(mut self) {
        loop {
            let is_last = self.stopping.load(Ordering::Acquire);
            let batch = self.gather();
            if batch.is_empty() && is_last {
                return;
            }
            if !batch.is_empty() {
                self.send(batch);
            }
        }
    }

    /// What comes until a batch is full or has waited long enough.
    fn gather(&self) -> Vec<SpanData> {
        let (mut batch, until) = (Vec::new(), Instant::now() + GATHER);
        while batch.len() < BATCH_MAX {
            match self.queued.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(span) => batch.push(span),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        batch
    }

    fn send(&mut self, batch: Vec<SpanData>) {
        let spans = batch.len();
        match self.runtime.block_on(self.exporter.export(batch)) {
            Ok(()) => {
                COUNTS.exported(spans);
                if std::mem::take(&mut self.is_failing) {
                    info!("traces reach the collector again");
                }
            }
            Err(error) => {
                COUNTS.failed(spans);
                if !std::mem::replace(&mut self.is_failing, true) {
                    warn!("traces do not reach the collector (--otlp-endpoint), and are dropped: {error}");
                }
            }
        }
    }
}
