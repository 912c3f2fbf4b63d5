//! From one node to another in document order: a node comes before those below it, and these before
//! its next sibling.

use std::cmp::Ordering;

use super::{Node, View};
use crate::id::NodeId;

/// Where the ways from the top of a tree down to two of its nodes part.
#[derive(Debug)]
pub(crate) struct Fork<'v> {
    /// The last node on both ways, which may be one of the two nodes itself.
    pub(crate) common: &'v Node,
    /// From below it down to one node.
    pub(crate) to_one: Vec<&'v Node>,
    /// From below it down to the other.
    pub(crate) to_other: Vec<&'v Node>,
}

impl Fork<'_> {
    /// Which of the two nodes comes first.
    pub(crate) fn order(&self) -> Ordering {
        match (self.to_one.first(), self.to_other.first()) {
            (Some(one), Some(other)) => {
                let mut children = self.common.children.iter();
                match children.find(|id| [&one.id, &other.id].contains(id)) {
                    Some(first) if *first == one.id => Ordering::Less,
                    _ => Ordering::Greater,
                }
            }
            (one, other) => one.is_some().cmp(&other.is_some()),
        }
    }
}

/// Where the ways to two nodes part; `None` where they are in different trees.
pub(crate) fn fork<'v, V: View>(view: &'v V, one: &Node, other: &Node) -> Option<Fork<'v>> {
    let mut to_one = way(view, &one.id);
    let mut to_other = way(view, &other.id);
    let pairs = to_one.iter().zip(&to_other);
    let shared = pairs.take_while(|(one, other)| one.id == other.id).count();
    let to_one = to_one.split_off(shared);
    Some(Fork {
        common: to_other.get(shared.checked_sub(1)?)?,
        to_one,
        to_other: to_other.split_off(shared),
    })
}

/// The nodes from the top of the tree down to this one.
fn way<'v, V: View>(view: &'v V, id: &NodeId) -> Vec<&'v Node> {
    let mut way: Vec<&Node> = view
        .node(id)
        .into_iter()
        .chain(view.ancestors(id))
        .collect();
    way.reverse();
    way
}

/// A node and all that come after it in its tree, in document order. Looks only at the nodes that
/// it passes, and at the siblings before those that it starts from or climbs to.
#[derive(Debug)]
pub(crate) struct Walk<'v, V> {
    view: &'v V,
    start: Option<&'v Node>,
    /// Nodes that were passed, each with the index of its child that comes next, and each below the
    /// one before.
    open: Vec<(&'v Node, usize)>,
}

impl<'v, V: View> Walk<'v, V> {
    pub(crate) fn from(view: &'v V, start: &NodeId) -> Self {
        Self {
            view,
            start: view.node(start),
            open: Vec::new(),
        }
    }

    /// Passes over what is below the last node.
    pub(crate) fn skip_below(&mut self) {
        if let Some((_, next)) = self.open.last_mut() {
            *next = usize::MAX;
        }
    }

    fn step(&mut self) -> Option<&'v Node> {
        loop {
            let (node, next) = self.open.last_mut()?;
            let child = node.children.get(*next);
            if let Some(child) = child.and_then(|id| self.view.node(id)) {
                *next += 1;
                return Some(child);
            }
            let done = *node;
            self.open.pop();
            if self.open.is_empty() {
                let parent = self.view.node(done.parent()?)?;
                let at = parent.children.position(&done.id)?;
                self.open.push((parent, at + 1));
            }
        }
    }
}

impl<'v, V: View> Iterator for Walk<'v, V> {
    type Item = &'v Node;

    fn next(&mut self) -> Option<&'v Node> {
        let node = match self.start.take() {
            Some(start) => start,
            None => self.step()?,
        };
        self.open.push((node, 0));
        Some(node)
    }
}

/// The nodes from one up to another that is not before it, both included, in document order.
pub(crate) fn between<'v, V: View>(
    view: &'v V,
    start: &NodeId,
    end: &NodeId,
) -> impl Iterator<Item = &'v Node> {
    let mut walk = Walk::from(view, start);
    let mut ended = false;
    // It ends without looking for what comes next, which would mean to look for the end among its
    // siblings.
    std::iter::from_fn(move || {
        let node = (!ended).then(|| walk.next()).flatten()?;
        ended = node.id == *end;
        Some(node)
    })
}
