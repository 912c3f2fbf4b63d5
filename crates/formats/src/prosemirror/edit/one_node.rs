//! The steps that change one node: its attributes and its marks.

use std::ops::Range;

use doclock::{
    NodeId,
    document::{Mark, Value, View},
};
use smol_str::SmolStr;

use super::{NO_MARK, StepApplier, StepResult, with_mark, without_mark};
use crate::prosemirror::TARGETS;
use crate::prosemirror::names::MarkNames;
use crate::prosemirror::names::ProseMirrorContent::Code;
use crate::prosemirror::pieces::{InlineLeaf, pieces};
use crate::prosemirror::positions::{At, content_of};

impl StepApplier<'_> {
    pub(in crate::prosemirror) fn set_attr(
        &mut self,
        at: usize,
        name: &str,
        value: &Value,
    ) -> StepResult {
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

    pub(in crate::prosemirror) fn set_doc_attr(&mut self, name: &str, value: &Value) -> StepResult {
        self.position = 0;
        let root = self.root.clone();
        self.set_node_attr(&root, name, value)
    }

    /// Sets an attribute. As in ProseMirror, one that the schema does not have is ignored.
    fn set_node_attr(&mut self, id: &NodeId, name: &str, value: &Value) -> StepResult {
        let node = self.node(id)?;
        let names = &self.options.names;
        let Some((entry, _)) = names.node_under(&*self.on, node, self.root) else {
            return content_of(node, names).map(drop);
        };
        let name = entry.read_name(name);
        let name = name.map(SmolStr::new).filter(|name| {
            let mut attributes = node.attributes().clone();
            attributes.set(name.clone(), Some(value.clone()));
            !names.retyping(entry, &attributes).contains(name)
        });
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
        match TARGETS.contains(&name) && self.options.rejects(value) {
            true => Err(self.misfit("the options reject its target")),
            false => Ok(()),
        }
    }

    pub(in crate::prosemirror) fn add_node_mark(&mut self, mark: &Mark, at: usize) -> StepResult {
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

    pub(in crate::prosemirror) fn remove_node_mark(
        &mut self,
        mark: &Mark,
        at: usize,
    ) -> StepResult {
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
        self.measure();
        let position = self.positions()?.resolve(at)?;
        // Each node around it is looked up.
        let spent = self.on.spend_lookups(position.nodes.len());
        spent.map_err(|cause| self.failed(cause))?;
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
}

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
