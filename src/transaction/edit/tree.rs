//! Where nodes are: removing, moving, copying, wrapping, lifting.
use super::Edited;
use crate::document::NodeSpec;
use crate::id::NodeId;
use crate::store::Transaction;

pub(super) fn remove_children(on: &mut Transaction, id: &NodeId, children: &[NodeId]) -> Edited {
    todo!()
}

pub(super) fn move_children(
    on: &mut Transaction,
    id: &NodeId,
    children: &[NodeId],
    parent: &NodeId,
    index: Option<usize>,
) -> Edited {
    todo!()
}

pub(super) fn move_block_up(on: &mut Transaction, id: &NodeId) -> Edited {
    todo!()
}

pub(super) fn move_block_down(on: &mut Transaction, id: &NodeId) -> Edited {
    todo!()
}

pub(super) fn reorder_children(on: &mut Transaction, id: &NodeId, children: &[NodeId]) -> Edited {
    todo!()
}

pub(super) fn copy_node(
    on: &mut Transaction,
    id: &NodeId,
    parent: Option<&NodeId>,
    index: Option<usize>,
) -> Edited {
    todo!()
}

pub(super) fn clone_node_with_children(
    on: &mut Transaction,
    id: &NodeId,
    parent: Option<&NodeId>,
    index: Option<usize>,
) -> Edited {
    todo!()
}

pub(super) fn wrap_node(on: &mut Transaction, id: &NodeId, node: NodeSpec) -> Edited {
    todo!()
}

pub(super) fn lift_node(on: &mut Transaction, id: &NodeId) -> Edited {
    todo!()
}

pub(super) fn indent_node(
    on: &mut Transaction,
    id: &NodeId,
    container: Option<NodeSpec>,
) -> Edited {
    todo!()
}

pub(super) fn outdent_node(on: &mut Transaction, id: &NodeId) -> Edited {
    todo!()
}
