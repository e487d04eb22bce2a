//! A collector of OTLP over HTTP that decodes protobuf and keeps every span.
//!
//! Not here: what must be in them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// A span as it came, with the attributes of who sent it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) span: Span,
    resource: Vec<KeyValue>,
}

type Spans = Arc<Mutex<Vec<Seen>>>;

pub(crate) struct Collector {
    address: SocketAddr,
    spans: Spans,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn value<'v>(attributes: &'v [KeyValue], key: &str) -> Option<&'v Value> {
    let mut found = attributes.iter().filter(|attribute| attribute.key == key);
    let first = found.next()?;
    assert!(found.next().is_none(), "{key} is told twice");
    first.value.as_ref()?.value.as_ref()
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    match value(attributes, key) {
        Some(Value::StringValue(text)) => text.clone(),
        None => String::new(),
        Some(other) => panic!("{key} is no text: {other:?}"),
    }
}

impl Seen {
    /// An attribute; empty without it.
    pub(crate) fn text(&self, key: &str) -> String {
        text(&self.span.attributes, key)
    }

    /// An attribute; -1 without it.
    pub(crate) fn number(&self, key: &str) -> i64 {
        match value(&self.span.attributes, key) {
            Some(Value::IntValue(number)) => *number,
            None => -1,
            Some(other) => panic!("{key} is no number: {other:?}"),
        }
    }

    pub(crate) fn resource(&self, key: &str) -> String {
        text(&self.resource, key)
    }

    /// 0 unset, 1 well, 2 an error.
    pub(crate) fn status(&self) -> i32 {
        self.span.status.as_ref().map_or(0, |status| status.code)
    }
}

async fn collect(State(spans): State<Spans>, headers: HeaderMap, body: Bytes) -> StatusCode {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let request = ExportTraceServiceRequest::decode(body).expect("a request of the protocol");
    for resource_spans in request.resource_spans {
        let resource = resource_spans.resource.map(|resource| resource.attributes).unwrap_or_default();
        let all = resource_spans.scope_spans.into_iter().flat_map(|scope| scope.spans);
        let seen = all.map(|span| Seen { span, resource: resource.clone() });
        spans.lock().expect("not poisoned").extend(seen);
    }
    StatusCode::OK
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let spans = Spans::default();
        let router = Router::new().route("/v1/traces", post(collect)).with_state(Arc::clone(&spans));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self { address, spans, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn spans(&self) -> Vec<Seen> {
        self.spans.lock().expect("not poisoned").clone()
    }

    pub(crate) fn children(&self, parent: &[u8]) -> Vec<Seen> {
        self.spans().into_iter().filter(|seen| seen.span.parent_span_id == parent).collect()
    }
}
