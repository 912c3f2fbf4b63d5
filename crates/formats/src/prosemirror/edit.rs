//! Applies steps to a document, with the edits of a transaction.
//!
//! A replacement has two open sides: the nodes around its start, and those around its end. First
//! the replaced content between the two is deleted. Then both sides are split or joined until they
//! share the node that receives the slice. Its closed nodes are inserted there, its open ones are
//! merged into the sides. So nodes at both sides keep their ids.

mod joining;
mod one_node;
mod replacing;
mod texts;

use std::ops::Range;
use std::sync::Arc;

use doclock::{
    Draft, NodeId,
    document::{EditError, Mark, Node, Sizes, View},
};

use super::names::ProseMirrorContent::{self, Code, Text};
use super::names::ProseMirrorNames;
use super::positions::{At, Positions, ResolvedPosition, content_of};
use super::read::{ContentPart, ParsedBlock};
use super::step::{Gap, Replace, Slice};
use super::{ProseMirrorOptions, StepError};

pub(super) struct StepApplier<'t> {
    on: &'t mut Draft,
    root: &'t NodeId,
    options: &'t ProseMirrorOptions,
    /// The position in the step that errors name.
    position: usize,
    /// The sizes of the nodes as they were measured last.
    sizes: Option<Arc<Sizes>>,
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
            sizes: None,
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

    /// Gets the sizes of the nodes as they are now.
    fn measure(&mut self) {
        self.sizes = self.on.sizes(self.root, &self.options.names);
    }

    /// The positions in the document, as it was measured.
    fn positions(&self) -> StepResult<Positions<'_, Draft>> {
        let (names, sizes) = (&self.options.names, self.sizes.clone());
        Positions::new(&*self.on, names, self.root, sizes)
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

    fn range(
        &mut self,
        from: usize,
        to: usize,
    ) -> StepResult<(ResolvedPosition, ResolvedPosition)> {
        if from > to {
            return Err(StepError::Misfit {
                position: from,
                reason: "its range ends before it starts",
            });
        }
        self.measure();
        let positions = self.positions()?;
        let left = positions.resolve(from)?;
        let right = match from == to {
            true => left.clone(),
            false => positions.resolve(to)?,
        };
        // Each node around a position is looked up.
        let spent = self.on.spend_lookups(left.nodes.len() + right.nodes.len());
        spent.map_err(|cause| self.failed(cause))?;
        Ok((left, right))
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
        Ok(children.range(start..end).cloned().collect())
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

/// The marks of a text with another mark over some characters.
fn with_mark(
    node: &Node,
    range: &Range<usize>,
    mark: &Mark,
    names: &ProseMirrorNames,
) -> Vec<Mark> {
    match names.replaces(mark) {
        Some(replaces) => node.marks().with(range, mark, |_, other| replaces(other)),
        None => node.marks().iter().cloned().collect(),
    }
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
