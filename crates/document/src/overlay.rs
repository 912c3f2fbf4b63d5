//! The changes of one transaction, over its base version.

mod savepoint;

pub use savepoint::OverlaySavepoint;

use std::collections::HashSet;
use std::iter;
use std::sync::{Arc, OnceLock};

use smol_str::SmolStr;

use super::mark::TextSplice;
use super::plan::{find, follows, out_of_range, reserve};
use super::provenance::{ChangeDetail, Detail};
use super::sizes::{DraftSizes, Measure, Sizes};
use super::touched::{DeferredSplice, Touched, TouchedNode};
use super::{
    AttributePatch, Change, Changes, ChildPosition, Children, EditError, Marks, MarksChange, Node,
    RightHalf, Selection, Snapshot, SplitPoint, View, value,
};
use crate::hashing::Secret;
use crate::id::{AsNodeId, NodeId, NodeIds};

/// A snapshot, the nodes that differ from it, and the changes that made the difference.
///
/// The snapshot is never written, so dropping the overlay is a complete rollback.
/// [`Overlay::apply`] is the only way to write; each change is applied completely or not at all.
/// The next version takes the nodes out of it (`Snapshot::fold`).
#[derive(Debug)]
pub struct Overlay {
    /// Present until it is folded in.
    base: Option<Snapshot>,
    pub(super) touched: Touched,
    /// The root, if it was set.
    pub(super) root: Option<Option<NodeId>>,
    changes: Changes,
    /// What the changes do not tell, in their order.
    details: Vec<ChangeDetail>,
    /// The selection of the editor. It follows each change.
    selection: Option<Selection>,
    /// The sizes of nodes, if they were needed.
    pub(super) sizes: Option<Arc<DraftSizes>>,
}

/// Why the base is there.
const BASE: &str = "kept until it is folded in";

/// Up to this many bytes are removed or inserted in the next version, while readers wait. More are
/// in a copy of the node.
const DEFERRED: usize = 1024;

/// Where a change comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChangeSource {
    /// A plan on the same overlay. What the change replaces is there.
    Plan,
    /// The inverse of the overlay's last change.
    Rollback,
    /// A program, or another version of the document.
    Anywhere,
}

impl ChangeSource {
    /// Whether what the change replaces is compared with the document. Debug builds always do, so
    /// tests find a wrong plan.
    fn may_not_fit(self) -> bool {
        self == Self::Anywhere || cfg!(debug_assertions)
    }
}

impl Overlay {
    #[inline]
    pub fn new(base: Snapshot) -> Self {
        Self {
            base: Some(base),
            touched: Touched::default(),
            root: None,
            changes: Changes::default(),
            details: Vec::new(),
            selection: None,
            sizes: None,
        }
    }

    #[inline]
    pub fn selection(&self) -> Option<&Selection> {
        self.selection.as_ref()
    }

    /// The selection, to move it with the edits of others.
    pub fn selection_mut(&mut self) -> Option<&mut Selection> {
        self.selection.as_mut()
    }

    /// Sets the selection before the first change, if all its nodes exist.
    pub fn begin_with_selection(&mut self, selection: Option<Selection>) {
        self.selection = selection.filter(|selection| selection.check(self).is_ok());
    }

    #[inline]
    pub fn base(&self) -> &Snapshot {
        self.base.as_ref().expect(BASE)
    }

    /// Moves to a later base. Call it only if no node changed here differs there.
    #[inline]
    pub fn advance(&mut self, base: Snapshot) {
        self.base = Some(base);
        self.sizes = None;
    }

    /// A node changed here that differs in a later version from the base.
    pub fn overtaken(&self, later: &Snapshot) -> Option<&NodeId> {
        let mut touched = self.touched.ids();
        touched.find(|id| !same(self.base().shared(id), later.shared(id)))
    }

    /// Whether the root was set here.
    pub fn sets_root(&self) -> bool {
        self.root.is_some()
    }

