//! The words in which transactions are written.
//!
//! An operation says what is to be done; [`on`](super::NodeOperation::on) or [`control`] says to which node.
//!
//! ```
//! use doclock::{DataStore, Editor, View, dsl::*};
//!
//! let editor = Editor::new(DataStore::new(), "ann");
//! transaction(&editor, [
//!     create(element("paragraph", []).with_id("intro")),
//!     add_child(text_node("inline-text", "Hello").with_id("greeting"), None).on("intro"),
//!     control("greeting", [insert_text(5, " World"), set_attrs([("lang", "en".into())])]),
//! ])
//! .commit()?;
//! let snapshot = editor.store().snapshot();
//! assert_eq!(snapshot.node(&"greeting".into()).unwrap().text(), &"Hello World");
//! # Ok::<(), doclock::TransactionError>(())
//! ```

use std::error::Error;

use serde_json::Value;
use smol_str::SmolStr;

use super::{
    Callback, Child, Editor, IntoOperations, NodeOperation, Operation, TransactionError,
    TransactionResult,
};
use crate::document::NodeSpec;
use crate::id::NodeId;
use crate::store::Transaction;

/// A transaction of an editor, to be run with [`commit`](PendingTransaction::commit).
pub fn transaction(editor: &Editor, operations: impl IntoOperations) -> PendingTransaction<'_> {
    PendingTransaction {
        editor,
        operations: operations.into_operations(),
    }
}

/// A list of operations with the editor who will run it.
#[derive(Debug)]
#[must_use = "nothing happens until it is committed"]
pub struct PendingTransaction<'a> {
    editor: &'a Editor,
    operations: Vec<Operation>,
}

impl PendingTransaction<'_> {
    /// Waits for the lock, runs the operations in order and commits. See [`Editor::execute`].
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; nothing is changed then.
    pub fn commit(self) -> Result<TransactionResult, TransactionError> {
        self.editor.execute(self.operations)
    }
}

/// A node with text, to be created.
pub fn text_node(kind: impl Into<SmolStr>, text: impl Into<SmolStr>) -> NodeSpec {
    NodeSpec::new(kind).with_text(text.into())
}

/// A node with children, to be created.
pub fn element(kind: impl Into<SmolStr>, children: impl IntoIterator<Item = NodeSpec>) -> NodeSpec {
    NodeSpec::new(kind).with_children(children)
}

/// Creates a node, with all below it, attached nowhere.
pub fn create(node: NodeSpec) -> Operation {
    Operation::Create { node }
}

/// Gives every operation this node. Without operations it does nothing.
pub fn control(
    node_id: impl Into<NodeId>,
    operations: impl IntoIterator<Item = NodeOperation>,
) -> Operation {
    Operation::Control {
        node_id: node_id.into(),
        operations: operations.into_iter().collect(),
    }
}

/// Runs code as a step of the transaction.
///
/// Its error, or its panic, fails the transaction; what it had done until then is undone with the rest. It must
/// not wait for the store's lock, which its own transaction holds: asking for it is an error at once.
///
/// ```
/// use doclock::{DataStore, Editor, EditError, Transaction, View, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let count = |transaction: &mut Transaction| {
///     let length = transaction.node(&"note".into()).map_or(0, |node| node.text().len());
///     transaction.set_attrs(&"note".into(), [("length", length.into())])
/// };
/// transaction(&editor, [create(text_node("inline-text", "abc").with_id("note")), op(count)]).commit()?;
/// # Ok::<(), doclock::TransactionError>(())
/// ```
pub fn op<E>(code: impl Fn(&mut Transaction) -> Result<(), E> + Send + Sync + 'static) -> Operation
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    Operation::Call(Callback::new(code))
}

/// Deletes the node with all below it.
pub fn delete() -> NodeOperation {
    NodeOperation::Delete {}
}

/// Attaches a child at an index, or at the end for `None`: a new node, or one that exists, which leaves the place
/// where it was.
pub fn add_child(child: impl Into<Child>, index: impl Into<Option<usize>>) -> NodeOperation {
    NodeOperation::AddChild {
        child: child.into(),
        index: index.into(),
    }
}

/// Detaches a child; it stays in the store, attached nowhere.
pub fn remove_child(child_id: impl Into<NodeId>) -> NodeOperation {
    NodeOperation::RemoveChild {
        child_id: child_id.into(),
    }
}

/// Attaches the node under another, where it then has the index, or is the last for `None`.
pub fn move_node(parent_id: impl Into<NodeId>, index: impl Into<Option<usize>>) -> NodeOperation {
    NodeOperation::MoveNode {
        parent_id: parent_id.into(),
        index: index.into(),
    }
}

/// Replaces the whole text.
pub fn set_text(text: impl Into<SmolStr>) -> NodeOperation {
    NodeOperation::SetText { text: text.into() }
}

/// Inserts characters before the one at `offset`.
pub fn insert_text(offset: usize, text: impl Into<SmolStr>) -> NodeOperation {
    NodeOperation::InsertText {
        offset,
        text: text.into(),
    }
}

/// Deletes the characters from `start` up to, not including, `end`.
pub fn delete_text_range(start: usize, end: usize) -> NodeOperation {
    NodeOperation::DeleteTextRange { start, end }
}

/// Replaces the characters from `start` up to, not including, `end`.
pub fn replace_text(start: usize, end: usize, text: impl Into<SmolStr>) -> NodeOperation {
    NodeOperation::ReplaceText {
        start,
        end,
        text: text.into(),
    }
}

/// Sets attributes and leaves the others; `null` removes one.
pub fn set_attrs<K: Into<String>>(attrs: impl IntoIterator<Item = (K, Value)>) -> NodeOperation {
    NodeOperation::SetAttrs {
        attrs: attrs
            .into_iter()
            .map(|(key, value)| (key.into(), value))
            .collect(),
    }
}
