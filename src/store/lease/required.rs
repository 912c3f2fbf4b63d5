//! Transactions that commit only under a lease.

use std::sync::Arc;

use super::table::Holding;
use super::{Lease, LeaseError, LeaseLost};
use crate::id::FencingToken;
use crate::store::notes::NoteChange;
use crate::store::{
    Bookkeeping, CommitCondition, CommitError, Draft, PublishedState, SharedDocument,
};

/// The condition that a lease still lasts when the transaction is published.
struct LeaseCondition {
    document: Arc<SharedDocument>,
    holding: Arc<Holding>,
}

impl LeaseCondition {
    fn lost(&self, last: &PublishedState) -> Option<LeaseLost> {
        let now = self.document.clock.now();
        let leases = &last.leases;
        match leases.live(self.holding.token, now) {
            Some(_) => None,
            None => Some(LeaseLost::new(&self.holding, leases, now)),
        }
    }
}

impl CommitCondition for LeaseCondition {
    fn check(&self, last: &PublishedState, _bookkeeping: &Bookkeeping) -> Result<(), CommitError> {
        let lost = self.lost(last);
        lost.map_or(Ok(()), |lost| Err(CommitError::LeaseLost(Box::new(lost))))
    }

    fn apply(&mut self, _bookkeeping: &mut Bookkeeping) -> Vec<NoteChange> {
        Vec::new()
    }
}

/// # Leases
impl Draft {
    /// Commits the transaction only if this lease still lasts at the moment at which the changes
    /// appear.
    ///
    /// Otherwise the commit fails with [`CommitError::LeaseLost`], even if the transaction changed
    /// nothing. Never waits.
    ///
    /// The next owner of the targets takes its lease before that moment, and the commit fails, or
    /// after it, and reads the committed changes. A transaction can require several leases.
    /// Returning to a savepoint drops the requirements that were added since.
    ///
    /// ```
    /// use doclock::{CommitError, DataStore, StoreOptions, document::NodeSpec, time::ManualClock};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
    /// let lease = store.leases().acquire("ann", "teller-1", Duration::from_secs(5))?;
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
    /// [`LeaseError::Lost`]: the lease has ended already. [`LeaseError::OtherStore`]: the lease is
    /// of another store. Nothing is required then.
    pub fn require(&mut self, lease: &Lease) -> Result<(), LeaseError> {
        if !Arc::ptr_eq(&lease.store.0.document, &self.document) {
            // Numbers of two stores agree by chance.
            return Err(LeaseError::OtherStore);
        }
        self.require_held(Arc::clone(&lease.holding))
    }

    fn require_held(&mut self, holding: Arc<Holding>) -> Result<(), LeaseError> {
        let required = LeaseCondition {
            document: Arc::clone(&self.document),
            holding,
        };
        let lost = required.lost(&self.document.published.lock());
        if let Some(lost) = lost {
            return Err(lost.into());
        }
        self.on_condition(Box::new(required));
        Ok(())
    }

    /// Requires a lease as [`require`](Self::require) does, by its token alone.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Lost`]: there is no such lease, or it has ended. Nothing is required then.
    pub fn require_token(&mut self, token: FencingToken) -> Result<(), LeaseError> {
        let now = self.document.clock.now();
        let held = self
            .document
            .published
            .lock()
            .leases
            .live(token, now)
            .cloned();
        match held {
            Some(holding) => self.require_held(holding),
            None => Err(LeaseLost::unknown(token).into()),
        }
    }
}
