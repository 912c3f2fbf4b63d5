//! Why a command ends without its result, and the exit codes.

use std::io;
use std::path::{Path, PathBuf};

use doclock::durable::{OpenError, VersionError};

/// The end of a command that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    /// All is as it should be.
    Fine,
    /// It found a failure or a difference, which its output describes.
    Difference,
}

impl CommandOutcome {
    pub(crate) fn of(is_fine: bool) -> Self {
        match is_fine {
            true => Self::Fine,
            false => Self::Difference,
        }
    }
}

/// The exit codes and their meanings.
pub(crate) const EXIT_CODES: [(u8, &str); 6] = [
    (0, "success"),
    (
        1,
        "the command ran and found a failure or a difference: a transaction of the script failed, \
         the file does not verify, only a part was salvaged, the replayed text is another one, two \
         versions differ",
    ),
    (
        2,
        "bad usage or bad input: an unknown option, a missing file, a script that is no script, a \
         version that the file does not have",
    ),
    (3, "another program has the file open"),
    (4, "the file is damaged, or is no document of doclock"),
    (5, "reading or writing failed, or no program answers"),
];

/// The exit codes, for the help.
pub(crate) fn exit_codes() -> String {
    let lines = EXIT_CODES.map(|(code, meaning)| format!("\n  {code}  {meaning}"));
    format!("Exit codes:{}", lines.concat())
}

/// Why a command ended without its result. Each is one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    #[error("{0}; see doclock --help")]
    Usage(String),
    #[error("{}: {reason}", path.display())]
    Input { path: PathBuf, reason: String },
    #[error("{}: {}", path.display(), reason(source))]
    Open { path: PathBuf, source: OpenError },
    #[error("{}: {source}", path.display())]
    Version { path: PathBuf, source: VersionError },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: {reason}", path.display())]
    Store { path: PathBuf, reason: String },
    #[error("{address}: {reason}")]
    Server { address: String, reason: String },
    #[error("standard output: {0}")]
    Output(io::Error),
}

/// The text of an error, with the way out if there is one.
fn reason(error: &OpenError) -> String {
    match error {
        OpenError::Locked => "another program has the file open, and its lock excludes this \
            command: a program lets others read its file with DurableOptions::allow_readers"
            .to_owned(),
        OpenError::Missing => "there is no such file".to_owned(),
        error => error.to_string(),
    }
}

impl ToolError {
    pub(crate) fn input(path: &Path, reason: impl ToString) -> Self {
        Self::Input {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// For `map_err`.
    pub(crate) fn open(path: &Path) -> impl Fn(OpenError) -> Self {
        move |source| Self::Open {
            path: path.to_owned(),
            source,
        }
    }

    /// For `map_err`.
    pub(crate) fn version(path: &Path) -> impl Fn(VersionError) -> Self {
        move |source| Self::Version {
            path: path.to_owned(),
            source,
        }
    }

    /// For `map_err`.
    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Input { .. } => 2,
            Self::Open { source, .. } => match source {
                OpenError::Exists
                | OpenError::Missing
                | OpenError::NoFolder { .. }
                | OpenError::DanglingLink { .. } => 2,
                OpenError::Locked => 3,
                OpenError::NoPermission { .. } | OpenError::Journal(_) => 5,
                _ => 4,
            },
            Self::Version { source, .. } => match source {
                VersionError::Missing { .. } => 2,
                _ => 4,
            },
            Self::Io { .. } | Self::Store { .. } | Self::Server { .. } | Self::Output(_) => 5,
        }
    }
}
