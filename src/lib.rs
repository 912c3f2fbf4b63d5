//! An embedded document store for threads and tasks. Its transactions run one at a time, in the
//! order in which they request the lock; those that lock only nodes can run beside each other.
//!
//! It is made for desktop and server editors:
//!
//! - A document is a tree of nodes with text, marks and attributes.
//! - An edit is a batch of operations that succeeds or fails as a whole.
//! - A reader holds a version of the document that never changes.
//! - When a program hangs, the store reports which owner holds the lock, since when and for what
//!   purpose, and which requests wait.
//!
//! # Trade-offs
//!
//! - **One writer at a time, in strict order.** Two transactions on the document never run at the
//!   same time, even if they change different nodes. In return there are no conflicts, no retries
//!   and no deadlocks, and all threads see the same order. A transaction that needs only a part of
//!   the document can [lock nodes](DataStore::begin_on) and run beside others that lock nodes.
//!   Conflicts, retries and deadlocks are possible between those.
//! - **One process.** The whole document is in memory. [`DataStore::open`](durable) keeps it in a
//!   file too, which one process can have open. A [`Snapshot`] and a commit, a
//!   [`TransactionResult`](transaction::TransactionResult), are serde data for other storage.
//! - **Threads and tasks wait in one queue.** A [request](lock::PendingRequest) and a
//!   [transaction](transaction::PendingTransaction) wait in a thread, or in a task of any executor
//!   with `.await`.
//! - **While a snapshot lives, commits copy** the data that they would otherwise change in place.
//!   At a million nodes this costs a few microseconds.
//!
//! # One worked example
//!
//! ```
//! use doclock::{DataStore, Editor, View, document::check, dsl::*, transaction::TransactionError};
//!
//! let store = DataStore::new();
//! let editor = Editor::new(store.clone(), "ann");
//!
//! // A batch of operations is one transaction.
//! transaction(&editor, [
//!     create(element("paragraph", [text_node("inline-text", "Hello").with_id("greeting")])),
//!     insert_text(5, " World").on("greeting"),
//! ])
//! .commit()?;
//!
//! // A snapshot never changes.
//! let before = store.snapshot();
//!
//! // The second operation fails, so the first has no effect either.
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
//! // The lock has counters.
//! let stats = store.lock_stats();
//! assert_eq!((stats.total_acquisitions, stats.total_releases, stats.is_locked), (2, 2, false));
//! # Ok::<(), TransactionError>(())
//! ```
//!
//! # Where to start
//!
//! The [guide] has a page for each task, among them [a desktop editor](guide::desktop), [a
//! server](guide::server), [undo](guide::undo), [limits](guide::limits) and [a stuck
//! editor](guide::stuck_editor). [`guide::typescript`] translates a program for the TypeScript API.
//!
//! # Modules
//!
//! The root has the store ([`DataStore`]); what begins on it ([`Transaction`] with its [`Draft`],
//! [`TransactionManager`], [`Editor`]); what is read ([`Snapshot`], [`View`]); ids; the functions
//! that make operations ([`dsl`]); and a [`prelude`].
//!
//! | module | contents |
//! |---|---|
//! | [`document`] | nodes, text, marks, primitive changes and their inverses, selections, limits |
//! | [`schema`] | rules for which documents are valid |
//! | [`transaction`] | operations as data, their results and errors, hooks, retries |
//! | [`history`] | undo and redo of an [`Editor`] |
//! | [`events`] | commits as data, subscriptions and filters |
//! | [`durable`] | documents in a file or another journal: options, errors, when a call returns |
//! | [`pool`] | many documents: opened on demand, closed when idle, with a bound |
//! | [`lease`] | leases: node locks that an owner holds for a duration |
//! | [`diagnostics`] | what holds, waits, lags and pins memory now, as data and as a table |
//! | [`lock`] | [`FifoLock`](lock::FifoLock), its options, errors and statistics; [`lock::node`], [`lock::keyed`], [`lock::limiter`] |
//! | [`inbox`] | messages that are delivered at least once, with effects that happen exactly once |
//! | [`time`] | clocks, one of them for tests, which advance it by hand |
//! | [`guide`] | how to use all of this, with one page for each task |
//!
//! The package `doclock-formats` converts documents from and to Markdown, HTML and ProseMirror;
//! `doclock-watch` shows the diagnostics to other programs.
//!
//! `docs/promises.md` tells what a program may rely on, `docs/architecture.md` how it is built,
//! `docs/invariants` what holds and why, `docs/verification.md` how that is checked,
//! `docs/performance.md` what it costs.

#![cfg_attr(docsrs, feature(doc_cfg))]

// The generator of operations in `tests` names the crate.
#[cfg(all(test, not(loom)))]
extern crate self as doclock;

pub mod codes;
pub mod diagnostics;
pub mod document;
// Only the unit tests of the crate count steps.
#[cfg(all(test, not(loom)))]
#[path = "../tests/growth/steps/mod.rs"]
mod growth;
pub mod guide;
mod id;
pub mod lock;
pub mod pool;
pub mod prelude;
mod store;
pub mod transaction;

pub(crate) use doclock_common::{brief, caught, hashing, millis, shrink, sync};
pub(crate) use doclock_document::internal::{json, steps};
#[doc(inline)]
pub use doclock_locks::time;
#[doc(inline)]
pub use document::schema;
pub use document::{Snapshot, View};
pub use id::{AsNodeId, FencingToken, LockId, NodeId, OwnerId, ParseIdError, TransactionId};
pub use store::{
    AliasError, CommitError, DataStore, Draft, NodeGuard, NodeLocks, Savepoint, SavepointError,
    StoreOptions, Transaction,
};
#[doc(inline)]
pub use store::{durable, events, inbox, lease};
#[doc(inline)]
pub use transaction::{Editor, TransactionManager, dsl, history};

/// The README, whose examples are tests. [`guide`] has the other pages.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
