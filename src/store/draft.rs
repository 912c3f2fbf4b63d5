//! Edits that are not published yet.

mod alias;
mod edit;
mod savepoint;

use std::fmt;
use std::sync::Arc;

pub use alias::AliasError;
use alias::Aliases;
pub use savepoint::{Savepoint, SavepointError};

use super::nodes::{FromSession, OnNodes};
use super::publish::CommitConditions;
use super::{CommitCondition, CommitError, ExecutedOperation, SharedDocument};
use crate::document::schema::Schema;
use crate::document::{
    Budget, Change, ChangeDetail, Changes, EditError, Fragment, Limit, Limits, Measure, Node,
    Overlay, Selection, SharedList, Sizes, Snapshot, View, cost, walk,
};
use crate::id::{AsNodeId, NodeId, TransactionId};
use crate::lock::Grant;

/// The edits of a transaction: a document with changes that only the transaction has.
///
/// Code that runs within a transaction gets its draft by reference: operations
/// ([`op`](crate::dsl::op)), attempts, handlers of an inbox. A draft cannot be committed, and has
/// no lock: that is the part of the [`Transaction`](crate::Transaction). Every method either does
/// everything that it describes, or returns an error and does nothing.
///
/// The methods of [`View`] read the document with the changes of the draft included.
///
/// ```
/// use doclock::{DataStore, Draft, View, document::{EditError, NodeSpec}, dsl::*};
///
/// fn add_item(draft: &mut Draft) -> Result<(), EditError> {
///     let list = draft.create(NodeSpec::new("list"))?;
///     draft.insert(NodeSpec::new("item").with_text("one"), &list, None)?;
///     Ok(())
/// }
///
/// let store = DataStore::new();
/// doclock::TransactionManager::new(store.clone()).execute([op(add_item)])?;
/// let mut transaction = store.begin("ann")?;
/// add_item(&mut transaction)?;
/// transaction.commit()?;
/// assert_eq!(store.snapshot().len(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0599
/// use doclock::Draft;
///
/// fn publishes(draft: &mut Draft) {
///     draft.commit();
/// }
/// ```
pub struct Draft {
    pub(super) id: TransactionId,
    pub(super) overlay: Overlay,
    pub(super) document: Arc<SharedDocument>,
    operations: SharedList<ExecutedOperation>,
    conditions: CommitConditions,
    /// How many attempts run in it.
    attempts: u32,
    /// `None` until one of these fields is set.
    optional: Option<Box<OptionalFields>>,
    /// Set on a draft that locks nodes instead of the whole document.
    pub(super) nodes: Option<Box<OnNodes>>,
}

/// What most drafts do not need.
#[derive(Default)]
struct OptionalFields {
    aliases: Aliases,
    /// Shared with the savepoints.
    clipboard: Option<Arc<Fragment>>,
    savepoints: Vec<(u64, savepoint::SavepointState)>,
    /// How many savepoints were made so far.
    saved: u64,
    /// How many of the savepoints were made before the code that must be all or nothing. These
    /// cannot be returned to meanwhile.
    out_of_reach: usize,
    /// Whether it is an entry of its own in a history, whatever it changed.
    is_no_typing: bool,
    /// Set on a draft with limits.
    budget: Option<Budget>,
}

impl Draft {
    #[inline(always)]
    pub(super) fn new(id: TransactionId, document: Arc<SharedDocument>, base: Snapshot) -> Self {
        Self {
            id,
            overlay: Overlay::new(base),
            document,
            operations: SharedList::default(),
            conditions: CommitConditions::new(),
            attempts: 0,
            optional: None,
            nodes: None,
        }
    }

    /// A draft that is never published.
    pub(crate) fn under_no_lock(document: &Arc<SharedDocument>, base: Snapshot) -> Self {
        let id = TransactionId {
            session: 0,
            number: 0,
        };
        Self::new(id, Arc::clone(document), base)
    }

    /// Returns the id of the transaction.
    pub fn id(&self) -> TransactionId {
        self.id
    }

    /// Returns the version that the transaction started from, without its changes.
    ///
    /// On nodes it is the version that the transaction has advanced to.
    pub fn base(&self) -> &Snapshot {
        self.overlay.base()
    }

    /// Returns the schema of the document, if it has one.
    pub fn schema(&self) -> Option<&Schema> {
        self.document.schema.as_deref()
    }

    /// The schema, for edits that read it while they change the draft.
    pub(crate) fn shared_schema(&self) -> Option<Arc<Schema>> {
        self.document.schema.clone()
    }

