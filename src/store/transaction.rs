//! An open transaction: a draft, and the lock under which it is published.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;

use super::durable::Durability;
use super::nodes::{LaterWaits, OnNodes};
use super::publish::{FOLD_IN_PLACE, HeldGrant, Publication};
use super::publish_queue::Publish;
use super::{CommitError, DataStore, Draft, ObservedTransaction, TransactionResult};
use crate::codes::CodedError;
use crate::document::{EditError, Node, View};
use crate::id::{AsNodeId, LockId, NodeId, OwnerId};
use crate::lock::{FifoLock, Grant, WaiterKind, blocking};

/// A transaction: sees its own changes, and publishes them only when it is committed.
///
/// An open transaction holds the store's lock, so there is at most one. Every method either does
/// everything that it describes, or returns an error and does nothing. Dropping the transaction,
/// also by a panic, rolls it back and releases the lock.
///
/// It is a [`Draft`] and the lock under which that is published. It dereferences to the draft,
/// which has all methods that edit. The methods of [`View`] read the document with the
/// transaction's own changes included.
///
/// # On nodes
///
/// A transaction that [`DataStore::begin_on`] begins holds node locks instead, and runs beside
/// transactions that hold other nodes. It differs from other transactions as follows:
///
/// - A change locks the nodes that it needs and that are not locked yet, after a wait if necessary.
///   If that fails, the change returns [`EditError::NotLocked`] and the transaction can no longer
///   be committed. [`lock_error`](Draft::lock_error) returns the reason.
/// - The commit checks again each node that was read without a lock. If another commit has changed
///   one of them, it fails with [`CommitError::Conflict`](crate::CommitError::Conflict). So the
///   transaction has the effect that it would have if it ran alone at the moment of its commit.
/// - Its [`base`](Draft::base) advances with each lock. The commit does not check reads of the base
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
    owner: OwnerId,
    draft: Draft,
    held: HeldGrant,
    /// Dropped last: the lock outlives the draft.
    hold: TransactionHold,
}

/// A grant that its drop releases.
pub(crate) struct TransactionHold {
    store: DataStore,
    grant: Grant,
    is_released: bool,
    /// Whether it is that of a batch, whose submitter notes an error: another attempt may follow.
    is_of_batch: bool,
    /// Dropped after the lock is released.
    observed: ObservedTransaction,
}

impl TransactionHold {
    #[inline(always)]
    pub(crate) fn new(store: DataStore, grant: Grant, observed: ObservedTransaction) -> Self {
        Self {
            store,
            grant,
            is_released: false,
            is_of_batch: false,
            observed,
        }
    }

    fn release(&mut self) {
        if !std::mem::replace(&mut self.is_released, true) {
            self.store.0.lock.leave_grant(self.grant.id());
        }
    }

    /// What observes the transaction, for a submitter that does it in place of the hold.
    pub(crate) fn take_observed(&mut self) -> ObservedTransaction {
        std::mem::take(&mut self.observed)
    }
}

impl Drop for TransactionHold {
    fn drop(&mut self) {
        self.observed.dropped(self.is_of_batch);
        self.release();
        self.store.after_release();
    }
}

/// A grant of the calling thread. Its drop runs what waiting requests carry, or releases the lock.
pub(crate) struct CombinerGrant<'a> {
    pub(crate) store: &'a DataStore,
    pub(crate) lock: &'a FifoLock,
    pub(crate) grant: Grant,
    pub(crate) waits_as: WaiterKind,
    pub(crate) without_combining: bool,
}

impl Drop for CombinerGrant<'_> {
    fn drop(&mut self) {
        if !self.lock.leave_if_alone(self.grant.id()) {
            // A thread that unwinds does not combine.
            match self.without_combining || std::thread::panicking() {
                true => self.lock.leave_grant(self.grant.id()),
                false => self.lock.leave_and_serve(self.grant, self.waits_as),
            }
        }
        self.store.after_release();
    }
}

impl Transaction {
    #[inline(always)]
    pub(super) fn begin(
        store: &DataStore,
        grant: Grant,
        owner: OwnerId,
        nodes: Option<Box<OnNodes>>,
        observed: ObservedTransaction,
    ) -> Self {
        let (mut held, mut draft) = store.draft_under(grant);
        held.on_nodes = nodes.is_some();
        draft.nodes = nodes;
        Self {
            owner,
            held,
            draft,
            hold: TransactionHold::new(store.clone(), grant, observed),
        }
    }

