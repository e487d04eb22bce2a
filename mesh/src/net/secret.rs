//! The mesh's shared secret: reading it from a file, and the hash key derived from it.
//!
//! Not here: the mesh identity made from it (`identity`). There is no stretching, so short secrets are refused.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use covey_crdt::hash::HashKey;
use ring::hkdf::{HKDF_SHA256, Salt};

/// Fewest bytes of a secret.
pub const SECRET_BYTES_MIN: usize = 32;
/// Most bytes of a secret file: more is some other file.
pub const SECRET_BYTES_MAX: usize = 4_096;

const MAKE_ONE: &str = "make one with: (umask 077; head -c 32 /dev/urandom | base64 > FILE)";

/// Why a secret file is not usable. Fault: the operator's; nothing was started.
#[derive(Debug)]
pub enum SecretError {
    /// The file cannot be read.
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The file holds nothing but white space.
    Empty {
        /// Which file.
        path: PathBuf,
    },
    /// The secret is shorter than [`SECRET_BYTES_MIN`].
    TooShort {
        /// Which file.
        path: PathBuf,
        /// Bytes it has.
        bytes: usize,
    },
    /// The file is larger than [`SECRET_BYTES_MAX`].
    TooLong {
        /// Which file.
        path: PathBuf,
    },
    /// Everybody may read the file, or its group may write it.
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, error } if error.kind() == io::ErrorKind::NotFound => {
                write!(f, "secret file {} does not exist; {MAKE_ONE}, and give every gateway the same", path.display())
            }
            Self::Unreadable { path, error } => write!(f, "cannot read secret file {}: {error}", path.display()),
            Self::Empty { path } => write!(f, "secret file {} is empty; {MAKE_ONE}", path.display()),
            Self::TooShort { path, bytes } => write!(
                f,
                "the secret in {} has {bytes} bytes, it needs at least {SECRET_BYTES_MIN} random ones; {MAKE_ONE}",
                path.display()
            ),
            Self::TooLong { path } => write!(
                f,
                "{} has more than {SECRET_BYTES_MAX} bytes: is it the right file? A secret is one line; {MAKE_ONE}",
                path.display()
            ),
            Self::Exposed { path, mode } => write!(
                f,
                "secret file {0} is open to others (mode {mode:03o}: everybody may read it, or its group write it); run: chmod 600 {0}",
                path.display()
            ),
        }
    }
}

impl std::error::Error for SecretError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } => Some(error),
            Self::Empty { .. } | Self::TooShort { .. } | Self::TooLong { .. } | Self::Exposed { .. } => None,
        }
    }
}

/// Reads a secret file: at least [`SECRET_BYTES_MIN`] bytes that only the file's owner can read. Line ends after a
/// text secret do not count, so that editors may add them.
///
/// # Errors
/// [`SecretError`], which says what to do.
pub fn load_secret(path: &Path) -> Result<Arc<[u8]>, SecretError> {
    let unreadable = |error| SecretError::Unreadable { path: path.to_owned(), error };
    let file = File::open(path).map_err(unreadable)?;
    check_exposed(path, &file)?;
    let mut bytes = Vec::new();
    file.take(SECRET_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > SECRET_BYTES_MAX {
        return Err(SecretError::TooLong { path: path.to_owned() });
    }
    let secret = std::str::from_utf8(&bytes).map_or(&bytes[..], |text| text.trim_ascii().as_bytes());
    match secret.len() {
        0 => Err(SecretError::Empty { path: path.to_owned() }),
        n if n < SECRET_BYTES_MIN => Err(SecretError::TooShort { path: path.to_owned(), bytes: n }),
        _ => Ok(Arc::from(secret)),
    }
}

#[cfg(unix)]
fn check_exposed(path: &Path, file: &File) -> Result<(), SecretError> {
    use std::os::unix::fs::PermissionsExt;
    let meta = file.metadata().map_err(|error| SecretError::Unreadable { path: path.to_owned(), error })?;
    let mode = meta.permissions().mode() & 0o777;
    // Group-readable is let through: orchestrators mount secrets owned by a service's group (0440).
    if mode & 0o027 == 0 { Ok(()) } else { Err(SecretError::Exposed { path: path.to_owned(), mode }) }
}

#[cfg(not(unix))]
fn check_exposed(_: &Path, _: &File) -> Result<(), SecretError> {
    Ok(())
}

/// The mesh's key for block hashes when no key file is given. Equal secrets give equal keys; the key tells nothing of
/// the secret.
#[must_use]
pub fn derive_hash_key(secret: &[u8]) -> HashKey {
    HashKey::new(derive(secret, b"covey/hash-key/v1", &[]))
}

/// 32 bytes derived from the secret for one purpose (HKDF-SHA256; the purpose is the salt).
pub(super) fn derive(secret: &[u8], purpose: &[u8], info: &[&[u8]]) -> [u8; 32] {
    let mut out = [0; 32];
    Salt::new(HKDF_SHA256, purpose)
        .extract(secret)
        .expand(info, HKDF_SHA256)
        .and_then(|okm| okm.fill(&mut out))
        .expect("32 bytes are within what HKDF-SHA256 can give");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_secret_gives_one_key_per_purpose() {
        let secret = [7; 32];
        assert_eq!(derive_hash_key(&secret), derive_hash_key(&secret));
        assert_ne!(derive_hash_key(&secret), derive_hash_key(&[8; 32]));
        assert_ne!(derive(&secret, b"a", &[]), derive(&secret, b"b", &[]));
        assert_ne!(derive(&secret, b"a", &[b"x"]), derive(&secret, b"a", &[b"y"]));
    }

    // RFC 5869 gives HKDF-SHA256 vectors; this one was computed with another implementation (Python's hmac), so the
    // derivation can never change by accident: it would split a mesh during a rollout.
    #[test]
    fn the_hash_key_is_pinned() {
        assert_eq!(derive(&[0x0b; 32], b"covey/hash-key/v1", &[]), PINNED);
    }

    const PINNED: [u8; 32] = [
        0xd7, 0x81, 0xd1, 0x26, 0x0b, 0x6c, 0x0c, 0xe9, 0x7b, 0xb5, 0x06, 0x2f, 0x54, 0xf0, 0x4f, 0xc3, 0xdb, 0x51,
        0x39, 0xb8, 0x4e, 0x6a, 0x82, 0xe3, 0xbc, 0x9e, 0x39, 0x61, 0x05, 0x3e, 0x2b, 0x37,
    ];
}
