//! JSON lines as traces come: one value a line, plain or compressed with Zstandard.
//!
//! Not here: what the values mean (`eval`, `workload`).

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde::de::DeserializeOwned;

/// What files compressed with Zstandard begin with.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Reads every line.
///
/// # Errors
/// When the file cannot be read or a line is no `T`; names the file, the line and what is wrong with it.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, String> {
    let text = text(path).map_err(|why| unreadable(path, &why))?;
    let lines = text.lines().zip(1..);
    lines.map(|(line, nth)| value(line).map_err(|why| unreadable(path, &format!("line {nth}: {why}")))).collect()
}

/// The words for a file that is no trace.
pub(crate) fn unreadable(path: &Path, why: &dyn Display) -> String {
    format!("{} cannot be read as a trace: {why}", path.display())
}

fn text(path: &Path) -> io::Result<String> {
    let mut file = BufReader::new(File::open(path)?);
    let mut text = String::new();
    if file.fill_buf()?.starts_with(&ZSTD_MAGIC) {
        zstd::Decoder::with_buffer(file)?.read_to_string(&mut text)?;
    } else {
        file.read_to_string(&mut text)?;
    }
    Ok(text)
}

/// A line's value. What is wrong comes with its column alone: to the parser every line is line 1.
fn value<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|why| {
        let words = why.to_string();
        let what = words.rsplit_once(" at line ").map_or(words.as_str(), |(what, _)| what);
        format!("{what} (column {})", why.column())
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes).expect("written");
        file
    }

    #[test]
    fn plain_and_compressed_files_read_alike() {
        let text = b"[1]\r\n[2, 3]\n";
        let packed = zstd::encode_all(&text[..], 3).expect("packed");
        for bytes in [&text[..], &packed] {
            let read: Vec<Vec<u8>> = read(written(bytes).path()).expect("lines");
            assert_eq!(read, [vec![1], vec![2, 3]]);
        }
    }

    #[test]
    fn a_bad_line_is_named_by_its_own_number_and_by_no_other() {
        let file = written(b"[1]\n[2]\n[3,\n");
        let why = read::<Vec<u8>>(file.path()).expect_err("cut off");
        assert!(why.contains(&format!("{} cannot be read as a trace: line 3: ", file.path().display())), "{why}");
        assert!(why.contains("(column 3)") && !why.contains("line 1"), "{why}");
        let why = read::<Vec<u8>>(Path::new("/no/such/trace")).expect_err("no file");
        assert!(why.contains("/no/such/trace"), "{why}");
    }

    #[test]
    fn half_a_compressed_file_is_an_error() {
        let packed = zstd::encode_all(&b"[1]\n".repeat(1_000)[..], 3).expect("packed");
        assert!(read::<Vec<u8>>(written(&packed[..packed.len() / 2]).path()).is_err());
    }
}
