//! Reads files, with readable errors.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use crate::error::ToolError;

/// The largest Markdown or HTML file: its document takes about a hundred times as much memory.
pub(crate) const PAGE: u64 = 8 << 20;
/// The largest snapshot, and the largest trace, packed and unpacked.
pub(crate) const DATA: u64 = 256 << 20;
/// The largest script.
pub(crate) const SCRIPT: u64 = 64 << 20;
/// The largest timeline: a million requests are some 200 MB.
pub(crate) const TIMELINE: u64 = 1 << 30;

/// Refuses what is no regular file: opening a pipe would wait for a writer, and a device has no
/// end.
pub(crate) fn check_kind(path: &Path) -> Result<(), ToolError> {
    let metadata = fs::metadata(path).map_err(unreadable(path))?;
    match (metadata.is_dir(), metadata.is_file()) {
        (true, _) => Err(ToolError::input(path, "is a folder, not a file")),
        (_, true) => Ok(()),
        _ => Err(ToolError::input(path, "is no regular file")),
    }
}

/// The whole file, of at most so many bytes.
pub(crate) fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, ToolError> {
    check_kind(path)?;
    let file = File::open(path).map_err(unreadable(path))?;
    whole(path, file, most)
}

/// The whole standard input, of at most so many bytes.
pub(crate) fn standard(most: u64) -> Result<Vec<u8>, ToolError> {
    whole(Path::new("standard input"), io::stdin().lock(), most)
}

fn whole(path: &Path, from: impl Read, most: u64) -> Result<Vec<u8>, ToolError> {
    match limited(from, most).map_err(unreadable(path))? {
        Some(bytes) => Ok(bytes),
        None => {
            let most = most >> 20;
            Err(ToolError::input(
                path,
                format_args!("has more than {most} MiB"),
            ))
        }
    }
}

/// What follows the byte order mark, which some programs write at the beginning.
pub(crate) fn without_byte_order_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// The whole file as text.
pub(crate) fn text(path: &Path, most: u64) -> Result<String, ToolError> {
    String::from_utf8(bytes(path, most)?).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        ToolError::input(path, format_args!("is not UTF-8 from byte {byte} on"))
    })
}

/// All bytes; `None` if there are more than `most`.
pub(crate) fn limited(from: impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> ToolError {
    move |error| match error.kind() {
        ErrorKind::NotFound => ToolError::input(path, "there is no such file"),
        _ => ToolError::io(path)(error),
    }
}
