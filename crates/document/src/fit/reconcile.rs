//! Makes the changes that lead from the document to the tree that an edit has planned.
//!
//! Nodes keep their ids. A node that is in the tree twice is split, a text whose parts became one
//! with those of another is joined, and what the tree no longer has is deleted at the end.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use super::build::FitDocument;
use super::node::{FitBody, FitNode, FitRest, FitText};
use super::{Fit, FitPlace};
use crate::block_edits::BlockEdits;
use crate::schema::Symbol;
use crate::{
    Attributes, EditError, Mark, NodeId, NodeSpec, Position, Selection, SplitPoint, TextSelection,
    Value, View, plan,
};

/// A part of a new text: characters of one text of the document, or new ones.
#[derive(Clone, Debug)]
struct Segment {
    origin: Option<(NodeId, usize)>,
    text: Vec<char>,
    marks: Vec<Mark>,
}

/// A text of the tree: what becomes one node.
#[derive(Debug)]
struct Leaf {
    kind: Symbol,
    attributes: Attributes,
    segments: Vec<Segment>,
}

/// A node in the line of a text block.
#[derive(Debug)]
enum Inline {
    Text(Leaf),
    Atom(Rc<FitNode>),
}

/// What the reconciliation knows of the document before the edit.
#[derive(Default)]
struct Before {
    blocks: HashMap<NodeId, Rc<FitNode>>,
    /// The nodes of the line of each text block, in order.
    lines: BTreeMap<NodeId, Vec<NodeId>>,
}

struct Reconciler<'e, 's, E> {
    on: &'e mut E,
    fit: Fit<'s>,
    before: Before,
    children: HashMap<NodeId, crate::Children>,
    /// The ids that the tree uses, and those that are deleted.
    used: HashSet<NodeId>,
    /// The nodes with children that the tree uses without looking at them.
    unread: HashSet<NodeId>,
    gone: HashSet<NodeId>,
    /// Where the parts of texts are now, by where they were.
    parts: HashMap<(NodeId, usize), NodeId>,
    /// The ids that nodes of the tree have already taken.
    taken: HashSet<NodeId>,
    /// The text blocks whose line stays as it is, with the blank texts in it.
    kept: HashSet<NodeId>,
}

impl FitDocument {
    /// Makes the changes that lead to a tree, and returns where a position of it is.
    pub(super) fn reconcile<E: BlockEdits>(
        &self,
        on: &mut E,
        fit: Fit<'_>,
        tree: &Rc<FitNode>,
        caret: usize,
        moves: bool,
    ) -> Result<(), EditError> {
        let mut before = Before::default();
        remember(on, fit, &self.root, &mut before);
        let mut reconciler = Reconciler {
            on,
            fit,
            before,
            children: self.children.clone(),
            used: HashSet::new(),
            unread: HashSet::new(),
            gone: HashSet::new(),
            parts: HashMap::new(),
            taken: HashSet::new(),
            kept: HashSet::new(),
        };
        reconciler.run(&self.id, tree, caret, moves)
    }
}

fn remember<V: View>(view: &V, fit: Fit<'_>, node: &Rc<FitNode>, before: &mut Before) {
    let FitBody::Blocks(content) = &node.body else {
        return;
    };
    if let Some(id) = &node.id {
        before.blocks.insert(id.clone(), node.clone());
        if fit.is_text_block(node) {
            let texts = view.children(id).map(|child| child.id().clone());
            before.lines.insert(id.clone(), texts.collect());
        }
    }
    for child in content {
        remember(view, fit, child, before);
    }
}

