//! Whether a file is still at its path.
//!
//! A file that is removed or replaced while it is open goes on to take writes, which are gone when
//! it is closed. Programs that synchronize folders replace files so. One that is cut off loses what
//! is not written again. See "File overwrite by a rogue thread or process" and "Unlinking or
//! renaming a database file while in use" in SQLite's page "How To Corrupt An SQLite Database
//! File".

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf, absolute};
use std::time::{Duration, Instant};

use crate::store::durable::{JournalError, JournalErrorKind};

/// Where an open file was found.
#[derive(Debug)]
pub(super) struct FilePlace {
    path: PathBuf,
    identity: Identity,
    checked: Instant,
}

/// The device and the inode of a file, where there are such numbers.
type Identity = Option<(u64, u64)>;

/// After so long a write looks again.
const OFTEN: Duration = Duration::from_secs(2);

impl FilePlace {
    pub(super) fn of(path: &Path, file: &File) -> io::Result<Self> {
        Ok(Self {
            // The working directory may change.
            path: absolute(path)?,
            identity: identity(&file.metadata()?),
            checked: Instant::now(),
        })
    }

    /// Looks whether the file is there and has this length, if that is long ago or `at_once`.
    pub(super) fn check(&mut self, at_once: bool, len: u64) -> Result<(), JournalError> {
        if !at_once && self.checked.elapsed() < OFTEN {
            return Ok(());
        }
        self.checked = Instant::now();
        let path = self.path.display();
        let moved = |what: &str| {
            let message = format!("{what}: {path}");
            Err(JournalError::new(JournalErrorKind::Moved, message))
        };
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => moved("the file was removed"),
            Err(error) => Err(error.into()),
            Ok(found) if identity(&found) != self.identity => {
                moved("another file has replaced the file")
            }
            Ok(found) if found.len() < len => moved("the file was cut off"),
            Ok(_) => Ok(()),
        }
    }
}

#[cfg(unix)]
#[expect(
    clippy::unnecessary_wraps,
    reason = "other systems have no such numbers"
)]
fn identity(found: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {
    None
}
