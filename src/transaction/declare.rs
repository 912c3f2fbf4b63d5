//! Derives which nodes an operation touches, before it runs.
//!
//! Nodes that follow from the operation and the tree are named exactly; otherwise a sufficient
//! subtree is. Too little is not wrong: a node that is not locked when it is changed is locked
//! then.

use super::operation::{Child, NodeOperation as Do, NodeRef, Operation};
use crate::document::{Snapshot, View};
use crate::id::NodeId;
use crate::lock::Scope;
use crate::store::Needs;

/// The nodes that a batch needs, as far as they follow from a version of the document.
pub(super) fn scope(document: &Snapshot, operations: &[Operation]) -> Scope {
    let needs = Needs::new(document);
    operations.iter().fold(needs, declare).into_scope()
}

fn declare<'v, V: View>(needs: Needs<'v, V>, operation: &Operation) -> Needs<'v, V> {
    match operation {
        Operation::Create { node, .. } => created(needs, node.ids()),
        Operation::On {
            node_id, operation, ..
        } => on_ref(needs, node_id, operation),
        Operation::Control {
            node_id,
            operations,
            ..
        } => operations
            .iter()
            .fold(needs, |needs, operation| on_ref(needs, node_id, operation)),
        Operation::Named { operation, .. } => declare(needs, operation),
        // Changes of code are locked when they happen; reads are validated by the commit.
        Operation::Call(_)
        | Operation::SetSelection { .. }
        | Operation::ClearSelection
        | Operation::IfUnchanged { .. }
        | Operation::RequireLease { .. } => needs,
    }
}

fn on_ref<'v, V: View>(needs: Needs<'v, V>, node: &NodeRef, operation: &Do) -> Needs<'v, V> {
    match known(node) {
        Some(id) => on(needs, id, operation),
        None => needs,
    }
}

/// The node, or `None` for one that the transaction creates: no other transaction can access it.
fn known(node: &NodeRef) -> Option<&NodeId> {
    match node {
        NodeRef::Id(id) => Some(id),
        NodeRef::Alias(_) => None,
    }
}

/// The nodes that an operation on a node needs.
pub(super) fn on<'v, V: View>(needs: Needs<'v, V>, id: &NodeId, operation: &Do) -> Needs<'v, V> {
    let detached = |needs: Needs<'v, V>, nodes: &[NodeRef]| {
        nodes.iter().filter_map(known).fold(needs, Needs::detached)
    };
    match operation {
        Do::SetText { .. }
        | Do::InsertText { .. }
        | Do::DeleteTextRange { .. }
        | Do::ReplaceText { .. }
        | Do::Wrap { .. }
        | Do::Unwrap { .. }
        | Do::IndentText { .. }
        | Do::OutdentText { .. }
        | Do::SetMarks { .. }
        | Do::SetAttrs { .. }
        | Do::RemoveAttrs { .. }
        | Do::Update { .. }
        | Do::TransformNode { .. } => needs.node(id),

        Do::DeleteRange { end_node_id, .. }
        | Do::ApplyMark { end_node_id, .. }
        | Do::RemoveMark { end_node_id, .. }
        | Do::ToggleMark { end_node_id, .. }
        | Do::UpdateMark { end_node_id, .. }
        | Do::ClearFormatting { end_node_id, .. }
        | Do::Cut { end_node_id, .. } => match end_node_id.as_ref().and_then(known) {
            Some(end) if end != id => needs.common(id, end),
            _ => needs.node(id),
        },

        Do::Delete {} | Do::WrapNode { .. } | Do::MoveBlockUp {} | Do::MoveBlockDown {} => {
            needs.detached(id)
        }
        Do::AddChild { child, .. } => match child {
            Child::New(node) => created(needs.node(id), node.ids()),
            Child::Existing(child) => detached(needs.node(id), std::slice::from_ref(child)),
        },
        Do::RemoveChild { child_id } => detached(needs.node(id), std::slice::from_ref(child_id)),
        Do::RemoveChildren { child_ids } => detached(needs.node(id), child_ids),
        Do::MoveNode { parent_id, .. } => known(parent_id)
            .into_iter()
            .fold(needs.detached(id), Needs::node),
        Do::MoveChildren {
            child_ids,
            parent_id,
            ..
        } => {
            let needs = detached(needs.node(id), child_ids);
            known(parent_id).into_iter().fold(needs, Needs::node)
        }
        Do::ReorderChildren { .. } | Do::ReplacePattern { .. } | Do::AutoMergeTextNodes {} => {
            needs.subtree(id)
        }
        Do::CopyNode { parent_id, .. } | Do::CloneNodeWithChildren { parent_id, .. } => {
            match parent_id.as_ref() {
                Some(parent) => known(parent).into_iter().fold(needs, Needs::node),
                None => needs.list_of(id),
            }
        }

        Do::SplitTextNode { .. } | Do::SplitBlockNode { .. } => needs.divided(id).list_of(id),
        Do::MergeTextNodes { other_id } | Do::MergeBlockNodes { other_id } => {
            detached(needs.detached(id), std::slice::from_ref(other_id))
        }
        Do::IndentNode { .. } | Do::WrapInList { .. } => needs.above(id, 1),
        Do::LiftNode {} | Do::OutdentNode {} | Do::InsertParagraph { .. } | Do::Paste { .. } => {
            needs.above(id, 2)
        }
        Do::SplitListItem { .. } => needs.above(id, 3),

        Do::SetRoot {} => needs.root(Some(id)),
        Do::Copy { .. } | Do::SelectNode {} | Do::SelectRange { .. } => needs,
        Do::Named { operation, .. } => on(needs, id, operation),
    }
}

fn created<'v, 'n, V: View>(
    needs: Needs<'v, V>,
    ids: impl IntoIterator<Item = &'n NodeId>,
) -> Needs<'v, V> {
    ids.into_iter().fold(needs, Needs::created)
}
