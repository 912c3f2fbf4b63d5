//! The part of a document on which an edit is planned.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;

use super::Fit;
use super::node::{FitNode, FitRest, FitText};
use super::place::FitPlace;
use crate::mark::OBJECT;
use crate::schema::Symbol;
use crate::{Children, EditError, Mark, Node, NodeId, NodeSpec, Position, View, plan};

/// The part of a document around two positions, as a tree.
#[derive(Debug)]
pub(super) struct FitDocument {
    pub(super) root: Rc<FitNode>,
    pub(super) id: NodeId,
    pub(super) from: usize,
    pub(super) to: usize,
    /// The children of the nodes some of whose children the tree leaves out.
    pub(super) children: HashMap<NodeId, Children>,
}

/// Called for each node that is looked at.
type Visit<'a> = &'a dyn Fn(&Node) -> Result<(), EditError>;

/// Called with a number of nodes that are only looked up.
type LookUp<'a> = &'a dyn Fn(usize) -> Result<(), EditError>;

struct Builder<'a, V> {
    view: &'a V,
    fit: Fit<'a>,
    visit: Visit<'a>,
    /// Whether the types of all nodes that are left out are needed.
    deep: bool,
    /// The nodes around both positions, the text block first.
    from: Vec<NodeId>,
    to: Vec<NodeId>,
    children: HashMap<NodeId, Children>,
}

/// How much of a node is needed.
#[derive(Clone, Copy, PartialEq)]
enum Needed {
    /// What is between both positions, and the siblings beside them.
    Between,
    All,
    /// What is at its end.
    Last,
    First,
}

/// How many nodes may be left out before their types are not read at first.
const SHORT: usize = 32;

/// How deep nodes may nest in a tree: its functions recurse.
pub(super) const LEVELS: usize = 200;

impl FitDocument {
    /// The part of a document around two positions; `None` if one of them is not in the text of a
    /// text block, or if a node around it has a text of its own.
    ///
    /// # Errors
    ///
    /// A node does not exist, or an error of `visit`.
    pub(super) fn new<V: View>(
        view: &V,
        fit: Fit<'_>,
        from: &Position,
        to: &Position,
        (whole, deep): (bool, bool),
        visit: Visit<'_>,
        look_up: LookUp<'_>,
    ) -> Result<Option<Self>, EditError> {
        let around = |at| match whole {
            true => around_block(view, fit, at, look_up),
            false => around(view, fit, at, look_up),
        };
        let (Some(start), Some(end)) = (around(from)?, around(to)?) else {
            return Ok(None);
        };
        let (Some(top), true) = (start.0.last().cloned(), start.0.last() == end.0.last()) else {
            return Ok(None);
        };
        if start.0.len().max(end.0.len()) > LEVELS {
            return Ok(None);
        }
        let mut builder = Builder {
            view,
            fit,
            visit,
            deep,
            from: start.0,
            to: end.0,
            children: HashMap::new(),
        };
        let Some(root) = builder.node(plan::find(view, &top)?, Needed::Between, 0)? else {
            return Ok(None);
        };
        let place = |chain: &[NodeId], offset| {
            let (mut at, mut node) = (0, &root);
            for id in chain.iter().rev().skip(1) {
                let mut content = node.content().iter();
                node = content.find(|child| {
                    let found = child.id.as_ref() == Some(id);
                    at += if found { 1 } else { child.size };
                    found
                })?;
            }
            Some(at + offset)
        };
        let from = place(&builder.from, start.1);
        let to = place(&builder.to, end.1);
        let Some((mut from, mut to)) = from.zip(to) else {
            return Ok(None);
        };
        if whole {
            // The first is in the node, and before it is a node without content.
            from -= 1;
            to = from
                + FitPlace::new(&root, from)
                    .and_then(|at| at.node_after())
                    .map_or(0, |it| it.size);
        }
        Ok(Some(Self {
            root,
            id: top,
            from,
            to,
            children: builder.children,
        }))
    }
}

