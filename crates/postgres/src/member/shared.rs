//! What the handles and the thread of a member share.

use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Instant;

use doclock::{DataStore, Snapshot};
use parking_lot::{Condvar, Mutex};

use super::DocumentOwner;
use crate::Term;

/// What the handles and the thread of a member share.
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

pub(super) struct State {
    pub(super) part: Part,
    /// When the snapshot was the newest one.
    pub(super) current_at: Instant,
    pub(super) owner: Option<DocumentOwner>,
    /// The thread in which this owner runs requests, and their hooks.
    pub(super) of_requests: Option<ThreadId>,
    pub(super) has_left: bool,
}

/// Which part a member has in the document.
#[derive(Clone)]
pub(super) enum Part {
    Follows(Snapshot),
    Owns(DataStore, Arc<Term>),
}

impl Shared {
    pub(super) fn new(snapshot: Snapshot, at: Instant) -> Self {
        let state = State {
            part: Part::Follows(snapshot),
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

    pub(super) fn set(&self, part: Part, at: Instant, owner: Option<DocumentOwner>) {
        let before = {
            let mut state = self.state.lock();
            (state.current_at, state.owner) = (at, owner);
            std::mem::replace(&mut state.part, part)
        };
        // A store that ends runs code of others, so not under the lock.
        drop(before);
        self.changed.notify_all();
    }

    /// Shows a version that the log has, and no store.
    pub(super) fn follow(&self, snapshot: Snapshot) {
        let part = Part::Follows(snapshot);
        let before = std::mem::replace(&mut self.state.lock().part, part);
        drop(before);
    }

    pub(super) fn current(&self, at: Instant) {
        self.state.lock().current_at = at;
    }

    pub(super) fn end(&self) {
        let part = self.state.lock().part.clone();
        if let Part::Owns(store, _) = part
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

impl State {
    pub(super) fn store(&self) -> Option<DataStore> {
        match &self.part {
            Part::Owns(store, _) => Some(store.clone()),
            Part::Follows(_) => None,
        }
    }
}
