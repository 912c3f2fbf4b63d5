//! What only requests of tasks need: whether a grant was noticed, and looks at deadlines.

use super::*;

impl LockState {
    /// Records that the task knows of its grant.
    pub(crate) fn take_note_of(&mut self, id: LockId) {
        if let Some(hold) = self.hold_of(id) {
            hold.source.untaken = false;
        }
    }

    /// Binds a grant to the thread that runs the work which a task has left.
    pub(crate) fn bind(&mut self, id: LockId, thread: u64) {
        if let Some(hold) = self.hold_of(id) {
            hold.source.thread = thread;
        }
    }

    /// Looks at the waits of tasks for nodes.
    pub(crate) fn look_at_nodes(&self, look: &mut Look<'_, RequestPosition>) {
        for waiter in self.nodes.iter().flat_map(|nodes| nodes.waiters()) {
            waiter.look_at(None, look);
        }
    }
}
