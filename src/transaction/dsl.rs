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
use std::ops::{Bound, RangeBounds};

use serde_json::{Map, Value};
use smol_str::SmolStr;

use super::manager::Submission;
use super::{
    Alias, Callback, Child, Editor, Extent, InHistory, IntoOperations, NodeOperation, NodeRef,
    Operation, TransactionError, TransactionResult,
};
use crate::document::{Attributes, Fragment, Mark, NodeSpec, Selection};
use crate::lock::AcquireOptions;
use crate::store::Transaction;

/// A transaction of an editor, to be run with [`commit`](PendingTransaction::commit).
pub fn transaction(editor: &Editor, operations: impl IntoOperations) -> PendingTransaction<'_> {
    PendingTransaction {
        editor,
        operations: operations.into_operations(),
        in_history: InHistory::Recorded,
        options: AcquireOptions::new(),
        idempotency_key: None,
    }
}

/// A list of operations with the editor who will run it.
#[derive(Debug)]
#[must_use = "nothing happens until it is committed"]
pub struct PendingTransaction<'a> {
    editor: &'a Editor,
    operations: Vec<Operation>,
    in_history: InHistory,
    options: AcquireOptions,
    idempotency_key: Option<SmolStr>,
}

impl PendingTransaction<'_> {
    /// What becomes of it in the editor's history.
    pub fn in_history(mut self, how: InHistory) -> Self {
        self.in_history = how;
        self
    }

    /// How it waits for the lock.
    pub fn options(mut self, options: AcquireOptions) -> Self {
        self.options = options;
        self
    }

    /// Carries the transaction out once for this key: if it comes again, the result of the first time is returned
    /// and nothing is done. See [`TransactionManager::execute_once`](super::TransactionManager::execute_once).
    ///
    /// ```
    /// use doclock::{DataStore, Editor, dsl::*};
    ///
    /// let editor = Editor::new(DataStore::new(), "ann");
    /// let upload = || transaction(&editor, [create(element("image", []))]).idempotent("upload 7");
    /// upload().commit()?;
    /// assert!(upload().commit()?.repeated);
    /// assert_eq!(editor.store().snapshot().len(), 1);
    /// # Ok::<(), doclock::TransactionError>(())
    /// ```
    pub fn idempotent(mut self, key: impl Into<SmolStr>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Waits for the lock, runs the operations in order and commits. See [`Editor::execute`].
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; nothing is changed then.
    pub fn commit(self) -> Result<TransactionResult, TransactionError> {
        let submission = Submission {
            operations: self.operations,
            options: self.options,
            idempotency_key: self.idempotency_key,
        };
        self.editor.submit(submission, self.in_history)
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
    node_id: impl Into<NodeRef>,
    operations: impl IntoIterator<Item = NodeOperation>,
) -> Operation {
    Operation::Control {
        node_id: node_id.into(),
        operations: operations.into_iter().collect(),
    }
}

/// The node that an earlier operation of the same transaction created and [`named`](Operation::named).
pub fn alias(name: impl Into<SmolStr>) -> NodeRef {
    NodeRef::Alias(Box::new(Alias { alias: name.into() }))
}

/// Refuses the transaction unless it starts from this version of the document, so from what somebody saw when
/// they decided on it.
///
/// ```
/// use doclock::{DataStore, Editor, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [if_unchanged(0), create(element("list", []))]).commit()?;
/// let error = transaction(&editor, [if_unchanged(0), create(element("list", []))]).commit().unwrap_err();
/// assert_eq!(error.to_string(), "operation 0 (ifUnchanged): the document is at version 1, not 0");
/// # Ok::<(), doclock::TransactionError>(())
/// ```
pub fn if_unchanged(version: u64) -> Operation {
    Operation::IfUnchanged { version }
}

/// Selects something.
pub fn set_selection(selection: impl Into<Selection>) -> Operation {
    Operation::SetSelection {
        selection: selection.into(),
    }
}

/// Selects nothing.
pub fn clear_selection() -> Operation {
    Operation::ClearSelection
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

/// As [`op`], with code that runs when the transaction is undone, after its changes of the document were.
///
/// What `code` does to the document is undone and redone without any help. `inverse` is for what lies outside of it,
/// and may change the document besides. Neither runs when the transaction is redone: the changes of both are data
/// by then.
pub fn op_with_inverse<E, F>(
    code: impl Fn(&mut Transaction) -> Result<(), E> + Send + Sync + 'static,
    inverse: impl Fn(&mut Transaction) -> Result<(), F> + Send + Sync + 'static,
) -> Operation
where
    E: Into<Box<dyn Error + Send + Sync>>,
    F: Into<Box<dyn Error + Send + Sync>>,
{
    Operation::Call(Callback::new(code).with_inverse(Callback::new(inverse)))
}

// --- The tree ---

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
pub fn remove_child(child_id: impl Into<NodeRef>) -> NodeOperation {
    NodeOperation::RemoveChild {
        child_id: child_id.into(),
    }
}

/// Detaches children; they stay in the store, attached nowhere. One that is named twice, or is no child of the node,
/// is an error.
pub fn remove_children<R: Into<NodeRef>>(child_ids: impl IntoIterator<Item = R>) -> NodeOperation {
    NodeOperation::RemoveChildren {
        child_ids: refs(child_ids),
    }
}

/// Attaches the node under another, where it then has the index, or is the last for `None`.
pub fn move_node(parent_id: impl Into<NodeRef>, index: impl Into<Option<usize>>) -> NodeOperation {
    NodeOperation::MoveNode {
        parent_id: parent_id.into(),
        index: index.into(),
    }
}

/// Attaches children of the node under another (or elsewhere under the same), one behind the other in the order given,
/// so that the first then has the index, or all are at the end for `None`. One that is named twice, or is no child of
/// the node, is an error.
pub fn move_children<R: Into<NodeRef>>(
    child_ids: impl IntoIterator<Item = R>,
    parent_id: impl Into<NodeRef>,
    index: impl Into<Option<usize>>,
) -> NodeOperation {
    NodeOperation::MoveChildren {
        child_ids: refs(child_ids),
        parent_id: parent_id.into(),
        index: index.into(),
    }
}

/// Changes places with the previous sibling. The first of its siblings stays where it is; a node without a parent is
/// an error.
pub fn move_block_up() -> NodeOperation {
    NodeOperation::MoveBlockUp {}
}

/// Changes places with the next sibling. The last of its siblings stays where it is; a node without a parent is an
/// error.
pub fn move_block_down() -> NodeOperation {
    NodeOperation::MoveBlockDown {}
}

/// Brings the children into another order. Each child has to be named once, and nothing else. As few of them as possible
/// are moved.
///
/// ```
/// use doclock::{DataStore, Editor, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let items = ["a", "b", "c"].map(|id| element("item", []).with_id(id));
/// transaction(&editor, [create(element("list", items).with_id("list"))]).commit()?;
/// transaction(&editor, [reorder_children(["c", "a", "b"]).on("list")]).commit()?;
/// let error = transaction(&editor, [reorder_children(["a", "b"]).on("list")]).commit().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "operation 0 (reorderChildren on node list): \
///      node c is a child of list, but the new order leaves it out",
/// );
/// # Ok::<(), doclock::TransactionError>(())
/// ```
pub fn reorder_children<R: Into<NodeRef>>(child_ids: impl IntoIterator<Item = R>) -> NodeOperation {
    NodeOperation::ReorderChildren {
        child_ids: refs(child_ids),
    }
}

/// Creates a copy of the node without its children: type, attributes, text and marks under a new id. It comes to stand
/// right behind the original; [`copy_node_to`] says where else. The copy of a node without a parent has none.
pub fn copy_node() -> NodeOperation {
    NodeOperation::CopyNode {
        parent_id: None,
        index: None,
    }
}

/// As [`copy_node`], with the copy under another node at an index, or at the end for `None`.
pub fn copy_node_to(
    parent_id: impl Into<NodeRef>,
    index: impl Into<Option<usize>>,
) -> NodeOperation {
    NodeOperation::CopyNode {
        parent_id: Some(parent_id.into()),
        index: index.into(),
    }
}

/// Creates a copy of the node and of all below it, under new ids. It comes to stand right behind the original;
/// [`clone_node_with_children_to`] says where else. The copy of a node without a parent has none.
pub fn clone_node_with_children() -> NodeOperation {
    NodeOperation::CloneNodeWithChildren {
        parent_id: None,
        index: None,
    }
}

/// As [`clone_node_with_children`], with the copy under another node at an index, or at the end for `None`. That may be
/// the node itself or one below it.
pub fn clone_node_with_children_to(
    parent_id: impl Into<NodeRef>,
    index: impl Into<Option<usize>>,
) -> NodeOperation {
    NodeOperation::CloneNodeWithChildren {
        parent_id: Some(parent_id.into()),
        index: index.into(),
    }
}

/// Puts a new node in the place of the node, which becomes its last child. Around a node without a parent the new one has
/// none either. The root cannot be wrapped.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [
///     create(element("page", [text_node("paragraph", "To be").with_id("line")])),
///     wrap_node(element("quote", []).with_id("quote")).on("line"),
/// ])
/// .commit()?;
/// let page = editor.store().snapshot();
/// assert_eq!(page.parent(&"line".into()), Some(&"quote".into()));
/// # Ok::<(), doclock::TransactionError>(())
/// ```
pub fn wrap_node(node: NodeSpec) -> NodeOperation {
    NodeOperation::WrapNode { node }
}

/// Takes the node out of its parent and puts it in the parent's place among the parent's siblings: before the parent
/// if it was the first child, behind it if it was the last, between its two halves otherwise, the first of which keeps the
/// parent's text. The only child comes to stand instead of the parent, which goes, or behind it if it has text. A node
/// without a grandparent is an error.
pub fn lift_node() -> NodeOperation {
    NodeOperation::LiftNode {}
}

/// Puts the node at the end of its previous sibling: into that sibling's last child if it is of the same type as the
/// node's parent, and not of the node's own (a nested list goes on), else right into the sibling. The first of its
/// siblings stays where it is; a node without a parent is an error. For nested lists see [`indent_node_in`].
pub fn indent_node() -> NodeOperation {
    NodeOperation::IndentNode { container: None }
}

/// As [`indent_node`]; where there is no nested list that goes on, the node is put into a new one, `container`. One of its
/// type goes on, too, if nested lists are of another type than those around them.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let items = ["one", "two", "three"].map(|id| text_node("item", id).with_id(id));
/// transaction(&editor, [
///     create(element("list", items).with_id("list")),
///     indent_node_in(element("list", []).with_id("nested")).on("two"),
///     indent_node_in(element("list", [])).on("three"),
/// ])
/// .commit()?;
/// let page = editor.store().snapshot();
/// assert_eq!(page.parent(&"nested".into()), Some(&"one".into()));
/// assert_eq!(page.node(&"nested".into()).unwrap().children().len(), 2);
/// # Ok::<(), doclock::TransactionError>(())
/// ```
pub fn indent_node_in(container: NodeSpec) -> NodeOperation {
    NodeOperation::IndentNode {
        container: Some(container),
    }
}

/// The reverse of [`indent_node`]: the node leaves its parent and comes to stand right behind it; or, where the parent's
/// parent is of the node's own type and the parent is not (an item in a nested list), right behind that one. The siblings
/// that came after the node go with it as its last children; where they were in a nested list, in one of the same type and
/// attributes, or in that of the same type with which the node ends already. A nested list that is left empty goes. A node
/// without a grandparent is an error, and so is an item of a nested list if the item around it has no parent.
pub fn outdent_node() -> NodeOperation {
    NodeOperation::OutdentNode {}
}

// --- Text ---

/// Replaces the whole text. Its marks go with the old text. The same text changes nothing, not even the marks.
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

/// Deletes characters from the node up to another, as backspace does with a selection: the ends of the two texts and all
/// that lies between them go. What stands in the second node's block from that node on comes into the first one's, the
/// two text nodes become one if type and attributes agree, and blocks that are left empty go.
///
/// A block here is a node that has nothing but nodes without children in it, and no text of its own. Where the two nodes
/// do not both stand in one, the second comes to the first only if they become one. A place in what went is then where
/// the first node's characters went.
///
/// ```
/// use doclock::{DataStore, Editor, Extent, View, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [create(element("page", [
///     element("paragraph", [text_node("text", "one two").with_id("a")]),
///     element("paragraph", [text_node("text", "three")]),
///     element("paragraph", [text_node("text", "four five").with_id("b")]),
/// ]).with_id("page")), delete_range(Extent::to(4, "b", 5)).on("a")])
/// .commit()?;
/// let page = editor.store().snapshot();
/// assert_eq!(page.node(&"a".into()).unwrap().text(), &"one five");
/// assert_eq!(page.node(&"page".into()).unwrap().children().len(), 1);
/// # Ok::<(), doclock::TransactionError>(())
/// ```
pub fn delete_range(extent: impl Into<Extent>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::DeleteRange {
        start,
        end,
        end_node_id,
    }
}

/// Replaces the characters from `start` up to, not including, `end`.
pub fn replace_text(start: usize, end: usize, text: impl Into<SmolStr>) -> NodeOperation {
    NodeOperation::ReplaceText {
        start,
        end,
        text: text.into(),
    }
}

/// Replaces each match of a regular expression in the node's text, in the syntax of the regex crate. `$1` or `${name}` in
/// the replacement stand for what a group matched, `$$` for a dollar. A pattern that is none is an error. Each match is
/// replaced as by [`replace_text`], so marks around it stay.
pub fn replace_pattern(
    pattern: impl Into<String>,
    replacement: impl Into<String>,
) -> NodeOperation {
    NodeOperation::ReplacePattern {
        pattern: pattern.into(),
        replacement: replacement.into(),
    }
}

/// Puts text before and behind characters of the node: `wrap("**", "**", 2..6)`. What is selected of the characters stays
/// selected, without what is put around them.
pub fn wrap(
    before: impl Into<SmolStr>,
    after: impl Into<SmolStr>,
    range: impl RangeBounds<usize>,
) -> NodeOperation {
    let (start, end) = bounds(&range);
    NodeOperation::Wrap {
        before: before.into(),
        after: after.into(),
        start,
        end,
    }
}

/// The reverse of [`wrap`]: the characters have to begin with `before` and end with `after`, which are deleted. If they do
/// not, that is an error.
pub fn unwrap(
    before: impl Into<SmolStr>,
    after: impl Into<SmolStr>,
    range: impl RangeBounds<usize>,
) -> NodeOperation {
    let (start, end) = bounds(&range);
    NodeOperation::Unwrap {
        before: before.into(),
        after: after.into(),
        start,
        end,
    }
}

/// Inserts text at the beginning of each line that the characters reach into, but not of empty ones. A line ends with
/// `\n`; one that has nothing but `\r` before it is empty, too. No characters reach into the line where they would be.
pub fn indent_text(indent: impl Into<SmolStr>, range: impl RangeBounds<usize>) -> NodeOperation {
    let (start, end) = bounds(&range);
    NodeOperation::IndentText {
        indent: indent.into(),
        start,
        end,
    }
}

/// Deletes text at the beginning of each line that the characters reach into and that begins with it. For lines see
/// [`indent_text`].
pub fn outdent_text(indent: impl Into<SmolStr>, range: impl RangeBounds<usize>) -> NodeOperation {
    let (start, end) = bounds(&range);
    NodeOperation::OutdentText {
        indent: indent.into(),
        start,
        end,
    }
}

// --- Splitting and joining ---

/// Cuts a text node in two before the character at `offset`. The text from there on goes to a new node right behind it,
/// with the same type and attributes and with the marks over it; children stay. A node without a parent is an error.
pub fn split_text_node(offset: usize) -> NodeOperation {
    NodeOperation::SplitTextNode { offset }
}

/// Joins the node and its next sibling, which goes: its text with the marks over it, and its children, come behind those of
/// the node. Both have to be of the same type; the attributes of the node stay.
pub fn merge_text_nodes(other_id: impl Into<NodeRef>) -> NodeOperation {
    NodeOperation::MergeTextNodes {
        other_id: other_id.into(),
    }
}

/// Cuts a block in two before the child at `index`. The children from there on go to a new node right behind it, with the
/// same type and attributes; text stays. A node without a parent is an error.
pub fn split_block_node(index: usize) -> NodeOperation {
    NodeOperation::SplitBlockNode { index }
}

/// Joins the block and its next sibling, which goes; its children become the last of the block, its text the end of that of
/// the block. The types may differ; type and attributes of the block stay.
pub fn merge_block_nodes(other_id: impl Into<NodeRef>) -> NodeOperation {
    NodeOperation::MergeBlockNodes {
        other_id: other_id.into(),
    }
}

/// Joins those children of the node that stand next to each other, have text, no children, the same type and the same
/// attributes. A child without text joins with such a neighbour, too. The first of those that are joined stays.
pub fn auto_merge_text_nodes() -> NodeOperation {
    NodeOperation::AutoMergeTextNodes {}
}

/// Begins a new block at a place in the text of a node, as the enter key does: the text node is cut there, and its parent
/// is cut behind the first half, so that the second half is the first child of the new block. Children of the text node,
/// which stand behind its text, go with the second half. The new block has the parent's attributes and is of its type;
/// [`insert_paragraph_of`] says of which else. A node without a grandparent is an error.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let line = element("paragraph", [text_node("text", "onetwo").with_id("text")]);
/// transaction(&editor, [
///     create(element("page", [line]).with_id("page")),
///     insert_paragraph(3).on("text"),
/// ])
/// .commit()?;
/// let page = editor.store().snapshot();
/// assert_eq!(page.node(&"page".into()).unwrap().children().len(), 2);
/// assert_eq!(page.node(&"text".into()).unwrap().text(), &"one");
/// # Ok::<(), doclock::TransactionError>(())
/// ```
pub fn insert_paragraph(offset: usize) -> NodeOperation {
    NodeOperation::InsertParagraph { offset, kind: None }
}

/// As [`insert_paragraph`], with a type for the new block.
pub fn insert_paragraph_of(offset: usize, kind: impl Into<SmolStr>) -> NodeOperation {
    NodeOperation::InsertParagraph {
        offset,
        kind: Some(kind.into()),
    }
}

/// Begins a new list item at a place in the text of a node: all from the text node up to the nearest node that is of the
/// type `item_type`, itself or around it, is cut there. So what stands behind the place in the item goes with the new one,
/// a nested list too. No such node is an error, and so is one without a parent.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let item = element("item", [element("paragraph", [text_node("text", "onetwo").with_id("text")])]);
/// transaction(&editor, [
///     create(element("list", [item]).with_id("list")),
///     split_list_item(3, "item").on("text"),
/// ])
/// .commit()?;
/// assert_eq!(editor.store().snapshot().node(&"list".into()).unwrap().children().len(), 2);
/// # Ok::<(), doclock::TransactionError>(())
/// ```
pub fn split_list_item(offset: usize, item_type: impl Into<SmolStr>) -> NodeOperation {
    NodeOperation::SplitListItem {
        offset,
        item_type: item_type.into(),
    }
}

/// Puts a new list in the place of the node, and the node into an item of it: `wrap_in_list(element("list", []),
/// element("list-item", []))`. What the two bring along comes before it. Around a node without a parent the list has none
/// either. The root cannot be put into a list.
pub fn wrap_in_list(list: NodeSpec, item: NodeSpec) -> NodeOperation {
    NodeOperation::WrapInList {
        list,
        item,
        last_id: None,
    }
}

/// As [`wrap_in_list`], with the siblings from the node up to another, each in an item of its own. If that is no sibling, or
/// one that comes before the node, that is an error.
pub fn wrap_in_list_up_to(
    last_id: impl Into<NodeRef>,
    list: NodeSpec,
    item: NodeSpec,
) -> NodeOperation {
    NodeOperation::WrapInList {
        list,
        item,
        last_id: Some(last_id.into()),
    }
}

// --- Marks ---

/// Marks characters, in all nodes from the first to the last. A mark of the same kind with other attributes ends where the
/// new one begins.
///
/// ```
/// use doclock::{DataStore, Editor, Extent, View, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [
///     create(element("paragraph", [
///         text_node("text", "one ").with_id("a"),
///         text_node("text", "two").with_id("b"),
///     ])),
///     apply_mark("bold", Extent::to(2, "b", 1)).on("a"),
///     remove_mark("bold", ..1).on("b"),
/// ])
/// .commit()?;
/// let snapshot = editor.store().snapshot();
/// assert_eq!(snapshot.node(&"a".into()).unwrap().marks().len(), 1);
/// assert!(snapshot.node(&"b".into()).unwrap().marks().is_empty());
/// # Ok::<(), doclock::TransactionError>(())
/// ```
pub fn apply_mark(kind: impl Into<SmolStr>, extent: impl Into<Extent>) -> NodeOperation {
    apply_mark_with(kind, Attributes::default(), extent)
}

/// As [`apply_mark`], with attributes, a link's target for example.
pub fn apply_mark_with(
    kind: impl Into<SmolStr>,
    attributes: impl Into<Attributes>,
    extent: impl Into<Extent>,
) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::ApplyMark {
        mark: kind.into(),
        attributes: attributes.into(),
        start,
        end,
        end_node_id,
    }
}

/// Removes the marks of a kind, whatever their attributes, from characters in all nodes from the first to the last. In the
/// middle of a mark this leaves two.
pub fn remove_mark(kind: impl Into<SmolStr>, extent: impl Into<Extent>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::RemoveMark {
        mark: kind.into(),
        start,
        end,
        end_node_id,
    }
}

/// [`remove_mark`] if every one of the characters has a mark of the kind, [`apply_mark`] otherwise.
pub fn toggle_mark(kind: impl Into<SmolStr>, extent: impl Into<Extent>) -> NodeOperation {
    toggle_mark_with(kind, Attributes::default(), extent)
}

/// As [`toggle_mark`], with attributes for the mark where it is applied.
pub fn toggle_mark_with(
    kind: impl Into<SmolStr>,
    attributes: impl Into<Attributes>,
    extent: impl Into<Extent>,
) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::ToggleMark {
        mark: kind.into(),
        attributes: attributes.into(),
        start,
        end,
        end_node_id,
    }
}

