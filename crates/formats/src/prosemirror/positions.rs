//! The flat positions of ProseMirror, as positions in the document.
//!
//! A position counts the beginnings and the ends of nodes, inline nodes, and the UTF-16 units of
//! text, from the beginning of the document's content. It is found by the sizes of the nodes around
//! it, which the document keeps from one step to the next. Without them, as in a transaction on
//! nodes, and where a node cannot be counted, all nodes before it are read, which finds the error.

use std::ops::Range;
use std::sync::Arc;

use doclock::{
    NodeId,
    document::{Measure, Node, Sizes, Text, View},
};

use super::StepError;
use super::names::{MarkNames, ProseMirrorContent, ProseMirrorNames};
use super::pieces::{InlinePiece, pieces};
use crate::OBJECT;
use crate::steps::step;

/// A position of ProseMirror, and where it is in the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResolvedPosition {
    pub(super) position: usize,
    /// The nodes around it, the document first.
    pub(super) nodes: Vec<NodeId>,
    /// The index of each of them but the first in its parent.
    pub(super) indices: Vec<usize>,
    pub(super) at: At,
}

/// A position in the innermost node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Before the child with this index.
    Child(usize),
    /// Before the character with this number in its text.
    Text(usize),
}

impl ResolvedPosition {
    pub(super) fn depth(&self) -> usize {
        self.nodes.len() - 1
    }

    pub(super) fn node(&self) -> &NodeId {
        &self.nodes[self.depth()]
    }

    /// The number of the innermost node that both have around them.
    pub(super) fn shared_depth(&self, other: &Self) -> usize {
        let pairs = self.nodes.iter().zip(&other.nodes);
        pairs.take_while(|(one, other)| one == other).count() - 1
    }

    /// The index of the child of the node at this depth that contains the position, or before which
    /// it is.
    pub(super) fn index(&self, depth: usize) -> usize {
        match (self.indices.get(depth), self.at) {
            (Some(&index), _) | (None, At::Child(index)) => index,
            (None, At::Text(_)) => 0,
        }
    }
}

/// A document whose positions are counted, without recursion.
pub(super) struct Positions<'v, V> {
    view: &'v V,
    names: &'v ProseMirrorNames,
    root: &'v Node,
    sizes: Option<Arc<Sizes>>,
}

impl Measure for ProseMirrorNames {
    fn around(&self, node: &Node) -> Option<usize> {
        let (_, content) = self.node_for(node)?;
        let counts = content == ProseMirrorContent::Blocks && node.text().is_empty();
        counts.then_some(2)
    }

    fn whole<V: View>(&self, view: &V, node: &Node) -> Option<usize> {
        use ProseMirrorContent::{Blocks, Code, Text};
        match self.node_for(node)?.1 {
            // It has text beside its children.
            Blocks => None,
            Text | Code => Some(2 + text_size(view, node, self).ok()?),
            _ => Some(1),
        }
    }
}

/// A node that is read, with its next child.
struct Frame<'v> {
    node: &'v Node,
    index: usize,
    children: Box<dyn Iterator<Item = &'v NodeId> + 'v>,
}

enum Event<'v> {
    /// The position before the next child of the innermost node, or at its end.
    Child,
    /// A node with text of this size, which begins at the position.
    Text(&'v Node, usize),
}

/// A text between two positions: its characters, and the node around it.
pub(super) type TextSlice<'v> = (&'v Node, Range<usize>, &'v Node);

impl<'v, V: View> Positions<'v, V> {
    pub(super) fn new(
        view: &'v V,
        names: &'v ProseMirrorNames,
        root: &NodeId,
        sizes: Option<Arc<Sizes>>,
    ) -> Result<Self, StepError> {
        let node = view.node(root).ok_or_else(|| StepError::Edit {
            position: 0,
            cause: view.missing(root),
        })?;
        Ok(Self {
            view,
            names,
            root: node,
            sizes,
        })
    }

    /// Resolves a position.
    pub(super) fn resolve(&self, position: usize) -> Result<ResolvedPosition, StepError> {
        match self.descend(position)? {
            Some(found) => Ok(found),
            None => self.count(position),
        }
    }

