//! Splitting and joining text nodes, blocks and list items, and wrapping blocks in a list.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::fitting::{first_text, fits, fits_blocks, is_text_block, plain};
use super::range::{self, place_of};
use super::tree::{
    LiftNode, insert_around, position_and_parent_position, resolve_some, split_children,
};
use super::{Edited, NodeOperation, OperationOn, SizeCheck};
use crate::document::fit::FitEdit;
use crate::document::plan::find;
use crate::document::{Budget, Limit, Node, NodeSpec, Position, SplitPoint, View, cost};
use crate::id::NodeId;
use crate::store::Draft;
use crate::transaction::error::OperationError;
use crate::transaction::operation::unit;
use crate::transaction::operation::{NodeRef, TextSpan};
use crate::transaction::run::resolve;

/// Splits a text node before the character at `offset`. The text from there on, with its marks,
/// moves to a new node right after it, of the same type and with the same attributes. The children
/// stay in the first node. A node without a parent is an error.
pub fn split_text_node(offset: usize) -> NodeOperation {
    SplitTextNode { offset }.into()
}

/// See [`split_text_node`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SplitTextNode {
    /// The first character of the new node.
    pub offset: usize,
}

impl OperationOn<NodeId> for SplitTextNode {
    without!(size);

    fn to_scalars(&mut self, on: &mut Draft, id: &NodeId) -> Edited {
        unit::of_offset(on, id, &mut self.offset)
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let children = find(on, id)?.children().len();
        let text = self.offset;
        on.split_node(id, SplitPoint { text, children }, None)?;
        Ok(())
    }
}

/// Joins the node and its next sibling, which is deleted. The sibling's text, with its marks, is
/// appended to the text of the node, and its children to those of the node. Both nodes must have
/// the same type. The node keeps its attributes.
pub fn merge_text_nodes(other_id: impl Into<NodeRef>) -> NodeOperation {
    MergeTextNodes {
        other_id: other_id.into(),
    }
    .into()
}

/// See [`merge_text_nodes`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MergeTextNodes {
    /// The next sibling.
    pub other_id: NodeRef,
}

impl OperationOn<NodeId> for MergeTextNodes {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let other = resolve(on, &self.other_id)?;
        if find(on, id)?.kind() != find(on, &other)?.kind() {
            return Err(OperationError::TypesDiffer {
                left: id.clone(),
                right: other,
            });
        }
        Ok(on.join_nodes(id, &other)?)
    }
}

/// Splits a block before the child at `index`. The children from there on move to a new node right
/// after it, of the same type and with the same attributes. The text stays in the first node. A
/// node without a parent is an error.
pub fn split_block_node(index: usize) -> NodeOperation {
    SplitBlockNode { index }.into()
}

/// See [`split_block_node`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SplitBlockNode {
    /// The index of the first child of the new node.
    pub index: usize,
}

impl OperationOn<NodeId> for SplitBlockNode {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        split_children(on, id, self.index)?;
        Ok(())
    }
}

/// Joins the block and its next sibling, which is deleted. The sibling's children are appended to
/// those of the block, and its text to that of the block. The types may differ: the block keeps its
/// type and attributes.
pub fn merge_block_nodes(other_id: impl Into<NodeRef>) -> NodeOperation {
    MergeBlockNodes {
        other_id: other_id.into(),
    }
    .into()
}

/// See [`merge_block_nodes`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MergeBlockNodes {
    /// The next sibling.
    pub other_id: NodeRef,
}

impl OperationOn<NodeId> for MergeBlockNodes {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        Ok(on.join_nodes(id, &resolve(on, &self.other_id)?)?)
    }
}

/// Joins adjacent children of the node that have text, no children, the same type and the same
/// attributes. A child without text is joined with such a neighbour, too. The first node of each
/// joined run stays.
pub fn auto_merge_text_nodes() -> NodeOperation {
    AutoMergeTextNodes {}.into()
}

/// See [`auto_merge_text_nodes`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AutoMergeTextNodes {}

