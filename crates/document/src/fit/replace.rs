//! Replaces the content between two positions of a tree.

use std::rc::Rc;

use super::Fit;
use super::node::{FitNode, FitSlice};
use super::place::{FitPlace, slice};

/// Content that a replacement keeps, and where it is in the new content.
#[derive(Clone, Copy, Debug)]
pub(super) struct FitGap {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) insert: usize,
}

impl Fit<'_> {
    /// The tree with a slice between two positions; `None` if the slice does not close there, or
    /// if content would be invalid.
    pub(super) fn replace(
        self,
        root: &Rc<FitNode>,
        from: usize,
        to: usize,
        by: &FitSlice,
    ) -> Option<Rc<FitNode>> {
        let (from, to) = (FitPlace::new(root, from)?, FitPlace::new(root, to)?);
        let shared = from.depth().checked_sub(by.open_start)?;
        if to.depth().checked_sub(by.open_end)? != shared {
            return None;
        }
        self.replace_at(&from, &to, by, 0)
    }

    /// Like [`replace`](Self::replace), where the content of `gap` is kept in the slice.
    pub(super) fn replace_around(
        self,
        root: &Rc<FitNode>,
        from: usize,
        to: usize,
        by: &FitSlice,
        gap: FitGap,
    ) -> Option<Rc<FitNode>> {
        let kept = slice(root, gap.from, gap.to, false)?;
        if kept.open_start > 0 || kept.open_end > 0 {
            return None;
        }
        let by = by.insert(gap.insert, &kept.content)?;
        self.replace(root, from, to, &by)
    }

    fn replace_at(
        self,
        from: &FitPlace,
        to: &FitPlace,
        by: &FitSlice,
        depth: usize,
    ) -> Option<Rc<FitNode>> {
        let (node, index) = (from.node(depth), from.index(depth));
        if index == to.index(depth) && depth < from.depth() - by.open_start {
            let inner = self.replace_at(from, to, by, depth + 1)?;
            let content = node.content();
            let content = [&content[..index], &[inner], &content[index + 1..]].concat();
            return Some(node.with(content));
        }
        if by.content.is_empty() {
            let content = self.two_way(from, to, depth)?;
            return self.closed(node, content);
        }
        let flat = by.open_start == 0 && by.open_end == 0;
        if flat && from.depth() == depth && to.depth() == depth {
            let mut content = Vec::new();
            let before = node.cut(0, from.parent_offset());
            let after = node.cut(to.parent_offset(), node.content_size());
            let parts = before.iter().chain(&by.content).chain(&after);
            parts.for_each(|part| add(part.clone(), &mut content));
            return self.closed(node, content);
        }
        // The slice within the nodes around it, so that its ends have depths like the positions.
        let around = from.depth() - by.open_start;
        let mut along = from.node(around).with(by.content.clone());
        for level in (0..around).rev() {
            along = from.node(level).with(vec![along]);
        }
        let size = along.content_size();
        let start = FitPlace::new(&along, by.open_start + around)?;
        let end = FitPlace::new(&along, size - by.open_end - around)?;
        let content = self.three_way(from, &start, &end, to, depth)?;
        self.closed(node, content)
    }

    fn two_way(self, from: &FitPlace, to: &FitPlace, depth: usize) -> Option<Vec<Rc<FitNode>>> {
        let mut content = Vec::new();
        add_range(None, Some(from), depth, &mut content);
        if from.depth() > depth {
            let node = self.joined(from, to, depth + 1)?;
            let inner = self.two_way(from, to, depth + 1)?;
            add(self.closed(&node, inner)?, &mut content);
        }
        add_range(Some(to), None, depth, &mut content);
        Some(content)
    }

    fn three_way(
        self,
        from: &FitPlace,
        start: &FitPlace,
        end: &FitPlace,
        to: &FitPlace,
        depth: usize,
    ) -> Option<Vec<Rc<FitNode>>> {
        let opened = match from.depth() > depth {
            true => Some(self.joined(from, start, depth + 1)?),
            false => None,
        };
        let closing = match to.depth() > depth {
            true => Some(self.joined(end, to, depth + 1)?),
            false => None,
        };
        let mut content = Vec::new();
        add_range(None, Some(from), depth, &mut content);
        match (opened, closing) {
            (Some(opened), Some(closing)) if start.index(depth) == end.index(depth) => {
                self.check_join(&opened, &closing)?;
                let inner = self.three_way(from, start, end, to, depth + 1)?;
                add(self.closed(&opened, inner)?, &mut content);
            }
            (opened, closing) => {
                if let Some(opened) = opened {
                    let inner = self.two_way(from, start, depth + 1)?;
                    add(self.closed(&opened, inner)?, &mut content);
                }
                add_range(Some(start), Some(end), depth, &mut content);
                if let Some(closing) = closing {
                    let inner = self.two_way(end, to, depth + 1)?;
                    add(self.closed(&closing, inner)?, &mut content);
                }
            }
        }
        add_range(Some(to), None, depth, &mut content);
        Some(content)
    }

    /// The node on the left of a join, under the id of either.
    fn joined(self, left: &FitPlace, right: &FitPlace, depth: usize) -> Option<Rc<FitNode>> {
        if left.depth() < depth || right.depth() < depth {
            return None;
        }
        let (node, other) = (left.node(depth), right.node(depth));
        self.check_join(node, other)?;
        match (&node.id, &other.id) {
            (None, Some(id)) => {
                let id = Some(id.clone());
                let content = node.content().to_vec();
                Some(FitNode::block(
                    node.kind,
                    id,
                    node.attributes.clone(),
                    content,
                ))
            }
            _ => Some(node.clone()),
        }
    }

    fn check_join(self, left: &FitNode, right: &FitNode) -> Option<()> {
        self.are_compatible(right.kind, left.kind).then_some(())
    }

    /// A node with other content, if that is valid.
    fn closed(self, node: &FitNode, content: Vec<Rc<FitNode>>) -> Option<Rc<FitNode>> {
        self.is_valid(node.kind, &content)
            .then(|| node.with(content))
    }
}

/// Adds a node; a text becomes one with the text before it if both are neighbours in the document.
fn add(node: Rc<FitNode>, to: &mut Vec<Rc<FitNode>>) {
    to.push(node);
}

/// Adds the content of a node between two positions, without the nodes that the positions are in.
fn add_range(
    start: Option<&FitPlace>,
    end: Option<&FitPlace>,
    depth: usize,
    to: &mut Vec<Rc<FitNode>>,
) {
    let Some(node) = end.or(start).map(|place| place.node(depth).clone()) else {
        return;
    };
    let mut first = 0;
    let last = end.map_or(node.content().len(), |end| end.index(depth));
    if let Some(start) = start {
        first = start.index(depth);
        if start.depth() > depth {
            first += 1;
        } else if start.text_offset() > 0 {
            // In one text with the end, its part is added there.
            let within = end.filter(|end| {
                end.depth() == depth && end.index(depth) == first && end.text_offset() > 0
            });
            if let Some(end) = within {
                let text = std::slice::from_ref(&node.content()[first]);
                let part = super::node::cut(text, start.text_offset(), end.text_offset());
                to.extend(part);
                return;
            }
            to.extend(start.node_after());
            first += 1;
        }
    }
    for child in node.content().get(first..last).unwrap_or_default() {
        add(child.clone(), to);
    }
    if let Some(end) = end.filter(|end| end.depth() == depth && end.text_offset() > 0) {
        to.extend(end.node_before());
    }
}
