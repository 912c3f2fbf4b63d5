//! The numberings of a store beside its versions: of transactions, tokens and node ids.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::document::Numbering;
use crate::id::{FencingToken, NodeIds, TransactionId};

/// How far the numberings have come. A version gets a copy when it is published.
///
/// Relaxed, because a number orders no other memory. A transaction sees its own numbers and those
/// of earlier commits by the mutex of the published version.
pub(super) struct Numbers {
    session: u32,
    transactions: AtomicU64,
    lock_token: AtomicU64,
    claim_token: AtomicU64,
}

impl Numbers {
    /// Continues the numbering of a document.
    pub(super) fn after(numbering: Numbering) -> Self {
        Self {
            session: numbering.session.id,
            transactions: numbering.session.transactions.into(),
            lock_token: numbering.lock_token.into(),
            claim_token: numbering.claim_token.into(),
        }
    }

    /// The id of a new transaction.
    pub(super) fn next_transaction(&self) -> TransactionId {
        TransactionId {
            session: self.session,
            number: self.transactions.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }

    /// Notes the token of a transaction. The published version must be locked.
    pub(super) fn note_lock_token(&self, token: FencingToken) {
        raise(&self.lock_token, token.get());
    }

    /// The last token of a claim.
    pub(super) fn claim_token(&self) -> u64 {
        self.claim_token.load(Ordering::Relaxed)
    }

    /// Notes the token of a claim. The bookkeeping must be locked.
    pub(super) fn note_claim_token(&self, token: u64) {
        raise(&self.claim_token, token);
    }

    /// The numbering so far, with that of the leases and of the nodes.
    pub(super) fn so_far(&self, lease_token: u64, ids: &NodeIds) -> Numbering {
        let mut numbering = Numbering {
            lease_token,
            lock_token: self.lock_token.load(Ordering::Relaxed),
            claim_token: self.claim_token(),
            ..Numbering::default()
        };
        numbering.session.id = self.session;
        numbering.session.transactions = self.transactions.load(Ordering::Relaxed);
        numbering.session.nodes = ids.last_of(self.session);
        numbering
    }
}

/// Sets the greatest number so far. The caller excludes other calls, so this needs no exchange.
fn raise(last: &AtomicU64, number: u64) {
    last.store(number.max(last.load(Ordering::Relaxed)), Ordering::Relaxed);
}
