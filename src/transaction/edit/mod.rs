//! Operations as compositions of primitive changes.
//!
//! If an operation fails midway, the caller rolls back its changes (T8).

mod attributes;
mod blocks;
mod clipboard;
mod marks;
mod order;
mod range;
mod text;
mod tree;
pub(super) mod unit;

use super::error::OperationError;
use super::operation::{Child, NodeOperation, NodeRef};
use super::run::resolve;
use crate::document::Selection;
use crate::id::NodeId;
use crate::store::Draft;

type Edited = Result<(), OperationError>;

/// Runs an operation on a node.
pub(super) fn apply(on: &mut Draft, id: &NodeId, operation: NodeOperation) -> Edited {
    use NodeOperation as Do;
    match operation {
        Do::Delete {} => on.delete(id)?,
        Do::AddChild { child, index } => match child {
            Child::New(node) => drop(on.insert(node, id, index)?),
            Child::Existing(child) => on.move_node(&resolve(on, &child)?, id, index)?,
        },
        Do::RemoveChild { child_id } => on.remove_child(id, &resolve(on, &child_id)?)?,
        Do::RemoveChildren { child_ids } => {
            let children = resolve_all(on, &child_ids)?;
            tree::remove_children(on, id, &children)?;
        }
        Do::MoveNode { parent_id, index } => on.move_node(id, &resolve(on, &parent_id)?, index)?,
        Do::MoveChildren {
            child_ids,
            parent_id,
            index,
        } => {
            let children = resolve_all(on, &child_ids)?;
            let parent = resolve(on, &parent_id)?;
            tree::move_children(on, id, &children, &parent, index)?;
        }
        Do::MoveBlockUp {} => tree::move_block_up(on, id)?,
        Do::MoveBlockDown {} => tree::move_block_down(on, id)?,
        Do::ReorderChildren { child_ids } => {
            let children = resolve_all(on, &child_ids)?;
            tree::reorder_children(on, id, &children)?;
        }
        Do::CopyNode { parent_id, index } => {
            let parent = resolve_some(on, parent_id.as_ref())?;
            tree::copy_node(on, id, parent.as_ref(), index)?;
        }
        Do::CloneNodeWithChildren { parent_id, index } => {
            let parent = resolve_some(on, parent_id.as_ref())?;
            tree::clone_node_with_children(on, id, parent.as_ref(), index)?;
        }
        Do::WrapNode { node } => tree::wrap_node(on, id, node)?,
        Do::LiftNode {} => tree::lift_node(on, id)?,
        Do::IndentNode { container } => tree::indent_node(on, id, container)?,
        Do::OutdentNode {} => tree::outdent_node(on, id)?,

        Do::SetText { text } => on.set_text(id, text)?,
        Do::InsertText { offset, text } => text::replace(on, id, offset..offset, text)?,
        Do::DeleteTextRange { start, end } => on.delete_text(id, start..end)?,
        Do::DeleteRange {
            start,
            end,
            end_node_id,
        } => {
            let over = range::resolve(on, id, start, end, end_node_id.as_ref())?;
            range::delete_range(on, &over)?;
        }
        Do::ReplaceText { start, end, text } => text::replace(on, id, start..end, text)?,
        Do::ReplacePattern {
            pattern,
            replacement,
        } => text::replace_pattern(on, id, &pattern, &replacement)?,
        Do::Wrap {
            before,
            after,
            start,
            end,
        } => text::wrap(on, id, &before, &after, start, end)?,
        Do::Unwrap {
            before,
            after,
            start,
            end,
        } => text::unwrap(on, id, &before, &after, start, end)?,
        Do::IndentText { indent, start, end } => text::indent_text(on, id, &indent, start, end)?,
        Do::OutdentText { indent, start, end } => text::outdent_text(on, id, &indent, start, end)?,

        Do::SplitTextNode { offset } => blocks::split_text_node(on, id, offset)?,
        Do::MergeTextNodes { other_id } => {
            blocks::merge_text_nodes(on, id, &resolve(on, &other_id)?)?;
        }
        Do::SplitBlockNode { index } => blocks::split_block_node(on, id, index)?,
        Do::MergeBlockNodes { other_id } => {
            blocks::merge_block_nodes(on, id, &resolve(on, &other_id)?)?;
        }
        Do::AutoMergeTextNodes {} => blocks::auto_merge_text_nodes(on, id)?,
        Do::InsertParagraph { offset, kind } => blocks::insert_paragraph(on, id, offset, kind)?,
        Do::SplitListItem { offset, item_type } => {
            blocks::split_list_item(on, id, offset, &item_type)?;
        }
        Do::WrapInList {
            list,
            item,
            last_id,
        } => {
            let last = resolve_some(on, last_id.as_ref())?;
            blocks::wrap_in_list(on, id, list, item, last.as_ref())?;
        }

        Do::ApplyMark {
            mark,
            attributes,
            start,
            end,
            end_node_id,
        } => {
            let over = range::resolve(on, id, start, end, end_node_id.as_ref())?;
            marks::apply_mark(on, &over, &mark, &attributes)?;
        }
        Do::RemoveMark {
            mark,
            start,
            end,
            end_node_id,
        } => {
            let over = range::resolve(on, id, start, end, end_node_id.as_ref())?;
            marks::remove_mark(on, &over, &mark)?;
        }
        Do::ToggleMark {
            mark,
            attributes,
            start,
            end,
            end_node_id,
        } => {
            let over = range::resolve(on, id, start, end, end_node_id.as_ref())?;
            marks::toggle_mark(on, &over, &mark, &attributes)?;
        }
        Do::UpdateMark {
            mark,
            attributes,
            start,
            end,
            end_node_id,
        } => {
            let over = range::resolve(on, id, start, end, end_node_id.as_ref())?;
            marks::update_mark(on, &over, &mark, &attributes)?;
        }
        Do::SetMarks { marks } => marks::set_marks(on, id, marks)?,
        Do::ClearFormatting {
            start,
            end,
            end_node_id,
        } => {
            let over = range::resolve(on, id, start, end, end_node_id.as_ref())?;
            marks::clear_formatting(on, &over)?;
        }

        Do::SetAttrs { attrs } => on.set_attrs(id, *attrs)?,
        Do::RemoveAttrs { keys } => attributes::remove_attrs(on, id, keys)?,
        Do::Update { attrs, text, marks } => attributes::update(on, id, *attrs, text, marks)?,
        Do::TransformNode { kind, attrs } => attributes::transform_node(on, id, kind, *attrs)?,
        Do::SetRoot {} => on.set_root(id)?,

        Do::Copy {
            start,
            end,
            end_node_id,
        } => {
            let over = range::resolve(on, id, start, end, end_node_id.as_ref())?;
            clipboard::copy(on, &over)?;
        }
        Do::Cut {
            start,
            end,
            end_node_id,
        } => {
            let over = range::resolve(on, id, start, end, end_node_id.as_ref())?;
            clipboard::copy(on, &over)?;
            range::delete_range(on, &over)?;
        }
        Do::Paste { offset, fragment } => clipboard::paste(on, id, offset, fragment)?,
        Do::SelectNode {} => on.select(Selection::node(id.clone()))?,
        Do::SelectRange {
            start,
            end,
            end_node_id,
        } => {
            let over = range::resolve(on, id, start, end, end_node_id.as_ref())?;
            on.select(Selection::new(over.start, over.end))?;
        }

        Do::Named { operation, .. } => apply(on, id, *operation)?,
    }
    Ok(())
}

fn resolve_all(on: &Draft, nodes: &[NodeRef]) -> Result<Vec<NodeId>, OperationError> {
    nodes.iter().map(|node| resolve(on, node)).collect()
}

fn resolve_some(on: &Draft, node: Option<&NodeRef>) -> Result<Option<NodeId>, OperationError> {
    node.map(|node| resolve(on, node)).transpose()
}
