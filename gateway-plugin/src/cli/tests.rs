//! Each mistake an operator can make, by name: the message says what, where and what to do.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use clap::Parser;

use super::args::{Cli, Command};
use super::*;

fn parse(extra: &[&str]) -> Result<Config, String> {
    let base = ["covey", "gateway", "--worker", "w0=http://10.0.0.7:8000", "--model", "m"];
    parse_only(&[&base, extra].concat())
}

fn parse_only(args: &[&str]) -> Result<Config, String> {
    let cli = Cli::try_parse_from(args).map_err(|error| error.to_string())?;
    let Command::Gateway(args) = cli.command else { panic!("not a gateway command") };
    Config::parse(&args).map_err(|error| error.to_string())
}

fn refused(extra: &[&str], words: &[&str]) {
    let error = parse(extra).expect_err("must be refused");
    for word in words {
        assert!(error.contains(word), "{error:?} does not say {word:?}");
    }
}

struct Secret {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Secret {
    fn new(content: &[u8], mode: u32) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("secret");
        std::fs::write(&path, content).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
        Self { _dir: dir, path }
    }

    fn good() -> Self {
        Self::new(&[b'k'; 40], 0o600)
    }

    fn path(&self) -> &str {
        self.path.to_str().expect("a path")
    }
}

#[test]
fn defaults_are_a_gateway_alone() {
    let config = parse(&[]).expect("good");
    assert_eq!(
        (config.listen.to_string(), config.admin_listen.to_string()),
        ("127.0.0.1:8080".into(), "127.0.0.1:9080".into())
    );
    assert_eq!((config.block_bytes, config.max_body_bytes), (256, 64 << 20));
    assert!(config.mesh.net.is_none());
    assert_eq!(config.mesh.hash_key, covey_crdt::hash::HashKey::ZERO);
}

#[test]
fn block_size_zero_is_refused() {
    refused(&["--block-bytes", "0"], &["--block-bytes", "COVEY_BLOCK_BYTES", "256"]);
    refused(&["--block-bytes", "65537"], &["65536"]);
}

#[test]
fn what_names_a_session_is_said_or_left_out_and_sticky_has_the_usual_names() {
    let of = |flags: &[&str]| {
        let session = parse(flags).expect("good").session;
        (session.header.map(|name| name.to_string()), session.from_user)
    };
    assert_eq!(of(&[]), (None, false));
    assert_eq!(of(&["--session-header", "X-Chat"]), (Some("x-chat".to_owned()), false));
    assert_eq!(of(&["--session-from-user"]), (None, true));
    assert_eq!(of(&["--policy", "sticky"]), (Some("x-session-id".to_owned()), true));
    assert_eq!(of(&["--policy", "sticky", "--session-header", "x-chat"]), (Some("x-chat".to_owned()), false));
    refused(&["--session-header", "two words"], &["--session-header", "COVEY_SESSION_HEADER", "x-session-id"]);
}

#[test]
fn the_number_of_decisions_kept_has_a_bound() {
    assert_eq!(parse(&[]).expect("good").decisions, 4_096);
    assert_eq!(parse(&["--decisions", "0"]).expect("good").decisions, 0);
    refused(&["--decisions", "100001"], &["--decisions", "COVEY_DECISIONS", "100000"]);
}

#[test]
fn workers_are_checked_one_by_one_and_together() {
    refused(&["--worker", "w0=http://10.0.0.8:8000"], &["--worker", "two workers", "w0"]);
    refused(&["--worker", "w1=http://10.0.0.7:8000/"], &["w0", "w1", "one engine"]);
    for bad in [
        "ftp://h:1",
        "10.0.0.9:8000",
        "http://",
        "http://u:p@h:1",
        "http://h:1/?a=b",
        "http://0.0.0.0:1",
        "a b=http://h:1",
    ] {
        refused(&["--worker", bad], &["--worker (COVEY_WORKER)", bad]);
    }
    let error = parse_only(&["covey", "gateway", "--model", "m"]).expect_err("no worker");
    assert!(error.contains("--worker w0=http://"), "{error}");
    let error = parse_only(&["covey", "gateway", "--worker", "http://h:1"]).expect_err("no model");
    assert!(error.contains("--model NAME"), "{error}");
}

