//! The built tool, in temporary folders.

mod durable;
mod generate;
mod hostile;
mod page;
mod replay;
mod run;
mod timeline;
mod watch;

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A folder in which the tool runs.
struct Folder(TempDir);

/// What a run of the tool has left.
#[derive(Debug)]
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.0.path().join(name.as_ref())
    }

    fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_doclock"));
        command.args(words).current_dir(self.0.path());
        command
    }

    fn doclock(&self, words: &[&str]) -> Ended {
        Ended::of(self.command(words).output().unwrap())
    }
}

impl Ended {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("the tool ends by itself"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Checks the exit code of a command that did its work.
    #[track_caller]
    fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.stderr, "", "{self:?}");
        self
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Checks the exit code of a command that did nothing, and returns its one line.
    #[track_caller]
    fn refused_with(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        let line = self.stderr.strip_suffix('\n').unwrap();
        let reason = line.strip_prefix("doclock: ").unwrap();
        assert!(!reason.contains('\n'), "{self:?}");
        reason.to_owned()
    }
}

/// A script that creates a paragraph as the root.
const CREATE: &str = r#"[
    {"type": "create", "payload": {"node": {"type": "paragraph", "id": "p", "text": "Hello world"}}},
    {"type": "setRoot", "payload": {"nodeId": "p"}}
]"#;

/// A script that inserts into the paragraph.
const INSERT: &str =
    r#"{"type": "insertText", "payload": {"nodeId": "p", "offset": 5, "text": " big"}}"#;
