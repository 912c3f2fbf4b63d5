//! What a transaction can do to the document: the primitives, with what they replace filled in.

use std::ops::Range;

use serde_json::Value;
use smol_str::SmolStr;

use super::{Needs, Transaction};
use crate::document::plan::{self, Target};
use crate::document::{Change, Conflict, Cut, EditError, Mark, NodeSpec, Selection, Since, value};
use crate::id::NodeId;

/// # Edits
///
/// Each does the whole of what it says, or returns an error and does nothing.
impl Transaction {
    /// Creates a node, with all below it, attached nowhere. Returns its id.
    ///
    /// # Errors
    ///
    /// [`EditError`]: an id is taken or empty, a mark reaches out of its text.
    pub fn create(&mut self, spec: NodeSpec) -> Result<NodeId, EditError> {
        self.insert_at(spec, None)
    }

    /// Creates a node, with all below it, as a child of `parent` at `index` (at the end for
    /// `None`). Returns its id.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the parent does not exist or was deleted, there is no such index, an id is taken or empty, a
    /// mark reaches out of its text.
    pub fn insert(
        &mut self,
        spec: NodeSpec,
        parent: &NodeId,
        index: impl Into<Option<usize>>,
    ) -> Result<NodeId, EditError> {
        self.insert_at(spec, Some((parent, index.into())))
    }

    fn insert_at(&mut self, spec: NodeSpec, to: Target<'_>) -> Result<NodeId, EditError> {
        let parent = to.map(|(parent, _)| parent);
        self.claim(|needs| {
            let needs = spec.ids().fold(needs, Needs::created);
            parent.into_iter().fold(needs, Needs::node)
        })?;
        let mut nodes = spec.into_nodes(parent, &self.store().0.ids)?;
        if let Some(schema) = self.store().schema() {
            schema.complete(&mut nodes);
        }
        let top = nodes[0].id().clone();
        self.apply_planned(plan::insert_subtree(&self.overlay, nodes, to)?)?;
        Ok(top)
    }

    /// Deletes a node with all below it.
    ///
    /// # Errors
    ///
    /// [`EditError`]: it does not exist, or is the root.
    pub fn delete(&mut self, id: &NodeId) -> Result<(), EditError> {
        self.claim(|needs| needs.detached(id))?;
        self.apply_planned(plan::remove_subtree(&self.overlay, id)?)
    }

    /// Attaches a node, with all below it, under `parent` at `index` (at the end for `None`),
    /// wherever it was before. The index is that which it has afterwards.
    ///
    /// # Errors
    ///
    /// [`EditError`]: one of them does not exist or was deleted, there is no such index, `parent` is the node or
    /// below it, the node is the root.
    pub fn move_node(
        &mut self,
        id: &NodeId,
        parent: &NodeId,
        index: impl Into<Option<usize>>,
    ) -> Result<(), EditError> {
        let to = Some((parent, index.into()));
        self.claim(|needs| needs.detached(id).node(parent))?;
        self.apply_planned(plan::move_node(&self.overlay, id, to)?)
    }

    /// Detaches a child from its parent. It stays in the store, attached nowhere, until it is
    /// attached again or deleted.
    ///
    /// # Errors
    ///
    /// [`EditError`]: one of them does not exist, or `child` is not a child of `parent`.
    pub fn remove_child(&mut self, parent: &NodeId, child: &NodeId) -> Result<(), EditError> {
        self.claim(|needs| needs.detached(child).node(parent))?;
        plan::find(&self.overlay, parent)?;
        if plan::find(&self.overlay, child)?.parent() != Some(parent) {
            return Err(EditError::NotAChild {
                parent: parent.clone(),
                child: child.clone(),
            });
        }
        self.apply_planned(plan::move_node(&self.overlay, child, None)?)
    }

    /// Replaces the whole text of a node. Its marks go with the old text.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist.
    pub fn set_text(&mut self, id: &NodeId, text: impl Into<SmolStr>) -> Result<(), EditError> {
        self.splice(id, None, text)
    }

    /// Inserts characters before the one at `offset`. Marks around the place grow.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, the offset is greater than the length.
    pub fn insert_text(
        &mut self,
        id: &NodeId,
        offset: usize,
        text: impl Into<SmolStr>,
    ) -> Result<(), EditError> {
        self.splice(id, Some(offset..offset), text)
    }

    /// Deletes the characters of a half-open range. Marks over it shrink.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, the range is not within its text.
    pub fn delete_text(&mut self, id: &NodeId, range: Range<usize>) -> Result<(), EditError> {
        self.splice(id, Some(range), SmolStr::default())
    }

    /// Replaces the characters of a half-open range. Marks around it stay, those inside it go,
    /// those across an edge keep the part outside.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, the range is not within its text.
    pub fn replace_text(
        &mut self,
        id: &NodeId,
        range: Range<usize>,
        text: impl Into<SmolStr>,
    ) -> Result<(), EditError> {
        self.splice(id, Some(range), text)
    }