    /// Returns the changes so far, in order.
    #[inline]
    pub fn changes(&self) -> &[Change] {
        self.overlay.changes()
    }

    /// Returns the current selection, adjusted to the changes so far.
    ///
    /// It is `None` unless an editor runs the transaction or the transaction has selected
    /// something.
    pub fn selection(&self) -> Option<&Selection> {
        if let Some(nodes) = &self.nodes {
            nodes.note_read_of_selection();
        }
        self.overlay.selection()
    }

    /// The selection, for the session that submits it: that is no read of the transaction.
    pub(crate) fn selection_for_session(&self) -> Option<&Selection> {
        self.overlay.selection()
    }

    /// Returns the fragment that was copied last, in this transaction or before it by its editor.
    pub fn clipboard(&self) -> Option<&Fragment> {
        self.optional.as_ref()?.clipboard.as_deref()
    }

    pub(crate) fn set_clipboard(&mut self, fragment: Option<Fragment>) {
        self.share_clipboard(fragment.map(Arc::new));
    }

    pub(super) fn share_clipboard(&mut self, fragment: Option<Arc<Fragment>>) {
        if fragment.is_some() || self.optional.is_some() {
            self.optional_mut().clipboard = fragment;
        }
    }

    /// Whether its clipboard is still that of a session.
    pub(super) fn keeps_clipboard(&self, session: &FromSession) -> bool {
        let own = self.optional.as_ref().and_then(|it| it.clipboard.as_ref());
        own.map(Arc::as_ptr) == session.clipboard.as_ref().map(Arc::as_ptr)
    }

    /// Begins with the selection of an editor.
    pub(crate) fn begin_with_selection(&mut self, selection: Option<Selection>) {
        self.overlay.begin_with_selection(selection);
    }

    /// What the changes do not tell, in their order.
    pub(crate) fn details(&self) -> &[ChangeDetail] {
        self.overlay.details()
    }

    /// Makes the commit an entry of its own in a history, as if it had not typed.
    pub(crate) fn set_no_typing(&mut self) {
        self.optional_mut().is_no_typing = true;
    }

    pub(crate) fn is_no_typing(&self) -> bool {
        self.optional.as_ref().is_some_and(|it| it.is_no_typing)
    }

    /// Lets the draft be published only if `condition` holds, together with the effect of the
    /// condition.
    pub(crate) fn on_condition(&mut self, condition: Box<dyn CommitCondition>) {
        self.conditions.push(condition);
    }

    /// Takes the conditions of the publication.
    pub(super) fn take_conditions(&mut self) -> CommitConditions {
        std::mem::take(&mut self.conditions)
    }

    /// Whether it was taken out of an attempt, which could not undo its edits.
    pub(super) fn is_torn(&self) -> bool {
        self.attempts > 0
    }

    pub(crate) fn is_on_nodes(&self) -> bool {
        self.nodes.is_some()
    }

    /// The grant of the nodes that it has locked.
    pub(super) fn grant(&self) -> Option<Grant> {
        self.nodes.as_ref()?.grant()
    }

    #[cold]
    pub(crate) fn foreign(&self) -> CommitError {
        CommitError::ForeignDraft {
            draft: self.id,
            base: self.base().version(),
        }
    }