impl<E: BlockEdits> Reconciler<'_, '_, E> {
    fn run(
        &mut self,
        root: &NodeId,
        tree: &Rc<FitNode>,
        caret: usize,
        moves: bool,
    ) -> Result<(), EditError> {
        let mut lines = Vec::new();
        self.collect(tree, &mut lines);
        let unused = |id: &&NodeId| !self.used.contains(*id);
        let blocks = self.before.blocks.keys().filter(unused).cloned();
        let atoms = self.atoms_before();
        let gone = blocks.chain(atoms.iter().filter(unused).cloned());
        self.gone = gone.collect();
        self.cut_texts(&mut lines)?;
        let selected = moves || self.is_selected();
        let mut lines = lines.into_iter();
        self.taken.insert(root.clone());
        self.settle(root, tree, &mut lines)?;
        self.delete()?;
        if selected && let Some(at) = self.position(root, tree, caret) {
            self.on.select_text(Selection::new(at.clone(), at))?;
        }
        Ok(())
    }

    /// Whether an end of a selected text is in a node that goes.
    fn is_selected(&self) -> bool {
        let goes = |end: &Position| {
            let mut around = self.on.ancestors(&end.node_id);
            self.gone.contains(&end.node_id) || around.any(|node| self.gone.contains(node.id()))
        };
        match self.on.selected() {
            Some(Selection::Text(TextSelection { anchor, focus, .. })) => {
                goes(anchor) || goes(focus)
            }
            _ => false,
        }
    }

    /// Collects the ids that the tree uses, and the lines of its text blocks.
    fn collect(&mut self, node: &Rc<FitNode>, lines: &mut Vec<Vec<Inline>>) {
        let id = node.id.clone().filter(|id| self.used.insert(id.clone()));
        if let FitBody::Rest(rest) = &node.body {
            self.unread.insert(rest.parent.clone());
        }
        let FitBody::Blocks(content) = &node.body else {
            return;
        };
        if self.fit.schema.is_text_block(node.kind) {
            if let Some(id) = id.filter(|id| self.has_same_line(id, content)) {
                self.used
                    .extend(self.before.lines.get(&id).into_iter().flatten().cloned());
                self.kept.insert(id);
                return lines.push(Vec::new());
            }
            let line = self.line(node, content);
            for inline in &line {
                match inline {
                    Inline::Atom(atom) => self.used.extend(atom.id.clone()),
                    Inline::Text(_) => {}
                }
            }
            lines.push(line);
            return;
        }
        for child in content {
            self.collect(child, lines);
        }
    }

    /// Whether a text block had this line before the edit.
    fn has_same_line(&self, id: &NodeId, line: &[Rc<FitNode>]) -> bool {
        let before = self.before.blocks.get(id);
        before.is_some_and(|block| {
            let parts = block.content().iter().zip(line);
            block.content().len() == line.len()
                && parts
                    .into_iter()
                    .all(|(one, other)| Rc::ptr_eq(one, other) || one == other)
        })
    }

    /// The nodes without content that were in the tree.
    fn atoms_before(&self) -> Vec<NodeId> {
        let blocks = self.before.blocks.values();
        let children = blocks.flat_map(|block| block.content());
        let atoms = children.filter(|child| child.body == FitBody::Empty);
        atoms.filter_map(|atom| atom.id.clone()).collect()
    }

    /// The texts of a line, joined where they meet.
    fn line(&self, block: &FitNode, content: &[Rc<FitNode>]) -> Vec<Inline> {
        let mut line: Vec<Inline> = Vec::new();
        for part in content {
            let FitBody::Text(text) = &part.body else {
                line.push(Inline::Atom(part.clone()));
                continue;
            };
            if let Some(Inline::Text(leaf)) = line.last_mut()
                && leaf.kind == part.kind
                && leaf.attributes == part.attributes
                && !self.were_apart(block, leaf, text)
            {
                leaf.push(text);
                continue;
            }
            let mut leaf = Leaf {
                kind: part.kind,
                attributes: part.attributes.clone(),
                segments: Vec::new(),
            };
            leaf.push(text);
            line.push(Inline::Text(leaf));
        }
        line
    }

