//! Errors of leases.

use std::fmt;
use std::time::Duration;

use super::table::{Holding, LeaseTable};
use super::{LeaseHolder, LeaseInfo};
use crate::codes::{Retry, codes};
use crate::id::FencingToken;
use crate::millis;
use crate::store::CommitError;
use crate::time::MonotonicTime;

/// An error of a lease: it was not taken, renewed or released, or cannot be required.
///
/// Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// One of the targets is leased already.
    #[error("{0}")]
    Conflict(Box<LeaseHolder>),
    /// The lease has ended: it expired or was released.
    #[error(transparent)]
    Lost(Box<LeaseLost>),
    /// The required lease is of another store than the transaction.
    #[error("the lease belongs to another store than the transaction")]
    OtherStore,
    /// A lease was requested on no target.
    #[error("a lease needs at least one target")]
    NoTargets,
    /// One of the requested targets is a node without an id: no node has an empty id.
    #[error("a lease on a node needs its id, which is empty")]
    EmptyTarget,
    /// A lease was requested for a duration of zero.
    #[error("a lease needs a duration above zero")]
    NoDuration,
    /// A lease was requested for longer than the store's clock or the calendar can express.
    #[error("a lease of {duration:?} is too long: its end is out of the range of the clock")]
    TooLong {
        /// The requested duration.
        duration: Duration,
    },
    /// The store is [durable](crate::durable) and read-only, so the change would not be stored: the
    /// error is [`CommitError::ReadOnly`].
    #[error(transparent)]
    ReadOnly(Box<CommitError>),
}

codes! { LeaseError {
    Self::Conflict(holder) => "leaseConflict" { holder: holder } if Retry::Later, 409;
    Self::Lost(lost) => as lost;
    Self::OtherStore => "leaseOtherStore", 500;
    Self::NoTargets => "leaseNoTargets";
    Self::EmptyTarget => "leaseTargetEmpty";
    Self::NoDuration => "leaseNoDuration";
    Self::TooLong { duration } => "leaseTooLong" { duration_ms: millis::number(*duration) };
    Self::ReadOnly(refusal) => as refusal;
}}

impl From<LeaseHolder> for LeaseError {
    fn from(holder: LeaseHolder) -> Self {
        Self::Conflict(Box::new(holder))
    }
}

impl From<LeaseLost> for LeaseError {
    fn from(lost: LeaseLost) -> Self {
        Self::Lost(Box::new(lost))
    }
}

/// A lease that has ended: it expired or was released.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseLost {
    /// The fencing token of the lease.
    pub fencing_token: FencingToken,
    /// The lease as it was. `None` if only the token was given and the store has no record of the
    /// lease.
    pub lease: Option<LeaseInfo>,
    /// The current lease on one of its targets, if there is one.
    pub holder: Option<LeaseHolder>,
}

impl LeaseLost {
    pub(super) fn new(holding: &Holding, leases: &LeaseTable, now: MonotonicTime) -> Self {
        let holder = leases.in_the_way(&holding.targets, now);
        Self {
            fencing_token: holding.token,
            lease: Some(LeaseInfo::new(holding)),
            holder: holder.map(|found| LeaseHolder::new(found, now)),
        }
    }

    pub(super) fn unknown(fencing_token: FencingToken) -> Self {
        Self {
            fencing_token,
            lease: None,
            holder: None,
        }
    }
}

impl fmt::Display for LeaseLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.lease {
            Some(lease) => write!(f, "{lease} has ended")?,
            None => write!(
                f,
                "the lease with the fencing token {} has ended",
                self.fencing_token
            )?,
        }
        match &self.holder {
            Some(holder) => write!(f, "; now {holder}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for LeaseLost {}

codes! { LeaseLost {
    Self { fencing_token, lease, holder } => "leaseLost", 409;
}}