impl OperationOn<NodeId> for AutoMergeTextNodes {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        find(on, id)?;
        let mut children: Vec<&Node> = Vec::new();
        for child in on.children(id) {
            on.spend(Limit::Steps, |_| {
                cost::LOOKED_UP + child.attributes().steps()
            })?;
            children.push(child);
        }
        let runs = children.chunk_by(|left, right| {
            left.children().is_empty()
                && right.children().is_empty()
                && left.kind() == right.kind()
                && left.attributes() == right.attributes()
        });
        let with_text = runs.filter(|run| run.iter().any(|node| !node.text().is_empty()));
        let to_join: Vec<Vec<NodeId>> = with_text
            .map(|run| run.iter().map(|node| node.id().clone()).collect())
            .collect();
        for run in to_join {
            let [first, rest @ ..] = run.as_slice() else {
                continue;
            };
            for next in rest {
                on.join_nodes(first, next)?;
            }
        }
        Ok(())
    }
}

/// Begins a new block at an offset in the text of a node, as the Enter key does. The text node is
/// split there, and its parent is split after the first half, so the second half becomes the first
/// child of the new block. Children of the text node, which come after its text, move with the
/// second half. The new block has the attributes and the type of the parent;
/// [`insert_paragraph_of`] sets another type. A node without a grandparent is an error.
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
/// assert_eq!(page.node("page").unwrap().children().len(), 2);
/// assert_eq!(page.node("text").unwrap().text(), &"one");
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn insert_paragraph(offset: usize) -> NodeOperation {
    InsertParagraph {
        offset,
        kind: None,
        end: None,
        end_node_id: None,
    }
    .into()
}

/// Replaces a range by the end of a block and the beginning of another: [`insert_paragraph`] over a
/// selection. Cells of a table are emptied as by [`delete_range`](crate::dsl::delete_range), and
/// the first of them has both blocks.
pub fn insert_paragraph_over(extent: impl Into<TextSpan>) -> NodeOperation {
    let (offset, end, end_node_id) = extent.into().into_parts();
    InsertParagraph {
        offset,
        kind: None,
        end,
        end_node_id,
    }
    .into()
}

/// Begins a new block of another type: [`insert_paragraph`] with a type. Under a schema, it is an
/// error if that type does not fit.
pub fn insert_paragraph_of(offset: usize, kind: impl Into<SmolStr>) -> NodeOperation {
    InsertParagraph {
        offset,
        kind: Some(kind.into()),
        end: None,
        end_node_id: None,
    }
    .into()
}

/// See [`insert_paragraph`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InsertParagraph {
    /// The first character of the new block.
    pub offset: usize,
    /// The type of the new block; that of the old block for `None`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<SmolStr>,
    /// The end of the range that is deleted first, exclusive; nothing is deleted for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
    /// The node in which that range ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_node_id: Option<NodeRef>,
}

impl OperationOn<NodeId> for InsertParagraph {
    fn size(&self, budget: &Budget) -> SizeCheck {
        self.kind.iter().try_for_each(|kind| budget.name(kind))
    }

    fn to_scalars(&mut self, on: &mut Draft, id: &NodeId) -> Edited {
        let (end, end_node) = (self.end.as_mut(), self.end_node_id.as_ref());
        unit::of_extent(on, id, &mut self.offset, end, end_node)
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let end = match self.end_node_id.is_some() {
            true => self.end,
            false => Some(self.end.unwrap_or(self.offset)),
        };
        let over = range::resolve(on, id, self.offset, end, self.end_node_id.as_ref())?;
        let over = range::emptied_cells(on, over)?;
        if fits(on, &over, &FitEdit::Split(self.kind.as_deref()))? {
            return Ok(());
        }
        if over.start != over.end {
            range::delete_range(on, &over)?;
        }
        let Position { node_id, offset } = over.start;
        let (at, _) = position_and_parent_position(on, &node_id)?;
        split_at_caret(on, &node_id, offset)?;
        let block = SplitPoint {
            text: find(on, &at.parent)?.text().len(),
            children: at.index + 1,
        };
        on.split_node(&at.parent, block, self.kind)?;
        Ok(())
    }
}

/// Which blocks [`join_block`] joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum JoinTarget {
    /// The block, with what is before it or after it: it is joined, moved into a list, or lifted
    /// out of one, as Backspace and Delete do at the ends of a block.
    Any,
    /// The block and the text block before it or after it.
    Text,
    /// The innermost node around it that can be joined with its sibling and is no text block.
    Around,
}

/// Joins the text block that the node is or is in with the one before it, or with the one after it
/// if `forward`: Backspace at its start, Delete at its end. It is an error if nothing is there, or
/// if the schema has no valid result.
///
/// Without a schema, it is [`delete_range`](crate::dsl::delete_range) between the two texts.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*, transaction::on_node::JoinTarget};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let line = |id: &str| element("paragraph", [text_node("text", id).with_id(id)]);
/// transaction(&editor, [
///     create(element("page", [line("one"), line("two")]).with_id("page")),
///     join_block(JoinTarget::Any, false).on("two"),
/// ])
/// .commit()?;
/// assert_eq!(editor.store().snapshot().node("one").unwrap().text(), &"onetwo");
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn join_block(target: JoinTarget, forward: bool) -> NodeOperation {
    JoinBlock { target, forward }.into()
}

