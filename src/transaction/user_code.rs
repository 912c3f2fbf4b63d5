//! Code of a user, as operations and hooks store it.

use crate::sync::assert_unlocked;

/// Code of a user. A call or a drop of it may run anything, so neither happens under an internal
/// mutex. Debug builds assert that.
pub(super) struct UserCode<F: ?Sized>(F);

impl<F> UserCode<F> {
    pub(super) fn new(code: F) -> Self {
        Self(code)
    }
}

impl<F: ?Sized> UserCode<F> {
    /// Returns the code for a call.
    pub(super) fn get(&self) -> &F {
        assert_unlocked("code of a user is called");
        &self.0
    }
}

impl<F: ?Sized> Drop for UserCode<F> {
    fn drop(&mut self) {
        assert_unlocked("code of a user is dropped");
    }
}
