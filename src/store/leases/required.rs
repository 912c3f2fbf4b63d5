//! Transactions that are committed only under a lease.

use std::sync::Arc;

use super::{Lease, LeaseLost};
use crate::document::Holding;
use crate::id::FencingToken;
use crate::store::{CommitError, DataStore, Published, Term, Transaction};

/// That a lease lasts still when the transaction is published.
struct Required {
    store: DataStore,
    token: FencingToken,
    /// To be able to say what was lost, if it was known when it was asked for.
    holding: Option<Arc<Holding>>,
}

impl Term for Required {
    fn check(&self, published: &Published) -> Result<(), CommitError> {
        let now = self.store.0.lock.now();
        let leases = published.snapshot.held();
        if leases.live(self.token, now).is_some() {
            return Ok(());
        }
        let lost = match &self.holding {
            Some(holding) => LeaseLost::new(holding, leases, now),
            None => LeaseLost::unknown(self.token),
        };
        Err(CommitError::LeaseLost(Box::new(lost)))
    }

    fn fulfil(&mut self, _published: &mut Published) {}
}

/// # Leases
impl Transaction {
    /// Has the transaction committed only if this lease lasts still, in the very moment in which its changes appear. Otherwise the
    /// commit is refused with [`CommitError::LeaseLost`], also if it changed nothing.
    ///
    /// Whoever takes over what the lease was on has done so before that moment, and the commit is refused, or after it, and sees
    /// what was committed. Several leases can be required. What is required stays so, also if a savepoint before it is
    /// returned to.
    ///
    /// ```
    /// use doclock::{CommitError, DataStore, ManualClock, NodeSpec, StoreOptions};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
    /// let lease = store.lease("ann", "teller-1", Duration::from_secs(5))?;
    /// let mut transaction = store.begin("teller-1")?;
    /// transaction.require(&lease);
    /// transaction.create(NodeSpec::new("account").with_id("ann"))?;
    ///
    /// clock.advance(Duration::from_secs(5));
    /// let error = transaction.commit().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "not committed: the lease of teller-1 on node ann (fencing token 1) has ended",
    /// );
    /// assert!(matches!(error, CommitError::LeaseLost(_)));
    /// assert!(store.snapshot().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn require(&mut self, lease: &Lease) {
        self.require_holding(lease.fencing_token(), Some(Arc::clone(&lease.holding)));
    }

    /// As [`require`](Self::require), for whoever knows only the token.
    pub fn require_token(&mut self, token: FencingToken) {
        let published = self.store().0.published.lock();
        let now = self.now();
        let holding = published.snapshot.held().live(token, now).cloned();
        drop(published);
        self.require_holding(token, holding);
    }

    fn require_holding(&mut self, token: FencingToken, holding: Option<Arc<Holding>>) {
        let store = self.store().clone();
        self.on_terms(Box::new(Required {
            store,
            token,
            holding,
        }));
    }
}
