//! Operation batches: data that one transaction runs, completely or not at all.
//!
//! **Use it** to name the types around a batch: [`Operation`], its result ([`TransactionResult`])
//! and errors ([`TransactionError`], [`OperationError`]), [`Hooks`], scripts in JSON
//! ([`parse_operations`]), and [`retry`]. The functions that make operations are in [`dsl`]. A
//! [`TransactionManager`] runs batches; an [`Editor`] runs them for one user, with undo and redo.
//! **Do not use it** where the next step depends on what the one before returned:
//! [`DataStore::begin`](crate::DataStore::begin) begins a transaction by hand.
//!
//! ```
//! use doclock::transaction::{TransactionError, parse_operations};
//! use doclock::{DataStore, TransactionManager};
//!
//! let manager = TransactionManager::new(DataStore::new());
//! let script = r#"[
//!     {"type": "create", "payload": {"node": {"type": "paragraph", "id": "p", "text": "abc"}}},
//!     {"type": "deleteTextRange", "payload": {"nodeId": "p", "start": 0, "end": 9}}
//! ]"#;
//! let error = manager.execute(parse_operations(script)?).unwrap_err();
//! assert!(matches!(error, TransactionError::Operation { index: 1, .. }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch_json;
pub mod dsl;
mod editor;
mod error;
#[doc(hidden)]
pub mod history;
mod hooks;
mod idempotency;
mod limits;
mod manager;
mod operation;
mod pending;
mod retry;
mod run;
mod session;
mod undo;
mod user_code;

pub use batch_json::{ScriptError, parse_operations};
pub use editor::Editor;
pub use error::{IdempotencyMismatch, OperationError, PanicPayload, TransactionError};
pub(crate) use history::{HistoryMode, HistoryOptions, UndoError};
pub use hooks::{BeforeHook, Hooks, Refusal};
pub use idempotency::{IdempotencyKey, IntoIdempotencyKey};
pub use manager::{Published, TransactionManager};
pub use operation::{
    Alias, Callback, Child, DocumentOperation, IntoOperations, NodeOperation, NodeRef, Operation,
    TextSpan, on_document, on_node,
};
pub use pending::PendingTransaction;
pub use retry::retry;
pub use run::RunOperations;

pub use crate::store::{HookFailure, HookId, TransactionResult};
#[doc(inline)]
pub use doclock_document::{Capture, InputEffect, InputRule, InputTarget, Pattern, PatternError};
