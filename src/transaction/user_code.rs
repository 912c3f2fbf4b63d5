//! Code of a user, as operations and hooks keep it.

use crate::sync::assert_unlocked;

/// Code of a user. It may do anything when it is called and when it is dropped, so neither happens
/// under an internal mutex. Debug builds assert that.
pub(super) struct UserCode<F: ?Sized>(F);

impl<F> UserCode<F> {
    pub(super) fn new(code: F) -> Self {
        Self(code)
    }
}

impl<F: ?Sized> UserCode<F> {
    /// The code, to be called.
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
