//! What most stores never need, in one allocation: an idle store is small.

use std::sync::{Arc, OnceLock};

use super::nodes::Turns;
use super::pinned::PinnedVersions;
use super::registry::Registry;
use crate::lock::FifoLock;

/// Made when the first part of it is needed.
#[derive(Debug, Default)]
pub(super) struct LazyParts(OnceLock<Box<Parts>>);

#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Made when the first transaction on nodes is published.
    pub(super) publishing: OnceLock<FifoLock>,
    /// Made when the first transaction in `retry` is refused.
    pub(super) turns: OnceLock<Arc<Turns>>,
    pub(super) pinned: PinnedVersions,
    pub(super) registry: Registry,
}

impl LazyParts {
    pub(super) fn get(&self) -> Option<&Parts> {
        self.0.get().map(|parts| &**parts)
    }

    pub(super) fn get_or_make(&self) -> &Parts {
        self.0.get_or_init(Box::default)
    }
}
