//! The steps that lead from one version of a document to another.
//!
//! Only the nodes that the changes name, and their ancestors, can differ. From the root on, the
//! children of both versions are compared by their ids, and the children that both have in turn.
//! The children of one node that come and go are replaced one by one where the schema allows what
//! is in between, and at once otherwise. All positions are those of the version before, because the
//! last step in the document is the first one.

mod between;
mod edit;
mod tokens;
mod window;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use doclock::{
    NodeId,
    document::{Change, Mark, Node, Sizes, Snapshot, Value, View, ascending},
};
use serde_json::Map;
use smol_str::SmolStr;

use super::names::ProseMirrorContent::{self, Blocks, Code, Leaf, Text};
use super::names::TypeMapping;
use super::positions::{Positions, content_of, has_descriptions, misshapen};
use super::write::{ProseMirrorWriter, TOP};
use super::{ProseMirrorOptions, StepError};
use crate::steps::step;
use between::ChildrenBetween;
use edit::{JsonSlice, StepEdit};
use tokens::{Token, TokenTable};
use window::{Window, cuts, part_of, windows};

/// The most levels of nodes that are compared.
const DEEPEST: usize = 128;

const CONTENT: &str = "it has content that its type does not have in ProseMirror";
const NO_TYPE: &str = "the names have no such type there";
const TOO_DEEP: &str = "it is nested too deep";

pub(super) fn steps(
    before: &Snapshot,
    after: &Snapshot,
    changes: &[Change],
    root: &NodeId,
    options: &ProseMirrorOptions,
) -> Result<Vec<Value>, StepError> {
    let sizes = counted(before, root, options)?;
    counted(after, root, options)?;
    let mut difference = Difference {
        before,
        after,
        options,
        root,
        sizes,
        changed: changed_children(before, root, changes),
        windows: windows(changes),
        table: TokenTable::default(),
    };
    let edits = difference.of_root(root)?;
    Ok(edits.into_iter().map(StepEdit::into_json).collect())
}

