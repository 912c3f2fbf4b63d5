//! Errors of changes to a document.

use smol_str::SmolStr;

use super::{LimitExceeded, OffsetError, SchemaViolation};
use crate::brief::Brief;
use crate::codes::codes;
use crate::id::NodeId;

/// Why a change failed. The document is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The node does not exist.
    #[error("node {id} does not exist", id = Brief(.id))]
    NodeNotFound {
        /// The requested id.
        id: NodeId,
    },
    /// The node was deleted earlier in the same transaction.
    #[error("node {id} was deleted earlier in this transaction", id = Brief(.id))]
    NodeDeleted {
        /// The requested id.
        id: NodeId,
    },
    /// The node was joined to another earlier in the same transaction.
    #[error("node {id} was joined to node {into} earlier in this transaction")]
    NodeJoined {
        /// The requested id.
        id: NodeId,
        /// The node that received its text and children.
        into: NodeId,
    },
    /// The transaction locks nodes, and a required node lock was not acquired.
    /// `doclock::Draft::lock_error` has the cause.
    #[error("{} could not be locked", NotLocked(.id))]
    NotLocked {
        /// A node that is not locked; `None` for the document itself.
        id: Option<NodeId>,
        /// Whether a retry of the whole transaction may succeed.
        transient: bool,
    },
    /// The transaction locks nodes, and other transactions changed a node between its read and its
    /// lock. A retry of the whole transaction is safe.
    #[error("node {id} was read, and other commits changed it up to version {version}; transient: a retry may succeed", id = Brief(.id))]
    Outdated {
        /// The node.
        id: NodeId,
        /// The version in which it is different.
        version: u64,
    },
    /// The change exceeds a limit of the transaction.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// A new node has the id of another node.
    #[error("node {id} exists already", id = Brief(.id))]
    IdTaken {
        /// The id.
        id: NodeId,
    },
    /// A new node has the empty string as its id.
    #[error("a node id is empty")]
    IdEmpty,
    /// A new node has a generated id beyond the range that the store can generate.
    #[error(
        "node id {id} is out of range: the largest number that the store generates is {largest}", id = Brief(.id))]
    IdOutOfRange {
        /// The id.
        id: NodeId,
        /// The largest number.
        largest: u64,
    },
    /// The store has no more ids to generate.
    #[error("no node ids are left: the store has generated all of them")]
    IdsExhausted,
    /// The index is out of range among the children.
    #[error("index {index} is out of range: node {parent} has {len} children", parent = Brief(.parent))]
    IndexOutOfRange {
        /// The parent.
        parent: NodeId,
        /// The requested index.
        index: usize,
        /// The number of children of the parent; the node to be placed does not count.
        len: usize,
    },
    /// The characters are out of range in the text.
    #[error("characters {start}..{end} are out of range: the text of node {id} has {len}", id = Brief(.id))]
    TextOutOfRange {
        /// The node.
        id: NodeId,
        /// The first requested character.
        start: usize,
        /// The end of the requested range.
        end: usize,
        /// How many characters the text has.
        len: usize,
    },
    /// A mark exceeds its text.
    #[error("mark {kind} over {start}..{end} is out of range: the text of node {id} has {len}", kind = Brief(.kind), id = Brief(.id))]
    MarkOutOfRange {
        /// The node.
        id: NodeId,
        /// The kind of the mark.
        kind: SmolStr,
        /// The start of its range.
        start: usize,
        /// The end of its range.
        end: usize,
        /// How many characters the text has.
        len: usize,
    },
    /// A position in another unit than scalar values has no counterpart in its text.
    #[error("{}: {cause}", TextOf(.id, .mark))]
    Offset {
        /// The node with the text; `None` for a new node without an id.
        id: Option<NodeId>,
        /// The kind of the mark with the position in its range, if any.
        mark: Option<SmolStr>,
        /// The offset, its unit and the length of the text in that unit.
        #[source]
        cause: OffsetError,
    },
    /// The schema has no result for an edit of blocks: nothing that it deletes, inserts, splits,
    /// joins, lifts or wraps fits there.
    #[error("the edit at node {id} does not fit: no valid content of node {parent} has its result, by the rule `{content}`", id = Brief(.id), parent = Brief(.parent), content = Brief(.content))]
    DoesNotFit {
        /// The node at which the edit begins.
        id: NodeId,
        /// The node whose content would be invalid.
        parent: NodeId,
        /// The content expression of its type.
        content: SmolStr,
    },
    /// An edit of a table is not in one, by the rules of the store's schema.
    #[error("the edit of a table at node {id} requires a node with the table role {role}, which is not around it or not in the schema", id = Brief(.id))]
    NotInTable {
        /// The node.
        id: NodeId,
        /// What is missing: `table`, `row`, `cell` or `header_cell`.
        role: &'static str,
    },
    /// A table does not allow an edit.
    #[error("the table {id} cannot be edited in this way: {rule}", id = Brief(.id))]
    TableRule {
        /// The table.
        id: NodeId,
        /// The rule that the edit would violate.
        rule: &'static str,
    },
    /// The value of an attribute is nested deeper than
    /// [`Attributes::MAX_LEVELS`](crate::Attributes::MAX_LEVELS).
    #[error(
        "attribute {attribute}{} of node {id} is nested {levels} levels deep: the limit is {limit}",
        OfMark(.mark)
    )]
    TooDeep {
        /// The node.
        id: NodeId,
        /// The kind of the mark that has the attribute; `None` for an attribute of the node itself.
        mark: Option<SmolStr>,
        /// The attribute.
        attribute: SmolStr,
        /// The number of nested arrays and objects.
        levels: usize,
        /// The largest number allowed.
        limit: usize,
    },
    /// A move would make a node its own ancestor.
    #[error("node {id} cannot move under node {parent}, which is in its subtree", id = Brief(.id), parent = Brief(.parent))]
    Cycle {
        /// The node to be moved.
        id: NodeId,
        /// The new parent.
        parent: NodeId,
    },
    /// The node is not a child of this parent.
    #[error("node {child} is not a child of {parent}", child = Brief(.child), parent = Brief(.parent))]
    NotAChild {
        /// The parent that was named.
        parent: NodeId,
        /// The child that was named.
        child: NodeId,
    },
    /// The root cannot be deleted.
    #[error("node {id} is the root of the document and cannot be deleted", id = Brief(.id))]
    RootDeleted {
        /// The root.
        id: NodeId,
    },
    /// The root cannot have a parent.
    #[error("node {id} is the root of the document and cannot be put under {parent}", id = Brief(.id), parent = Brief(.parent))]
    RootMoved {
        /// The root.
        id: NodeId,
        /// The new parent.
        parent: NodeId,
    },
    /// Only a node without a parent can be the root.
    #[error("node {id} cannot be the root of the document: it is a child of {parent}", id = Brief(.id), parent = Brief(.parent))]
    RootAttached {
        /// The node.
        id: NodeId,
        /// Its parent.
        parent: NodeId,
    },
    /// A node without a parent cannot have a sibling.
    #[error("node {id} has no parent, so nothing can be put beside it", id = Brief(.id))]
    NoParent {
        /// The node.
        id: NodeId,
    },
    /// Of two nodes in different trees, neither comes before the other.
    #[error("nodes {one} and {other} are in different trees, so neither comes first", one = Brief(.one), other = Brief(.other))]
    DifferentTrees {
        /// One node.
        one: NodeId,
        /// The other.
        other: NodeId,
    },
    /// The nodes are not adjacent siblings, so they cannot be joined.
    #[error("node {right} is not the next sibling of node {left}, so the two cannot be joined", right = Brief(.right), left = Brief(.left))]
    NotAdjacent {
        /// The node that would stay.
        left: NodeId,
        /// The node that would be deleted.
        right: NodeId,
    },
    /// The document differs from the state that the change expects.
    #[error("the change does not match the {aspect} of node {id}", id = Brief(.id))]
    Conflict {
        /// The node.
        id: NodeId,
        /// The aspect that differs: `text`, `set of marks`, `set of attributes`, `type`, `place`,
        /// `subtree` or `root`.
        aspect: &'static str,
    },
    /// The store's schema does not have a type or a mark.
    #[error(transparent)]
    Schema(Box<SchemaViolation>),
    /// A list of nodes is not exactly one subtree.
    #[error("the nodes to insert are not one subtree: {reason} at node {id}", id = Brief(.id))]
    Malformed {
        /// The node at which the check failed.
        id: NodeId,
        /// The reason.
        reason: &'static str,
    },
}