    /// Replaces the limits of the edits from here on.
    ///
    /// An operation that would exceed a limit does nothing and returns an [`EditError::Limit`].
    ///
    /// Sums over all edits, such as the number of nodes, also count what
    /// [`rollback_to`](Self::rollback_to) undid.
    ///
    /// ```
    /// use doclock::{DataStore, document::{EditError, Limit, Limits, NodeSpec}};
    ///
    /// let mut transaction = DataStore::new().begin("ann")?;
    /// transaction.set_limits(Limits::new().with(Limit::Nodes, 1));
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// let error = transaction.create(NodeSpec::new("paragraph")).unwrap_err();
    /// assert_eq!(error.to_string(), "the transaction adds 2 nodes: the limit `nodes` is 1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_limits(&mut self, limits: Limits) {
        self.optional_mut().budget = Some(Budget::new(limits));
    }

    pub(super) fn budget(&self) -> Option<&Budget> {
        self.optional.as_ref()?.budget.as_ref()
    }

    /// Spends `count` of a limit. Computes `count` only if there are limits.
    pub(crate) fn spend(
        &self,
        limit: Limit,
        count: impl FnOnce(&Overlay) -> usize,
    ) -> Result<(), EditError> {
        match self.budget() {
            Some(budget) => Ok(budget.spend(limit, count(&self.overlay))?),
            None => Ok(()),
        }
    }

    /// Spends the steps to look up nodes.
    ///
    /// # Errors
    ///
    /// [`EditError::Limit`].
    #[doc(hidden)]
    pub fn spend_lookups(&self, nodes: usize) -> Result<(), EditError> {
        self.spend(Limit::Steps, |_| cost::LOOKED_UP * nodes)
    }

    /// Spends the search for a node among its siblings.
    pub(crate) fn spend_search(&self, id: &NodeId) -> Result<(), EditError> {
        self.spend(Limit::Steps, |on| {
            let parent = on.node(id).and_then(|node| on.node(node.parent()?));
            parent.map_or(0, |parent| parent.children().len()) / cost::SIBLINGS
        })
    }

    /// Fails if the nodes of a subtree, so much for each, are more than what is left of a limit.
    /// Spends nothing, and ends with the first node that is too many.
    pub(crate) fn check_subtree(
        &self,
        limit: Limit,
        each: usize,
        id: &NodeId,
    ) -> Result<(), EditError> {
        let Some(budget) = self.budget() else {
            return Ok(());
        };
        let nodes = walk::count(&self.overlay, id, budget.left(limit) / each);
        Ok(budget.check(limit, each * nodes)?)
    }

    /// Fails if an amount is more than what is left of a limit. Spends nothing.
    pub(crate) fn check_limit(&self, limit: Limit, count: usize) -> Result<(), EditError> {
        let budget = self.budget();
        Ok(budget.map_or(Ok(()), |budget| budget.check(limit, count))?)
    }

    /// The steps taken so far, if there are limits.
    #[cfg(test)]
    pub(crate) fn steps_taken(&self) -> usize {
        self.budget().map_or(0, |budget| budget.used(Limit::Steps))
    }

    /// The limits, if there are any.
    pub(crate) fn limits(&self) -> Option<&Limits> {
        self.budget().map(Budget::limits)
    }

    /// Checks a pending change against the limits, if there are any, and counts it.
    fn spend_on(&mut self, change: &Change) -> Result<(), EditError> {
        let optional = self.optional.as_mut();
        if let Some(budget) = optional.and_then(|optional| optional.budget.as_mut()) {
            budget.change(change, &self.overlay)?;
            if self.document.schema.is_some() {
                budget.lists(change, &self.overlay)?;
            }
        }
        Ok(())
    }

    /// The sizes of the nodes under a root, as they are now. `None` on nodes: the transaction has
    /// to note each node that it reads.
    #[doc(hidden)]
    pub fn sizes<M: Measure>(&mut self, root: &NodeId, measure: &M) -> Option<Arc<Sizes>> {
        match self.nodes {
            Some(_) => None,
            None => Some(self.overlay.sizes(root, measure)),
        }
    }

    fn optional_mut(&mut self) -> &mut OptionalFields {
        self.optional.get_or_insert_default()
    }

    pub(crate) fn executed(&self) -> &[ExecutedOperation] {
        &self.operations
    }

    pub(super) fn take_executed(&mut self) -> SharedList<ExecutedOperation> {
        std::mem::take(&mut self.operations)
    }

    pub(crate) fn has_room_for_operations(&self) -> bool {
        self.operations.has_room()
    }

    /// Gives it a buffer for its operations, before the first of them.
    pub(crate) fn record_in(&mut self, room: SharedList<ExecutedOperation>) {
        debug_assert!(self.operations.is_empty() && room.is_empty());
        self.operations = room;
    }

    /// Gives it a buffer for its changes, before the first of them.
    pub(crate) fn record_changes_in(&mut self, room: Changes) {
        self.overlay.record_in(room);
    }

    #[inline]
    pub(crate) fn record(&mut self, operation: ExecutedOperation) {
        self.operations.push(operation);
    }
}

impl View for Draft {
    #[inline]
    fn node(&self, id: impl AsNodeId) -> Option<&Node> {
        let id = &*id.as_node_id();
        if let Some(nodes) = &self.nodes {
            self.note_read(nodes, id);
        }
        self.overlay.node(id)
    }

    fn root(&self) -> Option<&NodeId> {
        if let Some(nodes) = &self.nodes {
            self.note_read_of_root(nodes);
        }
        self.overlay.root()
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = &Node> + '_> {
        self.note_read_of_all();
        self.overlay.nodes()
    }

    fn glimpse(&self, id: &NodeId) -> Option<&Node> {
        self.overlay.node(id)
    }

    fn missing(&self, id: &NodeId) -> EditError {
        self.overlay.missing(id)
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("id", &self.id)
            .field("base", self.base())
            .field("changes", &self.changes().len())
            .finish_non_exhaustive()
    }
}
