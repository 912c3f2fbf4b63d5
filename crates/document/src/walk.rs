//! Walks in document order: a node comes before its descendants, and these before its next sibling.

use std::cmp::Ordering;

use super::limits::cost;
use super::{Node, View};
use crate::id::NodeId;

/// The point at which the paths from the top of a tree to two of its nodes diverge.
#[derive(Debug)]
pub struct Fork<'v> {
    /// How many nodes are on both paths.
    shared: usize,
    /// The last node on both paths, which may be one of the two nodes.
    pub(crate) common: &'v Node,
    /// The path from there to one node.
    pub(crate) to_one: Vec<&'v Node>,
    /// The path from there to the other.
    pub(crate) to_other: Vec<&'v Node>,
}

impl Fork<'_> {
    /// The order of the two nodes.
    pub fn order(&self) -> Ordering {
        match (self.to_one.first(), self.to_other.first()) {
            (Some(one), Some(other)) => {
                let siblings = &self.common.children;
                siblings
                    .position(&one.id)
                    .cmp(&siblings.position(&other.id))
            }
            (one, other) => one.is_some().cmp(&other.is_some()),
        }
    }

    /// The steps of an operation to find it, to order the two nodes and to walk from one to the
    /// other, without the nodes between them.
    pub fn steps(&self) -> usize {
        let looked_up = 2 * self.shared + self.to_one.len() + self.to_other.len();
        // A walk searches each node that it climbs to among its siblings.
        let climbed = self.to_one.iter().rev().skip(1);
        let siblings = climbed.map(|node| node.children.len()).sum::<usize>();
        let searched = 2 * self.common.children.len() + siblings;
        2 * (cost::LOOKED_UP * looked_up + searched / cost::SIBLINGS)
    }
}

/// The fork of the paths to two nodes; `None` if they are in different trees.
pub fn fork<'v, V: View>(view: &'v V, one: &Node, other: &Node) -> Option<Fork<'v>> {
    if one.id == other.id {
        return Some(Fork {
            shared: 1,
            common: view.node(&one.id)?,
            to_one: Vec::new(),
            to_other: Vec::new(),
        });
    }
    let mut to_one = way(view, &one.id);
    let mut to_other = way(view, &other.id);
    let pairs = to_one.iter().zip(&to_other);
    let shared = pairs.take_while(|(one, other)| one.id == other.id).count();
    let to_one = to_one.split_off(shared);
    Some(Fork {
        shared,
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

/// The number of nodes of a subtree. If it is larger than `most`, some number that is, too.
pub fn count<V: View>(view: &V, top: &NodeId, most: usize) -> usize {
    let mut ahead: Vec<&Node> = view.node(top).into_iter().collect();
    let mut count = ahead.len();
    while let Some(node) = ahead.pop() {
        count += node.children.len();
        if count > most {
            break;
        }
        ahead.extend(node.children.iter().filter_map(|child| view.node(child)));
    }
    count
}

/// A node and all later ones of its tree, in document order. Visits only the nodes that it passes,
/// and the siblings before those that it starts from or climbs to.
#[derive(Debug)]
pub struct Walk<'v, V> {
    view: &'v V,
    start: Option<&'v Node>,
    /// The passed nodes on the current path, each with the index of its next child.
    open: Vec<(&'v Node, usize)>,
}

impl<'v, V: View> Walk<'v, V> {
    pub fn from(view: &'v V, start: &NodeId) -> Self {
        Self {
            view,
            start: view.node(start),
            open: Vec::new(),
        }
    }

    /// Skips the descendants of the last node.
    pub fn skip_below(&mut self) {
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

/// The nodes from one to a later or equal one, both included, in document order.
pub fn between<'v, V: View>(
    view: &'v V,
    start: &NodeId,
    end: &NodeId,
) -> impl Iterator<Item = &'v Node> {
    let mut walk = Walk::from(view, start);
    let mut ended = false;
    // Ends without a search for the next node, which would search the siblings of the last one.
    std::iter::from_fn(move || {
        let node = (!ended).then(|| walk.next()).flatten()?;
        ended = node.id == *end;
        Some(node)
    })
}
