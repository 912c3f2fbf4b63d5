//! A document from its stored parts: its head, its nodes and its later changes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::load::{LARGEST, Names};
use super::numbering::SessionNumbers;
use super::save::Tokens;
use super::{Document, Numbering, Snapshot};
use crate::document::lease::Leases;
use crate::document::nodes::Nodes;
use crate::document::{Change, EditError, IntegrityError, Node, Overlay, check};
use crate::id::{NodeId, NodeIds};

/// What a document has beside its nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DocumentHead {
    pub(crate) version: u64,
    pub(crate) root: Option<NodeId>,
    pub(crate) tokens: Tokens,
    pub(crate) session: SessionNumbers,
}

/// Why stored parts are no document.
#[derive(Debug)]
pub(crate) enum AssemblyError {
    TooLarge(u64),
    Twice(NodeId),
    Integrity(IntegrityError),
}

impl Tokens {
    /// Makes all later tokens greater than this one.
    pub(crate) fn raise(&mut self, to: u64) {
        for token in [&mut self.lock, &mut self.lease, &mut self.claim] {
            *token = to.max(*token);
        }
    }

    /// Takes note of the token of a commit.
    pub(crate) fn note(&mut self, lock: u64) {
        self.lock = lock.max(self.lock);
    }
}

impl Snapshot {
    /// The document without its nodes.
    pub(crate) fn head(&self) -> DocumentHead {
        let numbering = self.numbering();
        DocumentHead {
            version: self.version(),
            root: self.0.root.clone(),
            tokens: Tokens {
                lock: numbering.lock_token,
                lease: self.held().last_token(),
                claim: numbering.claim_token,
            },
            session: numbering.session,
        }
    }

    /// Makes a document of its parts, and checks it.
    pub(crate) fn assemble(
        head: DocumentHead,
        all: impl IntoIterator<Item = Node>,
    ) -> Result<Self, AssemblyError> {
        let DocumentHead {
            version,
            root,
            tokens,
            session,
        } = head;
        let numbers = [version, tokens.lock, tokens.lease, tokens.claim];
        if let Some(number) = numbers.into_iter().find(|number| *number > LARGEST) {
            return Err(AssemblyError::TooLarge(number));
        }
        let (mut nodes, mut names) = (Nodes::default(), Names::default());
        for mut node in all {
            names.share(&mut node);
            let (id, before) = (node.id.clone(), nodes.len());
            nodes.insert(Arc::new(node));
            if nodes.len() == before {
                return Err(AssemblyError::Twice(id));
            }
        }
        let snapshot = Self(Arc::new(Document {
            version,
            root,
            nodes,
            leases: Leases::after(tokens.lease),
            numbering: Numbering {
                lock_token: tokens.lock,
                claim_token: tokens.claim,
                session,
            },
        }));
        check(&snapshot).map_err(AssemblyError::Integrity)?;
        Ok(snapshot)
    }

    /// Repeats a commit: checks and applies its changes, which make the next version. Selections
    /// are not part of it: that of a transaction on nodes may have been outdated already.
    pub(crate) fn repeat(&mut self, changes: &[Change]) -> Result<(), EditError> {
        let mut overlay = Overlay::new(self.clone());
        let ids = NodeIds::unreserved();
        for change in changes.iter().filter(|it| it.is_of_the_document()) {
            overlay.apply(change.clone(), &ids)?;
        }
        overlay.fold_into(self);
        Ok(())
    }

    /// Sets the tokens and the session with which a store goes on.
    pub(crate) fn continue_with(&mut self, tokens: &Tokens, session: u32) {
        let mut numbering = self.numbering();
        numbering.lock_token = tokens.lock;
        numbering.claim_token = tokens.claim;
        numbering.session = numbering.session.of(session);
        self.set_numbering(numbering);
        *self.held_mut() = Leases::after(tokens.lease);
    }
}
