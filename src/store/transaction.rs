//! An open transaction.

mod alias;
mod commit;
mod lent;
mod savepoint;

use std::fmt;
use std::sync::Arc;

pub use alias::AliasError;
use alias::Aliases;
pub use lent::TakenOut;
pub use savepoint::{Savepoint, SavepointError};

use smol_str::SmolStr;

use super::nodes::OnNodes;
use super::publish::CommitConditions;
use super::{
    BatchDigest, CommitCondition, DataStore, ExecutedOperation, FollowerId, ObservedTransaction,
    ReversedEntry, Undone,
};
use crate::document::schema::Schema;
use crate::document::{
    BlockedUndo, Budget, Change, ChangeDetail, Changes, EditError, EditUnit, Fragment, Limit,
    Limits, Node, Overlay, Selection, Snapshot, Undoing, View, cost, walk,
};
use crate::id::{AsNodeId, LockId, NodeId, OwnerId, TransactionId};
use crate::lock::Grant;
use crate::time::MonotonicTime;

/// A transaction: sees its own changes, and publishes them only when it is committed.
///
/// An open transaction holds the store's lock, so there is at most one. Every method either does
/// everything that it describes, or returns an error and does nothing. Dropping the transaction,
/// also by a panic, rolls it back and releases the lock.
///
/// The methods of [`View`] read the document with the transaction's own changes included.
///
/// # On nodes
///
/// A transaction that [`DataStore::begin_on`] begins holds node locks instead, and runs beside
/// transactions that hold other nodes. It differs from other transactions as follows:
///
/// - A change locks the nodes that it needs and that are not locked yet, after a wait if necessary.
///   If that fails, the change returns [`EditError::NotLocked`] and the transaction can no longer
///   be committed. [`lock_error`](Self::lock_error) returns the reason.
/// - The commit checks again each node that was read without a lock. If another commit has changed
///   one of them, it fails with [`CommitError::Conflict`](crate::CommitError::Conflict). So the
///   transaction has the effect that it would have if it ran alone at the moment of its commit.
/// - Its [`base`](Self::base) advances with each lock. The commit does not check reads of the base
///   itself.
///
/// ```
/// use doclock::{DataStore, View, document::NodeSpec};
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
    id: TransactionId,
    pub(super) owner: OwnerId,
    pub(super) overlay: Overlay,
    operations: Vec<ExecutedOperation>,
    /// The follower that runs it, and need not read its commit.
    origin: Option<FollowerId>,
    /// Its idempotency key, if it has one.
    receipt: Option<Box<Remembered>>,
    /// Whether code of a user has it by reference; its owner commits it after that code.
    lent: bool,
    /// Whether the history of its editor has it.
    in_history: bool,
    /// Whether it undoes or redoes edits.
    is_undo: bool,
    /// The unit that it undoes or redoes, if all of its commits wait to be recorded, and
    /// whether that is to be in effect.
    reversed_unit: Option<(Arc<EditUnit>, bool)>,
    /// What is undone together with it.
    unit: Option<Arc<EditUnit>>,
    /// `None` until one of these fields is set.
    rare: Option<Box<RareFields>>,
    /// Set on a transaction that does not hold the whole document.
    pub(super) nodes: Option<Box<OnNodes>>,
    /// Declared last, hence dropped last: the lock outlives the other fields.
    pub(super) held: TransactionGrant,
}

/// A transaction that runs once per idempotency key.
struct Remembered {
    key: SmolStr,
    digest: BatchDigest,
}

/// What most transactions do not need.
#[derive(Default)]
struct RareFields {
    aliases: Aliases,
    /// Shared with the savepoints.
    clipboard: Option<Arc<Fragment>>,
    /// The versions whose commits the transaction undoes.
    undone: Vec<u64>,
    /// The units that it undoes or redoes, if these do not tell that.
    reversed: Option<Arc<ReversedEntry>>,
    savepoints: Vec<(u64, savepoint::SavepointState)>,
    /// How many savepoints were made so far.
    saved: u64,
    /// How many of the savepoints were made before the code that must be all or nothing. These
    /// cannot be returned to meanwhile.
    out_of_reach: usize,
    conditions: CommitConditions,
    /// Set on a transaction with limits.
    budget: Option<Budget>,
}

