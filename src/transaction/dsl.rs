//! Functions that make operations.
//!
//! An operation describes a change; [`on`](super::NodeOperation::on) or [`control`] sets the node
//! that it applies to.
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
//! assert_eq!(snapshot.node("greeting").unwrap().text(), &"Hello World");
//! # Ok::<(), doclock::transaction::TransactionError>(())
//! ```

use std::error::Error;

use smol_str::SmolStr;

use super::{
    Alias, Callback, Editor, IntoOperations, NodeOperation, NodeRef, Operation, PendingTransaction,
};
use crate::document::{NodeSpec, TextUnit};
use crate::store::Draft;

pub use super::operation::on_document::functions::*;
pub use super::operation::on_node::functions::*;

#[doc(no_inline)]
pub use super::RunOperations;

/// Makes a transaction of an editor, as [`Editor::transaction`] does;
/// [`commit`](PendingTransaction::commit) or `.await` runs it.
#[track_caller]
pub fn transaction(editor: &Editor, operations: impl IntoOperations) -> PendingTransaction<'_> {
    editor.transaction(operations)
}

/// Describes a new node with text.
pub fn text_node(kind: impl Into<SmolStr>, text: impl Into<SmolStr>) -> NodeSpec {
    NodeSpec::new(kind).with_text(text.into())
}

/// Describes a new node with children.
pub fn element(kind: impl Into<SmolStr>, children: impl IntoIterator<Item = NodeSpec>) -> NodeSpec {
    NodeSpec::new(kind).with_children(children)
}

/// Applies each of the operations to this node. Without operations it does nothing.
pub fn control(
    node_id: impl Into<NodeRef>,
    operations: impl IntoIterator<Item = NodeOperation>,
) -> Operation {
    Operation::Control {
        node_id: node_id.into(),
        operations: operations.into_iter().collect(),
        unit: None,
    }
}

/// Sets UTF-16 units as the unit of all text positions in these operations, as in JavaScript,
/// ProseMirror, CodeMirror and the Language Server Protocol. An operation that already [has a
/// unit](Operation::in_unit) keeps it. A position inside a surrogate pair is an error.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [create(text_node("text", "🦀 is a crab").with_id("t"))]).commit()?;
/// transaction(&editor, utf16([
///     apply_mark("bold", 0..2).on("t"),
///     delete_text_range(3, 6).on("t"),
///     replace_text(2, 3, ": ").on("t"),
/// ]))
/// .commit()?;
/// let snapshot = editor.store().snapshot();
/// let node = snapshot.node("t").unwrap();
/// assert_eq!(node.text(), &"🦀: a crab");
/// assert_eq!(node.marks().iter().next().unwrap().range, Some(0..1), "documents count scalar values");
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn utf16(operations: impl IntoOperations) -> Vec<Operation> {
    let operations = operations.into_operations().into_iter();
    operations
        .map(|operation| operation.in_unit(TextUnit::Utf16))
        .collect()
}

/// Refers to the node that an earlier operation of the same transaction created and
/// [`named`](Operation::named).
pub fn alias(name: impl Into<SmolStr>) -> NodeRef {
    NodeRef::Alias(Box::new(Alias { alias: name.into() }))
}

/// Runs code as a step of the transaction.
///
/// If the code returns an error or panics, the transaction fails, and the changes of the code are
/// rolled back with the rest. The code must not wait for the store's lock, which its own
/// transaction holds: such a request is an error at once.
///
/// ```
/// use doclock::{DataStore, Draft, Editor, View, document::EditError, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let count = |draft: &mut Draft| {
///     let length = draft.node("note").map_or(0, |node| node.text().len());
///     draft.set_attrs("note", [("length", length.into())])
/// };
/// transaction(&editor, [create(text_node("inline-text", "abc").with_id("note")), op(count)]).commit()?;
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn op<E>(code: impl Fn(&mut Draft) -> Result<(), E> + Send + Sync + 'static) -> Operation
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    Operation::Call(Callback::new(code))
}

/// Runs code, as [`op`] does, with inverse code that runs when the transaction is undone, after the
/// changes of the document are undone.
///
/// Changes that `code` makes to the document are undone and redone automatically. `inverse` is for
/// effects outside the document; it may also change the document. Neither runs when the transaction
/// is redone: by then the changes of both are data.
pub fn op_with_inverse<E, F>(
    code: impl Fn(&mut Draft) -> Result<(), E> + Send + Sync + 'static,
    inverse: impl Fn(&mut Draft) -> Result<(), F> + Send + Sync + 'static,
) -> Operation
where
    E: Into<Box<dyn Error + Send + Sync>>,
    F: Into<Box<dyn Error + Send + Sync>>,
{
    Operation::Call(Callback::new(code).with_inverse(Callback::new(inverse)))
}
