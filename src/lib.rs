//! An embedded, synchronous document store whose transactions run one at a time, in the order in which they asked.
//!
//! For desktop and server editors: documents are trees of nodes with text, marks and attributes; edits are lists of
//! operations that succeed or vanish as a whole; readers hold versions that never change; and when something
//! hangs, the store can say who holds the lock, since when and for what, and who waits.
//!
//! # Trade-offs
//!
//! - **One writer at a time, in strict order.** Two transactions do not run beside each other, even where they would
//!   not meet. What you get for it: no conflicts, no retries, no deadlocks, and an order that everybody sees. Those that need
//!   only a part of the document can [lock nodes](DataStore::begin_on) and run side by side, at the price of all three.
//! - **In memory.** A process that ends takes its documents with it. [`Commit`]s are data, to be written wherever you
//!   like.
//! - **Threads, not tasks.** Waiting blocks the thread that waits.
//! - **A snapshot that is alive makes commits copy** what they would otherwise change in place: a few
//!   microseconds at a million nodes.
//!
//! # One worked example
//!
//! ```
//! use doclock::{DataStore, Editor, TransactionError, View, check, dsl::*};
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
//! | room | what it holds |
//! |---|---|
//! | `queue` | the line in which everything waits: pure, first in first out for each [`Priority`]; [`LockMode`] |
//! | `lock` | [`FifoLock`], its guard, [`Scope`], [`Deadlock`], cancellation, statistics, errors; [`KeyedLock`]; [`InFlightLimiter`] |
//! | `document` | [`Node`], [`Text`], [`Marks`], [`Change`] and its inverse, [`Snapshot`], [`View`], [`Schema`], [`Selection`], the overlay |
//! | `store` | [`DataStore`], [`Transaction`], [`NodeLocks`], [`Lease`], [`Commit`], [`Subscription`] and [`Filter`] |
//! | `transaction` | [`Operation`], the [`dsl`], [`TransactionManager`], [`Hooks`], [`Editor`] with undo and redo |
//! | `inbox` | [`Inbox`]: messages that come at least once, with effects that happen exactly once |
//! | `markdown` | from Markdown and back, with the feature of that name |
//!
//! `docs/design.md` has the invariants and why they hold, `docs/verification.md` how they are checked,
//! `docs/performance.md` what it costs.

// The generator of operations in `tests` names the crate.
#[cfg(all(test, not(loom)))]
extern crate self as doclock;

#[cfg(feature = "bare")]
mod bare;
mod brief;
mod caught;
mod document;
mod fit;
#[cfg(all(test, not(loom)))]
mod growth;
mod hashing;
mod id;
mod inbox;
mod json;
mod lock;
#[cfg(feature = "markdown")]
mod markdown;
mod queue;
mod steps;
mod store;
mod sync;
mod time;
mod transaction;

#[cfg(feature = "bare")]
#[doc(hidden)]
pub use bare::Bare;
pub use document::{
    AttributeFault, AttributePatch, AttributeSpec, Attributes, Change, Children, Conflict, Cut,
    Descendants, EditError, ExpressionError, Fault, Fragment, Half, JsonError, LeaseTarget,
    LeaseTargets, Limit, LimitExceeded, Limits, Mark, MarkType, Marks, MarksChange, Node,
    NodeSelection, NodeSpec, NodeType, Place, Position, Schema, SchemaBuilder, SchemaError,
    SchemaViolation, Selection, Snapshot, Text, TextSelection, ValueType, View, check,
};
pub use id::{FencingToken, LockId, NodeId, OwnerId, ParseIdError, TransactionId};
pub use inbox::{
    Claim, Failure, Feed, Handled, Inbox, InboxOptions, Interrupted, Interruption, Message, Outcome,
};
pub use lock::{
    AcquireOptions, Aimd, Call, CallEvidence, CallSite, CancelEvidence, CancelToken, Deadlock,
    DeadlockLink, DurationSummary, Execution, ExecutionError, FifoLock, InFlightLimiter, JoinError,
    KeySnapshot, KeyedLock, KeyedOptions, KeyedStats, LimiterError, LimiterFigures, LimiterKey,
    LimiterOptions, LimiterSnapshot, Load, LockDump, LockError, LockGuard, LockInfo, LockStats,
    NodeHolder, NodeLockStats, NodeWait, NodeWaiter, Permit, QueueEntry, ReleaseError,
    ReleaseOutcome, Scope, Signal, TaskPanic, TimeoutEvidence, Turn,
};
#[cfg(feature = "markdown")]
pub use markdown::{
    MarkdownOptions, TargetFilter, from_markdown, from_markdown_with, to_markdown, to_markdown_with,
};
pub use queue::{LockMode, Priority};
pub use store::{
    AliasError, Cause, Commit, CommitError, CommitEvent, Committed, DataStore, DeadLetter,
    EventState, ExecutedOperation, Filter, InboxInUse, InboxStats, Lease, LeaseError, LeaseHolder,
    LeaseInfo, LeaseLost, NodeGuard, NodeLocks, ReasonCount, Savepoint, SavepointError,
    StoreOptions, Subscription, TakenOut, Transaction,
};
pub use time::{Clock, ManualClock};
pub use transaction::{
    Alias, BeforeHook, Callback, Child, EditGroup, Editor, Extent, HistoryOptions, HookFailure,
    HookId, Hooks, IdempotencyKey, InHistory, IntoOperations, NodeOperation, NodeRef, Operation,
    OperationError, PanicPayload, Pattern, PatternError, Refusal, ScriptError, TransactionError,
    TransactionManager, TransactionResult, Transient, UndoError, dsl, parse_operations, retry,
};

/// The pages whose examples are tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;
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