    /// The base's node, unless it was changed here.
    #[inline]
    pub fn untouched(&self, id: &NodeId) -> Option<Option<&Arc<Node>>> {
        match self.touched.get(id, self.base()) {
            Some(_) => None,
            None => Some(self.base().shared(id)),
        }
    }

    /// The changes so far, in order.
    #[inline]
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// How many nodes a commit would write.
    #[inline]
    pub fn weight(&self) -> usize {
        self.touched.len()
    }

    /// Drops the base, because the overlay is about to be folded in.
    #[inline]
    pub fn release_base(&mut self) {
        self.base = None;
    }

    /// Makes `snapshot` the next version. Drops the base first, so an unshared snapshot is changed
    /// in place. Only the changes remain.
    #[inline]
    pub fn fold_into(&mut self, snapshot: &mut Snapshot) {
        snapshot.fold(self);
    }

    /// The sizes of the nodes under a root, as they are now.
    pub fn sizes<M: Measure>(&mut self, root: &NodeId, measure: &M) -> Arc<Sizes> {
        let base = (self.base(), self.base().sizes());
        let before = self.sizes.as_deref();
        let sizes = DraftSizes::get(self, base, &self.changes, before, (root, measure));
        let sizes = self.sizes.insert(Arc::new(sizes));
        Arc::clone(&sizes.sizes)
    }

    /// Gives it a buffer for its changes, before the first of them.
    #[inline]
    pub fn record_in(&mut self, room: Changes) {
        debug_assert!(self.changes.is_empty() && room.is_empty());
        self.changes = room;
    }

    #[inline]
    pub fn take_details(&mut self) -> Vec<ChangeDetail> {
        std::mem::take(&mut self.details)
    }

    /// What the changes do not tell, in their order.
    #[inline]
    pub fn details(&self) -> &[ChangeDetail] {
        &self.details
    }

    #[inline]
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Makes a change completely or not at all, and records it.
    #[inline]
    pub fn apply(&mut self, change: Change, ids: &NodeIds) -> Result<(), EditError> {
        self.make(ChangeSource::Anywhere, change, ids)
    }

    /// Makes a change that was [planned](super::plan) on this overlay.
    #[inline]
    pub fn apply_planned(&mut self, change: Change, ids: &NodeIds) -> Result<(), EditError> {
        self.make(ChangeSource::Plan, change, ids)
    }

    /// The selection after a change of its own editor. A caret stays at the end of a text of which
    /// nothing moved, and a selected node that was joined to another is selected there.
    fn followed(&self, mut selection: Selection, change: &Change) -> Option<Selection> {
        if change.is_of_the_document() {
            selection.clear_marks();
        }
        match change {
            Change::SplitNode { at, right, .. }
                if at.children > 0
                    && self
                        .node(&right.id)
                        .is_some_and(|right| right.text().is_empty()) =>
            {
                Some(selection)
            }
            Change::JoinNodes { id, right, .. } if selection == Selection::node(&right.id) => {
                Some(Selection::node(id))
            }
            _ => selection.after(change),
        }
    }

