//! Standard output, standard error, and files that are written whole.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use crate::error::ToolError;

/// Prints a text. A reader that has closed the pipe needs no more, which is no error.
pub(crate) fn print(text: &str) -> Result<(), ToolError> {
    let mut output = io::stdout().lock();
    let written = output.write_all(text.as_bytes());
    match written.and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(ToolError::Output(error)),
        _ => Ok(()),
    }
}

/// Prints one JSON document.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), ToolError> {
    let json = serde_json::to_string_pretty(value);
    let json = json.map_err(|error| ToolError::Output(error.into()))?;
    print(&(json + "\n"))
}

/// Prints one line to standard error. If it cannot be written, the exit code reports the error.
pub(crate) fn complain(reason: impl fmt::Display) {
    let line = format!("doclock: {reason}").replace(char::is_control, " ");
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes a file whole: a file at the path is replaced when the new one is complete.
pub(crate) fn write_file(path: &Path, contents: &[u8]) -> Result<(), ToolError> {
    let Some(name) = path.file_name() else {
        return Err(ToolError::input(path, "is no name of a file"));
    };
    if path.is_dir() {
        return Err(ToolError::input(path, "is a folder, not a file"));
    }
    let mut new = name.to_owned();
    new.push(format!(".new-{}", std::process::id()));
    let new = path.with_file_name(new);
    let written = write_new(&new, contents).and_then(|()| fs::rename(&new, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&new);
        ToolError::io(path)(error)
    })
}

/// Writes one JSON document to a file, whole.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), ToolError> {
    let json = serde_json::to_vec(value);
    write_file(
        path,
        &json.map_err(|error| ToolError::io(path)(error.into()))?,
    )
}

fn write_new(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(contents)?;
    file.sync_all()
}