    /// Whether two texts were neighbours in the same block, and may stay so.
    fn were_apart(&self, block: &FitNode, leaf: &Leaf, next: &FitText) -> bool {
        let (Some(last), Some((next_id, 0))) = (leaf.segments.last(), &next.origin) else {
            return false;
        };
        let Some((id, start)) = &last.origin else {
            return false;
        };
        let len = self.on.node(id).map(|node| node.text().len());
        let at_end = len == Some(start + last.text.len());
        at_end
            && block.id.as_ref() == self.on.parent(id)
            && self.on.next_sibling(id).map(crate::Node::id) == Some(next_id)
    }

    /// Cuts the texts of the document into the parts that the tree has, and deletes the others.
    fn cut_texts(&mut self, lines: &mut [Vec<Inline>]) -> Result<(), EditError> {
        let mut uses: BTreeMap<NodeId, Vec<(usize, usize, usize, usize)>> = BTreeMap::new();
        for (line, inlines) in lines.iter_mut().enumerate() {
            for (nth, inline) in inlines.iter_mut().enumerate() {
                let Inline::Text(leaf) = inline else { continue };
                for (segment, part) in leaf.segments.iter_mut().enumerate() {
                    let Some((id, start)) = part.origin.clone() else {
                        continue;
                    };
                    let of = uses.entry(id).or_default();
                    let end = start + part.text.len();
                    let in_order = of.last().is_none_or(|&(.., before)| before <= start);
                    match in_order {
                        true => of.push((line, nth, segment, end)),
                        false => part.origin = None,
                    }
                }
            }
        }
        for (id, of) in &uses {
            self.used.insert(id.clone());
            let mut end = plan::find(self.on, id)?.text().len();
            for (position, &(line, nth, segment, part_end)) in of.iter().enumerate().rev() {
                let Some(Inline::Text(leaf)) = lines[line].get_mut(nth) else {
                    continue;
                };
                let part = &mut leaf.segments[segment];
                let start = part_end - part.text.len();
                self.parts.insert((id.clone(), start), id.clone());
                self.delete_text(id, part_end, end)?;
                end = start;
                let same_leaf = position.checked_sub(1).and_then(|before| of.get(before));
                let is_first = same_leaf.is_none();
                let stays = same_leaf.is_some_and(|&(before_line, before_nth, before, _)| {
                    let new_between = before + 1..segment;
                    (before_line, before_nth) == (line, nth)
                        && new_between
                            .clone()
                            .all(|nth| leaf.segments[nth].origin.is_none())
                });
                if is_first {
                    self.delete_text(id, 0, start)?;
                } else if !stays {
                    let at = SplitPoint {
                        text: start,
                        children: 0,
                    };
                    let right = self.on.split(id, at)?;
                    self.used.insert(right.clone());
                    // Later parts of the same node are now in the right half.
                    let later = of.get(position + 1..).unwrap_or_default();
                    let this = &of[position..=position];
                    for &(line, nth, segment, _) in this.iter().chain(later) {
                        if let Some(Inline::Text(leaf)) = lines[line].get_mut(nth)
                            && let Some((of, start)) = &mut leaf.segments[segment].origin
                            && of == id
                        {
                            *of = right.clone();
                            self.parts.insert((id.clone(), *start), right.clone());
                        }
                    }
                }
            }
        }
        // A text block that stays keeps its first text, for the caret.
        let kept: Vec<(NodeId, Vec<NodeId>)> = (self.before.lines.iter())
            .map(|(block, texts)| (block.clone(), texts.clone()))
            .collect();
        for (block, texts) in kept {
            let unused = texts.iter().filter(|id| !self.used.contains(*id));
            let unused: Vec<NodeId> = unused.cloned().collect();
            let none_used = unused.len() == texts.len();
            let blank = texts
                .first()
                .filter(|_| none_used && self.used.contains(&block));
            let blank = blank.filter(|id| self.is_text_of(&block, id)).cloned();
            for text in unused {
                if Some(&text) == blank.as_ref() {
                    let len = plan::find(self.on, &text)?.text().len();
                    self.delete_text(&text, 0, len)?;
                } else {
                    self.gone.insert(text);
                }
            }
        }
        Ok(())
    }

