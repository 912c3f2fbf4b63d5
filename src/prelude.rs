//! The names that most programs need: `use doclock::prelude::*;`.
//!
//! It includes the functions that make operations. A program that has functions with the same names
//! imports what it needs by name instead.
//!
//! ```
//! use doclock::prelude::*;
//!
//! let store = DataStore::new();
//! let editor = Editor::new(store.clone(), "ann");
//! let note = create(text_node("paragraph", "Hello").with_id("greeting"));
//! transaction(&editor, [note]).commit()?;
//! assert_eq!(store.snapshot().node("greeting").unwrap().text().to_string(), "Hello");
//! # Ok::<(), TransactionError>(())
//! ```

pub use crate::codes::CodedError;
pub use crate::document::{EditError, Mark, Node, NodeSpec};
pub use crate::dsl::*;
pub use crate::lock::{AcquireOptions, LockError};
pub use crate::transaction::{Operation, OperationError, TransactionError};
pub use crate::{
    CommitError, DataStore, Editor, NodeId, OwnerId, Snapshot, StoreOptions, Transaction,
    TransactionManager, View,
};
