use crate::support::*;
use covey_crdt::hash::BlockHash;
use covey_crdt::id::*;
use covey_crdt::keyspace::*;
use covey_mesh::input::Local;
use covey_mesh::net::derive_hash_key;
use std::sync::Arc;
use std::time::{Duration, Instant};
fn cpu() -> f64 {
    let s = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<&str> = s.rsplit(')').next().unwrap().split_whitespace().collect();
    (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) / 100.0
}
#[test]
fn measure() {
    let n: usize = std::env::var("N").ok().and_then(|v| v.parse().ok()).unwrap_or(8);
    let a = gateway("g0", &[]);
    let mut all = vec![a];
    let seed = all[0].address();
    for i in 1..n {
        all.push(gateway(&format!("g{i}"), &[seed]));
    }
    let t = wait_for("linked", Duration::from_secs(30), || {
        all.iter().all(|g| g.linked().len() == n - 1 && g.mesh.metrics().members_live == (n - 1) as u64)
    });
    println!("all linked {t:?}");
    std::thread::sleep(Duration::from_secs(3));
    let (c, t) = (cpu(), Instant::now());
    let m = all[1].mesh.metrics();
    std::thread::sleep(Duration::from_secs(5));
    let m2 = all[1].mesh.metrics();
    println!(
        "idle cpu per gateway {:.4} cores; membership bytes/s out {}",
        (cpu() - c) / t.elapsed().as_secs_f64() / n as f64,
        (m2.membership_bytes_out - m.membership_bytes_out) / 5
    );
    let w = WorkerId::new("w1", 0).unwrap();
    let token = Token::new("t").unwrap();
    assert!(all[0].mesh.submit(Local::Probed {
        worker: w.clone(),
        started_at: Incarnation::unknown(),
        token: token.clone(),
        capacity_tokens: Some(1 << 22)
    }));
    std::thread::sleep(Duration::from_millis(500));
    let ks =
        Arc::new(Keyspace::new(ModelName::new("m").unwrap(), Unit::Bytes, 256, derive_hash_key(&SECRET).id()).unwrap());
    let rate: u64 = std::env::var("RATE").ok().and_then(|v| v.parse().ok()).unwrap_or(500);
    let (c, t) = (cpu(), Instant::now());
    let mut k = 0u64;
    while t.elapsed() < Duration::from_secs(5) {
        for g in &all {
            let base = 1_000_000 * (k % 200);
            let chain: Vec<BlockHash> = (base..base + 100 + k / 200 % 20).map(BlockHash).collect();
            let _ = g.mesh.submit(Local::Place {
                worker: w.clone(),
                keyspace: ks.clone(),
                incarnation: Incarnation::unknown().next(token.clone()),
                chain: chain.into(),
            });
            k += 1;
        }
        let due = Duration::from_secs_f64(k as f64 / rate as f64);
        if due > t.elapsed() {
            std::thread::sleep(due - t.elapsed());
        }
    }
    println!(
        "{k} placements, cpu {:.3} cores total, {:.1} us cpu per placement-apply",
        (cpu() - c) / t.elapsed().as_secs_f64(),
        (cpu() - c) * 1e6 / (k as f64 * n as f64)
    );
    std::thread::sleep(Duration::from_secs(1));
    for g in all.iter().take(3) {
        let m = g.mesh.metrics();
        println!(
            "prop {:?} rtt {:?} drop {:?} out {:?}",
            m.propagation_ms, m.quic_rtt_us, m.frames_dropped, m.frames_out
        );
    }
    let t = wait_for("agree", Duration::from_secs(10), || {
        let d = all[0].mesh.status().digest.clone();
        d.is_some() && all.iter().all(|g| g.mesh.status().digest == d)
    });
    println!("agree {t:?}");
}
