//! What names a request's session: a header of the operator's choice, the `user` field, or nothing.
//!
//! Not here: what a session is for (`policy`).

use std::fmt;

use axum::http::HeaderName;

use super::args::GatewayArgs;
use super::error::{ConfigError, named};
use crate::policy::Policy;

/// The header that `sticky` reads when nothing is said.
const USUAL: HeaderName = HeaderName::from_static("x-session-id");

/// `--session-header` is no name of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionError {
    given: String,
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (given, flag) = (&self.given, named("session-header"));
        write!(f, "{flag}: {given:?} cannot be the name of a header; give one such as x-session-id")
    }
}

/// Where a request's session is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionSettings {
    /// The header; it goes before the field.
    pub header: Option<HeaderName>,
    /// Whether the `user` field names one.
    pub from_user: bool,
}

impl SessionSettings {
    pub(super) fn parse(args: &GatewayArgs) -> Result<Self, ConfigError> {
        let header = args.session_header.as_deref().map(str::trim).filter(|name| !name.is_empty());
        let name = |given: &str| {
            HeaderName::try_from(given).map_err(|_| ConfigError::Session(SessionError { given: given.to_owned() }))
        };
        let header = header.map(name).transpose()?;
        if args.policy == Policy::Sticky && header.is_none() && !args.session_from_user {
            return Ok(Self { header: Some(USUAL), from_user: true });
        }
        Ok(Self { header, from_user: args.session_from_user })
    }
}
