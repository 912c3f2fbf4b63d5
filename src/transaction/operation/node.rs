//! Operations on one node, as data.

mod json;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use smol_str::SmolStr;

use super::{Child, NodeRef, Pattern};
use crate::document::{Attributes, Fragment, Mark, NodeSpec, value};

/// An operation on a node; [`on`](NodeOperation::on) or [`control`](crate::dsl::control) sets the
/// node. The functions in [`dsl`](crate::dsl) create these operations and document each of them;
/// the [page of operations](crate::guide::operations) lists all of them in tables.
///
/// In a range, `start` is the first character (by default the start of the text), and `end` is
/// exclusive (by default the end of the text). With an `end_node_id` the range ends in that node,
/// which comes later in the document. Positions count scalar values, unless the
/// [`Operation`](super::Operation::in_unit) has another unit.
///
/// In JSON: `{"type": "insertText", "payload": {"offset": 0, "text": "x"}}`.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantNames,
)]
#[serde(
    remote = "Self",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
#[strum(serialize_all = "camelCase")]
#[non_exhaustive]
pub enum NodeOperation {
    // --- The tree ---
    /// See [`dsl::delete_node`](crate::dsl::delete_node).
    Delete {},
    /// See [`dsl::add_child`](crate::dsl::add_child).
    AddChild {
        /// The child.
        child: Child,
        /// Its index among the children; the end for `None`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<usize>,
    },
    /// See [`dsl::remove_child`](crate::dsl::remove_child).
    RemoveChild {
        /// The child.
        child_id: NodeRef,
    },
    /// See [`dsl::remove_children`](crate::dsl::remove_children).
    RemoveChildren {
        /// The children.
        child_ids: Vec<NodeRef>,
    },
    /// See [`dsl::move_node`](crate::dsl::move_node).
    MoveNode {
        /// The new parent.
        parent_id: NodeRef,
        /// The index among its children after the move; the end for `None`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<usize>,
    },
    /// See [`dsl::move_children`](crate::dsl::move_children).
    MoveChildren {
        /// The children, in their new order.
        child_ids: Vec<NodeRef>,
        /// The new parent.
        parent_id: NodeRef,
        /// The index of the first one after the move; the end for `None`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<usize>,
    },
    /// See [`dsl::move_block_up`](crate::dsl::move_block_up).
    MoveBlockUp {},
    /// See [`dsl::move_block_down`](crate::dsl::move_block_down).
    MoveBlockDown {},
    /// See [`dsl::reorder_children`](crate::dsl::reorder_children).
    ReorderChildren {
        /// All children, in their new order.
        child_ids: Vec<NodeRef>,
    },
    /// See [`dsl::copy_node`](crate::dsl::copy_node).
    CopyNode {
        /// The parent of the copy; the original's parent for `None`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_id: Option<NodeRef>,
        /// The index of the copy. For `None`, right after the original, or the end of another
        /// parent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<usize>,
    },
    /// See [`dsl::clone_node_with_children`](crate::dsl::clone_node_with_children).
    CloneNodeWithChildren {
        /// The parent of the copy; the original's parent for `None`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_id: Option<NodeRef>,
        /// The index of the copy. For `None`, right after the original, or the end of another
        /// parent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<usize>,
    },
    /// See [`dsl::wrap_node`](crate::dsl::wrap_node).
    WrapNode {
        /// The new parent of the node.
        node: NodeSpec,
    },
    /// See [`dsl::lift_node`](crate::dsl::lift_node).
    LiftNode {},
    /// See [`dsl::indent_node`](crate::dsl::indent_node).
    IndentNode {
        /// A new container between the previous sibling and the node, used if no suitable one
        /// exists.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        container: Option<NodeSpec>,
    },
    /// See [`dsl::outdent_node`](crate::dsl::outdent_node).
    OutdentNode {},

