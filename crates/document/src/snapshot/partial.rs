//! A document of which nodes are missing.

use std::collections::{HashMap, HashSet};

use super::assemble::LARGEST;
use super::{AssemblyError, DocumentHead, NodeTable, Snapshot};
use crate::hashing::Secret;
use crate::id::NodeId;
use crate::{Attributes, Change, Children, EditError, IntegrityError, Marks, Node, Text, View};

type NodesById = HashMap<NodeId, Node, Secret>;
type Parents = HashMap<NodeId, NodeId, Secret>;

/// The nodes that a document lacks.
///
/// In the document an empty node has the place of each, so positions in lists of children are those
/// of the whole document.
#[derive(Debug, Default)]
pub struct MissingNodes {
    ids: HashSet<NodeId, Secret>,
    /// Nodes whose parents do not list them.
    denied: Vec<NodeId>,
}

impl MissingNodes {
    /// The nodes, in the order of their ids.
    pub fn ids(&self) -> Vec<NodeId> {
        let mut ids: Vec<_> = self.ids.iter().cloned().collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// What a change does to the nodes that are not missing. `None` if that is not known.
    fn rest_of<'c>(&self, change: &'c Change) -> Option<Option<&'c Change>> {
        let mut touches = false;
        let mut note = |id: &NodeId| touches |= self.ids.contains(id);
        change.each_stored_node(&mut note, |_| {});
        match change {
            _ if !touches => Some(Some(change)),
            // It changes nothing else.
            Change::SpliceText { .. }
            | Change::SetMarks { .. }
            | Change::PatchAttrs { .. }
            | Change::SetType { .. } => Some(None),
            _ => None,
        }
    }
}

impl Snapshot {
    /// Makes a document of those of its nodes that changes touch, which can be repeated on it.
    /// `node` reads each node as it is before them. Returns the ids too, also of nodes that do not
    /// exist before. Beside the nodes that the changes name, these are the children of nodes that
    /// they split or join.
    #[doc(hidden)]
    pub fn assemble_touched<'c, E: From<AssemblyError>>(
        head: DocumentHead,
        changes: impl IntoIterator<Item = &'c Change>,
        mut node: impl FnMut(&NodeId) -> Result<Option<Node>, E>,
    ) -> Result<(Self, HashSet<NodeId, Secret>), E> {
        let [mut ids, mut parents] = [(); 2].map(|()| HashSet::<&NodeId, Secret>::default());
        for change in changes {
            change.each_stored_node(|id| ids.extend([id]), |id| parents.extend([id]));
            if let Change::SetRoot { after, .. } = change {
                ids.extend(after);
            }
        }
        let mut ids: HashSet<NodeId, Secret> = ids.into_iter().cloned().collect();
        let mut ahead: Vec<NodeId> = ids.iter().cloned().collect();
        let mut table = NodeTable::default();
        while let Some(id) = ahead.pop() {
            let Some(found) = node(&id)? else {
                continue;
            };
            if parents.contains(&id) {
                let new = |child: &&NodeId| ids.insert(NodeId::clone(child));
                ahead.extend(found.children.iter().filter(new).cloned());
            }
            table.insert(found)?;
        }
        let touched = Self::unchecked(head, table);
        touched
            .check_ancestors()
            .map_err(AssemblyError::Integrity)?;
        Ok((touched, ids))
    }

    /// Makes a document of those of its nodes that are left. The first of several nodes of one id
    /// counts. A node whose parent does not list it has no parent.
    #[doc(hidden)]
    pub fn assemble_rest(
        mut head: DocumentHead,
        left: impl IntoIterator<Item = Node>,
    ) -> Result<(Self, MissingNodes), AssemblyError> {
        head.check(LARGEST)?;
        let mut nodes = NodesById::default();
        for node in left {
            if node.marks.are_normal(node.text.len()) {
                nodes.entry(node.id.clone()).or_insert(node);
            }
        }
        let parents = listed(&mut nodes);
        let mut missing = NodesById::default();
        for (id, parent) in &parents {
            if !nodes.contains_key(id) {
                missing.insert(id.clone(), empty(id, Some(parent)));
            }
        }
        let (mut denied, mut children) = (Vec::new(), HashMap::<_, Vec<_>, Secret>::default());
        let orphans: Vec<_> = nodes
            .values()
            .filter_map(|node| {
                let parent = node.parent.clone()?;
                (!parents.contains_key(&node.id)).then(|| (node.id.clone(), parent))
            })
            .collect();
        for (id, parent) in orphans {
            if !nodes.contains_key(&parent) {
                // It may have listed the node. The order of its children is not known.
                missing
                    .entry(parent.clone())
                    .or_insert_with(|| empty(&parent, None));
                children.entry(parent).or_default().push(id);
            } else if let Some(node) = nodes.get_mut(&id) {
                node.parent = None;
                denied.push(id);
            }
        }
        for (parent, mut ids) in children {
            ids.sort_unstable();
            if let Some(parent) = missing.get_mut(&parent) {
                parent.children = ids.into_iter().collect();
            }
        }
        if let Some(root) = &head.root {
            let found = nodes.get(root).or_else(|| missing.get(root));
            match found.map(|found| found.parent.is_some()) {
                Some(false) => {}
                Some(true) => head.root = None,
                None => drop(missing.insert(root.clone(), empty(root, None))),
            }
        }
        let ids = missing.keys().cloned().collect();
        let mut table = NodeTable::default();
        for node in nodes.into_values().chain(missing.into_values()) {
            table.insert(node)?;
        }
        Ok((Self::assemble(head, table)?, MissingNodes { ids, denied }))
    }

    /// Repeats a commit on the nodes that are not missing. `Ok(false)` if the commit has an effect
    /// on them that depends on a missing node: then nothing has changed.
    #[doc(hidden)]
    pub fn repeat_rest(
        &mut self,
        changes: &[Change],
        missing: &MissingNodes,
    ) -> Result<bool, EditError> {
        if missing.is_empty() {
            return self.repeat(changes).map(|()| true);
        }
        let rest: Option<Vec<_>> = changes.iter().map(|it| missing.rest_of(it)).collect();
        let Some(rest) = rest else {
            return Ok(false);
        };
        let rest: Vec<Change> = rest.into_iter().flatten().cloned().collect();
        self.repeat(&rest).map(|()| true)
    }

    /// The document without the places of the missing nodes, and the nodes whose parents are
    /// missing, which have none now.
    #[doc(hidden)]
    pub fn without(&self, missing: &MissingNodes) -> Result<(Self, Vec<NodeId>), AssemblyError> {
        let is_missing = |id: &NodeId| missing.ids.contains(id);
        let mut head = self.head();
        head.root = head.root.filter(|root| !is_missing(root));
        let (mut table, mut detached) = (NodeTable::default(), missing.denied.clone());
        detached.retain(|id| self.node(id).is_some_and(|node| node.parent.is_none()));
        for node in self.nodes().filter(|node| !is_missing(&node.id)) {
            let mut node = node.clone();
            if node.children.iter().any(is_missing) {
                let left = node.children.iter().filter(|id| !is_missing(id));
                node.children = left.cloned().collect();
            }
            if node.parent.as_ref().is_some_and(is_missing) {
                detached.push(node.id.clone());
                node.parent = None;
            }
            table.insert(node)?;
        }
        detached.sort_unstable();
        Ok((Self::assemble(head, table)?, detached))
    }
}

