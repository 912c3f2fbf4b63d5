//! The target, alias and JSON form of an operation on a node.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use smol_str::SmolStr;

use super::NodeOperation;
use crate::transaction::operation::json::{self, Malformed};
use crate::transaction::operation::{NodeRef, Operation};

impl NodeOperation {
    /// Sets the node that the operation applies to.
    pub fn on(self, node_id: impl Into<NodeRef>) -> Operation {
        let node_id = node_id.into();
        match self {
            Self::Named { alias, operation } => operation.on(node_id).named(alias),
            operation => Operation::On {
                node_id,
                operation,
                unit: None,
            },
        }
    }

    /// Names the first node that the operation creates, as [`Operation::named`] does; for
    /// operations in a [`control`](crate::dsl::control).
    ///
    /// ```
    /// use doclock::{DataStore, Editor, View, dsl::*};
    ///
    /// let editor = Editor::new(DataStore::new(), "ann");
    /// transaction(&editor, [
    ///     create(element("list", []).with_id("list")),
    ///     control("list", [
    ///         add_child(element("item", []), None).named("item"),
    ///         set_attrs([("kind", "bullet".into())]),
    ///     ]),
    ///     add_child(text_node("paragraph", "one"), None).on(alias("item")),
    /// ])
    /// .commit()?;
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// ```
    #[must_use]
    pub fn named(self, alias: impl Into<SmolStr>) -> Self {
        Self::Named {
            alias: alias.into(),
            operation: Box::new(self),
        }
    }

    /// Name, payload and alias of the JSON form.
    pub(in crate::transaction::operation) fn parts(
        &self,
    ) -> Result<json::OperationJson<'_>, serde_json::Error> {
        if let Self::Named { alias, operation } = self {
            return operation.parts()?.named(alias);
        }
        Ok(json::OperationJson::new(self.name(), self.payload()?))
    }

    /// Reads an operation from its JSON within a control, which names the node.
    pub(in crate::transaction::operation) fn read(text: &RawValue) -> Result<Self, Malformed<'_>> {
        let envelope = json::Envelope::read(text)?;
        if !Self::NAMES.contains(&envelope.name.as_str()) {
            return Err(envelope.unknown(Self::NAMES.iter().copied()));
        }
        envelope.without_unit()?;
        let operation = Self::of_fields(&envelope.fields()?)?;
        Ok(match envelope.alias {
            Some(alias) => operation.named(alias),
            None => operation,
        })
    }
}

impl Serialize for NodeOperation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parts = self.parts().map_err(serde::ser::Error::custom)?;
        parts.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for NodeOperation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = json::text(deserializer)?;
        Self::read(&text).map_err(|fault| serde::de::Error::custom(fault.reason))
    }
}
