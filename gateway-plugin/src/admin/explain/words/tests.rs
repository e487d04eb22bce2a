//! The text of one decision, whole, and what differs in it when things went otherwise.

use super::*;
use crate::server::ViewShown;

fn candidate(worker: &str, predicted_tokens: u64, queued_tokens: u64, score: u64) -> CandidateShown {
    CandidateShown { worker: worker.to_owned(), predicted_tokens, queued_tokens, score }
}

fn decision() -> DecisionShown {
    DecisionShown {
        request_id: "r-17".to_owned(),
        attempt: 1,
        unix_ms: 1_764_500_000_000,
        age_ms: 4_210,
        policy: "mesh".to_owned(),
        reason: "holder".to_owned(),
        outcome: "hit".to_owned(),
        looked_up_by: "tokens".to_owned(),
        prompt_tokens: 12_040,
        chosen: candidate("w1", 11_264, 1_200, 2_104),
        runners_up: vec![candidate("w0", 4_096, 300, 8_372), candidate("w3", 0, 0, 12_040)],
        view: ViewShown { life: 1, changes: 1_284, age_ms: 2 },
        lookup_us: 31,
        answer: AnswerShown {
            state: "completed".to_owned(),
            fault: None,
            status: None,
            ttft_ms: Some(412),
            reported_prompt_tokens: Some(12_040),
            reported_cached_tokens: Some(11_264),
        },
    }
}

type Change = fn(&mut DecisionShown);

fn text(decision: DecisionShown) -> String {
    of(&DecisionsReport { gateway: "gw-a".to_owned(), decisions: vec![decision] })
}

#[test]
fn it_says_where_why_compared_with_what_predicted_and_what_came_of_it() {
    let expected = "\
request    r-17, decided by gw-a 4.2 s ago
went to    w1, by policy mesh
because    it holds a useful part of the prompt, and its score was the lowest (holder)
coverage   it holds the beginning of the prompt (hit)
predicted  11,264 of 12,040 prompt tokens cached at w1
answer     completed, first part 412 ms after the decision
cached     11,264 of 12,040 prompt tokens, says w1: as predicted
view       2 ms old, 1,284 changes of life 1; looked up by tokens in 31 µs
compared   WORKER  PREDICTED     QUEUED      SCORE
           w1         11,264      1,200      2,104  chosen
           w0          4,096        300      8,372
           w3              0          0     12,040
           in tokens; score: queue and uncached part of the prompt, weighed; the lowest wins
";
    assert_eq!(text(decision()), expected);
}

#[test]
fn what_went_otherwise_shows() {
    let with = |change: Change| {
        let mut decision = decision();
        change(&mut decision);
        text(decision)
    };
    let cases: [(Change, &str); 9] = [
        (|d| d.looked_up_by = "bytes".into(), "says w1: the prediction is an estimate"),
        (|d| d.answer.reported_cached_tokens = Some(10_000), "1,264 fewer than predicted; covey doctor"),
        (|d| d.answer.reported_cached_tokens = Some(12_000), "736 more than predicted"),
        (|d| d.answer.reported_cached_tokens = None, "cached     w1 has not said (vLLM"),
        (|d| d.runners_up.clear(), "compared   with nobody: score 2,104"),
        (
            |d| (d.answer.state, d.answer.fault) = ("failed".into(), Some("cut".into())),
            "answer     failed (cut), first",
        ),
        (|d| (d.answer.state, d.answer.status) = ("refused".into(), Some(503)), "refused with status 503"),
        (|d| d.reason = "session".into(), "it is the session's worker, and none was better (session)"),
        (|d| (d.attempt, d.age_ms) = (2, 7_400_000), "gw-a 2 h 3 min ago, attempt 2"),
    ];
    for (change, words) in cases {
        let text = with(change);
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
}

#[test]
fn nothing_that_moves_a_cursor_reaches_the_terminal() {
    let evil = || "\u{1b}[2J\nx".to_owned();
    let mut decision = decision();
    (decision.request_id, decision.chosen.worker, decision.policy) = (evil(), evil(), evil());
    (decision.reason, decision.outcome, decision.looked_up_by) = (evil(), evil(), evil());
    (decision.answer.state, decision.runners_up[0].worker) = (evil(), evil());
    let text = of(&DecisionsReport { gateway: evil(), decisions: vec![decision] });
    assert!(!text.contains('\u{1b}') && text.lines().count() == 13, "{text}");
}
