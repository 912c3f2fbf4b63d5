//! Names that operations give to nodes, for the rest of their transaction.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::Draft;
use crate::brief::Brief;
use crate::codes::codes;
use crate::id::NodeId;
use crate::steps::step;

/// An alias that cannot be resolved or given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AliasError {
    /// No earlier operation gave a node this name.
    #[error("no node is named {alias:?} in this transaction", alias = Brief(.alias))]
    Unknown {
        /// The name.
        alias: SmolStr,
    },
    /// Another node already has this name.
    #[error("another node is named {alias:?} in this transaction", alias = Brief(.alias))]
    Taken {
        /// The name.
        alias: SmolStr,
    },
    /// The operation created no node that the name could stand for.
    #[error("no node was created that could be named {alias:?}", alias = Brief(.alias))]
    NothingCreated {
        /// The name.
        alias: SmolStr,
    },
}

codes! { AliasError {
    Self::Unknown { alias } => "aliasUnknown";
    Self::Taken { alias } => "aliasTaken";
    Self::NothingCreated { alias } => "aliasNothingCreated";
}}

/// Nodes by the names that operations gave them.
#[derive(Default)]
pub(super) struct Aliases {
    nodes: BTreeMap<AliasEntry, NodeId>,
    /// In the order in which they were given.
    given: Vec<SmolStr>,
}

/// An alias whose comparisons are counted by tests of cost.
#[derive(PartialEq, Eq)]
struct AliasEntry(SmolStr);

impl PartialOrd for AliasEntry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for AliasEntry {
    fn cmp(&self, other: &Self) -> Ordering {
        step();
        self.0.cmp(&other.0)
    }
}

impl Aliases {
    pub(super) fn len(&self) -> usize {
        self.given.len()
    }

    /// Keeps the first `len` aliases.
    pub(super) fn truncate(&mut self, len: usize) {
        while self.given.len() > len {
            let last = self.given.pop();
            last.and_then(|alias| self.nodes.remove(&AliasEntry(alias)));
        }
    }

    fn give(&mut self, alias: SmolStr, id: NodeId) {
        self.given.push(alias.clone());
        self.nodes.insert(AliasEntry(alias), id);
    }
}

/// # Aliases
impl Draft {
    /// Names a node for the rest of the transaction.
    pub(crate) fn name_node(&mut self, alias: SmolStr, id: NodeId) -> Result<(), AliasError> {
        match self.named(&alias) {
            Ok(_) => Err(AliasError::Taken { alias }),
            Err(_) => {
                self.optional_mut().aliases.give(alias, id);
                Ok(())
            }
        }
    }

    /// Returns the node that an earlier operation of this transaction named.
    ///
    /// # Errors
    ///
    /// [`AliasError::Unknown`]: no node has this name.
    pub fn named(&self, alias: &str) -> Result<&NodeId, AliasError> {
        let alias = AliasEntry(alias.into());
        let optional = self.optional.as_ref();
        let node = optional.and_then(|optional| optional.aliases.nodes.get(&alias));
        node.ok_or(AliasError::Unknown { alias: alias.0 })
    }
}
