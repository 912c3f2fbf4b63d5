//! Why something was not leased, or is not any more.

use std::fmt;
use std::time::Duration;

use super::{LeaseHolder, LeaseInfo};
use crate::codes::codes;
use crate::document::{Holding, Leases};
use crate::id::FencingToken;
use crate::lock::millis;
use crate::time::MonotonicTime;

/// Why something was not leased, not renewed, not released, or cannot be required. Nothing is
/// different then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// Somebody has one of the targets.
    #[error("{0}")]
    Conflict(Box<LeaseHolder>),
    /// The lease has ended: it has expired, or was released.
    #[error(transparent)]
    Lost(Box<LeaseLost>),
    /// The lease that a transaction requires is of another store.
    #[error("the lease is of another store than the transaction")]
    OtherStore,
    /// A lease was to be on nothing.
    #[error("a lease is on one target at least")]
    NoTargets,
    /// A lease was to last no time at all.
    #[error("a lease lasts longer than no time at all")]
    NoDuration,
    /// A lease was to last for longer than the store's clock or the calendar can express.
    #[error("a lease cannot last for {duration:?}: no clock goes that far")]
    TooLong {
        /// How long.
        duration: Duration,
    },
}

codes! { LeaseError {
    Self::Conflict(holder) => "leaseConflict" { holder: holder };
    Self::Lost(lost) => as lost;
    Self::OtherStore => "leaseOtherStore";
    Self::NoTargets => "leaseNoTargets";
    Self::NoDuration => "leaseNoDuration";
    Self::TooLong { duration } => "leaseTooLong" { duration_ms: millis::number(*duration) };
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

/// A lease that has ended: it has expired, or was released.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseLost {
    /// Its token.
    pub fencing_token: FencingToken,
    /// The lease as it was. `None` if only its token was given, and no such lease was known any
    /// more.
    pub lease: Option<LeaseInfo>,
    /// Who has one of its targets now, if anybody does.
    pub holder: Option<LeaseHolder>,
}

impl LeaseLost {
    pub(super) fn new(holding: &Holding, leases: &Leases, now: MonotonicTime) -> Self {
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
                "no lease with the fencing token {} lasts any more",
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
    Self { fencing_token, lease, holder } => "leaseLost";
}}
