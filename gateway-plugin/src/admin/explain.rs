//! `covey explain ID`: why a request went where it went, and what came of it. Asks the gateways given, one after the other,
//! until one knows the request.
//!
//! Not here: keeping decisions (`server::decisions`), the routes (`decisions`).

mod words;

use std::fmt;

use super::client::{AdminClient, AskError};
use super::decisions::{DecisionsReport, NONE};
use super::printable::{escaped, printable};
use crate::cli::args::ExplainArgs;

/// Exit code when no gateway that was asked knows the request.
pub const EXIT_UNKNOWN: u8 = 3;

/// Why nothing can be told.
#[derive(Debug)]
pub struct ExplainError {
    id: String,
    asked: Vec<(String, Option<AskError>)>,
}

impl fmt::Display for ExplainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, asked } = self;
        write!(f, "no gateway that was asked knows request {}", printable(id))?;
        for (admin, error) in asked {
            match error {
                None => write!(f, "\n  {}: answers, and has no decision of that name", printable(admin))?,
                Some(error) => write!(f, "\n  {}: {error}", printable(admin))?,
            }
        }
        f.write_str(
            "\n  to do: give --admin the gateway that answered the request (repeat it, or separate them by commas), and the id in \
             its answer's x-request-id; each keeps only the last (--decisions COUNT), and none about requests it refused before a \
             worker was chosen",
        )
    }
}

impl std::error::Error for ExplainError {}

/// Asks, and gives the text to print.
///
/// # Errors
/// [`ExplainError`] when nobody knows the request; it says of each address why.
pub async fn explain(args: &ExplainArgs) -> Result<String, ExplainError> {
    let mut asked = Vec::new();
    for admin in args.admin.iter().filter(|admin| !admin.trim().is_empty()) {
        match ask(args, admin.trim()).await {
            Ok(Some(report)) if args.json => {
                let json = serde_json::to_string(&report).expect("plain data serializes");
                return Ok(escaped(&json) + "\n");
            }
            Ok(Some(report)) => return Ok(words::of(&report)),
            Ok(None) => asked.push((admin.clone(), None)),
            Err(error) => asked.push((admin.clone(), Some(error))),
        }
    }
    Err(ExplainError { id: args.id.clone(), asked })
}

async fn ask(args: &ExplainArgs, admin: &str) -> Result<Option<DecisionsReport>, AskError> {
    let client = AdminClient::new(admin, Some(args.timeout))?;
    client.json_unless(&format!("/decisions/{}", encoded(&args.id)), NONE).await
}

/// Fit for one segment of a URL's path.
fn encoded(id: &str) -> String {
    let mut out = String::new();
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_id_is_one_segment_of_a_path() {
        assert_eq!(encoded("r-1_~Z9"), "r-1_~Z9");
        assert_eq!(encoded("../a b?c#ü"), "%2E%2E%2Fa%20b%3Fc%23%C3%BC");
    }

    #[test]
    fn the_error_says_of_each_address_why_and_what_to_do() {
        let refused = AskError::Refused { admin: "h:2".to_owned(), error: "busy".to_owned() };
        let asked = vec![("h:1".to_owned(), None), ("h:2".to_owned(), Some(refused))];
        let text = ExplainError { id: "r\u{1b}1".to_owned(), asked }.to_string();
        for words in ["request r1\n", "h:1: answers, and has no", "h:2 cannot answer: busy", "--admin", "--decisions"] {
            assert!(text.contains(words), "{text}");
        }
    }
}
