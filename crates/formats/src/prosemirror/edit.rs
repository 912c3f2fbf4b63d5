//! Applies steps to a document, with the edits of a transaction.
//!
//! A replacement has two open sides: the nodes around its start, and those around its end. First
//! the replaced content between the two is deleted. Then both sides are split or joined until they
//! share the node that receives the slice. Its closed nodes are inserted there, its open ones are
//! merged into the sides. So nodes at both sides keep their ids.

use std::ops::Range;

use doclock::{
    Draft, NodeId,
    document::{EditError, Mark, Node, NodeSpec, SplitPoint, Value, View},
};
use smol_str::SmolStr;

use super::names::ProseMirrorContent::{self, Blocks, Code, Text};
use super::names::{MarkNames, ProseMirrorNames};
use super::pieces::{InlineLeaf, pieces};
use super::positions::{At, Positions, ResolvedPosition, check_text, content_of};
use super::read::{ContentPart, ParsedBlock, TextRun};
use super::step::{Gap, Replace, Slice};
use super::{ProseMirrorOptions, StepError};

pub(super) struct StepApplier<'t> {
    on: &'t mut Draft,
    root: &'t NodeId,
    options: &'t ProseMirrorOptions,
    /// The position in the step that errors name.
    position: usize,
}

type StepResult<T = ()> = Result<T, StepError>;

impl<'t> StepApplier<'t> {
    pub(super) fn new(
        on: &'t mut Draft,
        root: &'t NodeId,
        options: &'t ProseMirrorOptions,
    ) -> Self {
        Self {
            on,
            root,
            options,
            position: 0,
        }
    }

    // --- Steps ---

    pub(super) fn replace(&mut self, replace: &Replace) -> StepResult {
        let Replace {
            from,
            to,
            structure,
            ..
        } = *replace;
        self.position = from;
        let (left, right) = self.range(from, to)?;
        if structure && self.positions()?.has_content(&left, &right)? {
            return Err(self.misfit("it would overwrite content"));
        }
        self.replace_between(left, right, &replace.slice)
    }

    pub(super) fn replace_around(&mut self, replace: &Replace, gap: Gap) -> StepResult {
        let Replace {
            from,
            to,
            structure,
            ..
        } = *replace;
        self.position = from;
        if from > gap.from || gap.to > to {
            return Err(self.misfit("the kept content is outside of the replaced range"));
        }
        let (left, right) = self.range(from, to)?;
        let (start, end) = self.range(gap.from, gap.to)?;
        let positions = self.positions()?;
        if structure
            && (positions.has_content(&left, &start)? || positions.has_content(&end, &right)?)
        {
            return Err(self.misfit("it would overwrite content"));
        }
        if start.nodes != end.nodes {
            return Err(self.misfit("the kept content is not in one node"));
        }
        if let Some(block) = retyped(&replace.slice, gap, &left, &start)
            && (gap.from, gap.to + 1) == (from + 1, to)
            && right.depth() == left.depth()
        {
            self.retype(start.node(), block)?;
            return self.check_children(&[left.node().clone(), start.node().clone()]);
        }
        let kept = self.cut(&start, &end)?;
        let mut slice = replace.slice.clone();
        if slice.insert(gap.insert, kept).is_none() {
            return Err(self.misfit("the kept content does not fit in the slice"));
        }
        let (left, right) = self.range(from, to - (gap.to - gap.from))?;
        self.replace_between(left, right, &slice)
    }

    pub(super) fn add_mark(&mut self, mark: &Mark, from: usize, to: usize) -> StepResult {
        let names = &self.options.names;
        self.change_marks(from, to, |block, node, range| {
            let allowed = names.allows(block, mark);
            allowed.then(|| with_mark(node, &range, mark, names))
        })
    }

    pub(super) fn remove_mark(&mut self, mark: &Mark, from: usize, to: usize) -> StepResult {
        self.change_marks(from, to, |_, node, range| {
            Some(without_mark(node, &range, mark))
        })
    }

