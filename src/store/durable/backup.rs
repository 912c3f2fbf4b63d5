//! Copies of a store, each in a file of its own.

use std::path::Path;

use super::format::{CheckpointEntry, HEAD, StoredHead, entry, node_key, note_key};
use super::redb::create_with;
use super::replay::LoadedParts;
use super::{JournalError, JournalWrite, OpenError};
use crate::document::{Snapshot, View};
use crate::store::DataStore;

impl DataStore {
    /// Writes a complete copy of the store to a new file. Returns its version.
    pub(super) fn copy_to(&self, path: &Path) -> Result<u64, OpenError> {
        // Before all is read: nothing is ever replaced.
        if path.symlink_metadata().is_ok() {
            return Err(OpenError::Exists);
        }
        let (document, notes) = self.with_all_notes();
        let (head, document) = LoadedParts::default().assemble(document)?;
        let notes = notes.into_iter().map(|note| {
            let (key, note) = note.into_parts();
            entry(note_key(&key)?, note.as_ref())
        });
        create_with(path, &content(&head, &document, notes)?)?;
        Ok(document.version())
    }
}

/// What a new file has.
pub(super) fn content(
    head: &StoredHead,
    document: &Snapshot,
    notes: impl IntoIterator<Item = Result<CheckpointEntry, JournalError>>,
) -> Result<JournalWrite, JournalError> {
    let nodes = document
        .nodes()
        .map(|node| entry(node_key(node.id()), Some(node)));
    let entries = [entry(HEAD.to_owned(), Some(head))].into_iter();
    Ok(JournalWrite {
        entries: entries
            .chain(nodes)
            .chain(notes)
            .collect::<Result<_, _>>()?,
        version: document.version(),
        ..JournalWrite::default()
    })
}