impl From<SchemaViolation> for EditError {
    fn from(violation: SchemaViolation) -> Self {
        Self::Schema(Box::new(violation))
    }
}

impl EditError {
    /// Returns the node that the error concerns; of two nodes, the first one in the message.
    /// Returns `None` if the error concerns the document itself or no node.
    pub fn node(&self) -> Option<&NodeId> {
        match self {
            Self::NodeNotFound { id }
            | Self::NodeDeleted { id }
            | Self::NodeJoined { id, .. }
            | Self::Outdated { id, .. }
            | Self::IdTaken { id }
            | Self::IdOutOfRange { id, .. }
            | Self::TextOutOfRange { id, .. }
            | Self::MarkOutOfRange { id, .. }
            | Self::TooDeep { id, .. }
            | Self::DoesNotFit { id, .. }
            | Self::NotInTable { id, .. }
            | Self::TableRule { id, .. }
            | Self::Cycle { id, .. }
            | Self::RootDeleted { id }
            | Self::RootMoved { id, .. }
            | Self::RootAttached { id, .. }
            | Self::NoParent { id }
            | Self::DifferentTrees { one: id, .. }
            | Self::IndexOutOfRange { parent: id, .. }
            | Self::NotAChild { child: id, .. }
            | Self::NotAdjacent { right: id, .. }
            | Self::Conflict { id, .. }
            | Self::Malformed { id, .. } => Some(id),
            Self::NotLocked { id, .. } | Self::Offset { id, .. } => id.as_ref(),
            Self::Schema(violation) => Some(violation.node_id()),
            Self::Limit(_) | Self::IdEmpty | Self::IdsExhausted => None,
        }
    }

