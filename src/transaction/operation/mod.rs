//! Operations: the steps of a transaction, as data.

mod callback;
mod into_operations;
mod json;
#[macro_use]
mod list;
pub mod on_document;
pub mod on_node;
mod target;
mod unit;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use smol_str::SmolStr;

use json::OperationJson;

pub use callback::Callback;
pub use into_operations::IntoOperations;
pub(super) use json::{Malformed, ObjectFields, read_unit};
pub(super) use list::OperationOn;
pub use on_document::DocumentOperation;
pub(super) use on_document::DocumentTarget;
pub use on_node::NodeOperation;
pub use target::{Alias, Child, NodeRef, TextSpan};

use crate::document::TextUnit;

/// One step of a transaction. The functions in [`dsl`](crate::dsl) create operations.
///
/// All variants except [`Call`](Self::Call) are data: `{"type": "insertText", "payload":
/// {"nodeId": "1:4", "offset": 0, "text": "x"}}`. Next to `type` and `payload` there may be an
/// `alias` (see [`named`](Self::named)) and a `unit` (see [`in_unit`](Self::in_unit)).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Runs one operation on the document or the selection.
    OnDocument {
        /// The operation.
        operation: DocumentOperation,
        /// The unit of its positions; scalar values for `None`.
        unit: Option<TextUnit>,
    },
    /// Runs one operation on a node.
    On {
        /// The node.
        node_id: NodeRef,
        /// The operation.
        operation: NodeOperation,
        /// The unit of its positions; scalar values for `None`.
        unit: Option<TextUnit>,
    },
    /// Runs several operations on one node, in order.
    Control {
        /// The node.
        node_id: NodeRef,
        /// The operations.
        operations: Vec<NodeOperation>,
        /// The unit of their positions; scalar values for `None`.
        unit: Option<TextUnit>,
    },
    /// Names the first node that an operation creates, for the rest of the transaction.
    Named {
        /// The name.
        alias: SmolStr,
        /// The operation.
        operation: Box<Operation>,
    },
    /// Runs code. It is not data and cannot be serialized.
    Call(Callback),
}

/// The name in the JSON form of [`Operation::Control`].
const CONTROL: &str = "control";

