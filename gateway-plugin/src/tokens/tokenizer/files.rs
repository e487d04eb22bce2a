//! What Hugging Face ships beside a model, as far as prompts depend on it: `tokenizer.json`, the named special tokens and
//! chat templates of `tokenizer_config.json`, and templates in files of their own, which come before those.
//!
//! Not here: what is done with them. Upholds the bound on what is read: a file is refused by its size before it is read.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// Bytes of one file at most; the largest vocabularies are some 35 MB.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Special tokens that templates know by name.
const NAMED_TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// Why no tokenizer could be loaded. Fault: the operator's or the files'; nothing was started.
#[derive(Debug)]
pub enum LoadTokenizer {
    /// A file cannot be read.
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file is larger than any tokenizer's.
    TooLarge {
        /// Which.
        path: PathBuf,
        /// Its size in bytes.
        bytes: u64,
    },
    /// A file does not hold what its name says.
    Malformed {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A chat template does not compile.
    Template {
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
}

impl fmt::Display for LoadTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, error } => write!(
                f,
                "cannot read {}: {error}; give a tokenizer.json or the directory that holds it",
                path.display()
            ),
            Self::TooLarge { path, bytes } => {
                write!(f, "{} has {bytes} bytes, more than the {FILE_BYTES_MAX} of any tokenizer", path.display())
            }
            Self::Malformed { path, why } => {
                write!(f, "{} is not what a model ships under that name: {why}", path.display())
            }
            Self::Template { name, why } => {
                write!(
                    f,
                    "the chat template {name:?} does not compile: {why}; repair it, or take it out of the directory"
                )
            }
        }
    }
}

impl std::error::Error for LoadTokenizer {}

/// The files' content.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    /// `tokenizer.json`.
    pub(super) tokenizer: Vec<u8>,
    /// Where it was found.
    pub(super) path: PathBuf,
    /// Special tokens by the names that templates use.
    pub(super) named_tokens: Map<String, Value>,
    /// Chat templates by name; the only one is called `default`.
    pub(super) templates: Vec<(String, String)>,
}

impl Files {
    /// Reads a `tokenizer.json`, or a directory with one.
    pub(super) fn read(path: &Path) -> Result<Self, LoadTokenizer> {
        if !path.is_dir() {
            return Ok(Self { tokenizer: bytes(path)?, path: path.to_owned(), ..Self::default() });
        }
        let at = path.join("tokenizer.json");
        let mut files = Self { tokenizer: bytes(&at)?, path: at, ..Self::default() };
        let config = optional(&path.join("tokenizer_config.json"), json)?.unwrap_or_default();
        let map = optional(&path.join("special_tokens_map.json"), json)?.unwrap_or_default();
        for name in NAMED_TOKENS {
            let token = config.get(name).and_then(token_text).or_else(|| map.get(name).and_then(token_text));
            if let Some(token) = token {
                files.named_tokens.insert(name.to_owned(), Value::String(token));
            }
        }
        files.templates = templates(path, &config)?;
        Ok(files)
    }
}

/// A special token is written as its text, or as an object that has it.
fn token_text(token: &Value) -> Option<String> {
    token.as_str().or_else(|| token.get("content")?.as_str()).map(str::to_owned)
}

fn templates(dir: &Path, config: &Map<String, Value>) -> Result<Vec<(String, String)>, LoadTokenizer> {
    let mut found = match config.get("chat_template") {
        Some(Value::String(template)) => vec![("default".to_owned(), template.clone())],
        Some(Value::Array(named)) => named.iter().filter_map(named_template).collect(),
        _ => Vec::new(),
    };
    let legacy = optional(&dir.join("chat_template.json"), json)?;
    if let Some(template) = legacy.as_ref().and_then(|file| file.get("chat_template")?.as_str()) {
        found = vec![("default".to_owned(), template.to_owned())];
    }
    if let Some(template) = optional(&dir.join("chat_template.jinja"), text)? {
        found = vec![("default".to_owned(), template)];
        let more = dir.join("additional_chat_templates");
        let entries = std::fs::read_dir(&more).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths.iter().filter(|path| path.extension().is_some_and(|ending| ending == "jinja")) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            found.push((name, text(path)?));
        }
    }
    Ok(found)
}

fn named_template(entry: &Value) -> Option<(String, String)> {
    Some((entry.get("name")?.as_str()?.to_owned(), entry.get("template")?.as_str()?.to_owned()))
}

fn optional<T>(path: &Path, read: fn(&Path) -> Result<T, LoadTokenizer>) -> Result<Option<T>, LoadTokenizer> {
    if path.is_file() { read(path).map(Some) } else { Ok(None) }
}

fn bytes(path: &Path) -> Result<Vec<u8>, LoadTokenizer> {
    let cannot = |error| LoadTokenizer::Read { path: path.to_owned(), error };
    let bytes = std::fs::metadata(path).map_err(cannot)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(LoadTokenizer::TooLarge { path: path.to_owned(), bytes });
    }
    std::fs::read(path).map_err(cannot)
}

fn text(path: &Path) -> Result<String, LoadTokenizer> {
    let malformed = |why: String| LoadTokenizer::Malformed { path: path.to_owned(), why };
    String::from_utf8(bytes(path)?).map_err(|error| malformed(error.to_string()))
}

fn json(path: &Path) -> Result<Map<String, Value>, LoadTokenizer> {
    let malformed = |why: String| LoadTokenizer::Malformed { path: path.to_owned(), why };
    serde_json::from_slice(&bytes(path)?).map_err(|error| malformed(error.to_string()))
}
