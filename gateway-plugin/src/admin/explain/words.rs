//! A decision in words: where the request went, why, what that was compared with, what was predicted and what came of it.
//!
//! Every text in it came over the network, and is made printable first. Not here: asking for it.

use std::fmt::Write as _;

use super::super::decisions::DecisionsReport;
use super::super::printable::printable;
use crate::server::{AnswerShown, CandidateShown, DecisionShown};

/// The text to print.
pub(super) fn of(report: &DecisionsReport) -> String {
    let mut out = String::new();
    for decision in &report.decisions {
        if !out.is_empty() {
            out.push('\n');
        }
        one(&mut out, &report.gateway, decision);
    }
    out
}

fn one(out: &mut String, gateway: &str, decision: &DecisionShown) {
    let worker = printable(&decision.chosen.worker);
    let attempt = if decision.attempt > 1 { format!(", attempt {}", decision.attempt) } else { String::new() };
    let mut line = |head: &str, text: String| {
        let _ = writeln!(out, "{head:<10} {text}");
    };
    let age = age(decision.age_ms);
    line(
        "request",
        format!("{}, decided by {} {age} ago{attempt}", printable(&decision.request_id), printable(gateway)),
    );
    line("went to", format!("{worker}, by policy {}", printable(&decision.policy)));
    line("because", format!("{} ({})", because(decision), printable(&decision.reason)));
    line("coverage", format!("{} ({})", coverage(&decision.outcome), printable(&decision.outcome)));
    let (predicted, prompt) = (number(decision.chosen.predicted_tokens), number(decision.prompt_tokens));
    line("predicted", format!("{predicted} of {prompt} prompt tokens cached at {worker}"));
    line("answer", answer(&decision.answer));
    line("cached", cached(decision, &worker));
    let view = &decision.view;
    line(
        "view",
        format!(
            "{} ms old, {} changes of life {}; looked up by {} in {} µs",
            view.age_ms,
            number(view.changes),
            view.life,
            printable(&decision.looked_up_by),
            decision.lookup_us
        ),
    );
    compared(out, decision);
}

/// Everybody who was compared, the best first.
fn compared(out: &mut String, decision: &DecisionShown) {
    let others = &decision.runners_up;
    if others.is_empty() {
        let _ = writeln!(out, "{:<10} with nobody: score {}", "compared", number(decision.chosen.score));
        return;
    }
    let mut rows: Vec<(&CandidateShown, &str)> = vec![(&decision.chosen, "chosen")];
    rows.extend(others.iter().map(|other| (other, "")));
    rows.sort_by_key(|(candidate, mark)| (candidate.score, mark.is_empty()));
    let names: Vec<String> = rows.iter().map(|(candidate, _)| printable(&candidate.worker)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("WORKER".len());
    let head = ["WORKER", "PREDICTED", "QUEUED", "SCORE"];
    let _ = writeln!(out, "{:<10} {:<width$}  {:>9}  {:>9}  {:>9}", "compared", head[0], head[1], head[2], head[3]);
    for ((candidate, mark), name) in rows.iter().zip(names) {
        let cells = [candidate.predicted_tokens, candidate.queued_tokens, candidate.score].map(number);
        let row = format!("{:<10} {name:<width$}  {:>9}  {:>9}  {:>9}  {mark}", "", cells[0], cells[1], cells[2]);
        let _ = writeln!(out, "{}", row.trim_end());
    }
    let _ =
        writeln!(out, "{:<10} in tokens; score: queue and uncached part of the prompt, weighed; the lowest wins", "");
}

fn because(decision: &DecisionShown) -> &'static str {
    match decision.reason.as_str() {
        "holder" => "it holds a useful part of the prompt, and its score was the lowest",
        "lighter" => "workers that hold more of the prompt were compared, and are busier than that saves",
        "load" => "nobody compared holds a useful part of the prompt, and its score was the lowest",
        "turn" => "it was its turn",
        "chance" => "by chance",
        "session" if decision.policy == "sticky" => "the session's key names it",
        "session" => "it is the session's worker, and none was better",
        "prefix" => "the prompt's first blocks name it",
        "home" => "not all gateways are heard here, and it is where each of them would send the prompt",
        _ => "this build of the tool does not know the reason",
    }
}

fn coverage(outcome: &str) -> &'static str {
    match outcome {
        "hit" => "it holds the beginning of the prompt",
        "miss" => "others hold the beginning of the prompt, it does not",
        "none" => "nobody holds any of the prompt",
        "unscorable" => "could not be used: only workers that cannot be chosen here hold it, or the prompt has no text",
        "too_short" => "not looked at: the prompt has no whole block",
        "stale" => "not looked at: the mesh thread was silent, or its replica not complete yet (see covey status)",
        "clock" => "as last seen: this gateway's clock is off (see covey status)",
        "sticky" | "off" => "not looked at by this policy",
        _ => "this build of the tool does not know the word",
    }
}

fn answer(answer: &AnswerShown) -> String {
    let state = match answer.state.as_str() {
        "waiting" => "nothing came yet".to_owned(),
        "answering" => "under way".to_owned(),
        "aborted" => "the client went away".to_owned(),
        "unread" => "passed on unread, because it came compressed".to_owned(),
        "refused" => format!("refused with status {}", answer.status.unwrap_or_default()),
        "failed" => format!("failed ({})", printable(answer.fault.as_deref().unwrap_or("unknown"))),
        other => printable(other),
    };
    let first =
        answer.ttft_ms.map_or_else(String::new, |ms| format!(", first part {} ms after the decision", number(ms)));
    state + &first
}

fn cached(decision: &DecisionShown, worker: &str) -> String {
    let answer = &decision.answer;
    let Some(cached) = answer.reported_cached_tokens else {
        return format!("{worker} has not said (vLLM says it with --enable-prompt-tokens-details)");
    };
    let predicted = decision.chosen.predicted_tokens;
    let by_tokens = decision.looked_up_by == "tokens";
    let verdict = match cached.cmp(&predicted) {
        _ if !by_tokens => "the prediction is an estimate, since the prompt was looked up by its bytes".to_owned(),
        std::cmp::Ordering::Equal => "as predicted".to_owned(),
        std::cmp::Ordering::Greater => format!("{} more than predicted", number(cached - predicted)),
        std::cmp::Ordering::Less => {
            format!("{} fewer than predicted; covey doctor says why if it goes on", number(predicted - cached))
        }
    };
    let of = answer.reported_prompt_tokens.map_or_else(String::new, |prompt| format!(" of {}", number(prompt)));
    format!("{}{of} prompt tokens, says {worker}: {verdict}", number(cached))
}

fn age(ms: u64) -> String {
    match ms {
        0..60_000 => format!("{:.1} s", ms as f64 / 1e3),
        60_000..3_600_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

/// With commas between thousands.
fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests;
