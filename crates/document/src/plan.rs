//! Builds primitive changes from edits: reads from the document what the change replaces.
//!
//! Nothing is written here. `None` means that the edit changes nothing.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;

use super::mark::{Mark, Marks, TextSplice};
use super::{
    AttributePatch, AttributeValue, Change, ChildPosition, EditError, Node, RightHalf, SplitPoint,
    View, value,
};
use crate::id::{NodeId, NodeIds};
use crate::steps::{step, steps_of};

/// A planned change.
pub type Planned = Result<Option<Change>, EditError>;

/// A new position for a node: this parent, with an index or the end.
pub type Target<'a> = Option<(&'a NodeId, Option<usize>)>;

pub fn find<'v, V: View>(view: &'v V, id: &NodeId) -> Result<&'v Node, EditError> {
    view.node(id).ok_or_else(|| view.missing(id))
}

pub fn insert_subtree<V: View>(view: &V, nodes: Vec<Arc<Node>>, to: Target<'_>) -> Planned {
    let at = to
        .map(|(parent, index)| resolve(view, parent, index, None))
        .transpose()?;
    Ok(Some(Change::InsertSubtree { at, nodes }))
}

pub fn remove_subtree<V: View>(view: &V, id: &NodeId) -> Planned {
    let node = find(view, id)?;
    // Checked early, because the list of the root's subtree may be long.
    if view.root() == Some(id) {
        return Err(EditError::RootDeleted { id: id.clone() });
    }
    let at = place(view, node);
    let nodes = view.descendants(id).map(|node| Arc::new(node.clone()));
    Ok(Some(Change::RemoveSubtree {
        at,
        nodes: nodes.collect(),
    }))
}

pub fn move_node<V: View>(view: &V, id: &NodeId, to: Target<'_>) -> Planned {
    let node = find(view, id)?;
    let from = place(view, node);
    let to = to
        .map(|(parent, index)| resolve(view, parent, index, Some(node)))
        .transpose()?;
    Ok((from != to).then(|| Change::MoveNode {
        id: id.clone(),
        from,
        to,
    }))
}

pub fn splice_text(node: &Node, range: Option<Range<usize>>, inserted: SmolStr) -> Planned {
    let range = range.unwrap_or_else(|| 0..node.text.len());
    let removed = node
        .text
        .slice(range.clone())
        .ok_or_else(|| out_of_range(node, &range))?;
    if removed == inserted {
        return Ok(None);
    }
    let splice = TextSplice {
        range,
        inserted: inserted.chars().count(),
    };
    Ok(Some(Change::SpliceText {
        id: node.id.clone(),
        at: splice.range.start,
        removed,
        inserted,
        // An insertion changes none of them.
        marks: match splice.range.is_empty() {
            true => None,
            false => node.marks.change_by(&splice),
        },
    }))
}

pub fn out_of_range(node: &Node, range: &Range<usize>) -> EditError {
    EditError::TextOutOfRange {
        id: node.id.clone(),
        start: range.start,
        end: range.end,
        len: node.text.len(),
    }
}

pub fn set_marks<V: View>(view: &V, id: &NodeId, marks: Vec<Mark>) -> Planned {
    let node = find(view, id)?;
    let after = marks_for(id, marks, node.text.len())?;
    Ok((node.marks != after).then(|| Change::SetMarks {
        id: id.clone(),
        marks: node.marks.change_to(&after),
    }))
}

/// Gives characters these marks in place of those that they have.
pub(super) fn replace_marks<V: View>(
    view: &V,
    id: &NodeId,
    within: &Range<usize>,
    marks: impl Iterator<Item = Mark>,
) -> Planned {
    let node = find(view, id)?;
    // No other mark can become one with them.
    let near = node.marks.touching(within);
    let mut after = near.change_within(within, |_| None);
    after.extend(marks);
    let after = marks_for(id, after, node.text.len())?;
    Ok((near != after).then(|| Change::SetMarks {
        id: id.clone(),
        marks: near.change_to(&after),
    }))
}

/// Marks in normal form for the text of a node.
pub fn marks_for(id: &NodeId, marks: Vec<Mark>, len: usize) -> Result<Marks, EditError> {
    // Checked before they are compared, which recurses over their values.
    value::check_marks(id, &marks)?;
    Marks::normal(marks, len).map_err(|mark| {
        let range = mark.range.unwrap_or(0..0);
        EditError::MarkOutOfRange {
            id: id.clone(),
            kind: mark.kind,
            start: range.start,
            end: range.end,
            len,
        }
    })
}