    // --- Text ---
    /// See [`dsl::set_text`](crate::dsl::set_text).
    SetText {
        /// The new text.
        text: SmolStr,
    },
    /// See [`dsl::insert_text`](crate::dsl::insert_text).
    InsertText {
        /// The offset of the insertion.
        offset: usize,
        /// The characters.
        text: SmolStr,
    },
    /// See [`dsl::delete_text_range`](crate::dsl::delete_text_range).
    DeleteTextRange {
        /// The first character.
        start: usize,
        /// The end, exclusive.
        end: usize,
    },
    /// See [`dsl::delete_range`](crate::dsl::delete_range).
    DeleteRange {
        /// The first character.
        #[serde(default)]
        start: usize,
        /// The end, exclusive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<usize>,
        /// The node in which the range ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end_node_id: Option<NodeRef>,
    },
    /// See [`dsl::replace_text`](crate::dsl::replace_text).
    ReplaceText {
        /// The first character.
        start: usize,
        /// The end, exclusive.
        end: usize,
        /// The replacement.
        text: SmolStr,
    },
    /// See [`dsl::replace_pattern`](crate::dsl::replace_pattern).
    ReplacePattern {
        /// The regular expression.
        pattern: Pattern,
        /// The replacement of each match.
        replacement: String,
    },
    /// See [`dsl::wrap_text`](crate::dsl::wrap_text).
    Wrap {
        /// The text to insert before the characters.
        before: SmolStr,
        /// The text to insert after them.
        after: SmolStr,
        /// The first character.
        #[serde(default)]
        start: usize,
        /// The end, exclusive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<usize>,
    },
    /// See [`dsl::unwrap_text`](crate::dsl::unwrap_text).
    Unwrap {
        /// The text to remove before the characters.
        before: SmolStr,
        /// The text to remove after them.
        after: SmolStr,
        /// The first character, which is that of `before`.
        #[serde(default)]
        start: usize,
        /// The end, exclusive, after `after`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<usize>,
    },
    /// See [`dsl::indent_text`](crate::dsl::indent_text).
    IndentText {
        /// The text to insert at the beginning of each line.
        indent: SmolStr,
        /// The first character.
        #[serde(default)]
        start: usize,
        /// The end, exclusive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<usize>,
    },
    /// See [`dsl::outdent_text`](crate::dsl::outdent_text).
    OutdentText {
        /// The text to remove from each line that begins with it.
        indent: SmolStr,
        /// The first character.
        #[serde(default)]
        start: usize,
        /// The end, exclusive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<usize>,
    },

    // --- Splitting and joining ---
    /// See [`dsl::split_text_node`](crate::dsl::split_text_node).
    SplitTextNode {
        /// The first character of the new node.
        offset: usize,
    },
    /// See [`dsl::merge_text_nodes`](crate::dsl::merge_text_nodes).
    MergeTextNodes {
        /// The next sibling.
        other_id: NodeRef,
    },
    /// See [`dsl::split_block_node`](crate::dsl::split_block_node).
    SplitBlockNode {
        /// The index of the first child of the new node.
        index: usize,
    },
    /// See [`dsl::merge_block_nodes`](crate::dsl::merge_block_nodes).
    MergeBlockNodes {
        /// The next sibling.
        other_id: NodeRef,
    },
    /// See [`dsl::auto_merge_text_nodes`](crate::dsl::auto_merge_text_nodes).
    AutoMergeTextNodes {},
    /// See [`dsl::insert_paragraph`](crate::dsl::insert_paragraph).
    InsertParagraph {
        /// The first character of the new block.
        offset: usize,
        /// The type of the new block; that of the old block for `None`.
        #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
        kind: Option<SmolStr>,
    },
    /// See [`dsl::split_list_item`](crate::dsl::split_list_item).
    SplitListItem {
        /// The first character of the new item.
        offset: usize,
        /// The type of the items.
        item_type: SmolStr,
    },
    /// See [`dsl::wrap_in_list`](crate::dsl::wrap_in_list).
    WrapInList {
        /// The list.
        list: NodeSpec,
        /// The item that each node is moved into.
        item: NodeSpec,
        /// The last sibling to be moved into the list; only the node itself for `None`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_id: Option<NodeRef>,
    },

