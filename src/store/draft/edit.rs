//! The edits of a transaction: the primitives, with the replaced values filled in.

use std::ops::Range;

use serde_json::Value;
use smol_str::SmolStr;

use super::Draft;
use crate::document::fit::missing;
use crate::document::plan::{self, Planned, Target};
use crate::document::schema::SchemaViolation;
use crate::document::{
    Change, EditError, Limit, Mark, MarkRules, Node, NodeSpec, Selection, SplitPoint, View, cost,
    value,
};
use crate::id::{AsNodeId, NodeId};

/// # Edits
///
/// Each method does everything that it describes, or returns an error and does nothing.
impl Draft {
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
        let given = self.nodes.is_some().then(|| spec.given_ids());
        let parent = to.map(|(parent, _)| parent);
        let mut nodes = spec.into_nodes(parent, &self.document.ids)?;
        if let Some(schema) = self.schema() {
            schema.complete(&mut nodes);
        }
        let top = nodes[0].id().clone();
        if let Some(given) = given {
            let ids = nodes.iter().map(|node| node.id());
            self.owns(ids.filter(|id| !given.contains(*id)));
        }
        self.edit(nodes, |on, nodes| plan::insert_subtree(on, nodes, to))?;
        Ok(top)
    }

    /// Deletes a node with its subtree.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, or is the root.
    pub fn delete(&mut self, id: impl AsNodeId) -> Result<(), EditError> {
        let id = &*id.as_node_id();
        self.spend_search(id)?;
        self.check_subtree(Limit::Steps, cost::WRITTEN, id)?;
        self.edit((), |on, ()| plan::remove_subtree(on, id))
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
        self.spend_search(id)?;
        self.edit((), |on, ()| plan::move_node(on, id, to))
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
        self.spend_search(child)?;
        self.edit((), |on, ()| {
            plan::find(on, parent)?;
            if plan::find(on, child)?.parent() != Some(parent) {
                return Err(EditError::NotAChild {
                    parent: parent.clone(),
                    child: child.clone(),
                });
            }
            plan::move_node(on, child, None)
        })
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
        self.splice(id, None, text.into(), |_, _| ())
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
        self.splice(id, Some(offset..offset), text.into(), |_, _| ())
    }

    /// Deletes the characters of a half-open range. Marks over it shrink.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the node does not exist, or the range is not within its text.
    pub fn delete_text(&mut self, id: impl AsNodeId, range: Range<usize>) -> Result<(), EditError> {
        let id = &*id.as_node_id();
        self.splice(id, Some(range), SmolStr::default(), |_, _| ())
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
        self.splice(id, Some(range), text.into(), |_, _| ())
    }

    /// Replaces characters, or the whole text. `before` sees the node as it is before that.
    #[inline]
    pub(crate) fn splice(
        &mut self,
        id: &NodeId,
        range: Option<Range<usize>>,
        text: SmolStr,
        before: impl Fn(&Self, &Node),
    ) -> Result<(), EditError> {
        // The replaced characters are read, even if they are the same.
        if let Some(budget) = self.budget() {
            let whole = || self.overlay.node(id).map_or(0, |node| node.text().bytes());
            let read = range.as_ref().map_or_else(whole, Range::len);
            budget.spend(Limit::Steps, read / cost::BYTES)?;
        }
        self.edit((range, text), |on, (range, text)| {
            let node = plan::find(on, id)?;
            before(on, node);
            plan::splice_text(node, range, text)
        })
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
        // All are compared, even if they are the same.
        self.spend(Limit::Steps, |on| {
            let present = on.node(id).map(|node| node.marks().iter());
            cost::marks(&marks) + present.map_or(0, cost::marks)
        })?;
        value::check_marks(id, &marks)?;
        if let Some(schema) = self.schema() {
            schema.complete_marks(&mut marks);
        }
        self.edit(marks, |on, marks| plan::set_marks(on, id, marks))
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
        let values: Vec<(SmolStr, Option<Value>)> = values.collect();
        // All are compared, even if they are the same.
        self.spend(Limit::Steps, |on| {
            let steps = |(key, value): &(SmolStr, Option<Value>)| {
                let present = on.node(id).and_then(|node| node.attributes().get(key));
                let both = present.into_iter().chain(value);
                both.map(|value| value::steps(key, value)).sum::<usize>()
            };
            values.iter().map(steps).sum()
        })?;
        self.edit(values, |on, values| plan::patch_attrs(on, id, values))
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
        self.edit(kind.into(), |on, kind| plan::set_type(on, id, kind))
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
        self.spend_search(id)?;
        let right = self
            .document
            .ids
            .generate()
            .ok_or(EditError::IdsExhausted)?;
        self.owns([&right]);
        let arguments = (right.clone(), kind.into());
        self.edit(arguments, |on, (right, kind)| {
            plan::split_node(on, id, at, right, kind)
        })?;
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
        self.spend_search(right)?;
        self.edit((), |on, ()| plan::join_nodes(on, id, right))
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
        let after = after.map(Selection::normal);
        let change = Change::SetSelection { before, after };
        match change.changes_nothing() {
            true => Ok(()),
            false => self.edit(change, |_, change| Ok(Some(change))),
        }
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
        self.edit((), |on, ()| plan::set_root(on, id))
    }

    /// Applies a primitive change, for example one from the event of another commit.
    ///
    /// # Errors
    ///
    /// [`EditError`]: the document is not in the state that the change expects, or would become
    /// invalid.
    pub fn apply(&mut self, change: Change) -> Result<(), EditError> {
        if self.nodes.is_some() {
            self.plan_on_nodes(&|_| Ok(Some(change.clone())))?;
        }
        self.spend_on(&change)?;
        self.overlay.apply(change, &self.document.ids)
    }

    /// Checks the changes so far against the schema of the store, as a commit does.
    pub(crate) fn check_schema(&self) -> Result<(), SchemaViolation> {
        self.schema().map_or(Ok(()), |schema| {
            schema.check(self.base(), &self.overlay, self.changes())
        })
    }

    /// Checks what the changes from `first` on have edited against the schema of the store. Spends
    /// the steps of the check.
    pub(crate) fn check_last(&self, first: usize) -> Result<(), EditError> {
        let spend = |steps| self.spend(Limit::Steps, |_| steps);
        self.schema().map_or(Ok(()), |schema| {
            let views = (self.base(), &self.overlay);
            schema.check_last(views, (self.changes(), first), spend)
        })
    }

    /// Adds the children that nodes lack under the schema of the store after the changes so far.
    pub(crate) fn complete(&mut self) -> Result<(), EditError> {
        let of = |schema: &_| missing(schema, self.base(), &self.overlay, self.changes());
        let mut missing = self.schema().map(of).into_iter().flatten();
        missing.try_for_each(|(id, index, spec)| self.insert(spec, id, index).map(drop))
    }

    /// The rules for marks.
    pub(crate) fn mark_rules(&self) -> MarkRules<'_> {
        MarkRules(self.schema())
    }

    /// The stored marks of a caret, if the selection is one at a position.
    pub(crate) fn stored_marks(&self, id: &NodeId, at: usize) -> Option<&[Mark]> {
        let selection = self.overlay.selection()?;
        let marks = selection.marks()?;
        if let Some(nodes) = &self.nodes {
            // Whether they are those of this place can change before the nodes are locked.
            nodes.note_read_of_selection();
        }
        let is_here = matches!(selection, Selection::Text(text)
            if text.focus.offset == at && text.focus.node_id == *id);
        is_here.then_some(marks)
    }

    /// Plans a change, and makes it. On nodes, the plan locks what it needs.
    fn edit<A: Clone>(
        &mut self,
        arguments: A,
        plan: impl Fn(&Self, A) -> Planned,
    ) -> Result<(), EditError> {
        let planned = match self.nodes {
            None => plan(self, arguments),
            Some(_) => self.plan_on_nodes(&|this| plan(this, arguments.clone())),
        };
        let Some(change) = planned? else {
            return Ok(());
        };
        // A later edit can still repair other violations before the commit, but not this one.
        if let Some(schema) = self.schema() {
            schema.check_names(&change)?;
        }
        if self.budget().is_some() {
            self.spend_on(&change)?;
        }
        self.overlay.apply_planned(change, &self.document.ids)
    }
}
