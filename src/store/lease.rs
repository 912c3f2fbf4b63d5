//! Locks with an expiry, for owners that may end without releasing them.
//!
//! **Use it** where an owner is not a thread: a browser tab that edits a section for minutes, or a
//! job on another machine. A [`Lease`] ends by itself, and its fencing token keeps an owner that
//! returns too late from committing. **Do not use it** to order short transactions: the lock of the
//! store does that, and waits.
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
//! let lease = store.leases().acquire(LeaseTarget::Document, "ann", minute)?;
//! let refused = store.leases().acquire(LeaseTarget::Document, "bob", minute).unwrap_err();
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
pub(super) mod table;
mod target;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use error::{LeaseError, LeaseLost};

use super::DataStore;
use crate::id::{FencingToken, OwnerId};
use crate::store::calendar::Expiry;
use crate::time::MonotonicTime;
pub use info::{LeaseHolder, LeaseInfo};
use table::Holding;
pub use target::{LeaseTarget, LeaseTargets};

/// The leases of one store, from [`DataStore::leases`].
///
/// A lease is a lock with an expiry: its owner need not live to release it. It is for long work
/// that no thread performs: an open form, a payment that is being confirmed elsewhere, or a job of
/// another process.
///
/// None of these methods waits for a lock or a lease; each is a single step. They make no version
/// and no event. They need neither the store's lock nor node locks, so a lease may be acquired or
/// released while a transaction is open. In a durable store, a method that changes a lease waits
/// for the disk if too many changes
/// [are not written yet](crate::durable::DurableOptions::unwritten_limit).
///
/// **A lease binds only the code that uses leases.** It excludes other leases. A transaction that
/// [requires](crate::Draft::require) it is committed only while it lasts. A transaction that
/// requires no lease is not restricted by the leases of other owners. The store's lock orders its
/// writes in any case, and an undo or a repair must not wait for the lease of an absent user.
///
/// ```
/// use doclock::DataStore;
/// use std::time::Duration;
///
/// let leases = DataStore::new().leases();
/// let lease = leases.acquire("form", "window-1", Duration::from_secs(60))?;
/// assert_eq!(leases.holder("form").unwrap().lease.owner_id.as_str(), "window-1");
/// lease.release()?;
/// assert!(leases.list().is_empty());
/// # Ok::<(), doclock::lease::LeaseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Leases {
    pub(super) store: DataStore,
}

impl Leases {
    /// Acquires a lease on one or several targets for `duration` from now: all of them or none.
    ///
    /// Never waits for another lease.
    ///
    /// A lease on the document excludes all other leases. A lease on a node excludes leases on the
    /// same node id and on the document, whether the node exists or not. It does not exclude leases
    /// on ancestors or descendants of the node. The owner is only a name for reports. A second
    /// request with the same owner is refused like any other; [`Lease::renew`] extends a lease.
    ///
    /// The lease ends by itself when the store's [clock](crate::StoreOptions::clock) reaches its
    /// expiry, or when it is [released](Lease::release). Dropping the returned value does not end
    /// it.
    ///
    /// ```
    /// use doclock::DataStore;
    /// use std::time::Duration;
    ///
    /// let leases = DataStore::new().leases();
    /// let minute = Duration::from_secs(60);
    /// let lease = leases.acquire(["ann", "bob"], "teller-1", minute)?;
    ///
    /// let error = leases.acquire("bob", "teller-2", minute).unwrap_err();
    /// assert!(error.to_string().starts_with("node bob is leased by teller-1 for another "));
    /// lease.release()?;
    /// let next = leases.acquire("bob", "teller-2", minute)?;
    /// assert_eq!(next.fencing_token().get(), 2);
    /// # Ok::<(), doclock::lease::LeaseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`LeaseError::Conflict`]: one of the targets is leased already; the error reports the owner
    /// and the remaining time. Other errors report that there is no target, or one with an empty
    /// id, no duration, or too long a one, or that the store is read-only.
    pub fn acquire(
        &self,
        targets: impl Into<LeaseTargets>,
        owner: impl Into<OwnerId>,
        duration: Duration,
    ) -> Result<Lease, LeaseError> {
        let (targets, owner) = (targets.into(), owner.into());
        if targets.is_empty() {
            return Err(LeaseError::NoTargets);
        }
        if targets.iter().any(LeaseTarget::is_empty) {
            return Err(LeaseError::EmptyTarget);
        }
        // Declared before the guard, hence dropped after it: readers do not wait while old values
        // are freed.
        let swept;
        let mut published = self.store.0.document.published.lock();
        let (now, expiry) = self.store.until(duration)?;
        if let Some(found) = published.leases.in_the_way(&targets, now) {
            return Err(LeaseHolder::new(found, now).into());
        }
        let holding;
        (holding, swept) = published.leases.grant(targets, owner, expiry, now);
        if published.document.is_pinned() {
            self.store.note_pinned(&published.document);
        }
        published.note_lease_token();
        let version = published.version();
        self.store.store_lease(version, &holding, now);
        drop(published);
        self.store.store_ends(version, swept.tokens());
        self.store.call_writer();
        Ok(Lease {
            store: self.store.clone(),
            holding,
        })
    }