/// Sets attributes of the marks of a kind where they cover the characters, and leaves the others; `null` removes one. What
/// of such a mark lies outside of the characters stays as it is. No such mark there is an error.
pub fn update_mark<K: Into<String>>(
    kind: impl Into<SmolStr>,
    attributes: impl IntoIterator<Item = (K, Value)>,
    extent: impl Into<Extent>,
) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::UpdateMark {
        mark: kind.into(),
        attributes: map(attributes),
        start,
        end,
        end_node_id,
    }
}

/// Replaces the marks of the node. They are brought into normal form; one without a range covers the text.
pub fn set_marks(marks: impl IntoIterator<Item = Mark>) -> NodeOperation {
    NodeOperation::SetMarks {
        marks: marks.into_iter().collect(),
    }
}

/// Removes all marks from characters in all nodes from the first to the last.
pub fn clear_formatting(extent: impl Into<Extent>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::ClearFormatting {
        start,
        end,
        end_node_id,
    }
}

// --- The node itself ---

/// Sets attributes and leaves the others; `null` removes one.
pub fn set_attrs<K: Into<String>>(attrs: impl IntoIterator<Item = (K, Value)>) -> NodeOperation {
    NodeOperation::SetAttrs { attrs: map(attrs) }
}

/// Removes attributes. One that is not there is no error.
pub fn remove_attrs<K: Into<SmolStr>>(keys: impl IntoIterator<Item = K>) -> NodeOperation {
    NodeOperation::RemoveAttrs {
        keys: keys.into_iter().map(Into::into).collect(),
    }
}