/// See [`join_block`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinBlock {
    /// Which blocks are joined.
    pub target: JoinTarget,
    /// Whether with the one after it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forward: bool,
}

impl OperationOn<NodeId> for JoinBlock {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let edit = match self.target {
            JoinTarget::Any => FitEdit::Join(self.forward),
            JoinTarget::Text => FitEdit::JoinText(self.forward),
            JoinTarget::Around => FitEdit::JoinSibling(self.forward),
        };
        match fits_blocks(on, id, None, &edit)? {
            true => Ok(()),
            false => join_texts(on, id, self.forward),
        }
    }
}

/// Joins the first text of a node with the text before or after it.
fn join_texts(on: &mut Draft, id: &NodeId, forward: bool) -> Edited {
    let text = first_text(on, id)?;
    let mut other = text.clone();
    loop {
        on.spend(Limit::Steps, |_| cost::NODE)?;
        let next = match forward {
            true => on.next(&other),
            false => on.previous(&other),
        };
        let next = next.ok_or_else(|| OperationError::NothingToJoin { id: id.clone() })?;
        other = next.id().clone();
        if next.children().is_empty() {
            break;
        }
    }
    let (first, last) = if forward {
        (text, other)
    } else {
        (other, text)
    };
    let len = find(on, &first)?.text().len();
    let over = range::CheckedRange {
        start: Position::new(first, len),
        end: Position::new(last, 0),
    };
    range::delete_range(on, &over)
}

/// Lifts the empty text block that the node is or is in out of its parent, or splits the parent
/// before it if other blocks come after it: Enter in an empty block. Without a schema it is
/// [`lift_node`](crate::dsl::lift_node).
pub fn lift_empty_block() -> NodeOperation {
    LiftEmptyBlock {}.into()
}

/// See [`lift_empty_block`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LiftEmptyBlock {}

impl OperationOn<NodeId> for LiftEmptyBlock {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        match fits_blocks(on, id, None, &FitEdit::LiftEmpty)? {
            true => Ok(()),
            false => LiftNode { last_id: None }.run(on, id),
        }
    }
}

/// Begins a new list item at an offset in the text of a node. The item is the node itself or its
/// nearest ancestor that has the type `item_type`. All nodes from the text node up to the item are
/// split there, so everything after the offset in the item moves to the new one, including a nested
/// list. It is an error if there is no such node, or if the item has no parent.
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
/// assert_eq!(editor.store().snapshot().node("list").unwrap().children().len(), 2);
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn split_list_item(offset: usize, item_type: impl Into<SmolStr>) -> NodeOperation {
    SplitListItem {
        offset,
        end: None,
        item_type: item_type.into(),
    }
    .into()
}

/// Deletes the characters from `start` to `end`, exclusive, and begins a new list item there, as
/// [`split_list_item`] does.
pub fn split_list_item_over(
    start: usize,
    end: usize,
    item_type: impl Into<SmolStr>,
) -> NodeOperation {
    SplitListItem {
        offset: start,
        end: Some(end),
        item_type: item_type.into(),
    }
    .into()
}

/// See [`split_list_item`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SplitListItem {
    /// The first character of the new item.
    pub offset: usize,
    /// The end of the characters that are deleted first, exclusive; none are for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
    /// The type of the items.
    pub item_type: SmolStr,
}

impl OperationOn<NodeId> for SplitListItem {
    fn size(&self, budget: &Budget) -> SizeCheck {
        budget.name(&self.item_type)
    }

