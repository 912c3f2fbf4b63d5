//! What a store does at this moment: holders, waiters, followers that lag, memory that is pinned.
//!
//! **Use it** when a program hangs or slows down: [`DataStore::diagnostics`] returns one picture as
//! data, and prints it as a table. **Do not use it** to measure: the metrics of the lock have the
//! distributions of waits and holds ([`DataStore::lock_stats`]).
//!
//! ```
//! use doclock::{DataStore, lock::AcquireOptions};
//!
//! let store = DataStore::new();
//! let import = store.request("ann").label("import").wait()?;
//! let waiter = std::thread::spawn({
//!     let store = store.clone();
//!     move || store.lock("ben").map(drop)
//! });
//! while store.queue_length() == 0 {
//!     std::thread::yield_now();
//! }
//!
//! let diagnostics = store.diagnostics();
//! let [holder, waiter_ahead] = [
//!     diagnostics.lock.holders[0].holder.lock_id,
//!     diagnostics.lock.waiters[0].blocked_by[0],
//! ];
//! assert_eq!(holder, waiter_ahead);
//! println!("{diagnostics}");
//! drop(import);
//! waiter.join().unwrap()?;
//! # Ok::<(), doclock::lock::LockError>(())
//! ```
//!
//! The package `doclock-watch` shows the picture to other programs of the machine.
//!
//! [`DataStore::diagnostics`]: crate::DataStore::diagnostics
//! [`DataStore::lock_stats`]: crate::DataStore::lock_stats

mod table;
mod timeline;

pub use crate::store::diagnostics::{
    Diagnostics, DurableDiagnostics, InboxDiagnostics, KeptVersion, KeptVersions, LeaseDiagnostics,
    LogDiagnostics, RegisteredPrimitive, SessionDiagnostics, SubscriberDiagnostics,
};
pub use timeline::{TimelineLayout, TimelineTrack, chrome_trace};
