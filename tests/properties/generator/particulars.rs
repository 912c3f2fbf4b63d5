//! Ids, texts, ranges, nodes: the fields of operations.

use std::ops::Bound;

use doclock::dsl::*;
use doclock::{
    NodeId, View,
    document::{Attributes, Fragment, Mark, Node, NodeSpec, Position, Selection},
    transaction::{NodeRef, TextSpan},
};
use serde_json::{Map, Value, json};

use super::{Generator, Kind};

const NAMES: [&str; 12] = [
    "a", "b", "c", "d", "e", "h", "i", "ä", "漢", "8:1", "7:1000", "loose",
];
pub(super) const TYPES: [&str; 6] = ["text", "paragraph", "item", "list", "heading", "code"];
const MARKS: [&str; 3] = ["bold", "link", "em"];

/// Documents up to this size are searched for a fitting node; in larger ones a few nodes are tried.
const SMALL: usize = 1000;

impl<'a, V: View> Generator<'a, V> {
    /// Whether to draw an invalid value now.
    pub(super) fn strays(&mut self) -> bool {
        self.dice.one_in(24)
    }

    pub(super) fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.dice.below(of.len())].clone()
    }

    // --- Existing nodes ---

    pub(super) fn node(&self, id: &NodeId) -> Option<&'a Node> {
        self.view.node(id)
    }

    pub(super) fn any(&mut self) -> NodeId {
        match self.ids.len() {
            0 => "a".into(),
            count => self.ids[self.dice.below(count)].clone(),
        }
    }

    /// A node that fits an operation of this kind, if there is one.
    pub(super) fn fitting(&mut self, kind: Kind) -> NodeId {
        if self.strays() {
            return self.any();
        }
        if self.ids.len() > SMALL {
            let tried: Vec<NodeId> = (0..64).map(|_| self.any()).collect();
            let found = tried.iter().find(|id| self.fits(kind, id)).cloned();
            return found.unwrap_or_else(|| self.any());
        }
        let fit = |id: &&NodeId| self.fits(kind, id);
        let fitting: Vec<NodeId> = self.ids.iter().filter(fit).cloned().collect();
        match fitting.is_empty() {
            true => self.any(),
            false => self.one(&fitting),
        }
    }

    fn fits(&self, kind: Kind, id: &NodeId) -> bool {
        let Some(node) = self.node(id) else {
            return false;
        };
        let parent = node.parent().and_then(|parent| self.node(parent));
        let grandparent = parent.and_then(Node::parent);
        match kind {
            Kind::Delete | Kind::MoveNode => self.view.root() != Some(id),
            Kind::RemoveChild
            | Kind::RemoveChildren
            | Kind::MoveChildren
            | Kind::ReorderChildren
            | Kind::AutoMergeTextNodes => !node.children().is_empty(),
            Kind::MoveBlockUp
            | Kind::MoveBlockDown
            | Kind::IndentNode
            | Kind::WrapNode
            | Kind::WrapInList => parent.is_some(),
            Kind::LiftNode | Kind::OutdentNode | Kind::LiftEmptyBlock => grandparent.is_some(),
            Kind::JoinBlock => parent.is_some(),
            Kind::SplitTextNode => parent.is_some() && !node.text().is_empty(),
            Kind::SplitBlockNode => parent.is_some() && !node.children().is_empty(),
            Kind::InsertParagraph => grandparent.is_some() && !node.text().is_empty(),
            Kind::SplitListItem => {
                let mut above = self.view.ancestors(id).take(8);
                !node.text().is_empty() && above.any(|node| node.kind() == "item")
            }
            Kind::MergeTextNodes => {
                let next = self.next_sibling(node).and_then(|next| self.node(next));
                next.is_some_and(|next| next.kind() == node.kind())
            }
            Kind::MergeBlockNodes => self.next_sibling(node).is_some(),
            Kind::RemoveMark | Kind::UpdateMark | Kind::ClearFormatting => !node.marks().is_empty(),
            Kind::OutdentText => node.text().chars().any(|c| c == '\n'),
            Kind::DeleteTextRange
            | Kind::DeleteRange
            | Kind::ReplaceText
            | Kind::ReplacePattern
            | Kind::Wrap
            | Kind::Unwrap
            | Kind::IndentText
            | Kind::ApplyMark
            | Kind::ToggleMark
            | Kind::SetMarks
            | Kind::Copy
            | Kind::Cut
            | Kind::Paste
            | Kind::SelectRange => !node.text().is_empty(),
            Kind::RemoveAttrs => !node.attributes().is_empty(),
            Kind::SetRoot => parent.is_none(),
            _ => true,
        }
    }

    pub(super) fn next_sibling(&self, node: &Node) -> Option<&'a NodeId> {
        let parent = self.node(node.parent()?)?;
        let at = parent.children().position(node.id())?;
        parent.children().get(at + 1)
    }

    pub(super) fn alias(&mut self) -> &'static str {
        self.one(&["x", "y", "z"])
    }

    /// By id or, sometimes, by a name, which may name another node or none.
    pub(super) fn reference(&mut self, id: &NodeId) -> NodeRef {
        match self.dice.below(60) {
            0 => alias(self.alias()),
            1 => "nowhere".into(),
            2 => self.any().into(),
            _ => id.into(),
        }
    }

    pub(super) fn any_reference(&mut self) -> NodeRef {
        let id = self.any();
        self.reference(&id)
    }

    /// Children of a node in random order: all of them, or some.
    pub(super) fn children(&mut self, of: &NodeId, all: bool) -> Vec<NodeRef> {
        let children = self.node(of).map(|node| node.children().iter().take(50));
        let mut ahead: Vec<NodeId> = children.into_iter().flatten().cloned().collect();
        let mut drawn: Vec<NodeRef> = Vec::new();
        let count = match all {
            true => ahead.len(),
            false => self.dice.below(ahead.len() + 1).min(3),
        };
        while drawn.len() < count && !ahead.is_empty() {
            let at = self.dice.below(ahead.len());
            let child = ahead.swap_remove(at);
            drawn.push(self.reference(&child));
        }
        if self.strays() {
            match drawn.pop() {
                Some(last) if self.dice.one_in(2) => drawn.extend([last.clone(), last]),
                _ => drawn.push(self.any_reference()),
            }
        }
        drawn
    }

    pub(super) fn index(&mut self, parent: &NodeId) -> Option<usize> {
        let len = self.node(parent).map_or(0, |node| node.children().len());
        if self.strays() {
            return Some(self.one(&[len + 1, usize::MAX]));
        }
        (!self.dice.one_in(3)).then(|| self.dice.below(len + 1))
    }

    // --- Text ---

    pub(super) fn len(&self, id: &NodeId) -> usize {
        self.node(id).map_or(0, |node| node.text().len())
    }

    pub(super) fn text(&mut self) -> String {
        const CHARS: [char; 10] = ['a', 'b', ' ', ' ', 'ß', '漢', '\n', '\r', '🦀', '*'];
        // Sometimes long enough for a rope.
        let len = match self.dice.one_in(16) {
            true => 150 + self.dice.below(300),
            false => self.dice.below(7),
        };
        (0..len).map(|_| self.one(&CHARS)).collect()
    }

    pub(super) fn offset(&mut self, id: &NodeId) -> usize {
        let len = self.len(id);
        match self.strays() {
            true => self.one(&[len + 1, usize::MAX]),
            false => self.dice.below(len + 1),
        }
    }

    pub(super) fn range(&mut self, id: &NodeId) -> (usize, usize) {
        let (one, other) = (self.offset(id), self.offset(id));
        match self.strays() {
            true => (one, other),
            false => (one.min(other), one.max(other)),
        }
    }

    /// Characters of one node.
    pub(super) fn within(&mut self, id: &NodeId) -> (Bound<usize>, Bound<usize>) {
        let (start, end) = self.range(id);
        match self.dice.below(6) {
            0 => (Bound::Unbounded, Bound::Unbounded),
            1 => (Bound::Included(start), Bound::Unbounded),
            _ => (Bound::Included(start), Bound::Excluded(end)),
        }
    }

    /// Characters of one node, or up to another.
    pub(super) fn extent(&mut self, id: &NodeId) -> TextSpan {
        if !self.dice.one_in(3) {
            return match self.within(id) {
                (Bound::Included(start), Bound::Excluded(end)) => TextSpan::from(start..end),
                (Bound::Included(start), _) => TextSpan::from(start..),
                _ => TextSpan::from(..),
            };
        }
        let start = self.offset(id);
        let last = match self.dice.one_in(4) {
            true => self.any(),
            false => self.later(id),
        };
        let end = self.offset(&last);
        TextSpan::to(start, self.reference(&last), end)
    }

    /// A later text node of the document, if there is one nearby.
    fn later(&mut self, id: &NodeId) -> NodeId {
        let top = self.view.ancestors(id).last().map_or(id, Node::id);
        let from_there = self
            .view
            .descendants(top)
            .skip_while(|node| node.id() != id);
        let later: Vec<NodeId> = from_there
            .skip(1)
            .take(20)
            .filter(|node| !node.text().is_empty())
            .map(|node| node.id().clone())
            .collect();
        match later.is_empty() {
            true => self.any(),
            false => self.one(&later),
        }
    }

    pub(super) fn selection(&mut self) -> Selection {
        let node = self.fitting(Kind::SelectRange);
        if self.dice.one_in(4) {
            return Selection::node(node);
        }
        let anchor = Position::new(&node, self.offset(&node));
        let node = match self.dice.one_in(2) {
            true => node,
            false => self.fitting(Kind::SelectRange),
        };
        let focus = Position::new(&node, self.offset(&node));
        Selection::new(anchor, focus)
    }

    // --- Marks and attributes ---

    /// The kind of a mark, if possible of one that the node has.
    pub(super) fn mark_of(&mut self, id: &NodeId) -> String {
        let marks = self.node(id).map(|node| node.marks().iter());
        let kinds: Vec<String> = marks
            .into_iter()
            .flatten()
            .map(|mark| mark.kind.to_string())
            .collect();
        match kinds.is_empty() || self.strays() {
            true => self.mark(),
            false => self.one(&kinds),
        }
    }

    pub(super) fn mark(&mut self) -> String {
        self.one(&MARKS).to_owned()
    }

    pub(super) fn marks(&mut self, len: usize) -> Vec<Mark> {
        let count = self.dice.below(4);
        let mark = |_| {
            let kind = self.mark();
            let (one, other) = (self.dice.below(len + 1), self.dice.below(len + 1));
            let end = one.max(other) + usize::from(self.strays());
            let mark = match self.dice.one_in(6) {
                true => Mark::whole(kind),
                false => Mark::new(kind, one.min(other)..end),
            };
            match self.dice.one_in(2) {
                true => mark,
                false => mark.with_attributes(self.attributes()),
            }
        };
        (0..count).map(mark).collect()
    }

    /// Names and values; `null` removes an attribute.
    pub(super) fn attrs(&mut self) -> Map<String, Value> {
        let values = [
            json!(null),
            json!(1),
            json!("x"),
            json!([1.5, {"k": null}]),
            json!(false),
        ];
        (0..self.dice.below(3))
            .map(|_| {
                let key = self.one(&["level", "href", "ключ"]).to_owned();
                (key, self.one(&values))
            })
            .collect()
    }

    pub(super) fn attributes(&mut self) -> Attributes {
        self.attrs().into_iter().collect()
    }

    // --- New nodes ---

    pub(super) fn kind_of_node(&mut self) -> &'static str {
        self.one(&TYPES)
    }

    pub(super) fn spec(&mut self) -> NodeSpec {
        let kind = self.kind_of_node();
        self.spec_of(kind, 3)
    }

    /// A node that can contain others.
    pub(super) fn container(&mut self, kind: &str) -> NodeSpec {
        let levels = 1 + usize::from(self.dice.one_in(8));
        let kind = match self.dice.one_in(6) {
            true => self.kind_of_node(),
            false => kind,
        };
        let spec = NodeSpec::new(kind).with_attributes(self.attributes());
        match levels {
            1 => spec,
            _ => self.spec_of("paragraph", levels),
        }
    }

    fn spec_of(&mut self, kind: &str, levels: usize) -> NodeSpec {
        let text = match self.dice.one_in(3) {
            true => String::new(),
            false => self.text(),
        };
        let marks = self.marks(text.chars().count());
        let children = if levels > 1 { self.dice.below(3) } else { 0 };
        let children: Vec<NodeSpec> = (0..children)
            .map(|_| {
                let kind = self.kind_of_node();
                self.spec_of(kind, levels - 1)
            })
            .collect();
        let spec = NodeSpec::new(kind)
            .with_attributes(self.attributes())
            .with_text(text)
            .with_marks(marks)
            .with_children(children);
        if !self.dice.one_in(6) {
            return spec;
        }
        let name = self.one(&NAMES);
        match self.view.contains(name) && !self.strays() {
            true => spec,
            false => spec.with_id(name),
        }
    }

    pub(super) fn fragment(&mut self) -> Fragment {
        let count = self.dice.below(4);
        Fragment {
            nodes: (0..count).map(|_| self.spec()).collect(),
            open_start: self.dice.one_in(2),
            open_end: self.dice.one_in(2),
            ..Fragment::default()
        }
    }
}
