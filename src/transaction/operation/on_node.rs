//! Operations on one node, as data: one type for each.
//!
//! The functions in [`dsl`](crate::dsl) create them and document each; the [page of
//! operations](crate::guide::operations) lists all of them in tables.
//!
//! In a range, `start` is the first character (by default the start of the text), and `end` is
//! exclusive (by default the end of the text). With an `end_node_id` the range ends in that node,
//! which comes later in the document. Positions count scalar values, unless the
//! [`Operation`](super::Operation::in_unit) has another unit.
//!
//! ```
//! use doclock::transaction::{NodeOperation, on_node::InsertText};
//!
//! let operation = doclock::dsl::insert_text(0, "x");
//! assert_eq!(operation, NodeOperation::from(InsertText { offset: 0, text: "x".into() }));
//! ```

use super::list::{Edited, OperationOn, SizeCheck};
use crate::document::Budget;
use crate::id::NodeId;

type Target = NodeId;

/// States that the positions of an operation are those of a span: `start`, `end`, `end_node_id`.
macro_rules! span_to_scalars {
    () => {
        fn to_scalars(&mut self, on: &mut Draft, id: &NodeId) -> Edited {
            let (end, end_node) = (self.end.as_mut(), self.end_node_id.as_ref());
            unit::of_extent(on, id, &mut self.start, end, end_node)
        }
    };
}

mod attributes;
mod blocks;
mod clipboard;
mod fitting;
mod json;
mod marks;
mod range;
mod tables;
mod text;
mod tree;

pub use blocks::JoinTarget;

operations! {
    /// An operation on a node; [`on`](NodeOperation::on) or [`control`](crate::dsl::control) sets
    /// the node. [`on_node`](crate::transaction::on_node) has the types of all of them.
    ///
    /// In JSON: `{"type": "insertText", "payload": {"offset": 0, "text": "x"}}`.
    NodeOperation, named Named;

    tree {
        Delete => delete_node, delete_block;
        AddChild => add_child;
        RemoveChild => remove_child;
        RemoveChildren => remove_children;
        MoveNode => move_node;
        MoveChildren => move_children;
        MoveBlockUp => move_block_up;
        MoveBlockDown => move_block_down;
        ReorderChildren => reorder_children;
        CopyNode => copy_node, copy_node_to;
        CloneNodeWithChildren => clone_node_with_children, clone_node_with_children_to;
        WrapNode => wrap_node, wrap_nodes_up_to;
        LiftNode => lift_node, lift_nodes_up_to;
        IndentNode => indent_node, indent_node_in, indent_nodes_up_to;
        OutdentNode => outdent_node, outdent_nodes_up_to;
    }

    text {
        SetText => set_text;
        InsertText => insert_text;
        DeleteTextRange => delete_text_range;
        DeleteRange => delete_range, delete_range_exactly;
        ReplaceText => replace_text, type_over;
        ReplacePattern => replace_pattern;
        Wrap => wrap_text;
        Unwrap => unwrap_text;
        IndentText => indent_text;
        OutdentText => outdent_text;
    }

    blocks {
        SplitTextNode => split_text_node;
        MergeTextNodes => merge_text_nodes;
        SplitBlockNode => split_block_node;
        MergeBlockNodes => merge_block_nodes;
        AutoMergeTextNodes => auto_merge_text_nodes;
        InsertParagraph => insert_paragraph, insert_paragraph_of, insert_paragraph_over;
        JoinBlock => join_block;
        LiftEmptyBlock => lift_empty_block;
        SplitListItem => split_list_item, split_list_item_over;
        WrapInList => wrap_in_list, wrap_in_list_up_to;
    }

    marks {
        ApplyMark => apply_mark, apply_mark_with;
        RemoveMark => remove_mark, remove_mark_with;
        ToggleMark => toggle_mark, toggle_mark_with;
        UpdateMark => update_mark;
        SetMarks => set_marks;
        ClearFormatting => clear_formatting;
    }

    attributes {
        SetAttrs => set_attrs;
        RemoveAttrs => remove_attrs;
        Update => update_node;
        TransformNode => transform_node;
        SetRoot => set_root;
    }

    tables {
        AddTableRow => add_table_row;
        AddTableColumn => add_table_column;
        DeleteTableRows => delete_table_rows, delete_table_rows_up_to;
        DeleteTableColumns => delete_table_columns, delete_table_columns_up_to;
        MergeCells => merge_cells;
        SplitCell => split_cell;
        ToggleHeader => toggle_header, toggle_header_up_to;
        ClearCells => clear_cells, clear_cells_up_to;
        MoveTableRow => move_table_row;
        MoveTableColumn => move_table_column;
        FixTable => fix_table;
    }

    clipboard {
        Copy => copy_range;
        Cut => cut_range;
        Paste => paste, paste_fragment, paste_over;
        SelectNode => select_node;
        SelectRange => select_range;
    }
}

/// Checks the size of a text.
fn text_size(budget: &Budget, text: &str) -> SizeCheck {
    budget.text(text.len(), text.chars().count())
}
