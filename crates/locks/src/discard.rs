//! Values of users that the crate may have to drop.

use std::fmt;
use std::mem;
use std::ops::Deref;
use std::thread;

use crate::caught::dispose;
use crate::sync::{assert_unlocked, key_code};

/// A value of a user, which may be taken out.
///
/// Its `Drop` is code of a user. If that panics while the thread already unwinds, the panic ends
/// here, because a second one would abort the program. So all elements of a vector are dropped, and
/// the first panic resumes.
#[derive(Clone)]
pub(super) struct Discard<T>(Option<T>);

impl<T> Discard<T> {
    #[inline(always)]
    pub(super) fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// Returns the value; `None` if it was taken out.
    #[inline(always)]
    pub(super) fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }

    /// Takes the value out.
    ///
    /// # Panics
    ///
    /// If the value was already taken out.
    #[inline(always)]
    pub(super) fn take(&mut self) -> T {
        self.0.take().expect("a value is taken out once")
    }

    #[inline(always)]
    pub(super) fn into_inner(mut self) -> T {
        self.take()
    }
}

impl<T> Deref for Discard<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.0
            .as_ref()
            .expect("a value that was taken out is not used")
    }
}

impl<T> Drop for Discard<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if !mem::needs_drop::<T>() {
            return;
        }
        let Some(value) = self.0.take() else {
            return;
        };
        if !key_code::runs() {
            assert_unlocked("a value of a user is dropped");
        }
        if thread::panicking() {
            dispose(value);
        } else {
            drop(value);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Discard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("moved"),
        }
    }
}
