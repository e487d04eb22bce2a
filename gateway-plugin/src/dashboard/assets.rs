//! The built page, as it was embedded.
//!
//! Not here: routes.

use axum::http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

/// Files by name; `X.gz` is `X` compressed.
static ASSETS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/dashboard_assets.rs"));

/// Whether the page was built before this binary was.
#[must_use]
pub fn is_built() -> bool {
    !ASSETS.is_empty()
}

fn find(name: &str) -> Option<&'static [u8]> {
    ASSETS.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

/// The file, compressed where the client takes that; 404 when there is none.
pub(super) fn serve(name: &str, headers: &HeaderMap) -> Response {
    let Some(whole) = find(name).filter(|_| !name.ends_with(".gz")) else {
        return (StatusCode::NOT_FOUND, format!("no such file: {name}\n")).into_response();
    };
    let takes_gzip = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).is_some_and(accepts_gzip);
    let packed = find(&format!("{name}.gz")).filter(|_| takes_gzip);
    let mut response = packed.unwrap_or(whole).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind(name)));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if packed.is_some() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    // Built files carry a hash of their content in their name; the page itself does not.
    let cache = if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-store" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    response
}

fn accepts_gzip(accepted: &str) -> bool {
    let refused = |coding: &str| coding.replace(' ', "").ends_with(";q=0");
    accepted.split(',').map(str::trim).any(|coding| coding.starts_with("gzip") && !refused(coding))
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, end)| end) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" => "application/json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_those_that_take_it() {
        assert!(accepts_gzip("gzip, deflate, br") && accepts_gzip("br;q=1.0, gzip;q=0.8"));
        assert!(!accepts_gzip("br") && !accepts_gzip("gzip;q=0") && !accepts_gzip(""));
    }

    #[test]
    fn a_file_there_is_not_is_not_found() {
        assert_eq!(serve("../Cargo.toml", &HeaderMap::new()).status(), StatusCode::NOT_FOUND);
    }
}
