//! Lines of a capture, plain or gzip, and why they cannot be used.
//!
//! Not here: what a line means.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

/// Bytes in one line at most.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Why a capture cannot be used.
#[derive(Debug)]
pub enum CaptureError {
    /// A file cannot be read.
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A line is not what a capture has.
    Line {
        /// In which file.
        path: PathBuf,
        /// Which, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// There is nothing in it.
    Empty {
        /// Which file.
        path: PathBuf,
    },
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, error } => write!(f, "{} cannot be read: {error}", path.display()),
            Self::Line { path, line, what } => write!(f, "{}, line {line}: {what}", path.display()),
            Self::Empty { path } => write!(
                f,
                "{} has no frame: a line is {{\"t\":…,\"frames_hex\":[topic,seq,payload]}} or {{\"op\":\"batch\",…}}",
                path.display()
            ),
        }
    }
}

impl std::error::Error for CaptureError {}

/// Hands every line that is not empty to `each`, with its number.
pub(super) fn for_lines(
    path: &Path,
    mut each: impl FnMut(usize, &str) -> Result<(), String>,
) -> Result<(), CaptureError> {
    let unreadable = |error: io::Error| CaptureError::Read { path: path.to_owned(), error };
    let mut reader = open(path).map_err(unreadable)?;
    let mut text = String::new();
    for line in 1.. {
        text.clear();
        let read = reader.by_ref().take(LINE_BYTES_MAX).read_line(&mut text).map_err(unreadable)?;
        if read == 0 {
            break;
        }
        let wrong = |what: String| CaptureError::Line { path: path.to_owned(), line, what };
        if read as u64 == LINE_BYTES_MAX {
            return Err(wrong(format!("longer than {LINE_BYTES_MAX} bytes")));
        }
        if !text.trim().is_empty() {
            each(line, text.trim()).map_err(wrong)?;
        }
    }
    Ok(())
}

/// A file, unpacked when it is gzip, whatever its name.
fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut file = BufReader::new(std::fs::File::open(path)?);
    let is_gzip = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(if is_gzip { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) })
}

pub(super) fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err("an odd number of hex digits".to_owned());
    }
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect::<Option<_>>().ok_or("no hex".to_owned())
}
