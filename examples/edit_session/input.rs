//! Reading files, with reasons that a person can act on.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Why what was asked for cannot be done.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(pub String);

impl BadInput {
    /// Something that is wrong with a file.
    pub fn of(path: &Path, reason: impl fmt::Display) -> Self {
        Self(format!("{}: {reason}", path.display()))
    }
}

/// The whole file, which has to have something in it.
pub fn bytes(path: &Path) -> Result<Vec<u8>, BadInput> {
    if path.is_dir() {
        return Err(BadInput::of(path, "is a folder, not a file"));
    }
    let bytes = fs::read(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => BadInput::of(path, "there is no such file"),
        _ => BadInput::of(path, error),
    })?;
    match bytes.is_empty() {
        true => Err(BadInput::of(path, "the file is empty")),
        false => Ok(bytes),
    }
}

/// The whole file as text.
pub fn text(path: &Path) -> Result<String, BadInput> {
    let text = String::from_utf8(bytes(path)?).map_err(|error| {
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
