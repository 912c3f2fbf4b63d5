//! The order in which transactions on nodes are published.
//!
//! They edit beside each other, and publish one after the other, in the order in which they request
//! a FIFO lock. It is free unless another transaction publishes at this moment. A request that
//! waits carries its transaction. The thread that publishes the one ahead of it also publishes this
//! one, so a burst of commits does not wait for a wake-up between any two of them. It also releases
//! the nodes, which must not stay locked until the submitter runs again.

use std::ops::ControlFlow;
use std::pin::Pin;

use smol_str::SmolStr;

use super::nodes::LaterWaits;
use super::publish::Publication;
use super::transaction::CombinerGrant;
use super::{CommitError, DataStore, Transaction, TransactionResult};
use crate::lock::{
    AcquireOptions, Answer, FifoLock, Grant, LockReport, QueuedWork, Requester, WaiterKind,
};

/// The label of the requests.
const PUBLISHES: SmolStr = SmolStr::new_static("publishes");

type CommitResult = Result<TransactionResult, CommitError>;

/// A transaction that waits until it may publish.
struct QueuedCommit {
    transaction: Transaction,
    publication: Publication,
}

impl QueuedWork for QueuedCommit {
    type Reply = CommitResult;

    fn is_for_any_thread(&self) -> bool {
        true
    }

    fn is_brief(&self) -> bool {
        self.transaction.is_published_briefly()
    }

