//! `make fuzz-events`: damaged real messages against everything that reads what an engine sends, for a while; and
//! `--cost`, what real messages cost to read and apply.
//!
//! Fuzzing: payloads (decoded, and applied to a cache), bytes on the wire (ZMTP), handed-off states. A panic ends it, and so
//! does more memory than eight times the message and a small constant. The seed is printed; `FUZZ_SEED` repeats a run,
//! `FUZZ_SECONDS` says how long (600). Not here: sockets.

#![expect(clippy::print_stdout, reason = "it is a tool for a terminal")]

use std::path::Path;
use std::time::{Duration, Instant};

use covey_crdt::hash::HashKey;
use covey_crdt::id::ModelName;
use covey_gateway_plugin::ingest::zmtp::{Item, Reader, SocketType, greeting, message};
use covey_gateway_plugin::ingest::{CacheRules, EngineCache, decode};
use flate2::read::MultiGzDecoder;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Bytes that a message may take beyond eight times its own: maps of reasons, first capacities.
const CONSTANT: usize = 4_096;
/// What a frame's buffer has at first, on the wire.
const WIRE_CONSTANT: usize = 128 * 1_024;
const READY: &[u8] = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB";
/// What `--cost` is measured for.
const WORKERS: usize = 2_000;

/// A small generator: SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// The payloads of the captures that the tests use, stream by stream.
fn captures() -> Vec<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let names = [
        "llama_bs32_sha256cbor.events.jsonl",
        "reencoded_as_vllm_0.11.0.events.jsonl",
        "gemma3_bs32.events.jsonl",
        "stream_full.jsonl.gz",
        "stream_gemma.jsonl.gz",
    ];
    names.map(|name| payloads(&std::fs::read(folder.join(name)).expect("the captures are in the repository"))).into()
}

fn payloads(file: &[u8]) -> Vec<Vec<u8>> {
    let is_gzip = file.starts_with(&[0x1f, 0x8b]);
    let text = if is_gzip { std::io::read_to_string(MultiGzDecoder::new(file)) } else { std::io::read_to_string(file) };
    let hex =
        |text: &str| (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()).collect();
    let payload = |line: &str| -> Option<Vec<u8>> {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let of = line.get("payload_hex").or_else(|| line.get("frames_hex")?.as_array()?.last())?;
        hex(of.as_str()?)
    };
    text.expect("text").lines().filter_map(payload).collect()
}

/// Very many events that say nearly nothing.
fn dense(random: &mut Random) -> Vec<u8> {
    const EVENTS: [&[u8]; 4] = [
        b"\x92\xacBlockRemoved\x90",
        b"\x95\xabBlockStored\x91\x01\xc0\x90\x01",
        b"\x95\xabBlockStored\x90\xc0\x91\x07\x01",
        b"\x91\xb0AllBlocksCleared",
    ];
    let (count, which) = (random.below(20_000) as u32, random.below(EVENTS.len() + 1));
    let mut bytes = [&[0x92, 0x00, 0xdd][..], &count.to_be_bytes()].concat();
    for _ in 0..count {
        bytes.extend_from_slice(EVENTS.get(which).copied().unwrap_or(EVENTS[random.below(EVENTS.len())]));
    }
    bytes
}

