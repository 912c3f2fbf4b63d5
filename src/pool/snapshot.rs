//! A picture of a pool.

use std::time::Duration;

use serde::Serialize;

use super::shared::Shared;
use super::slots::OpenDocuments;
use crate::millis;

/// The documents of a pool at one moment: [`Documents::snapshot`](super::Documents::snapshot).
///
/// Serializes in camelCase, with durations in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PoolSnapshot {
    /// How many documents may be open.
    pub most_open: usize,
    /// How many are open. Those that are being opened or closed count beside these.
    pub open: usize,
    /// How many of the open ones are in use.
    pub in_use: usize,
    /// How many are being opened.
    pub opening: usize,
    /// How many are being closed.
    pub closing: usize,
    /// How many requests wait because all documents that may be open are open.
    pub waiting: usize,
    /// At most [`PoolSnapshot::LISTED`] of the open documents, by name.
    pub documents: Vec<PooledDocument>,
}

impl PoolSnapshot {
    /// How many open documents a snapshot lists at most.
    pub const LISTED: usize = 32;
}

/// An open document of a pool.
///
/// Serializes in camelCase, `idleFor` in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PooledDocument {
    /// The name.
    pub name: String,
    /// How many [`Document`](super::Document)s of it exist.
    pub uses: usize,
    /// How long it has been unused; `None` while it is in use.
    #[serde(with = "millis::option")]
    pub idle_for: Option<Duration>,
}

impl<T> Shared<T> {
    pub(super) fn snapshot(&self) -> PoolSnapshot {
        let (now, waiting) = (self.now(), self.slots.load(&OpenDocuments).queued);
        let table = self.table.lock();
        let [open, in_use, opening, closing] = table.counts();
        let listed = table.each().take(PoolSnapshot::LISTED);
        let listed = listed.map(|(name, uses, last_use)| PooledDocument {
            name: name.to_string(),
            uses,
            idle_for: (uses == 0).then(|| now - last_use),
        });
        let mut documents: Vec<PooledDocument> = listed.collect();
        drop(table);
        documents.sort_by(|a, b| a.name.cmp(&b.name));
        PoolSnapshot {
            most_open: self.options.most_open,
            open,
            in_use,
            opening,
            closing,
            waiting,
            documents,
        }
    }
}
