//! The targets of leases.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::brief::Brief;
use crate::id::NodeId;

/// A target of a [lease](crate::lease::Leases::acquire).
///
/// Prints as `the document` or `node <id>`; serializes as `"document"` or `{"node": "<id>"}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LeaseTarget {
    /// The whole document. It excludes leases on all nodes.
    Document,
    /// A single node without its subtree. The id need not exist.
    Node(NodeId),
}

impl LeaseTarget {
    /// The size of its id in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Document => 0,
            Self::Node(id) => id.bytes(),
        }
    }

    /// Whether it is a node with an empty id, which no node has.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Node(id) if id.is_empty())
    }
}

impl fmt::Display for LeaseTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document => f.write_str("the document"),
            Self::Node(id) => write!(f, "node {}", Brief(id)),
        }
    }
}

impl<I: Into<NodeId>> From<I> for LeaseTarget {
    fn from(id: I) -> Self {
        Self::Node(id.into())
    }
}

/// The targets of one lease: one or several, each once, the document before the nodes.
///
/// Made from a target, a node id, or an array, vector or slice of either.
///
/// ```
/// use doclock::{NodeId, lease::{LeaseTarget, LeaseTargets}};
///
/// assert_eq!(LeaseTargets::from("ann"), LeaseTargets::from([NodeId::from("ann")]));
/// assert_eq!(LeaseTargets::from(["bob", "ann", "bob"]).to_string(), "node ann, node bob");
/// assert_eq!(LeaseTargets::from(LeaseTarget::Document).len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<LeaseTarget>", into = "Vec<LeaseTarget>")]
pub struct LeaseTargets(Arc<[LeaseTarget]>);

impl LeaseTargets {
    /// At most so many are printed, and the number of the others.
    const LISTED: usize = 8;

    /// Returns the targets as a slice.
    pub fn as_slice(&self) -> &[LeaseTarget] {
        &self.0
    }
}

impl Deref for LeaseTargets {
    type Target = [LeaseTarget];

    fn deref(&self) -> &[LeaseTarget] {
        &self.0
    }
}

impl<T: Into<LeaseTarget>> FromIterator<T> for LeaseTargets {
    fn from_iter<I: IntoIterator<Item = T>>(targets: I) -> Self {
        let mut targets: Vec<LeaseTarget> = targets.into_iter().map(Into::into).collect();
        targets.sort_unstable();
        targets.dedup();
        Self(targets.into())
    }
}

macro_rules! from_one {
    ($($target:ty),*) => {$(
        impl From<$target> for LeaseTargets {
            fn from(target: $target) -> Self {
                [target].into()
            }
        }
    )*};
}

from_one!(LeaseTarget, NodeId, &NodeId, &str, String, &String);

impl<T: Into<LeaseTarget>, const N: usize> From<[T; N]> for LeaseTargets {
    fn from(targets: [T; N]) -> Self {
        targets.into_iter().collect()
    }
}

impl<T: Into<LeaseTarget>> From<Vec<T>> for LeaseTargets {
    fn from(targets: Vec<T>) -> Self {
        targets.into_iter().collect()
    }
}

impl From<LeaseTargets> for Vec<LeaseTarget> {
    fn from(targets: LeaseTargets) -> Self {
        targets.to_vec()
    }
}

impl<T: Into<LeaseTarget> + Clone> From<&[T]> for LeaseTargets {
    fn from(targets: &[T]) -> Self {
        targets.iter().cloned().collect()
    }
}

impl fmt::Display for LeaseTargets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, target) in self.iter().take(Self::LISTED).enumerate() {
            let lead = if nth == 0 { "" } else { ", " };
            write!(f, "{lead}{target}")?;
        }
        match self.len().saturating_sub(Self::LISTED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