pub fn patch_attrs<V: View>(
    view: &V,
    id: &NodeId,
    values: impl IntoIterator<Item = (SmolStr, Option<Value>)>,
) -> Planned {
    let node = find(view, id)?;
    let mut values: Vec<_> = values.into_iter().collect();
    // Stable: for one key, the last value stays last.
    values.sort_by(|(one, _), (other, _)| {
        step();
        one.cmp(other)
    });
    let mut patches: Vec<AttributePatch> = Vec::with_capacity(values.len());
    for (key, value) in values {
        let after = value.filter(|value| !value.is_null());
        let after = after.map(AttributeValue::from);
        match patches.last_mut() {
            Some(patch) if patch.key == key => patch.after = after,
            _ => patches.push(AttributePatch {
                before: node.attributes.shared(&key).cloned(),
                key,
                after,
            }),
        }
    }
    patches.retain(|patch| {
        steps_of(|| {
            let both = patch.before.iter().chain(&patch.after);
            both.map(|value| value::steps(&patch.key, value)).sum()
        });
        patch.before != patch.after
    });
    Ok((!patches.is_empty()).then(|| Change::PatchAttrs {
        id: id.clone(),
        patches,
    }))
}

pub fn set_type<V: View>(view: &V, id: &NodeId, kind: SmolStr) -> Planned {
    let before = find(view, id)?.kind.clone();
    Ok((before != kind).then(|| Change::SetType {
        id: id.clone(),
        before,
        after: kind,
    }))
}

/// Without its own type and attributes, the right half gets those of the left.
pub fn split_node<V: View>(
    view: &V,
    id: &NodeId,
    at: SplitPoint,
    right: NodeId,
    kind: Option<SmolStr>,
) -> Planned {
    let node = find(view, id)?;
    let Some(ChildPosition { parent, index }) = place(view, node) else {
        return Err(EditError::NoParent { id: id.clone() });
    };
    Ok(Some(Change::SplitNode {
        id: id.clone(),
        at,
        place: ChildPosition {
            parent,
            index: index + 1,
        },
        right: Box::new(RightHalf {
            id: right,
            kind: kind.unwrap_or_else(|| node.kind.clone()),
            attributes: node.attributes.clone(),
        }),
    }))
}

pub fn join_nodes<V: View>(view: &V, id: &NodeId, right: &NodeId) -> Planned {
    let node = find(view, id)?;
    let right = find(view, right)?;
    let place = place(view, right).filter(|at| follows(view, at, id));
    let place = place.ok_or_else(|| EditError::NotAdjacent {
        left: id.clone(),
        right: right.id.clone(),
    })?;
    Ok(Some(Change::JoinNodes {
        id: id.clone(),
        place,
        at: node.end(),
        right: Box::new(RightHalf::of(right)),
    }))
}

pub fn set_root<V: View>(view: &V, id: Option<&NodeId>) -> Planned {
    let before = view.root().cloned();
    let after = id.cloned();
    Ok((before != after).then_some(Change::SetRoot { before, after }))
}

/// Reserves an id, so it is never generated.
pub(super) fn reserve(id: &NodeId, ids: &NodeIds) -> Result<(), EditError> {
    match ids.reserve(id) {
        true => Ok(()),
        false => Err(EditError::IdOutOfRange {
            id: id.clone(),
            largest: NodeIds::LARGEST_GIVEN,
        }),
    }
}

/// Whether a node is right before a position.
pub(super) fn follows<V: View>(view: &V, at: &ChildPosition, node: &NodeId) -> bool {
    let before = at.index.checked_sub(1);
    let siblings = view.node(&at.parent).map(Node::children);
    siblings
        .zip(before)
        .and_then(|(siblings, before)| siblings.get(before))
        == Some(node)
}

/// Where a node is attached.
pub fn place<V: View>(view: &V, node: &Node) -> Option<ChildPosition> {
    let parent = view.node(node.parent()?)?;
    Some(ChildPosition {
        parent: parent.id.clone(),
        index: parent.children.index_of(view, node)?,
    })
}

/// The exact position for a node; a node that moves does not count among its siblings.
fn resolve<V: View>(
    view: &V,
    parent: &NodeId,
    index: Option<usize>,
    moving: Option<&Node>,
) -> Result<ChildPosition, EditError> {
    let node = find(view, parent)?;
    let within = moving.is_some_and(|moving| moving.parent.as_ref() == Some(parent));
    let len = node.children.len() - usize::from(within);
    let index = index.unwrap_or(len);
    let parent = parent.clone();
    if index > len {
        return Err(EditError::IndexOutOfRange { parent, index, len });
    }
    Ok(ChildPosition { parent, index })
}