    /// Whether a node is a text, not another part of a line.
    fn is_text_of(&self, block: &NodeId, id: &NodeId) -> bool {
        let kind = |id: &NodeId| self.on.node(id).map(|node| node.kind().to_owned());
        let text = self.before.blocks.get(block);
        let text = text.and_then(|block| self.fit.text_kind(block.kind));
        text.is_some_and(|text| kind(id).as_deref() == Some(self.fit.schema.kind_of(text)))
    }

    fn delete_text(&mut self, id: &NodeId, start: usize, end: usize) -> Result<(), EditError> {
        match start < end {
            true => self.on.replace(id, start, end, String::new()),
            false => Ok(()),
        }
    }

    // --- Blocks ---

    /// Gives a node the content of one of the tree.
    fn settle(
        &mut self,
        id: &NodeId,
        node: &Rc<FitNode>,
        lines: &mut std::vec::IntoIter<Vec<Inline>>,
    ) -> Result<(), EditError> {
        let FitBody::Blocks(content) = &node.body else {
            return Ok(());
        };
        if self.fit.schema.is_text_block(node.kind) {
            let line = lines.next().unwrap_or_default();
            return match self.kept.contains(id) {
                true => Ok(()),
                false => self.settle_line(id, node, line),
            };
        }
        self.clear(id)?;
        let staying: HashSet<&NodeId> = content.iter().filter_map(|it| it.id.as_ref()).collect();
        let before = self
            .before
            .blocks
            .get(id)
            .map_or(&[][..], |it| it.content());
        let before = before.iter().filter_map(|it| it.id.clone());
        let leaving: HashSet<NodeId> = before.filter(|id| !staying.contains(id)).collect();
        let mut index = 0;
        let mut placed = Vec::new();
        for child in content {
            let was_here = match &child.body {
                FitBody::Rest(rest) => rest.parent == *id,
                _ => (child.id.as_ref()).is_some_and(|child| self.on.parent(child) == Some(id)),
            };
            // They go later, with what moves out of them. A new child comes before them: the node
            // may be split there.
            let leaves = |child: &NodeId| was_here && leaving.contains(child);
            while self.child_at(id, index).as_ref().is_some_and(leaves) {
                index += 1;
            }
            match &child.body {
                FitBody::Rest(rest) => {
                    self.place_rest(id, index, rest)?;
                    index += rest.range.len();
                }
                _ => {
                    let child_id = self.place(id, index, child)?;
                    placed.push((child_id, child));
                    index += 1;
                }
            }
        }
        for (child_id, child) in placed {
            self.settle(&child_id, child, lines)?;
        }
        Ok(())
    }

    fn child_at(&self, id: &NodeId, index: usize) -> Option<NodeId> {
        self.on.node(id)?.children().get(index).cloned()
    }

    fn place_rest(&mut self, id: &NodeId, index: usize, rest: &FitRest) -> Result<(), EditError> {
        let Some(children) = self.children.get(&rest.parent).cloned() else {
            return Ok(());
        };
        let last = rest.range.end - 1;
        let ends = [
            (index, rest.range.start),
            (index + rest.range.len() - 1, last),
        ];
        let mut ends = ends.into_iter();
        if ends.all(|(at, was)| self.child_at(id, at).as_ref() == children.get(was)) {
            return Ok(());
        }
        for (nth, was) in rest.range.clone().enumerate() {
            if let Some(child) = children.get(was)
                && self.child_at(id, index + nth).as_ref() != Some(child)
            {
                self.on.move_to(child, id, index + nth)?;
            }
        }
        Ok(())
    }

