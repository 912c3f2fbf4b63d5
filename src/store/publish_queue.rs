//! The order in which transactions on nodes are published.
//!
//! They edit beside each other, and publish one after the other, in the order in which they request
//! a FIFO lock. It is free unless another transaction publishes at this moment. A request that
//! waits carries its transaction. The thread that publishes the one ahead of it also publishes this
//! one, so a burst of commits does not wait for a wake-up between any two of them. It also releases
//! the nodes, which must not stay locked until the submitter runs again.

use std::pin::Pin;

use smol_str::SmolStr;

use super::nodes::LaterWaits;
use super::publish::Publication;
use super::transaction::CombinerGrant;
use super::{CommitError, DataStore, Transaction, TransactionResult};
use crate::codes::CodedError;
use crate::lock::{
    AcquireOptions, Answer, FifoLock, Grant, LeftWork, LockReport, QueuedWork, Requester,
    WaiterKind,
};

/// The label of the requests.
const PUBLISHES: SmolStr = SmolStr::new_static("publishes");

/// How a transaction on nodes is published, in whichever thread may. It runs no code of users.
pub(crate) trait Publish: Send + 'static {
    type Error: From<CommitError> + CodedError + Send + 'static;

    /// Whether it takes microseconds.
    fn is_brief(&self, transaction: &Transaction) -> bool {
        transaction.is_published_briefly()
    }

    /// Publishes the draft of a transaction. The caller has excluded all other commits.
    fn publish(&mut self, transaction: &mut Transaction) -> Result<TransactionResult, Self::Error>;
}

/// The draft as it is, for a submitter that has no session.
impl Publish for Publication<'static> {
    type Error = CommitError;

    #[inline]
    fn publish(&mut self, transaction: &mut Transaction) -> Result<TransactionResult, CommitError> {
        transaction.publish(std::mem::take(self))
    }
}

/// A transaction that waits until it may publish.
struct QueuedCommit<P> {
    transaction: Transaction,
    how: P,
    /// Whether a task waits for it, which may never be polled again.
    by_task: bool,
}

impl<P: Publish> QueuedWork for QueuedCommit<P> {
    type Reply = Result<TransactionResult, P::Error>;

    fn is_for_any_thread(&self) -> bool {
        true
    }

    fn is_brief(&self) -> bool {
        self.how.is_brief(&self.transaction)
    }

    fn run(&mut self, _: Grant) -> Self::Reply {
        let outcome = self.transaction.publish_and_release(&mut self.how);
        if self.by_task && outcome.is_ok() {
            self.transaction.store().wake_writer();
        }
        outcome
    }

    fn after_keeper(&self) -> Option<LeftWork> {
        Some(self.transaction.store().after_keeper())
    }
}

/// What a transaction that has waited to publish leaves: itself, how it was published, the outcome.
pub(crate) type PublishedInQueue<P> = (
    Transaction,
    P,
    Result<TransactionResult, <P as Publish>::Error>,
);

impl DataStore {
    /// The lock under which transactions on nodes publish, made when the first of them does.
    pub(super) fn publish_queue(&self) -> &FifoLock {
        let parts = self.0.log.lazy.get_or_make();
        match parts.publishing.get() {
            Some(lock) => lock,
            None => {
                let options = self.0.lock.companion_options();
                let made = || FifoLock::with_options(options);
                parts.publishing.get_or_init(made)
            }
        }
    }

    /// The right to publish, whose drop publishes the transactions that wait, or lets the next one.
    fn publishing_under(
        &self,
        grant: Grant,
        waits_as: WaiterKind,
        waits: LaterWaits,
    ) -> CombinerGrant<'_> {
        CombinerGrant {
            store: self,
            lock: self.publish_queue(),
            grant,
            waits_as,
            without_combining: waits.without_combining,
        }
    }

    /// Reads who publishes and who waits for that. `None` if no transaction on nodes publishes.
    pub(super) fn publishing_diagnostics(&self) -> Option<LockReport> {
        let lock = self.0.log.lazy.get()?.publishing.get()?;
        lock.is_locked()
            .then(|| lock.diagnostics())
            .filter(|publishing| !publishing.holders.is_empty())
    }

    /// Times out the wait of `owner` to publish.
    #[cfg(loom)]
    pub(super) fn expire_publishing(&self, owner: &crate::id::OwnerId) {
        let parts = self.0.log.lazy.get();
        if let Some(lock) = parts.and_then(|parts| parts.publishing.get()) {
            lock.expire(owner.clone());
        }
    }
}