    /// Makes a change completely or not at all, and records it, unless it leads back.
    fn make(
        &mut self,
        source: ChangeSource,
        change: Change,
        ids: &NodeIds,
    ) -> Result<(), EditError> {
        let leads_back = source == ChangeSource::Rollback;
        // Text without marks has no values. Those that come back were checked before.
        if !leads_back && !matches!(change, Change::SpliceText { marks: None, .. }) {
            value::check_change(&change)?;
        }
        // What the change does not tell about the document before it.
        let mut detail = None;
        match &change {
            Change::InsertSubtree { at, nodes } => self.insert_subtree(at.as_ref(), nodes, ids)?,
            Change::RemoveSubtree { at, nodes } => {
                self.remove_subtree(source, at.as_ref(), nodes)?;
            }
            Change::MoveNode { id, from, to } => self.move_node(id, from.as_ref(), to.as_ref())?,
            Change::SpliceText {
                id,
                at,
                removed,
                inserted,
                marks,
            } => {
                let (place, texts) = ((id, *at), [removed, inserted]);
                detail = self.splice_text(source, place, texts, marks.as_ref())?;
            }
            Change::SetMarks { id, marks } => self.set_marks(id, marks)?,
            Change::PatchAttrs { id, patches } => {
                let node = self.edit(id, |node| match source.may_not_fit() {
                    true => check_patches(node, patches),
                    false => Ok(()),
                })?;
                node.attributes.patch(patches);
            }
            Change::SetType { id, before, after } => {
                let node = self.edit(id, |node| expect(node.kind == *before, id, "type"))?;
                node.kind = after.clone();
            }
            Change::SplitNode {
                id,
                at,
                right,
                place,
            } => self.split_node(id, *at, right, place, ids)?,
            Change::JoinNodes {
                id,
                at,
                right,
                place,
            } => detail = Some(self.join_nodes(id, *at, right, place)?),
            Change::SetRoot { before, after } => self.set_root(before.as_ref(), after.as_ref())?,
            Change::SetSelection { before, after } => {
                self.set_selection(before.as_ref(), after.as_ref())?;
            }
        }
        // Only a plan is known to change something.
        let is_nothing = source == ChangeSource::Anywhere && change.changes_nothing();
        if leads_back || is_nothing {
            return Ok(());
        }
        debug_assert!(!change.changes_nothing());
        if let Some(selection) = self.selection.take() {
            self.selection = self.followed(selection, &change);
        }
        if let Some(what) = detail {
            let change = self.changes.len();
            self.details.push(ChangeDetail { change, what });
        }
        self.changes.push(change);
        Ok(())
    }

    /// Splices a text: now, or in the next version. Returns the marks over the characters that are
    /// removed, if there are any.
    fn splice_text(
        &mut self,
        source: ChangeSource,
        (id, at): (&NodeId, usize),
        [removed, inserted]: [&SmolStr; 2],
        marks: Option<&MarksChange>,
    ) -> Result<Option<Detail>, EditError> {
        let splice = TextSplice {
            range: at..at.saturating_add(removed.chars().count()),
            inserted: inserted.chars().count(),
        };
        let is_short = removed.len() <= DEFERRED && inserted.len() <= DEFERRED;
        if is_short && marks.is_none() && !self.touched.contains(id) {
            let mut gone = None;
            // The plan of an insertion has found the node, and nothing else of it is needed.
            if source.may_not_fit() || !removed.is_empty() {
                let node = self.base().shared(id).ok_or_else(|| self.missing(id))?;
                (_, gone) = check_splice(source, node, &splice, removed, None)?;
            }
            let deferred = DeferredSplice {
                splice,
                inserted: inserted.clone(),
                copy: OnceLock::new(),
            };
            self.touched
                .push(id.clone(), TouchedNode::Spliced(deferred));
            return Ok(gone.map(Detail::RemovedMarks));
        }
        let (mut changed, mut gone) = (None, None);
        let node = self.edit(id, |node| {
            (changed, gone) = check_splice(source, node, &splice, removed, marks)?;
            Ok(())
        })?;
        match changed {
            Some(marks) => node.marks = marks,
            None => node.marks.follow(&splice),
        }
        node.text.splice(splice.range, inserted);
        Ok(gone.map(Detail::RemovedMarks))
    }

    fn set_marks(&mut self, id: &NodeId, change: &MarksChange) -> Result<(), EditError> {
        let mut changed = None;
        let node = self.edit(id, |node| {
            let len = node.text.len();
            changed = node.marks.changed(&TextSplice::NONE, change, len);
            expect(changed.is_some(), id, "set of marks")
        })?;
        node.marks = changed.unwrap_or_default();
        Ok(())
    }

