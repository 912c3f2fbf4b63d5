//! Transactions that are committed only under a lease.

use std::sync::Arc;

use super::{Lease, LeaseError, LeaseLost};
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

impl Required {
    fn lost(&self, published: &Published) -> Option<LeaseLost> {
        let now = self.store.0.lock.now();
        let leases = published.snapshot.held();
        match (leases.live(self.token, now), &self.holding) {
            (Some(_), _) => None,
            (None, Some(holding)) => Some(LeaseLost::new(holding, leases, now)),
            (None, None) => Some(LeaseLost::unknown(self.token)),
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
    /// Has the transaction committed only if this lease lasts still, in the very moment in which its changes appear. Otherwise the
    /// commit is refused with [`CommitError::LeaseLost`], also if it changed nothing. Never waits.
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
    /// [`LeaseError::Lost`]: it has ended already. [`LeaseError::OtherStore`]: it is of another store. The commit will be refused.
    pub fn require(&mut self, lease: &Lease) -> Result<(), LeaseError> {
        let holding = Some(Arc::clone(&lease.holding));
        if Arc::ptr_eq(&lease.store.0, &self.store().0) {
            return self.require_holding(lease.fencing_token(), holding);
        }
        // Numbers of two stores agree by chance; no lease has this one.
        let _ = self.require_holding(FencingToken(0), holding);
        Err(LeaseError::OtherStore)
    }

    /// As [`require`](Self::require), for whoever knows only the token.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Lost`]: there is no such lease, or it has ended. The commit will be refused.
    pub fn require_token(&mut self, token: FencingToken) -> Result<(), LeaseError> {
        let lease = self.store().lease_by_token(token);
        self.require_holding(token, lease.map(|lease| lease.holding))
    }

    fn require_holding(
        &mut self,
        token: FencingToken,
        holding: Option<Arc<Holding>>,
    ) -> Result<(), LeaseError> {
        let required = Required {
            store: self.store().clone(),
            token,
            holding,
        };
        let lost = required.lost(&self.store().0.published.lock());
        // Also if it is lost already: whoever goes on in spite of the error is refused by the commit.
        self.on_terms(Box::new(required));
        lost.map_or(Ok(()), |lost| Err(lost.into()))
    }
}
