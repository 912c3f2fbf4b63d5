//! Leases as a person would be told.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::brief::Brief;
use crate::document::{Holding, InTheWay, LeaseTarget, LeaseTargets, Snapshot};
use crate::id::{FencingToken, OwnerId};
use crate::lock::millis;
use crate::time::MonotonicTime;

/// A lease as data.
///
/// Serializes in camelCase, `expiresAt` in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LeaseInfo {
    /// What it is on.
    pub targets: LeaseTargets,
    /// Who has it.
    pub owner_id: OwnerId,
    /// Its number; greater than that of every earlier one.
    pub fencing_token: FencingToken,
    /// When it ends, by the machine's calendar.
    #[serde(serialize_with = "millis::moment")]
    pub expires_at: SystemTime,
}

impl LeaseInfo {
    pub(super) fn new(holding: &Holding) -> Self {
        Self {
            targets: holding.targets.clone(),
            owner_id: holding.owner.clone(),
            fencing_token: holding.token,
            expires_at: holding.expiry.date,
        }
    }

    /// In the order of the tokens.
    pub(super) fn list<'a>(holdings: impl Iterator<Item = &'a Arc<Holding>>) -> Vec<Self> {
        let mut list: Vec<Self> = holdings.map(|holding| Self::new(holding)).collect();
        list.sort_unstable_by_key(|lease| lease.fencing_token);
        list
    }
}

impl fmt::Display for LeaseInfo {
    /// `the lease of teller-1 on node ann, node bob (fencing token 16)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            targets,
            owner_id,
            fencing_token,
            ..
        } = self;
        write!(
            f,
            "the lease of {} on {targets} (fencing token {fencing_token})",
            Brief(owner_id)
        )
    }
}

/// A lease that is in the way.
///
/// Serializes in camelCase, `remaining` in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LeaseHolder {
    /// Which of its targets is in the way.
    pub target: LeaseTarget,
    /// The lease.
    pub lease: LeaseInfo,
    /// How much longer it lasts, unless it is renewed or released; by the store's clock.
    #[serde(serialize_with = "millis::duration")]
    pub remaining: Duration,
}

impl LeaseHolder {
    pub(super) fn new(found: InTheWay<'_>, now: MonotonicTime) -> Self {
        Self {
            target: found.target.clone(),
            lease: LeaseInfo::new(found.holding),
            remaining: found.holding.expiry.left(now),
        }
    }
}

impl fmt::Display for LeaseHolder {
    /// `node ann is leased by teller-2 for another 4.2s (fencing token 17)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeaseInfo {
            owner_id,
            fencing_token,
            ..
        } = &self.lease;
        write!(
            f,
            "{} is leased by {} for another {:.1?} (fencing token {fencing_token})",
            self.target,
            Brief(owner_id),
            self.remaining
        )
    }
}

/// # Leases
impl Snapshot {
    /// Who had [leased](crate::DataStore::lease) what when it was taken, in the order in which they
    /// did.
    ///
    /// A snapshot reads no clock: a lease that nobody released is among them until its place is
    /// needed, or some later lease clears it away. Whether it has expired follows from
    /// `expires_at`; [`DataStore::leases`](crate::DataStore::leases) has only those that last
    /// still.
    ///
    /// ```
    /// use doclock::DataStore;
    /// use std::time::Duration;
    ///
    /// let store = DataStore::new();
    /// let lease = store.lease("ann", "teller-1", Duration::from_secs(60))?;
    /// let before = store.snapshot();
    /// lease.release()?;
    /// assert_eq!(before.leases()[0].owner_id.as_str(), "teller-1");
    /// assert_eq!(before.lease("ann").unwrap().fencing_token.get(), 1);
    /// assert!(store.snapshot().leases().is_empty());
    /// # Ok::<(), doclock::lease::LeaseError>(())
    /// ```
    pub fn leases(&self) -> Vec<LeaseInfo> {
        LeaseInfo::list(self.held().iter())
    }

    /// The lease on a target, by itself or with the document, as in [`leases`](Self::leases).
    pub fn lease(&self, target: impl Into<LeaseTarget>) -> Option<LeaseInfo> {
        let holding = self.held().on(&target.into())?;
        Some(LeaseInfo::new(holding))
    }
}
