//! One open transaction.

mod alias;
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
use super::publish::{Kept, Terms};
use super::{
    BatchDigest, Commit, CommitError, Committed, DataStore, ExecutedOperation, ObserverId, Receipt,
    Term, Witnessed,
};
use crate::document::{
    Budget, Change, EditError, Fragment, Limit, Limits, Node, Overlay, Selection, Snapshot, View,
};
use crate::id::{LockId, NodeId, OwnerId, TransactionId};
use crate::lock::{Grant, JoinError};
use crate::time::MonotonicTime;

/// A transaction: sees its own changes, shows them to nobody until it is committed.
///
/// While it is open it holds the store's lock, so there is at most one. Every method either does
/// the whole of what it says or returns an error and does nothing. Dropping the transaction, also
/// by a panic, rolls it back and releases the lock.
///
/// Inside, all questions of [`View`] are answered with the transaction's own changes included.
///
/// # On nodes
///
/// One that was begun with [`DataStore::begin_on`] holds nodes instead, and runs beside others that
/// hold other nodes. For all else it is as any other, with these differences:
///
/// - What a change needs and is not locked yet is locked by the change, after a wait if need be. If
///   that fails the change returns [`EditError::NotLocked`], and the transaction cannot be
///   committed any more: [`lock_error`](Self::lock_error) tells why.
/// - What is read without a lock is looked at again by the commit. If others have changed it the
///   commit fails with [`CommitError::Conflict`]. So the transaction is as if it had run by itself
///   at the moment of its commit.
/// - Its [`base`](Self::base) moves on with each lock. What is read from the base itself, and not
///   by the transaction, is not looked at again.
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
    /// The observer who runs it, and need not be told.
    origin: Option<ObserverId>,
    /// How it is to be remembered, if it is.
    receipt: Option<Box<Remembered>>,
    /// Whether code of a user has it by a reference, and its owner commits it when that is done.
    lent: bool,
    /// What most transactions have nothing of.
    aside: Option<Box<Aside>>,
    /// If it has not the whole document to itself.
    pub(super) nodes: Option<Box<OnNodes>>,
    /// Last, so that the lock outlives all else: fields are dropped in the order of their
    /// declaration.
    pub(super) held: Held,
}

/// What was published.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Publication {
    pub(crate) version: u64,
    pub(crate) changed: bool,
}

/// A transaction that is carried out once for a key.
struct Remembered {
    key: SmolStr,
    digest: BatchDigest,
    /// What the submitter had selected before and has after.
    selections: [Option<Selection>; 2],
}

#[derive(Default)]
struct Aside {
    aliases: Aliases,
    /// Shared with the savepoints.
    clipboard: Option<Arc<Fragment>>,
    /// The versions whose commits it undoes.
    undone: Vec<u64>,
    savepoints: Vec<(u64, savepoint::State)>,
    /// How many savepoints there have been.
    saved: u64,
    /// How many of the savepoints lie before what has to be all or nothing, and cannot be returned
    /// to meanwhile.
    out_of_reach: usize,
    terms: Terms,
    /// Of a transaction with limits.
    budget: Option<Budget>,
}

/// The grant under which a transaction is open.
pub(super) struct Held {
    pub(super) store: DataStore,
    pub(super) grant: Grant,
    ended_by: EndedBy,
}

/// Who ends the grant of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// The transaction closes under its grant, which ends it if it was the transaction's own.
    Transaction,
    /// Whoever holds it, and runs the transaction.
    Lender,
}

impl Held {
    #[inline(always)]
    pub(super) fn new(store: DataStore, grant: Grant, ended_by: EndedBy) -> Self {
        Self {
            store,
            grant,
            ended_by,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.ended_by == EndedBy::Transaction {
            self.store.0.lock.part_from_grant(self.grant.id());
        }
    }
}

impl Transaction {
    pub(super) fn joining(store: DataStore, id: LockId) -> Result<Self, JoinError> {
        let (owner, grant) = store.0.lock.join_grant(id)?;
        Ok(Self::new(
            store.next_transaction(),
            owner,
            Held::new(store, grant, EndedBy::Transaction),
        ))
    }