/// The grant under which a transaction is open.
pub(super) struct TransactionGrant {
    pub(super) store: DataStore,
    pub(super) grant: Grant,
    ended_by: EndedBy,
    /// Dropped after the lock is released.
    observed: ObservedTransaction,
}

/// What ends the grant of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// The transaction closes under its grant, and ends it if the grant was the transaction's own.
    Transaction,
    /// The code that holds the grant and runs the transaction.
    Lender,
}

impl TransactionGrant {
    #[inline(always)]
    pub(super) fn new(
        store: DataStore,
        grant: Grant,
        ended_by: EndedBy,
        observed: ObservedTransaction,
    ) -> Self {
        Self {
            store,
            grant,
            ended_by,
            observed,
        }
    }
}

impl Drop for TransactionGrant {
    fn drop(&mut self) {
        self.observed.dropped();
        if self.ended_by == EndedBy::Transaction {
            self.store.0.lock.part_from_grant(self.grant.id());
            self.store.trim_log();
        }
    }
}

impl Transaction {
    #[inline(always)]
    pub(super) fn new(
        (id, base): (TransactionId, Snapshot),
        owner: OwnerId,
        held: TransactionGrant,
    ) -> Self {
        Self {
            id,
            owner,
            overlay: Overlay::new(base),
            operations: Vec::new(),
            origin: None,
            receipt: None,
            lent: false,
            in_history: false,
            is_undo: false,
            reversed_unit: None,
            unit: None,
            rare: None,
            nodes: None,
            held,
        }
    }

    /// A transaction under no lock, which is not committed.
    pub(crate) fn bare(store: &DataStore, base: Snapshot) -> Self {
        let (grant, observed) = (Grant::none(), ObservedTransaction::default());
        let held = TransactionGrant::new(store.clone(), grant, EndedBy::Lender, observed);
        let id = TransactionId {
            session: 0,
            number: 0,
        };
        Self::new((id, base), OwnerId::default(), held)
    }

    /// Takes the edits of another transaction in place of its own, with what belongs to them.
    pub(super) fn take_edits_of(&mut self, other: Self) {
        self.overlay = other.overlay;
        self.operations = other.operations;
        self.rare = other.rare;
    }

    /// Makes `document` the next version.
    #[cfg(feature = "__bench")]
    pub(crate) fn fold_into(mut self, document: &mut Snapshot) {
        self.overlay.fold_into(document);
    }

    pub(crate) fn store(&self) -> &DataStore {
        &self.held.store
    }

    /// What observes the transaction, unless its submitter does.
    #[inline(always)]
    pub(crate) fn observed(&mut self) -> &mut ObservedTransaction {
        &mut self.held.observed
    }

    /// Returns the id of the transaction.
    pub fn id(&self) -> TransactionId {
        self.id
    }

    /// Returns the owner of the transaction.
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// Returns the id of the lock under which the transaction runs.
    pub fn lock_id(&self) -> LockId {
        self.held.grant.id()
    }

    /// Returns the version that the transaction started from, without its changes.
    ///
    /// On nodes it is the version that the transaction has advanced to.
    pub fn base(&self) -> &Snapshot {
        self.overlay.base()
    }

    /// Returns the schema of the store, if it has one.
    pub fn schema(&self) -> Option<&Schema> {
        self.store().schema()
    }

    /// Returns the changes of the transaction so far, in order.
    #[inline]
    pub fn changes(&self) -> &[Change] {
        self.overlay.changes()
    }

    /// Returns the current selection, adjusted to the changes so far.
    ///
    /// It is `None` unless an editor runs the transaction or the transaction has selected
    /// something.
    pub fn selection(&self) -> Option<&Selection> {
        self.overlay.selection()
    }

    /// Returns the fragment that was copied last, in this transaction or before it by its editor.
    pub fn clipboard(&self) -> Option<&Fragment> {
        self.rare.as_ref()?.clipboard.as_deref()
    }