    fn set_selection(
        &mut self,
        before: Option<&Selection>,
        after: Option<&Selection>,
    ) -> Result<(), EditError> {
        // The old selection need not match, but it has to be readable.
        if before.is_some_and(Selection::has_empty_id) {
            return Err(EditError::IdEmpty);
        }
        before.map_or(Ok(()), Selection::check_marks)?;
        after.map_or(Ok(()), |after| after.check(self))?;
        self.selection = after.cloned();
        Ok(())
    }

    fn insert_subtree(
        &mut self,
        at: Option<&ChildPosition>,
        nodes: &[Arc<Node>],
        ids: &NodeIds,
    ) -> Result<(), EditError> {
        let Some(top) = nodes.first() else {
            return Ok(());
        };
        whole_subtree(nodes)?;
        let parent = at.map(|at| &at.parent);
        expect(top.parent.as_ref() == parent, &top.id, "place")?;
        for node in nodes {
            self.vacant(&node.id, ids)?;
        }
        self.attach(&top.id, at)?;
        for node in nodes {
            self.touched.set(&node.id, Some(Arc::clone(node)));
        }
        self.note_place(&top.id, at);
        Ok(())
    }

    fn remove_subtree(
        &mut self,
        source: ChangeSource,
        at: Option<&ChildPosition>,
        nodes: &[Arc<Node>],
    ) -> Result<(), EditError> {
        let Some(top) = nodes.first() else {
            return Ok(());
        };
        let id = &top.id;
        let found = find(self, id)?;
        if self.root() == Some(id) {
            return Err(EditError::RootDeleted { id: id.clone() });
        }
        if source.may_not_fit() {
            expect(stands(self, found, at), id, "place")?;
            let listed = nodes.iter().map(|node| &**node);
            expect(self.descendants(id).eq(listed), id, "subtree")?;
        }
        self.detach(at)?;
        for node in nodes {
            self.touched.set(&node.id, None);
        }
        Ok(())
    }

    /// Whether a node is another one or in its subtree. Walks up from the one and down in the other
    /// in turn, to the end of the shorter walk: of many nodes that move to a deep place, most are
    /// small.
    fn is_inside(&self, node: &Node, top: &Node) -> bool {
        let mut ahead = vec![top.children.iter()];
        let above = iter::successors(Some(node), |node| self.node(node.parent.as_ref()?));
        for above in above {
            if above.id == top.id {
                return true;
            }
            while let Some(children) = ahead.last_mut() {
                match children.next() {
                    Some(child) => {
                        ahead.extend(self.node(child).map(|child| child.children.iter()));
                        break;
                    }
                    None => drop(ahead.pop()),
                }
            }
            if ahead.is_empty() {
                return false;
            }
        }
        false
    }

    fn move_node(
        &mut self,
        id: &NodeId,
        from: Option<&ChildPosition>,
        to: Option<&ChildPosition>,
    ) -> Result<(), EditError> {
        let found = find(self, id)?;
        expect(stands(self, found, from), id, "place")?;
        if let Some(ChildPosition { parent, index }) = to {
            let target = find(self, parent)?;
            let (id, parent) = (id.clone(), parent.clone());
            if self.root() == Some(&id) {
                return Err(EditError::RootMoved { id, parent });
            }
            let within = from.is_some_and(|from| from.parent == parent);
            if !within && self.is_inside(target, found) {
                return Err(EditError::Cycle { id, parent });
            }
            let (index, len) = (*index, target.children.len() - usize::from(within));
            if index > len {
                return Err(EditError::IndexOutOfRange { parent, index, len });
            }
        }
        self.detach(from)?;
        self.attach(id, to)?;
        self.edit(id, unchecked)?.parent = to.map(|to| to.parent.clone());
        self.note_place(id, to);
        Ok(())
    }