    /// Returns the lease with this token, or `None` if it has ended.
    ///
    /// A front end can keep only the token between two of its commands. Any code with the token can
    /// renew and release the lease.
    ///
    /// ```
    /// use doclock::{DataStore, FencingToken};
    /// use std::time::Duration;
    ///
    /// let leases = DataStore::new().leases();
    /// let token = leases.acquire("form", "window-1", Duration::from_secs(60))?.fencing_token();
    /// // The window remembers nothing but the number.
    /// let token = FencingToken::from(token.get());
    /// leases.by_token(token).expect("a minute has not passed").renew(Duration::from_secs(60))?;
    /// # Ok::<(), doclock::lease::LeaseError>(())
    /// ```
    pub fn by_token(&self, token: FencingToken) -> Option<Lease> {
        let published = self.store.0.document.published.lock();
        let holding = published.leases.live(token, self.store.monotonic())?;
        let holding = Arc::clone(holding);
        drop(published);
        Some(Lease {
            store: self.store.clone(),
            holding,
        })
    }

    /// Returns the lease that would refuse a lease on this target, with its remaining time.
    ///
    /// For a node that is the lease on the node or on the document. For the document, it is the
    /// lease that lasts longest of all.
    ///
    /// ```
    /// use doclock::{DataStore, lease::LeaseTarget};
    /// use std::time::Duration;
    ///
    /// let leases = DataStore::new().leases();
    /// let _lease = leases.acquire(LeaseTarget::Document, "importer", Duration::from_secs(60))?;
    /// let holder = leases.holder("title").unwrap();
    /// assert_eq!(holder.lease.owner_id.as_str(), "importer");
    /// assert!(holder.remaining <= Duration::from_secs(60));
    /// # Ok::<(), doclock::lease::LeaseError>(())
    /// ```
    pub fn holder(&self, target: impl Into<LeaseTarget>) -> Option<LeaseHolder> {
        let target = target.into();
        let published = self.store.0.document.published.lock();
        let now = self.store.monotonic();
        let leases = &published.leases;
        let found = leases.in_the_way(std::slice::from_ref(&target), now)?;
        Some(LeaseHolder::new(found, now))
    }

    /// Lists all leases that have not ended, in the order in which they were acquired.
    ///
    /// Other threads continue meanwhile, so a listed lease may have ended since.
    pub fn list(&self) -> Vec<LeaseInfo> {
        let leases = self.store.0.document.published.lock().leases.clone();
        let now = self.store.monotonic();
        LeaseInfo::list(leases.valid(now))
    }
}

impl DataStore {
    /// The current moment, and the moment `duration` later. The published version must be locked,
    /// so that leases are acquired in the order of their moments.
    fn until(&self, duration: Duration) -> Result<(MonotonicTime, Expiry), LeaseError> {
        if duration.is_zero() {
            return Err(LeaseError::NoDuration);
        }
        self.check_leases_change()?;
        let now = self.monotonic();
        let expiry = Expiry::after(now, duration).ok_or(LeaseError::TooLong { duration })?;
        Ok((now, expiry))
    }

    /// Refuses a change of the leases if the store is read-only. The published version must be
    /// locked: then a close comes later, and stores the change.
    fn check_leases_change(&self) -> Result<(), LeaseError> {
        let checked = self.check_writable();
        checked.map_err(|refusal| LeaseError::ReadOnly(Box::new(refusal)))
    }
}

