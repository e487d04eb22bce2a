//! Names: gateways, lives, workers, incarnations, and the small local numbers that stand for them.
//!
//! Not here: stamps (`stamp`), block and chain identity (`hash`). Every text is bounded by
//! [`NAME_BYTES_MAX`] and printable, so it can go into logs and metrics as it is.

use std::fmt;
use std::sync::Arc;

use crate::limits::NAME_BYTES_MAX;

/// Why a text is not a name. Nothing was changed; the caller reports it to whoever supplied the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The text is empty.
    Empty,
    /// The text has more than [`NAME_BYTES_MAX`] bytes.
    TooLong {
        /// How many bytes it has.
        bytes: usize,
    },
    /// The text holds a control character or white space at this byte.
    Unprintable {
        /// Byte offset of the character.
        at: usize,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "a name must not be empty"),
            Self::TooLong { bytes } => write!(f, "a name has at most {NAME_BYTES_MAX} bytes, this one has {bytes}"),
            Self::Unprintable { at } => {
                write!(f, "a name has no white space or control characters, found one at byte {at}")
            }
        }
    }
}

impl std::error::Error for NameError {}

/// The text, shared if it is a good name: decoding a table of names copies none of them.
fn shared(text: &Arc<str>) -> Result<Arc<str>, NameError> {
    check(text).map(|()| Arc::clone(text))
}

fn checked(text: &str) -> Result<Arc<str>, NameError> {
    check(text).map(|()| Arc::from(text))
}

fn check(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong { bytes: text.len() });
    }
    if let Some((at, _)) = text.char_indices().find(|(_, c)| c.is_control() || c.is_whitespace()) {
        return Err(NameError::Unprintable { at });
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// A checked name.
            ///
            /// # Errors
            /// [`NameError`] when the text is empty, too long or unprintable.
            pub fn new(text: &str) -> Result<Self, NameError> {
                checked(text).map(Self)
            }

            /// A checked name that shares the text.
            ///
            /// # Errors
            /// As for [`Self::new`].
            pub fn shared(text: &Arc<str>) -> Result<Self, NameError> {
                shared(text).map(Self)
            }

            /// The text itself.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

name! {
    /// A gateway's configured name. Survives restarts; a [`LifeId`] does not.
    GatewayName
}
name! {
    /// The model a keyspace speaks about.
    ModelName
}

/// One start of one gateway: a random 128-bit id, new at every start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LifeId(pub u128);

impl fmt::Display for LifeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for LifeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", (self.0 >> 96) as u32)
    }
}

/// One inference engine rank with a KV cache: its given id (or canonical URL) and data-parallel rank.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId {
    name: Arc<str>,
    rank: u16,
}

impl WorkerId {
    /// The worker `name`, data-parallel rank `rank` (0 when the engine has only one).
    ///
    /// # Errors
    /// [`NameError`] when the text is empty, too long or unprintable.
    pub fn new(name: &str, rank: u16) -> Result<Self, NameError> {
        Ok(Self { name: checked(name)?, rank })
    }

    /// As [`Self::new`], sharing the text.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn shared(name: &Arc<str>, rank: u16) -> Result<Self, NameError> {
        Ok(Self { name: shared(name)?, rank })
    }

    /// Another data-parallel rank of the same engine.
    #[must_use]
    pub fn of_rank(&self, rank: u16) -> Self {
        Self { name: Arc::clone(&self.name), rank }
    }

    /// The id or canonical URL, without the rank.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The data-parallel rank.
    #[must_use]
    pub const fn rank(&self) -> u16 {
        self.rank
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rank == 0 { f.write_str(&self.name) } else { write!(f, "{}#{}", self.name, self.rank) }
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What tells two lives of an engine apart (boot id, process start time…). Compared for equality only;
/// its order is used for nothing but making two observers who mint the same counter agree.
/// The empty token marks a removed worker (ruling R5).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(Arc<str>);

impl Token {
    /// The token of a removed worker.
    #[must_use]
    pub fn removed() -> Self {
        Self(Arc::from(""))
    }

    /// A live engine's token.
    ///
    /// # Errors
    /// [`NameError`] when the text is empty, too long or unprintable.
    pub fn new(text: &str) -> Result<Self, NameError> {
        checked(text).map(Self)
    }

    /// As [`Self::new`], sharing the text.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn shared(text: &Arc<str>) -> Result<Self, NameError> {
        shared(text).map(Self)
    }

    /// The text; empty for a removed worker.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "removed" } else { &self.0 })
    }
}

/// One life of a worker's cache. The larger counter wins; equal counters: the larger token (P12).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation {
    /// How often somebody saw the token change.
    pub counter: u64,
    /// The engine's own mark.
    pub token: Token,
}

impl Incarnation {
    /// The incarnation of a worker nobody has probed yet: below every other.
    #[must_use]
    pub fn unknown() -> Self {
        Self { counter: 0, token: Token::removed() }
    }

    /// The incarnation that follows when `token` was seen in place of this one's.
    #[must_use]
    pub fn next(&self, token: Token) -> Self {
        Self { counter: self.counter.saturating_add(1), token }
    }

    /// Whether the worker was removed: somebody raised the counter with the empty token.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.counter > 0 && self.token.as_str().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_printable() {
        assert_eq!(GatewayName::new(""), Err(NameError::Empty));
        assert_eq!(GatewayName::new("a b"), Err(NameError::Unprintable { at: 1 }));
        assert_eq!(GatewayName::new("a\n"), Err(NameError::Unprintable { at: 1 }));
        assert_eq!(WorkerId::new(&"x".repeat(257), 0), Err(NameError::TooLong { bytes: 257 }));
        assert!(WorkerId::new("http://10.0.0.7:8000", 3).is_ok());
    }

    #[test]
    fn a_token_seen_by_two_observers_mints_one_incarnation() {
        let old = Incarnation::unknown();
        let token = Token::new("1764400000.5").expect("a valid token");
        assert_eq!(old.next(token.clone()), old.next(token));
        assert!(old.next(Token::removed()).is_removed());
        assert!(!old.is_removed());
    }
}
