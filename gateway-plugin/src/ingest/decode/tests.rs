//! Every form that engines write, and what must not cost a batch its other events.

use rmp_serde::to_vec;
use serde_json::{Value as Json, json};

use super::*;

fn batch(events: Json) -> Vec<u8> {
    to_vec(&json!([1.5, events, 3])).expect("plain data")
}

fn only(events: Json) -> Event {
    let decoded = decode(&batch(json!([events])));
    assert!(decoded.refused.is_empty() && !decoded.is_broken, "{decoded:?}");
    decoded.events.into_iter().next().expect("one event")
}

#[test]
fn array_and_map_form_say_the_same() {
    let array =
        only(json!(["BlockStored", [1, 2], 9, [5, 6, 7, 8], 2, null, "GPU", "ad", [null, ["s"]], 0, "full_attention"]));
    let map = only(json!({
        "later_field": {"deep": [1, [2]]}, "kv_cache_spec_kind": "full_attention", "extra_keys": [null, ["s"]],
        "lora_name": "ad", "medium": "GPU", "block_size": 2, "token_ids": [5, 6, 7, 8], "type": "BlockStored",
        "parent_block_hash": 9, "block_hashes": [1, 2], "lora_id": null, "group_idx": 0
    }));
    assert_eq!(array, map);
    let Event::Stored(stored) = array else { panic!("{array:?}") };
    assert_eq!((stored.hashes.as_slice(), stored.parent, stored.block_tokens), (&[1, 2][..], Some(9), 2));
    assert_eq!(stored.extra, [None, Some(ExtraKey::salt("s"))]);
    assert_eq!((stored.lora.as_deref(), stored.medium, stored.is_full), (Some("ad"), Medium::Device, true));
}

#[test]
fn trailing_fields_may_be_missing_and_further_ones_may_come() {
    let short = only(json!(["BlockStored", [1], null, [5, 6], 2]));
    let long = only(json!([
        "BlockStored",
        [1],
        null,
        [5, 6],
        2,
        null,
        null,
        null,
        null,
        null,
        null,
        null,
        "LOCAL",
        null,
        "x",
        []
    ]));
    assert_eq!(short, long);
    assert_eq!(only(json!(["AllBlocksCleared"])), Event::Cleared);
    assert_eq!(only(json!({"type": "AllBlocksCleared"})), Event::Cleared);
    assert_eq!(
        only(json!(["BlockRemoved", [7], "CPU_TIER1"])),
        Event::Removed(Removed { hashes: vec![7], medium: Medium::Host, group: 0 })
    );
}

#[test]
fn a_bad_event_costs_its_batch_mates_nothing() {
    let decoded = decode(&batch(json!([
        ["BlockStored", [1], null, [[5, 6], [6, 7]], 2],
        ["BlockStored", [1], null, ["text"], 2],
        ["BlockStored", [1], null, [5, 6], 0],
        {"no": "type"},
        17,
        ["BlockStored", "not a list", null, [5, 6], 2],
        ["BlockTeleported", 1, 2],
        ["BlockRemoved", [3]],
    ])));
    assert_eq!(decoded.events, [Event::Removed(Removed { hashes: vec![3], medium: Medium::Device, group: 0 })]);
    assert_eq!((decoded.unknown, decoded.is_broken, decoded.rank), (1, false, Some(3)));
    let refused: Vec<(&str, u64)> = decoded.refused.iter().map(|(why, count)| (why.name(), *count)).collect();
    assert_eq!(refused, [("shape", 2), ("field", 1), ("tokens", 2), ("block_size", 1)]);
}

#[test]
fn hashes_are_64_bits_however_they_are_written() {
    let hashes = |hashes: Json| match only(json!(["BlockRemoved", hashes])) {
        Event::Removed(removed) => removed.hashes,
        Event::Stored(_) | Event::Cleared | Event::Unknown => panic!("a removal"),
    };
    assert_eq!(hashes(json!([u64::MAX, -1, 5])), [u64::MAX, u64::MAX, 5]);
    let digest: Vec<u8> = (0..32).collect();
    let bytes = to_vec(&(0.0, [("BlockRemoved", [serde_bytes::Bytes::new(&digest)])])).expect("plain data");
    let decoded = decode(&bytes);
    let expected = u64::from_be_bytes([24, 25, 26, 27, 28, 29, 30, 31]);
    let Some(Event::Removed(removed)) = decoded.events.first() else { panic!("{decoded:?}") };
    assert_eq!(removed.hashes, [expected], "the last eight bytes, as engines shorten them");
}

