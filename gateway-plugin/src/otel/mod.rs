//! Traces of decisions over OTLP (HTTP, protobuf), feature `otel`: what `server` and `plugin` tell as spans of target
//! `covey::decision` goes to a collector.
//!
//! Not here: the spans (`server::trace`, `plugin::spans`). Upholds I11: a request hands its spans to a bounded queue and
//! waits for nothing; what finds the queue full is dropped and counted.

mod client;
mod queue;

use std::fmt;

use axum::http::HeaderMap;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanExporter as _};
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;

use self::client::Client;
use self::queue::Queue;
use crate::cli::{Config, Traces};
use crate::server::DECISION_TARGET;

/// Why no traces can be sent. Fault: the operator's (the endpoint), or the system's TLS set-up.
#[derive(Debug)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--otlp-endpoint (COVEY_OTLP_ENDPOINT): traces cannot be sent: {}", self.0)
    }
}

impl std::error::Error for StartError {}

/// What became of spans since the process started. One set a process, like the subscriber that feeds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// Taken by the collector.
    pub exported: u64,
    /// Found the queue full.
    pub dropped: u64,
    /// Were in a batch that the collector did not take in time.
    pub failed: u64,
}

/// The counts now.
#[must_use]
pub fn span_counts() -> SpanCounts {
    queue::COUNTS.read()
}

/// Ends the export when dropped: what is queued has two seconds to go out.
#[derive(Debug)]
pub struct Exporting(SdkTracerProvider);

impl Drop for Exporting {
    fn drop(&mut self) {
        // Failing means that something was left over, which is counted.
        let _ = self.0.shutdown();
    }
}

/// A layer that turns decisions into traces, and what keeps their export going.
///
/// # Errors
/// [`StartError`] when the endpoint or the HTTP client is no good. A collector that cannot be reached is no error.
pub fn start<S>(config: &Config, traces: &Traces) -> Result<(impl Layer<S> + Send + Sync, Exporting), StartError>
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    let client = Client::new().map_err(|error| StartError(error.to_string()))?;
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(traces.endpoint.as_str())
        .with_timeout(client::TIMEOUT);
    let mut exporter = exporter.build().map_err(|error| StartError(error.to_string()))?;
    let resource = resource(config);
    exporter.set_resource(&resource);
    let queue = Queue::start(exporter).map_err(|error| StartError(error.to_string()))?;
    let provider = SdkTracerProvider::builder()
        .with_resource(resource)
        // A client that traces has decided already; its decision wins over the share.
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(traces.sample))))
        .with_span_processor(queue)
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("covey"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_context_activation(false)
        .with_target(false)
        .with_level(false)
        .with_filter(Targets::new().with_target(DECISION_TARGET, LevelFilter::DEBUG));
    Ok((layer, Exporting(provider)))
}

fn resource(config: &Config) -> Resource {
    let attributes = [
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.namespace", config.mesh.cluster.clone()),
        KeyValue::new("service.instance.id", config.mesh.name.to_string()),
    ];
    Resource::builder_empty().with_service_name("covey-gateway").with_attributes(attributes).build()
}

/// Makes a span the child of what the client's `traceparent` names; one that is no W3C trace context is ignored.
pub(crate) fn adopt(span: &Span, headers: &HeaderMap) {
    let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &HeaderExtractor(headers));
    if parent.span().span_context().is_valid() {
        // Fails when no layer of this module listens: then there is nothing to be a child of.
        let _ = span.set_parent(parent);
    }
}
