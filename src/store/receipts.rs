//! The results of transactions with an idempotency key.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use smol_str::SmolStr;

use super::TransactionResult;

/// Identifies an operation batch by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchDigest(pub(crate) u128);

/// The first result under a key.
#[derive(Clone, Debug)]
pub(crate) struct Receipt {
    /// The digest of the executed batch.
    pub(crate) digest: BatchDigest,
    /// Marked as repeated. Without its changes: deleted subtrees would stay in memory.
    pub(crate) result: TransactionResult,
}

/// The latest receipts by their keys. The oldest is dropped first.
#[derive(Debug)]
pub(super) struct Receipts {
    by_key: HashMap<SmolStr, Arc<Receipt>>,
    /// The same keys, oldest first.
    order: VecDeque<SmolStr>,
    limit: usize,
}

impl Receipts {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            by_key: HashMap::new(),
            order: VecDeque::new(),
            limit,
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<Arc<Receipt>> {
        self.by_key.get(key).cloned()
    }

    /// Keeps a receipt under a new key. Returns the receipt that this displaces, for the caller to
    /// drop outside the mutex.
    pub(super) fn keep(&mut self, key: &SmolStr, receipt: &Arc<Receipt>) -> Option<Arc<Receipt>> {
        if self.limit == 0 {
            return None;
        }
        let forgotten = if self.order.len() == self.limit {
            let oldest = self.order.pop_front();
            oldest.and_then(|oldest| self.by_key.remove(&oldest))
        } else {
            None
        };
        debug_assert!(
            !self.by_key.contains_key(key),
            "looked up under the same lock"
        );
        self.order.push_back(key.clone());
        self.by_key.insert(key.clone(), Arc::clone(receipt));
        forgotten
    }
}