    /// Puts a node of the tree at a place, without its content.
    fn place(
        &mut self,
        parent: &NodeId,
        index: usize,
        node: &Rc<FitNode>,
    ) -> Result<NodeId, EditError> {
        let id = match &node.id {
            Some(id) if self.taken.insert(id.clone()) => id.clone(),
            Some(id) => self.split_off(id, node)?,
            None => return self.insert(parent, index, node),
        };
        if self.child_at(parent, index).as_ref() != Some(&id) {
            self.join_next(parent, index, &id)?;
        }
        if self.child_at(parent, index).as_ref() != Some(&id) {
            self.on.move_to(&id, parent, index)?;
        }
        self.dress(&id, node.kind, &node.attributes)?;
        Ok(id)
    }

    /// Where all of a node's next sibling moves into the node, joins the two.
    fn join_next(&mut self, parent: &NodeId, index: usize, id: &NodeId) -> Result<(), EditError> {
        let end = self.on.node(parent).map(|node| node.children().len());
        let from = self.on.parent(id).cloned();
        let Some(from) = from.filter(|from| from != parent && !self.used.contains(from)) else {
            return Ok(());
        };
        let is_first = self.child_at(&from, 0).as_ref() == Some(id);
        let is_next = self.on.next_sibling(parent).map(crate::Node::id) == Some(&from);
        match end == Some(index) && is_first && is_next {
            true => self.on.join(parent, &from),
            false => Ok(()),
        }
    }

    /// A new half of a node that the tree has twice.
    fn split_off(&mut self, id: &NodeId, half: &Rc<FitNode>) -> Result<NodeId, EditError> {
        let node = plan::find(self.on, id)?;
        let len = node.children().len();
        let first = half.content().first().and_then(|first| match &first.body {
            FitBody::Text(text) => self.parts.get(text.origin.as_ref()?).cloned(),
            FitBody::Rest(rest) => {
                let children = self.children.get(&rest.parent)?;
                children.get(rest.range.start).cloned()
            }
            _ => first.id.clone().filter(|id| !self.taken.contains(id)),
        });
        let first = first.filter(|first| self.on.parent(first) == Some(id));
        let index = first.and_then(|first| self.on.index_in_parent(&first));
        let at = SplitPoint {
            text: node.text().len(),
            children: index.unwrap_or(len),
        };
        let right = self.on.split(id, at)?;
        self.used.insert(right.clone());
        Ok(right)
    }

    fn insert(
        &mut self,
        parent: &NodeId,
        index: usize,
        node: &Rc<FitNode>,
    ) -> Result<NodeId, EditError> {
        let kind = self.fit.schema.kind_of(node.kind).clone();
        let spec = NodeSpec::new(kind).with_attributes(node.attributes.clone());
        let id = self.on.insert_node(spec, parent, index)?;
        self.taken.insert(id.clone());
        self.used.insert(id.clone());
        Ok(id)
    }

    /// Gives a node a type and attributes.
    fn dress(
        &mut self,
        id: &NodeId,
        kind: Symbol,
        attributes: &Attributes,
    ) -> Result<(), EditError> {
        let kind = self.fit.schema.kind_of(kind).clone();
        let node = plan::find(self.on, id)?;
        let gone = node
            .attributes()
            .iter()
            .filter(|(name, _)| attributes.get(name).is_none());
        let gone = gone.map(|(name, _)| (name.to_string(), Value::Null));
        let mut patch: Vec<(String, Value)> = gone.collect();
        // Most values are shared, and need no comparison.
        let set = attributes
            .iter()
            .filter(|(name, _)| node.attributes().shared(name) != attributes.shared(name));
        patch.extend(set.map(|(name, value)| (name.to_string(), value.clone())));
        if *node.kind() != *kind {
            self.on.set_kind(id, &kind)?;
        }
        match patch.is_empty() {
            true => Ok(()),
            false => self.on.patch(id, patch),
        }
    }

    // --- Lines ---

