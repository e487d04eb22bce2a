//! scratch
#[expect(clippy::print_stdout, reason = "scratch")]
fn main() {
    let a: Vec<u64> = std::env::args().skip(1).map(|x| x.parse().expect("n")).collect();
    let t = std::time::Instant::now();
    for s in a[0]..a[1] {
        let p = covey_sim::plan::Plan::from_seed(s);
        let t0 = std::time::Instant::now();
        let o = covey_sim::world::run(&p);
        if !o.violations.is_empty() || t0.elapsed().as_millis() > 1500 || a.len() > 2 {
            println!("seed {s} {:?} n={} ev={} ops={} conv={:?} {:?}", t0.elapsed(), p.nodes, o.events, o.ops, o.converged_ms, o.violations);
            if a.len() > 2 { println!("{p:#?} {:?}", o.marks); }
        }
    }
    println!("total {:?}", t.elapsed());
}
