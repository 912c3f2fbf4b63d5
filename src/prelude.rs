//! The names that most programs need: `use doclock::prelude::*;`.
//!
//! It has the operations as functions as well, which a program that names its own functions alike
//! leaves out by importing the other names one by one.
//!
//! ```
//! use doclock::prelude::*;
//!
//! let store = DataStore::new();
//! let editor = Editor::new(store.clone(), "ann");
//! let note = create(text_node("paragraph", "Hello").with_id("greeting"));
//! transaction(&editor, [note]).commit()?;
//! assert_eq!(store.snapshot().node(&"greeting".into()).unwrap().text().to_string(), "Hello");
//! # Ok::<(), TransactionError>(())
//! ```

pub use crate::document::{EditError, Mark, Node, NodeSpec};
pub use crate::dsl::*;
pub use crate::lock::{AcquireOptions, LockError};
pub use crate::transaction::{Operation, OperationError, TransactionError};
pub use crate::{
    CommitError, DataStore, Editor, NodeId, OwnerId, Snapshot, StoreOptions, Transaction,
    TransactionManager, View,
};