    // --- Marks ---
    /// See [`dsl::apply_mark`](crate::dsl::apply_mark).
    ApplyMark {
        /// The kind of mark.
        mark: SmolStr,
        /// Its attributes.
        #[serde(default, skip_serializing_if = "Attributes::is_empty")]
        attributes: Attributes,
        /// The first character.
        #[serde(default)]
        start: usize,
        /// The end, exclusive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<usize>,
        /// The node in which the range ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end_node_id: Option<NodeRef>,
    },
    /// See [`dsl::remove_mark`](crate::dsl::remove_mark).
    RemoveMark {
        /// The kind of mark.
        mark: SmolStr,
        /// The first character.
        #[serde(default)]
        start: usize,
        /// The end, exclusive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<usize>,
        /// The node in which the range ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end_node_id: Option<NodeRef>,
    },
    /// See [`dsl::toggle_mark`](crate::dsl::toggle_mark).
    ToggleMark {
        /// The kind of mark.
        mark: SmolStr,
        /// Its attributes.
        #[serde(default, skip_serializing_if = "Attributes::is_empty")]
        attributes: Attributes,
        /// The first character.
        #[serde(default)]
        start: usize,
        /// The end, exclusive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<usize>,
        /// The node in which the range ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end_node_id: Option<NodeRef>,
    },
    /// See [`dsl::update_mark`](crate::dsl::update_mark).
    UpdateMark {
        /// The kind of mark.
        mark: SmolStr,
        /// The attributes to change; `null` removes one.
        #[serde(deserialize_with = "value::map")]
        attributes: Box<Map<String, Value>>,
        /// The first character.
        #[serde(default)]
        start: usize,
        /// The end, exclusive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<usize>,
        /// The node in which the range ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end_node_id: Option<NodeRef>,
    },
    /// See [`dsl::set_marks`](crate::dsl::set_marks).
    SetMarks {
        /// The marks.
        marks: Vec<Mark>,
    },
    /// See [`dsl::clear_formatting`](crate::dsl::clear_formatting).
    ClearFormatting {
        /// The first character.
        #[serde(default)]
        start: usize,
        /// The end, exclusive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<usize>,
        /// The node in which the range ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end_node_id: Option<NodeRef>,
    },

    // --- The node itself ---
    /// See [`dsl::set_attrs`](crate::dsl::set_attrs).
    SetAttrs {
        /// Names and values of the attributes; `null` removes one.
        #[serde(deserialize_with = "value::map")]
        attrs: Box<Map<String, Value>>,
    },
    /// See [`dsl::remove_attrs`](crate::dsl::remove_attrs).
    RemoveAttrs {
        /// Names of the attributes.
        keys: Vec<SmolStr>,
    },
    /// See [`dsl::update_node`](crate::dsl::update_node).
    Update {
        /// Names and values of attributes; `null` removes one.
        #[serde(
            default,
            deserialize_with = "value::map",
            skip_serializing_if = "empty"
        )]
        attrs: Box<Map<String, Value>>,
        /// The new text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<SmolStr>,
        /// The new marks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        marks: Option<Vec<Mark>>,
    },
    /// See [`dsl::transform_node`](crate::dsl::transform_node).
    TransformNode {
        /// The new type.
        #[serde(rename = "type")]
        kind: SmolStr,
        /// Names and values of attributes; `null` removes one.
        #[serde(
            default,
            deserialize_with = "value::map",
            skip_serializing_if = "empty"
        )]
        attrs: Box<Map<String, Value>>,
    },
    /// See [`dsl::set_root`](crate::dsl::set_root).
    SetRoot {},

    // --- The clipboard and the selection ---
    /// See [`dsl::copy_range`](crate::dsl::copy_range).
    Copy {
        /// The first character.
        #[serde(default)]
        start: usize,
        /// The end, exclusive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<usize>,
        /// The node in which the range ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end_node_id: Option<NodeRef>,
    },
    /// See [`dsl::cut_range`](crate::dsl::cut_range).
    Cut {
        /// The first character.
        #[serde(default)]
        start: usize,
        /// The end, exclusive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<usize>,
        /// The node in which the range ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end_node_id: Option<NodeRef>,
    },
    /// See [`dsl::paste`](crate::dsl::paste).
    Paste {
        /// The offset of the insertion.
        offset: usize,
        /// The fragment; the clipboard for `None`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fragment: Option<Fragment>,
    },
    /// See [`dsl::select_node`](crate::dsl::select_node).
    SelectNode {},
    /// See [`dsl::select_range`](crate::dsl::select_range).
    SelectRange {
        /// The start of the selection.
        #[serde(default)]
        start: usize,
        /// The end of the selection.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<usize>,
        /// The node in which the selection ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end_node_id: Option<NodeRef>,
    },

    // --- A wrapper; last, because it has no name of its own ---
    /// See [`named`](Self::named).
    #[serde(skip)]
    Named {
        /// The name.
        alias: SmolStr,
        /// The operation.
        operation: Box<NodeOperation>,
    },
}

fn empty(attrs: &Map<String, Value>) -> bool {
    attrs.is_empty()
}
