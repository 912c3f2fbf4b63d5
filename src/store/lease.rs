//! Locks with an end, for owners that may not live to release them.
//!
//! **Use it** where an owner is no thread: a browser tab that edits a section for minutes, a job on
//! another machine. A [`Lease`] ends by itself, and its fencing token keeps an owner that returns
//! too late from committing. **Do not use it** to order short transactions: the lock of the store
//! does that, and waits.
//!
//! ```
//! use std::time::Duration;
//!
//! use doclock::DataStore;
//! use doclock::dsl::*;
//! use doclock::lease::LeaseTarget;
//!
//! let store = DataStore::new();
//! let minute = Duration::from_secs(60);
//! let lease = store.lease(LeaseTarget::Document, "ann", minute)?;
//! let refused = store.lease(LeaseTarget::Document, "bob", minute).unwrap_err();
//! assert!(refused.to_string().contains("ann"), "{refused}");
//!
//! let mut transaction = store.begin("ann")?;
//! transaction.require(&lease)?;
//! transaction.commit()?;
//! lease.release()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod info;
mod required;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use error::{LeaseError, LeaseLost};
pub use info::{LeaseHolder, LeaseInfo};

use super::DataStore;
use crate::document::Holding;
pub use crate::document::lease::{LeaseTarget, LeaseTargets};
use crate::id::{FencingToken, OwnerId};
use crate::time::{Expiry, MonotonicTime};

/// # Leases
///
/// A lease is a lock with an end: whoever has it need not live to release it. It is for work that
/// takes long and that no thread stands for: a form that is open, a payment that is being confirmed
/// elsewhere, a job of another process.
///
/// None of these methods waits; each is one step, at once. They make no version and no event, and
/// need neither the store's lock nor nodes of it, so a lease may be taken or given up while a
/// transaction is open.
///
/// **A lease binds those who ask for it.** It excludes other leases, and a transaction that
/// [requires](crate::Transaction::require) it is committed only if it lasts still. A transaction
/// that requires none is not held up by those of others: what it writes is ordered by the store's
/// lock in any case, and an undo or a repair must not wait for somebody who went home.
impl DataStore {
    /// Leases one target or several, all or none, to an owner for so long from now. Never waits.
    ///
    /// A lease on the document excludes all others. A lease on a node excludes those on the same
    /// node id and on the document, whether there is such a node or not; not those on nodes above
    /// or below it. The owner is a name, to be told to others: who asks again for what it has is
    /// refused like everybody, and [renews](Lease::renew) instead.
    ///
    /// The lease ends when the store's [clock](crate::StoreOptions::clock) has come to its end,
    /// without anybody's doing, or when it is [released](Lease::release); not when the returned
    /// value is dropped.
    ///
    /// ```
    /// use doclock::DataStore;
    /// use std::time::Duration;
    ///
    /// let store = DataStore::new();
    /// let minute = Duration::from_secs(60);
    /// let lease = store.lease(["ann", "bob"], "teller-1", minute)?;
    ///
    /// let error = store.lease("bob", "teller-2", minute).unwrap_err();
    /// assert!(error.to_string().starts_with("node bob is leased by teller-1 for another "));
    /// lease.release()?;
    /// let next = store.lease("bob", "teller-2", minute)?;
    /// assert_eq!(next.fencing_token().get(), 2);
    /// # Ok::<(), doclock::lease::LeaseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`LeaseError::Conflict`]: somebody has one of the targets; it says who, and for how much longer. Or there is no target, no
    /// duration, or too long a one.
    pub fn lease(
        &self,
        targets: impl Into<LeaseTargets>,
        owner: impl Into<OwnerId>,
        duration: Duration,
    ) -> Result<Lease, LeaseError> {
        let (targets, owner) = (targets.into(), owner.into());
        if targets.is_empty() {
            return Err(LeaseError::NoTargets);
        }
        // Declared before the guard, hence dropped after it: readers do not wait while old values
        // are freed.
        let _swept;
        let mut published = self.0.published.lock();
        let (now, expiry) = self.until(duration)?;
        if let Some(found) = published.snapshot.held().in_the_way(&targets, now) {
            return Err(LeaseHolder::new(found, now).into());
        }
        let leases = published.snapshot.held_mut();
        let (holding, swept) = leases.grant(targets, owner, expiry, now);
        _swept = swept;
        drop(published);
        Ok(Lease {
            store: self.clone(),
            holding,
        })
    }

    /// The lease with this token, for whoever was told the token and not given the lease: a front
    /// end between two of its commands. `None` if it has ended. Whoever has the token can renew and
    /// release.
    ///
    /// ```
    /// use doclock::{DataStore, FencingToken};
    /// use std::time::Duration;
    ///
    /// let store = DataStore::new();
    /// let token = store.lease("form", "window-1", Duration::from_secs(60))?.fencing_token();
    /// // The window remembers nothing but the number.
    /// let token = FencingToken::from(token.get());
    /// store.lease_by_token(token).expect("a minute has not passed").renew(Duration::from_secs(60))?;
    /// # Ok::<(), doclock::lease::LeaseError>(())
    /// ```
    pub fn lease_by_token(&self, token: FencingToken) -> Option<Lease> {
        let published = self.0.published.lock();
        let holding = published.snapshot.held().live(token, self.monotonic())?;
        let holding = Arc::clone(holding);
        drop(published);
        Some(Lease {
            store: self.clone(),
            holding,
        })
    }