/// Sets attributes, as [`set_attrs`], and replaces text and marks where they are given. A new text without marks has none.
pub fn update<K: Into<String>>(
    attrs: impl IntoIterator<Item = (K, Value)>,
    text: impl Into<Option<SmolStr>>,
    marks: impl Into<Option<Vec<Mark>>>,
) -> NodeOperation {
    NodeOperation::Update {
        attrs: map(attrs),
        text: text.into(),
        marks: marks.into(),
    }
}

/// Changes the type, and attributes along with it. Nothing else changes a type.
pub fn transform_node<K: Into<String>>(
    kind: impl Into<SmolStr>,
    attrs: impl IntoIterator<Item = (K, Value)>,
) -> NodeOperation {
    NodeOperation::TransformNode {
        kind: kind.into(),
        attrs: map(attrs),
    }
}

/// Makes the node the root of the document. It must not have a parent.
pub fn set_root() -> NodeOperation {
    NodeOperation::SetRoot {}
}

// --- The clipboard and the selection ---

/// Copies characters, and all that lies between the first and the last, to the clipboard, clipped at both ends. Changes
/// nothing in the document. No characters of one node leave the clipboard empty.
pub fn copy(extent: impl Into<Extent>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::Copy {
        start,
        end,
        end_node_id,
    }
}

