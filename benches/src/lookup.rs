//! The routing lookup: the index alone, and all that a request pays (hash, lookup, policy, counting).
//!
//! Not here: the workload (`fleet`).

use std::sync::atomic::{AtomicBool, Ordering};

use covey_crdt::hash::BlockHash;
use covey_gateway_plugin::plugin::Hints;

use crate::fleet::{Fleet, SHARED_BLOCKS, prompt};
use crate::timing::{Budget, Row, measure};

const SHORT_BLOCKS: usize = SHARED_BLOCKS + 3;
const LONG_BLOCKS: usize = 1_250;
const SHORTS: usize = 1_000;
const LONGS: usize = 300;
const CALLS: usize = 20_000;

/// Every figure of the lookup.
pub(crate) fn rows() -> Vec<Row> {
    let mut fleet = Fleet::new();
    let shorts: Vec<_> = (0..SHORTS).map(|no| prompt(no, SHORT_BLOCKS)).collect();
    let longs: Vec<_> = (0..LONGS).map(|no| prompt(10_000 + no, LONG_BLOCKS)).collect();
    shorts.iter().enumerate().for_each(|(no, text)| fleet.place(no, text));
    for (no, text) in longs.iter().enumerate() {
        fleet.place(no * 7, text);
        if no % 2 == 0 {
            fleet.place(no * 7 + 3, text);
        }
    }
    let chains = |texts: &[Vec<u8>]| texts.iter().map(|text| fleet.key(text).chain().to_vec()).collect::<Vec<_>>();
    let (short, long) = (chains(&shorts), chains(&longs));
    let unheard: Vec<_> = (0..LONGS).map(|no| prompt(90_000 + no, LONG_BLOCKS)).collect();
    let shared_only = chains(&unheard);
    let cold: Vec<_> = long.iter().map(|chain| chain[SHARED_BLOCKS..].to_vec()).collect();

    let mut rows = vec![
        looked_up("lookup, 128 blocks, 240 holders", 5_000, &fleet, &short),
        looked_up("lookup, 1,250 blocks, full hit", 10_000, &fleet, &long),
        looked_up("lookup, 1,250 blocks, only the shared prefix known", 5_000, &fleet, &shared_only),
        looked_up("lookup, 1,125 blocks, nothing known", 1_000, &fleet, &cold),
        routed("hash + lookup + policy, 128 blocks (8 kB)", &fleet, &shorts),
        routed("hash + lookup + policy, 1,250 blocks (80 kB)", &fleet, &longs),
    ];
    rows.push(beside_a_writer(&mut fleet, &long));
    rows
}

fn looked_up(name: &'static str, p50_ns: u64, fleet: &Fleet, chains: &[Vec<BlockHash>]) -> Row {
    measure(name, Budget::P50(p50_ns), CALLS, |n| {
        fleet.plugin.reading().lookup(&fleet.keyspace, &chains[n * 31 % chains.len()])
    })
}

fn routed(name: &'static str, fleet: &Fleet, prompts: &[Vec<u8>]) -> Row {
    measure(name, Budget::P99(50_000), CALLS, |n| {
        let key = fleet.key(&prompts[n * 31 % prompts.len()]);
        fleet.plugin.route(&key, &Hints::default()).expect("all workers are up").predicted_tokens
    })
}

fn beside_a_writer(fleet: &mut Fleet, chains: &[Vec<BlockHash>]) -> Row {
    let (plugin, keyspace) = (fleet.plugin.clone(), fleet.keyspace.clone());
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let texts: Vec<_> = (0..64).map(|no| prompt(500_000 + no, SHARED_BLOCKS + 64)).collect();
            for no in 0usize.. {
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
                fleet.place(no, &texts[no % texts.len()]);
            }
        });
        let name = "lookup, 1,250 blocks, beside a full-speed writer";
        let row = measure(name, Budget::P50(10_000), CALLS * 5, |n| {
            plugin.reading().lookup(&keyspace, &chains[n * 31 % chains.len()])
        });
        is_done.store(true, Ordering::Relaxed);
        row
    })
}
