//! Why a lock was not acquired, not released, not joined.

use std::fmt;
use std::time::Duration;

use super::info::{Millis, millis};
use super::{Deadlock, LockInfo, NodeWait, QueueEntry};
use crate::brief::Brief;
use crate::codes::codes;
use crate::id::{LockId, OwnerId};

/// Why a request ended without a grant. The lock is as if the request had never been made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The timeout passed first.
    #[error(transparent)]
    Timeout(Box<TimeoutEvidence>),
    /// The request was not to wait, and somebody holds or waits.
    #[error("Lock not available for owner {owner}: {holder}, and {waiting} waiting", owner = Brief(.owner))]
    WouldBlock {
        /// Who asked.
        owner: OwnerId,
        /// Who holds.
        holder: Box<LockInfo>,
        /// How many wait.
        waiting: usize,
    },
    /// Its [`CancelToken`](super::CancelToken) withdrew it.
    #[error(transparent)]
    Cancelled(Box<CancelEvidence>),
    /// As many wait as are allowed to.
    #[error("Lock queue full for owner {owner}: {waiting} waiting, {bound} allowed", owner = Brief(.owner))]
    QueueFull {
        /// Who asked.
        owner: OwnerId,
        /// How many wait.
        waiting: usize,
        /// How many may wait.
        bound: usize,
    },
    /// A request for more nodes would have waited for somebody who waits for the asker: both would
    /// have waited for ever. What the asker had locked before it has still. Safe to try again once
    /// that is given up.
    #[error("Deadlock: {0}")]
    Deadlock(Box<Deadlock>),
    /// Two owners have one node locked shared and both want it to themselves; the other asked
    /// before. What the asker had locked before it has still. Safe to try again once that is given
    /// up.
    #[error("Lock upgrade conflict: {0}")]
    UpgradeConflict(Box<Deadlock>),
    /// A request for more nodes came from somebody who has nothing any more: it was revoked because
    /// it was held for too long, or released by its id.
    #[error("Lock {id} was revoked or released before more nodes were locked")]
    Revoked {
        /// The grant.
        id: LockId,
    },
    /// The asking thread holds the lock itself and would wait for itself.
    #[error("Lock requested again by its holding thread for owner {owner}: {holder}", owner = Brief(.owner))]
    Reentrant {
        /// Who asked.
        owner: OwnerId,
        /// The grant that this thread holds.
        holder: Box<LockInfo>,
    },
}

codes! { LockError {
    Self::Timeout(evidence) => as evidence;
    Self::WouldBlock { owner, holder, waiting } => "lockWouldBlock";
    Self::Cancelled(evidence) => as evidence;
    Self::QueueFull { owner, waiting, bound } => "lockQueueFull";
    Self::Deadlock(deadlock) => "lockDeadlock" { links: deadlock.links } if true;
    Self::UpgradeConflict(deadlock) => "lockUpgradeConflict" { links: deadlock.links } if true;
    Self::Revoked { id } => "lockRevoked";
    Self::Reentrant { owner, holder } => "lockReentrant";
}}

/// What a request saw when its timeout passed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeoutEvidence {
    /// The request.
    pub id: LockId,
    /// Who asked.
    pub owner: OwnerId,
    /// The limit that passed.
    pub limit: Duration,
    /// How long it really waited; never less than the limit.
    pub waited: Duration,
    /// Its place in the line when it gave up; 1 was next.
    pub place: usize,
    /// Who held the lock then.
    pub holder: LockInfo,
    /// Who stood ahead, from the head of the line on; at most [`TimeoutEvidence::AHEAD`] of them.
    pub ahead: Vec<QueueEntry>,
    /// For which node it waited; of several, for that with the longest line. `None` if it stood in
    /// the line before the whole lock.
    pub node: Option<NodeWait>,
}

impl TimeoutEvidence {
    /// How many of those ahead an error lists. [`place`](TimeoutEvidence::place) tells how many
    /// there were.
    pub const AHEAD: usize = 8;
}

