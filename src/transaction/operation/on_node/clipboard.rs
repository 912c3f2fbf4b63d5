//! The clipboard and the selection.

use serde::{Deserialize, Serialize};

use super::fitting::fits;
use super::range::{
    self, CheckedRange, all_children, are_alike, is_text_block, place_of, reselect,
};
use super::{Edited, NodeOperation, OperationOn, SizeCheck};
use crate::document::fit::FitEdit;
use crate::document::{
    Budget, ChildPosition, EditError, Fragment, Limit, Mark, Node, NodeSpec, Position, Selection,
    SplitPoint, Text, View, cost, plan,
};
use crate::id::NodeId;
use crate::store::Draft;
use crate::transaction::error::OperationError;
use crate::transaction::operation::unit;
use crate::transaction::operation::{NodeRef, TextSpan};

/// Copies characters, and all nodes between the first and the last, to the clipboard, clipped at
/// both ends. The document is unchanged. An empty range leaves the clipboard unchanged.
pub fn copy_range(extent: impl Into<TextSpan>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    Copy {
        start,
        end,
        end_node_id,
    }
    .into()
}

/// See [`copy_range`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Copy {
    /// The first character.
    #[serde(default)]
    pub start: usize,
    /// The end, exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
    /// The node in which the range ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_node_id: Option<NodeRef>,
}

impl OperationOn<NodeId> for Copy {
    without!(size);

    span_to_scalars!();

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let over = range::resolve(on, id, self.start, self.end, self.end_node_id.as_ref())?;
        copy(on, &over)
    }
}

/// Copies a range to the clipboard, then deletes it: [`copy_range`], then
/// [`delete_range`](crate::dsl::delete_range).
pub fn cut_range(extent: impl Into<TextSpan>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    Cut {
        start,
        end,
        end_node_id,
    }
    .into()
}

/// See [`cut_range`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cut {
    /// The first character.
    #[serde(default)]
    pub start: usize,
    /// The end, exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
    /// The node in which the range ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_node_id: Option<NodeRef>,
}

impl OperationOn<NodeId> for Cut {
    without!(size);

    span_to_scalars!();

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let over = range::resolve(on, id, self.start, self.end, self.end_node_id.as_ref())?;
        copy(on, &over)?;
        range::delete_range(on, &over)
    }
}

/// Inserts the contents of the clipboard, under new ids, before the character at `offset`. An empty
/// clipboard is an error.
///
/// Under a schema with text blocks, the content fits in: it is joined with the halves of the text,
/// wrapped, and filled where the schema requires it. What cannot fit is an error. Without one:
///
/// Text is inserted between the halves of the text node, and is joined with each half that has the
/// same type and attributes. Blocks are inserted between the halves of the node's block. A first or
/// last block that was clipped when it was copied is joined with the half next to it, if both have
/// the same type or both contain only text.
///
/// A node without children counts as text. The block is the node's parent, if that has a parent, no
/// text of its own, and only children without children. Otherwise the block is the node itself. An
/// empty half is not created: a block pasted into an empty paragraph replaces it, unless the two
/// are joined. A node without text counts as an empty text only if the pasted nodes of its type
/// have text, because other nodes, such as images, have no text either. A caret at the offset moves
/// to the end of the pasted content.
pub fn paste(offset: usize) -> NodeOperation {
    Paste {
        offset,
        fragment: None,
        end: None,
        end_node_id: None,
    }
    .into()
}

/// Inserts a given fragment instead of the clipboard, as [`paste`] does.
pub fn paste_fragment(offset: usize, fragment: Fragment) -> NodeOperation {
    Paste {
        offset,
        fragment: Some(fragment),
        end: None,
        end_node_id: None,
    }
    .into()
}

/// Replaces a range by the contents of the clipboard, or by a given fragment.
pub fn paste_over(
    extent: impl Into<TextSpan>,
    fragment: impl Into<Option<Fragment>>,
) -> NodeOperation {
    let (offset, end, end_node_id) = extent.into().into_parts();
    Paste {
        offset,
        fragment: fragment.into(),
        end,
        end_node_id,
    }
    .into()
}

/// See [`paste`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Paste {
    /// The offset of the insertion.
    pub offset: usize,
    /// The fragment; the clipboard for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragment: Option<Fragment>,
    /// The end of the range that it replaces, exclusive; nothing is replaced for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
    /// The node in which that range ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_node_id: Option<NodeRef>,
}

