//! Idempotency keys, and the digest that distinguishes batches.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;

use super::history::{Direction, UndoScope};
use super::operation::OperationOn;
use super::{IdempotencyMismatch, Operation, TransactionResult};
use crate::id::{NodeId, OwnerId};
use crate::store::{BatchDigest, DataStore};

/// The key of a transaction that runs once, however often it is submitted:
/// [`PendingTransaction::idempotent`](super::PendingTransaction::idempotent). Any string is a valid
/// key.
///
/// The key stands for its batch of operations. A submission with the same key and other operations
/// returns [`IdempotencyMismatch`], unless its key [accepts other
/// operations](Self::accept_other_operations).
///
/// Batches are compared by a digest of 128 bits, in the order of their flattened operations. For
/// operations that are data it covers the JSON form. Operations that run code are compared only by
/// position and name (`op`), because closures cannot be compared. `ifUnchanged` and `requireLease`
/// are ignored, so a batch may be repeated for another version or under another lease.
///
/// The key of an undo or a redo stands for the undo or the redo of this owner, in this scope.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct IdempotencyKey {
    key: SmolStr,
    any: bool,
}

impl IdempotencyKey {
    /// Creates a key that stands for one batch.
    pub fn new(key: impl Into<SmolStr>) -> Self {
        Self {
            key: key.into(),
            any: false,
        }
    }

    /// Makes the key accept other operations: a submission then gets the first result even if its
    /// operations differ. This is for batches that differ each time, because they contain a date or
    /// a new id.
    ///
    /// ```
    /// use doclock::{DataStore, TransactionManager, dsl::*, transaction::IdempotencyKey};
    ///
    /// let manager = TransactionManager::new(DataStore::new());
    /// let log = |time: &'static str| {
    ///     let key = IdempotencyKey::new("start of shift 7").accept_other_operations();
    ///     manager.transaction([create(text_node("entry", time))]).idempotent(key).commit()
    /// };
    /// assert!(!log("08:00")?.repeated);
    /// assert!(log("08:01")?.repeated);
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// ```
    pub fn accept_other_operations(mut self) -> Self {
        self.any = true;
        self
    }

    /// Computes the digest by which the batches of a key are compared. A
    /// [`WrittenReceipt`](crate::durable::WrittenReceipt) has that of its batch.
    ///
    /// The operations are those of the submission, flattened by
    /// [`into_operations`](super::IntoOperations::into_operations).
    pub fn digest(operations: &[Operation]) -> u128 {
        digest(operations).0
    }

    /// Returns the key as a string.
    pub fn as_str(&self) -> &str {
        &self.key
    }
}

macro_rules! key_from {
    ($($text:ty),*) => {$(
        impl From<$text> for IdempotencyKey {
            fn from(key: $text) -> Self {
                Self::new(key)
            }
        }
    )*};
}

key_from!(
    &str,
    &String,
    String,
    SmolStr,
    Box<str>,
    Arc<str>,
    Cow<'_, str>
);

/// An [`IdempotencyKey`] or a text that is one, or an option of one: a client may send none.
/// Without a key, the batch runs each time that it is submitted.
pub trait IntoIdempotencyKey {
    /// Returns the key, if there is one.
    #[doc(hidden)]
    fn into_key(self) -> Option<IdempotencyKey>;
}

impl<K: Into<IdempotencyKey>> IntoIdempotencyKey for K {
    fn into_key(self) -> Option<IdempotencyKey> {
        Some(self.into())
    }
}

impl<K: Into<IdempotencyKey>> IntoIdempotencyKey for Option<K> {
    fn into_key(self) -> Option<IdempotencyKey> {
        self.map(K::into)
    }
}

/// A batch that runs once.
#[derive(Clone, Debug)]
pub(super) struct IdempotentBatch {
    pub(super) key: SmolStr,
    pub(super) digest: BatchDigest,
    /// Whether the receipt of any batch is accepted.
    any: bool,
}

impl IdempotentBatch {
    /// A batch without operations does not use up the key: it looks up the receipt of any batch.
    pub(super) fn new(key: IdempotencyKey, operations: &[Operation], does_nothing: bool) -> Self {
        Self {
            key: key.key,
            digest: digest(operations),
            any: key.any || does_nothing,
        }
    }

    /// An undo or a redo of an owner.
    pub(super) fn of_history(
        key: IdempotencyKey,
        (direction, scope): (Direction, &UndoScope),
        owner: &OwnerId,
    ) -> Self {
        let mut digest = Digest::new();
        digest.text(b'h', direction.name());
        digest.text(b'o', owner.as_str());
        let node = scope.node.as_ref().map(NodeId::to_string);
        node.iter().for_each(|node| digest.text(b'w', node));
        scope.name.iter().for_each(|name| digest.text(b'm', name));
        Self {
            key: key.key,
            digest: BatchDigest(digest.0),
            any: key.any,
        }
    }

    /// Returns the result of the first transaction with the key, if there was one. Refuses the key
    /// if that one had other operations.
    pub(super) fn first_result<E: From<IdempotencyMismatch>>(
        &self,
        store: &DataStore,
    ) -> Option<Result<TransactionResult, E>> {
        let receipt = store.receipt(&self.key)?;
        Some(match self.any || receipt.digest == self.digest {
            true => Ok(receipt.result.clone()),
            false => Err(E::from(IdempotencyMismatch {
                key: self.key.clone(),
                transaction_id: receipt.result.transaction_id,
                version: receipt.result.version,
            })),
        })
    }
}

/// Computes a digest that is equal for equal flattened batches.
fn digest(operations: &[Operation]) -> BatchDigest {
    let mut digest = Digest::new();
    for operation in operations {
        digest.operation(operation);
    }
    BatchDigest(digest.0)
}

/// FNV-1a of 128 bits (Fowler, Noll, Vo): the same in every process and on every machine. It
/// distinguishes batches that differ by accident, as with a wrong key.
struct Digest(u128);

impl Digest {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

    fn new() -> Self {
        Self(Self::OFFSET)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(Self::PRIME);
        }
    }

    /// A tag and a text, prefixed with its length, so different sequences have different bytes.
    fn text(&mut self, tag: u8, text: &str) {
        self.bytes(&[tag]);
        self.bytes(&(text.len() as u64).to_le_bytes());
        self.bytes(text.as_bytes());
    }

    fn operation(&mut self, mut operation: &Operation) {
        while let Operation::Named {
            alias,
            operation: named,
        } = operation
        {
            self.text(b'n', alias);
            operation = named;
        }
        match operation {
            // When a batch may run is not part of what it does: it may be repeated under another
            // lease.
            Operation::OnDocument { operation, .. } if operation.is_condition() => {}
            Operation::Call(_) => self.text(b'c', operation.name()),
            data => match serde_json::to_value(data) {
                Ok(value) => self.value(&value),
                // An operation that cannot be serialized counts like code.
                Err(_) => self.text(b'c', operation.name()),
            },
        }
    }

    /// Members of an object count in the order of their names, in any order of the map.
    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.bytes(b"0"),
            Value::Bool(value) => self.bytes(if *value { b"t" } else { b"f" }),
            Value::Number(number) => self.text(b'#', &number.to_string()),
            Value::String(text) => self.text(b'"', text),
            Value::Array(items) => {
                self.bytes(b"[");
                items.iter().for_each(|item| self.value(item));
                self.bytes(b"]");
            }
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_unstable_by_key(|(name, _)| *name);
                self.bytes(b"{");
                for (name, member) in members {
                    self.text(b':', name);
                    self.value(member);
                }
                self.bytes(b"}");
            }
        }
    }
}
