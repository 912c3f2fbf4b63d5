//! What became of a list of operations.

use std::ops::Not;

use serde::Serialize;

use super::HookFailure;
use crate::document::Selection;
use crate::id::TransactionId;
use crate::store::{ExecutedOperation, Publication, Receipt, Transaction};

/// What became of a list of operations.
///
/// Serializes in camelCase, without hook failures where there are none and without `repeated` where
/// it is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TransactionResult {
    /// The transaction.
    pub transaction_id: TransactionId,
    /// The document's version after it; that before it, if it changed nothing.
    pub version: u64,
    /// Whether it changed anything, and so made that version.
    pub changed: bool,
    /// What was carried out, in order, those within a `control` one by one.
    pub operations: Vec<ExecutedOperation>,
    /// The editor's selection before.
    pub selection_before: Option<Selection>,
    /// The editor's selection after: moved along with the text, gone with the node.
    pub selection_after: Option<Selection>,
    /// Whether this is the result of an earlier transaction with the same idempotency key, and
    /// nothing was done now.
    #[serde(skip_serializing_if = "Not::not")]
    pub repeated: bool,
    /// The after-hooks of this transaction that did not do their work. A repetition runs none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hook_failures: Vec<HookFailure>,
}

impl TransactionResult {
    /// What became of a transaction that is over.
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