    /// Resolves a position by the sizes of nodes, if they are known. The position is in the
    /// document then.
    fn descend(&self, position: usize) -> Result<Option<ResolvedPosition>, StepError> {
        let Some(sizes) = &self.sizes else {
            return Ok(None);
        };
        let (mut node, mut start) = (self.root, 0);
        let (mut nodes, mut indices) = (vec![node.id().clone()], Vec::new());
        loop {
            step();
            let Some(child) = sizes.child_at(node.id(), position - start) else {
                return Ok(None);
            };
            let (index, before) = (child.index, start + child.before);
            let at_end = index == node.children().len();
            if at_end && before < position {
                let size = before;
                return Err(StepError::OutOfRange { position, size });
            }
            if before == position {
                let at = At::Child(index);
                return Ok(Some(ResolvedPosition {
                    position,
                    nodes,
                    indices,
                    at,
                }));
            }
            let inner = node.children().get(index);
            let Some(inner) = inner.and_then(|id| self.view.node(id)) else {
                return Ok(None);
            };
            nodes.push(inner.id().clone());
            indices.push(index);
            (node, start) = (inner, before + 1);
            if self.names.around(node).is_none() {
                if child.size.is_none() {
                    return Ok(None);
                }
                let at = At::Text(self.offset(node, position - start, position)?);
                return Ok(Some(ResolvedPosition {
                    position,
                    nodes,
                    indices,
                    at,
                }));
            }
        }
    }

    /// Resolves a position, counted from the beginning of the document.
    fn count(&self, position: usize) -> Result<ResolvedPosition, StepError> {
        let mut found = None;
        let size = self.visit(|here, frames, event| {
            let resolved = |at, inner: Option<&Node>| {
                let nodes = frames.iter().map(|frame| frame.node).chain(inner);
                let indices = frames.iter().map(|frame| frame.index);
                let depth = frames.len() + usize::from(inner.is_some()) - 1;
                ResolvedPosition {
                    position,
                    nodes: nodes.map(|node| node.id().clone()).collect(),
                    indices: indices.take(depth).collect(),
                    at,
                }
            };
            match event {
                Event::Child if here == position => {
                    let index = frames.last().map_or(0, |frame| frame.index);
                    found = Some(resolved(At::Child(index), None));
                }
                Event::Text(block, size) if here <= position => {
                    let offset = position - here;
                    if offset <= size {
                        let at = At::Text(self.offset(block, offset, position)?);
                        found = Some(resolved(at, Some(block)));
                    }
                }
                _ => {}
            }
            Ok(found.is_none())
        })?;
        found.ok_or(StepError::OutOfRange { position, size })
    }