    fn settle_line(
        &mut self,
        id: &NodeId,
        block: &FitNode,
        line: Vec<Inline>,
    ) -> Result<(), EditError> {
        self.clear(id)?;
        let texts = block
            .id
            .as_ref()
            .and_then(|id| self.before.lines.get(id))
            .cloned();
        let had_text = texts.as_ref().is_some_and(|texts| !texts.is_empty());
        let blank = texts.and_then(|texts| texts.first().cloned());
        let mut blank = blank.filter(|text| {
            let blank = self.on.node(text);
            let blank = blank.is_some_and(|it| it.text().is_empty() && it.parent() == Some(id));
            blank
                && block
                    .id
                    .as_ref()
                    .is_some_and(|block| self.is_text_of(block, text))
        });
        let mut index = 0;
        for inline in line {
            match inline {
                Inline::Atom(atom) => {
                    self.place(id, index, &atom)?;
                    index += 1;
                }
                Inline::Text(leaf) => {
                    self.settle_text(id, index, leaf, &mut blank)?;
                    index += 1;
                }
            }
        }
        if let Some(blank) = blank.filter(|_| index > 0) {
            self.on.delete_node(&blank)?;
        }
        let half = index == 0 && had_text && Some(id) != block.id.as_ref();
        if half && let Some(kind) = self.fit.text_kind(block.kind) {
            let spec = NodeSpec::new(self.fit.schema.kind_of(kind).clone());
            let text = self.on.insert_node(spec, id, 0)?;
            self.used.insert(text);
        }
        Ok(())
    }

    fn settle_text(
        &mut self,
        block: &NodeId,
        index: usize,
        leaf: Leaf,
        blank: &mut Option<NodeId>,
    ) -> Result<(), EditError> {
        let mut nodes: Vec<NodeId> = Vec::new();
        for (node, _) in leaf.segments.iter().filter_map(|part| part.origin.as_ref()) {
            if !nodes.contains(node) {
                nodes.push(node.clone());
            }
        }
        let fits = |id: &NodeId| {
            let kind = self.fit.schema.kind_of(leaf.kind);
            self.on
                .node(id)
                .is_some_and(|node| *node.kind() == **kind && *node.attributes() == leaf.attributes)
        };
        if let Some(blank) = blank.take_if(|id| fits(id))
            && !nodes.contains(&blank)
        {
            nodes.insert(0, blank);
        }
        let marks = leaf.marks();
        let Some((first, others)) = nodes.split_first() else {
            let text: String = leaf.segments.iter().flat_map(|part| &part.text).collect();
            let kind = self.fit.schema.kind_of(leaf.kind).clone();
            let spec = NodeSpec::new(kind).with_attributes(leaf.attributes.clone());
            let spec = spec.with_text(text).with_marks(marks);
            let id = self.on.insert_node(spec, block, index)?;
            self.used.insert(id);
            return Ok(());
        };
        for (nth, node) in nodes.iter().enumerate() {
            if self.child_at(block, index + nth).as_ref() != Some(node) {
                self.on.move_to(node, block, index + nth)?;
            }
        }
        for other in others {
            self.on.join(first, other)?;
        }
        let mut offset = 0;
        for part in &leaf.segments {
            if part.origin.is_none() {
                let text = part.text.iter().collect();
                self.on.replace(first, offset, offset, text)?;
            }
            offset += part.text.len();
        }
        let node = plan::find(self.on, first)?;
        let new = plan::marks_for(first, marks.clone(), offset)?;
        match *node.marks() == new {
            true => Ok(()),
            false => self.on.set_all_marks(first, marks),
        }
    }

    // --- What is left ---