    /// Changes the marks of the texts between two positions that are not code. The change gets the
    /// node around each text.
    fn change_marks(
        &mut self,
        from: usize,
        to: usize,
        change: impl Fn(&Node, &Node, Range<usize>) -> Option<Vec<Mark>>,
    ) -> StepResult {
        self.position = from;
        let (left, right) = self.range(from, to)?;
        let positions = self.positions()?;
        let mut changed = Vec::new();
        for (node, range, block) in positions.texts(from, to)? {
            if positions.content(block)? == Text
                && let Some(marks) = change(block, node, range)
            {
                changed.push((node.id().clone(), marks));
            }
        }
        for (id, marks) in changed {
            let set = self.on.set_marks(&id, marks);
            set.map_err(|cause| self.failed(cause))?;
        }
        let shared = left.shared_depth(&right);
        let around = left.nodes.iter().skip(shared);
        let around = around.chain(right.nodes.iter().skip(shared + 1));
        self.check_children(&around.cloned().collect::<Vec<_>>())
    }

    // --- Steps for one node ---

    pub(super) fn set_attr(&mut self, at: usize, name: &str, value: &Value) -> StepResult {
        match self.target(at)? {
            OneNode::Block(id, around) => {
                self.set_node_attr(&id, name, value)?;
                self.check_children(&[around, id])
            }
            OneNode::Inline(inline) => {
                let Some(leaf) = inline.leaf else {
                    // A hard break has no attributes.
                    return Ok(());
                };
                let names = &self.options.names;
                let Some(entry) = names.inline_for(&leaf) else {
                    return Ok(());
                };
                let Some(name) = entry.read_name(name).map(SmolStr::new) else {
                    return Ok(());
                };
                let schema = self.on.schema();
                if schema.is_some_and(|schema| !schema.allows_mark_attribute(&leaf.kind, &name)) {
                    return Ok(());
                }
                self.check_target(&name, value)?;
                let marks = self.node(&inline.id)?.marks();
                let marks = marks.change_within(&inline.range, |mark| {
                    let is_leaf = mark.kind == leaf.kind && mark.attributes == leaf.attributes;
                    let mut mark = mark;
                    if is_leaf {
                        mark.attributes.set(name.clone(), Some(value.clone()));
                    }
                    Some(mark)
                });
                self.set_marks(&inline.id, marks)?;
                self.check_children(&[inline.block])
            }
        }
    }

    pub(super) fn set_doc_attr(&mut self, name: &str, value: &Value) -> StepResult {
        self.position = 0;
        let root = self.root.clone();
        self.set_node_attr(&root, name, value)
    }

    /// Sets an attribute. As in ProseMirror, one that the schema does not have is ignored.
    fn set_node_attr(&mut self, id: &NodeId, name: &str, value: &Value) -> StepResult {
        let node = self.node(id)?;
        let Some((entry, _)) = self.options.names.node_for(node) else {
            return content_of(node, &self.options.names).map(drop);
        };
        let name = entry.read_name(name).map(SmolStr::new);
        let schema = self.on.schema();
        let name = name
            .filter(|name| schema.is_none_or(|schema| schema.allows_attribute(node.kind(), name)));
        let Some(name) = name else {
            return Ok(());
        };
        self.check_target(&name, value)?;
        let set = self.on.set_attrs(id, [(name, value.clone())]);
        set.map_err(|cause| self.failed(cause))
    }

    fn check_target(&self, name: &str, value: &Value) -> StepResult {
        match super::TARGETS.contains(&name) && self.options.rejects(value) {
            true => Err(self.misfit("the options reject its target")),
            false => Ok(()),
        }
    }

    pub(super) fn add_node_mark(&mut self, mark: &Mark, at: usize) -> StepResult {
        let OneNode::Inline(inline) = self.target(at)? else {
            return Err(self.misfit("only text and inline nodes have marks"));
        };
        let (names, node) = (&self.options.names, self.node(&inline.id)?);
        let marks = with_mark(node, &inline.range, mark, names);
        let is_added = without_mark(node, &inline.range, mark) != marks;
        if is_added && !names.allows(self.node(&inline.block)?, mark) {
            return Err(self.misfit(NO_MARK));
        }
        self.set_marks(&inline.id, marks)?;
        self.check_children(&[inline.block])
    }

    pub(super) fn remove_node_mark(&mut self, mark: &Mark, at: usize) -> StepResult {
        match self.target(at)? {
            OneNode::Block(id, around) => self.check_children(&[around, id]),
            OneNode::Inline(inline) => {
                let marks = without_mark(self.node(&inline.id)?, &inline.range, mark);
                self.set_marks(&inline.id, marks)?;
                self.check_children(&[inline.block])
            }
        }
    }

    fn set_marks(&mut self, id: &NodeId, marks: Vec<Mark>) -> StepResult {
        let set = self.on.set_marks(id, marks);
        set.map_err(|cause| self.failed(cause))
    }