impl Transaction {
    /// Publishes the draft of a transaction on nodes, if no other one publishes or waits for that,
    /// and releases the nodes. Otherwise it has to wait [in the queue](Self::publish_in_queue).
    #[inline(never)]
    pub(crate) fn publish_if_first<P: Publish>(
        &mut self,
        waits_as: WaiterKind,
        how: &mut P,
    ) -> Option<Result<TransactionResult, P::Error>> {
        if self.is_unpublishable() {
            return Some(self.publish_and_release(how));
        }
        let store = self.store().clone();
        let lock = store.publish_queue();
        let waits = self.later_waits();
        let options = AcquireOptions::new();
        let requester = Requester {
            label: Some(&PUBLISHES),
            ..options.requester(self.owner(), waits.call_site, true)
        };
        let Ok(Some(grant)) = lock.try_grant(&requester, &options) else {
            return None;
        };
        let _held = store.publishing_under(grant, waits_as, waits);
        Some(self.publish_and_release(how))
    }

    /// Publishes the draft of a transaction on nodes as soon as it may, and releases the nodes.
    pub(crate) async fn publish_on_nodes<P: Publish>(
        mut self,
        waits_as: WaiterKind,
        mut how: P,
    ) -> PublishedInQueue<P> {
        match self.publish_if_first(waits_as, &mut how) {
            Some(outcome) => (self, how, outcome),
            None => self.publish_in_queue(waits_as, how).await,
        }
    }

    /// Publishes the draft of a transaction on nodes after those that have asked before, and
    /// releases the nodes.
    ///
    /// A future that is dropped while it waits drops the transaction, unless another thread
    /// publishes it at this moment.
    pub(crate) fn publish_in_queue<P: Publish>(
        self,
        waits_as: WaiterKind,
        how: P,
    ) -> Pin<Box<dyn Future<Output = PublishedInQueue<P>> + Send>> {
        // On the heap: it is larger than all the rest of the caller's future.
        Box::pin(self.wait_to_publish(waits_as, how))
    }

    async fn wait_to_publish<P: Publish>(
        self,
        waits_as: WaiterKind,
        how: P,
    ) -> PublishedInQueue<P> {
        let (store, owner) = (self.store().clone(), self.owner().clone());
        let lock = store.publish_queue();
        let waits = self.later_waits();
        // A transaction that may not wait for nodes has them, and still waits until it may publish.
        let options = match waits.timeout.filter(|limit| !limit.is_zero()) {
            Some(limit) => AcquireOptions::new().timeout(limit),
            None => AcquireOptions::new().no_timeout(),
        };
        let options = options.label(PUBLISHES);
        let requester = options.requester_as(waits_as, &owner, waits.call_site, true);
        let mut work = Some(QueuedCommit {
            transaction: self,
            how,
            by_task: waits_as == WaiterKind::Task,
        });
        let asked = lock.ask(waits_as, &requester, &options, &mut work);
        let answer = asked.await;
        let mut left = work.expect("a request gives its work back");
        let published = match answer {
            Ok(Answer::Done(published)) => published,
            Ok(Answer::Granted(grant)) => {
                let _held = store.publishing_under(grant, waits_as, waits);
                if waits_as == WaiterKind::Task {
                    // It is run within this poll.
                    lock.bind(grant);
                }
                left.run(grant)
            }
            Err(error) => Err(CommitError::NotLocked(Box::new(error)).into()),
        };
        (left.transaction, left.how, published)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../../tests/unit/publish_queue.rs"]
mod tests;
