//! Damaged messages against all that reads what an engine or another ingester sends: payloads (decoded, and applied to a
//! cache), bytes on the wire (ZMTP), handed-off states.
//!
//! A [`Fault`] ends it: a panic, more memory than allowed, or a state that is taken but is not what was given. Not here:
//! sockets.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use covey_gateway_plugin::ingest::zmtp::{Item, Reader, SocketType, greeting, message};
use covey_gateway_plugin::ingest::{Decoded, EngineCache, decode};

use crate::damage::{Random, damage, dense};
use crate::{MEMORY, cache};

/// Bytes that reading a message may take beyond eight times its own: maps of reasons, first capacities.
const CONSTANT: usize = 4_096;
/// The same on the wire, beyond four times: what a frame's buffer has at first.
const WIRE_CONSTANT: usize = 128 * 1_024;
const READY: &[u8] = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB";
/// Messages between two hand-offs of what they led to; then a new cache begins.
const HAND_OFF_EVERY: u64 = 1_000;
/// Messages between two dense ones.
const DENSE_EVERY: u64 = 512;
/// Ways in which `repeat` cuts a file into reads of the wire.
const CUTS: u64 = 100;

/// Something that must not happen.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Which reader.
    pub(crate) what: &'static str,
    pub(crate) why: String,
    /// What it was given.
    pub(crate) bytes: Vec<u8>,
    /// How many messages the run had read before.
    pub(crate) message: u64,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) messages: u64,
    pub(crate) events: u64,
    pub(crate) refused: u64,
    /// Messages the wire gave out, in spite of the damage.
    pub(crate) wire: u64,
    /// Handed-off states offered, and those taken.
    pub(crate) states: u64,
    pub(crate) taken: u64,
    /// The most bytes allocated to decode one byte, in messages of 4 KiB and more (of smaller ones the constant says most).
    pub(crate) worst: f64,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { messages, events, refused, wire, states, taken, worst } = self;
        write!(
            f,
            "{messages} messages, {events} events read, {refused} refused; {wire} messages off the wire; {taken} of \
             {states} states taken; at most {worst:.2} bytes allocated per byte"
        )
    }
}

/// Runs `each`, which may take `most` bytes of memory at a time and must not panic; also says how many it took.
fn within<T>(
    what: &'static str,
    most: usize,
    bytes: &[u8],
    each: impl FnOnce() -> T,
) -> Result<(T, usize), Box<Fault>> {
    let fault = |why: String| Box::new(Fault { what, why, bytes: bytes.to_vec(), message: 0 });
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let result = catch_unwind(AssertUnwindSafe(each));
    let took = MEMORY.peak_usage().saturating_sub(before);
    let result = result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        fault(format!("panicked: {}", text.unwrap_or("(no text)")))
    })?;
    if took > most {
        return Err(fault(format!("took {took} bytes of memory, at most {most} are allowed")));
    }
    Ok((result, took))
}

fn read(bytes: &[u8]) -> Result<(Decoded, usize), Box<Fault>> {
    within("decode", 8 * bytes.len() + CONSTANT, bytes, || decode(bytes))
}

/// Applies to a cache; the tables grow with what they hold, so their memory has no bound by message.
fn apply(cache: &mut EngineCache, decoded: &Decoded, bytes: &[u8]) -> Result<(), Box<Fault>> {
    within("apply", usize::MAX, bytes, || drop(cache.apply(&decoded.events))).map(drop)
}

/// Whether a handed-off state was taken.
fn hand_off(state: &[u8]) -> Result<bool, Box<Fault>> {
    let taken = || {
        let mut other = cache();
        let is_taken = other.import(state).is_ok();
        assert!(!is_taken || other.export() == state, "the state that was taken is not the state that was given");
        is_taken
    };
    within("import", usize::MAX, state, taken).map(|(is_taken, _)| is_taken)
}