    #[inline(always)]
    pub(super) fn new((id, base): (TransactionId, Snapshot), owner: OwnerId, held: Held) -> Self {
        Self {
            id,
            owner,
            overlay: Overlay::new(base),
            operations: Vec::new(),
            origin: None,
            receipt: None,
            lent: false,
            aside: None,
            nodes: None,
            held,
        }
    }

    /// One under no lock, on a version that is not a store's.
    #[cfg(feature = "bare")]
    pub(crate) fn bare(store: &DataStore, base: Snapshot) -> Self {
        let held = Held::new(store.clone(), Grant::none(), EndedBy::Lender);
        let id = TransactionId {
            session: 0,
            number: 0,
        };
        Self::new((id, base), OwnerId::default(), held)
    }

    /// Makes `document` the next version.
    #[cfg(feature = "bare")]
    pub(crate) fn fold_into(mut self, document: &mut Snapshot) {
        self.overlay.fold_into(document);
    }

    pub(super) fn store(&self) -> &DataStore {
        &self.held.store
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
        self.held.grant.id()
    }

    /// The version that it started from, as it was and is; on nodes the version that it has come
    /// to.
    pub fn base(&self) -> &Snapshot {
        self.overlay.base()
    }

    /// What it has changed so far, in order.
    #[inline]
    pub fn changes(&self) -> &[Change] {
        self.overlay.changes()
    }

    /// What is selected, as it follows from the changes so far. Nothing, unless an editor runs the
    /// transaction or something was selected in it.
    pub fn selection(&self) -> Option<&Selection> {
        self.overlay.selection()
    }

    /// What was copied last: in this transaction, or before it by the editor that runs it.
    pub fn clipboard(&self) -> Option<&Fragment> {
        self.aside.as_ref()?.clipboard.as_deref()
    }

    pub(crate) fn set_clipboard(&mut self, fragment: Option<Fragment>) {
        if fragment.is_some() || self.aside.is_some() {
            self.aside_mut().clipboard = fragment.map(Arc::new);
        }
    }

    /// Runs it on behalf of an observer, who has something selected.
    pub(crate) fn begin_for(&mut self, origin: ObserverId, selection: Option<Selection>) {
        self.origin = Some(origin);
        self.overlay.begin_with_selection(selection);
    }

    /// The moment, by the clock of the store.
    pub(crate) fn now(&self) -> MonotonicTime {
        self.store().monotonic()
    }

    /// Says that it undoes the commits that made these versions.
    pub(crate) fn undoes(&mut self, versions: Vec<u64>) {
        self.aside_mut().undone = versions;
    }

    /// Keeps what becomes of this transaction under a key that the store has no receipt for.
    pub(crate) fn remember_as(&mut self, key: SmolStr, digest: BatchDigest) {
        self.receipt = Some(Box::new(Remembered {
            key,
            digest,
            selections: [None, None],
        }));
    }

    /// What a repetition is to be told of the submitter's selection before and after.
    pub(crate) fn remember_selections(&mut self, selections: [&Option<Selection>; 2]) {
        if let Some(receipt) = &mut self.receipt {
            receipt.selections = selections.map(Option::clone);
        }
    }

    /// Has it published only if this holds, and together with what this brings along.
    pub(crate) fn on_terms(&mut self, term: Box<dyn Term>) {
        self.aside_mut().terms.push(term);
    }

    /// Bounds what it makes large from here on, in the place of the limits that it has. What would
    /// go beyond a limit is not done and is an [`EditError::Limit`].
    ///
    /// Sums over the transaction, as that of its nodes, also count what was taken back by
    /// [`rollback_to`](Self::rollback_to).
    ///
    /// ```
    /// use doclock::{DataStore, document::{EditError, Limit, Limits, NodeSpec}};
    ///
    /// let mut transaction = DataStore::new().begin("ann")?;
    /// transaction.set_limits(Limits::new().with(Limit::Nodes, 1));
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// let error = transaction.create(NodeSpec::new("paragraph")).unwrap_err();
    /// assert_eq!(error.to_string(), "the transaction brings in 2 nodes: the limit `nodes` is 1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_limits(&mut self, limits: Limits) {
        self.aside_mut().budget = Some(Budget::new(limits));
    }