    /// Who has leased something, by itself or with the document, and for how much longer; for the
    /// document, of all who have leased anything, the one who has it longest. What is in the way of
    /// a lease on this target, that is.
    ///
    /// ```
    /// use doclock::{DataStore, lease::LeaseTarget};
    /// use std::time::Duration;
    ///
    /// let store = DataStore::new();
    /// let _lease = store.lease(LeaseTarget::Document, "importer", Duration::from_secs(60))?;
    /// let holder = store.leased("title").unwrap();
    /// assert_eq!(holder.lease.owner_id.as_str(), "importer");
    /// assert!(holder.remaining <= Duration::from_secs(60));
    /// # Ok::<(), doclock::lease::LeaseError>(())
    /// ```
    pub fn leased(&self, target: impl Into<LeaseTarget>) -> Option<LeaseHolder> {
        let target = target.into();
        let published = self.0.published.lock();
        let now = self.monotonic();
        let leases = published.snapshot.held();
        let found = leases.in_the_way(std::slice::from_ref(&target), now)?;
        Some(LeaseHolder::new(found, now))
    }

    /// All leases that last still, in the order in which they were taken. Others go on meanwhile,
    /// so one may have ended since.
    pub fn leases(&self) -> Vec<LeaseInfo> {
        let snapshot = self.snapshot();
        let now = self.monotonic();
        let holdings = snapshot.held().iter();
        LeaseInfo::list(holdings.filter(|holding| !holding.expiry.has_come(now)))
    }

    /// The moment, and that so long after it. To be called with the published version locked, so
    /// that leases are taken in the order of their moments.
    fn until(&self, duration: Duration) -> Result<(MonotonicTime, Expiry), LeaseError> {
        if duration.is_zero() {
            return Err(LeaseError::NoDuration);
        }
        let now = self.monotonic();
        let expiry = Expiry::after(now, duration).ok_or(LeaseError::TooLong { duration })?;
        Ok((now, expiry))
    }
}

/// Something leased to an owner until a moment. See [`DataStore::lease`].
///
/// A value that names the lease, not the lease itself: dropping it changes nothing, and
/// [`DataStore::lease_by_token`] makes another. It keeps the store alive.
///
/// ```
/// use doclock::{DataStore, StoreOptions, lease::LeaseError, time::ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
/// let second = Duration::from_secs(1);
///
/// let mut old = store.lease("ann", "teller-1", 5 * second)?;
/// clock.advance(4 * second);
/// old.renew(5 * second)?;
/// assert_eq!(old.remaining(), 5 * second);
///
/// // The first teller is not heard of again. Nobody has to clear up.
/// clock.advance(5 * second);
/// let new = store.lease("ann", "teller-2", 5 * second)?;
/// assert!(new.fencing_token() > old.fencing_token());
/// assert_eq!(
///     old.renew(second).unwrap_err().to_string(),
///     "the lease of teller-1 on node ann (fencing token 1) has ended; \
///      now node ann is leased by teller-2 for another 5.0s (fencing token 2)",
/// );
/// # Ok::<(), LeaseError>(())
/// ```
#[must_use = "a dropped lease cannot be renewed or released, and blocks other owners until it expires"]
pub struct Lease {
    store: DataStore,
    /// As it was when this value last heard of it.
    holding: Arc<Holding>,
}

impl Lease {
    /// What it is on.
    pub fn targets(&self) -> &LeaseTargets {
        &self.holding.targets
    }

    /// Who has it.
    pub fn owner(&self) -> &OwnerId {
        &self.holding.owner
    }

    /// The number of the lease, greater than that of every earlier one of the store, whatever it
    /// was on. The numbering is that of leases, and has nothing to do with the lock's.
    pub fn fencing_token(&self) -> FencingToken {
        self.holding.token
    }

    /// When it ends, by the machine's calendar as it was when the lease was taken, or renewed by
    /// this value. It is the store's clock that decides: see [`remaining`](Self::remaining).
    pub fn expires_at(&self) -> SystemTime {
        self.holding.expiry.date
    }

    /// How much longer it lasts, by the store's clock; zero when it has ended.
    pub fn remaining(&self) -> Duration {
        let published = self.store.0.published.lock();
        let now = self.store.monotonic();
        let live = published.snapshot.held().live(self.fencing_token(), now);
        live.map_or(Duration::ZERO, |holding| holding.expiry.left(now))
    }

    /// Lets it end so long from now, be that later or sooner than before. The token stays.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Lost`]: it has ended. It stays ended, also if nobody else has taken what it was on. Or there is no duration,
    /// or too long a one.
    pub fn renew(&mut self, duration: Duration) -> Result<(), LeaseError> {
        let mut published = self.store.0.published.lock();
        let (now, expiry) = self.store.until(duration)?;
        let leases = published.snapshot.held();
        if leases.live(self.holding.token, now).is_none() {
            return Err(LeaseLost::new(&self.holding, leases, now).into());
        }
        let leases = published.snapshot.held_mut();
        if let Some(renewed) = leases.renew(self.holding.token, expiry, now) {
            drop(published);
            self.holding = renewed;
        }
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Lost`]: it has ended already. There is nothing left to release; but what was done under it may have
    /// been done beside its next owner.
    pub fn release(self) -> Result<(), LeaseError> {
        let mut published = self.store.0.published.lock();
        let now = self.store.monotonic();
        let leases = published.snapshot.held();
        if leases.live(self.holding.token, now).is_none() {
            return Err(LeaseLost::new(&self.holding, leases, now).into());
        }
        published.snapshot.held_mut().release(self.holding.token);
        Ok(())
    }

    /// It as data.
    pub fn info(&self) -> LeaseInfo {
        LeaseInfo::new(&self.holding)
    }
}

impl From<&Lease> for FencingToken {
    fn from(lease: &Lease) -> Self {
        lease.fencing_token()
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.info(), f)
    }
}

#[cfg(test)]
mod tests;
