//! What an opener is called with, and the names of files.

#[cfg(feature = "redb")]
use std::path::{Path, PathBuf};

use smol_str::SmolStr;

#[cfg(feature = "redb")]
use super::PoolError;
#[cfg(feature = "redb")]
use crate::DataStore;
#[cfg(feature = "redb")]
use crate::durable::DurableOptions;

/// The most bytes of a name, so that its file has a name that every file system accepts.
const LONGEST_NAME: usize = 100;

/// A document that is about to be opened: what the opener of a pool is called with.
#[derive(Debug)]
pub struct Opening<'a> {
    pub(super) name: &'a SmolStr,
    pub(super) only_existing: bool,
}

impl Opening<'_> {
    /// Returns the name of the document.
    pub fn name(&self) -> &str {
        self.name
    }

    /// Whether the document must exist already: [`get_existing`](super::Documents::get_existing).
    pub fn only_existing(&self) -> bool {
        self.only_existing
    }

    /// Opens the file `NAME.doclock` in a folder, with options. It is created if it does not exist,
    /// unless the request or the options allow only an existing one.
    ///
    /// Blocks until the document is loaded.
    ///
    /// # Errors
    ///
    /// [`PoolError::Name`] for a name that is [no name of a file](super#names), and
    /// [`PoolError::Open`].
    #[cfg(feature = "redb")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
    pub fn open_in(
        &self,
        folder: impl AsRef<Path>,
        options: DurableOptions,
    ) -> Result<DataStore, PoolError> {
        let path = file_in(folder.as_ref(), self.name)?;
        let options = match self.only_existing {
            true => options.only_existing(),
            false => options,
        };
        Ok(DataStore::open_with(path, options)?)
    }
}

/// Returns the path of the file of a document.
#[cfg(feature = "redb")]
pub(super) fn file_in(folder: &Path, name: &str) -> Result<PathBuf, PoolError> {
    match check_file_name(name) {
        None => Ok(folder.join(format!("{name}.doclock"))),
        Some(reason) => Err(PoolError::Name {
            name: name.to_owned(),
            reason,
        }),
    }
}

/// Returns the rule for names of files that a name breaks.
pub(super) fn check_file_name(name: &str) -> Option<&'static str> {
    let is_letter_or_digit = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9');
    let is_allowed = |byte: &u8| is_letter_or_digit(byte) || matches!(byte, b'-' | b'_');
    match name.as_bytes() {
        [] => Some("it is empty"),
        bytes if bytes.len() > LONGEST_NAME => Some("it is longer than 100 bytes"),
        bytes if !bytes.iter().all(is_allowed) => {
            Some("it has other characters than a-z, 0-9, - and _")
        }
        [first, ..] if !is_letter_or_digit(first) => {
            Some("it does not begin with a letter or a digit")
        }
        _ => None,
    }
}