    /// The texts between two positions, which exist.
    pub(super) fn texts(&self, from: usize, to: usize) -> Result<Vec<TextSlice<'v>>, StepError> {
        let mut texts = Vec::new();
        if self.texts_by_size(from, to, &mut texts)? {
            return Ok(texts);
        }
        texts.clear();
        self.visit(|here, _, event| {
            if let Event::Text(block, size) = event {
                self.slice(block, (here, size), (from, to), &mut texts)?;
            }
            Ok(here < to)
        })?;
        Ok(texts)
    }

    /// The parts of a text of some size that are between two positions.
    fn slice(
        &self,
        block: &'v Node,
        (here, size): (usize, usize),
        (from, to): (usize, usize),
        texts: &mut Vec<TextSlice<'v>>,
    ) -> Result<(), StepError> {
        let end = here + size;
        if to < here || end < from {
            return Ok(());
        }
        let start = self.offset(block, from.max(here) - here, from)?;
        let end = self.offset(block, to.min(end) - here, to)?;
        let mut before = 0;
        for node in self.view.children(block.id()) {
            let len = node.text().len();
            let (start, end) = (start.max(before), end.min(before + len));
            if start < end {
                texts.push((node, start - before..end - before, block));
            }
            before += len;
        }
        Ok(())
    }

    /// The texts between two positions by the sizes of nodes. Returns whether all are known.
    fn texts_by_size(
        &self,
        from: usize,
        to: usize,
        texts: &mut Vec<TextSlice<'v>>,
    ) -> Result<bool, StepError> {
        let Some(sizes) = &self.sizes else {
            return Ok(false);
        };
        // Nodes with the positions where their contents begin, and the next child of each.
        let mut ahead = vec![(self.root, 0, from)];
        while let Some((node, start, next)) = ahead.pop() {
            step();
            let Some(child) = sizes.child_at(node.id(), next.saturating_sub(start)) else {
                return Ok(false);
            };
            let here = start + child.before;
            let inner = node.children().get(child.index);
            let Some(inner) = inner.filter(|_| here < to) else {
                continue;
            };
            let (Some(inner), Some(size)) = (self.view.node(inner), child.size) else {
                return Ok(false);
            };
            ahead.push((node, start, here + size));
            match self.content(inner)? {
                ProseMirrorContent::Blocks => ahead.push((inner, here + 1, from)),
                ProseMirrorContent::Text | ProseMirrorContent::Code => {
                    self.slice(inner, (here + 1, size - 2), (from, to), texts)?;
                }
                _ => {}
            }
        }
        Ok(true)
    }

    /// Visits positions in order until the visitor returns false. Returns the last position.
    fn visit(
        &self,
        mut visitor: impl FnMut(usize, &[Frame<'v>], Event<'v>) -> Result<bool, StepError>,
    ) -> Result<usize, StepError> {
        use ProseMirrorContent::{Blocks, Code, Text};
        let content = self.content(self.root)?;
        if matches!(content, Text | Code) {
            let size = text_size(self.view, self.root, self.names)?;
            visitor(0, &[], Event::Text(self.root, size))?;
            return Ok(size);
        }
        let mut position = 0;
        let mut frames = vec![self.frame(self.root)?];
        while let Some(innermost) = frames.len().checked_sub(1) {
            step();
            if !visitor(position, &frames, Event::Child)? {
                break;
            }
            let Some(child) = frames[innermost].children.next() else {
                if innermost == 0 {
                    break;
                }
                frames.pop();
                frames[innermost - 1].index += 1;
                position += 1;
                continue;
            };
            let Some(child) = self.view.node(child) else {
                continue;
            };
            match self.content(child)? {
                Blocks => {
                    position += 1;
                    frames.push(self.frame(child)?);
                    continue;
                }
                Text | Code => {
                    let size = text_size(self.view, child, self.names)?;
                    if !visitor(position + 1, &frames, Event::Text(child, size))? {
                        break;
                    }
                    position += 2 + size;
                }
                _ => position += 1,
            }
            frames[innermost].index += 1;
        }
        Ok(position)
    }

    fn frame(&self, node: &'v Node) -> Result<Frame<'v>, StepError> {
        match node.text().is_empty() {
            true => Ok(Frame {
                node,
                index: 0,
                children: Box::new(node.children().iter()),
            }),
            false => Err(misshapen(node, "it has text beside its children")),
        }
    }

    pub(super) fn content(&self, node: &Node) -> Result<ProseMirrorContent, StepError> {
        content_of(node, self.names)
    }

    /// The number of characters before an offset in the text of a node.
    fn offset(&self, block: &Node, offset: usize, position: usize) -> Result<usize, StepError> {
        let (mut rest, mut characters) = (offset, 0);
        let is_code = self.content(block)? == ProseMirrorContent::Code;
        for node in self.view.children(block.id()) {
            let parts = match !is_code && has_descriptions(node, self.names) {
                true => pieces(node, false, &MarkNames::All, self.names).0,
                false => Vec::new(),
            };
            for piece in &parts {
                if rest < piece.size() {
                    let text = Text::from(piece.text.as_str());
                    return Ok(characters + scalar(&text, rest, position)?);
                }
                rest -= piece.size();
                characters += piece.range.len();
            }
            if parts.is_empty() {
                let size = node.text().utf16_len();
                if rest <= size {
                    return Ok(characters + scalar(node.text(), rest, position)?);
                }
                rest -= size;
                characters += node.text().len();
            }
        }
        Ok(characters)
    }

    /// Whether anything but the bounds of nodes is between two positions. As in ProseMirror, the
    /// rest of a text is the bound of a node.
    pub(super) fn has_content(
        &self,
        from: &ResolvedPosition,
        to: &ResolvedPosition,
    ) -> Result<bool, StepError> {
        let mut ahead = to.position - from.position;
        let mut depth = from.depth();
        let mut next = None;
        while ahead > 0 {
            let Some(node) = self.view.node(&from.nodes[depth]) else {
                return Ok(true);
            };
            let is_innermost = depth == from.depth();
            let (behind, children) = match from.at {
                At::Text(offset) if is_innermost => self.inline_behind(node, offset)?,
                _ => {
                    let around = usize::from(!is_innermost);
                    (from.index(depth) + around, node.children().len())
                }
            };
            if behind < children || depth == 0 {
                let is_text = is_innermost && matches!(from.at, At::Text(_));
                next = node.children().get(behind).filter(|_| !is_text);
                break;
            }
            depth -= 1;
            ahead -= 1;
        }
        while ahead > 0 {
            let Some(node) = next.and_then(|id| self.view.node(id)) else {
                return Ok(true);
            };
            next = match self.content(node)? {
                ProseMirrorContent::Blocks => node.children().get(0),
                ProseMirrorContent::Leaf => return Ok(true),
                // Inline nodes have no content.
                _ => None,
            };
            ahead -= 1;
        }
        Ok(false)
    }

    /// The index of the first inline node of ProseMirror that begins at an offset or behind it, and
    /// the number of inline nodes.
    fn inline_behind(&self, block: &Node, offset: usize) -> Result<(usize, usize), StepError> {
        check_text(self.view, block, self.names)?;
        let code = self.content(block)? == ProseMirrorContent::Code;
        let (mut behind, mut inline, mut start) = (0, 0, 0);
        let mut last: Option<InlinePiece<'_>> = None;
        for node in self.view.children(block.id()) {
            for piece in pieces(node, code, &MarkNames::All, self.names).0 {
                if piece.range.is_empty() {
                    continue;
                }
                let is_joined = last.as_ref().is_some_and(|last| last.is_joined_by(&piece));
                inline += usize::from(!is_joined);
                if start + piece.range.start < offset {
                    behind = inline;
                }
                last = Some(piece);
            }
            start += node.text().len();
        }
        Ok((behind, inline))
    }
}

/// The size of the text of a node.
fn text_size(view: &impl View, block: &Node, names: &ProseMirrorNames) -> Result<usize, StepError> {
    let mut size = 0;
    check_text(view, block, names)?;
    let is_code = content_of(block, names)? == ProseMirrorContent::Code;
    for node in view.children(block.id()) {
        size += match !is_code && has_descriptions(node, names) {
            true => {
                let (pieces, _) = pieces(node, false, &MarkNames::All, names);
                pieces.iter().map(InlinePiece::size).sum()
            }
            false => node.text().utf16_len(),
        };
    }
    Ok(size)
}

/// Whether an image of the text has a description, so that it has another size than its text. In
/// code, a description is text.
pub(super) fn has_descriptions(node: &Node, names: &ProseMirrorNames) -> bool {
    node.marks().iter().any(|mark| {
        names.inline_for(mark).is_some() && {
            let range = mark.range.clone().unwrap_or(0..0);
            let text = node.text().slice(range).unwrap_or_default();
            text.chars().any(|char| char != OBJECT)
        }
    })
}

/// An offset within a text, in characters. One in a leaf is at its start.
fn scalar(text: &Text, offset: usize, position: usize) -> Result<usize, StepError> {
    text.scalar_offset(offset).map_err(|_| StepError::Misfit {
        position,
        reason: "it is inside of a surrogate pair",
    })
}

pub(super) fn content_of(
    node: &Node,
    names: &ProseMirrorNames,
) -> Result<ProseMirrorContent, StepError> {
    match names.node_for(node) {
        Some((_, content)) => Ok(content),
        None => Err(misshapen(node, "the names have no such type there")),
    }
}

/// Checks that a node with text has text nodes only.
pub(super) fn check_text(
    view: &impl View,
    block: &Node,
    names: &ProseMirrorNames,
) -> Result<(), StepError> {
    if !block.text().is_empty() {
        return Err(misshapen(block, "its text is not in a child"));
    }
    let mut children = view.children(block.id());
    let other = children.find(|child| !names.is_text(child) || !child.children().is_empty());
    other.map_or(Ok(()), |child| Err(misshapen(child, "it is no plain text")))
}

pub(super) fn misshapen(node: &Node, reason: &'static str) -> StepError {
    StepError::Shape {
        id: node.id().clone(),
        reason,
    }
}

#[cfg(test)]
pub(super) mod tests;
