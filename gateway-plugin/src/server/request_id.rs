//! What a request is called: the client's own `x-request-id` where it can be repeated in a header, a URL and a line of a
//! terminal, otherwise a name made here. The client gets it back in the same header.
//!
//! Not here: what is remembered under it (`decisions`). The worker gets what the client sent, and nothing that was made here.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::HeaderMap;

use super::headers;
use crate::policy::mix;

/// Characters of a client's id at most.
const CHARS_MAX: usize = 128;

/// One request's name. Clients may use one twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestId(Arc<str>);

impl RequestId {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Makes names that no other request of this process has, nor, but for a chance in 2^64, one of another gateway.
#[derive(Debug)]
pub(super) struct RequestIds {
    seed: u64,
    made: AtomicU64,
}

impl RequestIds {
    /// Names of a gateway; `seed` is another one at every start of every gateway.
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed, made: AtomicU64::new(0) }
    }

    /// The name that the client gave, if it gave one that will do, or a new one.
    pub(super) fn of(&self, client: &HeaderMap) -> RequestId {
        let given = client.get(headers::REQUEST_ID).and_then(|value| value.to_str().ok());
        let given = given.filter(|text| is_sane(text));
        RequestId(given.map_or_else(|| self.make(), Arc::from))
    }

    fn make(&self) -> Arc<str> {
        let nth = self.made.fetch_add(1, Ordering::Relaxed);
        // Both halves move one to one with `nth`, so none comes twice.
        Arc::from(format!("{:016x}{:016x}", mix(self.seed ^ nth), mix(self.seed.rotate_left(32) ^ nth)))
    }
}

fn is_sane(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:=+@~/".contains(c);
    (1..=CHARS_MAX).contains(&id.len()) && id.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn of(ids: &RequestIds, given: &[u8]) -> String {
        let mut client = HeaderMap::new();
        client.insert(headers::REQUEST_ID, HeaderValue::from_bytes(given).expect("a header can carry it"));
        ids.of(&client).to_string()
    }

    #[test]
    fn a_clients_sane_id_is_kept_and_any_other_replaced_by_one_of_a_kind() {
        let ids = RequestIds::new(7);
        for sane in
            ["r-17", "Root=1-67891233-abcdef012345678912345678", "a/b+c=", "5e1f0c84-5a1c-4a67-9a1b-0e6f3a7f5d10"]
        {
            assert_eq!(of(&ids, sane.as_bytes()), sane);
        }
        let mut made = std::collections::BTreeSet::new();
        let long = [b'x'; CHARS_MAX + 1];
        for odd in [&b""[..], b"two words", b"<script>", b"\xff\xfe", b"a\"b", &long] {
            assert!(made.insert(of(&ids, odd)), "{odd:?}");
        }
        made.insert(ids.of(&HeaderMap::new()).to_string());
        assert_eq!(made.len(), 7);
        assert!(made.iter().all(|id| id.len() == 32 && is_sane(id)), "{made:?}");
        assert!(!made.contains(&of(&RequestIds::new(8), b"")), "another start, other names");
    }
}
