//! The tree on which edits are planned.

use std::ops::Range;
use std::rc::Rc;

use crate::schema::{StateId, Symbol};
use crate::steps::{step, steps};
use crate::{Attributes, Mark, NodeId};

/// A node of the tree. Its parts are shared with those of other trees.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FitNode {
    pub(super) kind: Symbol,
    /// The node of the document that it was; `None` for a new one, and for text.
    pub(super) id: Option<NodeId>,
    pub(super) attributes: Attributes,
    pub(super) body: FitBody,
    /// How many positions it takes.
    pub(super) size: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum FitBody {
    /// A node without content.
    Empty,
    Blocks(Vec<Rc<FitNode>>),
    Text(FitText),
    /// Siblings that the edit does not look at.
    Rest(FitRest),
}

/// A part of a text whose characters are of one class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FitText {
    pub(super) text: Vec<char>,
    /// Relative to its start.
    pub(super) marks: Vec<Mark>,
    /// Where its characters are in the document; `None` for new text.
    pub(super) origin: Option<(NodeId, usize)>,
    /// Whether its characters stand for leaves or hard breaks, which are in no code.
    pub(super) special: bool,
}

/// Children of a node, by their indices before the edit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FitRest {
    pub(super) parent: NodeId,
    pub(super) range: Range<usize>,
    /// The type of the first, and the states of the parent's content around them.
    pub(super) first: Symbol,
    pub(super) before: StateId,
    pub(super) after: StateId,
    /// The type of the parent.
    pub(super) of: Symbol,
    /// The types in runs; empty if the edit has not asked for them.
    pub(super) kinds: Vec<(Symbol, usize)>,
}

impl FitNode {
    pub(super) fn block(
        kind: Symbol,
        id: Option<NodeId>,
        attributes: Attributes,
        content: Vec<Rc<Self>>,
    ) -> Rc<Self> {
        let size = 2 + size_of(&content);
        Rc::new(Self {
            kind,
            id,
            attributes,
            body: FitBody::Blocks(content),
            size,
        })
    }

    pub(super) fn empty(kind: Symbol, id: Option<NodeId>, attributes: Attributes) -> Rc<Self> {
        Rc::new(Self {
            kind,
            id,
            attributes,
            body: FitBody::Empty,
            size: 1,
        })
    }

    pub(super) fn text(kind: Symbol, attributes: Attributes, text: FitText) -> Rc<Self> {
        Rc::new(Self {
            kind,
            id: None,
            attributes,
            size: text.text.len(),
            body: FitBody::Text(text),
        })
    }

    pub(super) fn rest(kind: Symbol, rest: FitRest) -> Rc<Self> {
        Rc::new(Self {
            kind,
            id: None,
            attributes: Attributes::default(),
            body: FitBody::Rest(rest),
            size: 1,
        })
    }

    /// The same node with other content.
    pub(super) fn with(&self, content: Vec<Rc<Self>>) -> Rc<Self> {
        Self::block(self.kind, self.id.clone(), self.attributes.clone(), content)
    }

    pub(super) fn content(&self) -> &[Rc<Self>] {
        match &self.body {
            FitBody::Blocks(content) => content,
            _ => &[],
        }
    }

    pub(super) fn content_size(&self) -> usize {
        match self.body {
            FitBody::Blocks(_) => self.size - 2,
            _ => 0,
        }
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self.body, FitBody::Text(_))
    }

    pub(super) fn is_rest(&self) -> bool {
        matches!(self.body, FitBody::Rest(_))
    }

    /// Whether it has no content, and cannot have any.
    pub(super) fn is_atom(&self) -> bool {
        !matches!(self.body, FitBody::Blocks(_))
    }

    pub(super) fn same_markup(&self, other: &Self) -> bool {
        self.kind == other.kind && self.attributes == other.attributes
    }

    /// The part of its content between two positions.
    pub(super) fn cut(&self, from: usize, to: usize) -> Vec<Rc<Self>> {
        cut(self.content(), from, to)
    }

    /// The part of a text.
    fn cut_text(&self, from: usize, to: usize) -> Rc<Self> {
        let FitBody::Text(text) = &self.body else {
            return Rc::new(self.clone());
        };
        let marks = text.marks.iter().filter_map(|mark| {
            let range = mark.range.clone()?;
            let part = range.start.max(from)..range.end.min(to);
            (part.start < part.end).then(|| Mark {
                range: Some(part.start - from..part.end - from),
                ..mark.clone()
            })
        });
        let part = FitText {
            text: text.text[from..to].to_vec(),
            marks: marks.collect(),
            origin: text.origin.clone().map(|(id, start)| (id, start + from)),
            special: text.special,
        };
        Self::text(self.kind, self.attributes.clone(), part)
    }
}

pub(super) fn size_of(content: &[Rc<FitNode>]) -> usize {
    steps(content.len());
    content.iter().map(|node| node.size).sum()
}

/// The part of some content between two positions; nodes at its ends are cut.
pub(super) fn cut(content: &[Rc<FitNode>], from: usize, to: usize) -> Vec<Rc<FitNode>> {
    let mut part = Vec::new();
    let mut start = 0;
    for node in content {
        step();
        let end = start + node.size;
        if end > from && start < to {
            let whole = start >= from && end <= to;
            let (inner_from, inner_to) = (from.saturating_sub(start), to.min(end) - start);
            part.push(match (&node.body, whole) {
                (FitBody::Text(_), false) => node.cut_text(inner_from, inner_to),
                (FitBody::Blocks(_), false) => {
                    let size = node.content_size();
                    let (from, to) = (inner_from.saturating_sub(1), inner_to.saturating_sub(1));
                    node.with(node.cut(from.min(size), to.min(size)))
                }
                _ => node.clone(),
            });
        }
        if start >= to {
            break;
        }
        start = end;
    }
    part
}

/// A piece of a tree that is open at both ends: so many nodes there are cut.
#[derive(Clone, Debug, Default)]
pub(super) struct FitSlice {
    pub(super) content: Vec<Rc<FitNode>>,
    pub(super) open_start: usize,
    pub(super) open_end: usize,
}

impl FitSlice {
    pub(super) fn new(content: Vec<Rc<FitNode>>, open_start: usize, open_end: usize) -> Self {
        Self {
            content,
            open_start,
            open_end,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.open_start == 0 && self.open_end == 0
    }

    pub(super) fn size(&self) -> usize {
        size_of(&self.content)
            .saturating_sub(self.open_start)
            .saturating_sub(self.open_end)
    }

    /// The same with more content at a position.
    pub(super) fn insert(&self, at: usize, content: &[Rc<FitNode>]) -> Option<Self> {
        let content = inserted(&self.content, at + self.open_start, content)?;
        Some(Self::new(content, self.open_start, self.open_end))
    }
}

fn inserted(content: &[Rc<FitNode>], at: usize, more: &[Rc<FitNode>]) -> Option<Vec<Rc<FitNode>>> {
    let mut start = 0;
    for (nth, node) in content.iter().enumerate() {
        if start == at {
            return Some([&content[..nth], more, &content[nth..]].concat());
        }
        let end = start + node.size;
        if at < end {
            let FitBody::Blocks(inner) = &node.body else {
                return None;
            };
            let node = node.with(inserted(inner, at - start - 1, more)?);
            return Some([&content[..nth], &[node], &content[nth + 1..]].concat());
        }
        start = end;
    }
    (start == at).then(|| [content, more].concat())
}