    fn split_node(
        &mut self,
        id: &NodeId,
        at: SplitPoint,
        right: &RightHalf,
        place: &ChildPosition,
        ids: &NodeIds,
    ) -> Result<(), EditError> {
        let node = find(self, id)?;
        expect(follows(self, place, id), id, "place")?;
        if at.text > node.text.len() {
            return Err(out_of_range(node, &(at.text..at.text)));
        }
        if at.children > node.children.len() {
            return Err(EditError::IndexOutOfRange {
                parent: id.clone(),
                index: at.children,
                len: node.children.len(),
            });
        }
        self.vacant(&right.id, ids)?;

        let left = self.edit(id, unchecked)?;
        let new = Node {
            id: right.id.clone(),
            kind: right.kind.clone(),
            attributes: right.attributes.clone(),
            text: left.text.split_off(at.text),
            marks: left.marks.split_off(at.text),
            children: left.children.split_off(at.children),
            parent: Some(place.parent.clone()),
            place: Default::default(),
        };
        self.adopt(&new.children, 0, &new.id)?;
        self.touched.set(&right.id, Some(Arc::new(new)));
        self.attach(&right.id, Some(place))?;
        self.note_place(&right.id, Some(place));
        Ok(())
    }

    fn join_nodes(
        &mut self,
        id: &NodeId,
        at: SplitPoint,
        right: &RightHalf,
        place: &ChildPosition,
    ) -> Result<Detail, EditError> {
        let left = find(self, id)?;
        let gone = find(self, &right.id)?;
        let siblings = &find(self, &place.parent)?.children;
        let adjacent = siblings.get(place.index) == Some(&right.id) && follows(self, place, id);
        expect(adjacent, &right.id, "place")?;
        expect(left.text.len() == at.text, id, "text")?;
        expect(left.children.len() == at.children, id, "subtree")?;
        expect(gone.kind == right.kind, &right.id, "type")?;
        let same = gone.attributes == right.attributes;
        expect(same, &right.id, "set of attributes")?;

        let gone = gone.clone();
        let left = self.edit(id, unchecked)?;
        left.marks.append(at.text, &gone.marks);
        left.text.append(&gone.text);
        left.children.append(&gone.children);
        let (children, start) = (left.children.clone(), at.children);
        self.adopt(&children, start, id)?;
        self.touched.set(&gone.id, None);
        self.detach(Some(place))?;
        Ok(Detail::Joined([gone.text.len(), gone.children.len()]))
    }

    /// Sets `parent` as the parent of its children from an index on.
    fn adopt(
        &mut self,
        children: &Children,
        start: usize,
        parent: &NodeId,
    ) -> Result<(), EditError> {
        for (child, index) in children.range(start..children.len()).zip(start..) {
            let child = self.edit(child, unchecked)?;
            child.parent = Some(parent.clone());
            children.note_place(child, index);
        }
        Ok(())
    }

    /// Checks that a new node may have this id, and reserves the id.
    fn vacant(&self, id: &NodeId, ids: &NodeIds) -> Result<(), EditError> {
        if id.bytes() == 0 {
            return Err(EditError::IdEmpty);
        }
        reserve(id, ids)?;
        match self.contains(id) {
            true => Err(EditError::IdTaken { id: id.clone() }),
            false => Ok(()),
        }
    }

    fn set_root(
        &mut self,
        before: Option<&NodeId>,
        after: Option<&NodeId>,
    ) -> Result<(), EditError> {
        let root = self.root();
        if let Some(id) = root.or(before) {
            expect(root == before, id, "root")?;
        }
        if let Some(id) = after
            && let Some(parent) = find(self, id)?.parent.clone()
        {
            return Err(EditError::RootAttached {
                id: id.clone(),
                parent,
            });
        }
        self.root = Some(after.cloned());
        Ok(())
    }

