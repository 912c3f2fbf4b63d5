//! The content of nodes around text, which edits insert, delete and cut.

use std::ops::Range;

use doclock::{
    NodeId,
    document::{Mark, Node, NodeSpec, View},
};

use super::{NO_CODE, NO_MARK, StepApplier, StepResult};
use crate::prosemirror::names::ProseMirrorContent::{self, Code, Text};
use crate::prosemirror::names::ProseMirrorNames;
use crate::prosemirror::pieces::marks_of;
use crate::prosemirror::positions::{At, ResolvedPosition, check_text};
use crate::prosemirror::read::{ContentPart, TextRun};

impl StepApplier<'_> {
    /// The text of a node with text, if it has any.
    pub(super) fn text_of(&self, node: &NodeId) -> StepResult<Option<&Node>> {
        let block = self.node(node)?;
        check_text(&*self.on, block, &self.options.names)?;
        Ok(self.on.children(node).next())
    }

    /// Joins the texts of a node, so that it has one at most.
    pub(super) fn join_texts(&mut self, node: &NodeId) -> StepResult {
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
    pub(super) fn text(
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

    pub(super) fn insert_text(
        &mut self,
        node: &NodeId,
        offset: usize,
        run: &TextRun,
    ) -> StepResult<At> {
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
    pub(super) fn delete_text(
        &mut self,
        node: &NodeId,
        start: usize,
        end: Option<usize>,
    ) -> StepResult {
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

    pub(super) fn delete_children(
        &mut self,
        node: &NodeId,
        start: usize,
        end: Option<usize>,
    ) -> StepResult {
        for child in self.children(node, start, end)? {
            let deleted = self.on.delete(&child);
            deleted.map_err(|cause| self.failed(cause))?;
        }
        Ok(())
    }

    /// Detaches the content between two positions in one node.
    pub(super) fn cut(
        &mut self,
        start: &ResolvedPosition,
        end: &ResolvedPosition,
    ) -> StepResult<ContentPart> {
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
}

/// Some characters of a text.
fn run_of(
    text: &Node,
    range: Range<usize>,
    content: ProseMirrorContent,
    names: &ProseMirrorNames,
) -> TextRun {
    let slice = text.text().slice(range.clone()).unwrap_or_default();
    let marks = marks_of(text, &range);
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
