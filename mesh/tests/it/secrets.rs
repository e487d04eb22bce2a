//! Secrets an operator may get wrong: each a clear error.

use std::fs;
use std::path::PathBuf;

use covey_crdt::hash::HashKey;
use covey_mesh::net::{SecretError, StartError, load_secret, start};

use crate::support::{config, net};

struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn file(&self, content: &[u8], mode: u32) -> PathBuf {
        let path = self.0.path().join("secret");
        fs::write(&path, content).expect("writes");
        set_mode(&path, mode);
        path
    }
}

#[cfg(unix)]
fn set_mode(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("sets the mode");
}

#[cfg(not(unix))]
fn set_mode(_: &std::path::Path, _: u32) {}

#[test]
fn line_ends_do_not_make_another_secret() {
    let dir = Dir::new();
    let text = [b'a'; 44];
    for end in [&b""[..], b"\n", b"\r\n", b" \n\n"] {
        let path = dir.file(&[&text[..], end].concat(), 0o600);
        assert_eq!(*load_secret(&path).expect("loads"), text);
    }
    // A binary secret is taken as it is.
    let mut binary = [0xff; 32];
    binary[31] = b'\n';
    assert_eq!(*load_secret(&dir.file(&binary, 0o400)).expect("loads"), binary);
}

#[test]
fn empty_short_missing_and_oversized_secrets_say_what_to_do() {
    let dir = Dir::new();
    for (content, words) in [(&b""[..], "is empty"), (b" \n", "is empty"), (b"hunter2\n", "has 7 bytes")] {
        let error = load_secret(&dir.file(content, 0o600)).expect_err("must not load").to_string();
        assert!(error.contains(words) && error.contains("head -c 32 /dev/urandom | base64"), "{error}");
    }
    let error = load_secret(&dir.0.path().join("nowhere")).expect_err("must not load").to_string();
    assert!(error.contains("does not exist") && error.contains("head -c 32"), "{error}");
    let error = load_secret(&dir.file(&[b'x'; 5_000], 0o600)).expect_err("must not load");
    assert!(matches!(error, SecretError::TooLong { .. }));
    assert!(matches!(load_secret(dir.0.path()), Err(SecretError::Unreadable { .. } | SecretError::Exposed { .. })));
}

#[cfg(unix)]
#[test]
fn a_secret_that_others_can_read_is_refused() {
    let dir = Dir::new();
    for mode in [0o644, 0o664, 0o604, 0o620, 0o666] {
        let error = load_secret(&dir.file(&[b'a'; 44], mode)).expect_err("must not load").to_string();
        assert!(error.contains("chmod 600"), "{mode:o}: {error}");
    }
}

#[test]
fn a_short_secret_does_not_start_a_mesh() {
    let mut short = net(&[]);
    short.secret = std::sync::Arc::from(*b"too short");
    let (config, _seen) = config("a", &HashKey::ZERO, Some(short));
    assert!(matches!(start(config), Err(StartError::SecretTooShort { bytes: 9 })));
}