impl Snapshot {
    /// Checks that no node is its own ancestor.
    fn check_ancestors(&self) -> Result<(), IntegrityError> {
        let mut climbed: HashSet<&NodeId, Secret> = HashSet::default();
        for node in self.nodes() {
            let up = std::iter::successors(Some(node), |node| self.node(node.parent.as_ref()?));
            let mut path: HashSet<&NodeId, Secret> = HashSet::default();
            for id in up.map(Node::id).take_while(|id| !climbed.contains(id)) {
                if !path.insert(id) {
                    return Err(IntegrityError::Cycle { id: id.clone() });
                }
            }
            climbed.extend(path);
        }
        Ok(())
    }
}

/// The parent of each listed node. Nodes that cannot be in a list of children leave it.
fn listed(nodes: &mut NodesById) -> Parents {
    let mut parents = Parents::default();
    let mut shortened = Vec::new();
    for node in nodes.values() {
        let mut is_own = |id: &NodeId| {
            let found = nodes.get(id);
            let is_own = found.is_none_or(|child| child.parent.as_ref() == Some(&node.id));
            let is_first = is_own && !parents.contains_key(id);
            if is_first {
                parents.insert(id.clone(), node.id.clone());
            }
            is_first
        };
        let left: Vec<_> = node.children.iter().filter(|id| is_own(id)).collect();
        if left.len() < node.children.len() {
            let left: Children = left.into_iter().cloned().collect();
            shortened.push((node.id.clone(), left));
        }
    }
    for (id, left) in shortened {
        if let Some(node) = nodes.get_mut(&id) {
            node.children = left;
        }
    }
    parents
}

/// What has the place of a missing node.
fn empty(id: &NodeId, parent: Option<&NodeId>) -> Node {
    Node {
        id: id.clone(),
        kind: "missing".into(),
        attributes: Attributes::default(),
        text: Text::default(),
        marks: Marks::default(),
        children: Children::default(),
        parent: parent.cloned(),
        place: Default::default(),
    }
}