    fn splice(
        &mut self,
        id: &NodeId,
        range: Option<Range<usize>>,
        text: impl Into<SmolStr>,
    ) -> Result<(), EditError> {
        self.claim(|needs| needs.node(id))?;
        self.apply_planned(plan::splice_text(&self.overlay, id, range, text.into())?)
    }

    /// Replaces the marks of a node. They are brought into normal form; a mark without a range
    /// covers the text.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, a mark reaches out of its text.
    pub fn set_marks(
        &mut self,
        id: &NodeId,
        marks: impl IntoIterator<Item = Mark>,
    ) -> Result<(), EditError> {
        let mut marks: Vec<Mark> = marks.into_iter().collect();
        value::check_marks(id, &marks)?;
        if let Some(schema) = self.store().schema() {
            schema.complete_marks(&mut marks);
        }
        self.claim(|needs| needs.node(id))?;
        self.apply_planned(plan::set_marks(&self.overlay, id, marks)?)
    }

    /// Sets attributes of a node and leaves the others; `null` removes one.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist.
    pub fn set_attrs<K: Into<SmolStr>>(
        &mut self,
        id: &NodeId,
        attributes: impl IntoIterator<Item = (K, Value)>,
    ) -> Result<(), EditError> {
        let values = attributes
            .into_iter()
            .map(|(key, value)| (key.into(), Some(value)));
        self.claim(|needs| needs.node(id))?;
        self.apply_planned(plan::patch_attrs(&self.overlay, id, values)?)
    }

    /// Changes the type of a node. Nothing else does.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist.
    pub fn set_type(&mut self, id: &NodeId, kind: impl Into<SmolStr>) -> Result<(), EditError> {
        self.claim(|needs| needs.node(id))?;
        self.apply_planned(plan::set_type(&self.overlay, id, kind.into())?)
    }

    /// Cuts a node in two. What lies behind the cut goes to a new node, its next sibling, with the
    /// same attributes and, unless another is given, of the same type. Returns the id of the new
    /// node.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist or has no parent, the cut is not within its text or its children.
    pub fn split_node(
        &mut self,
        id: &NodeId,
        at: Cut,
        kind: impl Into<Option<SmolStr>>,
    ) -> Result<NodeId, EditError> {
        self.claim(|needs| needs.divided(id).list_of(id))?;
        let right = self.store().generate_id().ok_or(EditError::IdsExhausted)?;
        let split = plan::split_node(&self.overlay, id, at, right.clone(), kind.into())?;
        self.apply_planned(split)?;
        Ok(right)
    }

    /// Joins a node and its next sibling: text, marks and children of `right` come behind those of
    /// the node, whose type and attributes stay.
    ///
    /// # Errors
    ///
    /// [`EditError`]: one of them does not exist, or `right` is not the next sibling.
    pub fn join_nodes(&mut self, id: &NodeId, right: &NodeId) -> Result<(), EditError> {
        self.claim(|needs| needs.divided(id).divided(right).list_of(id))?;
        self.apply_planned(plan::join_nodes(&self.overlay, id, right)?)
    }

    /// Selects something for whoever runs the transaction, or nothing. No part of the document:
    /// alone it makes no version.
    ///
    /// # Errors
    ///
    /// [`EditError`]: a node does not exist, an offset is greater than the length of its text.
    pub fn select(&mut self, selection: impl Into<Option<Selection>>) -> Result<(), EditError> {
        let (before, after) = (self.overlay.selection().cloned(), selection.into());
        let change = Change::SetSelection { before, after };
        self.apply_planned((!change.changes_nothing()).then_some(change))
    }

    /// Makes a node the root of the document, or none. Like everything, it is seen outside after
    /// the commit.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, or has a parent.
    pub fn set_root<'a>(&mut self, id: impl Into<Option<&'a NodeId>>) -> Result<(), EditError> {
        let id = id.into();
        self.claim(|needs| needs.root(id))?;
        self.apply_planned(plan::set_root(&self.overlay, id)?)
    }

    /// Makes a primitive change, one that another commit's event carried for example.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the document is not as the change expects it, or would not be sound after it.
    pub fn apply(&mut self, change: Change) -> Result<(), EditError> {
        self.claim(|needs| needs.change(&change))?;
        self.make(change)
    }

    /// Makes the inverse of a change after which others did `since`, and advances that over it.
    pub(crate) fn rewind(&mut self, change: &Change, since: &mut Since) -> Result<(), Conflict> {
        self.overlay.rewind(change, since, &self.held.store.0.ids)
    }

    fn apply_planned(&mut self, change: Option<Change>) -> Result<(), EditError> {
        let Some(change) = change else {
            return Ok(());
        };
        // What a later edit may still make good waits for the commit; this cannot be made good.
        if let Some(schema) = self.store().schema() {
            schema.check_names(&change)?;
        }
        self.make(change)
    }

    /// Makes a change for which all is locked that it needs.
    fn make(&mut self, change: Change) -> Result<(), EditError> {
        self.admit(&change)?;
        self.overlay.apply(change, &self.held.store.0.ids)
    }
}
