//! Errors of acquiring, releasing and joining a lock.

use std::fmt;
use std::time::Duration;

use super::info::RevokedFor;
use super::{Deadlock, LockInfo, NodeWait, QueueEntry};
use crate::brief::Brief;
use crate::codes::{Retry, codes};
use crate::id::{LockId, OwnerId};
use crate::millis;
use crate::show::{Millis, Named, RequestsAhead, list};
use crate::wait::Reason;

/// The error of a request that ended without a grant. The request has no effect on the lock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The request timed out.
    #[error(transparent)]
    Timeout(Box<TimeoutEvidence>),
    /// The request was not allowed to wait, and the lock was held or other requests waited.
    #[error("the lock is not free for owner {owner}: held by {holder}, {}", RequestsAhead(*.waiting, "request"), owner = Brief(.owner))]
    WouldBlock {
        /// The owner of the request.
        owner: OwnerId,
        /// The holder.
        holder: Box<LockInfo>,
        /// The number of waiting requests.
        waiting: usize,
    },
    /// The request's [`CancelToken`](super::CancelToken) was cancelled.
    #[error(transparent)]
    Cancelled(Box<CancelEvidence>),
    /// The queue was full.
    #[error("the lock queue is full for owner {owner}: bound {bound}, {}", RequestsAhead(*.waiting, "request"), owner = Brief(.owner))]
    QueueFull {
        /// The owner of the request.
        owner: OwnerId,
        /// The number of waiting requests.
        waiting: usize,
        /// The queue bound.
        bound: usize,
    },
    /// A request for more nodes would have closed a cycle of waits; or one of a transaction in its
    /// turn (`retry`) closed it, and waits for this one. The owner keeps its earlier nodes, and may
    /// retry after it has released them.
    #[error("deadlock: {0}")]
    Deadlock(Box<Deadlock>),
    /// A [`Deadlock`](Self::Deadlock) of two owners that share a node and request it exclusively,
    /// where the other request came first, or has its turn.
    #[error("lock upgrade conflict: {0}")]
    UpgradeConflict(Box<Deadlock>),
    /// A request for more nodes came from a grant that was released, or revoked for its hold limit.
    #[error("lock {id} was revoked or released before more nodes were locked{}", RevokedFor(.waiter))]
    Revoked {
        /// The id of the grant.
        id: LockId,
        /// The request for which it was revoked.
        waiter: Option<Box<QueueEntry>>,
    },
    /// The calling thread holds the lock itself and would wait for itself.
    #[error("the lock was requested for owner {owner} by the thread that holds it: {holder}", owner = Brief(.owner))]
    Reentrant {
        /// The owner of the request.
        owner: OwnerId,
        /// The grant that this thread holds.
        holder: Box<LockInfo>,
    },
    /// A task would have to wait, and the machine starts no thread that ends its wait in time.
    #[error("owner {owner} cannot wait as a task, because no thread can be started: {reason}", owner = Brief(.owner))]
    NoKeeper {
        /// The owner of the request.
        owner: OwnerId,
        /// The error of the machine.
        reason: String,
    },
}

codes! { inherent LockError {
    Self::Timeout(evidence) => as evidence;
    Self::WouldBlock { owner, holder, waiting } => "lockWouldBlock" if Retry::Later;
    Self::Cancelled(evidence) => as evidence;
    Self::QueueFull { owner, waiting, bound } => "lockQueueFull" if Retry::Later;
    Self::Deadlock(deadlock) => "lockDeadlock" { links: deadlock.links } if true;
    Self::UpgradeConflict(deadlock) => "lockUpgradeConflict" { links: deadlock.links } if true;
    Self::Revoked { id, waiter } => "lockRevoked", 409;
    Self::Reentrant { owner, holder } => "lockReentrant", 500;
    Self::NoKeeper { owner, reason } => "lockNoKeeper" if Retry::Later;
}}

impl LockError {
    /// Refuses a request whose token was cancelled before it joined a queue.
    #[cold]
    pub(super) fn cancelled(owner: &OwnerId) -> Self {
        Self::Cancelled(Box::new(CancelEvidence {
            owner: owner.clone(),
            waited: Duration::ZERO,
            queued: None,
        }))
    }

    pub(super) fn no_keeper(owner: &OwnerId, error: &std::io::Error) -> Self {
        Self::NoKeeper {
            owner: owner.clone(),
            reason: error.to_string(),
        }
    }
}

/// The state that a request observed when it timed out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeoutEvidence {
    /// The id of the request.
    pub id: LockId,
    /// The owner of the request.
    pub owner: OwnerId,
    /// The timeout.
    pub limit: Duration,
    /// The actual wait; never less than the timeout.
    pub waited: Duration,
    /// The queue position at the timeout; 1 is the head of the queue.
    pub position: usize,
    /// The holder at that moment.
    pub holder: LockInfo,
    /// The requests ahead, from the head of the queue; at most [`TimeoutEvidence::AHEAD`].
    pub ahead: Vec<QueueEntry>,
    /// The node with the longest queue for which it waited; `None` for the document lock.
    pub node: Option<NodeWait>,
}

impl TimeoutEvidence {
    /// How many requests ahead an error lists, of [`position`](TimeoutEvidence::position) - 1.
    pub const AHEAD: usize = 8;