    fn budget(&mut self) -> Option<&mut Budget> {
        self.aside.as_mut()?.budget.as_mut()
    }

    /// Uses so much of a limit, if there is one, as is found by looking.
    pub(crate) fn spend(
        &mut self,
        limit: Limit,
        count: impl FnOnce(&Self) -> usize,
    ) -> Result<(), EditError> {
        if self.budget().is_none() {
            return Ok(());
        }
        let count = count(self);
        let budget = self.budget();
        Ok(budget.map_or(Ok(()), |budget| budget.spend(limit, count))?)
    }

    /// The limits that it has.
    pub(crate) fn limits(&self) -> Option<&Limits> {
        Some(self.aside.as_ref()?.budget.as_ref()?.limits())
    }

    /// Checks a change that is to be made against the limits, and counts it.
    pub(super) fn admit(&mut self, change: &Change) -> Result<(), EditError> {
        let Self { aside, overlay, .. } = self;
        let budget = aside.as_mut().and_then(|aside| aside.budget.as_mut());
        Ok(budget.map_or(Ok(()), |budget| budget.change(change, overlay))?)
    }

    fn aside_mut(&mut self) -> &mut Aside {
        self.aside.get_or_insert_default()
    }

    pub(crate) fn executed(&self) -> &[ExecutedOperation] {
        &self.operations
    }

    pub(crate) fn has_room_for_operations(&self) -> bool {
        self.operations.capacity() > 0
    }

    /// Gives it room for the operations that will be carried out, of which there was none yet.
    pub(crate) fn record_in(&mut self, room: Vec<ExecutedOperation>) {
        debug_assert!(self.operations.is_empty() && room.is_empty());
        self.operations = room;
    }

    #[inline]
    pub(crate) fn record(&mut self, operation: ExecutedOperation) {
        self.operations.push(operation);
    }

    /// Publishes the changes as the next version, tells the subscribers and releases the lock.
    ///
    /// A transaction that changed nothing makes no version and no event.
    ///
    /// # Errors
    ///
    /// [`CommitError`]: the document would not be as the store's schema says, the lock was revoked, or the transaction was lent
    /// to the code that commits it. The transaction is rolled back then.
    pub fn commit(mut self) -> Result<Committed, CommitError> {
        let mut changes = Vec::new();
        let Publication { version, changed } =
            self.publish_and(|_, published| changes = std::mem::take(published))?;
        Ok(Committed {
            transaction_id: self.id,
            version,
            changed,
            changes,
            operations: std::mem::take(&mut self.operations),
        })
    }

    /// Does what [`commit`](Self::commit) does before it releases the lock. If it was committed,
    /// `then` is called with the lock still held, with the version and the changes that made it.
    pub(crate) fn publish_and(
        &mut self,
        then: impl FnOnce(u64, &mut Vec<Change>),
    ) -> Result<Publication, CommitError> {
        // Transactions on nodes publish one after the other; one that has the whole document has
        // nobody beside it.
        let shared = self.nodes.is_some().then(|| self.held.store.clone());
        let _publishing = shared.as_ref().map(|store| store.0.publishing.lock());
        let Publication { version, changed } = self.appear()?;
        if !changed {
            then(version, &mut Vec::new());
            return Ok(Publication { version, changed });
        }
        let store = &self.held.store;
        let mut changes = self.overlay.take_changes();
        let witnessed = Witnessed {
            owner: &self.owner,
            version,
            changes: &changes,
            undone: self.aside.as_ref().map_or(&[], |aside| &aside.undone),
        };
        store.0.events.inform(self.origin, &witnessed);
        let commit = || Commit {
            version,
            transaction_id: self.id,
            owner: self.owner.clone(),
            fencing_token: self.held.grant.token,
            idempotency_key: self.receipt.as_ref().map(|it| it.key.clone()),
            operations: self.operations.clone(),
            changes: changes.clone(),
        };
        let events = &store.0.events;
        events.announce(&changes, commit, || store.snapshot());
        then(version, &mut changes);
        Ok(Publication { version, changed })
    }

