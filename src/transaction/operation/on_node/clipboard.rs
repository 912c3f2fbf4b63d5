//! The clipboard and the selection.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::fitting::fits;
use super::range::{self, CheckedRange};
use super::{Edited, NodeOperation, OperationOn, SizeCheck};
use crate::document::fit::FitEdit;
use crate::document::{
    Budget, EditError, Fragment, Limit, Node, Selection, block_edits, cost, plan,
    table::{self, TableEdit},
};
use crate::id::NodeId;
use crate::store::Draft;
use crate::transaction::error::OperationError;
use crate::transaction::operation::unit;
use crate::transaction::operation::{NodeRef, TextSpan};

/// Copies characters, and all nodes between the first and the last, to the clipboard, clipped at
/// both ends. The document is unchanged. An empty range leaves the clipboard unchanged. Cells of a
/// table that [`delete_range`](crate::dsl::delete_range) would empty, or whose own ids name the
/// ends, are copied whole, as a table.
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
        let copied = copied(on, &over)?;
        keep(on, copied);
        Ok(())
    }
}

/// Copies a range to the clipboard, then deletes it: [`copy_range`], then
/// [`delete_range`](crate::dsl::delete_range). What is removed from cells of a table is on the
/// clipboard as a table.
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
        let copied = copied(on, &over)?;
        let schema = on.shared_schema();
        if over.start == over.end && table::is_cell(on, schema.as_deref(), id) {
            table::edit(on, schema.as_deref(), id, None, TableEdit::Clear)?;
        }
        let over = range::emptied_cells(on, over)?;
        range::delete_range(on, &over)?;
        keep(on, copied);
        Ok(())
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

/// Replaces a range by the contents of the clipboard, or by a given fragment. Over the cells of a
/// table that [`delete_range`](crate::dsl::delete_range) would empty, the contents are in each
/// cell. Contents that are cells replace the cells of the range, repeated or cut to fill them. In
/// one cell, they replace those from it on, and the table grows where it must.
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
        let end = match self.end_node_id.is_some() {
            true => self.end,
            false => Some(self.end.unwrap_or(offset)),
        };
        let over = range::resolve(on, id, offset, end, self.end_node_id.as_ref())?;
        let (schema, CheckedRange { start, end }) = (on.shared_schema(), &over);
        if table::paste_between(on, schema.as_deref(), start, end, &fragment)? {
            return Ok(());
        }
        let over = range::emptied_cells(on, over)?;
        if fits(on, &over, &FitEdit::Paste(&fragment))? {
            return Ok(());
        }
        if over.start != over.end {
            range::delete_range(on, &over)?;
        }
        Ok(block_edits::paste(on, &over.start, fragment)?)
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

/// The nodes of a range, clipped at both ends, or the cells that it is over, whole.
fn copied(on: &Draft, over: &CheckedRange) -> Result<Fragment, EditError> {
    let (around, CheckedRange { start, end }) = (on.schema().is_some(), over);
    let visit = |node: &Node, text: &Range<usize>| {
        // A whole text is shared with the copy.
        let copied = match text.len() == node.text().len() {
            true => 0,
            false => text.len() / cost::BYTES,
        };
        on.spend(Limit::Steps, |_| {
            cost::NODE + cost::marks(node.marks()) + copied
        })
    };
    match table::copy_between(on, on.schema(), start, end, visit)? {
        Some(cells) => Ok(cells),
        None => Fragment::clipped(on, start, end, around, visit),
    }
}

/// Puts copied nodes on the clipboard, unless there are none.
fn keep(on: &mut Draft, copied: Fragment) {
    if !copied.nodes.is_empty() {
        on.set_clipboard(Some(copied));
    }
}
