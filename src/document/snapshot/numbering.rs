//! The numberings of a store, for the store that continues with its document.

use serde::{Deserialize, Serialize};

/// How far the numberings of a store had come when a version was published; for leases, also since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbering {
    /// The last fencing token of the lock under which a transaction began.
    pub(crate) lock_token: u64,
    /// The last fencing token of a lease.
    pub(crate) lease_token: u64,
    /// The last fencing token of all inboxes.
    pub(crate) claim_token: u64,
    pub(crate) session: SessionNumbers,
}

/// The numberings that belong to the session of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionNumbers {
    /// The session.
    pub(crate) id: u32,
    /// The last number of a transaction.
    pub(crate) transactions: u64,
    /// The last number of a node id.
    pub(crate) nodes: u64,
}

impl SessionNumbers {
    /// The numbers of a session, which continue if it is this one.
    pub(crate) fn of(self, id: u32) -> Self {
        match self.id == id {
            true => self,
            false => Self {
                id,
                ..Self::default()
            },
        }
    }
}