    /// The node behind a position. ProseMirror has no steps for a text as a node.
    fn target(&mut self, at: usize) -> StepResult<OneNode> {
        self.position = at;
        let position = self.positions()?.resolve(at)?;
        let none = || self.misfit("no node is there");
        let block = self.node(position.node())?;
        let offset = match position.at {
            At::Child(index) => {
                let child = block.children().get(index).ok_or_else(none)?;
                return Ok(OneNode::Block(child.clone(), block.id().clone()));
            }
            At::Text(offset) => offset,
        };
        let mut start = 0;
        for node in self.on.children(block.id()) {
            let (len, inner) = (node.text().len(), offset.wrapping_sub(start));
            start += len;
            if inner >= len {
                continue;
            }
            let names = &self.options.names;
            let code = self.content(block.id())? == Code;
            let (pieces, _) = pieces(node, code, &MarkNames::All, names);
            let leaf = pieces.iter().find(|piece| piece.range.contains(&inner));
            let leaf = match leaf.map(|piece| (&piece.leaf, piece)) {
                Some((InlineLeaf::Break, piece)) => (None, piece.range.clone()),
                Some((InlineLeaf::Inline(_, mark), piece)) => {
                    (Some((*mark).clone()), piece.range.clone())
                }
                _ => return Err(self.misfit("a text has no attributes and marks of its own")),
            };
            return Ok(OneNode::Inline(InlineNode {
                block: block.id().clone(),
                id: node.id().clone(),
                range: leaf.1,
                leaf: leaf.0,
            }));
        }
        Err(none())
    }