    /// An error about a position in the text of a node.
    #[doc(hidden)]
    pub fn offset(id: NodeId, cause: OffsetError) -> Self {
        Self::Offset {
            id: Some(id),
            mark: None,
            cause,
        }
    }
}

codes! { inherent EditError {
    Self::NodeNotFound { id } => "nodeNotFound", 409;
    Self::NodeDeleted { id } => "nodeDeleted";
    Self::NodeJoined { id, into } => "nodeJoined";
    Self::NotLocked { id, transient } => "nodeNotLocked" if *transient, 409;
    Self::Outdated { id, version } => "nodeOutdated" if true;
    Self::Limit(exceeded) => as exceeded;
    Self::IdTaken { id } => "nodeIdTaken", 409;
    Self::IdEmpty => "nodeIdEmpty";
    Self::IdOutOfRange { id, largest } => "nodeIdOutOfRange";
    Self::IdsExhausted => "nodeIdsExhausted", 500;
    Self::IndexOutOfRange { parent, index, len } => "indexOutOfRange";
    Self::TextOutOfRange { id, start, end, len } => "textOutOfRange";
    Self::Offset { id, mark, cause } => "textOffset";
    Self::MarkOutOfRange { id, kind, start, end, len } => "markOutOfRange";
    Self::TooDeep { id, mark, attribute, levels, limit } => "attributeTooDeep";
    Self::DoesNotFit { id, parent, content } => "doesNotFit";
    Self::NotInTable { id, role } => "notInTable";
    Self::TableRule { id, rule } => "tableRule";
    Self::Cycle { id, parent } => "nodeCycle";
    Self::NotAChild { parent, child } => "notAChild";
    Self::RootDeleted { id } => "rootDeleted";
    Self::RootMoved { id, parent } => "rootMoved";
    Self::RootAttached { id, parent } => "rootAttached";
    Self::NoParent { id } => "noParent";
    Self::DifferentTrees { one, other } => "differentTrees";
    Self::NotAdjacent { left, right } => "notAdjacent";
    Self::Conflict { id, aspect } => "changeConflict", 409;
    Self::Schema(violation) => as violation;
    Self::Malformed { id, reason } => "subtreeMalformed";
}}

struct TextOf<'a>(&'a Option<NodeId>, &'a Option<SmolStr>);

impl std::fmt::Display for TextOf<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(id, mark) = self;
        if let Some(kind) = mark {
            write!(f, "mark {} in the ", Brief(kind))?;
        }
        match id {
            Some(id) => write!(f, "text of node {}", Brief(id)),
            None => f.write_str("text of a new node"),
        }
    }
}

struct OfMark<'a>(&'a Option<SmolStr>);

impl std::fmt::Display for OfMark<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(kind) => write!(f, " of mark {kind}"),
            None => Ok(()),
        }
    }
}

struct NotLocked<'a>(&'a Option<NodeId>);

impl std::fmt::Display for NotLocked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(id) => write!(f, "node {}", Brief(id)),
            None => f.write_str("the document"),
        }
    }
}
