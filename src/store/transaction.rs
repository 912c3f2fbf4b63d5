//! One open transaction.

use std::fmt;
use std::ops::Range;

use serde_json::Value;
use smol_str::SmolStr;

use super::{Commit, CommitError, Committed, DataStore, ExecutedOperation};
use crate::document::plan::{self, Target};
use crate::document::{Change, EditError, Mark, Node, NodeSpec, Overlay, Snapshot, View};
use crate::id::{LockId, NodeId, OwnerId, TransactionId};
use crate::lock::{FifoLock, Grant, JoinError};

/// A transaction: sees its own changes, shows them to nobody until it is committed.
///
/// While it is open it holds the store's lock, so there is at most one. Every method either does the whole of what
/// it says or returns an error and does nothing. Dropping the transaction, also by a panic, rolls it back and
/// releases the lock.
///
/// Inside, all questions of [`View`] are answered with the transaction's own changes included.
///
/// ```
/// use doclock::{DataStore, NodeSpec, View};
///
/// let store = DataStore::new();
/// let mut transaction = store.begin("ann")?;
/// let list = transaction.create(NodeSpec::new("list"))?;
/// let item = transaction.insert(NodeSpec::new("item").with_text("one"), &list, None)?;
/// transaction.insert_text(&item, 3, "!")?;
/// assert_eq!(transaction.node(&item).unwrap().text(), &"one!");
/// transaction.rollback();
/// assert!(store.snapshot().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a transaction is rolled back when it is dropped"]
pub struct Transaction {
    store: DataStore,
    id: TransactionId,
    owner: OwnerId,
    grant: Grant,
    overlay: Overlay,
    operations: Vec<ExecutedOperation>,
    /// Last, so that the lock outlives all else: fields are dropped in the order of their declaration.
    held: Held,
}

/// Closes the transaction under its grant, which ends the grant if it was the transaction's own.
pub(super) struct Held {
    lock: FifoLock,
    id: LockId,
}

impl Held {
    pub(super) fn new(lock: FifoLock, id: LockId) -> Self {
        Self { lock, id }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.lock.part_from_grant(self.id);
    }
}

impl Transaction {
    pub(super) fn joining(store: DataStore, id: LockId) -> Result<Self, JoinError> {
        let (owner, grant) = store.0.lock.join_grant(id)?;
        let held = Held::new(store.0.lock.clone(), id);
        Ok(Self::new(store, owner, grant, held))
    }

    pub(super) fn new(store: DataStore, owner: OwnerId, grant: Grant, held: Held) -> Self {
        Self {
            id: store.next_transaction(),
            owner,
            grant,
            overlay: Overlay::new(store.snapshot()),
            operations: Vec::new(),
            held,
            store,
        }
    }

    /// The id of this transaction.
    pub fn id(&self) -> TransactionId {
        self.id
    }

    /// Who runs it.
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// The id of the lock that it runs under.
    pub fn lock_id(&self) -> LockId {
        self.grant.id
    }

    /// The version that it started from, as it was and is.
    pub fn base(&self) -> &Snapshot {
        self.overlay.base()
    }

    /// What it has changed so far, in order.
    pub fn changes(&self) -> &[Change] {
        self.overlay.changes()
    }

    /// Creates a node, with all below it, attached nowhere. Returns its id.
    ///
    /// # Errors
    ///
    /// [`EditError`]: an id is taken or empty, a mark reaches out of its text.
    pub fn create(&mut self, spec: NodeSpec) -> Result<NodeId, EditError> {
        self.insert_at(spec, None)
    }

    /// Creates a node, with all below it, as a child of `parent` at `index` (at the end for `None`). Returns its
    /// id.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the parent does not exist or was deleted, there is no such index, an id is taken or empty, a
    /// mark reaches out of its text.
    pub fn insert(
        &mut self,
        spec: NodeSpec,
        parent: &NodeId,
        index: impl Into<Option<usize>>,
    ) -> Result<NodeId, EditError> {
        self.insert_at(spec, Some((parent, index.into())))
    }

    fn insert_at(&mut self, spec: NodeSpec, to: Target<'_>) -> Result<NodeId, EditError> {
        let parent = to.map(|(parent, _)| parent);
        let nodes = spec.into_nodes(parent, &self.store.0.ids)?;
        let top = nodes[0].id().clone();
        self.apply_planned(plan::insert_subtree(&self.overlay, nodes, to)?)?;
        Ok(top)
    }

    /// Deletes a node with all below it.
    ///
    /// # Errors
    ///
    /// [`EditError`]: it does not exist, or is the root.
    pub fn delete(&mut self, id: &NodeId) -> Result<(), EditError> {
        self.apply_planned(plan::remove_subtree(&self.overlay, id)?)
    }

    /// Attaches a node, with all below it, under `parent` at `index` (at the end for `None`), wherever it was
    /// before. The index is that which it has afterwards.
    ///
    /// # Errors
    ///
    /// [`EditError`]: one of them does not exist or was deleted, there is no such index, `parent` is the node or
    /// below it, the node is the root.
    pub fn move_node(
        &mut self,
        id: &NodeId,
        parent: &NodeId,
        index: impl Into<Option<usize>>,
    ) -> Result<(), EditError> {
        let to = Some((parent, index.into()));
        self.apply_planned(plan::move_node(&self.overlay, id, to)?)
    }