/// The sizes of the nodes under the root, all of which have a counterpart in ProseMirror.
fn counted(
    view: &Snapshot,
    root: &NodeId,
    options: &ProseMirrorOptions,
) -> Result<Arc<Sizes>, StepError> {
    let names = &options.names;
    let positions = Positions::new(view, names, root, None)?;
    let sizes = view.measured(root, names);
    if sizes.content(root).is_none() {
        match positions.resolve(usize::MAX) {
            // It has text.
            Ok(_) | Err(StepError::OutOfRange { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sizes)
}

/// The children that changed or have a changed descendant, by their parent, under the root.
fn changed_children(
    view: &Snapshot,
    root: &NodeId,
    changes: &[Change],
) -> HashMap<NodeId, Vec<NodeId>> {
    let mut named = Vec::new();
    for change in changes {
        change.each_stored_node(|id| named.push(id), |_| {});
    }
    // Whether each of the nodes is under the root.
    let mut known = HashMap::from([(root, true)]);
    let mut changed: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
    for id in named {
        let mut path = Vec::new();
        let mut next = view.node(id);
        while let Some(node) = next.filter(|node| !known.contains_key(node.id())) {
            step();
            path.push(node);
            next = node.parent().and_then(|parent| view.node(parent));
        }
        let is_under = next.is_some_and(|node| known.get(node.id()) == Some(&true));
        known.extend(path.iter().map(|node| (node.id(), is_under)));
        for node in path.into_iter().filter(|_| is_under) {
            let parent = node.parent().cloned();
            changed
                .entry(parent.unwrap_or_else(|| root.clone()))
                .or_default()
                .push(node.id().clone());
        }
    }
    changed
}

type StepResult<T> = Result<T, StepError>;

/// The tokens of two parts of a line, and the position before them.
type ChangedParts = (Vec<Token>, Vec<Token>, usize);

struct Difference<'v> {
    before: &'v Snapshot,
    after: &'v Snapshot,
    options: &'v ProseMirrorOptions,
    root: &'v NodeId,
    /// The sizes in the version before.
    sizes: Arc<Sizes>,
    changed: HashMap<NodeId, Vec<NodeId>>,
    /// What the changes replace of each text that they keep.
    windows: HashMap<NodeId, Option<Window>>,
    table: TokenTable,
}

/// The edits within one node.
#[derive(Default)]
struct Edits {
    /// Those of the types and attributes of nodes. They keep all positions, and are made first.
    of_nodes: Vec<StepEdit>,
    /// The others, each with the position at which it begins.
    of_content: Vec<(usize, Vec<StepEdit>)>,
}

/// What the edits make of the children of one node.
struct OfChildren {
    edits: Edits,
    /// Whether they keep the number of the children and their types.
    keeps_types: bool,
}

/// A child that both versions have.
struct Kept {
    index: usize,
    is_retyped: bool,
    edits: Edits,
}

/// Children of one node that are replaced by others.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    before: Range<usize>,
    after: Range<usize>,
}

impl Edits {
    fn append(&mut self, mut other: Self) {
        self.of_nodes.append(&mut other.of_nodes);
        self.of_content.append(&mut other.of_content);
    }

    fn cost(&self) -> usize {
        let others = self.of_content.iter().flat_map(|(_, edits)| edits);
        self.of_nodes.iter().chain(others).map(StepEdit::cost).sum()
    }

    /// In the order in which they are made.
    fn ordered(mut self) -> Vec<StepEdit> {
        // Of two at one position, the later one replaces what is behind it.
        self.of_content.reverse();
        let position = |(position, _): &(usize, Vec<StepEdit>)| std::cmp::Reverse(*position);
        self.of_content.sort_by_key(position);
        let others = self.of_content.into_iter().flat_map(|(_, edits)| edits);
        self.of_nodes.into_iter().chain(others).collect()
    }
}

impl<'v> Difference<'v> {
    fn of_root(&mut self, root: &NodeId) -> StepResult<Vec<StepEdit>> {
        let (Some(before), Some(after)) = (self.before.node(root), self.after.node(root)) else {
            return Ok(Vec::new());
        };
        let (kind, attributes) = self.head(self.before, before)?;
        let (kind_after, attributes_after) = self.head(self.after, after)?;
        if kind != kind_after {
            return Err(misshapen(
                after,
                "a step cannot change the type of the document",
            ));
        }
        let mut edits = Edits::default();
        for (name, value) in attribute_changes(&attributes, &attributes_after) {
            let value = value.unwrap_or_default();
            edits.of_nodes.push(StepEdit::OfDocument { name, value });
        }
        edits.append(match self.content(before)? {
            Blocks => self.children(before, after, 0, 0)?.edits,
            _ => self.line(before, after, 0)?,
        });
        Ok(edits.ordered())
    }

    /// The edits of the children of a node, whose content begins at a position.
    fn children(
        &mut self,
        before: &'v Node,
        after: &'v Node,
        start: usize,
        level: usize,
    ) -> StepResult<OfChildren> {
        step();
        if level > DEEPEST {
            return Err(misshapen(before, TOO_DEEP));
        }
        let (mut parts, pairs) = compared(before, after);
        let mut kept = BTreeMap::new();
        for id in self.changed.get(before.id()).cloned().unwrap_or_default() {
            let index = self.before.index_in_parent(&id);
            let Some((index, of_after)) = index.and_then(|at| Some((at, pairs.get(at)?))) else {
                continue;
            };
            let (Some(one), Some(other)) = (self.before.node(&id), self.after.node(&id)) else {
                continue;
            };
            match self.child((before, index), (one, other), start, level)? {
                Some((is_retyped, edits)) => {
                    let child = Kept {
                        index: of_after,
                        is_retyped,
                        edits,
                    };
                    kept.insert(index, child);
                }
                None => parts.push(Part {
                    before: index..index + 1,
                    after: of_after..of_after + 1,
                }),
            }
        }
        let mut parts = joined(parts);
        let retyped = kept.values().filter(|child| child.is_retyped).count();
        if parts.len() + retyped > 1 && !self.is_valid_between(before, after, &parts, &kept) {
            parts = vec![all_of(&parts, &mut kept)];
        }
        let keeps_types = parts.is_empty() && retyped == 0;
        let mut edits = Edits::default();
        for part in parts {
            edits.append(self.part(before, after, start, part, &mut kept)?);
        }
        kept.into_values()
            .for_each(|child| edits.append(child.edits));
        Ok(OfChildren { edits, keeps_types })
    }

    /// The edits of a child that both versions have, and whether it gets another type. `None` if it
    /// has to be replaced.
    fn child(
        &mut self,
        (parent, index): (&Node, usize),
        (before, after): (&'v Node, &'v Node),
        start: usize,
        level: usize,
    ) -> StepResult<Option<(bool, Edits)>> {
        let position = self.position(parent, index, start)?;
        let end = self.position(parent, index + 1, start)?;
        let (kind, attributes) = self.head(self.before, before)?;
        let (kind_after, attributes_after) = self.head(self.after, after)?;
        let is_retyped = kind != kind_after;
        let names = &self.options.names;
        if is_retyped && (names.has_own_types(&kind) || names.has_own_types(&kind_after)) {
            // Its children get other types, too.
            return Ok(None);
        }
        let mut edits = match (self.content(before)?, self.content(after)?) {
            (Blocks, Blocks) => {
                let inner = self.children(before, after, position + 1, level + 1)?;
                if is_retyped && !inner.keeps_types {
                    return Ok(None);
                }
                inner.edits
            }
            (Text | Code, Text | Code) => {
                let inner = self.line(before, after, position + 1)?;
                if is_retyped && !inner.of_content.is_empty() {
                    return Ok(None);
                }
                inner
            }
            (Leaf, Leaf) if !is_retyped && attributes == attributes_after => {
                let is_empty = |it: &Node| it.children().is_empty() && it.text().is_empty();
                let with_content = [before, after].into_iter().find(|it| !is_empty(it));
                match with_content {
                    Some(node) => return Err(misshapen(node, CONTENT)),
                    None => Edits::default(),
                }
            }
            _ => return Ok(None),
        };
        let changes = attribute_changes(&attributes, &attributes_after);
        // The value that an absent attribute has is known to ProseMirror.
        if is_retyped || changes.iter().any(|(_, value)| value.is_none()) {
            let slice = JsonSlice::of(TokenTable::empty(&kind_after, attributes_after));
            edits.of_nodes.push(StepEdit::Around {
                range: position..end,
                kept: position + 1..end - 1,
                insert: 1,
                slice,
            });
        } else {
            let changes = changes.into_iter();
            edits
                .of_nodes
                .extend(changes.map(|(name, value)| StepEdit::Attribute {
                    position,
                    name,
                    value: value.unwrap_or_default(),
                }));
        }
        Ok(Some((is_retyped, edits)))
    }

    /// The edits of a line of text, which begins at a position.
    fn line(&mut self, before: &'v Node, after: &'v Node, start: usize) -> StepResult<Edits> {
        let (one, other, start) = match self.changed_parts(before, after, start)? {
            Some(parts) => parts,
            None => {
                let one = self.tokens(self.before, [before])?;
                let other = self.tokens(self.after, [after])?;
                let inner = |tokens: &[Token]| tokens[1..tokens.len().max(2) - 1].to_vec();
                (inner(&one), inner(&other), start)
            }
        };
        let mut edits = Edits::default();
        if one == other {
            return Ok(edits);
        }
        let of_marks = self.table.marks(&one, &other, start);
        let made = of_marks.unwrap_or_else(|| {
            let splice = self.table.splice(&one, &other, start);
            splice.into_iter().collect()
        });
        edits.of_content.push((start, made));
        Ok(edits)
    }

    /// The tokens of what changes replace in a line, and the position before them, if the line is
    /// one text that they keep. The rest of a long text is not read.
    fn changed_parts(
        &mut self,
        before: &'v Node,
        after: &'v Node,
        start: usize,
    ) -> StepResult<Option<ChangedParts>> {
        let names = &self.options.names;
        let only = |view: &'v Snapshot, block: &'v Node| {
            let mut texts = view.children(block.id());
            let text = texts.next().filter(|text| names.is_text(text))?;
            (texts.next().is_none() && !has_descriptions(text, names)).then_some(text)
        };
        let (Some(one), Some(other)) = (only(self.before, before), only(self.after, after)) else {
            return Ok(None);
        };
        let window = self.windows.get(one.id()).and_then(Option::as_ref);
        let ranges = window.and_then(|window| window.ranges(one.text().len(), other.text().len()));
        let Some((range, range_after)) = ranges.filter(|_| one.id() == other.id()) else {
            return Ok(None);
        };
        let Ok(offset) = one.text().utf16_offset(range.start) else {
            return Ok(None);
        };
        // A mark of inline nodes that gets other characters is none of these any more.
        let is_inline = |mark: &Mark| names.inline_for(mark).is_some();
        let is_cut = cuts(one, &range, is_inline) || cuts(other, &range_after, is_inline);
        if is_cut || before.kind() != after.kind() {
            return Ok(None);
        }
        let (one, other) = (part_of(one, range), part_of(other, range_after));
        let tokens = (
            self.text_tokens(self.before, before, &one)?,
            self.text_tokens(self.after, after, &other)?,
        );
        Ok(Some((tokens.0, tokens.1, start + offset)))
    }

    /// The tokens of a text in a block.
    fn text_tokens(
        &mut self,
        view: &'v Snapshot,
        block: &Node,
        text: &Node,
    ) -> StepResult<Vec<Token>> {
        let names = &self.options.names;
        let (entry, content) = self.type_of(view, block)?;
        let writer = ProseMirrorWriter::new(view, self.options);
        let json = writer.line(text, (Some(entry), content));
        let nodes: Vec<Value> =
            serde_json::from_str(&json).map_err(|_| misshapen(block, TOO_DEEP))?;
        let mut tokens = Vec::new();
        for node in nodes {
            let added = self.table.add(node, names, &mut tokens);
            added.ok_or_else(|| misshapen(block, CONTENT))?;
        }
        Ok(tokens)
    }

    /// The edits that replace children. A changed child at one of the ends takes part if that
    /// replaces less: it was split or joined.
    fn part(
        &mut self,
        before: &'v Node,
        after: &'v Node,
        start: usize,
        part: Part,
        kept: &mut BTreeMap<usize, Kept>,
    ) -> StepResult<Edits> {
        let beside =
            |index: Option<usize>| index.filter(|at| kept.get(at).is_some_and(|it| !it.is_retyped));
        let left = beside(part.before.start.checked_sub(1));
        let right = beside(Some(part.before.end));
        let mut best: Option<(usize, Part, Option<StepEdit>)> = None;
        for (with_left, with_right) in [(false, false), (true, false), (false, true), (true, true)]
        {
            if with_left && left.is_none() || with_right && right.is_none() {
                continue;
            }
            let (more, behind) = (usize::from(with_left), usize::from(with_right));
            let wider = Part {
                before: part.before.start - more..part.before.end + behind,
                after: part.after.start - more..part.after.end + behind,
            };
            let edit = self.replacement(before, after, start, &wider)?;
            let apart = [left.filter(|_| !with_left), right.filter(|_| !with_right)];
            let apart = apart.into_iter().flatten().map(|at| kept[&at].edits.cost());
            let cost = edit.as_ref().map_or(0, StepEdit::cost) + apart.sum::<usize>();
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, wider, edit));
            }
        }
        let mut edits = Edits::default();
        if let Some((_, wider, edit)) = best {
            kept.retain(|index, _| !wider.before.contains(index));
            let edit = edit.map(|edit| (edit.start(), vec![edit]));
            edits.of_content.extend(edit);
        }
        Ok(edits)
    }

    /// The edit that replaces some children.
    fn replacement(
        &mut self,
        before: &'v Node,
        after: &'v Node,
        start: usize,
        part: &Part,
    ) -> StepResult<Option<StepEdit>> {
        let children = |view: &'v Snapshot, node: &'v Node, range: &Range<usize>| {
            let ids = node.children().range(range.clone());
            ids.filter_map(|id| view.node(id)).collect::<Vec<_>>()
        };
        let position = self.position(before, part.before.start, start)?;
        if part.after.is_empty() {
            // What is deleted is not read.
            let range = position..self.position(before, part.before.end, start)?;
            let slice = JsonSlice::default();
            return Ok(Some(StepEdit::Replace { range, slice }));
        }
        let one = self.tokens(self.before, children(self.before, before, &part.before))?;
        let other = self.tokens(self.after, children(self.after, after, &part.after))?;
        Ok(self.table.replacement(&one, &other, position))
    }

    /// Whether the schema allows what is between the edits of the children of one node.
    fn is_valid_between(
        &self,
        before: &Node,
        after: &Node,
        parts: &[Part],
        kept: &BTreeMap<usize, Kept>,
    ) -> bool {
        let Some(schema) = self.options.schema.as_deref() else {
            return false;
        };
        let child = |view: &'v Snapshot, id: &NodeId| view.node(id).map_or("", Node::kind);
        let now = before.children().iter().map(|id| child(self.before, id));
        let now: Vec<&str> = now.collect();
        let then = |range: Range<usize>| {
            let ids = after.children().range(range);
            ids.map(|id| child(self.after, id))
        };
        let Some(mut now) = ChildrenBetween::new(schema, after.kind(), now.into_iter()) else {
            return false;
        };
        let mut retyped = kept.iter().filter(|(_, child)| child.is_retyped);
        let are_valid = retyped.all(|(&index, child)| {
            let kind = then(child.index..child.index + 1).next();
            kind.is_some_and(|kind| now.retype(index, kind).is_some())
        });
        are_valid
            && parts.iter().rev().all(|part| {
                now.replace(part.before.clone(), then(part.after.clone()))
                    .is_some()
            })
    }

    // --- Nodes ---

    fn content(&self, node: &Node) -> StepResult<ProseMirrorContent> {
        content_of(node, &self.options.names)
    }

    /// The type of a node in ProseMirror, which can depend on its parent.
    fn type_of(
        &self,
        view: &Snapshot,
        node: &Node,
    ) -> StepResult<(&'v TypeMapping, ProseMirrorContent)> {
        let names = &self.options.names;
        let found = names.node_under(view, node, self.root);
        found.ok_or_else(|| misshapen(node, NO_TYPE))
    }

    /// The type and the attributes of a node in ProseMirror.
    fn head(&self, view: &'v Snapshot, node: &Node) -> StepResult<(SmolStr, Map<String, Value>)> {
        let (entry, _) = self.type_of(view, node)?;
        let writer = ProseMirrorWriter::new(view, self.options);
        let (attributes, _) = writer.attributes(entry, node.attributes());
        Ok((entry.prosemirror.clone(), attributes))
    }

    /// The tokens of some nodes.
    fn tokens(
        &mut self,
        view: &'v Snapshot,
        nodes: impl IntoIterator<Item = &'v Node>,
    ) -> StepResult<Vec<Token>> {
        let mut tokens = Vec::new();
        for node in nodes {
            self.type_of(view, node)?;
            let parent = node.parent().filter(|_| node.id() != self.root);
            let parent = parent.and_then(|parent| view.node(parent));
            let within = parent
                .map(|parent| self.type_of(view, parent))
                .transpose()?;
            let within = within.map_or(TOP, |(entry, content)| (Some(entry), content));
            let json = ProseMirrorWriter::new(view, self.options).written_in(node, within);
            let json = serde_json::from_str(&json).map_err(|_| misshapen(node, TOO_DEEP))?;
            let added = self.table.add(json, &self.options.names, &mut tokens);
            added.ok_or_else(|| misshapen(node, CONTENT))?;
        }
        Ok(tokens)
    }

    /// The position before a child of a node whose content begins at `start`.
    fn position(&self, node: &Node, index: usize, start: usize) -> StepResult<usize> {
        let before = self.sizes.before(node.id(), index);
        let before = before.ok_or_else(|| misshapen(node, "its size is unknown"))?;
        Ok(start + before)
    }
}

