//! The selection and the clipboard of an editor session in a draft on nodes.
//!
//! Others commit while such a draft is open. So its selection follows the log, as the session does.

use std::fmt;
use std::sync::Arc;

use crate::document::{Fragment, Overlay, Selection, Snapshot};
use crate::id::OwnerId;
use crate::store::{DataStore, FollowerId};

/// What a draft on nodes has from a session. Its drop ends the following.
pub(crate) struct FromSession {
    store: DataStore,
    /// `None` without a selection: nothing has to follow then.
    follower: Option<FollowerId>,
    /// The version up to which it has followed.
    version: u64,
    /// The selection of the session before the first operation, in that version.
    selection: Option<Selection>,
    clipboard: Option<Arc<Fragment>>,
}

impl FromSession {
    /// Begins to follow for a session that has a selection. `catch_up` returns the last version
    /// with the selection and the clipboard of the session there.
    pub(crate) fn of(
        store: &DataStore,
        owner: &OwnerId,
        has_selection: bool,
        catch_up: impl FnOnce() -> (Snapshot, Option<Selection>, Option<Fragment>),
    ) -> Self {
        // Before that version is read, so no later commit is missed.
        let follower = has_selection.then(|| store.follow(owner).0);
        let (document, selection, clipboard) = catch_up();
        Self {
            store: store.clone(),
            follower,
            version: document.version(),
            selection,
            clipboard: clipboard.map(Arc::new),
        }
    }

    /// The selection of the session before the first operation, in the version that it has followed
    /// to.
    pub(super) fn selection(&self) -> &Option<Selection> {
        &self.selection
    }

    pub(super) fn clipboard(&self) -> &Option<Arc<Fragment>> {
        &self.clipboard
    }

    /// Moves the selections, also that of an overlay, to the last version, and returns that. `None`
    /// if there is no selection to move.
    pub(super) fn follow(&mut self, overlay: Option<&mut Overlay>) -> Option<Snapshot> {
        let (document, later) = self.store.later_commits(self.follower?, self.version);
        self.version = document.version();
        let of_overlay = overlay.and_then(Overlay::selection_mut);
        for selection in self.selection.as_mut().into_iter().chain(of_overlay) {
            later.move_selection(selection);
        }
        Some(document)
    }
}

impl Drop for FromSession {
    fn drop(&mut self) {
        if let Some(id) = self.follower {
            self.store.stop_following(id);
        }
    }
}

impl fmt::Debug for FromSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromSession").finish_non_exhaustive()
    }
}
