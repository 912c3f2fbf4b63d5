//! Why a commit fails.

use std::fmt;

use smol_str::SmolStr;

use super::LeaseLost;
use super::durable::{DurabilityError, JournalError};
use crate::brief::Brief;
use crate::codes::codes;
use crate::document::schema::SchemaViolation;
use crate::id::{FencingToken, LockId, NodeId, OwnerId, TransactionId};
use crate::lock::{LockError, LockInfo, QueueEntry, RevokedFor};

/// An error of a commit. The transaction was rolled back, apart from [`Unknown`](Self::Unknown),
/// [`NotStored`](Self::NotStored) and [`Fenced`](Self::Fenced).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The transaction held the lock for longer than its hold limit while other requests waited.
    /// The lock was granted to the next waiter. The limit is that of the store
    /// ([`StoreOptions::hold_limit`](crate::StoreOptions::hold_limit)) or of the request
    /// ([`AcquireOptions::hold_limit`](crate::lock::AcquireOptions::hold_limit)).
    #[error(
        "lock {id} of owner {owner} was revoked{}: it exceeded the hold limit{}",
        RevokedFor(.waiter), NowHeld(.holder), owner = Brief(.owner)
    )]
    Revoked {
        /// The id of the transaction's grant.
        id: LockId,
        /// The owner of the transaction.
        owner: OwnerId,
        /// The request for which it was revoked: the first of those that it delayed. `None` if many
        /// others were revoked since, or the statistics were reset.
        waiter: Option<Box<QueueEntry>>,
        /// The current holder of the lock.
        holder: Option<Box<LockInfo>>,
    },
    /// The grant of the transaction has ended, so another transaction may have been published since
    /// it began.
    #[error("lock {id} of owner {owner} is no longer held{}", NowHeld(.holder), owner = Brief(.owner))]
    GrantEnded {
        /// The id of the transaction's grant.
        id: LockId,
        /// The owner of the transaction.
        owner: OwnerId,
        /// The current holder of the lock.
        holder: Option<Box<LockInfo>>,
    },
    /// The draft is not the one that began under the lock of the transaction: code that had that by
    /// reference has put another one in its place, or has failed in an
    /// [`attempt`](crate::Draft::attempt) while it was elsewhere.
    #[error(
        "not committed: the draft of transaction {draft}, which begins with version {base}, is not \
         the one that began under this lock"
    )]
    ForeignDraft {
        /// The transaction to which the draft belongs.
        draft: TransactionId,
        /// The version that the draft begins with.
        base: u64,
    },
    /// The document would violate the schema of its store.
    #[error(transparent)]
    Schema(Box<SchemaViolation>),
    /// The transaction was on nodes, and could not lock a node that it needed, or waited for longer
    /// than its timeout while other transactions published.
    #[error("the transaction was not granted a lock that it needs: {0}")]
    NotLocked(Box<LockError>),
    /// The transaction was on nodes, and another commit changed something that it had read without
    /// a lock. Safe to retry.
    #[error(
        "{} read, and other commits changed it up to version {version}; transient: a retry may succeed",
        ConflictingNode(.node)
    )]
    Conflict {
        /// A node that changed after it was read. `None` if the root or the whole document was
        /// read.
        node: Option<NodeId>,
        /// The version in which it had changed.
        version: u64,
    },
    /// Another transaction with the same idempotency key was committed meanwhile.
    #[error("a transaction with the key {key:?} was committed meanwhile", key = Brief(.key))]
    Repeated {
        /// The key.
        key: SmolStr,
    },
    /// The transaction [required](crate::Draft::require) a lease that has ended. Retry it
    /// under another lease.
    #[error("not committed: {0}")]
    LeaseLost(Box<LeaseLost>),
    /// The transaction was the effect of an event, and the claim on that event was taken over, or
    /// ended, before the commit.
    #[error("claim {token} on event {event:?} was taken over before the commit", event = Brief(.event))]
    Superseded {
        /// The event.
        event: SmolStr,
        /// The token of the claim that no longer holds.
        token: FencingToken,
    },
    /// The transaction was published, but its journal failed or was closed before it was durable.
    /// It is stored or not: compare the version after the next open.
    #[error(
        "unknown whether version {version} is stored, check the version after reopening: {cause}"
    )]
    Unknown {
        /// The version that the transaction made.
        version: u64,
        /// Why it is unknown.
        cause: Box<DurabilityError>,
    },
    /// The transaction was published in this process, but its journal has refused it, so it is
    /// certainly not stored. The store accepts no more commits.
    #[error("version {version} is not stored: {cause}")]
    NotStored {
        /// The version that the transaction made in this process.
        version: u64,
        /// Why it is not stored.
        cause: Box<DurabilityError>,
    },
    /// The transaction was published in this process, but another owner has the document, so it is
    /// not stored. The store accepts no more commits.
    #[error("version {version} is not stored: {cause}")]
    Fenced {
        /// The version that the transaction made in this process.
        version: u64,
        /// Why it is not stored.
        cause: Box<DurabilityError>,
    },
    /// The store was closed, or its journal failed, so it accepts no more commits.
    #[error("the store is read-only: {}", ReadOnlyBecause(.cause))]
    ReadOnly {
        /// The error of the journal; `None` if the store was closed.
        cause: Option<JournalError>,
    },
    /// The transaction was to be the effect of an event, and the inbox of the event's claim is part
    /// of another store.
    #[error("the claim on event {event:?} belongs to another store than the transaction", event = Brief(.event))]
    OtherStore {
        /// The event.
        event: SmolStr,
    },
}

codes! { CommitError {
    Self::Revoked { id, owner, waiter, holder } => "commitRevoked", 409;
    Self::GrantEnded { id, owner, holder } => "commitGrantEnded", 409;
    Self::ForeignDraft { draft, base } => "commitForeignDraft", 500;
    Self::Schema(violation) => as violation;
    Self::NotLocked(cause) => "commitNotLocked" { cause: cause }
        if cause.retry(), cause.http_status();
    Self::Conflict { node, version } => "commitConflict" if true;
    Self::Repeated { key } => "commitRepeated", 409;
    Self::LeaseLost(cause) => "commitLeaseLost" { cause: cause }, 409;
    Self::Superseded { event, token } => "commitSuperseded", 409;
    Self::OtherStore { event } => "commitOtherStore", 500;
    Self::Unknown { version, cause } => "commitUnknown", 500;
    Self::NotStored { version, cause } => "commitNotStored", 503;
    Self::Fenced { version, cause } => "commitFenced", 421;
    Self::ReadOnly { cause } => "commitReadOnly", 503;
}}

struct ConflictingNode<'a>(&'a Option<NodeId>);

impl fmt::Display for ConflictingNode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(id) => write!(f, "node {} was", Brief(id)),
            None => f.write_str("the document as a whole was"),
        }
    }
}

struct ReadOnlyBecause<'a>(&'a Option<JournalError>);

impl fmt::Display for ReadOnlyBecause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(cause) => cause.fmt(f),
            None => f.write_str("it was closed"),
        }
    }
}

struct NowHeld<'a>(&'a Option<Box<LockInfo>>);

impl fmt::Display for NowHeld<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(holder) => write!(f, "; now held by {holder}"),
            None => Ok(()),
        }
    }
}

impl From<SchemaViolation> for CommitError {
    fn from(violation: SchemaViolation) -> Self {
        Self::Schema(Box::new(violation))
    }
}
