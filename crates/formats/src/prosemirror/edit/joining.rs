//! Splits nodes, joins them, and gives them the type of another node.

use doclock::{
    NodeId,
    document::{Mark, SplitPoint, Value, View},
};
use smol_str::SmolStr;

use super::{MIXED, NO_CODE, NO_MARK, StepApplier, StepResult};
use crate::prosemirror::StepError;
use crate::prosemirror::names::ProseMirrorContent::{self, Blocks, Code, Text};
use crate::prosemirror::positions::At;
use crate::prosemirror::read::ParsedBlock;

impl StepApplier<'_> {
    /// Splits a node. Returns the right half.
    pub(super) fn split(&mut self, node: &NodeId, gap: At) -> StepResult<NodeId> {
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
    pub(super) fn join(&mut self, left: &NodeId, right: &NodeId) -> StepResult<At> {
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
    pub(super) fn check_join(
        &self,
        left: &NodeId,
        right: &str,
        from: ProseMirrorContent,
    ) -> StepResult {
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
    pub(super) fn fit_text(
        &mut self,
        node: &NodeId,
        from: ProseMirrorContent,
        into: &NodeId,
    ) -> StepResult {
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
    pub(super) fn retype(&mut self, id: &NodeId, like: &ParsedBlock) -> StepResult {
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
}
