//! Transactions as lists of operations: data that is run in one go, whole or not at all.

mod admission;
mod declare;
mod desk;
pub mod dsl;
mod edit;
mod editor;
mod error;
mod history;
mod hooks;
mod manager;
mod once;
mod operation;
mod result;
mod retry;
mod run;
mod script;
mod user_code;

pub use editor::{EditGroup, Editor};
pub use error::{OperationError, PanicPayload, TransactionError};
pub use history::{HistoryOptions, InHistory, UndoError};
pub use hooks::{BeforeHook, HookFailure, HookId, Hooks, Refusal};
pub use manager::TransactionManager;
pub use once::IdempotencyKey;
pub use operation::{
    Alias, Callback, Child, Extent, IntoOperations, NodeOperation, NodeRef, Operation, Pattern,
    PatternError,
};
pub use result::TransactionResult;
pub use retry::{Transient, retry};
pub use script::{ScriptError, parse_operations};
