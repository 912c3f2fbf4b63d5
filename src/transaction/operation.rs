//! Operations: what a transaction is made of, as data.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use smol_str::SmolStr;

use crate::document::NodeSpec;
use crate::id::NodeId;
use crate::store::Transaction;

/// One step of a transaction. Built with the functions in [`dsl`](super::dsl).
///
/// All but [`Call`](Self::Call) are data: `{"type": "insertText", "payload": {"nodeId": "1:4", "offset": 0, "text": "x"}}`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Creates a node, with all below it, attached nowhere.
    Create {
        /// The node.
        node: NodeSpec,
    },
    /// Does something to a node.
    On {
        /// The node.
        node_id: NodeId,
        /// What.
        operation: NodeOperation,
    },
    /// Does several things to one node, in order.
    Control {
        /// The node.
        node_id: NodeId,
        /// What.
        operations: Vec<NodeOperation>,
    },
    /// Runs code. Not data: it cannot be serialized.
    Call(Callback),
}

/// Something to be done to a node that is named elsewhere: by [`on`](NodeOperation::on) or by
/// [`control`](super::dsl::control).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    content = "payload",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
#[non_exhaustive]
pub enum NodeOperation {
    /// Deletes the node with all below it.
    Delete {},
    /// Attaches a child to the node: a new one, or one that exists, wherever it was attached before.
    AddChild {
        /// The child.
        child: Child,
        /// Its index among the children; at the end for `None`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<usize>,
    },
    /// Detaches a child from the node; it stays in the store, attached nowhere.
    RemoveChild {
        /// The child.
        child_id: NodeId,
    },
    /// Attaches the node elsewhere, with all below it.
    MoveNode {
        /// The new parent.
        parent_id: NodeId,
        /// The index among its children, afterwards; at the end for `None`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<usize>,
    },
    /// Replaces the whole text.
    SetText {
        /// The new text.
        text: SmolStr,
    },
    /// Inserts characters.
    InsertText {
        /// Before which character.
        offset: usize,
        /// The characters.
        text: SmolStr,
    },
    /// Deletes the characters of a half-open range.
    DeleteTextRange {
        /// The first character.
        start: usize,
        /// The first that stays.
        end: usize,
    },
    /// Replaces the characters of a half-open range.
    ReplaceText {
        /// The first character.
        start: usize,
        /// The first that stays.
        end: usize,
        /// The characters instead.
        text: SmolStr,
    },
    /// Sets attributes and leaves the others; `null` removes one.
    SetAttrs {
        /// Names and values.
        attrs: Map<String, Value>,
    },
}

impl NodeOperation {
    /// Names the node.
    pub fn on(self, node_id: impl Into<NodeId>) -> Operation {
        Operation::On {
            node_id: node_id.into(),
            operation: self,
        }
    }

    /// The name in the JSON form.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Delete {} => "delete",
            Self::AddChild { .. } => "addChild",
            Self::RemoveChild { .. } => "removeChild",
            Self::MoveNode { .. } => "moveNode",
            Self::SetText { .. } => "setText",
            Self::InsertText { .. } => "insertText",
            Self::DeleteTextRange { .. } => "deleteTextRange",
            Self::ReplaceText { .. } => "replaceText",
            Self::SetAttrs { .. } => "setAttrs",
        }
    }
}

impl Operation {
    /// The name in the JSON form.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::On { operation, .. } => operation.name(),
            Self::Control { .. } => "control",
            Self::Call(_) => "op",
        }
    }
}

/// A child to be attached: a new node, or the id of one that exists. In JSON an object or a string.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Child {
    /// A node to be created.
    New(NodeSpec),
    /// A node that exists.
    Existing(NodeId),
}

impl<'de> Deserialize<'de> for Child {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(id) => id.parse().map(Self::Existing).map_err(D::Error::custom),
            node => NodeSpec::deserialize(node)
                .map(Self::New)
                .map_err(D::Error::custom),
        }
    }
}

impl From<NodeSpec> for Child {
    fn from(node: NodeSpec) -> Self {
        Self::New(node)
    }
}

impl From<NodeId> for Child {
    fn from(id: NodeId) -> Self {
        Self::Existing(id)
    }
}

impl From<&NodeId> for Child {
    fn from(id: &NodeId) -> Self {
        Self::Existing(id.clone())
    }
}

impl From<&str> for Child {
    fn from(id: &str) -> Self {
        Self::Existing(id.into())
    }
}

type Code = dyn Fn(&mut Transaction) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync;

/// Code that runs as a step of a transaction.
#[derive(Clone)]
pub struct Callback(Arc<Code>);

impl Callback {
    pub(super) fn new<E>(
        code: impl Fn(&mut Transaction) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Self(Arc::new(move |transaction| {
            code(transaction).map_err(Into::into)
        }))
    }

    pub(super) fn call(
        &self,
        transaction: &mut Transaction,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        (self.0)(transaction)
    }
}

