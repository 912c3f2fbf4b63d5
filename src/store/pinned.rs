//! Versions that are kept although a later one has replaced them: they pin memory.

use serde::Serialize;
use std::time::Duration;

use super::DataStore;
use crate::document::{PinnedVersion, Snapshot};
use crate::millis;
use crate::sync::{Mutex, rank};
use crate::time::MonotonicTime;

/// The versions that were still kept when a commit replaced them.
#[derive(Debug, Default)]
pub(super) struct PinnedVersions(Mutex<{ rank::METRICS }, Pinned>);

#[derive(Debug, Default)]
struct Pinned {
    versions: Vec<ReplacedVersion>,
    unlisted: u64,
    /// The place that was looked at last.
    hand: usize,
}

/// How many places of a full list a version looks at.
const LOOKS: usize = 4;

#[derive(Debug)]
struct ReplacedVersion {
    pinned: PinnedVersion,
    version: u64,
    at: MonotonicTime,
}

/// The old versions of the document that are kept in memory.
///
/// Serializes in camelCase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct KeptVersions {
    /// The versions, oldest first: at most [`KeptVersions::LISTED`].
    pub listed: Vec<KeptVersion>,
    /// How many further versions were kept when they were replaced, and found the list full, since
    /// the list was last empty. Some of them may have been dropped since.
    pub unlisted: u64,
}

impl KeptVersions {
    /// How many versions are listed at most.
    pub const LISTED: usize = 64;
}

/// An old version of the document that is kept in memory.
///
/// A [`Snapshot`] keeps it, an open transaction on nodes, or the journal of a durable document,
/// which needs the last durable version. Versions share the nodes that are equal in both, so an old
/// version pins the nodes that were changed or deleted since.
///
/// Serializes in camelCase, `age` in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct KeptVersion {
    /// The version.
    pub version: u64,
    /// The time since the next version replaced it, or a change of leases: since then, it is old.
    /// The snapshot itself may have been taken long before.
    #[serde(with = "millis::duration")]
    pub age: Duration,
    /// How many snapshots and other handles keep it.
    pub handles: usize,
    /// Whether it is the last durable version, which the journal keeps.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub journal: bool,
}

impl Pinned {
    fn add(&mut self, replaced: ReplacedVersion) {
        if self.versions.len() < KeptVersions::LISTED {
            return self.versions.push(replaced);
        }
        // Each version looks at the next few places, so all are looked at in turn.
        for _ in 0..LOOKS {
            self.hand = (self.hand + 1) % KeptVersions::LISTED;
            let place = &mut self.versions[self.hand];
            if place.pinned.handles() == 0 {
                *place = replaced;
                return;
            }
        }
        self.unlisted += 1;
    }

    fn forget_unkept(&mut self) {
        self.versions
            .retain(|replaced| replaced.pinned.handles() > 0);
        if self.versions.is_empty() {
            self.unlisted = 0;
        }
    }
}

impl DataStore {
    /// Notes that the published version, which other handles keep, is about to be replaced.
    #[cold]
    pub(super) fn note_pinned(&self, published: &Snapshot) {
        let replaced = ReplacedVersion {
            pinned: published.pinned(),
            version: published.version(),
            at: self.monotonic(),
        };
        let pinned_versions = &self.0.log.lazy.get_or_make().pinned;
        pinned_versions.0.lock().add(replaced);
    }

    /// Lists the old versions that are kept. `durable` is the one that the journal needs.
    pub(super) fn kept_versions(&self, durable: Option<u64>) -> KeptVersions {
        let Some(parts) = self.0.log.lazy.get() else {
            return KeptVersions::default();
        };
        let mut pinned = parts.pinned.0.lock();
        pinned.forget_unkept();
        let now = self.monotonic();
        let listed = pinned.versions.iter().map(|replaced| KeptVersion {
            version: replaced.version,
            age: now - replaced.at,
            handles: replaced.pinned.handles(),
            journal: durable == Some(replaced.version),
        });
        let mut listed: Vec<_> = listed.collect();
        listed.sort_by_key(|kept| kept.version);
        KeptVersions {
            listed,
            unlisted: pinned.unlisted,
        }
    }
}

#[cfg(all(test, not(loom)))]
impl DataStore {
    /// How many versions a commit has found kept, and noted.
    pub(crate) fn noted_versions(&self) -> usize {
        let parts = self.0.log.lazy.get();
        parts.map_or(0, |parts| parts.pinned.0.lock().versions.len())
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../../tests/unit/pinned.rs"]
mod tests;
