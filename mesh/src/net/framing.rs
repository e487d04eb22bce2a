//! What goes over a stream: one class byte, then frames of a little-endian u32 length and that many bytes. The control
//! stream starts with a hello, which proves to each side that the other has accepted it.
//!
//! Not here: what frames mean (`node`). Upholds I9: a length is checked before anything is allocated for it.

use std::fmt;
use std::net::SocketAddr;

use bytes::Bytes;
use covey_crdt::id::LifeId;
use quinn::{ConnectionError, ReadError, ReadExactError, RecvStream, WriteError};

use crate::limits::FRAME_BYTES_MAX;
use crate::output::Class;

/// Bytes of the largest hello.
const HELLO_BYTES_MAX: u32 = 128;
const _: () = assert!(FRAME_BYTES_MAX <= u32::MAX as usize);
const HELLO_MAGIC: &[u8; 6] = b"covey\x01";

/// Why a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameError {
    /// A length beyond the bound. Fault: the peer's. Close the link.
    TooLong {
        /// The length it gave.
        bytes: u32,
    },
    /// The connection ended. Nobody's fault.
    Ended,
    /// The stream ended within a frame, or was reset or refused, while the connection goes on: what it carried is lost
    /// unless the link is made anew. Fault: the peer's. Close the link.
    Cut,
    /// The sender ended the stream between two frames, as one does that leaves.
    Finished,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => write!(f, "a frame of {bytes} bytes, more than is allowed"),
            Self::Ended => write!(f, "the connection ended"),
            Self::Cut => write!(f, "a stream that ended within a frame, or was reset or refused"),
            Self::Finished => write!(f, "the stream ended"),
        }
    }
}

impl From<ReadExactError> for FrameError {
    fn from(error: ReadExactError) -> Self {
        match error {
            ReadExactError::ReadError(ReadError::ConnectionLost(_)) => Self::Ended,
            ReadExactError::ReadError(_) | ReadExactError::FinishedEarly(_) => Self::Cut,
        }
    }
}

impl From<WriteError> for FrameError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::ConnectionLost(_) => Self::Ended,
            WriteError::Stopped(_) | WriteError::ClosedStream | WriteError::ZeroRttRejected => Self::Cut,
        }
    }
}

impl From<ConnectionError> for FrameError {
    fn from(_: ConnectionError) -> Self {
        Self::Ended
    }
}

/// The byte a class's stream starts with.
pub(super) const fn class_byte(class: Class) -> u8 {
    match class {
        Class::Push => 0,
        Class::Control => 1,
        Class::Repair => 2,
    }
}

/// The class whose stream starts with a byte; `None` for one that no build sends.
pub(super) const fn class_of(byte: u8) -> Option<Class> {
    match byte {
        0 => Some(Class::Push),
        1 => Some(Class::Control),
        2 => Some(Class::Repair),
        _ => None,
    }
}

/// Reads the class byte of a stream.
pub(super) async fn read_class(stream: &mut RecvStream) -> Result<Option<Class>, FrameError> {
    let mut byte = [0];
    stream.read_exact(&mut byte).await?;
    Ok(class_of(byte[0]))
}

/// Reads one of the node's frames.
pub(super) async fn read_frame(stream: &mut RecvStream) -> Result<Bytes, FrameError> {
    read_bounded(stream, FRAME_BYTES_MAX as u32).await
}

/// Reads one length and at most `bytes_max` bytes.
pub(super) async fn read_bounded(stream: &mut RecvStream, bytes_max: u32) -> Result<Bytes, FrameError> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length).await {
        Ok(()) => {}
        Err(ReadExactError::FinishedEarly(0)) => return Err(FrameError::Finished),
        Err(error) => return Err(error.into()),
    }
    let bytes = u32::from_le_bytes(length);
    if bytes > bytes_max {
        return Err(FrameError::TooLong { bytes });
    }
    let mut frame = vec![0; bytes as usize];
    stream.read_exact(&mut frame).await?;
    Ok(frame.into())
}

/// A frame's length prefix.
pub(super) fn prefix(frame: &[u8]) -> Bytes {
    let bytes = u32::try_from(frame.len()).expect("frames are bounded far below 4 GiB");
    Bytes::copy_from_slice(&bytes.to_le_bytes())
}

/// The first frame on the control stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// The sender's life, once more: it must be the certificate's.
    pub(super) life: LifeId,
    /// The dialling side's number for this connection (larger is newer); 0 from the side that was dialled.
    pub(super) dial: u64,
    /// Where the sender can be dialled.
    pub(super) advertised: SocketAddr,
}

impl Hello {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = HELLO_MAGIC.to_vec();
        bytes.extend_from_slice(&self.life.0.to_le_bytes());
        bytes.extend_from_slice(&self.dial.to_le_bytes());
        bytes.extend_from_slice(self.advertised.to_string().as_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(HELLO_MAGIC)?;
        let (life, rest) = rest.split_first_chunk::<16>()?;
        let (dial, address) = rest.split_first_chunk::<8>()?;
        Some(Self {
            life: LifeId(u128::from_le_bytes(*life)),
            dial: u64::from_le_bytes(*dial),
            advertised: std::str::from_utf8(address).ok()?.parse().ok()?,
        })
    }

    /// Reads a hello; the inner `None` is one that does not parse.
    pub(super) async fn read(stream: &mut RecvStream) -> Result<Option<Self>, FrameError> {
        Ok(Self::decode(&read_bounded(stream, HELLO_BYTES_MAX).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_its_byte() {
        for class in Class::ALL {
            assert_eq!(class_of(class_byte(class)), Some(class));
        }
        assert_eq!(class_of(3), None);
    }

    #[test]
    fn a_hello_round_trips_and_a_damaged_one_does_not_parse() {
        for advertised in ["10.1.2.3:7946", "[2001:db8::1]:65535"] {
            let hello = Hello { life: LifeId(5), dial: 9, advertised: advertised.parse().expect("an address") };
            let bytes = hello.encode();
            assert!(bytes.len() <= HELLO_BYTES_MAX as usize);
            assert_eq!(Hello::decode(&bytes), Some(hello));
            for cut in 0..bytes.len() - 5 {
                assert_eq!(Hello::decode(&bytes[..cut]), None, "cut at {cut}");
            }
        }
    }
}