    /// Detaches a child from its parent. It stays in the store, attached nowhere, until it is attached again or
    /// deleted.
    ///
    /// # Errors
    ///
    /// [`EditError`]: one of them does not exist, or `child` is not a child of `parent`.
    pub fn remove_child(&mut self, parent: &NodeId, child: &NodeId) -> Result<(), EditError> {
        plan::find(&self.overlay, parent)?;
        if plan::find(&self.overlay, child)?.parent() != Some(parent) {
            return Err(EditError::NotAChild {
                parent: parent.clone(),
                child: child.clone(),
            });
        }
        self.apply_planned(plan::move_node(&self.overlay, child, None)?)
    }

    /// Replaces the whole text of a node. Its marks go with the old text.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist.
    pub fn set_text(&mut self, id: &NodeId, text: impl Into<SmolStr>) -> Result<(), EditError> {
        self.splice(id, None, text)
    }

    /// Inserts characters before the one at `offset`. Marks around the place grow.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, the offset is greater than the length.
    pub fn insert_text(
        &mut self,
        id: &NodeId,
        offset: usize,
        text: impl Into<SmolStr>,
    ) -> Result<(), EditError> {
        self.splice(id, Some(offset..offset), text)
    }

    /// Deletes the characters of a half-open range. Marks over it shrink.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, the range is not within its text.
    pub fn delete_text(&mut self, id: &NodeId, range: Range<usize>) -> Result<(), EditError> {
        self.splice(id, Some(range), "")
    }

    /// Replaces the characters of a half-open range. Marks around it stay, those inside it go, those across an
    /// edge keep the part outside.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, the range is not within its text.
    pub fn replace_text(
        &mut self,
        id: &NodeId,
        range: Range<usize>,
        text: impl Into<SmolStr>,
    ) -> Result<(), EditError> {
        self.splice(id, Some(range), text)
    }

    fn splice(
        &mut self,
        id: &NodeId,
        range: Option<Range<usize>>,
        text: impl Into<SmolStr>,
    ) -> Result<(), EditError> {
        self.apply_planned(plan::splice_text(&self.overlay, id, range, text.into())?)
    }

    /// Replaces the marks of a node. They are brought into normal form; a mark without a range covers the text.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, a mark reaches out of its text.
    pub fn set_marks(
        &mut self,
        id: &NodeId,
        marks: impl IntoIterator<Item = Mark>,
    ) -> Result<(), EditError> {
        let marks = marks.into_iter().collect();
        self.apply_planned(plan::set_marks(&self.overlay, id, marks)?)
    }

    /// Sets attributes of a node and leaves the others; `null` removes one.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist.
    pub fn set_attrs<K: Into<SmolStr>>(
        &mut self,
        id: &NodeId,
        attributes: impl IntoIterator<Item = (K, Value)>,
    ) -> Result<(), EditError> {
        let values = attributes
            .into_iter()
            .map(|(key, value)| (key.into(), Some(value)));
        self.apply_planned(plan::patch_attrs(&self.overlay, id, values)?)
    }

    /// Makes a node the root of the document, or none. Like everything, it is seen outside after the commit.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, or has a parent.
    pub fn set_root<'a>(&mut self, id: impl Into<Option<&'a NodeId>>) -> Result<(), EditError> {
        self.apply_planned(plan::set_root(&self.overlay, id.into())?)
    }

    /// Makes a primitive change, one that another commit's event carried for example.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the document is not as the change expects it, or would not be sound after it.
    pub fn apply(&mut self, change: Change) -> Result<(), EditError> {
        self.overlay.apply(change, &self.store.0.ids)
    }

    fn apply_planned(&mut self, change: Option<Change>) -> Result<(), EditError> {
        match change {
            Some(change) => self.apply(change),
            None => Ok(()),
        }
    }

    pub(crate) fn record(&mut self, operation: ExecutedOperation) {
        self.operations.push(operation);
    }

    /// Publishes the changes as the next version, tells the subscribers and releases the lock.
    ///
    /// A transaction that changed nothing makes no version and no event.
    ///
    /// # Errors
    ///
    /// [`CommitError`], which has no value yet.
    pub fn commit(self) -> Result<Committed, CommitError> {
        let Self {
            store,
            id,
            owner,
            grant,
            overlay,
            operations,
            held,
        } = self;
        let mut committed = Committed {
            transaction_id: id,
            version: overlay.base().version(),
            changes: Vec::new(),
            operations,
        };
        if !overlay.changes().is_empty() {
            let (version, changes) = store.publish(overlay);
            store.0.events.announce(|| Commit {
                version,
                transaction_id: id,
                owner,
                fencing_token: grant.token,
                operations: committed.operations.clone(),
                changes: changes.clone(),
            });
            committed.version = version;
            committed.changes = changes;
        }
        drop(held);
        Ok(committed)
    }

    /// Forgets the changes and releases the lock. The store is as if the transaction had never been, but for the
    /// ids that it used up.
    pub fn rollback(self) {
        drop(self);
    }
}

impl View for Transaction {
    fn node(&self, id: &NodeId) -> Option<&Node> {
        self.overlay.node(id)
    }

    fn root(&self) -> Option<&NodeId> {
        self.overlay.root()
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = &Node> + '_> {
        self.overlay.nodes()
    }

    fn missing(&self, id: &NodeId) -> EditError {
        self.overlay.missing(id)
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("id", &self.id)
            .field("owner", &self.owner)
            .field("lock", &self.grant.id)
            .field("base", self.base())
            .field("changes", &self.changes().len())
            .finish()
    }
}