/// The nodes around a position, the text block first, and how far it is in the text.
fn around<V: View>(
    view: &V,
    fit: Fit<'_>,
    at: &Position,
    look_up: LookUp<'_>,
) -> Result<Option<(Vec<NodeId>, usize)>, EditError> {
    let node = plan::find(view, &at.node_id)?;
    let number = |node: &Node| fit.schema.number_of(node.kind());
    let is_inline = number(node).is_some_and(|kind| fit.schema.is_inline(kind));
    let block = match is_inline {
        true => node.parent().and_then(|parent| view.node(parent)),
        false => Some(node),
    };
    let is_block = |node: &&Node| number(node).is_some_and(|it| fit.schema.is_text_block(it));
    let Some(block) = block.filter(is_block) else {
        return Ok(None);
    };
    let mut offset = 0;
    if is_inline {
        let before = view.children(block.id());
        for child in before.take_while(|child| child.id() != node.id()) {
            look_up(1)?;
            offset += inline_size(fit, block, child);
        }
        offset += at.offset;
    }
    let chain = chain(view, block, look_up)?;
    let mut nodes = chain.iter().filter_map(|id| view.node(id));
    let fits =
        chain.len() > 1 && nodes.all(|node| node.text().is_empty() && number(node).is_some());
    Ok(fits.then_some((chain, offset)))
}

/// A node and those around it, not more than one too many.
fn chain<V: View>(view: &V, node: &Node, look_up: LookUp<'_>) -> Result<Vec<NodeId>, EditError> {
    let mut chain = vec![node.id().clone()];
    for around in view.ancestors(node.id()).take(LEVELS) {
        look_up(1)?;
        chain.push(around.id().clone());
    }
    Ok(chain)
}

/// A block and the nodes around it.
fn around_block<V: View>(
    view: &V,
    fit: Fit<'_>,
    at: &Position,
    look_up: LookUp<'_>,
) -> Result<Option<(Vec<NodeId>, usize)>, EditError> {
    let node = plan::find(view, &at.node_id)?;
    let chain = chain(view, node, look_up)?;
    let number = |node: &Node| fit.schema.number_of(node.kind());
    let is_block = number(node).is_some_and(|kind| !fit.schema.is_inline(kind));
    let mut above = chain.iter().skip(1).filter_map(|id| view.node(id));
    let fits = is_block
        && chain.len() > 1
        && above.all(|node| node.text().is_empty() && number(node).is_some());
    Ok(fits.then_some((chain, 0)))
}

/// Whether a node in a line of text is one character, without text.
fn is_atom(fit: Fit<'_>, block: &Node, node: &Node) -> bool {
    let kind = fit.schema.number_of(node.kind());
    let has_text = kind.is_some_and(|kind| fit.schema.has_text(kind));
    let is_blank = || {
        let of = fit.schema.number_of(block.kind());
        let text = of.and_then(|of| fit.text_kind(of));
        node.attributes().is_empty() && text == kind
    };
    node.text().is_empty() && (!has_text || !is_blank())
}

fn inline_size(fit: Fit<'_>, block: &Node, node: &Node) -> usize {
    match is_atom(fit, block, node) {
        true => 1,
        false => node.text().len(),
    }
}

impl Fit<'_> {
    /// The type of the texts in a type of text block.
    pub(super) fn text_kind(self, block: Symbol) -> Option<Symbol> {
        let mut next = self.schema.next_types(block, self.start(block));
        let text =
            next.find(|(kind, _)| self.schema.is_inline(*kind) && self.schema.has_text(*kind));
        text.map(|(kind, _)| kind)
    }
}