impl OperationOn<NodeId> for Paste {
    fn size(&self, budget: &Budget) -> SizeCheck {
        let nodes = self.fragment.iter().flat_map(Fragment::all_nodes);
        nodes.into_iter().try_for_each(|node| budget.spec(node))
    }

    fn to_scalars(&mut self, on: &mut Draft, id: &NodeId) -> Edited {
        let (end, end_node) = (self.end.as_mut(), self.end_node_id.as_ref());
        unit::of_extent(on, id, &mut self.offset, end, end_node)?;
        let fragment = self.fragment.iter_mut();
        let mut nodes = fragment.flat_map(|fragment| &mut fragment.nodes);
        nodes.try_for_each(|node| unit::of_new_node(on, node))
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let Self {
            offset, fragment, ..
        } = self;
        let node = plan::find(on, id)?;
        if offset > node.text().len() {
            return Err(plan::out_of_range(node, &(offset..offset)).into());
        }
        let fragment = fragment.or_else(|| on.clipboard().cloned());
        let fragment = fragment.filter(|fragment| !fragment.nodes.is_empty());
        let fragment = fragment
            .ok_or(OperationError::EmptyClipboard)?
            .without_ids();
        let at = Position::new(id.clone(), offset);
        let end = match self.end_node_id.is_some() {
            true => self.end,
            false => Some(self.end.unwrap_or(offset)),
        };
        let over = range::resolve(on, id, offset, end, self.end_node_id.as_ref())?;
        if fits(on, &over, &FitEdit::Paste(&fragment))? {
            return Ok(());
        }
        if over.start != over.end {
            range::delete_range(on, &over)?;
        }
        let node = plan::find(on, id)?;
        match fragment.text_like(node) {
            // Needs no halves, so it also works where the text node cannot be split.
            Some((text, marks)) => splice(on, &at, text, marks),
            None => paste_nodes(on, &at, fragment),
        }
    }
}

/// Selects the node as a whole.
pub fn select_node() -> NodeOperation {
    SelectNode {}.into()
}

/// See [`select_node`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelectNode {}

impl OperationOn<NodeId> for SelectNode {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        Ok(on.select(Selection::node(id.clone()))?)
    }
}

/// Selects characters.
pub fn select_range(extent: impl Into<TextSpan>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    SelectRange {
        start,
        end,
        end_node_id,
    }
    .into()
}

/// See [`select_range`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelectRange {
    /// The start of the selection.
    #[serde(default)]
    pub start: usize,
    /// The end of the selection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
    /// The node in which the selection ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_node_id: Option<NodeRef>,
}

impl OperationOn<NodeId> for SelectRange {
    without!(size);

    span_to_scalars!();

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let over = range::resolve(on, id, self.start, self.end, self.end_node_id.as_ref())?;
        Ok(on.select(Selection::new(over.start, over.end))?)
    }
}

fn copy(on: &mut Draft, over: &CheckedRange) -> Edited {
    let around = on.schema().is_some();
    let fragment = Fragment::clipped(on, &over.start, &over.end, around, |node, text| {
        // A whole text is shared with the copy.
        let copied = match text.len() == node.text().len() {
            true => 0,
            false => text.len() / cost::BYTES,
        };
        on.spend(Limit::Steps, |_| {
            cost::NODE + cost::marks(node.marks()) + copied
        })
    })?;
    if !fragment.nodes.is_empty() {
        on.set_clipboard(Some(fragment));
    }
    Ok(())
}

/// Inserts text with its own marks, without the marks around it.
fn splice(on: &mut Draft, at: &Position, text: &Text, marks: &[Mark]) -> Edited {
    let Position {
        node_id: id,
        offset,
    } = at;
    on.spend(Limit::Steps, |on| {
        let around = on.node(id).map(|node| node.marks().iter());
        cost::marks(marks) + around.map_or(0, cost::marks)
    })?;
    let own = plan::marks_for(id, marks.to_vec(), text.len())?;
    let own = own.iter().filter_map(|mark| {
        let range = mark.range.as_ref()?;
        Some(Mark {
            range: Some(range.start + offset..range.end + offset),
            ..mark.clone()
        })
    });
    on.insert_text(id, *offset, text.to_string())?;
    let inserted = *offset..offset + text.len();
    let marks = plan::find(on, id)?.marks();
    let around = marks.change_within(&inserted, |_| None);
    Ok(on.set_marks(id, around.into_iter().chain(own))?)
}

