//! Replaces the content between two positions by that of a slice.

use doclock::{NodeId, document::NodeSpec};

use super::{MIXED, StepApplier, StepResult};
use crate::prosemirror::names::ProseMirrorContent::{Blocks, Code, Text};
use crate::prosemirror::positions::{At, ResolvedPosition};
use crate::prosemirror::read::{ContentPart, ParsedBlock};
use crate::prosemirror::step::Slice;

impl StepApplier<'_> {
    pub(super) fn replace_between(
        &mut self,
        left: ResolvedPosition,
        right: ResolvedPosition,
        slice: &Slice,
    ) -> StepResult {
        let Some(depth) = left.depth().checked_sub(slice.open_start) else {
            return Err(self.misfit("the slice is open deeper than the position"));
        };
        if depth + slice.open_end != right.depth() {
            return Err(self.misfit("the two sides of the slice are open to different depths"));
        }
        let shared = left.shared_depth(&right);
        for position in [&left, &right] {
            if let At::Text(_) = position.at {
                self.join_texts(position.node())?;
            }
        }
        self.delete_between(&left, &right, shared)?;
        let ResolvedPosition {
            nodes: left_nodes, ..
        } = &left;
        let mut right_nodes = right.nodes.clone();
        let mut gap = match left.depth() == shared {
            true => left.at,
            false => At::Child(left.index(shared) + 1),
        };
        for level in (depth + 1..=shared).rev() {
            right_nodes[level] = self.split(&left_nodes[level], gap)?;
            gap = At::Child(left.index(level - 1) + 1);
        }
        for level in shared + 1..=depth {
            gap = self.join(&left_nodes[level], &right_nodes[level])?;
        }
        let (left, right) = (&left_nodes[depth + 1..], &right_nodes[depth + 1..]);
        self.fill(&left_nodes[depth], gap, &slice.content, left, right)?;
        let top = depth.min(shared);
        let around = left_nodes.iter().skip(top);
        let around = around.chain(right_nodes.iter().skip(top + 1));
        self.check_children(&around.cloned().collect::<Vec<_>>())
    }

    /// Deletes the content between two positions, and keeps the nodes around either.
    fn delete_between(
        &mut self,
        left: &ResolvedPosition,
        right: &ResolvedPosition,
        shared: usize,
    ) -> StepResult {
        for level in (shared + 1..=left.depth()).rev() {
            match (level == left.depth(), left.at) {
                (true, At::Text(start)) => self.delete_text(&left.nodes[level], start, None)?,
                (true, At::Child(start)) => {
                    self.delete_children(&left.nodes[level], start, None)?
                }
                (false, _) => {
                    self.delete_children(&left.nodes[level], left.index(level) + 1, None)?;
                }
            }
        }
        for level in (shared + 1..=right.depth()).rev() {
            match (level == right.depth(), right.at) {
                (true, At::Text(end)) => self.delete_text(&right.nodes[level], 0, Some(end))?,
                _ => self.delete_children(&right.nodes[level], 0, Some(right.index(level)))?,
            }
        }
        let node = &left.nodes[shared];
        match (left.depth() == shared, left.at, right.at) {
            (true, At::Text(start), At::Text(end)) => self.delete_text(node, start, Some(end)),
            (is_innermost, ..) => {
                let start = left.index(shared) + usize::from(!is_innermost);
                self.delete_children(node, start, Some(right.index(shared)))
            }
        }
    }

    /// Inserts a slice into a node at `gap`. Its open nodes are merged into the nodes of both
    /// sides.
    fn fill(
        &mut self,
        node: &NodeId,
        gap: At,
        content: &[ContentPart],
        left: &[NodeId],
        right: &[NodeId],
    ) -> StepResult {
        let (mut content, mut gap) = (content, gap);
        if let ([ContentPart::Block(only)], [outer_left, left @ ..], [outer_right, right @ ..]) =
            (content, left, right)
        {
            self.check_join(outer_left, only.spec.kind(), only.content)?;
            self.check_join(outer_right, only.spec.kind(), only.content)?;
            let gap = self.join(outer_left, outer_right)?;
            return self.fill(outer_left, gap, &only.children, left, right);
        }
        if let ([outer, left @ ..], [ContentPart::Block(first), others @ ..]) = (left, content) {
            self.check_join(outer, first.spec.kind(), first.content)?;
            let end = self.end(outer)?;
            self.fill(outer, end, &first.children, left, &[])?;
            content = others;
        }
        if let ([outer, right @ ..], [others @ .., ContentPart::Block(last)]) = (right, content) {
            self.check_join(outer, last.spec.kind(), last.content)?;
            self.retype(outer, last)?;
            let start = self.start(outer)?;
            self.fill(outer, start, &last.children, &[], right)?;
            content = others;
        }
        for part in content {
            gap = self.insert(node, gap, part)?;
        }
        Ok(())
    }

    /// Inserts a part into a node. Returns the position behind it.
    fn insert(&mut self, node: &NodeId, gap: At, part: &ContentPart) -> StepResult<At> {
        match (gap, part) {
            (gap, ContentPart::Kept(nodes, _)) if nodes.is_empty() => Ok(gap),
            (At::Text(offset), ContentPart::Text(run)) => self.insert_text(node, offset, run),
            (At::Text(offset), ContentPart::Kept(nodes, from @ (Text | Code))) => {
                let index = match self.text_of(node)?.map(|text| text.text().len()) {
                    Some(len) if offset == len => 1,
                    Some(_) if offset > 0 => {
                        return Err(self.misfit("the kept text is within text"));
                    }
                    _ => 0,
                };
                for kept in nodes {
                    let moved = self.on.move_node(kept, node, index);
                    moved.map_err(|cause| self.failed(cause))?;
                    self.fit_text(kept, *from, node)?;
                }
                self.join_texts(node)?;
                self.end(node)
            }
            (At::Child(index), ContentPart::Kept(nodes, Blocks))
                if self.content(node)? == Blocks =>
            {
                for (nth, kept) in nodes.iter().enumerate() {
                    let moved = self.on.move_node(kept, node, index + nth);
                    moved.map_err(|cause| self.failed(cause))?;
                }
                Ok(At::Child(index + nodes.len()))
            }
            (At::Child(index), ContentPart::Block(block)) if self.content(node)? == Blocks => {
                let whole = self.whole(block)?;
                let parts = if whole.is_some() {
                    &[]
                } else {
                    block.children.as_slice()
                };
                let spec = whole.unwrap_or_else(|| block.spec.clone().without_ids());
                let inserted = self.on.insert(spec, node, index);
                let inserted = inserted.map_err(|cause| self.failed(cause))?;
                if !parts.is_empty() {
                    let mut inner = self.start(&inserted)?;
                    for part in parts {
                        inner = self.insert(&inserted, inner, part)?;
                    }
                }
                Ok(At::Child(index + 1))
            }
            _ => Err(self.misfit(MIXED)),
        }
    }

    /// A new node with its subtree; `None` if nodes are kept in it.
    fn whole(&self, block: &ParsedBlock) -> StepResult<Option<NodeSpec>> {
        let names = &self.options.names;
        let mut children = Vec::with_capacity(block.children.len());
        for part in &block.children {
            children.push(match (block.content, part) {
                (_, ContentPart::Kept(..)) => return Ok(None),
                (Blocks, ContentPart::Block(inner)) => match self.whole(inner)? {
                    Some(inner) => inner,
                    None => return Ok(None),
                },
                (content @ (Text | Code), ContentPart::Text(run)) => {
                    self.text(run, content, |mark| names.allows_on(&block.spec, mark))?
                }
                _ => return Err(self.misfit(MIXED)),
            });
        }
        let spec = block.spec.clone().without_ids();
        Ok(Some(spec.with_children(children)))
    }
}
