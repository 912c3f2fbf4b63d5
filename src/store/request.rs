//! Requests for the lock of a store, by threads and by tasks, and the transactions that they begin.

use std::panic::Location;
use std::sync::Arc;

use super::publish::HeldGrant;
use super::{DataStore, Draft, Transaction, TransactionKind, TransactionResult};
use crate::document::Snapshot;
use crate::id::{LockId, OwnerId};
use crate::lock::{
    AcquireOptions, Grant, JoinError, LockError, LockGuard, LockRequest, NodesInstead,
    RequestContext, Scope, WaiterKind,
};

impl DataStore {
    pub(super) async fn begin_as(
        &self,
        waits_as: WaiterKind,
        owner: OwnerId,
        options: &AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<Transaction, LockError> {
        let requester = options.requester_as(waits_as, &owner, call_site, true);
        let mut observed = self.observe(TransactionKind::ByHand, &requester);
        let granted = self.0.lock.grant_as(waits_as, &requester, options).await;
        let grant = observed.grant(granted)?;
        Ok(Transaction::begin(self, grant, owner, None, observed))
    }

    #[track_caller]
    pub(crate) fn begin_under_as(
        &self,
        kind: TransactionKind,
        id: LockId,
    ) -> Result<Transaction, JoinError> {
        let call_site = Location::caller();
        let (owner, grant) = self.0.lock.join_grant(id)?;
        let options = AcquireOptions::new();
        let mut observed = self.observe(kind, &options.requester(&owner, call_site, true));
        observed.granted_at_once();
        Ok(Transaction::begin(self, grant, owner, None, observed))
    }

    /// The result of a transaction without operations.
    pub(crate) fn nothing_done(&self, owner: OwnerId) -> TransactionResult {
        let id = self.0.numbers.next_transaction();
        TransactionResult::nothing_done(id, self.version(), owner)
    }

    /// The document as last committed, for an open transaction. Its token is noted for the next
    /// version.
    pub(crate) fn snapshot_under(&self, grant: Grant) -> Snapshot {
        let published = self.0.document.published.lock();
        self.0.numbers.note_lock_token(grant.token);
        published.document.clone()
    }

    /// A draft of the last version, and the grant to a transaction under which it can be published.
    #[inline(always)]
    pub(crate) fn draft_under(&self, grant: Grant) -> (HeldGrant, Draft) {
        let id = self.0.numbers.next_transaction();
        let held = HeldGrant {
            grant,
            draft: id,
            on_nodes: false,
        };
        let document = Arc::clone(&self.0.document);
        (held, Draft::new(id, document, self.snapshot_under(grant)))
    }
}

/// A request for a guard of the lock.
#[derive(Debug)]
#[doc(hidden)]
pub struct StoreRequest {
    pub(super) store: DataStore,
    pub(super) owner: OwnerId,
}

impl LockRequest for StoreRequest {
    type Granted = LockGuard;
    type Error = LockError;

    fn try_grant(&mut self, context: &RequestContext) -> Result<Option<LockGuard>, LockError> {
        let requester = context.requester(&self.owner, false);
        let granted = self.store.fifo().try_grant(&requester, &context.options)?;
        Ok(granted.map(|grant| LockGuard::new(self.store.fifo().clone(), grant)))
    }

    async fn grant_as(self, context: RequestContext) -> Result<LockGuard, LockError> {
        let Self { store, owner } = self;
        let requester = context.requester(&owner, false);
        let lock = store.fifo();
        let asked = lock.grant_in_queue(context.waits_as, &requester, &context.options);
        let grant = asked.await?;
        Ok(LockGuard::new(store.fifo().clone(), grant))
    }
}

/// A request for a transaction that owns the lock.
#[derive(Debug)]
#[doc(hidden)]
pub struct TransactionRequest {
    pub(super) store: DataStore,
    pub(super) owner: OwnerId,
}

impl LockRequest for TransactionRequest {
    type Granted = Transaction;
    type Error = LockError;

    async fn grant_as(self, context: RequestContext) -> Result<Transaction, LockError> {
        let Self { store, owner } = self;
        let RequestContext {
            waits_as,
            options,
            call_site,
        } = context;
        store.begin_as(waits_as, owner, &options, call_site).await
    }
}

impl NodesInstead for TransactionRequest {
    type OnNodes = NodesTransactionRequest;

    fn on_nodes(self, scope: Scope) -> NodesTransactionRequest {
        let Self { store, owner } = self;
        NodesTransactionRequest {
            store,
            owner,
            scope,
        }
    }
}

/// A request for a transaction on nodes.
#[derive(Debug)]
#[doc(hidden)]
pub struct NodesTransactionRequest {
    store: DataStore,
    owner: OwnerId,
    scope: Scope,
}

impl LockRequest for NodesTransactionRequest {
    type Granted = Transaction;
    type Error = LockError;

    async fn grant_as(self, context: RequestContext) -> Result<Transaction, LockError> {
        let Self {
            store,
            owner,
            scope,
        } = self;
        store.begin_on_observed(context, owner, scope).await
    }
}
