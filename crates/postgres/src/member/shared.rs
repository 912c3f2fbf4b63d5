//! What the handles and the thread of a member share.

use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Instant;

use doclock::{DataStore, Snapshot};
use parking_lot::{Condvar, Mutex};

use super::DocumentOwner;
use crate::Term;

/// What the handles and the thread of a member share.
pub(super) struct SharedMember {
    pub(super) state: Mutex<MemberState>,
    pub(super) changed: Condvar,
}

pub(super) struct MemberState {
    pub(super) role: MemberRole,
    /// When the snapshot was the newest one.
    pub(super) current_at: Instant,
    pub(super) owner: Option<DocumentOwner>,
    /// The thread in which this owner runs requests, and their hooks.
    pub(super) of_requests: Option<ThreadId>,
    pub(super) has_left: bool,
}

/// The role of a member in the document.
#[derive(Clone)]
pub(super) enum MemberRole {
    Follows(Snapshot),
    Owns(DataStore, Arc<Term>),
}

impl SharedMember {
    pub(super) fn new(snapshot: Snapshot, at: Instant) -> Self {
        let state = MemberState {
            role: MemberRole::Follows(snapshot),
            current_at: at,
            owner: None,
            of_requests: None,
            has_left: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    pub(super) fn set(&self, role: MemberRole, at: Instant, owner: Option<DocumentOwner>) {
        let before = {
            let mut state = self.state.lock();
            (state.current_at, state.owner) = (at, owner);
            std::mem::replace(&mut state.role, role)
        };
        // A store that ends runs code of others, so not under the lock.
        drop(before);
        self.changed.notify_all();
    }

    /// Shows a version that the log has, and no store.
    pub(super) fn follow(&self, snapshot: Snapshot) {
        let role = MemberRole::Follows(snapshot);
        let before = std::mem::replace(&mut self.state.lock().role, role);
        drop(before);
    }

    pub(super) fn current(&self, at: Instant) {
        self.state.lock().current_at = at;
    }

    pub(super) fn end(&self) {
        let role = self.state.lock().role.clone();
        if let MemberRole::Owns(store, _) = role
            && let Some(durable) = store.durable_snapshot()
        {
            self.follow(durable);
        }
        let mut state = self.state.lock();
        (state.has_left, state.owner) = (true, None);
        drop(state);
        self.changed.notify_all();
    }
}

impl MemberState {
    pub(super) fn store(&self) -> Option<DataStore> {
        match &self.role {
            MemberRole::Owns(store, _) => Some(store.clone()),
            MemberRole::Follows(_) => None,
        }
    }
}
