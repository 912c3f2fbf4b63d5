//! Walks in document order: a node comes before its descendants, and these before its next sibling.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::limits::cost;
use super::{Node, View};
use crate::hashing::Secret;
use crate::id::NodeId;

/// The point at which the paths from the top of a tree to two of its nodes diverge.
#[derive(Debug)]
pub struct Fork<'v> {
    /// The last node on both paths, which may be one of the two nodes.
    pub(crate) common: &'v Node,
    /// The path from there to one node.
    pub(crate) to_one: Vec<&'v Node>,
    /// The path from there to the other.
    pub(crate) to_other: Vec<&'v Node>,
}

impl<'v> Fork<'v> {
    /// The paths lead from the two nodes to the common one.
    fn at(common: &'v Node, [mut to_one, mut to_other]: [Vec<&'v Node>; 2]) -> Self {
        to_one.reverse();
        to_other.reverse();
        Self {
            common,
            to_one,
            to_other,
        }
    }

    /// The order of the two nodes.
    pub fn order<V: View>(&self, view: &V) -> Ordering {
        match (self.to_one.first(), self.to_other.first()) {
            (Some(one), Some(other)) => {
                let siblings = &self.common.children;
                let [one, other] = [one, other].map(|node| siblings.index_of(view, node));
                one.cmp(&other)
            }
            (one, other) => one.is_some().cmp(&other.is_some()),
        }
    }

    /// The steps of an operation to find it, to order the two nodes and to walk from one to the
    /// other, without the nodes between them.
    pub fn steps(&self) -> usize {
        let looked_up = 2 + 2 * self.to_one.len().max(self.to_other.len());
        // A walk searches each node that it climbs to among its siblings.
        let climbed = self.to_one.iter().rev().skip(1);
        let siblings = climbed.map(|node| node.children.len()).sum::<usize>();
        let searched = 2 * self.common.children.len() + siblings;
        2 * (cost::LOOKED_UP * looked_up + searched / cost::SIBLINGS)
    }
}

/// The fork of the paths to two nodes; `None` if they are in different trees. Climbs from both in
/// turn, not further than the longer way to where they meet.
pub fn fork<'v, V: View>(view: &'v V, one: &Node, other: &Node) -> Option<Fork<'v>> {
    let mut ways = [Way::from(view, one)?, Way::from(view, other)?];
    if one.id == other.id {
        let [Way { path, .. }, _] = ways;
        return Some(Fork::at(path[0], [Vec::new(), Vec::new()]));
    }
    loop {
        for turn in [0, 1] {
            let &last = ways[turn].path.last()?;
            if let Some(met) = ways[1 - turn].place(last) {
                let [mut to_one, mut to_other] = ways.map(|way| way.path);
                [&mut to_one, &mut to_other][turn].pop();
                [&mut to_one, &mut to_other][1 - turn].truncate(met);
                return Some(Fork::at(last, [to_one, to_other]));
            }
        }
        let [one, other] = ways.each_mut().map(|way| way.climb(view));
        if !one && !other {
            return None;
        }
    }
}

/// The nodes from one up to an ancestor.
struct Way<'v> {
    path: Vec<&'v Node>,
    /// Their places in the path, if there are many.
    places: HashMap<&'v NodeId, usize, Secret>,
}

impl<'v> Way<'v> {
    /// Up to this many nodes, a search is faster than a table.
    const FEW: usize = 8;

    fn from<V: View>(view: &'v V, node: &Node) -> Option<Self> {
        Some(Self {
            path: vec![view.node(&node.id)?],
            places: HashMap::default(),
        })
    }

    /// Adds the parent of the last node. Returns whether it has one.
    fn climb<V: View>(&mut self, view: &'v V) -> bool {
        let last = self.path.last();
        let parent = last.and_then(|last| view.node(last.parent()?));
        if self.path.len() > Self::FEW {
            let noted = self.places.len();
            let unnoted = self.path[noted..].iter().zip(noted..);
            self.places.extend(unnoted.map(|(node, at)| (&node.id, at)));
        }
        self.path.extend(parent);
        parent.is_some()
    }

    /// The place of a node in the path.
    fn place(&self, node: &Node) -> Option<usize> {
        let noted = self.places.len();
        let mut unnoted = self.path[noted..].iter();
        let unnoted = unnoted.position(|one| one.id == node.id);
        let place = || self.places.get(&node.id).copied();
        unnoted.map(|at| noted + at).or_else(place)
    }
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
                let at = parent.children.index_of(self.view, done)?;
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
