//! Transactions as lists of operations: data that is run in one go, whole or not at all.

pub mod dsl;
mod editor;
mod error;
mod manager;
mod operation;
mod run;
mod script;
mod selection;

pub use editor::Editor;
pub use error::{OperationError, PanicPayload, TransactionError};
pub use manager::{TransactionManager, TransactionResult};
pub use operation::{Callback, Child, IntoOperations, NodeOperation, Operation};
pub use script::{ScriptError, parse_operations};
pub use selection::{Position, Selection};
