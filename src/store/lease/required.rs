//! Transactions that are committed only under a lease.

use std::sync::Arc;

use super::{Lease, LeaseError, LeaseLost};
use crate::document::Holding;
use crate::id::FencingToken;
use crate::store::{CommitError, DataStore, Published, Term, Transaction};

/// That a lease lasts still when the transaction is published.
struct Required {
    store: DataStore,
    holding: Arc<Holding>,
}

impl Required {
    fn lost(&self, published: &Published) -> Option<LeaseLost> {
        let now = self.store.monotonic();
        let leases = published.snapshot.held();
        match leases.live(self.holding.token, now) {
            Some(_) => None,
            None => Some(LeaseLost::new(&self.holding, leases, now)),
        }
    }
}

impl Term for Required {
    fn check(&self, published: &Published) -> Result<(), CommitError> {
        let lost = self.lost(published);
        lost.map_or(Ok(()), |lost| Err(CommitError::LeaseLost(Box::new(lost))))
    }

    fn fulfil(&mut self, _published: &mut Published) {}
}

/// # Leases
impl Transaction {
    /// Has the transaction committed only if this lease lasts still, in the very moment in which
    /// its changes appear. Otherwise the commit is refused with [`CommitError::LeaseLost`], also if
    /// it changed nothing. Never waits.
    ///
    /// Whoever takes over what the lease was on has done so before that moment, and the commit is
    /// refused, or after it, and sees what was committed. Several leases can be required. What was
    /// required since a savepoint is not any more when that is returned to.
    ///
    /// ```
    /// use doclock::{CommitError, DataStore, StoreOptions, document::NodeSpec, time::ManualClock};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
    /// let lease = store.lease("ann", "teller-1", Duration::from_secs(5))?;
    /// let mut transaction = store.begin("teller-1")?;
    /// transaction.require(&lease)?;
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
    ///
    /// # Errors
    ///
    /// [`LeaseError::Lost`]: it has ended already. [`LeaseError::OtherStore`]: it is of another store. Nothing is required then.
    pub fn require(&mut self, lease: &Lease) -> Result<(), LeaseError> {
        if !Arc::ptr_eq(&lease.store.0, &self.store().0) {
            // Numbers of two stores agree by chance.
            return Err(LeaseError::OtherStore);
        }
        let required = Required {
            store: lease.store.clone(),
            holding: Arc::clone(&lease.holding),
        };
        let lost = required.lost(&self.store().0.published.lock());
        if let Some(lost) = lost {
            return Err(lost.into());
        }
        self.on_terms(Box::new(required));
        Ok(())
    }

    /// As [`require`](Self::require), for whoever knows only the token.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Lost`]: there is no such lease, or it has ended. Nothing is required then.
    pub fn require_token(&mut self, token: FencingToken) -> Result<(), LeaseError> {
        match self.store().lease_by_token(token) {
            Some(lease) => self.require(&lease),
            None => Err(LeaseLost::unknown(token).into()),
        }
    }
}
