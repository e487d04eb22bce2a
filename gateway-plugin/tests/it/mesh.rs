//! Gateway processes in one mesh, as `covey status` sees them.

use serde_json::Value;

use crate::fake::{FakeWorker, chat_json, until};
use crate::gateway::secret;
use crate::process::{Process, status};

fn start(worker: &FakeWorker, secret: &str, name: &str, seed: Option<&str>) -> Process {
    let mut flags =
        vec!["--mesh", "on", "--mesh-name", name, "--mesh-secret-file", secret, "--mesh-listen", "127.0.0.1:0"];
    flags.extend(seed.iter().flat_map(|seed| ["--mesh-seeds", *seed]));
    Process::start(worker, &flags)
}

fn udp(process: &Process) -> String {
    let rest = process.banner.split(" udp ").nth(1).unwrap_or_else(|| panic!("no udp address in {}", process.banner));
    rest.split(' ').next().expect("an address").to_owned()
}

fn verdict(process: &Process) -> (Option<i32>, Value) {
    let output = status(&process.admin, &["--json"]);
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn text(process: &Process) -> String {
    String::from_utf8_lossy(&status(&process.admin, &[]).stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn status_tells_a_gateway_that_left_from_one_that_died() {
    let secret = secret();
    let path = secret.path.to_str().expect("a path");
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let one = start(&worker, path, "one", None);
    let seed = udp(&one);
    let two = start(&worker, path, "two", Some(&seed));
    let three = start(&worker, path, "three", Some(&seed));
    for process in [&one, &two, &three] {
        until("the three are converged", || {
            let (code, report) = verdict(process);
            code == Some(0) && report["status"]["peers"].as_array().is_some_and(|peers| peers.len() == 2)
        })
        .await;
    }
    two.signal("TERM");
    let (code, log) = two.finish();
    assert_eq!(code, Some(0), "{log}");
    until("two has left, and nobody is missed", || {
        let (code, report) = verdict(&one);
        code == Some(0) && report["verdict"] == "converged"
    })
    .await;
    let lines = text(&one);
    assert!(lines.lines().any(|line| line.starts_with("two ") && line.contains(" left ")), "{lines}");
    assert!(lines.lines().any(|line| line.starts_with("three ") && line.contains(" clean ")), "{lines}");
    three.signal("KILL");
    until("three is missed", || verdict(&one).0 == Some(2)).await;
    let lines = text(&one);
    assert!(lines.contains("partitioned") && lines.contains("unreachable"), "{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_mesh_port_and_a_wildcard_are_named_with_their_flags() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let secret = secret();
    let path = secret.path.to_str().expect("a path");
    let base = ["gateway", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--model", "m"];
    let mesh = ["--worker", "w=http://127.0.0.1:1", "--mesh", "on", "--mesh-name", "a", "--mesh-secret-file", path];
    let run = |extra: &[&str]| {
        let output = crate::process::covey(&[&base[..], &mesh, extra].concat()).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = run(&["--mesh-listen", &address]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("--mesh-listen") && text.contains(&address) && text.contains("in use"), "{text}");
    let (code, text) = run(&["--mesh-advertise", "0.0.0.0:7080"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("--mesh-advertise"), "{text}");
}