impl<V: View> Builder<'_, V> {
    fn number(&self, node: &Node) -> Option<Symbol> {
        self.fit.schema.number_of(node.kind())
    }

    /// A node with its content. `None` if it has what a tree cannot show: types that the schema
    /// does not know or that are not where it says, a text beside children, too many levels or
    /// marks. The operation does as without a schema then.
    fn node(
        &mut self,
        node: &Node,
        needed: Needed,
        level: usize,
    ) -> Result<Option<Rc<FitNode>>, EditError> {
        (self.visit)(node)?;
        let is_shown = level < LEVELS && node.text().is_empty();
        let Some(kind) = self.number(node).filter(|_| is_shown) else {
            return Ok(None);
        };
        let (id, attributes) = (Some(node.id().clone()), node.attributes().clone());
        if self.fit.schema.is_empty_type(kind) {
            return Ok(Some(FitNode::empty(kind, id, attributes)));
        }
        let content = match self.fit.schema.is_text_block(kind) {
            true => self.line(node)?,
            false => self.blocks(node, kind, needed, level + 1)?,
        };
        Ok(content.map(|content| FitNode::block(kind, id, attributes, content)))
    }

    fn blocks(
        &mut self,
        node: &Node,
        kind: Symbol,
        needed: Needed,
        level: usize,
    ) -> Result<Option<Vec<Rc<FitNode>>>, EditError> {
        let children = node.children();
        let on = |chain: &[NodeId]| {
            let level = chain.iter().position(|id| id == node.id())?;
            let child = chain.get(level.checked_sub(1)?)?;
            self.view.index_in_parent(child)
        };
        let len = children.len();
        let (first, last) = match needed {
            Needed::Between => (on(&self.from), on(&self.to)),
            _ => (None, None),
        };
        let shown = match needed {
            Needed::Between => {
                let start = first.map_or(0, |first| first.saturating_sub(1));
                // A join may go on with the one after the next.
                let end = last.map_or(len, |last| (last + 3).min(len));
                start..end
            }
            Needed::All => 0..len,
            Needed::Last => len.saturating_sub(1)..len,
            Needed::First => 0..len.min(1),
        };
        let mut content = Vec::new();
        let mut state = Some(self.fit.start(kind));
        if shown.start > 0 {
            state = self.rest(node, kind, 0..shown.start, state, &mut content)?;
            if state.is_none() {
                return Ok(None);
            }
        }
        for index in shown.clone() {
            let Some(child) = children.get(index).and_then(|child| self.view.node(child)) else {
                continue;
            };
            let of_child = match needed {
                Needed::Between if Some(index) == first || Some(index) == last => Needed::Between,
                Needed::Between if first.is_some_and(|first| index < first) => Needed::Last,
                Needed::Between if last.is_some_and(|last| index > last) => Needed::First,
                Needed::Between | Needed::All => Needed::All,
                Needed::Last => Needed::Last,
                Needed::First => Needed::First,
            };
            let Some(child) = self.node(child, of_child, level)? else {
                return Ok(None);
            };
            state = state.and_then(|state| self.fit.after(kind, state, &child));
            content.push(child);
        }
        let ends = shown.end >= len
            || (self.rest(node, kind, shown.end..len, state, &mut content)?).is_some();
        Ok(ends.then_some(content))
    }

    /// Adds children that are left out. Returns the state after them; `None` as for
    /// [`node`](Self::node).
    fn rest(
        &mut self,
        node: &Node,
        kind: Symbol,
        range: Range<usize>,
        state: Option<u32>,
        content: &mut Vec<Rc<FitNode>>,
    ) -> Result<Option<u32>, EditError> {
        let child = |index| {
            let child = node.children().get(index);
            child.and_then(|child| self.view.node(child))
        };
        let number = |index| child(index).and_then(|child| self.number(child));
        let (Some(before), Some(first)) = (state, number(range.start)) else {
            return Ok(None);
        };
        let mut kinds: Vec<(Symbol, usize)> = Vec::new();
        if self.deep || range.len() <= SHORT {
            for index in range.clone() {
                let Some(child) = child(index) else { continue };
                (self.visit)(child)?;
                match (self.number(child), kinds.last_mut()) {
                    (Some(kind), Some((last, count))) if *last == kind => *count += 1,
                    (Some(kind), _) => kinds.push((kind, 1)),
                    (None, _) => return Ok(None),
                }
            }
        }
        let after = match kinds.is_empty() {
            // Read backwards from the end, where it does not matter what was before.
            true => self.fit.schema.state_at(kind, range.end, number),
            false => kinds.iter().try_fold(before, |state, &(child, count)| {
                (0..count).try_fold(state, |state, _| self.fit.after_kind(kind, state, child))
            }),
        };
        let Some(after) = after else {
            return Ok(None);
        };
        self.children
            .insert(node.id().clone(), node.children().clone());
        let rest = FitRest {
            parent: node.id().clone(),
            range,
            first,
            before,
            after,
            of: kind,
            kinds,
        };
        content.push(FitNode::rest(kind, rest));
        Ok(Some(after))
    }

    /// The parts of a line of text. `None` as for [`node`](Self::node).
    fn line(&self, block: &Node) -> Result<Option<Vec<Rc<FitNode>>>, EditError> {
        let mut parts = Vec::new();
        let is_code = (self.number(block)).is_some_and(|kind| self.fit.schema.is_code(kind));
        for node in self.view.children(block.id()) {
            (self.visit)(node)?;
            let known = self.number(node).filter(|_| node.children().is_empty());
            let Some(kind) = known else {
                return Ok(None);
            };
            let attributes = node.attributes().clone();
            if is_atom(self.fit, block, node) {
                parts.push(FitNode::empty(kind, Some(node.id().clone()), attributes));
                continue;
            }
            let marks: Vec<Mark> = node.marks().iter().cloned().collect();
            let text: Vec<char> = node.text().chars().collect();
            let Some(texts) = parts_of(&text, &marks, is_code) else {
                return Ok(None);
            };
            parts.extend(texts.into_iter().map(|(start, text)| {
                let origin = Some((node.id().clone(), start));
                FitNode::text(kind, attributes.clone(), FitText { origin, ..text })
            }));
        }
        Ok(Some(parts))
    }
}

