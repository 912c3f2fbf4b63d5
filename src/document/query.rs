//! Answers to the questions of [`View`] that take more than a line.

use std::cmp::Ordering;
use std::ops::Range;

use super::plan::find;
use super::{Descendants, EditError, Node, NodeSpec, Position, Text, View};
use crate::id::NodeId;

/// A node's place among the children of its parent.
pub(super) struct Siblings<'v> {
    parent: &'v Node,
    pub(super) index: usize,
}

impl<'v> Siblings<'v> {
    pub(super) fn of<V: View>(view: &'v V, node: &Node) -> Option<Self> {
        let parent = view.node(node.parent()?)?;
        let index = parent.children().position(node.id())?;
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
        let siblings = Siblings::of(view, at)?;
        if let Some(next) = siblings.next(view) {
            return Some(next);
        }
        at = siblings.parent;
    }
}

/// Where the ways from the top of a tree down to two nodes part.
pub(super) struct Fork<'v> {
    /// The last node that both ways lead through.
    pub(super) at: &'v Node,
    /// The next on the way to the one node, if the way goes on.
    one: Option<&'v Node>,
    /// The next on the way to the other.
    other: Option<&'v Node>,
}

impl<'v> Fork<'v> {
    /// `None` where the nodes are in different trees.
    pub(super) fn of<V: View>(view: &'v V, one: &'v Node, other: &'v Node) -> Option<Self> {
        let (one, other) = (way_up(view, one), way_up(view, other));
        let both = one.iter().rev().zip(other.iter().rev());
        let shared = both.take_while(|(one, other)| one.id() == other.id());
        let shared = shared.count();
        let next = |way: &[&'v Node]| way.iter().rev().nth(shared).copied();
        Some(Self {
            at: one.iter().rev().nth(shared.checked_sub(1)?)?,
            one: next(&one),
            other: next(&other),
        })
    }

    /// Which of the two nodes comes first.
    fn order(&self) -> Ordering {
        match (self.one, self.other) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(one), Some(other)) => {
                let mut children = self.at.children().iter();
                match children.find(|child| [one.id(), other.id()].contains(child)) {
                    Some(first) if first == one.id() => Ordering::Less,
                    _ => Ordering::Greater,
                }
            }
        }
    }
}

/// The node, its parent and so on.
fn way_up<'v, V: View>(view: &'v V, node: &'v Node) -> Vec<&'v Node> {
    let ancestors = view.ancestors(node.id());
    std::iter::once(node).chain(ancestors).collect()
}

/// Where two positions part.
fn fork<'v, V: View>(view: &'v V, one: &Position, other: &Position) -> Result<Fork<'v>, EditError> {
    let (one, other) = (one.check(view)?, other.check(view)?);
    Fork::of(view, one, other).ok_or_else(|| EditError::DifferentTrees {
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
    Ok(fork.order().then(one.offset.cmp(&other.offset)))
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
    let (from, to) = match fork.order().then(one.offset.cmp(&other.offset)) {
        Ordering::Greater => (other, one),
        _ => (one, other),
    };
    let mut text = String::new();
    for node in onwards(view, find(view, &from.node_id)?, fork.at) {
        let start = if *node.id() == from.node_id {
            from.offset
        } else {
            0
        };
        if *node.id() == to.node_id {
            push(&mut text, node, start..to.offset);
            break;
        }
        push(&mut text, node, start..node.text().len());
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

/// A node and all that come after it below `top`, in document order.
fn onwards<'v, V: View>(view: &'v V, node: &'v Node, top: &Node) -> Descendants<'v, V> {
    let mut way = way_up(view, node);
    let below_top = way.iter().take_while(|above| above.id() != top.id());
    way.truncate(below_top.count());
    let mut ahead = Vec::new();
    // What comes last lies deepest in the stack, so the outermost siblings are put there first.
    for passed in way.iter().rev() {
        let siblings = passed.parent().and_then(|parent| view.node(parent));
        let from_the_end = siblings
            .into_iter()
            .flat_map(|parent| parent.children().iter().rev());
        let behind = from_the_end.take_while(|id| *id != passed.id());
        ahead.extend(behind.filter_map(|id| view.node(id)));
    }
    ahead.push(node);
    Descendants::new(view, ahead)
}

/// Whether a text contains another. The pieces of a long text are put together first, because what is looked for
/// may lie across their borders.
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
    // From right to left, each node before those below it; so backwards, each comes after those below it.
    while let Some(node) = ahead.pop() {
        let children = node.children().iter();
        ahead.extend(children.filter_map(|child| view.node(child)));
        nodes.push(node);
    }
    Ok(NodeSpec::of_nodes(nodes.into_iter().rev()))
}
