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

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::document::{Budget, LimitExceeded, Overlay};
use crate::id::NodeId;
use crate::store::Draft;
use crate::transaction::error::OperationError;

type Edited = Result<(), OperationError>;
type Within = Result<(), LimitExceeded>;

/// An operation on a node: all that the crate knows of it, beside its name and its fields.
pub(in crate::transaction) trait OnNode {
    /// Checks the size of its names, values and texts, and of the nodes in it, before the lock is
    /// requested.
    fn size(&self, budget: &Budget) -> Within;

    /// Converts its positions from UTF-16 units, each in the current text of its node.
    fn to_scalars(&mut self, on: &mut Draft, id: &NodeId) -> Edited;

    /// The steps of the operation itself, and of the text that it reads as a whole. It counts
    /// anything else when it reads it.
    fn steps(&self, _: &Overlay, _: &NodeId) -> usize {
        1
    }

    /// Runs it. If it fails midway, the caller rolls back its changes (T8).
    fn run(self, on: &mut Draft, id: &NodeId) -> Edited;
}

/// States that an operation has no size or no positions. There is no default, so the compiler
/// demands a decision about each new operation.
macro_rules! without {
    ($($what:ident),+) => {
        $(without!(@ $what);)+
    };
    (@ size) => {
        fn size(&self, _: &Budget) -> Within {
            Ok(())
        }
    };
    (@ positions) => {
        fn to_scalars(&mut self, _: &mut Draft, _: &NodeId) -> Edited {
            Ok(())
        }
    };
}

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
mod json;
mod marks;
mod order;
mod range;
mod text;
mod tree;
pub(in crate::transaction) mod unit;

/// Makes the list of all operations on a node. A row has the type of an operation, whose name in
/// JSON is that in camelCase, and its functions in [`dsl`](crate::dsl).
macro_rules! node_operations {
    ($($family:ident { $($name:ident => $first:ident $(, $more:ident)*;)+ })+) => {
        $(pub use $family::{$($name),+};)+

        /// The functions that create the operations.
        pub(in crate::transaction) mod functions {
            $(pub use super::$family::{$($first $(, $more)*),+};)+
        }

        /// An operation on a node; [`on`](NodeOperation::on) or [`control`](crate::dsl::control)
        /// sets the node. [`on_node`](crate::transaction::on_node) has the types of all of them.
        ///
        /// In JSON: `{"type": "insertText", "payload": {"offset": 0, "text": "x"}}`.
        #[derive(
            Clone, Debug, PartialEq, Serialize, Deserialize, strum::IntoStaticStr,
            strum::VariantNames,
        )]
        #[serde(remote = "Self", rename_all = "camelCase")]
        #[strum(serialize_all = "camelCase")]
        #[non_exhaustive]
        pub enum NodeOperation {
            $($(
                #[doc = concat!(
                    "See [`dsl::", stringify!($first), "`](crate::dsl::", stringify!($first), ").",
                )]
                $name($name),
            )+)+
            // A wrapper; last, because it has no name of its own.
            /// See [`named`](Self::named).
            #[serde(skip)]
            Named {
                /// The name.
                alias: SmolStr,
                /// The operation.
                operation: Box<NodeOperation>,
            },
        }

        $($(
            impl From<$name> for NodeOperation {
                fn from(operation: $name) -> Self {
                    Self::$name(operation)
                }
            }
        )+)+

        impl OnNode for NodeOperation {
            fn size(&self, budget: &Budget) -> Within {
                match self {
                    $($(Self::$name(operation) => operation.size(budget),)+)+
                    Self::Named { alias, operation } => {
                        budget.name(alias)?;
                        operation.size(budget)
                    }
                }
            }

            fn to_scalars(&mut self, on: &mut Draft, id: &NodeId) -> Edited {
                match self {
                    $($(Self::$name(operation) => operation.to_scalars(on, id),)+)+
                    Self::Named { operation, .. } => operation.to_scalars(on, id),
                }
            }

            fn steps(&self, on: &Overlay, id: &NodeId) -> usize {
                match self {
                    $($(Self::$name(operation) => operation.steps(on, id),)+)+
                    Self::Named { operation, .. } => operation.steps(on, id),
                }
            }

            fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
                match self {
                    $($(Self::$name(operation) => operation.run(on, id),)+)+
                    Self::Named { operation, .. } => operation.run(on, id),
                }
            }
        }
    };
}

node_operations! {
    tree {
        Delete => delete_node;
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
        WrapNode => wrap_node;
        LiftNode => lift_node;
        IndentNode => indent_node, indent_node_in;
        OutdentNode => outdent_node;
    }

    text {
        SetText => set_text;
        InsertText => insert_text;
        DeleteTextRange => delete_text_range;
        DeleteRange => delete_range;
        ReplaceText => replace_text;
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
        InsertParagraph => insert_paragraph, insert_paragraph_of;
        SplitListItem => split_list_item;
        WrapInList => wrap_in_list, wrap_in_list_up_to;
    }

    marks {
        ApplyMark => apply_mark, apply_mark_with;
        RemoveMark => remove_mark;
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

    clipboard {
        Copy => copy_range;
        Cut => cut_range;
        Paste => paste, paste_fragment;
        SelectNode => select_node;
        SelectRange => select_range;
    }
}

/// Checks the size of a text.
fn text_size(budget: &Budget, text: &str) -> Within {
    budget.text(text.len(), text.chars().count())
}
