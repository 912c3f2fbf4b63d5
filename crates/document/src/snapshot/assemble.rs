//! A document from its stored parts: its head, its nodes and its later changes.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::numbering::SessionNumbers;
use super::{Document, Numbering, Snapshot, Tokens};
use crate::brief::Brief;
use crate::hashing::Secret;
use crate::id::{NodeId, NodeIds};
use crate::nodes::Nodes;
use crate::{Change, EditError, IntegrityError, Node, Overlay, check};

/// What a document has beside its nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DocumentHead {
    pub version: u64,
    pub(crate) root: Option<NodeId>,
    pub tokens: Tokens,
    pub session: SessionNumbers,
}

/// The largest number that is imported. As many again can follow in a 64-bit number.
pub(super) const LARGEST: u64 = u64::MAX / 2;

impl DocumentHead {
    /// Checks that further numbers can follow.
    pub fn check(&self, limit: u64) -> Result<(), AssemblyError> {
        let Self {
            version,
            tokens,
            session,
            ..
        } = self;
        check_room("version", *version, limit)?;
        check_room("token", tokens.largest(), limit)?;
        check_room("number of transactions", session.transactions, limit)
    }
}

/// Checks that further numbers can follow one that is read.
pub fn check_room(what: &'static str, number: u64, limit: u64) -> Result<(), AssemblyError> {
    match number > limit {
        true => Err(AssemblyError::TooLarge {
            what,
            number,
            limit,
        }),
        false => Ok(()),
    }
}

/// Why parts are no document.
#[derive(Debug, thiserror::Error)]
#[doc(hidden)]
pub enum AssemblyError {
    #[error("the {what} {number} is too large: the limit is {limit}")]
    TooLarge {
        what: &'static str,
        number: u64,
        limit: u64,
    },
    #[error("the {what} is zero: the first is 1")]
    Zero { what: &'static str },
    #[error("node {} is listed twice", Brief(.0))]
    Twice(NodeId),
    #[error(transparent)]
    Integrity(IntegrityError),
}

/// The nodes of a document, as they are read.
#[derive(Default)]
pub struct NodeTable {
    nodes: Nodes,
    ids: IdInterner,
}

impl NodeTable {
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn insert(&mut self, mut node: Node) -> Result<(), AssemblyError> {
        self.ids.share(&mut node);
        let (id, before) = (node.id.clone(), self.len());
        self.nodes.insert(Arc::new(node));
        match self.len() > before {
            true => Ok(()),
            false => Err(AssemblyError::Twice(id)),
        }
    }
}

/// The long custom ids, so that a node, its parent and its children share one copy of each.
#[derive(Default)]
struct IdInterner(HashSet<NodeId, Secret>);

impl IdInterner {
    fn share(&mut self, node: &mut Node) {
        node.id = self.shared(&node.id);
        node.parent = node.parent.as_ref().map(|id| self.shared(id));
        if node.children.iter().any(NodeId::is_long) {
            node.children = node.children.iter().map(|id| self.shared(id)).collect();
        }
    }

    fn shared(&mut self, id: &NodeId) -> NodeId {
        if !id.is_long() {
            return id.clone();
        }
        match self.0.get(id) {
            Some(known) => known.clone(),
            None => {
                self.0.insert(id.clone());
                id.clone()
            }
        }
    }
}

impl Tokens {
    /// Makes all later tokens greater than this one.
    pub fn raise(&mut self, to: u64) {
        for token in [&mut self.lock, &mut self.lease, &mut self.claim] {
            *token = to.max(*token);
        }
    }

    /// The largest of the last tokens.
    pub fn largest(&self) -> u64 {
        self.lock.max(self.lease).max(self.claim)
    }

    /// Raises the last lock token to that of a commit.
    pub fn raise_lock(&mut self, lock: u64) {
        self.lock = lock.max(self.lock);
    }
}

impl Snapshot {
    /// The document without its nodes.
    #[doc(hidden)]
    pub fn head(&self) -> DocumentHead {
        let numbering = self.numbering();
        DocumentHead {
            version: self.version(),
            root: self.0.root.clone(),
            tokens: Tokens {
                lock: numbering.lock_token,
                lease: numbering.lease_token,
                claim: numbering.claim_token,
            },
            session: numbering.session,
        }
    }

    /// Makes a document of its parts, and checks it.
    #[doc(hidden)]
    pub fn assemble(head: DocumentHead, nodes: NodeTable) -> Result<Self, AssemblyError> {
        let snapshot = Self::unchecked(head, nodes);
        check(&snapshot).map_err(AssemblyError::Integrity)?;
        Ok(snapshot)
    }

    /// Makes a document of its parts.
    pub(super) fn unchecked(head: DocumentHead, nodes: NodeTable) -> Self {
        let DocumentHead {
            version,
            root,
            tokens,
            session,
        } = head;
        Self(Arc::new(Document {
            version,
            root,
            nodes: nodes.nodes,
            numbering: Numbering {
                lock_token: tokens.lock,
                lease_token: tokens.lease,
                claim_token: tokens.claim,
                session,
            },
            sizes: Default::default(),
        }))
    }

    /// Repeats a commit: checks and applies its changes, which make the next version. Selections
    /// are not part of it: that of a transaction on nodes may have been outdated already.
    #[doc(hidden)]
    pub fn repeat(&mut self, changes: &[Change]) -> Result<(), EditError> {
        let mut overlay = Overlay::new(self.clone());
        let ids = NodeIds::unreserved();
        for change in changes.iter().filter(|it| it.is_of_the_document()) {
            overlay.apply(change.clone(), &ids)?;
        }
        overlay.fold_into(self);
        Ok(())
    }

    /// Takes a commit back: checks and applies the inverses of its changes, which make the version
    /// before.
    #[doc(hidden)]
    pub fn take_back(&mut self, changes: &[Change]) -> Result<(), EditError> {
        let inverses = changes.iter().rev().map(Change::inverse);
        let inverses: Vec<_> = inverses.collect();
        let before = self.version().saturating_sub(1);
        self.repeat(&inverses)?;
        Arc::make_mut(&mut self.0).version = before;
        Ok(())
    }

    /// Sets the tokens and the session with which a store goes on.
    #[doc(hidden)]
    pub fn continue_with(&mut self, tokens: &Tokens, session: u32) {
        let mut numbering = self.numbering();
        numbering.lock_token = tokens.lock;
        numbering.lease_token = tokens.lease;
        numbering.claim_token = tokens.claim;
        numbering.session = numbering.session.of(session);
        self.set_numbering(numbering);
    }
}
