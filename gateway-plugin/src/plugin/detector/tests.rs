//! Each kind of mismatch under its name, and nothing where predictions are right.

use super::*;

fn seen(predicted: u64, reported: u64) -> Observation {
    Observation {
        prompt_tokens: 1_000,
        reported_prompt_tokens: 1_000,
        predicted_tokens: predicted,
        reported_tokens: Some(reported),
        block_tokens: 16,
        is_scoped: false,
    }
}

/// What is named after these requests, each seen once.
fn named(feed: FeedState, all: impl IntoIterator<Item = Observation>) -> Option<Mismatch> {
    let mut detector = Detector::default();
    let _ = detector.feed(feed, None);
    for one in all {
        let _ = detector.observe(one);
    }
    assert_eq!(detector.named(), detector.judge().mismatch);
    detector.named()
}

#[test]
fn right_predictions_are_no_mismatch() {
    assert_eq!(named(FeedState::Complete, (0..200).map(|i| seen(i * 16, i * 16))), None);
    // A request here and there may be off: eviction and events cross each other.
    let rarely = (0..200).map(|i| if i % 20 == 7 { seen(160, 0) } else { seen(160, 160) });
    assert_eq!(named(FeedState::Complete, rarely), None);
    // Without events, a block that the answer left unfinished.
    assert_eq!(named(FeedState::None, (0..200).map(|i| seen(i * 16, i * 16 + 16))), None);
    assert_eq!(Detector::default().judge(), Judgement::default());
}

#[test]
fn other_prompt_lengths_are_tokenization_even_when_rare() {
    let other = |i: u64| Observation { reported_prompt_tokens: 1_001, ..seen(0, i * 16) };
    assert_eq!(named(FeedState::Complete, (0..3).map(other)), Some(Mismatch::Tokenization));
    assert_eq!(named(FeedState::Complete, (0..2).map(other)), None);
    let tools = (0..64).map(|i| if i % 16 == 0 { other(i) } else { seen(16, 16) });
    assert_eq!(named(FeedState::None, tools), Some(Mismatch::Tokenization));
}

#[test]
fn reports_in_other_steps_are_the_block_size() {
    let small = (1..40).map(|i| seen(i * 16, i * 8));
    assert_eq!(named(FeedState::Complete, small), Some(Mismatch::BlockSize));
    let large = (1..40).map(|i| seen((2 * i + i % 2) * 16, i * 32));
    assert_eq!(named(FeedState::None, large), Some(Mismatch::BlockSize));
    let mut detector = Detector::default();
    assert_eq!(detector.observe(seen(0, 0)), None);
    assert_eq!(detector.feed(FeedState::Complete, Some(64)), Some(Some(Mismatch::BlockSize)));
    assert!(detector.judge().evidence.contains("64"));
    assert_eq!(detector.observe(Observation { block_tokens: 64, ..seen(0, 0) }), Some(None));
}

#[test]
fn only_salted_requests_wrong_is_the_salt() {
    let mixed = |i: u64| match i % 2 {
        0 => seen(160, 160),
        _ => Observation { is_scoped: true, ..seen(0, 160) },
    };
    assert_eq!(named(FeedState::None, (0..20).map(mixed)), Some(Mismatch::SaltOrAdapter));
    // All wrong is not the salt's fault.
    let all = (0..20).map(|i| Observation { is_scoped: i % 2 == 0, ..seen(0, 160) });
    assert_eq!(named(FeedState::None, all), Some(Mismatch::Unknown));
}

#[test]
fn claims_of_a_complete_feed_that_are_not_hit_are_the_events() {
    let over = || (0..20).map(|i| seen(160, if i % 3 == 0 { 0 } else { 160 }));
    assert_eq!(named(FeedState::Complete, over()), Some(Mismatch::Events));
    assert_eq!(named(FeedState::None, over()), None, "placements do not see eviction");
    assert_eq!(named(FeedState::None, (0..20).map(|_| seen(160, 0))), Some(Mismatch::Unknown));
}

#[test]
fn a_count_of_zero_that_is_left_out_is_a_report_of_a_worker_that_reports() {
    let silent = Observation { reported_tokens: None, ..seen(160, 0) };
    assert_eq!(named(FeedState::Complete, (0..40).map(|_| silent)), None, "it never reports");
    let then = std::iter::once(seen(160, 160)).chain((0..40).map(|_| silent));
    assert_eq!(named(FeedState::Complete, then), Some(Mismatch::Events));
}

#[test]
fn a_mismatch_is_told_once_and_its_end_too() {
    let mut detector = Detector::default();
    let mut told = Vec::new();
    for i in 0..200 {
        let ours = if (20..60).contains(&i) { 999 } else { 1_000 };
        told.extend(detector.observe(Observation { prompt_tokens: ours, ..seen(16, 16) }));
    }
    assert_eq!(told, [Some(Mismatch::Tokenization), None]);
    detector.forget();
    assert_eq!(detector.judge().requests, 0);
}
