//! The edits of a transaction: the primitives, with the replaced values filled in.

use std::ops::Range;

use serde_json::Value;
use smol_str::SmolStr;

use super::{Needs, Transaction};
use crate::document::plan::{self, Target};
use crate::document::schema::SchemaViolation;
use crate::document::{
    Change, EditError, Mark, NodeSpec, PieceMap, Selection, SplitPoint, UndoConflict, value,
};
use crate::id::{AsNodeId, NodeId};

/// # Edits
///
/// Each method does everything that it describes, or returns an error and does nothing.
impl Transaction {
    /// Creates a node with its subtree, attached nowhere, and returns its id.
    ///
    /// # Errors
    ///
    /// [`EditError`]: an id is taken or empty, or a mark reaches out of its text.
    pub fn create(&mut self, spec: NodeSpec) -> Result<NodeId, EditError> {
        self.insert_at(spec, None)
    }

    /// Creates a node with its subtree as a child of `parent` at `index`, and returns its id.
    ///
    /// `None` as the index appends it.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the parent does not exist or was deleted, there is no such index, an id is
    /// taken or empty, or a mark reaches out of its text.
    pub fn insert(
        &mut self,
        spec: NodeSpec,
        parent: impl AsNodeId,
        index: impl Into<Option<usize>>,
    ) -> Result<NodeId, EditError> {
        let parent = &*parent.as_node_id();
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

    /// Deletes a node with its subtree.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, or is the root.
    pub fn delete(&mut self, id: impl AsNodeId) -> Result<(), EditError> {
        let id = &*id.as_node_id();
        self.claim(|needs| needs.detached(id))?;
        self.apply_planned(plan::remove_subtree(&self.overlay, id)?)
    }

    /// Moves a node with its subtree under `parent` at `index`, from any place or none.
    ///
    /// The index is the one after the move. `None` appends the node.
    ///
    /// # Errors
    ///
    /// [`EditError`]: a node does not exist or was deleted, there is no such index, `parent` is the
    /// node itself or a descendant of it, or the node is the root.
    pub fn move_node(
        &mut self,
        id: impl AsNodeId,
        parent: impl AsNodeId,
        index: impl Into<Option<usize>>,
    ) -> Result<(), EditError> {
        let id = &*id.as_node_id();
        let parent = &*parent.as_node_id();
        let to = Some((parent, index.into()));
        self.claim(|needs| needs.detached(id).node(parent))?;
        self.apply_planned(plan::move_node(&self.overlay, id, to)?)
    }

    /// Detaches a child from its parent.
    ///
    /// The child stays in the store, attached nowhere, until it is attached again or deleted.
    ///
    /// # Errors
    ///
    /// [`EditError`]: a node does not exist, or `child` is not a child of `parent`.
    pub fn remove_child(
        &mut self,
        parent: impl AsNodeId,
        child: impl AsNodeId,
    ) -> Result<(), EditError> {
        let parent = &*parent.as_node_id();
        let child = &*child.as_node_id();
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

    /// Replaces the whole text of a node. Its marks are removed with the old text.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist.
    pub fn set_text(
        &mut self,
        id: impl AsNodeId,
        text: impl Into<SmolStr>,
    ) -> Result<(), EditError> {
        let id = &*id.as_node_id();
        self.splice(id, None, text)
    }

    /// Inserts characters before the one at `offset`. Marks around that offset grow.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, or the offset is greater than the length.
    pub fn insert_text(
        &mut self,
        id: impl AsNodeId,
        offset: usize,
        text: impl Into<SmolStr>,
    ) -> Result<(), EditError> {
        let id = &*id.as_node_id();
        self.splice(id, Some(offset..offset), text)
    }

    /// Deletes the characters of a half-open range. Marks over it shrink.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, or the range is not within its text.
    pub fn delete_text(&mut self, id: impl AsNodeId, range: Range<usize>) -> Result<(), EditError> {
        let id = &*id.as_node_id();
        self.splice(id, Some(range), SmolStr::default())
    }

    /// Replaces the characters of a half-open range.
    ///
    /// Marks around the range stay, marks inside it are removed, and marks across an edge keep the
    /// part outside.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, or the range is not within its text.
    pub fn replace_text(
        &mut self,
        id: impl AsNodeId,
        range: Range<usize>,
        text: impl Into<SmolStr>,
    ) -> Result<(), EditError> {
        let id = &*id.as_node_id();
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

    /// Replaces the marks of a node.
    ///
    /// The marks are normalized. A mark without a range covers the whole text.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, or a mark reaches out of its text.
    pub fn set_marks(
        &mut self,
        id: impl AsNodeId,
        marks: impl IntoIterator<Item = Mark>,
    ) -> Result<(), EditError> {
        let id = &*id.as_node_id();
        let mut marks: Vec<Mark> = marks.into_iter().collect();
        value::check_marks(id, &marks)?;
        if let Some(schema) = self.store().schema() {
            schema.complete_marks(&mut marks);
        }
        self.claim(|needs| needs.node(id))?;
        self.apply_planned(plan::set_marks(&self.overlay, id, marks)?)
    }

    /// Sets attributes of a node and keeps the others; `null` removes an attribute.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist.
    pub fn set_attrs<K: Into<SmolStr>>(
        &mut self,
        id: impl AsNodeId,
        attributes: impl IntoIterator<Item = (K, Value)>,
    ) -> Result<(), EditError> {
        let id = &*id.as_node_id();
        let values = attributes
            .into_iter()
            .map(|(key, value)| (key.into(), Some(value)));
        self.claim(|needs| needs.node(id))?;
        self.apply_planned(plan::patch_attrs(&self.overlay, id, values)?)
    }

    /// Changes the type of a node. No other edit changes the type of a node.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist.
    pub fn set_type(
        &mut self,
        id: impl AsNodeId,
        kind: impl Into<SmolStr>,
    ) -> Result<(), EditError> {
        let id = &*id.as_node_id();
        self.claim(|needs| needs.node(id))?;
        self.apply_planned(plan::set_type(&self.overlay, id, kind.into())?)
    }

    /// Splits a node in two and returns the id of the new node.
    ///
    /// The part behind the split moves to the new node, which is the next sibling. The new node
    /// gets the same attributes and, unless another is given, the same type.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist or has no parent, or the split point is not within
    /// its text or its children.
    pub fn split_node(
        &mut self,
        id: impl AsNodeId,
        at: SplitPoint,
        kind: impl Into<Option<SmolStr>>,
    ) -> Result<NodeId, EditError> {
        let id = &*id.as_node_id();
        self.claim(|needs| needs.divided(id).list_of(id))?;
        let right = self.store().generate_id().ok_or(EditError::IdsExhausted)?;
        let split = plan::split_node(&self.overlay, id, at, right.clone(), kind.into())?;
        self.apply_planned(split)?;
        Ok(right)
    }

    /// Joins a node and its next sibling.
    ///
    /// Text, marks and children of `right` are appended to those of the node. The node keeps its
    /// type and attributes.
    ///
    /// # Errors
    ///
    /// [`EditError`]: a node does not exist, or `right` is not the next sibling.
    pub fn join_nodes(&mut self, id: impl AsNodeId, right: impl AsNodeId) -> Result<(), EditError> {
        let id = &*id.as_node_id();
        let right = &*right.as_node_id();
        self.claim(|needs| needs.divided(id).divided(right).list_of(id))?;
        self.apply_planned(plan::join_nodes(&self.overlay, id, right)?)
    }

    /// Sets or clears the selection of the editor that runs the transaction.
    ///
    /// The selection is not part of the document, so a change of the selection alone makes no
    /// version.
    ///
    /// # Errors
    ///
    /// [`EditError`]: a node does not exist, or an offset is greater than the length of its text.
    pub fn select(&mut self, selection: impl Into<Option<Selection>>) -> Result<(), EditError> {
        let (before, after) = (self.overlay.selection().cloned(), selection.into());
        let change = Change::SetSelection { before, after };
        self.apply_planned((!change.changes_nothing()).then_some(change))
    }

    /// Makes a node the root of the document, or clears the root.
    ///
    /// Like every edit, it is visible outside only after the commit.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, or has a parent.
    pub fn set_root<'a>(&mut self, id: impl Into<Option<&'a NodeId>>) -> Result<(), EditError> {
        let id = id.into();
        self.claim(|needs| needs.root(id))?;
        self.apply_planned(plan::set_root(&self.overlay, id)?)
    }

    /// Applies a primitive change, for example one from the event of another commit.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the document is not in the state that the change expects, or would become
    /// invalid.
    pub fn apply(&mut self, change: Change) -> Result<(), EditError> {
        self.claim(|needs| needs.change(&change))?;
        self.spend_on(&change)?;
        self.overlay.apply(change, &self.held.store.0.ids)
    }

    /// Applies the inverse of a change that other edits followed (`since`), and rebases `since`
    /// over it.
    pub(crate) fn rewind(
        &mut self,
        change: &Change,
        since: &mut PieceMap,
    ) -> Result<(), UndoConflict> {
        self.overlay.rewind(change, since, &self.held.store.0.ids)
    }

    /// Removes what an undone change had created and what is empty by now.
    pub(crate) fn remove_left_over(
        &mut self,
        change: &Change,
        since: &mut PieceMap,
    ) -> Result<(), UndoConflict> {
        let ids = &self.held.store.0.ids;
        self.overlay.remove_left_over(change, since, ids)
    }

    /// Checks the changes so far against the schema of the store, as a commit does.
    pub(crate) fn check_schema(&self) -> Result<(), SchemaViolation> {
        self.store().schema().map_or(Ok(()), |schema| {
            schema.check(self.base(), &self.overlay, self.changes())
        })
    }

    fn apply_planned(&mut self, change: Option<Change>) -> Result<(), EditError> {
        let Some(change) = change else {
            return Ok(());
        };
        // A later edit can still repair other violations before the commit, but not this one.
        if let Some(schema) = self.store().schema() {
            schema.check_names(&change)?;
        }
        self.spend_on(&change)?;
        self.overlay.apply_planned(change, &self.held.store.0.ids)
    }
}
