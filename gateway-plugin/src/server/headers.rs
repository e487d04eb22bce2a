//! Which headers pass through the gateway, in either direction.
//!
//! Everything end-to-end passes, `Authorization` included. Hop-by-hop headers (RFC 9110, 7.6.1) do not, nor what the
//! connection's own HTTP stack writes, nor the gateway's own `x-covey-*`. Nothing depends on the mesh.

use axum::http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};

/// Which worker answered.
pub(super) const WORKER: HeaderName = HeaderName::from_static("x-covey-worker");
/// What the lookup came to.
pub(super) const OUTCOME: HeaderName = HeaderName::from_static("x-covey-outcome");
/// Asks for the headers below.
pub(super) const DEBUG: HeaderName = HeaderName::from_static("x-covey-debug");
/// Prompt tokens the worker was predicted to have cached.
pub(super) const PREDICTED: HeaderName = HeaderName::from_static("x-covey-predicted-tokens");
/// Thread CPU time of hash, lookup and policy, microseconds.
pub(super) const LOOKUP_US: HeaderName = HeaderName::from_static("x-covey-lookup-us");
/// What decided.
pub(super) const REASON: HeaderName = HeaderName::from_static("x-covey-reason");
/// Which data-parallel rank a request is for, as engines read it.
pub(super) const DATA_PARALLEL_RANK: HeaderName = HeaderName::from_static("x-data-parallel-rank");
/// What a request is called.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Headers named by `Connection` are the connection's own.
fn named_by_connection(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect()
}

fn passed(headers: &HeaderMap, kept_back: &[HeaderName]) -> HeaderMap {
    let named = named_by_connection(headers);
    let mut out = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let stays = HOP_BY_HOP.contains(name) || kept_back.contains(name) || named.iter().any(|n| n == name.as_str());
        if !stays && !name.as_str().starts_with("x-covey-") {
            out.append(name.clone(), value.clone());
        }
    }
    out
}

/// The client's headers as the worker gets them. Compression is declined, because the answer is read on its way.
pub(super) fn upstream(client: &HeaderMap) -> HeaderMap {
    let mut out = passed(client, &[HOST, CONTENT_LENGTH, EXPECT, ACCEPT_ENCODING]);
    out.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    out
}

/// The worker's headers as the client gets them.
pub(super) fn downstream(worker: &HeaderMap) -> HeaderMap {
    passed(worker, &[])
}

/// A header value of any text: what a header cannot carry is left out.
pub(super) fn value(text: &str) -> HeaderValue {
    let plain: String = text.chars().filter(|c| c.is_ascii() && !c.is_ascii_control()).collect();
    HeaderValue::from_str(&plain).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hop_by_hop_headers_stop_here_and_the_rest_passes() {
        let mut client = HeaderMap::new();
        for (name, text) in [
            ("authorization", "Bearer k"),
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("host", "gateway"),
            ("content-length", "3"),
            ("accept-encoding", "gzip"),
            ("x-covey-debug", "1"),
            ("x-request-id", "r1"),
            ("x-request-id", "r2"),
        ] {
            client.append(HeaderName::from_static(name), HeaderValue::from_static(text));
        }
        let upstream = upstream(&client);
        let mut names: Vec<_> = upstream.iter().map(|(n, v)| format!("{n}: {}", v.to_str().expect("text"))).collect();
        names.sort();
        assert_eq!(
            names,
            ["accept-encoding: identity", "authorization: Bearer k", "x-request-id: r1", "x-request-id: r2"]
        );
    }

    #[test]
    fn any_text_becomes_a_header_value() {
        assert_eq!(value("w\u{e9}\n1"), "w1");
    }
}