    /// Adds `id` to the children of its new parent.
    fn attach(&mut self, id: &NodeId, at: Option<&ChildPosition>) -> Result<(), EditError> {
        let Some(ChildPosition { parent, index }) = at else {
            return Ok(());
        };
        let len = find(self, parent)?.children.len();
        if *index > len {
            return Err(EditError::IndexOutOfRange {
                parent: parent.clone(),
                index: *index,
                len,
            });
        }
        self.edit(parent, unchecked)?
            .children
            .insert(*index, id.clone());
        Ok(())
    }

    /// Notes in a node where it is attached.
    fn note_place(&self, id: &NodeId, at: Option<&ChildPosition>) {
        let parent = at.and_then(|at| Some((self.node(&at.parent)?, at.index)));
        if let (Some(node), Some((parent, index))) = (self.node(id), parent) {
            parent.children.note_place(node, index);
        }
    }

    /// Removes the child at this position from its parent's children.
    fn detach(&mut self, at: Option<&ChildPosition>) -> Result<(), EditError> {
        if let Some(ChildPosition { parent, index }) = at {
            self.edit(parent, unchecked)?.children.remove(*index);
        }
        Ok(())
    }

    /// The overlay's own copy of a node, for writing after `check` has passed.
    fn edit(
        &mut self,
        id: &NodeId,
        check: impl FnOnce(&Node) -> Result<(), EditError>,
    ) -> Result<&mut Node, EditError> {
        let base = self.base.as_ref().expect(BASE);
        let node = match self.touched.get(id, base) {
            Some(Some(node)) => node,
            Some(None) => return Err(self.missing(id)),
            None => {
                let node = base.shared(id).ok_or_else(|| self.missing(id))?;
                check(node)?;
                let copy = Arc::new(Node::clone(node));
                return Ok(self.touched.add(id.clone(), copy));
            }
        };
        check(node)?;
        // Looked up again as mutable: a reference from the first lookup would live too long.
        match self.touched.get_mut(id, base) {
            Some(node) => Ok(Arc::make_mut(node)),
            None => Err(EditError::NodeNotFound { id: id.clone() }),
        }
    }

    /// Why a node that existed before is gone.
    fn gone(&self, id: NodeId) -> EditError {
        let last = self.changes.iter().rev().find_map(|change| match change {
            Change::JoinNodes {
                id: into, right, ..
            } if right.id == id => Some(Some(into.clone())),
            Change::RemoveSubtree { nodes, .. } if nodes.iter().any(|node| node.id == id) => {
                Some(None)
            }
            _ => None,
        });
        match last.flatten() {
            Some(into) => EditError::NodeJoined { id, into },
            None => EditError::NodeDeleted { id },
        }
    }
}

/// Whether two versions have the same node.
pub fn same(one: Option<&Arc<Node>>, other: Option<&Arc<Node>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one == other,
        (one, other) => one.is_none() && other.is_none(),
    }
}

impl View for Overlay {
    fn node(&self, id: impl AsNodeId) -> Option<&Node> {
        let (id, base) = (&*id.as_node_id(), self.base());
        let node = self.touched.get(id, base);
        node.unwrap_or_else(|| base.shared(id)).map(|node| &**node)
    }

    fn root(&self) -> Option<&NodeId> {
        match &self.root {
            Some(root) => root.as_ref(),
            None => self.base().root(),
        }
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = &Node> + '_> {
        let untouched = |node: &&Node| self.untouched(&node.id).is_some();
        let touched = self.touched.nodes(self.base()).map(|node| &**node);
        Box::new(self.base().nodes().filter(untouched).chain(touched))
    }

    fn missing(&self, id: &NodeId) -> EditError {
        let id = id.clone();
        match self.touched.get(&id, self.base()) {
            Some(None) => self.gone(id),
            _ => EditError::NodeNotFound { id },
        }
    }
}