    /// Returns the error of the request, which left its queue for this reason.
    pub(super) fn because(self, reason: Reason) -> LockError {
        match reason {
            Reason::Expired(limit) => LockError::Timeout(Box::new(Self {
                limit,
                // The timeout begins just before the request joins the queue.
                waited: self.waited.max(limit),
                ..self
            })),
            Reason::Cancelled => LockError::Cancelled(Box::new(CancelEvidence {
                owner: self.owner,
                waited: self.waited,
                queued: Some((self.id, self.position)),
            })),
        }
    }
}

impl fmt::Display for TimeoutEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (limit, owner) = (Millis(self.limit), Brief(&self.owner));
        write!(
            f,
            "Lock acquisition timeout after {limit} for owner {owner}: "
        )?;
        write!(f, "queue position {}", self.position)?;
        list(f, " for ", &self.node)?;
        write!(f, " behind {}", self.holder)?;
        let ahead = self.ahead.iter();
        let ahead = ahead.map(|entry| Named(&entry.lock_id, &entry.owner_id, None));
        list(f, "; ahead: ", ahead)?;
        match self.position.saturating_sub(1 + self.ahead.len()) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl std::error::Error for TimeoutEvidence {}

codes! { inherent TimeoutEvidence {
    Self { id, owner, limit, waited, position, holder, ahead, node } => "lockTimeout" {
        id: id,
        owner: owner,
        limit_ms: millis::number(*limit),
        waited_ms: millis::number(*waited),
        position: position,
        holder: holder,
        ahead: ahead,
        node: node,
    } if Retry::Later;
}}

/// The state that a request observed when it was cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CancelEvidence {
    /// The owner of the request.
    pub owner: OwnerId,
    /// How long it had waited.
    pub waited: Duration,
    /// The id of the request and its queue position; `None` if it had not joined the queue.
    pub queued: Option<(LockId, usize)>,
}

impl fmt::Display for CancelEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owner, waited) = (Brief(&self.owner), Millis(self.waited));
        write!(f, "lock acquisition cancelled for owner {owner}")?;
        match self.queued {
            Some((_, position)) => write!(f, " after {waited} at queue position {position}"),
            None => f.write_str(" before it joined the queue"),
        }
    }
}

impl std::error::Error for CancelEvidence {}

codes! { inherent CancelEvidence {
    Self { owner, waited, queued } => "lockCancelled" {
        owner: owner,
        waited_ms: millis::number(*waited),
        id: queued.map(|(id, _)| id),
        position: queued.map(|(_, position)| position),
    }, 503;
}}

/// The error of a failed release. The lock is unchanged.
///
/// The first release of a revoked grant returns [`Revoked`](Self::Revoked). A later one, and each
/// of a grant that another caller released by its id, returns [`Mismatch`](Self::Mismatch) if
/// another grant is held, and otherwise [`NotHeld`](Self::NotHeld).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The grant was released or reported as revoked, or never made. No other grant is held.
    #[error("lock {id} is not held")]
    NotHeld {
        /// The given id.
        id: LockId,
    },
    /// As [`NotHeld`](Self::NotHeld), but another grant is held.
    #[error("Lock ID mismatch: expected {expected}, got {got}")]
    Mismatch {
        /// The id of the grant that is held.
        expected: LockId,
        /// The given id.
        got: LockId,
    },
    /// The grant was revoked because it exceeded the hold limit. Returned once for each grant: the
    /// lock remembers the latest 256 revoked grants whose release has not been called.
    #[error("lock {id} was revoked{} before its release: it exceeded the hold limit", RevokedFor(.waiter))]
    Revoked {
        /// The id of the grant.
        id: LockId,
        /// The request for which it was revoked.
        waiter: Option<Box<QueueEntry>>,
    },
    /// A transaction that was begun under this grant has neither committed nor rolled back.
    #[error("lock {id} is not released: a transaction that was begun under it is open")]
    TransactionOpen {
        /// The id of the grant.
        id: LockId,
    },
}

codes! { inherent ReleaseError {
    Self::NotHeld { id } => "lockNotHeld", 409;
    Self::Mismatch { expected, got } => "lockIdMismatch", 409;
    Self::Revoked { id, waiter } => "lockRevoked", 409;
    Self::TransactionOpen { id } => "transactionOpen" if Retry::Later, 409;
}}

/// The error of a transaction that could not begin under a lock that is held by id.
///
/// A revoked grant is [`NotHeld`](Self::NotHeld), or [`Mismatch`](Self::Mismatch) if another grant
/// is held. Its release returns [`ReleaseError::Revoked`] once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The grant was released or revoked, or the id was never granted. The lock is not held.
    #[error("lock {id} is not held")]
    NotHeld {
        /// The given id.
        id: LockId,
    },
    /// As [`NotHeld`](Self::NotHeld), but another grant is held.
    #[error("Lock ID mismatch: expected {expected}, got {got}")]
    Mismatch {
        /// The id of the grant that is held.
        expected: LockId,
        /// The given id.
        got: LockId,
    },
    /// The lock is on single nodes, not on the whole document.
    #[error("lock {id} is on nodes: a transaction on the document cannot begin under it")]
    NodesOnly {
        /// The given id.
        id: LockId,
    },
    /// The grant already has an open transaction.
    #[error("lock {id} already has an open transaction")]
    TransactionOpen {
        /// The id of the grant.
        id: LockId,
    },
}

codes! { inherent JoinError {
    Self::NotHeld { id } => "lockNotHeld", 409;
    Self::Mismatch { expected, got } => "lockIdMismatch", 409;
    Self::NodesOnly { id } => "lockNodesOnly", 409;
    Self::TransactionOpen { id } => "transactionOpen" if Retry::Later, 409;
}}