    /// Checks it and makes it seen, whole or not at all. Nobody is told yet.
    fn appear(&mut self) -> Result<Publication, CommitError> {
        self.check()?;
        let changed = self.changes().iter().any(Change::is_of_the_document);
        let receipt = self.receipt(changed);
        let store = &self.held.store;
        let mut none = Terms::new();
        let terms = self
            .aside
            .as_mut()
            .map_or(&mut none, |aside| &mut aside.terms);
        let version = if changed {
            store.publish(&mut self.overlay, receipt.as_ref(), terms)?
        } else {
            store.publish_terms(receipt.as_ref(), terms)?;
            self.overlay.base().version()
        };
        Ok(Publication { version, changed })
    }

    /// Whether it can be published. From here on the lock cannot be taken away from it.
    fn check(&mut self) -> Result<(), CommitError> {
        self.check_not_lent()?;
        if let Err(error) = self.validate() {
            // Who was revoked finds what others have changed since; that is not why.
            self.seal()?;
            return Err(error);
        }
        if let (Some(receipt), true) = (&self.receipt, self.nodes.is_some())
            && self.store().receipt(&receipt.key).is_some()
        {
            let key = receipt.key.clone();
            return Err(CommitError::Repeated { key });
        }
        if let Some(schema) = self.store().schema() {
            schema.check(self.base(), &self.overlay, self.changes())?;
        }
        self.seal()
    }

    /// What was carried out, when nobody will ask any more.
    #[inline]
    pub(crate) fn take_executed(&mut self) -> Vec<ExecutedOperation> {
        std::mem::take(&mut self.operations)
    }

    /// From here on the lock is not taken away until the transaction is over.
    ///
    /// # Errors
    ///
    /// As [`check_grant`](Self::check_grant).
    #[inline]
    fn seal(&self) -> Result<(), CommitError> {
        match self.store().0.lock.seal(self.held.grant) {
            true => Ok(()),
            false => Err(self.grant_ended()),
        }
    }

    /// Whether its grant holds still. Then no other transaction was published since it began.
    ///
    /// # Errors
    ///
    /// [`CommitError::Revoked`], or [`CommitError::GrantEnded`].
    pub(crate) fn check_grant(&self) -> Result<(), CommitError> {
        match self.store().0.lock.is_granted(self.held.grant) {
            true => Ok(()),
            false => Err(self.grant_ended()),
        }
    }

    #[cold]
    fn grant_ended(&self) -> CommitError {
        let (id, owner) = (self.lock_id(), self.owner.clone());
        let holder = self.store().current_lock().map(Box::new);
        match self.held.grant.limited {
            true => CommitError::Revoked { id, owner, holder },
            false => CommitError::GrantEnded { id, owner, holder },
        }
    }

    /// What a repetition is to be told, if there is a key for it.
    fn receipt(&self, changed: bool) -> Option<Kept> {
        let Remembered {
            key,
            digest,
            selections,
        } = self.receipt.as_deref()?;
        let [selection_before, selection_after] = selections.clone();
        let receipt = Receipt {
            digest: *digest,
            transaction_id: self.id,
            // The next one: whoever holds the lock is the only one to publish.
            version: self.base().version() + u64::from(changed),
            changed,
            operations: self.operations.clone(),
            selection_before,
            selection_after,
        };
        Some((key.clone(), Arc::new(receipt)))
    }

    /// Forgets the changes and releases the lock. The store is as if the transaction had never
    /// been, but for the ids that it used up.
    pub fn rollback(self) {
        drop(self);
    }
}

impl View for Transaction {
    #[inline]
    fn node(&self, id: &NodeId) -> Option<&Node> {
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