    fn positions(&self) -> StepResult<Positions<'_, Draft>> {
        Positions::new(&*self.on, &self.options.names, self.root)
    }

    /// Checks the lists of children that the transaction changed of these nodes.
    fn check_children(&self, nodes: &[NodeId]) -> StepResult {
        let position = self.position;
        let (base, changes) = (self.on.base(), self.on.changes());
        let checked = self.on.schema().map_or(Ok(()), |schema| {
            schema.check_children(nodes, base, &*self.on, changes)
        });
        checked.map_err(|cause| StepError::Schema { position, cause })
    }

    fn range(&self, from: usize, to: usize) -> StepResult<(ResolvedPosition, ResolvedPosition)> {
        if from > to {
            return Err(StepError::Misfit {
                position: from,
                reason: "its range ends before it starts",
            });
        }
        let positions = self.positions()?;
        let left = positions.resolve(from)?;
        let right = match from == to {
            true => left.clone(),
            false => positions.resolve(to)?,
        };
        Ok((left, right))
    }

    // --- Replacing ---

    fn replace_between(
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

    // --- Nodes around text ---

    /// The text of a node with text, if it has any.
    fn text_of(&self, node: &NodeId) -> StepResult<Option<&Node>> {
        let block = self.node(node)?;
        check_text(&*self.on, block, &self.options.names)?;
        Ok(self.on.children(node).next())
    }

    /// Joins the texts of a node, so that it has one at most.
    fn join_texts(&mut self, node: &NodeId) -> StepResult {
        let Some(first) = self.text_of(node)?.map(|text| text.id().clone()) else {
            return Ok(());
        };
        let others: Vec<NodeId> = self
            .node(node)?
            .children()
            .iter()
            .skip(1)
            .cloned()
            .collect();
        for other in others {
            let joined = self.on.join_nodes(&first, &other);
            joined.map_err(|cause| self.failed(cause))?;
        }
        Ok(())
    }

    /// A new text in a node with this content that allows these marks.
    fn text(
        &self,
        run: &TextRun,
        content: ProseMirrorContent,
        allows: impl Fn(&Mark) -> bool,
    ) -> StepResult<NodeSpec> {
        if content == Code && run.nodes {
            return Err(self.misfit(NO_CODE));
        }
        if !run.marks.iter().all(allows) {
            return Err(self.misfit(NO_MARK));
        }
        let names = &self.options.names;
        let spec = NodeSpec::new(names.of_text().clone());
        let spec = spec.with_text(run.text_in(content, names));
        Ok(spec.with_marks(run.marks.clone()))
    }

    fn insert_text(&mut self, node: &NodeId, offset: usize, run: &TextRun) -> StepResult<At> {
        let block = self.node(node)?;
        let allows = |mark: &Mark| self.options.names.allows(block, mark);
        let spec = self.text(run, self.content(node)?, allows)?;
        let behind = offset + run.len;
        let Some(text) = self.text_of(node)?.map(|text| text.id().clone()) else {
            let inserted = self.on.insert(spec, node, 0);
            return inserted
                .map(|_| At::Text(behind))
                .map_err(|cause| self.failed(cause));
        };
        let inserted = self.on.insert_text(&text, offset, spec.text().to_string());
        inserted.map_err(|cause| self.failed(cause))?;
        // The marks around the offset grew.
        let marks = self.node(&text)?.marks();
        let mut marks = marks.change_within(&(offset..behind), |_| None);
        marks.extend(run.marks.iter().map(|mark| {
            let range = mark.range.clone().unwrap_or(0..run.len);
            Mark {
                range: Some(range.start + offset..range.end + offset),
                ..mark.clone()
            }
        }));
        let set = self.on.set_marks(&text, marks);
        set.map(|()| At::Text(behind))
            .map_err(|cause| self.failed(cause))
    }

    /// Deletes characters from a node with one text.
    fn delete_text(&mut self, node: &NodeId, start: usize, end: Option<usize>) -> StepResult {
        let Some((text, len)) = self
            .text_of(node)?
            .map(|text| (text.id().clone(), text.text().len()))
        else {
            return Ok(());
        };
        let end = end.unwrap_or(len);
        let deleted = match (start, end) {
            (0, end) if end == len => self.on.delete(&text),
            _ => self.on.delete_text(&text, start..end),
        };
        deleted.map_err(|cause| self.failed(cause))
    }

    fn delete_children(&mut self, node: &NodeId, start: usize, end: Option<usize>) -> StepResult {
        for child in self.children(node, start, end)? {
            let deleted = self.on.delete(&child);
            deleted.map_err(|cause| self.failed(cause))?;
        }
        Ok(())
    }

    /// Detaches the content between two positions in one node.
    fn cut(&mut self, start: &ResolvedPosition, end: &ResolvedPosition) -> StepResult<ContentPart> {
        let (node, content) = (start.node(), self.content(start.node())?);
        let kept = match (start.at, end.at) {
            (At::Child(start), At::Child(end)) => self.children(node, start, Some(end))?,
            (At::Text(start), At::Text(end)) => {
                self.join_texts(node)?;
                let Some(text) = self.text_of(node)?.filter(|_| start < end) else {
                    return Ok(ContentPart::Kept(Vec::new(), content));
                };
                if end - start < text.text().len() {
                    let run = run_of(text, start..end, content, &self.options.names);
                    self.delete_text(node, start, Some(end))?;
                    return Ok(ContentPart::Text(run));
                }
                vec![text.id().clone()]
            }
            _ => return Err(self.misfit("the kept content is not in one node")),
        };
        for child in &kept {
            let removed = self.on.remove_child(node, child);
            removed.map_err(|cause| self.failed(cause))?;
        }
        Ok(ContentPart::Kept(kept, content))
    }

    // --- Splitting and joining ---

    /// Splits a node. Returns the right half.
    fn split(&mut self, node: &NodeId, gap: At) -> StepResult<NodeId> {
        let children = match gap {
            At::Child(index) => index,
            At::Text(offset) => match self.text_of(node)? {
                Some(text) if offset > 0 && offset < text.text().len() => {
                    let (text, at) = (
                        text.id().clone(),
                        SplitPoint {
                            text: offset,
                            children: 0,
                        },
                    );
                    let split = self.on.split_node(&text, at, None);
                    split.map_err(|cause| self.failed(cause))?;
                    1
                }
                Some(_) => usize::from(offset > 0),
                None => 0,
            },
        };
        let split = self
            .on
            .split_node(node, SplitPoint { text: 0, children }, None);
        split.map_err(|cause| self.failed(cause))
    }

    /// Joins a node and its next sibling. Returns the position between their contents.
    fn join(&mut self, left: &NodeId, right: &NodeId) -> StepResult<At> {
        let (content, from) = (self.content(left)?, self.content(right)?);
        self.check_join(left, self.node(right)?.kind(), from)?;
        let seam = self.end(left)?;
        self.fit_text(right, from, left)?;
        let joined = self.on.join_nodes(left, right);
        joined.map_err(|cause| self.failed(cause))?;
        if matches!(content, Text | Code) {
            self.join_texts(left)?;
        }
        Ok(seam)
    }

    /// Checks that a node can be joined onto another: that both have text, or may begin with the
    /// same child.
    fn check_join(&self, left: &NodeId, right: &str, from: ProseMirrorContent) -> StepResult {
        let node = self.node(left)?;
        let joins = match (self.content(left)?, from) {
            (Text | Code, Text | Code) => true,
            (Blocks, Blocks) => {
                let schema = self.on.schema();
                node.kind() == right
                    || schema.is_none_or(|schema| schema.begin_alike(node.kind(), right))
            }
            _ => false,
        };
        match joins {
            true => Ok(()),
            false => Err(StepError::Join {
                position: self.position,
                left: node.kind().to_owned(),
                right: right.to_owned(),
            }),
        }
    }

    /// Makes the texts of a node fit in another: they have the characters of its content, and no
    /// marks that it does not allow.
    fn fit_text(&mut self, node: &NodeId, from: ProseMirrorContent, into: &NodeId) -> StepResult {
        let (names, content, into) = (&self.options.names, self.content(into)?, self.node(into)?);
        self.check_marks(node, |mark| names.allows(into, mark))?;
        self.convert_text(node, from, content)
    }

    fn check_marks(&self, node: &NodeId, allows: impl Fn(&Mark) -> bool) -> StepResult {
        let mut marks = self.on.descendants(node).flat_map(|text| text.marks());
        match marks.all(allows) {
            true => Ok(()),
            false => Err(self.misfit(NO_MARK)),
        }
    }

    /// Gives the texts of a node the characters of another content.
    fn convert_text(
        &mut self,
        node: &NodeId,
        from: ProseMirrorContent,
        content: ProseMirrorContent,
    ) -> StepResult {
        let (names, into_code) = (&self.options.names, content == Code);
        if !matches!((from, content), (Text, Code) | (Code, Text)) {
            return Ok(());
        }
        let mut replaced = Vec::new();
        for text in self.on.descendants(node) {
            let inline = |mark: &Mark| names.inline_for(mark).is_some();
            let has_break = || names.has_break() && text.text().chars().any(|char| char == '\n');
            if into_code && (text.marks().iter().any(inline) || has_break()) {
                return Err(self.misfit(NO_CODE));
            }
            for (at, char) in text.text().chars().enumerate() {
                let other = match into_code {
                    true => names.unescape_newline(char),
                    false => names.escape_newline(char),
                };
                if char != other {
                    replaced.push((text.id().clone(), at, other));
                }
            }
        }
        for (id, at, char) in replaced {
            let char = SmolStr::from_iter([char]);
            let set = self.on.replace_text(&id, at..at + 1, char);
            set.map_err(|cause| self.failed(cause))?;
        }
        Ok(())
    }

    /// Gives a node the type and the attributes of another, with the same content.
    fn retype(&mut self, id: &NodeId, like: &ParsedBlock) -> StepResult {
        let from = self.content(id)?;
        match (from, like.content) {
            (Text | Code, Text | Code) | (Blocks, Blocks) => {}
            _ => return Err(self.misfit(MIXED)),
        }
        if from != Blocks {
            let names = &self.options.names;
            self.check_marks(id, |mark| names.allows_on(&like.spec, mark))?;
            self.convert_text(id, from, like.content)?;
        }
        let (node, like) = (self.node(id)?, &like.spec);
        let gone = node.attributes().iter().map(|(name, _)| name);
        let gone = gone.filter(|name| like.attributes().get(name).is_none());
        let gone = gone.map(|name| (name.clone(), Value::Null));
        let given = like.attributes().iter();
        let given = given.map(|(name, value)| (name.clone(), value.clone()));
        let attributes: Vec<_> = gone.chain(given).collect();
        let retyped = match node.kind() == like.kind() {
            true => Ok(()),
            false => self.on.set_type(id, like.kind()),
        };
        let retyped = retyped.and_then(|()| self.on.set_attrs(id, attributes));
        retyped.map_err(|cause| self.failed(cause))
    }

    // --- Nodes and errors ---

    fn node(&self, id: &NodeId) -> StepResult<&Node> {
        let missing = || self.failed(self.on.missing(id));
        self.on.node(id).ok_or_else(missing)
    }

    fn content(&self, id: &NodeId) -> StepResult<ProseMirrorContent> {
        content_of(self.node(id)?, &self.options.names)
    }

    fn children(&self, id: &NodeId, start: usize, end: Option<usize>) -> StepResult<Vec<NodeId>> {
        let children = self.node(id)?.children();
        let end = end.unwrap_or(children.len());
        let children = children.iter().skip(start).take(end.saturating_sub(start));
        Ok(children.cloned().collect())
    }

    fn start(&self, id: &NodeId) -> StepResult<At> {
        Ok(match self.content(id)? {
            Text | Code => At::Text(0),
            _ => At::Child(0),
        })
    }

    fn end(&self, id: &NodeId) -> StepResult<At> {
        Ok(match self.content(id)? {
            Text | Code => At::Text(self.text_of(id)?.map_or(0, |text| text.text().len())),
            _ => At::Child(self.node(id)?.children().len()),
        })
    }

    fn misfit(&self, reason: &'static str) -> StepError {
        StepError::Misfit {
            position: self.position,
            reason,
        }
    }

    fn failed(&self, cause: EditError) -> StepError {
        StepError::Edit {
            position: self.position,
            cause,
        }
    }
}