/// A lease of some targets to an owner until its expiry. See [`Leases::acquire`].
///
/// The value names the lease and is not the lease itself: dropping it changes nothing, and
/// [`Leases::by_token`] makes another one. It keeps the store alive.
///
/// ```
/// use doclock::{DataStore, StoreOptions, lease::LeaseError, time::ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let leases = DataStore::with_options(StoreOptions::new().clock(clock.clock())).leases();
/// let second = Duration::from_secs(1);
///
/// let mut old = leases.acquire("ann", "teller-1", 5 * second)?;
/// clock.advance(4 * second);
/// old.renew(5 * second)?;
/// assert_eq!(old.remaining(), 5 * second);
///
/// // The first teller disappears. Its lease ends by itself.
/// clock.advance(5 * second);
/// let new = leases.acquire("ann", "teller-2", 5 * second)?;
/// assert!(new.fencing_token() > old.fencing_token());
/// assert_eq!(
///     old.renew(second).unwrap_err().to_string(),
///     "the lease of teller-1 on node ann (fencing token 1) has ended; \
///      now node ann is leased by teller-2 for another 5.0s (fencing token 2)",
/// );
/// # Ok::<(), LeaseError>(())
/// ```
#[must_use = "a lease that is neither renewed nor released excludes others until it expires"]
pub struct Lease {
    store: DataStore,
    /// As of this value's last call.
    holding: Arc<Holding>,
}

impl Lease {
    /// Returns the targets of the lease.
    pub fn targets(&self) -> &LeaseTargets {
        &self.holding.targets
    }

    /// Returns the owner of the lease.
    pub fn owner(&self) -> &OwnerId {
        &self.holding.owner
    }

    /// Returns the fencing token of the lease.
    ///
    /// It is greater than that of every earlier lease of the store, on any target. Leases are
    /// numbered apart from the grants of the lock.
    pub fn fencing_token(&self) -> FencingToken {
        self.holding.token
    }

    /// Returns when the lease ends, by the machine's calendar.
    ///
    /// The date is computed when the lease is acquired, or renewed by this value. The store's clock
    /// decides when the lease ends: see [`remaining`](Self::remaining).
    pub fn expires_at(&self) -> SystemTime {
        self.holding.expiry.date
    }

    /// Returns how much longer the lease lasts, by the store's clock; zero when it has ended.
    pub fn remaining(&self) -> Duration {
        let published = self.store.0.document.published.lock();
        let now = self.store.monotonic();
        let live = published.leases.live(self.fencing_token(), now);
        live.map_or(Duration::ZERO, |holding| holding.expiry.left(now))
    }

    /// Sets the lease to end after `duration` from now, later or sooner than before.
    ///
    /// The token stays.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Lost`]: the lease has ended. It stays ended, even if its targets are not
    /// leased again. Other errors report that there is no duration, or too long a one, or that the
    /// store is read-only.
    pub fn renew(&mut self, duration: Duration) -> Result<(), LeaseError> {
        let mut published = self.store.0.document.published.lock();
        let (now, expiry) = self.store.until(duration)?;
        let leases = &published.leases;
        if leases.live(self.holding.token, now).is_none() {
            return Err(LeaseLost::new(&self.holding, leases, now).into());
        }
        if let Some(renewed) = published.leases.renew(self.holding.token, expiry, now) {
            self.store.store_lease(published.version(), &renewed, now);
            drop(published);
            self.holding = renewed;
            self.store.call_writer();
        }
        Ok(())
    }

    /// Ends the lease.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Lost`]: the lease has ended already. Nothing is left to release, but work done
    /// under it may have run beside that of the next owner. [`LeaseError::ReadOnly`]: the store is
    /// read-only.
    pub fn release(self) -> Result<(), LeaseError> {
        let mut published = self.store.0.document.published.lock();
        self.store.check_leases_change()?;
        let now = self.store.monotonic();
        let leases = &published.leases;
        if leases.live(self.holding.token, now).is_none() {
            return Err(LeaseLost::new(&self.holding, leases, now).into());
        }
        published.leases.release(self.holding.token);
        let version = published.version();
        self.store
            .store_ends(version, [self.holding.token].into_iter());
        drop(published);
        self.store.call_writer();
        Ok(())
    }

    /// Describes the lease as data.
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