/// The nodes on both sides of a position. An empty half does not exist.
struct Halves {
    left: Option<NodeId>,
    right: Option<NodeId>,
    between: ChildPosition,
}

impl Halves {
    fn of(on: &mut Draft, id: &NodeId, cut: SplitPoint) -> Result<Self, EditError> {
        let ChildPosition { parent, index } = place_of(on, id)?;
        let node = plan::find(on, id)?;
        let whole = SplitPoint {
            text: node.text().len(),
            children: node.children().len(),
        };
        let start = SplitPoint {
            text: 0,
            children: 0,
        };
        let left = (cut != start).then(|| id.clone());
        let right = match cut {
            _ if left.is_none() => Some(id.clone()),
            _ if cut == whole => None,
            _ => Some(on.split_node(id, cut, None)?),
        };
        let index = index + usize::from(left.is_some());
        Ok(Self {
            left,
            right,
            between: ChildPosition { parent, index },
        })
    }

    /// Inserts nodes between the halves. Returns the first and the last.
    fn insert(
        &self,
        on: &mut Draft,
        nodes: Vec<NodeSpec>,
    ) -> Result<Option<(NodeId, NodeId)>, EditError> {
        let ChildPosition { parent, index } = &self.between;
        let mut ends = None;
        for (nth, node) in nodes.into_iter().enumerate() {
            let id = on.insert(node, parent, index + nth)?;
            let first = ends.map_or_else(|| id.clone(), |(first, _)| first);
            ends = Some((first, id));
        }
        Ok(ends)
    }
}

/// The block that contains a text node: it is split when blocks are pasted.
fn block_of(on: &Draft, id: &NodeId) -> Result<Option<NodeId>, EditError> {
    let Some(block) = on.parent(id).and_then(|parent| on.node(parent)) else {
        return Ok(None);
    };
    let divisible = block.parent().is_some() && is_text_block(on, block)?;
    Ok(divisible.then(|| block.id().clone()))
}

fn paste_nodes(on: &mut Draft, at: &Position, fragment: Fragment) -> Edited {
    let seams = Seams::of(&fragment);
    let texts_in = fragment.kinds_with_text();
    // A node without text may be an image.
    let is_blank = |node: &Node| {
        node.text().is_empty() && node.children().is_empty() && texts_in.contains(node.kind())
    };
    let into_blank = is_blank(plan::find(on, &at.node_id)?);
    let block = match seams.flat {
        true => None,
        false => block_of(on, &at.node_id)?,
    };
    let cut = SplitPoint {
        text: at.offset,
        children: 0,
    };
    let texts = Halves::of(on, &at.node_id, cut)?;
    let at_end = texts.right.is_none() || into_blank;
    let halves = match &block {
        Some(block) => {
            let cut = SplitPoint {
                text: 0,
                children: texts.between.index,
            };
            Halves::of(on, block, cut)?
        }
        None => texts,
    };

    let Some((first, mut last)) = halves.insert(on, fragment.nodes)? else {
        return Ok(());
    };
    if at_end {
        // The split did not move a caret there.
        let behind = end_of(on, &last)?;
        reselect(on, |_, caret| (caret == at).then(|| behind.clone()))?;
    }
    if let Some(left) = &halves.left
        && seams.go_on(on, seams.open_start, left, &first)?
    {
        join_to(on, left, &first)?;
        if last == first {
            last.clone_from(left);
        }
    }
    let mut goes_on = false;
    if let Some(right) = &halves.right
        && seams.go_on(on, seams.open_end, &last, right)?
    {
        goes_on = true;
        match halves.left {
            Some(left) if left == last => join_to(on, &left, right)?,
            _ => put_before(on, &last, right)?,
        }
    }
    // The pasted node may have been joined with it.
    let Some(blank) = on
        .node(&at.node_id)
        .filter(|node| into_blank && is_blank(node))
    else {
        return Ok(());
    };
    let parent = blank.parent().and_then(|parent| on.node(parent));
    let all_blank = match parent {
        Some(parent) if block.is_some() && !goes_on => all_children(on, parent.id(), is_blank)?,
        _ => true,
    };
    let alone = parent.is_some_and(|parent| parent.children().len() == 1);
    let gone = match (&block, goes_on) {
        (Some(_), false) if all_blank => blank.parent(),
        (_, true) if alone => None,
        _ => Some(blank.id()),
    };
    match gone.cloned() {
        Some(gone) => Ok(on.delete(&gone)?),
        None => Ok(()),
    }
}