/// Flips, cuts, repeats, splices, and lengths made large.
fn damage(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = corpus[random.below(corpus.len())].clone();
    for _ in 0..random.below(9) {
        let at = random.below(bytes.len());
        match random.below(8) {
            _ if bytes.is_empty() => bytes.push(random.next() as u8),
            0 | 1 => bytes[at] = random.next() as u8,
            2 => bytes[at] ^= 1 << random.below(8),
            3 => bytes.truncate(at),
            4 => {
                let until = at + random.below(64.min(bytes.len() - at));
                let piece = bytes[at..until].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            5 => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            6 => {
                const MARKERS: [u8; 12] = [0xdd, 0xdf, 0xdc, 0xde, 0xc6, 0xdb, 0xc9, 0xcf, 0xd3, 0xc1, 0xc0, 0x9f];
                bytes[at] = MARKERS[random.below(MARKERS.len())];
            }
            _ => {
                let until = bytes.len().min(at + 4);
                bytes[at..until].fill(0xff);
            }
        }
    }
    bytes
}

/// Runs `each` and ends the process when it took more memory than it may.
fn within<T>(what: &str, most: usize, bytes: &[u8], each: impl FnOnce() -> T) -> (T, usize) {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let result = each();
    let taken = MEMORY.peak_usage().saturating_sub(before);
    assert!(taken <= most, "{what} took {taken} bytes (at most {most}) for {} bytes: {bytes:02x?}", bytes.len());
    (result, taken)
}

fn cache() -> EngineCache {
    EngineCache::new(ModelName::new("fuzz").expect("a name"), HashKey::ZERO, CacheRules::default())
}

fn on_the_wire(random: &mut Random, payload: &[u8]) {
    let parts = [b"kv".as_slice(), &7_u64.to_be_bytes(), payload];
    let mut bytes = [&greeting()[..], READY, &message(&parts)].concat();
    for _ in 0..random.below(4) {
        let at = random.below(bytes.len().min(160));
        bytes[at] = random.next() as u8;
    }
    within("the wire", 4 * bytes.len() + WIRE_CONSTANT, &bytes, || {
        let (mut reader, mut left) = (Reader::new(SocketType::Sub), &bytes[..]);
        while !left.is_empty() {
            let (mut piece, rest) = left.split_at(left.len().min(1 + random.below(4_096)));
            left = rest;
            loop {
                match reader.read(&mut piece) {
                    Ok(Some(Item::Ready | Item::Ping { .. } | Item::Message(_))) => {}
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
        }
    });
}

fn fuzz(streams: &[Vec<Vec<u8>>], seconds: u64, seed: u64) {
    let corpus: Vec<Vec<u8>> = streams.concat();
    println!("{} messages, {seconds} s, seed {seed}", corpus.len());
    let mut random = Random(seed);
    let (started, mut told, mut rounds, mut worst) = (Instant::now(), Instant::now(), 0_u64, 0.0_f64);
    let (mut events, mut refused, mut live) = (0_u64, 0_u64, cache());
    while started.elapsed() < Duration::from_secs(seconds) {
        let bytes = if rounds.is_multiple_of(512) { dense(&mut random) } else { damage(&mut random, &corpus) };
        let most = 8 * bytes.len() + CONSTANT;
        let (decoded, taken) = within("decoding", most, &bytes, || decode(&bytes));
        if bytes.len() >= CONSTANT {
            worst = worst.max(taken as f64 / bytes.len() as f64);
        }
        events += decoded.events.len() as u64;
        refused += decoded.refused.values().sum::<u64>();
        let _ = live.apply(&decoded.events);
        on_the_wire(&mut random, &bytes);
        if rounds.is_multiple_of(5_000) {
            let state = damage(&mut random, &[live.export()]);
            let mut other = cache();
            if other.import(&state).is_ok() {
                assert_eq!(other.export(), state, "a state that is taken is the state that was given");
            }
            live = cache();
        }
        rounds += 1;
        if told.elapsed() >= Duration::from_secs(10) {
            told = Instant::now();
            let at = started.elapsed().as_secs();
            println!(
                "{at} s: {rounds} messages, {events} events read, {refused} refused, at most {worst:.2} bytes per byte"
            );
        }
    }
    println!("done: {rounds} messages, no panic, at most {worst:.2} bytes per byte of messages of 4 KiB and more");
}

/// CPU time of this process, in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("a number") / 1e9
}

/// What it costs to read and apply one batch of each of many workers, each at another place of a recorded stream.
fn cost(streams: &[Vec<Vec<u8>>]) {
    let names = ["llama", "vllm 0.11", "gemma", "stream_full", "stream_gemma"];
    for (name, stream) in names.iter().zip(streams) {
        let mut caches: Vec<EngineCache> = (0..WORKERS).map(|_| cache()).collect();
        let (mut bytes, mut batches, before) = (0, 0_usize, cpu());
        for round in 0..20 {
            for (nth, cache) in caches.iter_mut().enumerate() {
                let payload = &stream[(round + nth * 7) % stream.len()];
                let _ = cache.apply(&decode(payload).events);
                (bytes, batches) = (bytes + payload.len(), batches + 1);
            }
        }
        let each = (cpu() - before) / batches as f64;
        let share = each * WORKERS as f64 * 100.0;
        println!("{name}: {} B a batch, {:.1} us a batch, {share:.2} % of a core", bytes / batches, each * 1e6);
    }
}

fn main() {
    let streams = captures();
    if std::env::args().any(|arg| arg == "--cost") {
        return cost(&streams);
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("FUZZ_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    fuzz(&streams, number("FUZZ_SECONDS").unwrap_or(600), seed);
}