    /// The owner, the hold, and the draft that can be published under it.
    pub(crate) fn into_parts(self) -> (OwnerId, TransactionHold, (HeldGrant, Draft)) {
        (self.owner, self.hold, (self.held, self.draft))
    }

    /// A draft without locks of the last version, which can take the place of its own.
    pub(crate) fn without_locks(&mut self) -> Draft {
        self.draft.overlay.advance(self.hold.store.snapshot());
        let mut unlocked = Draft::without_locks(&self.draft.document, self.base().clone());
        unlocked.id = self.draft.id;
        unlocked
    }

    /// The draft, and the grant under which it can be published.
    pub(crate) fn parts_mut(&mut self) -> (HeldGrant, &mut Draft) {
        (self.held, &mut self.draft)
    }

    /// Lets a submitter of a batch observe the transaction.
    pub(crate) fn observe_as_batch(&mut self, observed: ObservedTransaction) {
        self.hold.observed = observed;
        self.hold.is_of_batch = true;
    }

    pub(super) fn observe_as(&mut self, observed: ObservedTransaction) {
        self.hold.observed = observed;
    }

    /// What observes the transaction, for a submitter that does it in place of the hold.
    pub(crate) fn take_observed(&mut self) -> ObservedTransaction {
        self.hold.take_observed()
    }

    pub(crate) fn store(&self) -> &DataStore {
        &self.hold.store
    }

    /// Returns the owner of the transaction.
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// Returns the id of the lock under which the transaction runs.
    pub fn lock_id(&self) -> LockId {
        self.hold.grant.id()
    }

    /// Discards the changes and releases the lock.
    ///
    /// The store is as before the transaction, except for the ids that the transaction used up.
    pub fn rollback(self) {
        drop(self);
    }

    /// Publishes the changes as the next version, sends the event and releases the lock.
    ///
    /// A transaction without changes makes no version and no event.
    ///
    /// # Errors
    ///
    /// [`CommitError`]: the document would violate the store's schema, the lock was revoked, or
    /// code has put the draft of another transaction in the place of its own. The transaction is
    /// rolled back then. Other
    /// variants concern transactions on nodes, leases, idempotency keys and inboxes.
    ///
    /// In a [durable](crate::durable) store it waits for the journal after the release, as the
    /// options of the store say.
    pub fn commit(self) -> Result<TransactionResult, CommitError> {
        self.commit_acknowledged(None)
    }

