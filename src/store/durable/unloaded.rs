//! A stored document before it is loaded.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex as StdMutex, OnceLock, PoisonError};

use super::format::{Unreadable, node_key};
use super::open::guarded;
use super::replay::{LoadedParts, corrupt, decode_node};
use super::{JournalError, OpenError, StoredPart};
use crate::caught::{CaughtPanic, catch};
use crate::document::{Node, Snapshot, View};
use crate::hashing::Secret;
use crate::id::{AsNodeId, NodeId};
use crate::sync::{Mutex, rank};

pub(super) type NodeIdSet = HashSet<NodeId, Secret>;

/// Reads parts as [`Journal::load_after`](super::Journal::load_after) does.
pub(super) type LoadAfter<'a> = dyn FnMut(
        u64,
        &str,
        &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError>
    + Send
    + 'a;

/// A stored document before it is loaded, for
/// [`DurableOptions::before_load`](super::DurableOptions::before_load).
///
/// It is the document of the last version, with all stored commits. Each node is read when it is
/// asked for, so a read can fail. Nothing is written.
pub struct UnloadedDocument<'a> {
    /// Never locked. It makes the document `Sync`.
    load_after: StdMutex<&'a mut LoadAfter<'a>>,
    /// The nodes that commits after the checkpoint touch, in the last version.
    touched: Snapshot,
    /// Their ids, also of those that are deleted.
    ids: NodeIdSet,
}

impl<'a> UnloadedDocument<'a> {
    /// Reads the head, and repeats the commits after the checkpoint on the nodes that they touch.
    /// `None` if no document is stored yet.
    fn read(load_after: &'a mut LoadAfter<'a>) -> Result<Option<Self>, OpenError> {
        let loaded = LoadedParts::read_log(load_after)?;
        let replayed = loaded.replay_touched(|id| stored_node(load_after, id))?;
        Ok(replayed.map(|(touched, ids)| Self {
            load_after: StdMutex::new(load_after),
            touched,
            ids,
        }))
    }

    /// Returns the last version.
    pub fn version(&self) -> u64 {
        self.touched.version()
    }

    /// Returns the root of the document, if one was set. Its children lead to all other nodes of
    /// its tree.
    pub fn root(&self) -> Option<&NodeId> {
        self.touched.root()
    }

    /// Reads a node with its type, attributes, text, marks, parent and the ids of its children.
    /// Returns `None` if there is no node with this id.
    ///
    /// Blocks for a few reads of the file: their number is a logarithm of the number of nodes.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: [`Corrupt`](OpenError::Corrupt) if a part on the way to the node is damaged,
    /// with the name of the part, and [`Journal`](OpenError::Journal) if it cannot be read. Parts
    /// on the way to other nodes are not checked.
    ///
    /// ```
    /// use doclock::{DataStore, document::NodeSpec, durable::DurableOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("notes.doclock");
    /// let store = DataStore::open(&path)?;
    /// let mut transaction = store.begin("ann")?;
    /// transaction.create(NodeSpec::new("title").with_text("Notes").with_id("title"))?;
    /// transaction.commit()?;
    /// store.close()?;
    ///
    /// let options = DurableOptions::new().before_load(|document| {
    ///     let title = document.node("title")?;
    ///     assert!(title.is_some_and(|title| title.text() == &"Notes"));
    ///     assert_eq!(document.node("author")?, None);
    ///     Ok(())
    /// });
    /// DataStore::open_with(&path, options)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn node(&mut self, id: impl AsNodeId) -> Result<Option<Node>, OpenError> {
        let id = &*id.as_node_id();
        if self.ids.contains(id) {
            return Ok(self.touched.node(id).cloned());
        }
        let load_after = self.load_after.get_mut();
        stored_node(load_after.unwrap_or_else(PoisonError::into_inner), id)
    }
}

/// Reads a node of the checkpoint.
fn stored_node(load_after: &mut LoadAfter<'_>, id: &NodeId) -> Result<Option<Node>, OpenError> {
    let key = node_key(id);
    let mut found = None;
    let read = guarded(Arc::new(|_| {}), |_| {
        Ok(load_after(u64::MAX, &key, &mut |part| {
            if let StoredPart::Entry { key, bytes } = part {
                found = Some(decode_node(key, bytes).and_then(|node| {
                    node.check_alone().map_err(Unreadable::corrupt)?;
                    Ok(node)
                }));
            }
            Ok(())
        })?)
    });
    match read {
        Ok(()) => Ok(found.transpose()?),
        Err(OpenError::Corrupt(error)) => {
            let (key, bytes) = (&*key, &[][..]);
            let part = StoredPart::Entry { key, bytes };
            Err(Unreadable::Corrupt(error).of(part).into())
        }
        Err(error) => Err(error),
    }
}

impl fmt::Debug for UnloadedDocument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnloadedDocument")
            .field("version", &self.version())
            .field("root", &self.root())
            .finish_non_exhaustive()
    }
}

/// A callback that reads a document before it is loaded.
pub(super) type ReadUnloaded =
    Arc<dyn Fn(&mut UnloadedDocument<'_>) -> Result<(), OpenError> + Send + Sync>;

/// The callback of one open, which is called once.
#[derive(Clone, Default)]
pub(super) struct BeforeLoad {
    read: Option<ReadUnloaded>,
    /// Set by the call, with its panic.
    called: Arc<OnceLock<Mutex<{ rank::DURABLE }, Option<CaughtPanic>>>>,
}

impl BeforeLoad {
    pub(super) fn new(read: Option<ReadUnloaded>) -> Self {
        let called = Arc::default();
        Self { read, called }
    }

    /// Calls the callback, unless it was called or there is no document yet. The open ends with the
    /// error. The code of redb is not unwound, so a panic waits for [`resume`](Self::resume).
    pub(super) fn call<'a>(&self, load_after: &'a mut LoadAfter<'a>) -> Result<(), OpenError> {
        let Some(read) = self.read.as_ref().filter(|_| self.called.get().is_none()) else {
            return Ok(());
        };
        let unloaded = guarded(Arc::new(|_| {}), |_| UnloadedDocument::read(load_after))?;
        let Some(mut document) = unloaded else {
            return Ok(());
        };
        let (read, panic) = match catch(|| read(&mut document)) {
            Ok(read) => (read, None),
            Err(panic) => (Err(corrupt("a callback panicked")), Some(panic)),
        };
        let _ = self.called.set(Mutex::new(panic));
        read
    }

    /// Resumes the panic of the callback, when nothing is open any more.
    pub(super) fn resume(&self) {
        let panic = self.called.get().and_then(|panic| panic.lock().take());
        if let Some(panic) = panic {
            panic.resume();
        }
    }
}