#[test]
fn sglang_says_the_salt_where_vllm_has_the_adapter() {
    let Event::Stored(stored) =
        only(json!(["BlockStored", [1], null, [5, 6], 2, null, "GPU", {"cache_salt": "t", "session_id": "x"}]))
    else {
        panic!("a store")
    };
    assert_eq!((stored.extra.as_slice(), stored.lora), (&[Some(ExtraKey::salt("t"))][..], None));
}

#[test]
fn a_message_cut_short_keeps_what_came_before() {
    let whole = batch(json!([["BlockRemoved", [1]], ["BlockRemoved", [2]]]));
    for cut in 0..whole.len() {
        let decoded = decode(&whole[..cut]);
        assert!(decoded.is_broken, "{cut}");
        assert!(decoded.events.len() <= 2);
    }
    assert_eq!(decode(&whole).events.len(), 2);
    let events = |cut: usize| decode(&whole[..cut]).events.len();
    assert!((0..whole.len()).any(|cut| events(cut) == 1), "the first event survives the loss of the second");
}

#[test]
fn a_batch_written_as_a_map_is_read() {
    let bytes = to_vec(&json!({"data_parallel_rank": 2, "events": [["AllBlocksCleared"]], "ts": 4.0, "more": 1}));
    let decoded = decode(&bytes.expect("plain data"));
    assert_eq!((decoded.ts, decoded.rank, decoded.events), (4.0, Some(2), vec![Event::Cleared]));
}

#[test]
fn what_real_vllm_0_33_wrote_is_read() {
    // The start of a batch by vLLM's own structs: an array of three, a float, three events, the first a map of 16-bit length.
    let mut bytes = vec![0x93, 0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0x91, 0xde, 0, 1, 0xa4];
    bytes.extend_from_slice(b"type");
    bytes.push(0xb0);
    bytes.extend_from_slice(b"AllBlocksCleared");
    bytes.push(0);
    let decoded = decode(&bytes);
    assert_eq!(
        (decoded.ts, decoded.rank, decoded.events, decoded.is_broken),
        (1.5, Some(0), vec![Event::Cleared], false)
    );
}

/// Every payload of a real capture.
fn captured() -> Vec<Vec<u8>> {
    let lines = include_str!("../../../tests/captures/llama_bs32_sha256cbor.events.jsonl").lines();
    let unhex = |text: &str| -> Vec<u8> {
        (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hex")).collect()
    };
    lines
        .map(|line| {
            let line: Json = serde_json::from_str(line).expect("a line of JSON");
            unhex(line["frames_hex"][2].as_str().expect("a payload"))
        })
        .collect()
}

/// What was allocated for a message, at the least.
fn allocated(decoded: &Decoded) -> usize {
    decoded.events.capacity() * size_of::<Event>() + decoded.events.iter().map(Event::heap_bytes).sum::<usize>()
}

#[test]
fn thousands_of_events_that_say_nothing_take_no_more_memory_than_others() {
    for event in [json!(["BlockRemoved", []]), json!(["BlockStored", [1], null, [], 1]), json!(["AllBlocksCleared"])] {
        let bytes = batch(Json::Array(vec![event.clone(); 70_000]));
        let decoded = decode(&bytes);
        assert!(allocated(&decoded) <= 8 * bytes.len(), "{} for {} of {event}", allocated(&decoded), bytes.len());
        let refused = decoded.refused.get(&RefuseEvent::Dense).copied().unwrap_or_default();
        assert_eq!(decoded.events.len() as u64 + refused, 70_000, "{event}");
    }
}

proptest::proptest! {
    /// Damaged, cut and spliced messages are read as far as they make sense, without a panic and within the bound.
    #[test]
    fn no_bytes_panic_or_allocate_beyond_their_bound(
        which in 0..25_usize,
        flips in proptest::collection::vec((0..2_000_usize, 0..=255_u8), 0..12),
        cut in 0..2_000_usize,
        noise in proptest::collection::vec(0..=255_u8, 0..200),
    ) {
        let mut bytes = captured().swap_remove(which);
        for (at, byte) in flips {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        if cut < bytes.len() {
            bytes.truncate(cut);
            bytes.extend_from_slice(&noise);
        }
        for bytes in [&bytes, &noise] {
            let decoded = decode(bytes);
            proptest::prop_assert!(allocated(&decoded) <= 8 * bytes.len() + 2_048, "{} of {}", allocated(&decoded), bytes.len());
        }
    }
}
