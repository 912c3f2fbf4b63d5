//! Copies of a store, each in a file of its own.

use std::path::Path;

use super::format::{Entry, HEAD, StoredHead, entry, node_key, note_key};
use super::redb::{create_file, sync_directory};
use super::replay::LoadedParts;
use super::{JournalError, JournalWrite, OpenError};
use crate::document::{Snapshot, View};
use crate::store::DataStore;

impl DataStore {
    /// Writes a complete copy of the store to a new file: the document, the receipts, the marks and
    /// dead letters of the inboxes, and the leases, all as of one moment. Returns the version.
    ///
    /// The copy is the file of a document: [`open`](Self::open) continues it, with the same ids,
    /// and a message or a keyed batch that had its effect before the copy has none again. What it
    /// does not have are the commits before this version, so no history is restored from it, and
    /// earlier versions are not in it. It does not have the claims of messages that are being
    /// handled, which have all their attempts again. Its later fencing tokens are above those that
    /// it has; a token of the original that was issued after the copy may be issued again.
    ///
    /// Any store can be copied: one in memory, a durable one, also with commits that are not
    /// durable yet, and one that became read-only because its file failed. Commits go on meanwhile.
    /// Only those with an idempotency key or a claim wait until the receipts and marks are listed,
    /// which takes about a microsecond for ten of them.
    ///
    /// Blocks until the file is durable. A process that is killed meanwhile leaves nothing at the
    /// path. An unfinished file `.doclock-….new` beside it may stay, and is removed when a document
    /// is created there an hour later.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: [`Exists`](OpenError::Exists), if there is anything at the path, also a link
    /// to no file, [`NoFolder`](OpenError::NoFolder), and errors of the disk. No part of the copy
    /// is at the path then.
    ///
    /// ```
    /// use doclock::{DataStore, TransactionManager, View, dsl::*};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let store = DataStore::open(folder.path().join("notes.doclock"))?;
    /// let manager = TransactionManager::new(store.clone());
    /// let node = create(text_node("paragraph", "one").with_id("p"));
    /// manager.transaction(node.clone()).idempotent("first").commit()?;
    /// let path = folder.path().join("monday.doclock");
    /// assert_eq!(store.backup(&path)?, 1);
    ///
    /// let copy = DataStore::open(path)?;
    /// assert!(copy.snapshot().contains("p"));
    /// let manager = TransactionManager::new(copy);
    /// assert!(manager.transaction(node).idempotent("first").commit()?.repeated);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<u64, OpenError> {
        let path = path.as_ref();
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
        create(path, &content(&head, &document, notes)?)?;
        Ok(document.version())
    }
}

/// What a new file has.
pub(super) fn content(
    head: &StoredHead,
    document: &Snapshot,
    notes: impl IntoIterator<Item = Result<Entry, JournalError>>,
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

/// Creates a file with this content, which is durable then.
pub(super) fn create(path: &Path, content: &JournalWrite) -> Result<(), OpenError> {
    create_file(path, Some(content))?;
    sync_directory(path)
}