/// Whether a node is attached here. Unlike [`place`] it does not search the siblings.
fn stands(view: &Overlay, node: &Node, at: Option<&ChildPosition>) -> bool {
    match at {
        None => node.parent.is_none(),
        Some(ChildPosition { parent, index }) => {
            let listed = |parent: &Node| parent.children.get(*index) == Some(&node.id);
            node.parent.as_ref() == Some(parent) && view.node(parent).is_some_and(listed)
        }
    }
}

/// Patches start from the current values, name each key once and remove by absence instead of
/// `null`; otherwise the inverse would not restore the node.
fn check_patches(node: &Node, patches: &[AttributePatch]) -> Result<(), EditError> {
    let mut keys = HashSet::with_capacity(patches.len());
    let fit = patches.iter().all(|patch| {
        keys.insert(&patch.key)
            && node.attributes.shared(&patch.key) == patch.before.as_ref()
            && patch.after.as_ref().is_none_or(|after| !after.is_null())
    });
    expect(fit, &node.id, "set of attributes")
}

/// For an edit whose conditions are already checked.
fn unchecked(_: &Node) -> Result<(), EditError> {
    Ok(())
}

/// The removed text is there, and without a change of the marks they all follow from the splice.
/// Returns the marks after that change, and those over the removed characters, if there are any.
fn check_splice(
    source: ChangeSource,
    node: &Node,
    splice: &TextSplice,
    removed: &str,
    change: Option<&MarksChange>,
) -> Result<(Option<Marks>, Option<Marks>), EditError> {
    if source.may_not_fit() {
        let found = node.text.slice(splice.range.clone());
        let found = found.ok_or_else(|| out_of_range(node, &splice.range))?;
        expect(found == removed, &node.id, "text")?;
        let fit = change.is_some() || node.marks.all_follow(splice);
        expect(fit, &node.id, "set of marks")?;
    }
    let mut changed = None;
    if let Some(change) = change {
        let len = node.text.len() - splice.range.len() + splice.inserted;
        changed = node.marks.changed(splice, change, len);
        expect(changed.is_some(), &node.id, "set of marks")?;
    }
    if splice.range.is_empty() || node.marks.is_empty() {
        return Ok((changed, None));
    }
    let gone = node.marks.overlapping(&splice.range);
    Ok((changed, (!gone.is_empty()).then_some(gone)))
}

fn expect(holds: bool, id: &NodeId, aspect: &'static str) -> Result<(), EditError> {
    match holds {
        true => Ok(()),
        false => Err(EditError::Conflict {
            id: id.clone(),
            aspect,
        }),
    }
}

/// Checks that a list of nodes is one subtree in document order: children and parents name each
/// other, and there are no other nodes.
fn whole_subtree(nodes: &[Arc<Node>]) -> Result<(), EditError> {
    let malformed = |node: &Node, reason| {
        Err(EditError::Malformed {
            id: node.id.clone(),
            reason,
        })
    };
    let mut seen = HashSet::with_capacity_and_hasher(nodes.len(), Secret);
    // The children that document order requires next, with their parents, the nearest last.
    let mut ahead: Vec<(&NodeId, &NodeId)> = Vec::new();
    for (nth, node) in nodes.iter().enumerate() {
        if !seen.insert(&node.id) {
            return Err(EditError::IdTaken {
                id: node.id.clone(),
            });
        }
        if nth > 0 {
            match ahead.pop() {
                Some((id, parent)) if *id == node.id && node.parent.as_ref() == Some(parent) => {}
                _ => return malformed(node, "it is not the child that comes next"),
            }
        }
        if !node.marks.are_normal(node.text.len()) {
            return malformed(node, "its marks are not in normal form");
        }
        let children = node.children.iter().rev();
        ahead.extend(children.map(|child| (child, &node.id)));
    }
    match ahead.pop() {
        Some((_, parent)) => Err(EditError::Malformed {
            id: parent.clone(),
            reason: "a child is not among them",
        }),
        None => Ok(()),
    }
}