const MIXED: &str = "blocks and text do not fit in one node";
const NO_CODE: &str = "code has neither hard breaks nor inline nodes";
const NO_MARK: &str = "the node does not allow a mark of the text";

/// The node of a step for one node.
enum OneNode {
    /// A node between nodes, and its parent.
    Block(NodeId, NodeId),
    Inline(InlineNode),
}

/// An inline node that is no text.
struct InlineNode {
    /// The node around its text.
    block: NodeId,
    /// Its text, and its characters there.
    id: NodeId,
    range: Range<usize>,
    /// The mark with its attributes; `None` for a hard break.
    leaf: Option<Mark>,
}

/// The marks of a text with another mark over some characters.
fn with_mark(
    node: &Node,
    range: &Range<usize>,
    mark: &Mark,
    names: &ProseMirrorNames,
) -> Vec<Mark> {
    let marks: Vec<&Mark> = node.marks().iter().collect();
    let mut added = Vec::new();
    let kept = node.marks().cut(range, |part, on| {
        let others: Vec<&Mark> = on.iter().map(|&nth| marks[nth]).collect();
        let Some(replaced) = names.added(mark, &others) else {
            return Vec::new();
        };
        added.push(Mark {
            range: Some(part),
            ..mark.clone()
        });
        replaced.into_iter().map(|nth| on[nth]).collect()
    });
    kept.into_iter().chain(added).collect()
}

