//! Positions in a tree, with the nodes around them.

use std::rc::Rc;

use super::node::{FitNode, FitSlice, cut};
use crate::steps::steps;

/// A position and the nodes around it, as `ResolvedPos` of ProseMirror.
#[derive(Clone, Debug)]
pub(super) struct FitPlace {
    pub(super) at: usize,
    /// Each node around it, the index of the child that it is in or before, and where the content
    /// of the node begins.
    path: Vec<(Rc<FitNode>, usize, usize)>,
    /// How far it is within a text.
    text_offset: usize,
}

impl FitPlace {
    /// Finds a position that is in the tree.
    pub(super) fn new(root: &Rc<FitNode>, at: usize) -> Option<Self> {
        if at > root.content_size() {
            return None;
        }
        let mut path = Vec::new();
        let (mut node, mut start) = (root.clone(), 0);
        loop {
            let mut here = start;
            let mut index = 0;
            let content = node.content();
            while let Some(child) = content.get(index).filter(|child| here + child.size <= at) {
                here += child.size;
                index += 1;
            }
            steps(index + 1);
            path.push((node.clone(), index, start));
            match content.get(index) {
                Some(child) if here < at && !child.is_atom() => {
                    let child = child.clone();
                    node = child;
                    start = here + 1;
                }
                _ => {
                    return Some(Self {
                        at,
                        path,
                        text_offset: at - here,
                    });
                }
            }
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.path.len() - 1
    }

    pub(super) fn node(&self, depth: usize) -> &Rc<FitNode> {
        &self.path[depth].0
    }

    pub(super) fn parent(&self) -> &Rc<FitNode> {
        self.node(self.depth())
    }

    pub(super) fn index(&self, depth: usize) -> usize {
        self.path[depth].1
    }

    pub(super) fn index_after(&self, depth: usize) -> usize {
        let is_between = depth == self.depth() && self.text_offset == 0;
        self.index(depth) + usize::from(!is_between)
    }

    pub(super) fn start(&self, depth: usize) -> usize {
        self.path[depth].2
    }

    pub(super) fn end(&self, depth: usize) -> usize {
        self.start(depth) + self.node(depth).content_size()
    }

    /// The position before a node around it; one level deeper, it is this one.
    pub(super) fn before(&self, depth: usize) -> usize {
        match depth > self.depth() {
            true => self.at,
            false => self.start(depth) - 1,
        }
    }

    /// The position after a node around it; one level deeper, it is this one.
    pub(super) fn after(&self, depth: usize) -> usize {
        match depth > self.depth() {
            true => self.at,
            false => self.end(depth) + 1,
        }
    }

    pub(super) fn parent_offset(&self) -> usize {
        self.at - self.start(self.depth())
    }

    pub(super) fn text_offset(&self) -> usize {
        self.text_offset
    }

    pub(super) fn node_before(&self) -> Option<Rc<FitNode>> {
        let index = self.index(self.depth());
        let content = self.parent().content();
        match self.text_offset {
            0 => content.get(index.checked_sub(1)?).cloned(),
            offset => cut(&content[index..=index], 0, offset).pop(),
        }
    }

    pub(super) fn node_after(&self) -> Option<Rc<FitNode>> {
        let child = self.parent().content().get(self.index(self.depth()))?;
        match self.text_offset {
            0 => Some(child.clone()),
            offset => cut(std::slice::from_ref(child), offset, child.size).pop(),
        }
    }

    /// The depth of the innermost node that is around another position, too.
    pub(super) fn shared_depth(&self, at: usize) -> usize {
        let mut depths = (1..=self.depth()).rev();
        let shared = depths.find(|&depth| self.start(depth) <= at && self.end(depth) >= at);
        shared.unwrap_or(0)
    }

    pub(super) fn is_in_same_parent(&self, other: &Self) -> bool {
        self.depth() == other.depth()
            && self.start(self.depth()) == other.start(other.depth())
            && self.at - self.parent_offset() == other.at - other.parent_offset()
    }
}

/// The content between two positions, with the nodes around it as far as both do not share them;
/// with all of them if `whole` is set.
pub(super) fn slice(root: &Rc<FitNode>, from: usize, to: usize, whole: bool) -> Option<FitSlice> {
    if from == to {
        return Some(FitSlice::default());
    }
    let (start, end) = (FitPlace::new(root, from)?, FitPlace::new(root, to)?);
    let depth = if whole { 0 } else { start.shared_depth(to) };
    let base = start.start(depth);
    let content = start.node(depth).cut(from - base, to - base);
    Some(FitSlice::new(
        content,
        start.depth() - depth,
        end.depth() - depth,
    ))
}
