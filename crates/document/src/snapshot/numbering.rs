//! The numberings of a store, for the store that continues with its document.

use serde::{Deserialize, Serialize};

/// How far the numberings of a store had come when a version was published; for leases, also since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbering {
    /// The last fencing token of the lock under which a transaction began.
    pub lock_token: u64,
    /// The last fencing token of a lease.
    pub lease_token: u64,
    /// The last fencing token of all inboxes.
    pub claim_token: u64,
    pub session: SessionNumbers,
}

/// The numberings that belong to the session of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionNumbers {
    /// The session.
    pub id: u32,
    /// The last number of a transaction.
    pub transactions: u64,
    /// The last number of a node id.
    pub nodes: u64,
}

impl SessionNumbers {
    /// The numbers of a session, which continue if it is this one.
    pub fn of(self, id: u32) -> Self {
        match self.id == id {
            true => self,
            false => Self {
                id,
                ..Self::default()
            },
        }
    }
}
