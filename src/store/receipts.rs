//! The results of transactions with an idempotency key.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::Deserialize;
use smol_str::SmolStr;

use super::TransactionResult;
use super::notes::{NoteKey, ReceiptNote};

/// Identifies an operation batch by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct BatchDigest(pub(crate) u128);

/// The first result under a key.
#[derive(Clone, Debug, Deserialize)]
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
    /// How many there have been.
    kept: u64,
}

/// A receipt that was kept.
pub(super) struct KeptReceipt {
    /// Its number, greater than those of earlier ones.
    pub(super) number: u64,
    /// The receipt that it displaced, to be dropped outside the mutex.
    pub(super) forgotten: Option<(SmolStr, Arc<Receipt>)>,
}

impl Receipts {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            by_key: HashMap::new(),
            order: VecDeque::new(),
            limit,
            kept: 0,
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<Arc<Receipt>> {
        self.by_key.get(key).cloned()
    }

    /// All receipts, as a journal stores them.
    #[cfg(feature = "redb")]
    pub(super) fn notes(&self) -> impl Iterator<Item = ReceiptNote> {
        let first = self.kept - self.order.len() as u64 + 1;
        (first..).zip(&self.order).filter_map(|(number, key)| {
            let receipt = Arc::clone(self.by_key.get(key)?);
            let key = key.clone();
            Some(ReceiptNote {
                key,
                number,
                receipt,
            })
        })
    }

    /// Keeps a receipt under a new key, unless none is to be kept.
    pub(super) fn keep(&mut self, key: &SmolStr, receipt: &Arc<Receipt>) -> Option<KeptReceipt> {
        if self.limit == 0 {
            return None;
        }
        let forgotten = if self.order.len() == self.limit {
            let oldest = self.order.pop_front();
            oldest.and_then(|oldest| self.by_key.remove_entry(&oldest))
        } else {
            None
        };
        debug_assert!(
            !self.by_key.contains_key(key),
            "looked up under the same lock"
        );
        self.order.push_back(key.clone());
        self.by_key.insert(key.clone(), Arc::clone(receipt));
        // Its number decides only which receipt is forgotten first.
        self.kept = self.kept.saturating_add(1);
        Some(KeptReceipt {
            number: self.kept,
            forgotten,
        })
    }

    /// Keeps stored receipts with their numbers again, and returns the keys of those that are too
    /// many.
    pub(super) fn restore(&mut self, mut stored: Vec<ReceiptNote>) -> Vec<NoteKey> {
        stored.sort_unstable_by_key(|note| note.number);
        self.kept = stored.last().map_or(0, |note| note.number);
        let too_many = stored.len().saturating_sub(self.limit);
        let forgotten = stored.drain(..too_many);
        let forgotten = forgotten.map(|note| NoteKey::Receipt(note.key)).collect();
        for ReceiptNote { key, receipt, .. } in stored {
            self.order.push_back(key.clone());
            self.by_key.insert(key, receipt);
        }
        forgotten
    }
}
