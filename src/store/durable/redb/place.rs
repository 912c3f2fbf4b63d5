//! Where a file is, and whether it is still there.
//!
//! A file that is removed or replaced while it is open goes on to take writes, which are gone when
//! it is closed. Programs that synchronize folders replace files so. One that is cut off loses what
//! is not written again. See "File overwrite by a rogue thread or process" and "Unlinking or
//! renaming a database file while in use" in SQLite's page "How To Corrupt An SQLite Database
//! File".

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf, absolute};

use doclock_common::opening::{FileIdentity, OpensFile};

use super::check_kind;
use crate::store::durable::{JournalError, JournalErrorKind, OpenError};

/// Looks for the file at a path.
pub(crate) fn find(path: &Path) -> Result<(), OpenError> {
    match fs::metadata(path) {
        Ok(found) => check_kind(&found),
        Err(error) if is_missing(&error) => Err(missing(path)),
        Err(error) => Err(error.into()),
    }
}

/// Why there is no file at a path.
pub(super) fn missing(path: &Path) -> OpenError {
    let target = target_of(path);
    let folder = folder_of(&target);
    match (folder.is_dir(), target == path) {
        (false, _) => OpenError::NoFolder {
            folder: folder.display().to_string(),
        },
        (true, true) => OpenError::Missing,
        (true, false) => OpenError::DanglingLink {
            target: target.display().to_string(),
        },
    }
}

/// Whether there is no file, or no folder of it.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The path to which a link leads, also if there is nothing; that of a file itself.
pub(super) fn target_of(path: &Path) -> PathBuf {
    /// As many as Linux follows. The links of a circle lead to no file.
    const LINKS: usize = 40;
    let mut target = path.to_path_buf();
    for _ in 0..LINKS {
        match fs::read_link(&target) {
            Ok(next) => target = folder_of(&target).join(next),
            Err(_) => break,
        }
    }
    target
}

/// The folder in which a file is.
pub(super) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Where an open file was found.
#[derive(Debug)]
pub(super) struct FilePlace {
    path: PathBuf,
    identity: FileIdentity,
}

impl FilePlace {
    pub(super) fn of(path: &Path, file: &File) -> io::Result<Self> {
        Ok(Self {
            // The working directory may change.
            path: absolute(path)?,
            identity: identity(&file.metadata()?),
        })
    }

    /// Notes that the thread is opening it, until the result is dropped.
    pub(super) fn opens(&self) -> OpensFile {
        OpensFile::note(self.identity)
    }

    /// Whether the thread is opening the file at a path: to wait for that would never end.
    pub(super) fn is_opening(path: &Path) -> io::Result<bool> {
        Ok(OpensFile::is_noted(identity(&fs::metadata(path)?)))
    }

    /// Looks whether the file is there and has this length. Takes microseconds, beside the sync of
    /// a write.
    pub(super) fn check(&self, len: u64) -> Result<(), JournalError> {
        let path = self.path.display();
        let moved = |what: &str| {
            let message = format!("{what}: {path}");
            Err(JournalError::new(JournalErrorKind::Moved, message))
        };
        match found(&self.path) {
            Err(error) if is_missing(&error) => moved("the file was removed"),
            Err(error) => Err(error.into()),
            Ok((_, identity)) if identity != self.identity => {
                moved("another file has replaced the file")
            }
            Ok((found, _)) if found < len => moved("the file was cut off"),
            Ok(_) => Ok(()),
        }
    }
}

/// The length and the identity of the file at a path.
///
/// It does not ask for the times of the file. Since version 6.13, Linux gives the next write after
/// such a question a time of its own ([multigrain timestamps]), and the sync then writes the inode,
/// too: a commit took 200 µs in place of 160.
///
/// [multigrain timestamps]: https://docs.kernel.org/filesystems/multigrain-ts.html
#[cfg(target_os = "linux")]
fn found(path: &Path) -> io::Result<(u64, FileIdentity)> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
    use rustix::io::Errno;

    match statx(
        CWD,
        path,
        AtFlags::empty(),
        StatxFlags::INO | StatxFlags::SIZE,
    ) {
        Ok(found) => {
            let device = makedev(found.stx_dev_major, found.stx_dev_minor);
            Ok((found.stx_size, Some((device, found.stx_ino))))
        }
        // Before version 4.11, or in a sandbox that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => with_times(path),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
use with_times as found;

fn with_times(path: &Path) -> io::Result<(u64, FileIdentity)> {
    let found = fs::metadata(path)?;
    Ok((found.len(), identity(&found)))
}

#[cfg(unix)]
#[expect(
    clippy::unnecessary_wraps,
    reason = "other systems have no such numbers"
)]
fn identity(found: &Metadata) -> FileIdentity {
    use std::os::unix::fs::MetadataExt;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> FileIdentity {
    None
}
