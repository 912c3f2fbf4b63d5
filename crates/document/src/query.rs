//! Longer queries of [`View`].

use std::cmp::Ordering;
use std::ops::Range;

use super::plan::find;
use super::walk::{self, Fork};
use super::{EditError, Node, NodeSpec, Position, Text, View};
use crate::id::NodeId;

/// The position of a node among its siblings.
pub(super) struct SiblingPosition<'v> {
    parent: &'v Node,
    pub(super) index: usize,
}

impl<'v> SiblingPosition<'v> {
    pub(super) fn of<V: View>(view: &'v V, node: &Node) -> Option<Self> {
        let parent = view.node(node.parent()?)?;
        let index = parent.children().index_of(view, node)?;
        Some(Self { parent, index })
    }

    pub(super) fn next<V: View>(&self, view: &'v V) -> Option<&'v Node> {
        view.node(self.parent.children().get(self.index + 1)?)
    }

    pub(super) fn previous<V: View>(&self, view: &'v V) -> Option<&'v Node> {
        view.node(self.parent.children().get(self.index.checked_sub(1)?)?)
    }
}

pub(super) fn next<'v, V: View>(view: &'v V, node: &'v Node) -> Option<&'v Node> {
    if let Some(child) = node.children().get(0) {
        return view.node(child);
    }
    let mut at = node;
    loop {
        let position = SiblingPosition::of(view, at)?;
        if let Some(next) = position.next(view) {
            return Some(next);
        }
        at = position.parent;
    }
}

/// Where the paths to two positions diverge.
fn fork<'v, V: View>(view: &'v V, one: &Position, other: &Position) -> Result<Fork<'v>, EditError> {
    let (one, other) = (one.check(view)?, other.check(view)?);
    walk::fork(view, one, other).ok_or_else(|| EditError::DifferentTrees {
        one: one.id().clone(),
        other: other.id().clone(),
    })
}

pub(super) fn compare_positions<V: View>(
    view: &V,
    one: &Position,
    other: &Position,
) -> Result<Ordering, EditError> {
    let fork = fork(view, one, other)?;
    Ok(fork.order(view).then(one.offset.cmp(&other.offset)))
}

pub(super) fn text_of<V: View>(view: &V, id: &NodeId) -> Result<String, EditError> {
    find(view, id)?;
    let nodes = view.descendants(id);
    let mut text = String::new();
    nodes.for_each(|node| text.extend(node.text().chunks()));
    Ok(text)
}

pub(super) fn text_between<V: View>(
    view: &V,
    one: &Position,
    other: &Position,
) -> Result<String, EditError> {
    let fork = fork(view, one, other)?;
    let (from, to) = match fork.order(view).then(one.offset.cmp(&other.offset)) {
        Ordering::Greater => (other, one),
        _ => (one, other),
    };
    let mut text = String::new();
    for node in walk::between(view, &from.node_id, &to.node_id) {
        let start = if *node.id() == from.node_id {
            from.offset
        } else {
            0
        };
        if *node.id() == to.node_id {
            push(&mut text, node, start..to.offset);
        } else {
            push(&mut text, node, start..node.text().len());
        }
    }
    Ok(text)
}

fn push(text: &mut String, node: &Node, range: Range<usize>) {
    if range == (0..node.text().len()) {
        text.extend(node.text().chunks());
    } else if let Some(piece) = node.text().slice(range) {
        text.push_str(&piece);
    }
}

/// Whether a text contains another. The chunks of a long text are concatenated first, because a
/// match may cross their borders.
pub(super) fn contains(text: &Text, needle: &str) -> bool {
    let mut chunks = text.chunks();
    match (chunks.next(), chunks.next()) {
        (Some(whole), None) => whole.contains(needle),
        _ => text.to_string().contains(needle),
    }
}

pub(super) fn to_spec<V: View>(view: &V, id: &NodeId) -> Result<NodeSpec, EditError> {
    let mut ahead = vec![find(view, id)?];
    let mut nodes = Vec::new();
    // From right to left, each node before its descendants; reversed, each comes after them.
    while let Some(node) = ahead.pop() {
        let children = node.children().iter();
        ahead.extend(children.filter_map(|child| view.node(child)));
        nodes.push(node);
    }
    Ok(NodeSpec::of_nodes(nodes.into_iter().rev()))
}