impl fmt::Display for TimeoutEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Lock acquisition timeout after {} for owner {}: place {} in line",
            Millis(self.limit),
            Brief(&self.owner),
            self.place,
        )?;
        if let Some(node) = &self.node {
            write!(f, " for {node}")?;
        }
        write!(f, " behind {}", self.holder)?;
        for (nth, entry) in self.ahead.iter().enumerate() {
            let lead = if nth == 0 { "; ahead: " } else { ", " };
            write!(f, "{lead}{} of {}", entry.lock_id, Brief(&entry.owner_id))?;
        }
        match self.place.saturating_sub(1 + self.ahead.len()) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl std::error::Error for TimeoutEvidence {}

codes! { TimeoutEvidence {
    Self { id, owner, limit, waited, place, holder, ahead, node } => "lockTimeout" {
        id: id,
        owner: owner,
        limit_ms: millis::number(*limit),
        waited_ms: millis::number(*waited),
        place: place,
        holder: holder,
        ahead: ahead,
        node: node,
    };
}}

/// What a request saw when it was cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CancelEvidence {
    /// Who asked.
    pub owner: OwnerId,
    /// How long it had waited.
    pub waited: Duration,
    /// The request and its place in the line; `None` if the token was cancelled before it joined.
    pub stood: Option<(LockId, usize)>,
}

impl fmt::Display for CancelEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = Brief(&self.owner);
        write!(f, "Lock acquisition cancelled for owner {owner}")?;
        match self.stood {
            Some((_, place)) => {
                write!(f, " after {} at place {place} in line", Millis(self.waited))
            }
            None => f.write_str(" before it joined the line"),
        }
    }
}

impl std::error::Error for CancelEvidence {}

codes! { CancelEvidence {
    Self { owner, waited, stood } => "lockCancelled" {
        owner: owner,
        waited_ms: millis::number(*waited),
        id: stood.map(|(id, _)| id),
        place: stood.map(|(_, place)| place),
    };
}}

/// Why a lock was not released. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The id was released already or never granted, and no other grant is held.
    #[error("lock {id} is not held")]
    NotHeld {
        /// The id that was given.
        id: LockId,
    },
    /// The id was released already or never granted, and another grant is held.
    #[error("Lock ID mismatch: expected {expected}, got {got}")]
    Mismatch {
        /// The grant that is held.
        expected: LockId,
        /// The id that was given.
        got: LockId,
    },
    /// The grant was taken back when it had lasted longer than the limit on holding. There is
    /// nothing left to release.
    #[error("Lock {id} was revoked before it was released: it was held for too long")]
    Revoked {
        /// The grant.
        id: LockId,
    },
    /// A transaction that was begun under this grant has neither committed nor rolled back.
    #[error("Lock {id} not released: a transaction that was begun under it is still open")]
    TransactionOpen {
        /// The grant.
        id: LockId,
    },
}

codes! { ReleaseError {
    Self::NotHeld { id } => "lockNotHeld";
    Self::Mismatch { expected, got } => "lockIdMismatch";
    Self::Revoked { id } => "lockRevoked";
    Self::TransactionOpen { id } => "transactionOpen";
}}

/// Why a transaction could not begin under a lock that is held by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The id was released already or never granted, and no other grant is held.
    #[error("lock {id} is not held")]
    NotHeld {
        /// The id that was given.
        id: LockId,
    },
    /// The id was released already or never granted, and another grant is held.
    #[error("Lock ID mismatch: expected {expected}, got {got}")]
    Mismatch {
        /// The grant that is held.
        expected: LockId,
        /// The id that was given.
        got: LockId,
    },
    /// The lock is on single nodes, not on the whole document.
    #[error("Lock {id} is on single nodes: a transaction on nodes is begun with its own")]
    NodesOnly {
        /// The id that was given.
        id: LockId,
    },
    /// A transaction is open under this grant already.
    #[error("Lock {id} has an open transaction already")]
    TransactionOpen {
        /// The grant.
        id: LockId,
    },
}

codes! { JoinError {
    Self::NotHeld { id } => "lockNotHeld";
    Self::Mismatch { expected, got } => "lockIdMismatch";
    Self::NodesOnly { id } => "lockNodesOnly";
    Self::TransactionOpen { id } => "transactionOpen";
}}
