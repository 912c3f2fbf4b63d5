//! Checks the integrity of a document.

use std::collections::HashSet;

use super::{Node, View};
use crate::brief::Brief;
use crate::codes::codes;
use crate::hashing::Secret;
use crate::id::NodeId;

/// Why a document is invalid. Documents that only transactions have written are always valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IntegrityError {
    /// A list of children names a node that does not exist.
    #[error("node {parent} lists the child {child}, which does not exist", parent = Brief(.parent), child = Brief(.child))]
    ChildMissing {
        /// The parent with the list.
        parent: NodeId,
        /// The missing node.
        child: NodeId,
    },
    /// A list of children names a node that has another parent.
    #[error("node {parent} lists the child {child}, whose parent is another", parent = Brief(.parent), child = Brief(.child))]
    ChildOfAnother {
        /// The parent with the list.
        parent: NodeId,
        /// The listed node.
        child: NodeId,
    },
    /// A list of children names one child twice.
    #[error("node {parent} lists the child {child} twice", parent = Brief(.parent), child = Brief(.child))]
    ChildTwice {
        /// The parent with the list.
        parent: NodeId,
        /// The listed node.
        child: NodeId,
    },
    /// A node names a parent that does not list it.
    #[error("node {child} names the parent {parent}, which does not list it", child = Brief(.child), parent = Brief(.parent))]
    ParentDenies {
        /// The named parent.
        parent: NodeId,
        /// The node.
        child: NodeId,
    },
    /// A node is its own ancestor.
    #[error("node {id} is part of a cycle", id = Brief(.id))]
    Cycle {
        /// One node of the cycle.
        id: NodeId,
    },
    /// The root does not exist, or has a parent.
    #[error("the root {id} is not a node without a parent", id = Brief(.id))]
    Root {
        /// The root.
        id: NodeId,
    },
    /// Marks are not in normal form, or exceed their text.
    #[error("the marks of node {id} are not in normal form for its text", id = Brief(.id))]
    Marks {
        /// The node.
        id: NodeId,
    },
}

codes! { inherent IntegrityError {
    Self::ChildMissing { parent, child } => "documentChildMissing", 500;
    Self::ChildOfAnother { parent, child } => "documentChildOfAnother", 500;
    Self::ChildTwice { parent, child } => "documentChildTwice", 500;
    Self::ParentDenies { parent, child } => "documentParentDenies", 500;
    Self::Cycle { id } => "documentCycle", 500;
    Self::Root { id } => "documentRoot", 500;
    Self::Marks { id } => "documentMarks", 500;
}}

/// Checks the integrity of a document. Parents and children must name each other, no node may be
/// its own ancestor, the root must have no parent, and marks must be in normal form. The check
/// visits each node once, and twice in an invalid document.
///
/// # Errors
///
/// The first [`IntegrityError`] found.
///
/// ```
/// use doclock::{DataStore, document::check};
///
/// assert_eq!(check(&DataStore::new().snapshot()), Ok(()));
/// ```
pub fn check(document: &impl View) -> Result<(), IntegrityError> {
    if let Some(id) = document.root()
        && document.node(id).is_none_or(|root| root.parent.is_some())
    {
        return Err(IntegrityError::Root { id: id.clone() });
    }
    let (mut count, mut ahead) = (0, Vec::new());
    for node in document.nodes() {
        count += 1;
        if node.parent.is_none() {
            ahead.push(node);
        }
    }
    // A node is reached at most once: by its parent, which lists it once. A view that returns
    // other nodes than the requested ones ends the loop by the count.
    let mut reached = 0;
    while reached <= count
        && let Some(node) = ahead.pop()
    {
        reached += 1;
        check_node(document, node, |child| ahead.push(child))?;
    }
    match reached == count {
        true => Ok(()),
        false => check_unreached(document),
    }
}

impl Node {
    /// Checks what does not depend on other nodes.
    #[doc(hidden)]
    pub fn check_alone(&self) -> Result<(), IntegrityError> {
        // The length is elsewhere in memory.
        match self.marks.is_empty() || self.marks.are_normal(self.text.len()) {
            true => Ok(()),
            false => Err(IntegrityError::Marks {
                id: self.id.clone(),
            }),
        }
    }
}

/// Checks a node by itself, and that it lists nodes of which it is the parent, each once.
fn check_node<'a>(
    document: &'a impl View,
    node: &'a Node,
    mut child_found: impl FnMut(&'a Node),
) -> Result<(), IntegrityError> {
    node.check_alone()?;
    let mut listed: HashSet<&NodeId, Secret> = HashSet::default();
    for id in node.children.iter() {
        let found = document.node(id);
        let is_own = found.is_some_and(|child| child.parent.as_ref() == Some(&node.id));
        let again = node.children.len() > 1 && !listed.insert(id);
        match found {
            Some(child) if is_own && !again => child_found(child),
            _ => {
                let (parent, child) = (node.id.clone(), id.clone());
                return Err(match found {
                    None => IntegrityError::ChildMissing { parent, child },
                    Some(_) if is_own => IntegrityError::ChildTwice { parent, child },
                    Some(_) => IntegrityError::ChildOfAnother { parent, child },
                });
            }
        }
    }
    Ok(())
}

/// Finds the fault of a document in which no node without a parent leads to some of the nodes.
#[cold]
fn check_unreached(document: &impl View) -> Result<(), IntegrityError> {
    let mut listed: HashSet<&NodeId, Secret> = HashSet::default();
    for node in document.nodes() {
        check_node(document, node, |child| listed.extend([&child.id]))?;
    }
    // A listed child names its parent, checked above; so each node with a parent has to be listed.
    let is_denied = |node: &&Node| node.parent.is_some() && !listed.contains(&node.id);
    if let Some(child) = document.nodes().find(is_denied)
        && let Some(parent) = child.parent.clone()
    {
        let child = child.id.clone();
        return Err(IntegrityError::ParentDenies { parent, child });
    }
    // Each node has exactly one path upwards now, and some of these paths run in a cycle.
    listed.clear();
    let tops = document.nodes().filter(|node| node.parent.is_none());
    listed.extend(
        tops.flat_map(|top| document.descendants(&top.id))
            .map(Node::id),
    );
    let lost = document.nodes().find(|node| !listed.contains(&node.id));
    let up = std::iter::successors(lost, |node| document.node(node.parent.as_ref()?));
    let on_cycle = up.map(Node::id).find(|id| !listed.insert(id));
    on_cycle.map_or(Ok(()), |id| Err(IntegrityError::Cycle { id: id.clone() }))
}
