//! Leases as data and in readable form.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::table::{Holding, InTheWay};
use super::{LeaseTarget, LeaseTargets};
use crate::brief::Brief;
use crate::id::{FencingToken, OwnerId};
use crate::millis;
use crate::time::MonotonicTime;

/// Describes a lease.
///
/// Serializes in camelCase, `expiresAt` in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LeaseInfo {
    /// The targets of the lease.
    pub targets: LeaseTargets,
    /// The owner of the lease.
    pub owner_id: OwnerId,
    /// The fencing token; greater than that of every earlier lease.
    pub fencing_token: FencingToken,
    /// When the lease ends, by the machine's calendar.
    #[serde(with = "millis::moment")]
    pub expires_at: SystemTime,
}

impl LeaseInfo {
    pub(crate) fn new(holding: &Holding) -> Self {
        Self {
            targets: holding.targets.clone(),
            owner_id: holding.owner.clone(),
            fencing_token: holding.token,
            expires_at: holding.expiry.date,
        }
    }

    /// In the order of the tokens.
    pub(crate) fn list<'a>(holdings: impl Iterator<Item = &'a Arc<Holding>>) -> Vec<Self> {
        let mut list: Vec<Self> = holdings.map(|holding| Self::new(holding)).collect();
        list.sort_unstable_by_key(|lease| lease.fencing_token);
        list
    }
}

impl fmt::Display for LeaseInfo {
    /// Formats like `the lease of teller-1 on node ann, node bob (fencing token 16)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owner, token) = (Brief(&self.owner_id), self.fencing_token);
        let targets = &self.targets;
        write!(
            f,
            "the lease of {owner} on {targets} (fencing token {token})"
        )
    }
}

/// Describes a lease that excludes a request.
///
/// Serializes in camelCase, `remaining` in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LeaseHolder {
    /// The target of that lease that excludes the request.
    pub target: LeaseTarget,
    /// The lease.
    pub lease: LeaseInfo,
    /// How much longer the lease lasts by the store's clock, unless it is renewed or released.
    #[serde(with = "millis::duration")]
    pub remaining: Duration,
}

impl LeaseHolder {
    pub(crate) fn new(found: InTheWay<'_>, now: MonotonicTime) -> Self {
        Self {
            target: found.target.clone(),
            lease: LeaseInfo::new(found.holding),
            remaining: found.holding.expiry.left(now),
        }
    }
}

impl fmt::Display for LeaseHolder {
    /// Formats like `node ann is leased by teller-2 for another 4.2s (fencing token 17)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owner, token) = (Brief(&self.lease.owner_id), self.lease.fencing_token);
        let (target, left) = (&self.target, self.remaining);
        write!(
            f,
            "{target} is leased by {owner} for another {left:.1?} (fencing token {token})"
        )
    }
}