    pub(crate) fn set_clipboard(&mut self, fragment: Option<Fragment>) {
        if fragment.is_some() || self.rare.is_some() {
            self.rare_mut().clipboard = fragment.map(Arc::new);
        }
    }

    /// Runs it on behalf of a follower, with that follower's selection.
    pub(crate) fn begin_for(&mut self, origin: FollowerId, selection: Option<Selection>) {
        self.origin = Some(origin);
        self.overlay.begin_with_selection(selection);
    }

    /// The current moment, by the clock of the store.
    pub(crate) fn now(&self) -> MonotonicTime {
        self.store().monotonic()
    }

    /// Records that the history of its editor has it.
    pub(crate) fn enter_history(&mut self) {
        self.in_history = true;
    }

    /// Sets what is undone together with it.
    pub(crate) fn set_unit(&mut self, unit: Arc<EditUnit>) {
        self.unit = Some(unit);
    }

    /// Undoes or redoes units of edits.
    pub(crate) fn undo_units<R>(
        &mut self,
        code: impl FnOnce(&mut Undoing<'_>) -> Result<R, BlockedUndo>,
    ) -> Result<(R, Undone), BlockedUndo> {
        self.is_undo = true;
        self.reversed_unit = None;
        self.held.store.undo_in(&mut self.overlay, code)
    }

    /// Undoes or redoes a unit by the changes of its commits, if it is the newest one and they all
    /// wait to be recorded. Returns whether it is.
    pub(crate) fn undo_newest(
        &mut self,
        unit: &Arc<EditUnit>,
        in_effect: bool,
    ) -> Result<bool, BlockedUndo> {
        let store = &self.held.store;
        let is_newest = store.undo_newest_in(&mut self.overlay, unit, in_effect)?;
        self.reversed_unit = is_newest.then(|| (Arc::clone(unit), in_effect));
        Ok(is_newest)
    }

    /// What the changes do not tell, in their order.
    pub(crate) fn details(&self) -> &[ChangeDetail] {
        self.overlay.details()
    }

    /// Records that it undoes the commits that made these versions. With none, it undoes something
    /// that its changes do not tell, or has an inverse that is code.
    pub(crate) fn undoes(&mut self, versions: Vec<u64>, reversed: Option<ReversedEntry>) {
        self.in_history = true;
        // No commit has this version.
        let versions = if versions.is_empty() {
            vec![0]
        } else {
            versions
        };
        let reversed = reversed.filter(|_| self.held.store.keeps_commits());
        let rare = self.rare_mut();
        rare.undone = versions;
        rare.reversed = reversed.map(Arc::new);
    }

    /// Keeps the result of this transaction under a key that the store has no receipt for.
    pub(crate) fn remember_as(&mut self, key: SmolStr, digest: BatchDigest) {
        self.receipt = Some(Box::new(Remembered { key, digest }));
    }

    /// Publishes the transaction only if `condition` holds, together with the effect of the
    /// condition.
    pub(crate) fn on_condition(&mut self, condition: Box<dyn CommitCondition>) {
        self.rare_mut().conditions.push(condition);
    }

    /// Replaces the limits of the transaction from here on.
    ///
    /// An operation that would exceed a limit does nothing and returns an [`EditError::Limit`].
    ///
    /// Sums over the transaction, such as its number of nodes, also count what
    /// [`rollback_to`](Self::rollback_to) undid.
    ///
    /// ```
    /// use doclock::{DataStore, document::{EditError, Limit, Limits, NodeSpec}};
    ///
    /// let mut transaction = DataStore::new().begin("ann")?;
    /// transaction.set_limits(Limits::new().with(Limit::Nodes, 1));
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// let error = transaction.create(NodeSpec::new("paragraph")).unwrap_err();
    /// assert_eq!(error.to_string(), "the transaction adds 2 nodes: the limit `nodes` is 1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_limits(&mut self, limits: Limits) {
        self.rare_mut().budget = Some(Budget::new(limits));
    }

    fn budget(&self) -> Option<&Budget> {
        self.rare.as_ref()?.budget.as_ref()
    }