/// Decides whether the first and the last node are joined with the halves next to them.
struct Seams {
    flat: bool,
    open_start: bool,
    open_end: bool,
}

impl Seams {
    fn of(fragment: &Fragment) -> Self {
        Self {
            flat: fragment.is_flat(),
            open_start: fragment.open_start,
            open_end: fragment.open_end,
        }
    }

    /// Whether two neighbours are joined: alike text, or blocks at an open end, of one type or both
    /// for text.
    fn go_on(
        &self,
        on: &Draft,
        open: bool,
        left: &NodeId,
        right: &NodeId,
    ) -> Result<bool, EditError> {
        let (left, right) = (plan::find(on, left)?, plan::find(on, right)?);
        // A node's text comes before its children.
        let in_order = left.children().is_empty() || right.text().is_empty();
        let fitting = match self.flat {
            true => are_alike(on, left, right)?,
            false => {
                let are_text = left.children().is_empty() && right.children().is_empty();
                open && (left.kind() == right.kind()
                    || are_text
                    || is_text_block(on, left)? && is_text_block(on, right)?)
            }
        };
        Ok(in_order && fitting)
    }
}

/// Joins the pasted node to the half before it, and then the two nodes that meet at the seam.
fn join_to(on: &mut Draft, left: &NodeId, pasted: &NodeId) -> Edited {
    let seam = plan::find(on, left)?.children().len();
    on.join_nodes(left, pasted)?;
    if let Some((one, other)) = alike_at(on, left, seam)? {
        on.join_nodes(&one, &other)?;
    }
    Ok(())
}

/// Like [`join_to`], for the half after the pasted nodes; that half stays.
fn put_before(on: &mut Draft, pasted: &NodeId, right: &NodeId) -> Edited {
    let seam = plan::find(on, pasted)?.children().len();
    move_into(on, pasted, right)?;
    if let Some((one, other)) = alike_at(on, right, seam)? {
        move_into(on, &one, &other)?;
    }
    Ok(())
}

/// The children on both sides of an index, if they are text that can be joined.
fn alike_at(
    on: &Draft,
    parent: &NodeId,
    seam: usize,
) -> Result<Option<(NodeId, NodeId)>, EditError> {
    let children = plan::find(on, parent)?.children();
    let before = seam.checked_sub(1).and_then(|at| children.get(at));
    let Some((one, other)) = before.zip(children.get(seam)) else {
        return Ok(None);
    };
    let (left, right) = (plan::find(on, one)?, plan::find(on, other)?);
    let is_text = !left.text().is_empty() || !right.text().is_empty();
    let becomes_one = is_text && left.children().is_empty() && are_alike(on, left, right)?;
    Ok(becomes_one.then(|| (one.clone(), other.clone())))
}

/// Puts the contents of a node before those of another, and deletes the node.
fn move_into(on: &mut Draft, from: &NodeId, into: &NodeId) -> Edited {
    let node = plan::find(on, from)?.clone();
    let marks: Vec<Mark> = node.marks().iter().cloned().collect();
    splice(on, &Position::new(into.clone(), 0), node.text(), &marks)?;
    for (nth, child) in node.children().iter().enumerate() {
        on.move_node(child, into, nth)?;
    }
    reselect(on, |_, place| {
        (place.node_id == *from).then(|| Position::new(into.clone(), place.offset))
    })?;
    Ok(on.delete(from)?)
}

/// The last position in a subtree.
fn end_of(on: &Draft, id: &NodeId) -> Result<Position, EditError> {
    let mut last = plan::find(on, id)?;
    while let Some(child) = last.children().iter().next_back() {
        on.spend(Limit::Steps, |_| cost::LOOKED_UP)?;
        last = plan::find(on, child)?;
    }
    Ok(Position::new(last.id().clone(), last.text().len()))
}
