//! What a commit did, as data.

use std::fmt;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::{LeaseLost, TakenOut};
use crate::brief::Brief;
use crate::codes::codes;
use crate::document::Change;
use crate::document::schema::SchemaViolation;
use crate::id::{FencingToken, LockId, NodeId, OwnerId, TransactionId};
use crate::lock::{LockError, LockInfo};

/// One commit in full: enough to repeat it on a copy of the document, or to write it to a log.
///
/// Serializes in camelCase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Commit {
    /// The version that it made.
    pub version: u64,
    /// The transaction.
    pub transaction_id: TransactionId,
    /// Who held the lock.
    pub owner: OwnerId,
    /// The number of the grant; of two commits the later has no smaller one, unless both were on
    /// nodes: then that is so for those that wrote to one node.
    pub fencing_token: FencingToken,
    /// The key under which a repetition of the transaction returns the first result, if it brought
    /// one. From this a copy or a log can tell what was done already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<SmolStr>,
    /// The operations, if the transaction was a list of operations.
    pub operations: Vec<ExecutedOperation>,
    /// The primitive changes, in order. Applied to the version before, they give this one.
    pub changes: Vec<Change>,
}

/// An operation that was carried out.
///
/// Serializes in camelCase: `{"type": "insertText", "nodeId": "1:4", "created": []}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ExecutedOperation {
    /// Its name in the DSL's JSON form.
    #[serde(rename = "type")]
    pub name: SmolStr,
    /// The node that it was aimed at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// The nodes that it created and left behind: those that it inserted, in document order, then
    /// the right halves of those that it cut, the outermost first.
    #[serde(default)]
    pub created: Vec<NodeId>,
}

impl ExecutedOperation {
    /// One that is about no node and creates none.
    pub(crate) fn named(name: SmolStr) -> Self {
        Self {
            name,
            node_id: None,
            created: Vec::new(),
        }
    }
}

/// What became of a committed transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Committed {
    /// The transaction.
    pub transaction_id: TransactionId,
    /// The document's version after it; that before it, if it changed nothing.
    pub version: u64,
    /// Whether it changed anything, and so made that version.
    pub changed: bool,
    /// The changes, in order. None for a transaction that changed nothing: then there was no event
    /// either.
    pub changes: Vec<Change>,
    /// The operations, if the transaction was a list of operations.
    pub operations: Vec<ExecutedOperation>,
}

/// Why a transaction could not be committed. It was rolled back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// It held the lock for longer than
    /// [`StoreOptions::hold_limit`](crate::StoreOptions::hold_limit) while others waited, and the
    /// lock went to the next of them.
    #[error("Lock {id} of owner {owner} was revoked: it was held for too long{}", NowHeld(.holder), owner = Brief(.owner))]
    Revoked {
        /// The grant that the transaction had.
        id: LockId,
        /// Who ran it.
        owner: OwnerId,
        /// Who holds the lock now.
        holder: Option<Box<LockInfo>>,
    },
    /// The grant of the transaction has ended, so another transaction may have been published since
    /// it began.
    #[error("Lock {id} of owner {owner} is not held any more{}", NowHeld(.holder), owner = Brief(.owner))]
    GrantEnded {
        /// The grant that the transaction had.
        id: LockId,
        /// Who ran it.
        owner: OwnerId,
        /// Who holds the lock now.
        holder: Option<Box<LockInfo>>,
    },
    /// The transaction was committed by code that it was lent to: an operation,
    /// [`attempt`](crate::Transaction::attempt), the handler of an inbox.
    #[error(transparent)]
    TakenOut(#[from] TakenOut),
    /// The document would not be as the schema of its store says.
    #[error(transparent)]
    Schema(Box<SchemaViolation>),
    /// The transaction was on nodes and could not lock one that it needed.
    #[error("a node that the transaction needed was not locked: {0}")]
    NotLocked(Box<LockError>),
    /// The transaction was on nodes, and others have changed something meanwhile that it had read
    /// without a lock. Safe to try again.
    #[error("{} read and changed by others until version {version}; safe to try again", Conflicting(.node))]
    Conflict {
        /// A node that was read and is not as it was; `None` if the root or the document as a whole
        /// was read.
        node: Option<NodeId>,
        /// The version in which it is different.
        version: u64,
    },
    /// A transaction with the same idempotency key was committed meanwhile.
    #[error("a transaction with the key {key:?} was committed meanwhile", key = Brief(.key))]
    Repeated {
        /// The key.
        key: SmolStr,
    },
    /// The transaction [required](crate::Transaction::require) a lease that has ended. To be tried
    /// again under another lease.
    #[error("not committed: {0}")]
    LeaseLost(Box<LeaseLost>),
    /// The transaction was the effect of an event, and the claim on that event was taken over, or
    /// ended, before the commit.
    #[error("claim {token} on event {event:?} was taken over before the commit", event = Brief(.event))]
    Superseded {
        /// The event.
        event: SmolStr,
        /// The number of the claim that no longer holds.
        token: FencingToken,
    },
    /// The transaction was to be the effect of an event, and the inbox that the event was claimed
    /// from is part of another store.
    #[error("the claim on event {event:?} is of another store than the transaction", event = Brief(.event))]
    OtherStore {
        /// The event.
        event: SmolStr,
    },
}

codes! { CommitError {
    Self::Revoked { id, owner, holder } => "commitRevoked";
    Self::GrantEnded { id, owner, holder } => "commitGrantEnded";
    Self::TakenOut(error) => as error;
    Self::Schema(violation) => as violation;
    Self::NotLocked(cause) => "commitNotLocked" { cause: cause } if cause.is_transient();
    Self::Conflict { node, version } => "commitConflict" if true;
    Self::Repeated { key } => "commitRepeated";
    Self::LeaseLost(cause) => "commitLeaseLost" { cause: cause };
    Self::Superseded { event, token } => "commitSuperseded";
    Self::OtherStore { event } => "commitOtherStore";
}}

struct Conflicting<'a>(&'a Option<NodeId>);

impl fmt::Display for Conflicting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(id) => write!(f, "node {} was", Brief(id)),
            None => f.write_str("the document as a whole was"),
        }
    }
}

struct NowHeld<'a>(&'a Option<Box<LockInfo>>);

impl fmt::Display for NowHeld<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(holder) => write!(f, "; the lock is now {holder}"),
            None => Ok(()),
        }
    }
}

impl From<SchemaViolation> for CommitError {
    fn from(violation: SchemaViolation) -> Self {
        Self::Schema(Box::new(violation))
    }
}