/// Reads what a peer sent, in pieces of any size; how many messages that made.
fn off_the_wire(random: &mut Random, bytes: &[u8]) -> Result<u64, Box<Fault>> {
    let read = || {
        let (mut reader, mut left, mut messages) = (Reader::new(SocketType::Sub), bytes, 0);
        while !left.is_empty() {
            let (mut piece, rest) = left.split_at(left.len().min(1 + random.below(4_096)));
            left = rest;
            loop {
                match reader.read(&mut piece) {
                    Ok(Some(Item::Message(_))) => messages += 1,
                    Ok(Some(Item::Ready | Item::Ping { .. })) => {}
                    Ok(None) => break,
                    Err(_) => return messages,
                }
            }
        }
        messages
    };
    within("wire", 4 * bytes.len() + WIRE_CONSTANT, bytes, read).map(|(messages, _)| messages)
}

/// A peer's bytes: greeting, READY, one message, with up to three bytes of the first ones damaged.
fn sent(random: &mut Random, payload: &[u8]) -> Vec<u8> {
    let parts = [b"kv".as_slice(), &7_u64.to_be_bytes(), payload];
    let mut bytes = [&greeting()[..], READY, &message(&parts)].concat();
    for _ in 0..random.below(4) {
        let at = random.below(bytes.len().min(160));
        bytes[at] = random.next() as u8;
    }
    bytes
}

/// One message; what it did is counted.
fn once(
    random: &mut Random,
    corpus: &[Vec<u8>],
    live: &mut EngineCache,
    counts: &mut Counts,
) -> Result<(), Box<Fault>> {
    let is_dense = counts.messages.is_multiple_of(DENSE_EVERY);
    let bytes = if is_dense { dense(random) } else { damage(random, corpus) };
    let (decoded, took) = read(&bytes)?;
    if bytes.len() >= CONSTANT {
        counts.worst = counts.worst.max(took as f64 / bytes.len() as f64);
    }
    counts.events += decoded.events.len() as u64;
    counts.refused += decoded.refused.values().sum::<u64>();
    apply(live, &decoded, &bytes)?;
    let sent = sent(random, &bytes);
    counts.wire += off_the_wire(random, &sent)?;
    if counts.messages % HAND_OFF_EVERY == HAND_OFF_EVERY - 1 {
        let (state, _) = within("export", usize::MAX, &bytes, || live.export())?;
        let state = damage(random, &[state]);
        counts.states += 1;
        counts.taken += u64::from(hand_off(&state)?);
        *live = cache();
    }
    counts.messages += 1;
    Ok(())
}

/// Fuzzes for so long, and calls `tell` every ten seconds.
///
/// # Errors
/// The first [`Fault`].
pub(crate) fn fuzz(
    corpus: &[Vec<u8>],
    (seed, lasts): (u64, Duration),
    tell: impl Fn(u64, &Counts),
) -> Result<Counts, Box<Fault>> {
    let (mut random, mut live, mut counts) = (Random(seed), cache(), Counts::default());
    let (started, mut told) = (Instant::now(), 0);
    while started.elapsed() < lasts {
        once(&mut random, corpus, &mut live, &mut counts)
            .map_err(|fault| Box::new(Fault { message: counts.messages, ..*fault }))?;
        let at = started.elapsed().as_secs();
        if at >= told + 10 {
            told = at;
            tell(at, &counts);
        }
    }
    Ok(counts)
}

/// Gives one input to every reader.
///
/// # Errors
/// The first [`Fault`].
pub(crate) fn repeat(bytes: &[u8]) -> Result<(), Box<Fault>> {
    let (decoded, _) = read(bytes)?;
    apply(&mut cache(), &decoded, bytes)?;
    hand_off(bytes)?;
    (0..CUTS).try_for_each(|seed| off_the_wire(&mut Random(seed), bytes).map(drop))
}

#[cfg(test)]
pub(crate) fn catches(bytes: &[u8]) {
    let panics = within("a reader", usize::MAX, bytes, || assert_eq!(bytes.len(), 0, "planted"));
    let fault = panics.expect_err("a panic is a fault");
    assert!(fault.why.contains("planted") && fault.bytes == bytes, "{fault:?}");
    let greedy = within("a reader", 100_000, bytes, || drop(std::hint::black_box(vec![1_u8; 200_000])));
    let fault = greedy.expect_err("too much memory is a fault, though it is given back");
    assert!(fault.why.contains("200000 bytes") || fault.why.contains("took 20"), "{fault:?}");
}