    /// Spends `count` of a limit. Computes `count` only if there are limits.
    pub(crate) fn spend(
        &self,
        limit: Limit,
        count: impl FnOnce(&Overlay) -> usize,
    ) -> Result<(), EditError> {
        match self.budget() {
            Some(budget) => Ok(budget.spend(limit, count(&self.overlay))?),
            None => Ok(()),
        }
    }

    /// Spends the search for a node among its siblings.
    pub(crate) fn spend_search(&self, id: &NodeId) -> Result<(), EditError> {
        self.spend(Limit::Steps, |on| {
            let parent = on.node(id).and_then(|node| on.node(node.parent()?));
            parent.map_or(0, |parent| parent.children().len()) / cost::SIBLINGS
        })
    }

    /// Fails if the nodes of a subtree, so much for each, are more than what is left of a limit.
    /// Spends nothing, and ends with the first node that is too many.
    pub(crate) fn check_subtree(
        &self,
        limit: Limit,
        each: usize,
        id: &NodeId,
    ) -> Result<(), EditError> {
        let Some(budget) = self.budget() else {
            return Ok(());
        };
        let nodes = walk::count(&self.overlay, id, budget.left(limit) / each);
        Ok(budget.check(limit, each * nodes)?)
    }

    /// Fails if an amount is more than what is left of a limit. Spends nothing.
    pub(crate) fn check_limit(&self, limit: Limit, count: usize) -> Result<(), EditError> {
        let budget = self.budget();
        Ok(budget.map_or(Ok(()), |budget| budget.check(limit, count))?)
    }

    /// The steps taken so far, in a transaction with limits.
    #[cfg(test)]
    pub(crate) fn steps_taken(&self) -> usize {
        self.budget().map_or(0, |budget| budget.used(Limit::Steps))
    }

    /// The limits of the transaction, if it has any.
    pub(crate) fn limits(&self) -> Option<&Limits> {
        self.budget().map(Budget::limits)
    }

    /// Checks a pending change against the limits, and counts it.
    pub(super) fn spend_on(&mut self, change: &Change) -> Result<(), EditError> {
        let is_checked = self.store().schema().is_some();
        let Self { rare, overlay, .. } = self;
        let budget = rare.as_mut().and_then(|rare| rare.budget.as_mut());
        let Some(budget) = budget else {
            return Ok(());
        };
        budget.change(change, overlay)?;
        match is_checked {
            true => Ok(budget.lists(change, overlay)?),
            false => Ok(()),
        }
    }

    fn rare_mut(&mut self) -> &mut RareFields {
        self.rare.get_or_insert_default()
    }

    pub(crate) fn executed(&self) -> &[ExecutedOperation] {
        &self.operations
    }

    pub(crate) fn has_room_for_operations(&self) -> bool {
        self.operations.capacity() > 0
    }

    /// Gives it a buffer for its operations, before the first of them.
    pub(crate) fn record_in(&mut self, room: Vec<ExecutedOperation>) {
        debug_assert!(self.operations.is_empty() && room.is_empty());
        self.operations = room;
    }

    /// Gives it a buffer for its changes, before the first of them.
    pub(crate) fn record_changes_in(&mut self, room: Changes) {
        self.overlay.record_in(room);
    }

    #[inline]
    pub(crate) fn record(&mut self, operation: ExecutedOperation) {
        self.operations.push(operation);
    }

    /// Discards the changes and releases the lock.
    ///
    /// The store is as before the transaction, except for the ids that the transaction used up.
    pub fn rollback(self) {
        drop(self);
    }
}

impl View for Transaction {
    #[inline]
    fn node(&self, id: impl AsNodeId) -> Option<&Node> {
        let id = &*id.as_node_id();
        if let Some(nodes) = &self.nodes {
            self.note_read(nodes, id);
        }
        self.overlay.node(id)
    }

    fn root(&self) -> Option<&NodeId> {
        if let Some(nodes) = &self.nodes {
            self.note_read_of_root(nodes);
        }
        self.overlay.root()
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = &Node> + '_> {
        self.note_read_of_all();
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
            .field("lock", &self.held.grant.id())
            .field("base", self.base())
            .field("changes", &self.changes().len())
            .finish()
    }
}