/// [`copy`], then [`delete_range`].
pub fn cut(extent: impl Into<Extent>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::Cut {
        start,
        end,
        end_node_id,
    }
}

/// Inserts what is on the clipboard, under new ids, before the character at `offset`. An empty clipboard is an error.
///
/// Text is inserted between the halves of the text node, and joined with them where type and attributes agree. Blocks are
/// inserted between the halves of the node's block; a first or last one that was clipped when it was copied goes on with the
/// half beside it, if the two are of one type or both hold text only.
///
/// Text is what has no children. The block is the node's parent, if that has a parent and nothing but nodes without
/// children in it, and no text of its own; otherwise it is the node itself. Where a half would be empty, there is none.
/// A caret at the place ends up behind what was pasted.
pub fn paste(offset: usize) -> NodeOperation {
    NodeOperation::Paste {
        offset,
        fragment: None,
    }
}

/// As [`paste`], with something else than what is on the clipboard.
pub fn paste_fragment(offset: usize, fragment: Fragment) -> NodeOperation {
    NodeOperation::Paste {
        offset,
        fragment: Some(fragment),
    }
}

/// Selects the node as a whole.
pub fn select_node() -> NodeOperation {
    NodeOperation::SelectNode {}
}

/// Selects characters.
pub fn select_range(extent: impl Into<Extent>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    NodeOperation::SelectRange {
        start,
        end,
        end_node_id,
    }
}

/// The first character and the one behind the last; `None` for the end of the text.
fn bounds(range: &impl RangeBounds<usize>) -> (usize, Option<usize>) {
    let start = match range.start_bound() {
        Bound::Included(&first) => first,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => Some(last.saturating_add(1)),
        Bound::Excluded(&end) => Some(end),
        Bound::Unbounded => None,
    };
    (start, end)
}

fn refs<R: Into<NodeRef>>(nodes: impl IntoIterator<Item = R>) -> Vec<NodeRef> {
    nodes.into_iter().map(Into::into).collect()
}

fn map<K: Into<String>>(pairs: impl IntoIterator<Item = (K, Value)>) -> Box<Map<String, Value>> {
    let pairs = pairs.into_iter();
    Box::new(pairs.map(|(key, value)| (key.into(), value)).collect())
}
