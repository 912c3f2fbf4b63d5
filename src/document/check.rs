//! Checks the integrity of a document.

use std::collections::HashSet;

use super::{Node, View};
use crate::brief::Brief;
use crate::codes::codes;
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

codes! { IntegrityError {
    Self::ChildMissing { parent, child } => "documentChildMissing";
    Self::ChildOfAnother { parent, child } => "documentChildOfAnother";
    Self::ChildTwice { parent, child } => "documentChildTwice";
    Self::ParentDenies { parent, child } => "documentParentDenies";
    Self::Cycle { id } => "documentCycle";
    Self::Root { id } => "documentRoot";
    Self::Marks { id } => "documentMarks";
}}

/// Checks the integrity of a document. Parents and children must name each other, no node may be
/// its own ancestor, the root must have no parent, and marks must be in normal form. The check
/// visits each node once.
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
    let mut listed: HashSet<&NodeId> = HashSet::new();
    for node in document.nodes() {
        check_children(document, node, &mut listed)?;
        if !node.marks.are_normal(node.text.len()) {
            return Err(IntegrityError::Marks {
                id: node.id.clone(),
            });
        }
    }
    // A listed child names its parent, checked above; so each node with a parent has to be listed.
    for node in document.nodes() {
        if let Some(parent) = &node.parent
            && !listed.contains(&node.id)
        {
            return Err(IntegrityError::ParentDenies {
                parent: parent.clone(),
                child: node.id.clone(),
            });
        }
    }
    // Each node has exactly one path upwards now. It ends at a node without a parent or runs in a
    // cycle, and no such node is an ancestor of a cycle.
    let tops = document.nodes().filter(|node| node.parent.is_none());
    let below_tops: HashSet<&NodeId> = tops
        .flat_map(|top| document.descendants(&top.id))
        .map(Node::id)
        .collect();
    match document.nodes().find(|node| !below_tops.contains(&node.id)) {
        Some(node) => Err(IntegrityError::Cycle {
            id: node.id.clone(),
        }),
        None => Ok(()),
    }
}

fn check_children<'a>(
    document: &impl View,
    node: &'a Node,
    listed: &mut HashSet<&'a NodeId>,
) -> Result<(), IntegrityError> {
    for child in node.children.iter() {
        let named = document.node(child).map(Node::parent);
        let twice = !listed.insert(child);
        let (parent, child) = (node.id.clone(), child.clone());
        match named {
            None => return Err(IntegrityError::ChildMissing { parent, child }),
            Some(named) if named != Some(&parent) => {
                return Err(IntegrityError::ChildOfAnother { parent, child });
            }
            Some(_) if twice => return Err(IntegrityError::ChildTwice { parent, child }),
            Some(_) => {}
        }
    }
    Ok(())
}
