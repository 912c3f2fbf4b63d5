//! Transactions that are published and not completed.

use std::time::Duration;

use super::TransactionManager;
use crate::id::FencingToken;
use crate::store::durable::DurabilityError;
use crate::store::{ObservedTransaction, TransactionResult};

/// A transaction that is published, and whose after-hooks have not run:
/// [`PendingTransaction::publish`](crate::transaction::PendingTransaction::publish). Without a call
/// of [`finish`](Self::finish) they never run.
#[derive(Clone, Debug)]
#[must_use = "its after-hooks run when it is finished"]
pub struct Published {
    manager: TransactionManager,
    result: TransactionResult,
}

impl Published {
    pub(in crate::transaction) fn new(
        manager: TransactionManager,
        result: TransactionResult,
    ) -> Self {
        Self { manager, result }
    }

    /// Returns the result. Its transaction may be lost in a crash as long as it is not durable.
    pub fn result(&self) -> &TransactionResult {
        &self.result
    }

    /// Waits until the transaction is durable, for at most `timeout`; `None` sets no limit. Returns
    /// at once in a store in memory.
    ///
    /// # Errors
    ///
    /// [`DurabilityError`]: the timeout has passed, the store was closed, or its journal failed.
    pub fn wait_durable(
        &self,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<(), DurabilityError> {
        self.manager
            .store()
            .wait_acknowledged(&self.result, timeout.into())
    }

    /// Runs the after-hooks in this thread and returns the result, with their failures. Does not
    /// wait: call [`wait_durable`](Self::wait_durable) first.
    pub fn finish(self) -> TransactionResult {
        let Self {
            manager,
            mut result,
        } = self;
        // A batch without operations has no token, and runs no hooks.
        if !result.repeated && result.fencing_token != FencingToken(0) {
            manager.follow(&mut result, &ObservedTransaction::default());
        }
        result
    }
}
