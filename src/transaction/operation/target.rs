//! Targets of operations.

use std::fmt;
use std::ops::{Range, RangeFrom, RangeFull, RangeTo};

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeSeed, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use smol_str::SmolStr;

use crate::document::NodeSpec;
use crate::id::NodeId;

/// A node, by its id or by the name that an earlier operation of the same transaction gave it.
///
/// In JSON an id is a string, and a name is `{"alias": "title"}`.
///
/// ```
/// use doclock::{dsl::alias, transaction::NodeRef};
///
/// assert_eq!(NodeRef::from("title").to_string(), "title");
/// assert_eq!(alias("title").to_string(), "alias \"title\"");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum NodeRef {
    /// By id.
    Id(NodeId),
    /// By name. Boxed, because most operations name a node by its id.
    Alias(Box<Alias>),
}

/// The name of a node within one transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alias {
    /// The name.
    pub alias: SmolStr,
}

impl<'de> Deserialize<'de> for NodeRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NodeRefVisitor;

        impl<'de> Visitor<'de> for NodeRefVisitor {
            type Value = NodeRef;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a node id or an alias")
            }

            fn visit_str<E: de::Error>(self, id: &str) -> Result<NodeRef, E> {
                id.parse().map(NodeRef::Id).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<NodeRef, A::Error> {
                Box::deserialize(MapAccessDeserializer::new(map)).map(NodeRef::Alias)
            }
        }

        deserializer.deserialize_any(NodeRefVisitor)
    }
}

impl fmt::Display for NodeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => fmt::Display::fmt(id, f),
            Self::Alias(named) => write!(f, "alias {:?}", named.alias),
        }
    }
}

impl From<NodeId> for NodeRef {
    fn from(id: NodeId) -> Self {
        Self::Id(id)
    }
}

impl From<&NodeId> for NodeRef {
    fn from(id: &NodeId) -> Self {
        Self::Id(id.clone())
    }
}

impl From<&str> for NodeRef {
    fn from(id: &str) -> Self {
        Self::Id(id.into())
    }
}

impl From<String> for NodeRef {
    fn from(id: String) -> Self {
        Self::Id(id.as_str().into())
    }
}

impl From<&String> for NodeRef {
    fn from(id: &String) -> Self {
        Self::Id(id.into())
    }
}

/// A child to be attached: a new node or an existing one. In JSON it is an object with a type, or a
/// [`NodeRef`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Child {
    /// An existing node.
    Existing(NodeRef),
    /// A new node.
    New(NodeSpec),
}

impl<'de> Deserialize<'de> for Child {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ChildVisitor;

        impl<'de> Visitor<'de> for ChildVisitor {
            type Value = Child;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a new node, a node id or an alias")
            }

            fn visit_str<E: de::Error>(self, id: &str) -> Result<Child, E> {
                let id = id.parse().map_err(E::custom)?;
                Ok(Child::Existing(NodeRef::Id(id)))
            }

            /// The first field decides: a new node has a type, and no field is named `alias`.
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Child, A::Error> {
                let first: Option<String> = map.next_key()?;
                let known = first.as_deref() == Some("alias");
                let fields = MapAccessDeserializer::new(Begun { first, map });
                match known {
                    true => Box::deserialize(fields).map(|alias| NodeRef::Alias(alias).into()),
                    false => NodeSpec::deserialize(fields).map(Child::New),
                }
            }
        }

        deserializer.deserialize_any(ChildVisitor)
    }
}

/// A map whose first key has been read.
struct Begun<A> {
    first: Option<String>,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Begun<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        match self.first.take() {
            Some(name) => seed.deserialize(name.into_deserializer()).map(Some),
            None => self.map.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

impl From<NodeSpec> for Child {
    fn from(node: NodeSpec) -> Self {
        Self::New(node)
    }
}

impl<T: Into<NodeRef>> From<T> for Child {
    fn from(node: T) -> Self {
        Self::Existing(node.into())
    }
}

/// A range of characters, from a position in the target node of an operation to a position in the
/// same node or in a later one.
///
/// A half-open range lies within one node; [`to`](Self::to) makes a range that ends in another.
///
/// ```
/// use doclock::transaction::TextSpan;
///
/// assert_eq!(TextSpan::from(2..5), TextSpan { start: 2, end: Some(5), end_node_id: None });
/// assert_eq!(TextSpan::from(..), TextSpan { start: 0, end: None, end_node_id: None });
/// assert_eq!(TextSpan::to(2, "last", 7).end_node_id, Some("last".into()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextSpan {
    /// The first character.
    pub start: usize,
    /// The end, exclusive; the end of the text for `None`.
    pub end: Option<usize>,
    /// The node in which it ends, if that is not the node in which it starts.
    pub end_node_id: Option<NodeRef>,
}

impl TextSpan {
    /// Makes a range from a character of the node to a character of a later node.
    pub fn to(start: usize, end_node_id: impl Into<NodeRef>, end: usize) -> Self {
        Self {
            start,
            end: Some(end),
            end_node_id: Some(end_node_id.into()),
        }
    }
}

impl TextSpan {
    pub(in crate::transaction) fn into_parts(self) -> (usize, Option<usize>, Option<NodeRef>) {
        (self.start, self.end, self.end_node_id)
    }
}

impl From<Range<usize>> for TextSpan {
    fn from(range: Range<usize>) -> Self {
        Self {
            start: range.start,
            end: Some(range.end),
            end_node_id: None,
        }
    }
}

impl From<RangeFrom<usize>> for TextSpan {
    fn from(range: RangeFrom<usize>) -> Self {
        Self {
            start: range.start,
            ..Self::default()
        }
    }
}

impl From<RangeTo<usize>> for TextSpan {
    fn from(range: RangeTo<usize>) -> Self {
        Self::from(0..range.end)
    }
}

impl From<RangeFull> for TextSpan {
    fn from(_: RangeFull) -> Self {
        Self::default()
    }
}
