//! What a draft on nodes has from the session of an editor: its selection and its clipboard.
//!
//! Others commit while such a draft is open. So its selection follows the log, as the session does.

use std::sync::Arc;

use crate::document::{Fragment, Selection, Snapshot};
use crate::id::OwnerId;
use crate::store::{DataStore, FollowerId, LaterCommits};

/// What a draft on nodes has from a session. Its drop ends the following.
pub(crate) struct FromSession {
    store: DataStore,
    follower: FollowerId,
    /// The version up to which it has followed.
    version: u64,
    /// The selection of the session before the first operation, in that version.
    selection: Option<Selection>,
    /// How often the selection of the session had been set.
    pub(crate) selected: u64,
    pub(in crate::store) clipboard: Option<Arc<Fragment>>,
    /// The commits by which it has followed, each time with the version before.
    moves: Vec<(u64, LaterCommits)>,
}

impl FromSession {
    /// Begins to follow. `catch_up` returns the last version with what the session has there: its
    /// selection, how often that was set, and its clipboard.
    pub(crate) fn of(
        store: &DataStore,
        owner: &OwnerId,
        mut catch_up: impl FnMut() -> (Snapshot, Option<Selection>, u64, Option<Fragment>),
    ) -> Self {
        let (follower, _) = store.follow(owner);
        let (document, selection, selected, clipboard) = loop {
            let caught_up = catch_up();
            let version = caught_up.0.version();
            // Now it has read what the session has.
            if store.later_commits(follower, version).0.version() == version {
                break caught_up;
            }
        };
        Self {
            store: store.clone(),
            follower,
            version: document.version(),
            selection,
            selected,
            clipboard: clipboard.map(Arc::new),
            moves: Vec::new(),
        }
    }

    pub(super) fn selection(&self) -> &Option<Selection> {
        &self.selection
    }

    /// Follows the document to its last version, and returns that. Moves its selection and another
    /// one.
    pub(super) fn follow(&mut self, other: Option<&mut Selection>) -> Snapshot {
        let (document, later) = self.store.later_commits(self.follower, self.version);
        for selection in self.selection.as_mut().into_iter().chain(other) {
            later.move_selection(selection);
        }
        if !later.is_empty() {
            self.moves.push((self.version, later));
        }
        self.version = document.version();
        document
    }

    /// Moves a selection of an earlier version of a draft to the version of that draft.
    pub(super) fn move_from(&self, version: u64, selection: &mut Selection) {
        let since = self.moves.iter().filter(|(before, _)| *before >= version);
        since.for_each(|(_, later)| later.move_selection(selection));
    }
}

impl Drop for FromSession {
    fn drop(&mut self) {
        self.store.stop_following(self.follower);
    }
}
