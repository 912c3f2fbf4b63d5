//! What the crates of doclock share: ids, codes of errors, hashes, clocks, distributions of
//! durations, times in JSON, and panics of user code that are caught.
//!
//! A program uses `doclock`, which has all of it that is public: [`NodeId`](id::NodeId) and
//! [`OwnerId`](id::OwnerId) at its root, the codes as `doclock::codes`. This crate is there so that
//! `doclock-locks` and `doclock-document` do not depend on each other.

pub mod codes;
pub mod id;

#[allow(missing_docs, missing_debug_implementations)]
#[doc(hidden)]
pub mod behind;
#[allow(missing_docs, missing_debug_implementations)]
#[doc(hidden)]
pub mod brief;
#[allow(missing_docs)]
#[cfg(feature = "sync")]
#[doc(hidden)]
pub mod calendar;
mod call_site;
#[allow(missing_docs, missing_debug_implementations)]
#[doc(hidden)]
pub mod caught;
#[allow(
    clippy::must_use_candidate,
    missing_docs,
    missing_debug_implementations
)]
#[doc(hidden)]
pub mod causes;
#[allow(
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    missing_docs,
    missing_debug_implementations
)]
#[doc(hidden)]
pub mod cells;
#[allow(missing_docs, missing_debug_implementations)]
#[doc(hidden)]
pub mod hashing;
#[allow(missing_docs, missing_debug_implementations)]
#[doc(hidden)]
pub mod helper;
#[allow(missing_docs, missing_debug_implementations)]
#[doc(hidden)]
pub mod key_table;
#[allow(missing_docs, missing_debug_implementations)]
#[doc(hidden)]
pub mod last;
#[allow(missing_docs, missing_debug_implementations)]
#[doc(hidden)]
pub mod millis;
#[allow(missing_docs, missing_debug_implementations)]
#[doc(hidden)]
pub mod opening;
#[allow(missing_docs, missing_debug_implementations)]
#[doc(hidden)]
pub mod packed;
#[allow(
    missing_docs,
    missing_debug_implementations,
    clippy::len_without_is_empty
)]
#[cfg(feature = "pages")]
#[doc(hidden)]
pub mod pages;
#[allow(missing_docs, missing_debug_implementations)]
#[doc(hidden)]
pub mod pairs;
#[allow(
    clippy::must_use_candidate,
    missing_docs,
    missing_debug_implementations
)]
#[doc(hidden)]
pub mod rows;
mod samples;
#[allow(missing_docs, missing_debug_implementations)]
#[doc(hidden)]
pub mod show;
#[allow(missing_docs, missing_debug_implementations)]
#[doc(hidden)]
pub mod shrink;
#[allow(missing_docs, missing_debug_implementations)]
#[cfg(feature = "sync")]
#[doc(hidden)]
pub mod sync;
#[allow(missing_docs, missing_debug_implementations)]
#[doc(hidden)]
pub mod threads;
#[cfg(feature = "sync")]
pub mod time;
#[allow(missing_docs, missing_debug_implementations)]
#[cfg(feature = "sync")]
#[doc(hidden)]
pub mod wake_chain;

pub use call_site::CallSite;
pub use samples::DurationSummary;
#[doc(hidden)]
pub use samples::{Samples, nanos};
pub use threads::ThreadInfo;