#[test]
fn a_worker_without_an_id_is_its_canonical_url() {
    let spec = WorkerSpec::parse("HTTP://Host.Example:80/base/").expect("good");
    assert_eq!(
        (spec.id.name(), spec.url.as_str(), spec.named),
        ("http://host.example/base", "http://host.example/base", false)
    );
    let spec = WorkerSpec::parse("gpu-3=http://localhost:8000").expect("good");
    assert_eq!((spec.id.name(), spec.named, spec.loopback), ("gpu-3", true, true));
}

#[test]
fn a_mesh_needs_a_name_and_a_secret() {
    let secret = Secret::good();
    refused(&["--mesh", "on", "--mesh-secret-file", secret.path()], &["--mesh-name", "unique"]);
    refused(&["--mesh", "on", "--mesh-name", "a"], &["--mesh-secret-file (COVEY_MESH_SECRET_FILE)"]);
    refused(
        &["--mesh", "on", "--mesh-name", "a b", "--mesh-secret-file", secret.path()],
        &["--mesh-name", "white space"],
    );
}

#[test]
fn an_empty_short_or_world_readable_secret_is_refused() {
    let with = |secret: &Secret, words: &[&str]| {
        refused(&["--mesh", "on", "--mesh-name", "a", "--mesh-secret-file", secret.path()], words);
    };
    with(&Secret::new(b"\n", 0o600), &["--mesh-secret-file", "empty", "urandom"]);
    with(&Secret::new(b"short", 0o600), &["--mesh-secret-file", "5 bytes", "32"]);
    with(&Secret::new(&[b'k'; 40], 0o644), &["--mesh-secret-file", "chmod 600"]);
    refused(&["--mesh", "on", "--mesh-name", "a", "--mesh-secret-file", "/nowhere/at/all"], &["does not exist"]);
}

#[test]
fn the_hash_key_comes_from_the_secret_or_a_file() {
    let secret = Secret::good();
    let base = ["--mesh", "on", "--mesh-name", "a", "--mesh-secret-file", secret.path()];
    let derived = parse(&base).expect("good").mesh.hash_key;
    assert_eq!(derived, covey_mesh::net::derive_hash_key(&[b'k'; 40]));
    let file = Secret::new(b"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n", 0o600);
    let given = parse(&[&base[..], &["--mesh-hash-key-file", file.path()]].concat()).expect("good").mesh.hash_key;
    assert_eq!(given, covey_crdt::hash::HashKey::new(std::array::from_fn(|i| i as u8)));
    for bad in [&b"xyz"[..], &[0; 32], b"", &[b'g'; 64]] {
        let file = Secret::new(bad, 0o600);
        refused(&[&base[..], &["--mesh-hash-key-file", file.path()]].concat(), &["--mesh-hash-key-file", "64 hex"]);
    }
}

#[test]
fn an_address_that_peers_cannot_dial_is_refused() {
    let secret = Secret::good();
    let base = ["--mesh", "on", "--mesh-name", "a", "--mesh-secret-file", secret.path()];
    let with = |extra: &[&str], words: &[&str]| refused(&[&base[..], extra].concat(), words);
    with(&["--mesh-advertise", "0.0.0.0:7080"], &["--mesh-advertise", "0.0.0.0:7080", "reach this host"]);
    with(&["--mesh-listen", "0.0.0.0:7080"], &["--mesh-listen", "--mesh-advertise"]);
    with(&["--mesh-listen", "[::]:7080"], &["--mesh-advertise"]);
    for bad in ["host", "host:0", "http://h:1", "::1", "[h]:1", "h:99999"] {
        with(&["--mesh-seeds", bad], &["--mesh-seeds", bad]);
    }
    let seeds = ["--mesh-seeds", "127.0.0.1:7080,localhost:1,[::1]:7"];
    let config = parse(&[&base[..], &seeds].concat()).expect("good");
    assert_eq!(config.mesh.net.expect("on").seeds.len(), 3);
}