impl PartialEq for Callback {
    /// Whether both are the same piece of code, by identity.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ControlPayload<'a> {
    node_id: Cow<'a, NodeId>,
    operations: Cow<'a, [NodeOperation]>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CreatePayload<'a> {
    node: Cow<'a, NodeSpec>,
}

#[derive(Serialize)]
struct Wire<P> {
    #[serde(rename = "type")]
    name: &'static str,
    payload: P,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    #[serde(rename = "type")]
    name: String,
    #[serde(default)]
    payload: Map<String, Value>,
}

const NODE_ID: &str = "nodeId";

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = self.name();
        match self {
            Self::Create { node } => {
                let node = Cow::Borrowed(node);
                let payload = CreatePayload { node };
                Wire { name, payload }.serialize(serializer)
            }
            Self::On { node_id, operation } => {
                let mut value = serde_json::to_value(operation).map_err(S::Error::custom)?;
                value["payload"][NODE_ID] = node_id.to_string().into();
                value.serialize(serializer)
            }
            Self::Control {
                node_id,
                operations,
            } => {
                let payload = ControlPayload {
                    node_id: Cow::Borrowed(node_id),
                    operations: Cow::Borrowed(operations),
                };
                Wire { name, payload }.serialize(serializer)
            }
            Self::Call(_) => Err(S::Error::custom(
                "an operation that runs code cannot be serialized",
            )),
        }
    }
}

impl<'de> Deserialize<'de> for Operation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Envelope { name, mut payload } = Envelope::deserialize(deserializer)?;
        let named = |error: serde_json::Error| D::Error::custom(format_args!("{name}: {error}"));
        match name.as_str() {
            "create" => {
                let CreatePayload { node } =
                    serde_json::from_value(payload.into()).map_err(named)?;
                Ok(Self::Create {
                    node: node.into_owned(),
                })
            }
            "control" => {
                let ControlPayload {
                    node_id,
                    operations,
                } = serde_json::from_value(payload.into()).map_err(named)?;
                Ok(Self::Control {
                    node_id: node_id.into_owned(),
                    operations: operations.into_owned(),
                })
            }
            _ => {
                let node_id = payload.remove(NODE_ID);
                let value = json!({"type": name, "payload": payload});
                let operation = serde_json::from_value::<NodeOperation>(value).map_err(named)?;
                let node_id = node_id.ok_or_else(|| {
                    D::Error::custom(format_args!("{name}: missing field `{NODE_ID}`"))
                })?;
                let node_id = serde_json::from_value(node_id).map_err(named)?;
                Ok(Self::On { node_id, operation })
            }
        }
    }
}

/// Whatever can stand where a transaction expects operations: one, a list of them, lists of lists.
///
/// ```
/// use doclock::{IntoOperations, dsl::*};
///
/// let flat = (create(text_node("inline-text", "one")), vec![[delete().on("a"), delete().on("b")]])
///     .into_operations();
/// assert_eq!(flat.len(), 3);
/// ```
pub trait IntoOperations {
    /// Adds the operations to a list, in order.
    fn append_to(self, list: &mut Vec<Operation>);

    /// The operations as one flat list.
    fn into_operations(self) -> Vec<Operation>
    where
        Self: Sized,
    {
        let mut list = Vec::new();
        self.append_to(&mut list);
        list
    }
}

impl IntoOperations for Operation {
    fn append_to(self, list: &mut Vec<Operation>) {
        list.push(self);
    }
}

impl<T: IntoOperations, const N: usize> IntoOperations for [T; N] {
    fn append_to(self, list: &mut Vec<Operation>) {
        list.reserve(N);
        self.into_iter().for_each(|item| item.append_to(list));
    }
}

impl<T: IntoOperations> IntoOperations for Vec<T> {
    fn append_to(self, list: &mut Vec<Operation>) {
        self.into_iter().for_each(|item| item.append_to(list));
    }
}

impl<T: IntoOperations> IntoOperations for Option<T> {
    fn append_to(self, list: &mut Vec<Operation>) {
        self.into_iter().for_each(|item| item.append_to(list));
    }
}

macro_rules! tuples {
    ($($item:ident)+) => {
        impl<$($item: IntoOperations),+> IntoOperations for ($($item,)+) {
            #[expect(non_snake_case, reason = "each item is named as its type")]
            fn append_to(self, list: &mut Vec<Operation>) {
                let ($($item,)+) = self;
                $($item.append_to(list);)+
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);

#[cfg(test)]
mod tests {
    use super::super::dsl::*;
    use super::*;

    fn every_operation() -> Vec<Operation> {
        let mut list = vec![
            create(text_node("inline-text", "x")),
            control("n", [set_text("x"), delete()]),
        ];
        let on_a_node = [
            delete(),
            add_child(element("p", [text_node("t", "x")]), 0),
            add_child("other", None),
            remove_child("other"),
            move_node("other", 2),
            set_text("x"),
            insert_text(1, "x"),
            delete_text_range(1, 2),
            replace_text(1, 2, "x"),
            set_attrs([("level", json!(1))]),
        ];
        list.extend(on_a_node.map(|operation| operation.on("n")));
        list
    }

    #[test]
    fn every_operation_reads_back_as_it_was_written_under_its_name() {
        for operation in every_operation() {
            let value = serde_json::to_value(&operation).unwrap();
            assert_eq!(value["type"], operation.name());
            assert_eq!(
                serde_json::from_value::<Operation>(value).unwrap(),
                operation
            );
        }
    }
}
