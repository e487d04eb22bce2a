//! Where traces of decisions go, and of which share of requests.
//!
//! Not here: whether anybody listens there.

use url::Url;

use super::args::TraceArgs;
use super::error::ConfigError;

/// Where traces go.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// The collector's whole URL.
    pub endpoint: Url,
    /// The share of requests traced whose client does not decide, 0 to 1.
    pub sample: f64,
}

impl Traces {
    pub(super) fn parse(args: &TraceArgs) -> Result<Option<Self>, ConfigError> {
        if !(0.0..=1.0).contains(&args.otlp_sample) {
            return Err(ConfigError::Sample { given: args.otlp_sample });
        }
        let Some(given) = args.otlp_endpoint.as_deref().filter(|given| !given.trim().is_empty()) else {
            return Ok(None);
        };
        let wrong = |why: String| ConfigError::Endpoint { given: given.to_owned(), why };
        let mut endpoint = Url::parse(given.trim()).map_err(|error| wrong(error.to_string()))?;
        if !["http", "https"].contains(&endpoint.scheme()) || endpoint.host().is_none() {
            return Err(wrong("it must begin with http:// or https:// and name a host".to_owned()));
        }
        if endpoint.path() == "/" {
            endpoint.set_path("/v1/traces");
        }
        if cfg!(feature = "otel") {
            Ok(Some(Self { endpoint, sample: args.otlp_sample }))
        } else {
            Err(ConfigError::NotBuilt { flag: "otlp-endpoint", feature: "otel" })
        }
    }
}
