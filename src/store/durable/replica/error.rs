//! Why a replica applies no block, or becomes no store.

use super::Replica;
use crate::codes::{Retry, codes};
use crate::store::durable::format::FORMAT;
use crate::store::durable::{JournalError, OpenError};

/// Why a [`Replica`] did not apply a block. It has the version that it had before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaError {
    /// No document was stored when the replica was loaded. Load it again.
    #[error("no document was stored when the replica was loaded")]
    New,
    /// Blocks before this one are missing. If the journal no longer has them, the replica has to be
    /// loaded again.
    #[error(
        "block {expected} is missing: block {block} follows, and the replica has version {version}"
    )]
    MissingBlock {
        /// The number of the block.
        block: u64,
        /// The number of the first block that is missing.
        expected: u64,
        /// The version of the replica.
        version: u64,
    },
    /// The block follows, but its commits are of other versions than those that follow.
    #[error("the commit of version {expected} is missing: block {block} has version {version}")]
    MissingVersion {
        /// The number of the block.
        block: u64,
        /// The version of a commit in the block.
        version: u64,
        /// The version that was expected in its place.
        expected: u64,
    },
    /// The journal has another history than the replica: another block of this number, or none, or
    /// another checkpoint before it. The replica has to be loaded again.
    #[error("the journal and the replica differ at block {block}")]
    Differs {
        /// The number of the block.
        block: u64,
    },
    /// The bytes of the block are damaged, or its changes cannot be repeated.
    #[error("block {block} is damaged: {cause}")]
    Damaged {
        /// The number of the block.
        block: u64,
        /// What is wrong.
        cause: JournalError,
    },
    /// A later version of doclock has written the block.
    #[error("block {block} has format {found}, and formats up to {known} are known")]
    Newer {
        /// The number of the block.
        block: u64,
        /// The format of the block.
        found: u8,
        /// The last format that this version reads.
        known: u8,
    },
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(JournalError),
    /// A replica that was new cannot be loaded.
    #[error(transparent)]
    Load(Box<OpenError>),
}

codes! { ReplicaError {
    Self::New => "replicaNew" if Retry::Later;
    Self::MissingBlock { block, expected, version } => "replicaMissingBlock", 500;
    Self::MissingVersion { block, version, expected } => "replicaMissingVersion", 500;
    Self::Differs { block } => "replicaDiffers", 500;
    Self::Damaged { block, cause } => "replicaDamaged", 500;
    Self::Newer { block, found, known } => "replicaNewer", 500;
    Self::Journal(error) => as error;
    Self::Load(error) => as error;
}}

impl ReplicaError {
    pub(super) fn damaged(block: u64, cause: JournalError) -> Self {
        Self::Damaged { block, cause }
    }

    pub(super) fn newer(block: u64, found: u8) -> Self {
        Self::Newer {
            block,
            found,
            known: FORMAT,
        }
    }

    /// What an open of the journal would report too. `None` if the journal has a document, and only
    /// the replica cannot reach it.
    pub(super) fn into_open_error(self) -> Option<OpenError> {
        match self {
            Self::New
            | Self::MissingBlock { .. }
            | Self::MissingVersion { .. }
            | Self::Differs { .. } => None,
            Self::Damaged { cause, .. } => Some(OpenError::Corrupt(cause)),
            Self::Newer { found, known, .. } => Some(OpenError::Newer { found, known }),
            Self::Journal(error) => Some(error.into()),
            Self::Load(error) => Some(*error),
        }
    }
}

/// Why a [`Replica`] did not become a store.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
#[non_exhaustive]
pub struct TakeoverError {
    /// The error of the open. If its journal was [fenced](super::super::JournalErrorKind::Fenced),
    /// another process is the owner.
    #[source]
    pub cause: OpenError,
    /// The replica, which can follow the journal again. `None` only if no thread could be started.
    pub replica: Option<Box<Replica>>,
}

codes! { TakeoverError {
    Self { cause, replica } => as cause;
}}