#[test]
fn a_loopback_worker_without_an_id_is_refused_when_peers_are_elsewhere() {
    let secret = Secret::good();
    let base =
        ["covey", "gateway", "--model", "m", "--mesh", "on", "--mesh-name", "a", "--mesh-secret-file", secret.path()];
    let with = |extra: &[&str]| parse_only(&[&base[..], extra].concat()).map(|_| ());
    let error = with(&["--worker", "http://localhost:8000", "--mesh-seeds", "10.0.0.2:7080"]).expect_err("refused");
    assert!(error.contains("--worker ID=http://localhost:8000"), "{error}");
    assert!(with(&["--worker", "http://127.0.0.1:8000", "--mesh-listen", "10.0.0.1:7080"]).is_err());
    assert_eq!(with(&["--worker", "w=http://127.0.0.1:8000", "--mesh-seeds", "10.0.0.2:7080"]), Ok(()));
    assert_eq!(with(&["--worker", "http://127.0.0.1:8000", "--mesh-seeds", "127.0.0.2:7080"]), Ok(()));
}

#[test]
fn odd_values_are_refused_where_they_stand() {
    refused(&["--listen", "127.0.0.1:9080"], &["--listen", "--admin-listen", "different ports"]);
    refused(&["--listen", "nonsense"], &["--listen"]);
    refused(&["--policy", "fastest"], &["--policy", "least-load"]);
    refused(&["--worker-capacity-tokens", "0"], &["--worker-capacity-tokens", "at least 1"]);
    refused(&["--request-timeout", "0"], &["--request-timeout", "10m"]);
    refused(&["--max-body-bytes", "lots"], &["--max-body-bytes", "MiB"]);
    refused(&["--test-hooks", "--admin-listen", "10.0.0.1:9080"], &["--test-hooks", "10.0.0.1:9080", "loopback"]);
    refused(&["--log", "a=b=c"], &["--log (COVEY_LOG)"]);
    refused(&["--model", "a b"], &["--model", "white space"]);
    refused(&["--mesh", "perhaps"], &["--mesh", "on"]);
}

#[test]
fn every_flag_says_its_environment_variable_and_default() {
    use clap::CommandFactory;
    let mut command = Cli::command();
    let gateway = command.find_subcommand_mut("gateway").expect("there is one");
    for arg in gateway.get_arguments().filter(|arg| arg.get_id() != "help" && !arg.is_hide_set()) {
        let flag = arg.get_long().expect("every argument is a flag");
        let expected = format!("COVEY_{}", flag.to_uppercase().replace('-', "_"));
        assert_eq!(arg.get_env().and_then(|env| env.to_str()), Some(expected.as_str()), "--{flag}");
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let says = !arg.get_default_values().is_empty()
            || help.contains("Default")
            || help.contains("needed")
            || help.contains("Needed");
        assert!(says, "--{flag} does not say its default");
    }
}

#[test]
fn traces_want_a_collectors_address_a_share_and_a_build_that_has_them() {
    refused(&["--otlp-sample", "1.5"], &["--otlp-sample", "COVEY_OTLP_SAMPLE", "0 to 1"]);
    refused(&["--otlp-sample", "NaN"], &["--otlp-sample"]);
    refused(&["--otlp-endpoint", "collector:4318"], &["--otlp-endpoint", "http://"]);
    refused(&["--otlp-endpoint", "nonsense"], &["--otlp-endpoint", "nonsense", "http://127.0.0.1:4318"]);
    assert_eq!(parse(&[]).expect("it parses").traces, None);
    #[cfg(not(feature = "otel"))]
    refused(&["--otlp-endpoint", "http://h:4318"], &["COVEY_OTLP_ENDPOINT", "--features otel"]);
    #[cfg(feature = "otel")]
    for (given, url) in [("http://h:4318", "http://h:4318/v1/traces"), ("https://h/otlp/x", "https://h/otlp/x")] {
        let traces = parse(&["--otlp-endpoint", given, "--otlp-sample", "0.1"]).expect("it parses").traces;
        assert_eq!(traces.map(|traces| (traces.endpoint.to_string(), traces.sample)), Some((url.to_owned(), 0.1)));
    }
}
