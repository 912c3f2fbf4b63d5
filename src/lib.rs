//! An embedded, synchronous document store whose transactions run one at a time, in the order in
//! which they asked.
//!
//! For desktop and server editors: documents are trees of nodes with text, marks and attributes;
//! edits are lists of operations that succeed or vanish as a whole; readers hold versions that
//! never change; and when something hangs, the store can say who holds the lock, since when and for
//! what, and who waits.
//!
//! # Trade-offs
//!
//! - **One writer at a time, in strict order.** Two transactions do not run beside each other, even
//!   where they would not meet. What you get for it: no conflicts, no retries, no deadlocks, and an
//!   order that everybody sees. Those that need only a part of the document can
//!   [lock nodes](DataStore::begin_on) and run side by side, at the price of all three.
//! - **In memory.** A process that ends takes its documents with it. [`Commit`](events::Commit)s
//!   are data, to be written wherever you like.
//! - **Threads, not tasks.** Waiting blocks the thread that waits.
//! - **A snapshot that is alive makes commits copy** what they would otherwise change in place: a
//!   few microseconds at a million nodes.
//!
//! # One worked example
//!
//! ```
//! use doclock::{DataStore, Editor, View, document::check, dsl::*, transaction::TransactionError};
//!
//! let store = DataStore::new();
//! let editor = Editor::new(store.clone(), "ann");
//!
//! // A list of operations is one transaction.
//! transaction(&editor, [
//!     create(element("paragraph", [text_node("inline-text", "Hello").with_id("greeting")])),
//!     insert_text(5, " World").on("greeting"),
//! ])
//! .commit()?;
//!
//! // A reader's snapshot stays what it is, whatever happens next.
//! let before = store.snapshot();
//!
//! // The second operation is impossible, so the first has not happened either.
//! let error = transaction(&editor, [
//!     set_text("Good bye").on("greeting"),
//!     delete_text_range(7, 99).on("greeting"),
//! ])
//! .commit()
//! .unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "operation 1 (deleteTextRange on node greeting): \
//!      characters 7..99 are out of range: the text of node greeting has 8",
//! );
//! assert_eq!(store.snapshot(), before);
//! assert_eq!(check(&store.snapshot()), Ok(()));
//!
//! // And the lock can be asked what went on.
//! let stats = store.lock_stats();
//! assert_eq!((stats.total_acquisitions, stats.total_releases, stats.is_locked), (2, 2, false));
//! # Ok::<(), TransactionError>(())
//! ```
//!
//! # Where things are
//!
//! At the root: the store ([`DataStore`]) and what begins on it ([`Transaction`],
//! [`TransactionManager`], [`Editor`]), what is read ([`Snapshot`], [`View`]), ids, the operations
//! as functions ([`dsl`]), and a [`prelude`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`document`] | nodes, text, marks, primitive changes and their inverses, selections, limits |
//! | [`schema`] | which documents are allowed |
//! | [`transaction`] | operations as data, their results and errors, hooks, retries |
//! | [`history`] | undo and redo of an [`Editor`] |
//! | [`events`] | commits as data, subscriptions and filters |
//! | [`lease`] | nodes that an owner locks for a duration |
//! | [`lock`] | [`FifoLock`](lock::FifoLock), its options, errors and statistics; [`lock::node`], [`lock::keyed`], [`lock::limiter`] |
//! | [`inbox`] | messages that are delivered at least once, with effects that happen exactly once |
//! | `markdown` | Markdown into nodes and back, with the feature of that name |
//! | [`time`] | clocks, and one that tests turn by hand |
//!
//! `docs/architecture.md` tells how it is built, `docs/invariants` what holds and why,
//! `docs/verification.md` how that is checked, `docs/performance.md` what it costs.

#![cfg_attr(docsrs, feature(doc_cfg))]

// The generator of operations in `tests` names the crate.
#[cfg(all(test, not(loom)))]
extern crate self as doclock;

#[cfg(feature = "bare")]
mod bare;
mod brief;
mod caught;
mod codes;
pub mod document;
mod fit;
#[cfg(all(test, not(loom)))]
mod growth;
mod hashing;
mod id;
pub mod inbox;
mod json;
pub mod lock;
#[cfg(feature = "markdown")]
#[cfg_attr(docsrs, doc(cfg(feature = "markdown")))]
pub mod markdown;
pub mod prelude;
mod queue;
mod steps;
mod store;
mod sync;
pub mod time;
pub mod transaction;

#[cfg(feature = "bare")]
#[doc(hidden)]
pub use bare::Bare;
#[doc(inline)]
pub use document::schema;
pub use document::{Snapshot, View};
pub use id::{FencingToken, LockId, NodeId, OwnerId, ParseIdError, TransactionId};
pub use store::{
    AliasError, CommitError, DataStore, NodeGuard, NodeLocks, Savepoint, SavepointError,
    StoreOptions, TakenOut, Transaction,
};
#[doc(inline)]
pub use store::{events, lease};
#[doc(inline)]
pub use transaction::{Editor, TransactionManager, dsl, history};

/// The pages whose examples are tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/errors.md")]
    struct Errors;
    #[doc = include_str!("../docs/guide.md")]
    struct Guide;
    #[doc = include_str!("../docs/operations.md")]
    struct Operations;
    #[doc = include_str!("../docs/hooks.md")]
    struct Hooks;
    #[doc = include_str!("../docs/inbox.md")]
    struct Inbox;
    #[doc = include_str!("../docs/leases.md")]
    struct Leases;
    #[doc = include_str!("../docs/keyed.md")]
    struct Keyed;
    #[doc = include_str!("../docs/limiter.md")]
    struct Limiter;
    #[doc = include_str!("../docs/node-locks.md")]
    struct NodeLocks;
    #[doc = include_str!("../docs/schema.md")]
    struct Schema;
    #[doc = include_str!("../docs/untrusted-scripts.md")]
    struct UntrustedScripts;
    #[cfg(feature = "markdown")]
    #[doc = include_str!("../docs/queries.md")]
    struct Queries;
}