    fn run(&mut self, _: Grant) -> CommitResult {
        let nothing = Publication::by(self.transaction.owner());
        let publication = std::mem::replace(&mut self.publication, nothing);
        self.transaction.publish_and_release(publication)
    }
}

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
    pub(crate) fn publish_if_first(
        &mut self,
        waits_as: WaiterKind,
        publication: Publication,
    ) -> ControlFlow<CommitResult, Publication> {
        if self.is_unpublishable() {
            return ControlFlow::Break(self.publish_and_release(publication));
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
            return ControlFlow::Continue(publication);
        };
        let _held = store.publishing_under(grant, waits_as, waits);
        ControlFlow::Break(self.publish_and_release(publication))
    }

    /// Publishes the draft of a transaction on nodes after those that have asked before, and
    /// releases the nodes. Returns the transaction with the outcome.
    ///
    /// A future that is dropped while it waits drops the transaction, unless another thread
    /// publishes it at this moment.
    pub(crate) fn publish_in_queue(
        self,
        waits_as: WaiterKind,
        publication: Publication,
    ) -> Pin<Box<dyn Future<Output = (Self, CommitResult)> + Send>> {
        // On the heap: it is larger than all the rest of the caller's future.
        Box::pin(self.wait_to_publish(waits_as, publication))
    }

    async fn wait_to_publish(
        self,
        waits_as: WaiterKind,
        publication: Publication,
    ) -> (Self, CommitResult) {
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
            publication,
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
            Err(error) => Err(CommitError::NotLocked(Box::new(error))),
        };
        (left.transaction, published)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::Location;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};
    use std::thread::{self, JoinHandle};
    use std::time::Duration;

    use super::*;
    use crate::document::NodeSpec;
    use crate::id::OwnerId;
    use crate::lock::node::Scope;
    use crate::lock::{CancelToken, LockError};
    use crate::store::StoreOptions;
    use crate::time::ManualClock;

    const NODES: [&str; 3] = ["one", "two", "three"];

    fn store(options: StoreOptions) -> DataStore {
        let store = DataStore::with_options(options);
        let mut transaction = store.begin("setup").unwrap();
        for id in NODES {
            transaction
                .create(NodeSpec::new("text").with_id(id))
                .unwrap();
        }
        transaction.commit().unwrap();
        store
    }

    /// Writes its own name into a node. Not committed yet.
    fn write(store: &DataStore, id: &str) -> Transaction {
        let mut transaction = store.begin_on(id, Scope::new().write(id)).unwrap();
        transaction.set_text(id, id).unwrap();
        transaction
    }

    /// Publishes nothing, for as long as the grant is held.
    fn hold(store: &DataStore) -> Grant {
        let (options, owner) = (AcquireOptions::new(), OwnerId::from("first"));
        let requester = options.requester(&owner, Location::caller(), true);
        let granted = store.publish_queue().try_grant(&requester, &options);
        granted.unwrap().expect("no transaction publishes")
    }

    fn wait_for_waiters(store: &DataStore, count: usize) {
        while store.publish_queue().queue_length() != count {
            thread::yield_now();
        }
    }

    /// Commits in other threads. Each waits to publish when the next one begins.
    fn commit_in_threads(store: &DataStore) -> Vec<JoinHandle<CommitResult>> {
        let commit = |(nth, id): (usize, &'static str)| {
            let own = store.clone();
            let committing = thread::spawn(move || write(&own, id).commit());
            wait_for_waiters(store, nth + 1);
            committing
        };
        NODES.into_iter().enumerate().map(commit).collect()
    }

    #[test]
    fn transactions_on_nodes_publish_in_the_order_in_which_they_ask() {
        for combines in [true, false] {
            let store = store(StoreOptions::new());
            let grant = hold(&store);
            let committing = commit_in_threads(&store);
            assert_eq!(store.version(), 1);
            match combines {
                true => store
                    .publish_queue()
                    .leave_and_serve(grant, WaiterKind::Thread),
                false => store.publish_queue().leave_grant(grant.id()),
            }
            let versions = committing
                .into_iter()
                .map(|committing| committing.join().unwrap().unwrap().version);
            assert!(versions.eq(2..=4));
            assert!(!store.publish_queue().is_locked());
            assert!(store.node_locks().holders().is_empty());
        }
    }

    #[test]
    fn diagnostics_name_who_publishes_and_who_waits_for_that() {
        let store = store(StoreOptions::new());
        assert_eq!(store.diagnostics().publishing, None);
        let held = store.publish_queue().lock("first").unwrap();
        let committing = commit_in_threads(&store);
        let diagnostics = store.diagnostics();
        let publishing = diagnostics.publishing.as_ref().unwrap();
        assert_eq!(publishing.holders[0].holder.owner_id.as_str(), "first");
        let waiting = publishing.waiters.iter().map(|waiter| &waiter.request);
        let waiting = waiting.map(|it| (it.owner_id.as_str(), it.label.as_deref()));
        assert!(waiting.eq(NODES.map(|id| (id, Some("publishes")))));
        let text = diagnostics.to_string();
        assert!(text.contains("PUBLISHING"), "{text}");
        drop(held);
        for committing in committing {
            committing.join().unwrap().unwrap();
        }
        assert_eq!(store.diagnostics().publishing, None);
    }

    #[test]
    fn a_commit_that_times_out_before_it_may_publish_names_who_publishes() {
        let clock = ManualClock::new();
        let options = StoreOptions::new().clock(clock.clock());
        let store = store(options.lock_timeout(Duration::from_secs(3)));
        let held = store.publish_queue().lock("first").unwrap();
        let transaction = write(&store, "one");
        let committing = thread::spawn(move || transaction.commit());
        wait_for_waiters(&store, 1);
        clock.advance(Duration::from_secs(3));
        let error = committing.join().unwrap().unwrap_err();
        let CommitError::NotLocked(cause) = &error else {
            panic!("{error:?}");
        };
        let LockError::Timeout(evidence) = &**cause else {
            panic!("{cause:?}");
        };
        assert_eq!(evidence.holder.owner_id.as_str(), "first");
        assert_eq!(store.version(), 1);
        assert!(store.node_locks().holders().is_empty(), "it is rolled back");
        drop(held);
    }

    /// A transaction that is not bound to this thread.
    fn begin_unbound(store: &DataStore, id: &str, options: AcquireOptions) -> Transaction {
        let request = store.request_transaction(id).options(options.unbound());
        let mut transaction = request.on(Scope::new().write(id)).wait().unwrap();
        transaction.set_text(id, id).unwrap();
        transaction
    }

    #[test]
    fn the_options_of_a_request_for_nodes_refuse_no_commit() {
        let store = store(StoreOptions::new());
        let grant = hold(&store);
        let token = CancelToken::new();
        let options = AcquireOptions::new().no_wait().queue_bound(0);
        let options = options.cancel_token(&token);
        let transactions = ["one", "two"].map(|id| begin_unbound(&store, id, options.clone()));
        token.cancel();
        let mut committing = Vec::new();
        for transaction in transactions {
            let before = committing.len();
            committing.push(thread::spawn(move || transaction.commit()));
            wait_for_waiters(&store, before + 1);
        }
        store.publish_queue().leave_grant(grant.id());
        for committing in committing {
            committing.join().unwrap().unwrap();
        }
        assert_eq!(store.version(), 3);
    }

    #[test]
    fn a_commit_of_a_request_without_timeout_waits_without_limit() {
        let clock = ManualClock::new();
        let options = StoreOptions::new().clock(clock.clock());
        let store = store(options.lock_timeout(Duration::from_secs(3)));
        let grant = hold(&store);
        let transaction = begin_unbound(&store, "one", AcquireOptions::new().no_timeout());
        let committing = thread::spawn(move || transaction.commit());
        wait_for_waiters(&store, 1);
        clock.advance(Duration::from_secs(60));
        store.publish_queue().leave_grant(grant.id());
        assert_eq!(committing.join().unwrap().unwrap().version, 2);
    }

    #[test]
    fn a_commit_that_must_fail_does_not_wait() {
        let store = store(StoreOptions::new());
        let _held = store.publish_queue().lock("first").unwrap();
        let begin = |id| begin_unbound(&store, id, AcquireOptions::new());
        let (mut one, mut two) = (begin("one"), begin("two"));
        std::mem::swap(&mut *one, &mut *two);
        for swapped in [one, two] {
            let error = swapped.commit().unwrap_err();
            assert!(matches!(error, CommitError::ForeignDraft { .. }), "{error}");
        }
    }

    #[test]
    fn a_task_that_is_dropped_while_it_waits_to_publish_rolls_back() {
        let store = store(StoreOptions::new());
        let _held = store.publish_queue().lock("first").unwrap();
        {
            let mut dropped = pin!(write(&store, "one").commit_async());
            assert!(poll(dropped.as_mut()).is_pending());
            assert_eq!(store.publish_queue().queue_length(), 1);
        }
        assert!(store.node_locks().holders().is_empty());
        assert_eq!(store.publish_queue().queue_length(), 0);
        assert_eq!(store.version(), 1);
    }

    #[test]
    fn a_commit_releases_its_nodes_although_its_task_is_not_polled() {
        let store = store(StoreOptions::new());
        let held = store.publish_queue().lock("first").unwrap();
        let transaction = begin_unbound(&store, "one", AcquireOptions::new());
        let mut committing = pin!(transaction.commit_async());
        assert!(poll(committing.as_mut()).is_pending());
        drop(held);
        drop(store.lock("other").unwrap());
        assert_eq!(store.version(), 2);
        let committed = loop {
            match poll(committing.as_mut()) {
                Poll::Ready(committed) => break committed.unwrap(),
                // The nodes are released before the task is answered.
                Poll::Pending => thread::yield_now(),
            }
        };
        assert_eq!(committed.version, 2);
    }

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }
}