/// How many marks the parts of one text may have in sum.
const MOST_MARKS: usize = 1 << 17;

/// The parts of a text whose characters are of one class and have the same marks, with the offset
/// of each. `None` if these are too many marks: each part has all marks over it.
fn parts_of(text: &[char], marks: &[Mark], is_code: bool) -> Option<Vec<(usize, FitText)>> {
    let class = |char: char| match char {
        OBJECT if !is_code => 1,
        '\n' if !is_code => 2,
        _ => 0,
    };
    let ranges = marks.iter().filter_map(|mark| mark.range.as_ref());
    let mut edges: BTreeSet<usize> = ranges.flat_map(|range| [range.start, range.end]).collect();
    for (nth, pair) in text.windows(2).enumerate() {
        if class(pair[0]) != class(pair[1]) {
            edges.insert(nth + 1);
        }
    }
    edges.extend([0, text.len()]);
    let edges: Vec<usize> = edges.into_iter().filter(|at| *at <= text.len()).collect();
    let mut parts = Vec::new();
    let (mut ahead, mut open, mut sum) = (0, Vec::new(), 0);
    for edge in edges.windows(2) {
        let (start, end) = (edge[0], edge[1]);
        // They are sorted by their starts.
        let range = |mark: &Mark| mark.range.clone().unwrap_or(0..0);
        while marks.get(ahead).is_some_and(|mark| range(mark).start < end) {
            open.push(&marks[ahead]);
            ahead += 1;
        }
        open.retain(|mark: &&Mark| range(mark).end > start);
        sum += open.len();
        if sum > MOST_MARKS {
            return None;
        }
        let within = open.iter().map(|mark| Mark {
            range: Some(0..end - start),
            ..(*mark).clone()
        });
        let part = FitText {
            text: text[start..end].to_vec(),
            marks: within.collect(),
            origin: None,
            special: class(text[start]) > 0,
        };
        parts.push((start, part));
    }
    Some(parts)
}

impl Fit<'_> {
    /// A described node as a part of a tree. `None` if it is of an unknown type, or has text beside
    /// what a tree can have.
    pub(super) fn spec(self, spec: NodeSpec) -> Option<Rc<FitNode>> {
        let kind = self.schema.number_of(spec.kind())?;
        if !spec.text().is_empty() {
            return None;
        }
        let attributes = spec.attributes().clone();
        if self.schema.is_empty_type(kind) {
            return Some(FitNode::empty(kind, None, attributes));
        }
        let is_line = self.schema.is_text_block(kind);
        let mut content = Vec::new();
        for child in spec.into_children() {
            match is_line {
                true => content.extend(self.inline_spec(child, Some(kind))?),
                false => content.push(self.spec(child)?),
            }
        }
        Some(FitNode::block(kind, None, attributes, content))
    }

    /// A described node of a line of text, in a type of text block. `None` as for
    /// [`spec`](Self::spec), and if it has children.
    pub(super) fn inline_spec(
        self,
        spec: NodeSpec,
        block: Option<Symbol>,
    ) -> Option<Vec<Rc<FitNode>>> {
        let kind = self.schema.number_of(spec.kind())?;
        let is_code = block.is_some_and(|block| self.schema.is_code(block));
        let attributes = spec.attributes().clone();
        if !self.schema.is_inline(kind) || spec.len() > 1 {
            return None;
        }
        // As in the document: a leaf, or the blank text of a block.
        let of_block = block.and_then(|block| self.text_kind(block));
        let is_blank = || attributes.is_empty() && of_block == Some(kind);
        if spec.text().is_empty() && !(self.schema.has_text(kind) && is_blank()) {
            return Some(vec![FitNode::empty(kind, None, attributes)]);
        }
        if !self.schema.has_text(kind) {
            return None;
        }
        let text: Vec<char> = spec.text().chars().collect();
        let len = text.len();
        let marks = spec.marks().iter().map(|mark| Mark {
            range: Some(mark.range.clone().unwrap_or(0..len)),
            ..mark.clone()
        });
        let mut marks: Vec<Mark> = marks.collect();
        marks.sort_by_key(|mark| mark.range.as_ref().map(|range| range.start));
        let parts = parts_of(&text, &marks, is_code)?.into_iter();
        Some(
            parts
                .map(|(_, text)| FitNode::text(kind, attributes.clone(), text))
                .collect(),
        )
    }
}
