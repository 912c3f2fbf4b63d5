//! Results of operation batches.

use std::ops::Not;

use serde::Serialize;

use super::HookFailure;
use crate::document::Selection;
use crate::id::TransactionId;
use crate::store::{ExecutedOperation, Publication, Receipt, Transaction};

/// The result of an operation batch.
///
/// Serializes in camelCase. Empty hook failures are omitted, and so is `repeated` if it is false.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TransactionResult {
    /// The id of the transaction.
    pub transaction_id: TransactionId,
    /// The document's version after the transaction; the version before it, if nothing changed.
    pub version: u64,
    /// Whether the transaction changed anything, and so made that version.
    pub changed: bool,
    /// The executed operations, in order; those within a `control` are listed separately.
    pub operations: Vec<ExecutedOperation>,
    /// The editor's selection before the transaction.
    pub selection_before: Option<Selection>,
    /// The editor's selection after it: moved along with the text, or removed with its node.
    pub selection_after: Option<Selection>,
    /// Whether this is the result of an earlier transaction with the same idempotency key; nothing
    /// was done now.
    #[serde(skip_serializing_if = "Not::not")]
    pub repeated: bool,
    /// The after-hooks of this transaction that failed. A repetition runs none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hook_failures: Vec<HookFailure>,
}

impl TransactionResult {
    /// The result of a completed transaction.
    #[inline]
    pub(super) fn new(
        transaction: &mut Transaction,
        published: Publication,
        selection_before: Option<Selection>,
        selection_after: Option<Selection>,
    ) -> Self {
        Self {
            transaction_id: transaction.id(),
            version: published.version,
            changed: published.changed,
            operations: transaction.take_executed(),
            selection_before,
            selection_after,
            repeated: false,
            hook_failures: Vec::new(),
        }
    }

    pub(super) fn repeated(first: &Receipt) -> Self {
        Self {
            transaction_id: first.transaction_id,
            version: first.version,
            changed: first.changed,
            operations: first.operations.clone(),
            selection_before: first.selection_before.clone(),
            selection_after: first.selection_after.clone(),
            repeated: true,
            hook_failures: Vec::new(),
        }
    }
}