/// The attributes that differ, each with its new value; `None` if it is absent.
fn attribute_changes(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Vec<(String, Option<Value>)> {
    let set = after
        .iter()
        .filter(|(name, value)| before.get(*name) != Some(value));
    let set = set.map(|(name, value)| (name.clone(), Some(value.clone())));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    set.chain(gone.map(|name| (name.clone(), None))).collect()
}

/// The indices of children in both versions.
struct Pairs {
    /// How many children are the same at the start, and from which index on at the end.
    start: usize,
    end: usize,
    len_before: usize,
    len_after: usize,
    between: HashMap<usize, usize>,
}

impl Pairs {
    /// The index after the changes of a child that keeps its place among its siblings.
    fn get(&self, before: usize) -> Option<usize> {
        match before {
            at if at < self.start => Some(at),
            at if at >= self.end => Some(self.len_after - (self.len_before - at)),
            at => self.between.get(&at).copied(),
        }
    }
}

/// The children that come and go, and the others.
fn compared(before: &Node, after: &Node) -> (Vec<Part>, Pairs) {
    let (before, after) = (before.children(), after.children());
    let (start, behind) = before.common_ends(after);
    let (len_before, len_after) = (before.len(), after.len());
    let (end, end_after) = (len_before - behind, len_after - behind);
    let indices: HashMap<&NodeId, usize> = before.range(start..end).zip(start..).collect();
    let others = after.range(start..end_after).zip(start..);
    let common = others.filter_map(|(id, index)| {
        step();
        Some((*indices.get(id)?, index))
    });
    let (order, indices): (Vec<usize>, Vec<usize>) = common.unzip();
    let stays = ascending(&order);
    let common = order.into_iter().zip(indices).zip(stays);
    let common: Vec<_> = common
        .filter_map(|(pair, stays)| stays.then_some(pair))
        .collect();
    let mut parts = Vec::new();
    let (mut from, mut from_after) = (start, start);
    for &(index, index_after) in common.iter().chain(&[(end, end_after)]) {
        if index > from || index_after > from_after {
            parts.push(Part {
                before: from..index,
                after: from_after..index_after,
            });
        }
        (from, from_after) = (index + 1, index_after + 1);
    }
    let pairs = Pairs {
        start,
        end,
        len_before,
        len_after,
        between: common.into_iter().collect(),
    };
    (parts, pairs)
}

/// The parts in order, and one for those that touch each other.
fn joined(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_by_key(|part| (part.before.start, part.before.end));
    let mut joined: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        match joined.last_mut() {
            Some(last) if last.before.end == part.before.start => {
                last.before.end = part.before.end;
                last.after.end = part.after.end;
            }
            _ => joined.push(part),
        }
    }
    joined
}

/// One part for all parts and all children with another type.
fn all_of(parts: &[Part], kept: &mut BTreeMap<usize, Kept>) -> Part {
    let retyped = kept.iter().filter(|(_, child)| child.is_retyped);
    let retyped = retyped.map(|(&index, child)| Part {
        before: index..index + 1,
        after: child.index..child.index + 1,
    });
    let all: Vec<Part> = parts.iter().cloned().chain(retyped).collect();
    let ends = |range: fn(&Part) -> &Range<usize>| {
        let start = all.iter().map(|part| range(part).start).min();
        let end = all.iter().map(|part| range(part).end).max();
        start.unwrap_or_default()..end.unwrap_or_default()
    };
    let part = Part {
        before: ends(|part| &part.before),
        after: ends(|part| &part.after),
    };
    kept.retain(|index, _| !part.before.contains(index));
    part
}

#[cfg(test)]
mod tests;
