//! Names that operations give nodes, for the rest of their transaction.

use smol_str::SmolStr;

use super::Transaction;
use crate::brief::Brief;
use crate::id::NodeId;

/// Why an alias does not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AliasError {
    /// No operation before gave a node this name.
    #[error("no node is named {alias:?} in this transaction", alias = Brief(.alias))]
    Unknown {
        /// The name.
        alias: SmolStr,
    },
    /// Another node has this name already.
    #[error("another node is named {alias:?} in this transaction", alias = Brief(.alias))]
    Taken {
        /// The name.
        alias: SmolStr,
    },
    /// The operation created nothing that could have the name.
    #[error("no node was created that could be named {alias:?}", alias = Brief(.alias))]
    NothingCreated {
        /// The name.
        alias: SmolStr,
    },
}

/// # Aliases
impl Transaction {
    /// Names a node for the rest of the transaction.
    pub(crate) fn name_node(&mut self, alias: SmolStr, id: NodeId) -> Result<(), AliasError> {
        match self.named(&alias) {
            Ok(_) => Err(AliasError::Taken { alias }),
            Err(_) => {
                self.aside_mut().aliases.push((alias, id));
                Ok(())
            }
        }
    }

    /// The node that an earlier operation of this transaction named.
    ///
    /// # Errors
    ///
    /// [`AliasError::Unknown`].
    pub fn named(&self, alias: &str) -> Result<&NodeId, AliasError> {
        let aliases = self.aside.iter().flat_map(|aside| &aside.aliases);
        let mut known = aliases.filter(|(known, _)| known == alias);
        known
            .next()
            .map(|(_, id)| id)
            .ok_or_else(|| AliasError::Unknown {
                alias: alias.into(),
            })
    }
}
