//! Splitting and joining text nodes, blocks and list items, and wrapping blocks in a list.

use smol_str::SmolStr;

use super::Edited;
use super::range::place_of;
use super::tree::{insert_around, position_and_parent_position, split_children};
use crate::document::plan::find;
use crate::document::{Limit, Node, NodeSpec, SplitPoint, View, cost};
use crate::id::NodeId;
use crate::store::Draft;
use crate::transaction::error::OperationError;

pub(super) fn split_text_node(on: &mut Draft, id: &NodeId, offset: usize) -> Edited {
    let children = find(on, id)?.children().len();
    let text = offset;
    on.split_node(id, SplitPoint { text, children }, None)?;
    Ok(())
}

pub(super) fn merge_text_nodes(on: &mut Draft, id: &NodeId, other: &NodeId) -> Edited {
    if find(on, id)?.kind() != find(on, other)?.kind() {
        return Err(OperationError::TypesDiffer {
            left: id.clone(),
            right: other.clone(),
        });
    }
    Ok(on.join_nodes(id, other)?)
}

pub(super) fn split_block_node(on: &mut Draft, id: &NodeId, index: usize) -> Edited {
    split_children(on, id, index)?;
    Ok(())
}

pub(super) fn merge_block_nodes(on: &mut Draft, id: &NodeId, other: &NodeId) -> Edited {
    Ok(on.join_nodes(id, other)?)
}

pub(super) fn auto_merge_text_nodes(on: &mut Draft, id: &NodeId) -> Edited {
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

pub(super) fn insert_paragraph(
    on: &mut Draft,
    id: &NodeId,
    offset: usize,
    kind: Option<SmolStr>,
) -> Edited {
    let (at, _) = position_and_parent_position(on, id)?;
    split_at_caret(on, id, offset)?;
    let block = SplitPoint {
        text: find(on, &at.parent)?.text().len(),
        children: at.index + 1,
    };
    on.split_node(&at.parent, block, kind)?;
    Ok(())
}

pub(super) fn split_list_item(on: &mut Draft, id: &NodeId, offset: usize, item: &str) -> Edited {
    let inner = find(on, id)?;
    let around = on.ancestors(id).map(|node| (node.id(), node.kind()));
    let mut path = Vec::new();
    let found = std::iter::once((inner.id(), inner.kind()))
        .chain(around)
        .any(|(id, kind)| {
            path.push(id.clone());
            kind == item
        });
    on.spend(Limit::Steps, |_| cost::LOOKED_UP * path.len())?;
    if !found {
        return Err(OperationError::NoItem {
            id: id.clone(),
            item_type: item.into(),
        });
    }
    split_at_caret(on, id, offset)?;
    for pair in path.windows(2) {
        if let [child, parent] = pair {
            let index = place_of(on, child)?.index + 1;
            split_children(on, parent, index)?;
        }
    }
    Ok(())
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

pub(super) fn wrap_in_list(
    on: &mut Draft,
    id: &NodeId,
    list: NodeSpec,
    item: NodeSpec,
    last: Option<&NodeId>,
) -> Edited {
    let wrapped = siblings_up_to(on, id, last)?;
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

/// A node and its siblings up to another, or only the node.
fn siblings_up_to(
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