impl Operation {
    /// Returns the name in the JSON form.
    pub fn name(&self) -> &'static str {
        match self {
            Self::OnDocument { operation, .. } => operation.name(),
            Self::On { operation, .. } => operation.name(),
            Self::Control { .. } => CONTROL,
            Self::Named { operation, .. } => operation.name(),
            Self::Call(_) => "op",
        }
    }

    /// Returns the names of all operations that have a JSON form.
    pub fn names() -> impl Iterator<Item = &'static str> {
        // `control` stands after `create`.
        let (create, others) = DocumentOperation::NAMES.split_at(1);
        let names = [create, &[CONTROL], others, NodeOperation::NAMES];
        names.into_iter().flatten().copied()
    }

    /// Names the first node that the operation creates. Later operations of the same transaction
    /// refer to it with [`alias`](crate::dsl::alias).
    ///
    /// ```
    /// use doclock::{DataStore, Editor, View, dsl::*};
    ///
    /// let editor = Editor::new(DataStore::new(), "ann");
    /// transaction(&editor, [
    ///     create(element("list", [])).named("list"),
    ///     add_child(text_node("item", "one"), None).on(alias("list")),
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

    /// Sets the unit of all text positions in the operation, unless it already has one: offsets,
    /// ranges, selections and the ranges of marks. Without a unit they count scalar values. In JSON
    /// it is `"unit": "utf16"` next to `type` and `payload`. [`dsl::utf16`](crate::dsl::utf16) sets
    /// it for a whole batch.
    ///
    /// A position is converted when the operation runs, in the text at that time. The end of a
    /// range counts in the node that contains it. The marks of a new node or a new text count in
    /// that new text. The unit of a [`control`](crate::dsl::control) applies to all operations in
    /// it. An operation without text positions is unchanged: an index counts children, and code
    /// counts scalar values.
    ///
    /// Only the positions of operations have a unit. Changes, events, undo, selections, and errors
    /// other than [`EditError::Offset`](crate::document::EditError::Offset) count scalar values.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, View, document::TextUnit, dsl::*};
    ///
    /// let editor = Editor::new(DataStore::new(), "ann");
    /// let insert = |offset| insert_text(offset, "-").on("t").in_unit(TextUnit::Utf16);
    /// transaction(&editor, [create(text_node("text", "🦀🦀").with_id("t")), insert(2)]).commit()?;
    /// assert_eq!(editor.store().snapshot().node("t").unwrap().text(), &"🦀-🦀");
    ///
    /// let error = transaction(&editor, [insert(1)]).commit().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "operation 0 (insertText on node t): \
    ///      text of node t: offset 1 is inside a surrogate pair: the text has 5 UTF-16 units",
    /// );
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// ```
    #[must_use]
    pub fn in_unit(mut self, unit: TextUnit) -> Self {
        let mut inner = &mut self;
        while let Self::Named { operation, .. } = inner {
            inner = operation;
        }
        match inner {
            Self::OnDocument { operation, .. } if !operation.has_positions() => {}
            Self::OnDocument { unit: own, .. }
            | Self::On { unit: own, .. }
            | Self::Control { unit: own, .. } => {
                own.get_or_insert(unit);
            }
            Self::Named { .. } | Self::Call(_) => {}
        }
        self
    }

    /// The code of the operation, unless it is data.
    pub(in crate::transaction) fn code(&self) -> Option<&Callback> {
        match self {
            Self::Named { operation, .. } => operation.code(),
            Self::Call(code) => Some(code),
            _ => None,
        }
    }

    /// The number of operations in it. `None` if it runs code, which has no bound.
    pub(in crate::transaction) fn extent(&self) -> Option<usize> {
        match self {
            Self::Named { operation, .. } => operation.extent(),
            Self::Call(_) => None,
            Self::Control { operations, .. } => Some(operations.len()),
            _ => Some(1),
        }
    }

    /// Name, payload and alias of the JSON form.
    fn parts(&self) -> Result<OperationJson<'_>, serde_json::Error> {
        Ok(match self {
            Self::OnDocument { operation, unit } => {
                OperationJson::new(operation.name(), operation.payload()?).in_unit(*unit)
            }
            Self::On {
                node_id,
                operation,
                unit,
            } => {
                let mut parts = operation.parts()?.in_unit(*unit);
                parts.payload[NODE_ID] = serde_json::to_value(node_id)?;
                parts
            }
            Self::Control {
                node_id,
                operations,
                unit,
            } => {
                let control = Control {
                    node_id: node_id.clone(),
                    operations: operations.clone(),
                };
                OperationJson::new(CONTROL, serde_json::to_value(control)?).in_unit(*unit)
            }
            Self::Named { alias, operation } => operation.parts()?.named(alias)?,
            Self::Call(_) => {
                return Err(serde::ser::Error::custom(
                    "an operation that runs code cannot be serialized",
                ));
            }
        })
    }

    /// Reads an operation from its JSON.
    pub(in crate::transaction) fn read(text: &RawValue) -> Result<Self, Malformed<'_>> {
        let envelope = json::Envelope::read(text)?;
        if !Self::names().any(|name| name == envelope.name) {
            return Err(envelope.unknown(Self::names()));
        }
        let mut fields = envelope.fields()?;
        let unit = envelope.unit()?;
        let name = envelope.name.as_str();
        let operation = match name {
            CONTROL => {
                let ReadControl {
                    node_id,
                    operations,
                } = fields.read()?;
                let operations = operations.into_iter().enumerate().map(|(nth, operation)| {
                    NodeOperation::read(operation)
                        .map_err(|fault| fault.within(format_args!("control: operations[{nth}]")))
                });
                Self::Control {
                    node_id,
                    operations: operations.collect::<Result<_, _>>()?,
                    unit,
                }
            }
            _ if DocumentOperation::NAMES.contains(&name) => {
                let operation = Self::from(DocumentOperation::of_fields(&fields)?);
                match unit {
                    Some(unit) => operation.in_unit(unit),
                    None => operation,
                }
            }
            _ => {
                let target = fields.split(NODE_ID);
                let operation = NodeOperation::of_fields(&fields)?;
                let TargetField { node_id } = target?.read()?;
                Self::On {
                    node_id,
                    operation,
                    unit,
                }
            }
        };
        Ok(match envelope.alias {
            Some(alias) => operation.named(alias),
            None => operation,
        })
    }
}

const NODE_ID: &str = "nodeId";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Control {
    node_id: NodeRef,
    operations: Vec<NodeOperation>,
}

/// Like [`Control`], with operations that are still text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReadControl<'a> {
    node_id: NodeRef,
    #[serde(borrow)]
    operations: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetField {
    node_id: NodeRef,
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parts = self.parts().map_err(S::Error::custom)?;
        parts.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Operation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = json::text(deserializer)?;
        Self::read(&text).map_err(|fault| D::Error::custom(fault.reason))
    }
}
