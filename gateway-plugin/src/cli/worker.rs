//! `--worker [ID=]URL`.
//!
//! Not here: whether workers can stand beside each other (`config`), data-parallel ranks (`ranks`).

use covey_crdt::id::WorkerId;
use url::{Host, Url};

use super::error::ConfigError;

/// One worker as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSpec {
    /// Its id in the whole mesh: given, or the canonical URL.
    pub id: WorkerId,
    /// Scheme, host, port and path prefix, without a slash at the end.
    pub url: String,
    /// Whether the id was given.
    pub named: bool,
    /// Whether the URL means this host alone.
    pub loopback: bool,
    /// Data-parallel ranks behind the URL; this worker is one of them.
    pub ranks: u16,
}

impl WorkerSpec {
    /// Reads `[ID=]URL`.
    ///
    /// # Errors
    /// [`ConfigError::Worker`] when it is none.
    pub fn parse(given: &str) -> Result<Self, ConfigError> {
        let fault = |why: String| ConfigError::Worker { given: given.to_owned(), why };
        let (id, text) = match given.split_once('=') {
            Some((id, text)) if !id.contains("://") => (Some(id.trim()), text.trim()),
            Some(_) | None => (None, given.trim()),
        };
        let url = Url::parse(text).map_err(|error| fault(format!("{error}; write http://HOST:PORT")))?;
        check(&url).map_err(|why| fault(why.to_owned()))?;
        let canonical = url.as_str().trim_end_matches('/').to_owned();
        let named = id.is_some();
        let id = WorkerId::new(id.unwrap_or(&canonical), 0).map_err(|error| fault(format!("id: {error}")))?;
        Ok(Self { id, named, loopback: is_loopback(&url), url: canonical, ranks: 1 })
    }

    /// The rank that requests name; `None` where there is only one, and engines are told nothing.
    #[must_use]
    pub fn sent_rank(&self) -> Option<u16> {
        (self.ranks > 1).then_some(self.id.rank())
    }
}

fn check(url: &Url) -> Result<(), &'static str> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err("the scheme must be http or https");
    }
    if !url.has_host() {
        return Err("the host is missing");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it must not hold a user name or password; clients' Authorization headers are passed through");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("it must not hold a query or fragment");
    }
    if matches!(url.host(), Some(Host::Ipv4(ip)) if ip.is_unspecified())
        || matches!(url.host(), Some(Host::Ipv6(ip)) if ip.is_unspecified())
    {
        return Err("a wildcard address cannot be connected to");
    }
    Ok(())
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => is_localhost(name),
        None => false,
    }
}

pub(super) fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
}
