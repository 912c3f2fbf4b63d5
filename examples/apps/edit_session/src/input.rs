//! Reads files, with readable errors.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The largest Markdown file: its document takes about a hundred times as much memory.
const MARKDOWN: u64 = 8 << 20;
/// The largest trace, packed and unpacked.
pub const TRACE: u64 = 64 << 20;
/// The most bytes that the texts of all editors may have.
pub const TEXTS: usize = 1 << 30;

/// Why the input is invalid.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(pub String);

impl BadInput {
    /// An error about a file.
    pub fn of(path: &Path, reason: impl fmt::Display) -> Self {
        Self(format!("{}: {reason}", path.display()))
    }
}

/// The whole file. It must not be empty or have more than `most` bytes.
pub fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, BadInput> {
    let unreadable = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => BadInput::of(path, "there is no such file"),
        _ => BadInput::of(path, error),
    };
    check_kind(path, &fs::metadata(path).map_err(unreadable)?)?;
    let file = File::open(path).map_err(unreadable)?;
    let bytes = read(file, most).map_err(unreadable)?;
    match bytes {
        Some(bytes) if bytes.is_empty() => Err(BadInput::of(path, "the file is empty")),
        Some(bytes) => Ok(bytes),
        None => {
            let most = most >> 20;
            Err(BadInput::of(path, format_args!("has more than {most} MiB")))
        }
    }
}

/// Refuses what is no regular file: opening a pipe would wait for a writer, and a device has no
/// end.
pub fn check_kind(path: &Path, metadata: &Metadata) -> Result<(), BadInput> {
    let kind = metadata.file_type();
    match (kind.is_dir(), kind.is_file()) {
        (true, _) => Err(BadInput::of(path, "is a folder, not a file")),
        (_, true) => Ok(()),
        _ => Err(BadInput::of(path, "is no regular file")),
    }
}

/// All bytes; `None` if there are more than `most`.
pub fn read(from: impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// The whole file as text.
pub fn text(path: &Path) -> Result<String, BadInput> {
    let text = String::from_utf8(bytes(path, MARKDOWN)?).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        BadInput::of(path, format_args!("is not UTF-8 from byte {byte} on"))
    })?;
    match text.trim().is_empty() {
        true => Err(BadInput::of(
            path,
            "there is nothing but blanks in the file",
        )),
        false => Ok(text),
    }
}