    /// Deletes those children of a node below which nothing is used.
    fn clear(&mut self, id: &NodeId) -> Result<(), EditError> {
        let (before, line) = (self.before.blocks.get(id), self.before.lines.get(id));
        let children = before.into_iter().flat_map(|node| node.content());
        let children = children.filter_map(|child| child.id.clone());
        let children = children.chain(line.into_iter().flatten().cloned());
        let children: Vec<NodeId> = children.collect();
        for child in children {
            let mut below = self.on.descendants(&child).map(crate::Node::id);
            let is_used = |id: &NodeId| self.used.contains(id) || self.unread.contains(id);
            let goes = self.gone.contains(&child)
                && self.on.parent(&child) == Some(id)
                && !self.unread.contains(&child)
                && !below.any(is_used);
            if goes {
                self.on.delete_node(&child)?;
            }
        }
        Ok(())
    }

    /// Deletes the nodes that are left, the outermost first.
    fn delete(&mut self) -> Result<(), EditError> {
        let outermost = self.gone.iter().filter(|id| {
            let mut around = self.on.ancestors(*id);
            self.on.contains(*id) && !around.any(|node| self.gone.contains(node.id()))
        });
        // In an order that does not depend on the run.
        let mut outermost: Vec<NodeId> = outermost.cloned().collect();
        outermost.sort();
        for id in outermost {
            self.on.delete_node(&id)?;
        }
        Ok(())
    }

    /// The next position in a text, or the last one before.
    fn near(&self, tree: &Rc<FitNode>, at: usize) -> Option<usize> {
        if self.fit.is_text_block(FitPlace::new(tree, at)?.parent()) {
            return Some(at);
        }
        let (mut before, mut after) = (None, None);
        let mut ahead: Vec<(usize, &Rc<FitNode>)> = vec![(0, tree)];
        while let Some((start, node)) = ahead.pop() {
            if self.fit.is_text_block(node) {
                let end = start + node.content_size();
                if start >= at {
                    after = Some(after.map_or(start, |after: usize| after.min(start)));
                } else {
                    before = before.max(Some(end));
                }
                continue;
            }
            let mut inner = start;
            for child in node.content() {
                ahead.push((inner + 1, child));
                inner += child.size;
            }
        }
        after.or(before)
    }

    /// Where a position of the tree is in the document.
    fn position(&self, root: &NodeId, tree: &Rc<FitNode>, at: usize) -> Option<Position> {
        let at = self.near(tree, at.min(tree.content_size()))?;
        let place = FitPlace::new(tree, at)?;
        let mut node = self.on.node(root)?;
        for depth in 0..place.depth() {
            let before = &place.node(depth).content()[..place.index(depth)];
            let index = before.iter().map(|child| match &child.body {
                FitBody::Rest(rest) => rest.range.len(),
                _ => 1,
            });
            let child = node.children().get(index.sum())?;
            node = self.on.node(child)?;
        }
        let mut left = place.parent_offset();
        for text in self.on.children(node.id()) {
            let len = text.text().len();
            if left <= len {
                return Some(Position::new(text.id().clone(), left));
            }
            left -= len;
        }
        Some(Position::new(node.id().clone(), 0))
    }
}

impl Leaf {
    fn push(&mut self, text: &FitText) {
        if let Some(last) = self.segments.last_mut()
            && let (Some((id, start)), Some((next, at))) = (&last.origin, &text.origin)
            && id == next
            && start + last.text.len() == *at
        {
            let shift = last.text.len();
            last.marks.extend(shifted(&text.marks, shift));
            last.text.extend(&text.text);
            return;
        }
        self.segments.push(Segment {
            origin: text.origin.clone(),
            text: text.text.clone(),
            marks: text.marks.clone(),
        });
    }

    fn marks(&self) -> Vec<Mark> {
        let mut marks = Vec::new();
        let mut offset = 0;
        for part in &self.segments {
            marks.extend(shifted(&part.marks, offset));
            offset += part.text.len();
        }
        marks
    }
}

pub(super) fn shifted(marks: &[Mark], by: usize) -> impl Iterator<Item = Mark> {
    marks.iter().filter_map(move |mark| {
        let range = mark.range.as_ref()?;
        Some(Mark {
            range: Some(range.start + by..range.end + by),
            ..mark.clone()
        })
    })
}
