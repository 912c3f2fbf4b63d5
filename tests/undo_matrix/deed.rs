//! An edit of Bob, in the document after Ann's edit and alone in the document before it.
//!
//! The second form is the reference of the matrix. It applies to the same letters: typed text is
//! beside the same letter, and the same letters are deleted. Where the edit means another one
//! without that of Ann, there is no reference.

use doclock::{
    NodeId, View,
    document::NodeSpec,
    dsl::*,
    transaction::{NodeOperation, Operation, TextSpan},
};

use crate::page::{Letter, Page, TOP};

/// A position in the text of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    node: NodeId,
    at: usize,
}

/// Letters of a document, in its order.
#[derive(Clone, Debug)]
pub(crate) struct Span(Vec<char>);

#[derive(Clone, Debug)]
pub(crate) enum Deed {
    Type(Gap, &'static str),
    Split(Gap),
    Erase(Span),
    Replace(Span, &'static str),
    Bold(Span),
    Clear(Span),
    /// Joins two text nodes and their paragraphs.
    Join(NodeId, NodeId),
    Block(NodeId, BlockDeed),
    /// Adds a paragraph between two siblings.
    Add {
        left: Option<NodeId>,
        right: Option<NodeId>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockDeed {
    Delete,
    MoveToEnd,
    WrapInList,
    SetAttribute,
    ChangeType,
}

type Operations = Vec<Operation>;

impl Deed {
    /// The edit in the document after that of Ann.
    pub(crate) fn operations(&self, page: &Page) -> Operations {
        match self {
            Self::Type(gap, text) => vec![gap.typed(text)],
            Self::Split(gap) => vec![insert_paragraph(gap.at).on(gap.node.clone())],
            Self::Erase(span) => vec![span.on(page, delete_range)],
            Self::Replace(span, text) => span.replaced(page, text),
            Self::Bold(span) => vec![span.on(page, |extent| apply_mark("bold", extent))],
            Self::Clear(span) => vec![span.on(page, clear_formatting)],
            Self::Join(left, right) => vec![joined(page, left, right)],
            Self::Block(block, deed) => deed.on(block),
            Self::Add { left, right } => {
                let left = left.iter().map(|left| (left, 1));
                let mut beside = left.chain(right.iter().map(|right| (right, 0)));
                let operation =
                    beside.find_map(|(sibling, behind)| added(page, sibling, behind, paragraph()));
                Vec::from_iter(operation)
            }
        }
    }

    /// The edit in the document before that of Ann. There can be several forms, since typed text
    /// can be on both sides of letters that come back. Without a reference there is none.
    pub(crate) fn alone(&self, before: &Page, after: &Page) -> Vec<Operations> {
        match self {
            Self::Type(gap, text) => {
                let gaps = gap.alone(before, after).into_iter();
                gaps.map(|gap| vec![gap.typed(text)]).collect()
            }
            Self::Split(gap) => {
                let gaps = gap.alone(before, after).into_iter();
                gaps.map(|gap| vec![insert_paragraph(gap.at).on(gap.node)])
                    .collect()
            }
            Self::Erase(span) => Vec::from_iter(span.erased_alone(before, after)),
            Self::Replace(span, text) => span.replaced_alone(before, after, text),
            Self::Bold(span) => span.marked_alone(before, |extent| apply_mark("bold", extent)),
            Self::Clear(span) => span.marked_alone(before, clear_formatting),
            Self::Join(left, right) => Vec::from_iter(joined_alone(before, after, left, right)),
            Self::Block(block, deed) => Vec::from_iter(deed.alone(before, after, block)),
            Self::Add { left, right } => {
                let left = left.iter().map(|left| (left, 1));
                let beside = left.chain(right.iter().map(|right| (right, 0)));
                let forms = beside.flat_map(|(sibling, behind)| {
                    // The nodes of Ann around it go, or they stay for it.
                    let nodes = [paragraph(), wrapped(before, after, sibling)];
                    nodes.map(|node| added(before, sibling, behind, node))
                });
                forms.flatten().map(|operation| vec![operation]).collect()
            }
        }
    }
}

impl Gap {
    pub(crate) fn new(node: NodeId, at: usize) -> Self {
        Self { node, at }
    }

    fn typed(&self, text: &str) -> Operation {
        insert_text(self.at, text).on(self.node.clone())
    }

    /// The positions beside the same letters before Ann's edit, on both sides of the letters that
    /// she deleted.
    fn alone(&self, before: &Page, after: &Page) -> Vec<Self> {
        let there = || after.letters_in(&self.node);
        let left = there().filter(|letter| letter.at < self.at);
        let left = left
            .filter_map(|letter| before.letter(letter.letter))
            .last();
        let mut right = there().filter(|letter| letter.at >= self.at);
        let right = right.find_map(|letter| before.letter(letter.letter));
        let is_gone = |letter: &&Letter| !after.has(letter.letter);
        let mut gaps = Vec::new();
        if let Some(Letter { node, at, .. }) = left {
            let behind = before.letters_in(node).skip(at + 1);
            let gone = behind.take_while(is_gone).count();
            gaps.extend([at + 1, at + 1 + gone].map(|at| Self::new(node.clone(), at)));
        }
        if let Some(Letter { node, at, .. }) = right {
            let ahead: Vec<&Letter> = before.letters_in(node).take(*at).collect();
            let gone = ahead.into_iter().rev().take_while(is_gone).count();
            gaps.extend([at - gone, *at].map(|at| Self::new(node.clone(), at)));
        }
        gaps
    }
}

impl Span {
    pub(crate) fn new(letters: Vec<char>) -> Self {
        Self(letters)
    }

    fn ends<'p>(&self, page: &'p Page) -> Option<[&'p Letter; 2]> {
        let ends = self.0.first().zip(self.0.last());
        let (first, last) = ends?;
        Some([page.letter(*first)?, page.letter(*last)?])
    }

    fn on(&self, page: &Page, operation: impl Fn(TextSpan) -> NodeOperation) -> Operation {
        let [first, last] = self.ends(page).unwrap();
        let extent = TextSpan::to(first.at, last.node.clone(), last.at + 1);
        operation(extent).on(first.node.clone())
    }

    fn is_in_one_node(&self, page: &Page) -> bool {
        let mut nodes = self
            .0
            .iter()
            .map(|letter| &page.letter(*letter).unwrap().node);
        let first = nodes.next();
        nodes.all(|node| Some(node) == first)
    }

    fn is_adjacent(&self, page: &Page) -> bool {
        let places: Vec<usize> = self
            .0
            .iter()
            .filter_map(|letter| page.place(*letter))
            .collect();
        places.windows(2).all(|pair| pair[0] + 1 == pair[1])
    }

    /// Those letters that the document has.
    fn left_in(&self, page: &Page) -> Self {
        let letters = self.0.iter().copied();
        Self(letters.filter(|letter| page.has(*letter)).collect())
    }

    /// Deletes each of the letters.
    fn erased_each(&self, page: &Page) -> Operations {
        let mut letters: Vec<&Letter> = self.0.iter().filter_map(|one| page.letter(*one)).collect();
        letters.sort_by_key(|letter| letter.at);
        let last_first = letters.into_iter().rev();
        last_first
            .map(|letter| delete_text_range(letter.at, letter.at + 1).on(letter.node.clone()))
            .collect()
    }

    fn replaced(&self, page: &Page, text: &str) -> Operations {
        let [first, last] = self.ends(page).unwrap();
        if first.node == last.node {
            let replaced = replace_text(first.at, last.at + 1, text);
            return vec![replaced.on(first.node.clone())];
        }
        let typed = Gap::new(first.node.clone(), first.at).typed(text);
        vec![self.on(page, delete_range), typed]
    }

    /// A deletion within one text node deletes letters. One over several joins them, which means
    /// another edit if they were not neighbours before.
    fn erased_alone(&self, before: &Page, after: &Page) -> Option<Operations> {
        let left = self.left_in(before);
        if self.is_in_one_node(after) || left.is_in_one_node(before) {
            return Some(left.erased_each(before));
        }
        let is_adjacent = left.is_adjacent(before);
        is_adjacent.then(|| vec![left.on(before, delete_range)])
    }

    fn replaced_alone(&self, before: &Page, after: &Page, text: &str) -> Vec<Operations> {
        let left = self.left_in(before);
        let Some([first, _]) = left.ends(before) else {
            let first = self.ends(after).unwrap()[0];
            let gap = Gap::new(first.node.clone(), first.at);
            let gaps = gap.alone(before, after).into_iter();
            return gaps.map(|gap| vec![gap.typed(text)]).collect();
        };
        let erased = self.erased_alone(before, after).into_iter();
        let typed = || Gap::new(first.node.clone(), first.at).typed(text);
        erased
            .map(|erased| erased.into_iter().chain([typed()]).collect())
            .collect()
    }

    /// A mark covers the letters, or also those between them that Ann had deleted.
    fn marked_alone(
        &self,
        before: &Page,
        operation: impl Fn(TextSpan) -> NodeOperation,
    ) -> Vec<Operations> {
        let left = self.left_in(before);
        if left.0.is_empty() {
            return vec![Vec::new()];
        }
        let each = left.0.iter().map(|letter| Self(vec![*letter]));
        let each = each.map(|letter| letter.on(before, &operation)).collect();
        vec![each, vec![left.on(before, &operation)]]
    }
}

fn joined(page: &Page, left: &NodeId, right: &NodeId) -> Operation {
    let end = page.letters_in(left).count();
    delete_range(TextSpan::to(end, right.clone(), 0)).on(left.clone())
}

/// The texts are found by the letters at the seam. If one node has them all, there is nothing to
/// join. The same if one of the texts was Ann's.
fn joined_alone(before: &Page, after: &Page, left: &NodeId, right: &NodeId) -> Option<Operations> {
    let known = |node| {
        after
            .letters_in(node)
            .filter_map(|one| before.letter(one.letter))
    };
    let (left, right) = (known(left).last(), known(right).next());
    let Some((left, right)) = left
        .zip(right)
        .filter(|(left, right)| left.node != right.node)
    else {
        return Some(Vec::new());
    };
    let nth = before.texts.iter().position(|text| *text == left.node)?;
    let is_next = before.texts.get(nth + 1) == Some(&right.node);
    is_next.then(|| vec![joined(before, &left.node, &right.node)])
}

fn paragraph() -> NodeSpec {
    element("p", [text_node("text", "12")])
}

/// A new paragraph in such nodes as Ann put around a node.
fn wrapped(before: &Page, after: &Page, node: &NodeId) -> NodeSpec {
    let around = after.view.ancestors(node);
    let new = around.take_while(|node| !before.view.contains(node.id()));
    new.fold(paragraph(), |inner, node| element(node.kind(), [inner]))
}

/// Adds a node right before a sibling, or behind it.
fn added(page: &Page, sibling: &NodeId, behind: usize, node: NodeSpec) -> Option<Operation> {
    let parent = page.view.parent(sibling)?;
    let index = page.view.index_in_parent(sibling)? + behind;
    Some(add_child(node, index).on(parent.clone()))
}

impl BlockDeed {
    fn operation(self) -> NodeOperation {
        match self {
            Self::Delete => delete_node(),
            Self::MoveToEnd => move_node(TOP, None),
            Self::WrapInList => wrap_in_list(element("ul", []), element("li", [])),
            Self::SetAttribute => set_attrs([("align", "right".into())]),
            Self::ChangeType => transform_node::<&str>("note", []),
        }
    }

    fn on(self, block: &NodeId) -> Operations {
        vec![self.operation().on(block.clone())]
    }

    fn alone(self, before: &Page, after: &Page, block: &NodeId) -> Option<Operations> {
        let is_known = before.view.contains(block);
        let mut here = after.letters_of_block(block);
        here.retain(|letter| before.has(*letter));
        let there = before.letters_of_block(block);
        // Text that Ann moved out of the paragraph, and into it.
        let has_lost = there
            .iter()
            .any(|one| after.has(*one) && !here.contains(one));
        let has_gained = here.iter().any(|one| !there.contains(one));
        match self {
            Self::Delete if !is_known || has_lost => Some(Span(here).erased_each(before)),
            Self::SetAttribute | Self::ChangeType if !is_known => None,
            Self::SetAttribute | Self::ChangeType => Some(self.on(block)),
            _ if !is_known || has_lost || has_gained => None,
            _ => Some(self.on(block)),
        }
    }
}
