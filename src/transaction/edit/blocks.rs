//! Splitting and joining text nodes, blocks and list items.
use smol_str::SmolStr;

use super::Edited;
use crate::document::NodeSpec;
use crate::id::NodeId;
use crate::store::Transaction;

pub(super) fn split_text_node(on: &mut Transaction, id: &NodeId, offset: usize) -> Edited {
    todo!()
}

pub(super) fn merge_text_nodes(on: &mut Transaction, id: &NodeId, other: &NodeId) -> Edited {
    todo!()
}

pub(super) fn split_block_node(on: &mut Transaction, id: &NodeId, index: usize) -> Edited {
    todo!()
}

pub(super) fn merge_block_nodes(on: &mut Transaction, id: &NodeId, other: &NodeId) -> Edited {
    todo!()
}

pub(super) fn auto_merge_text_nodes(on: &mut Transaction, id: &NodeId) -> Edited {
    todo!()
}

pub(super) fn insert_paragraph(
    on: &mut Transaction,
    id: &NodeId,
    offset: usize,
    kind: Option<SmolStr>,
) -> Edited {
    todo!()
}

pub(super) fn split_list_item(
    on: &mut Transaction,
    id: &NodeId,
    offset: usize,
    item: &str,
) -> Edited {
    todo!()
}

pub(super) fn wrap_in_list(
    on: &mut Transaction,
    id: &NodeId,
    list: NodeSpec,
    item: NodeSpec,
    last: Option<&NodeId>,
) -> Edited {
    todo!()
}