    fn to_scalars(&mut self, on: &mut Draft, id: &NodeId) -> Edited {
        unit::of_extent(on, id, &mut self.offset, self.end.as_mut(), None)
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let inner = find(on, id)?;
        let around = on.ancestors(id).map(|node| (node.id(), node.kind()));
        let mut path = Vec::new();
        let found = std::iter::once((inner.id(), inner.kind()))
            .chain(around)
            .any(|(id, kind)| {
                path.push(id.clone());
                kind == self.item_type
            });
        on.spend(Limit::Steps, |_| cost::LOOKED_UP * path.len())?;
        let end = self.end.unwrap_or(self.offset);
        let at = range::resolve(on, id, self.offset, Some(end), None)?;
        if found && fits(on, &at, &FitEdit::SplitItem(&self.item_type))? {
            return Ok(());
        }
        if !found {
            return Err(OperationError::NoItem {
                id: id.clone(),
                item_type: self.item_type,
            });
        }
        range::delete_range(on, &at)?;
        split_at_caret(on, id, self.offset)?;
        for pair in path.windows(2) {
            if let [child, parent] = pair {
                let index = place_of(on, child)?.index + 1;
                split_children(on, parent, index)?;
            }
        }
        Ok(())
    }
}

/// Replaces the node with a new list and moves the node into an item of that list:
/// `wrap_in_list(element("list", []), element("list-item", []))`. Children that the list and the
/// item have already come before it. If the node has no parent, the list has none either. The root
/// cannot be wrapped.
pub fn wrap_in_list(list: NodeSpec, item: NodeSpec) -> NodeOperation {
    WrapInList {
        list,
        item,
        last_id: None,
    }
    .into()
}

/// Wraps the siblings from the node up to another in a list, as [`wrap_in_list`] does. Each sibling
/// gets its own item. It is an error if `last_id` is no sibling or comes before the node.
pub fn wrap_in_list_up_to(
    last_id: impl Into<NodeRef>,
    list: NodeSpec,
    item: NodeSpec,
) -> NodeOperation {
    WrapInList {
        list,
        item,
        last_id: Some(last_id.into()),
    }
    .into()
}

/// See [`wrap_in_list`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrapInList {
    /// The list.
    pub list: NodeSpec,
    /// The item that each node is moved into.
    pub item: NodeSpec,
    /// The last sibling to be moved into the list; only the node itself for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_id: Option<NodeRef>,
}

impl OperationOn<NodeId> for WrapInList {
    fn size(&self, budget: &Budget) -> SizeCheck {
        budget.spec(&self.list)?;
        budget.spec(&self.item)
    }

    fn to_scalars(&mut self, on: &mut Draft, _: &NodeId) -> Edited {
        unit::of_new_node(on, &mut self.list)?;
        unit::of_new_node(on, &mut self.item)
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let Self { list, item, .. } = self;
        let last = resolve_some(on, self.last_id.as_ref())?;
        if let (Some(given), Some(given_item)) = (plain(&list), plain(&item))
            && is_text_block(on, find(on, id)?.kind())
        {
            let edit = FitEdit::WrapInList([given, given_item]);
            if fits_blocks(on, id, last.as_ref(), &edit)? {
                return Ok(());
            }
        }
        let wrapped = siblings_up_to(on, id, last.as_ref())?;
        on.check_limit(Limit::Nodes, item.len() * wrapped.len())?;
        let items = std::iter::repeat_n(item, wrapped.len());
        let list = insert_around(on, id, list.with_children(items))?;
        // Children that the list had already come first.
        let items = find(on, &list)?.children().iter().rev();
        let items: Vec<NodeId> = items.take(wrapped.len()).cloned().collect();
        for (node, item) in wrapped.iter().zip(items.iter().rev()) {
            on.move_node(node, item, None)?;
        }
        Ok(())
    }
}

/// Splits a node in its text. Its children come after the text, so they move to the second half.
fn split_at_caret(on: &mut Draft, id: &NodeId, offset: usize) -> Edited {
    let at = SplitPoint {
        text: offset,
        children: 0,
    };
    on.split_node(id, at, None)?;
    Ok(())
}

/// A node and its siblings up to another, or only the node.
pub(super) fn siblings_up_to(
    on: &Draft,
    id: &NodeId,
    last: Option<&NodeId>,
) -> Result<Vec<NodeId>, OperationError> {
    let node = find(on, id)?;
    let Some(last) = last.filter(|&last| last != id) else {
        return Ok(vec![id.clone()]);
    };
    find(on, last)?;
    on.spend_search(id)?;
    let siblings = node.parent().and_then(|parent| on.node(parent));
    let siblings = siblings.into_iter().flat_map(|node| node.children().iter());
    let mut nodes: Vec<NodeId> = Vec::new();
    for sibling in siblings.skip_while(|&sibling| sibling != id) {
        nodes.push(sibling.clone());
        if sibling == last {
            return Ok(nodes);
        }
    }
    Err(OperationError::NotBehind {
        id: id.clone(),
        last: last.clone(),
    })
}