    /// Commits as [`commit`](Self::commit) does, and sets when it returns in a
    /// [durable](crate::durable) store.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    ///
    /// ```
    /// use doclock::{DataStore, document::NodeSpec, durable::Durability};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let store = DataStore::open(folder.path().join("notes.doclock"))?;
    /// let mut transaction = store.begin("ann")?;
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// let result = transaction.commit_with(Durability::Later)?;
    /// assert_eq!(store.wait_durable(result.version).wait()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit_with(self, durability: Durability) -> Result<TransactionResult, CommitError> {
        self.commit_acknowledged(Some(durability))
    }

    /// Commits as [`commit`](Self::commit) does. The task waits without blocking its thread: on
    /// nodes while others publish, and in a [durable](crate::durable) store for the journal.
    ///
    /// The future publishes the changes when it is first polled, or on nodes as soon as it may. If
    /// it is dropped before that, the transaction is rolled back. If it is dropped later, the
    /// commit stays, and becomes durable with the next write.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub async fn commit_async(mut self) -> Result<TransactionResult, CommitError> {
        let mut publication = Publication::by(&self.owner);
        let outcome = match self.publish_at_once(WaiterKind::Task, &mut publication) {
            Some(outcome) => outcome,
            None => {
                let waiting = self.publish_in_queue(WaiterKind::Task, publication);
                let (published, _, outcome) = waiting.await;
                self = published;
                outcome
            }
        };
        self.note_end(&outcome);
        let result = outcome?;
        let (store, mut observed) = self.into_acknowledging();
        let acknowledged = store.acknowledge_as(WaiterKind::Task, &result, None).await;
        observed.acknowledge(acknowledged)?;
        Ok(result)
    }

    #[inline(always)]
    fn commit_acknowledged(
        mut self,
        durability: Option<Durability>,
    ) -> Result<TransactionResult, CommitError> {
        let mut publication = Publication::by(&self.owner);
        let outcome = match self.publish_at_once(WaiterKind::Thread, &mut publication) {
            Some(outcome) => outcome,
            None => {
                let waiting = self.publish_in_queue(WaiterKind::Thread, publication);
                let (published, _, outcome) = blocking(waiting);
                self = published;
                outcome
            }
        };
        self.note_end(&outcome);
        if !self.hold.store.is_durable() {
            return outcome;
        }
        let result = outcome?;
        let (store, mut observed) = self.into_acknowledging();
        observed.acknowledge(store.acknowledge(&result, durability))?;
        Ok(result)
    }

    /// Publishes the draft. On nodes, only if no other transaction publishes or waits for that:
    /// otherwise it has to wait [in the queue](Self::publish_in_queue).
    #[inline(always)]
    fn publish_at_once(
        &mut self,
        waits_as: WaiterKind,
        publication: &mut Publication<'static>,
    ) -> Option<Result<TransactionResult, CommitError>> {
        match self.held.on_nodes {
            true => self.publish_if_first(waits_as, publication),
            false => Some(publication.publish(self)),
        }
    }

    /// Publishes the draft. The caller has excluded all other commits.
    #[inline(always)]
    pub(super) fn publish<E: From<CommitError>>(
        &mut self,
        publication: Publication,
    ) -> Result<TransactionResult, E> {
        let store = &self.hold.store;
        store.publish(self.held, &mut self.draft, publication)
    }

    /// Publishes the draft of a transaction on nodes, and releases the nodes. The caller has
    /// excluded all other commits.
    #[inline(never)]
    pub(super) fn publish_and_release<P: Publish>(
        &mut self,
        how: &mut P,
    ) -> Result<TransactionResult, P::Error> {
        let outcome = how.publish(self);
        if outcome.is_ok() || !self.hold.is_of_batch {
            // Here, because the submitter may be gone, and the hold ends here.
            self.note_end(&outcome);
        }
        self.hold.release();
        outcome
    }

    #[inline(always)]
    fn note_end<E: CodedError>(&mut self, outcome: &Result<TransactionResult, E>) {
        let noted = outcome.as_ref().map_err(E::code);
        self.hold.observed.ended(noted);
    }

    /// Releases the lock. Returns what waits for the journal.
    fn into_acknowledging(mut self) -> (DataStore, ObservedTransaction) {
        (self.hold.store.clone(), self.hold.take_observed())
    }

    /// Whether its commit takes microseconds.
    pub(super) fn is_published_briefly(&self) -> bool {
        const BRIEF: usize = 512;
        let nodes = self.draft.nodes.as_ref();
        let reads = nodes.map_or(0, |nodes| nodes.read_count());
        self.draft.overlay.weight() <= FOLD_IN_PLACE && self.draft.changes().len() + reads <= BRIEF
    }

    /// Whether a commit fails without a wait: a lock has failed, or the draft is another one.
    pub(super) fn is_unpublishable(&self) -> bool {
        self.draft.lock_error().is_some() || !self.store().is_own(self.held, &self.draft)
    }

    /// How it waits after its first request.
    pub(super) fn later_waits(&self) -> LaterWaits {
        let nodes = self.draft.nodes.as_ref();
        let waits = nodes.and_then(|nodes| nodes.later_waits());
        waits.unwrap_or_else(|| LaterWaits {
            timeout: self.store().fifo().timeout(),
            without_combining: false,
            call_site: Location::caller(),
        })
    }
}

impl Deref for Transaction {
    type Target = Draft;

    #[inline]
    fn deref(&self) -> &Draft {
        &self.draft
    }
}

impl DerefMut for Transaction {
    #[inline]
    fn deref_mut(&mut self) -> &mut Draft {
        &mut self.draft
    }
}

impl View for Transaction {
    #[inline]
    fn node(&self, id: impl AsNodeId) -> Option<&Node> {
        self.draft.node(id)
    }

    fn glimpse(&self, id: &NodeId) -> Option<&Node> {
        self.draft.glimpse(id)
    }

    fn root(&self) -> Option<&NodeId> {
        self.draft.root()
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = &Node> + '_> {
        self.draft.nodes()
    }

    fn missing(&self, id: &NodeId) -> EditError {
        self.draft.missing(id)
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("id", &self.id())
            .field("owner", &self.owner)
            .field("lock", &self.lock_id())
            .field("base", self.base())
            .field("changes", &self.changes().len())
            .finish()
    }
}
