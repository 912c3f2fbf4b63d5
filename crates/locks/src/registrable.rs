//! Lock types that a store shows in its diagnostics.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::Serialize;

use super::LockDiagnostics;
use super::keyed::KeyedStats;
use super::limiter::LimiterTotals;
use crate::caught::dispose;

/// A lock type that a store can show in its diagnostics; see
/// `DataStore::register`.
///
/// It is implemented for [`FifoLock`](super::FifoLock), [`KeyedLock`](super::keyed::KeyedLock) and
/// [`InFlightLimiter`](super::limiter::InFlightLimiter), and for no type of other crates.
pub trait Registrable {
    /// Returns a handle that does not keep the primitive. Only this crate makes one.
    #[doc(hidden)]
    fn primitive(&self) -> Primitive;
}

/// Reads the state of a lock type, without code of users.
pub(super) trait Inspected: Send + Sync {
    fn inspect(self: Arc<Self>) -> PrimitiveState;
}

/// A mutex that is locked for so long is not waited for: code of a user runs under it, which
/// compares or clones a key.
pub(super) const BUSY_AFTER: Duration = Duration::from_millis(10);

/// A lock type that this handle does not keep.
#[derive(Clone)]
pub struct Primitive(Weak<dyn Inspected>);

impl fmt::Debug for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Primitive")
    }
}

impl Primitive {
    pub(super) fn new<T: Inspected + 'static>(shared: &Arc<T>) -> Self {
        let shared = Arc::downgrade(shared);
        Self(shared)
    }

    /// Whether the primitive still exists.
    #[doc(hidden)]
    pub fn exists(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Whether both are handles of one primitive.
    #[doc(hidden)]
    pub fn is(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self.0.as_ptr(), other.0.as_ptr())
    }

    /// Reads the state. `None` if the primitive no longer exists. It may be dropped here with its
    /// keys, which is code of users.
    #[doc(hidden)]
    pub fn inspect(&self) -> Option<PrimitiveState> {
        let shared = self.0.upgrade()?;
        let state = Arc::clone(&shared).inspect();
        dispose(shared);
        Some(state)
    }
}

/// The state of a registered lock type.
///
/// Serializes in camelCase, as an object with the field `kind`. Keys are code of users, so they are
/// counted and not listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
#[non_exhaustive]
pub enum PrimitiveState {
    /// A lock in FIFO order.
    Lock(LockDiagnostics),
    /// A keyed lock.
    Keyed(KeyedStats),
    /// A limiter.
    Limiter(LimiterTotals),
    /// A keyed lock or a limiter that could not be read within 10 ms, because `Eq` or `Clone` of a
    /// key runs for so long.
    Busy,
}