/// The marks of a text without a mark on some characters.
fn without_mark(node: &Node, range: &Range<usize>, mark: &Mark) -> Vec<Mark> {
    node.marks().change_within(range, |other| {
        let same = other.kind == mark.kind && other.attributes == mark.attributes;
        (!same).then_some(other)
    })
}

/// The new type of a node, if the step changes no more than that.
fn retyped<'s>(
    slice: &'s Slice,
    gap: Gap,
    left: &ResolvedPosition,
    start: &ResolvedPosition,
) -> Option<&'s ParsedBlock> {
    match slice.content.as_slice() {
        [ContentPart::Block(block)]
            if block.content != ProseMirrorContent::Leaf
                && block.children.is_empty()
                && (slice.open_start, slice.open_end, gap.insert) == (0, 0, 1)
                && start.depth() == left.depth() + 1 =>
        {
            Some(block)
        }
        _ => None,
    }
}

/// Some characters of a text.
fn run_of(
    text: &Node,
    range: Range<usize>,
    content: ProseMirrorContent,
    names: &ProseMirrorNames,
) -> TextRun {
    let slice = text.text().slice(range.clone()).unwrap_or_default();
    let marks = text.marks().iter().filter_map(|mark| {
        let of_mark = mark.range.clone()?;
        let (start, end) = (of_mark.start.max(range.start), of_mark.end.min(range.end));
        (start < end).then(|| Mark {
            range: Some(start - range.start..end - range.start),
            ..mark.clone()
        })
    });
    let marks: Vec<Mark> = marks.collect();
    let has_break = names.has_break() && slice.contains('\n');
    let has_inline = marks.iter().any(|mark| names.inline_for(mark).is_some());
    let text = match content {
        Code => slice
            .chars()
            .map(|char| names.escape_newline(char))
            .collect(),
        _ => slice.into(),
    };
    TextRun {
        text,
        len: range.len(),
        nodes: content == Text && (has_break || has_inline),
        marks,
        ..TextRun::default()
    }
}
