//! What a gateway adds to the time to the first byte: small requests through it and past it, in turns.
//!
//! Not here: the load (`drive`), which is over by then. Each request is a prompt of its own, so none finds another's blocks.

use std::time::Duration;

use super::figures::Added;
use crate::client::{Chat, Client};
use crate::demo::quantiles;
use crate::processes::MODEL;
use crate::workload::Message;

/// Bytes of a prompt: less than one step of an engine computes.
const PROMPT_BYTES: usize = 256;
/// Requests of either way that warm up connections.
const WARM: usize = 10;

/// Sends `requests` each way. Added is the difference of the percentiles, not a percentile of differences: requests have no
/// partner.
pub(super) async fn added(
    client: &Client,
    gateway: &str,
    worker: &str,
    requests: usize,
) -> Result<Option<Added>, String> {
    let (mut through, mut past) = (Vec::new(), Vec::new());
    for nth in 0..WARM + requests {
        // Who is first takes turns, so that what drifts meanwhile hits both.
        let both = [(gateway, true), (worker, false)];
        let order = if nth % 2 == 0 { [both[0], both[1]] } else { [both[1], both[0]] };
        for (base, is_gateway) in order {
            let ttft = first_byte(client, base, nth * 2 + usize::from(is_gateway)).await?;
            if nth >= WARM {
                if is_gateway { &mut through } else { &mut past }.push(ttft.as_secs_f64() * 1_000.0);
            }
        }
    }
    let (Some(through), Some(past)) = (quantiles(through), quantiles(past)) else { return Ok(None) };
    Ok(Some(Added { p50_ms: through.p50 - past.p50, p99_ms: through.p99 - past.p99 }))
}

async fn first_byte(client: &Client, base: &str, number: usize) -> Result<Duration, String> {
    let mut content = format!("{number:08} ").repeat(PROMPT_BYTES / 9 + 1);
    content.truncate(PROMPT_BYTES);
    let messages = [Message { role: "user", content }];
    let chat = Chat { model: MODEL, messages: &messages, answer: "yes." };
    let reply = client.chat(base, chat).await.map_err(|why| format!("{base}, a small request: {why}"))?;
    Ok(reply.ttft)
}
