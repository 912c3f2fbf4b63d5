//! Nodes of a document.

use std::fmt;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::children::PlaceHint;
use super::{Attributes, Children, Marks, SplitPoint, Text};
use crate::id::NodeId;

/// A node of a document: an id, a type, attributes, a text with marks, ordered children, and a
/// parent.
///
/// Serializes in camelCase, with the children and the parent as ids.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Node {
    pub(super) id: NodeId,
    #[serde(rename = "type")]
    pub(super) kind: SmolStr,
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub(super) attributes: Attributes,
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub(super) text: Text,
    #[serde(default, skip_serializing_if = "Marks::is_empty")]
    pub(super) marks: Marks,
    #[serde(default, skip_serializing_if = "Children::is_empty")]
    pub(super) children: Children,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<NodeId>,
    #[serde(skip)]
    pub(super) place: PlaceHint,
}

impl Node {
    /// A node of its stored parts.
    #[doc(hidden)]
    pub fn stored(
        id: NodeId,
        kind: SmolStr,
        parent: Option<NodeId>,
        text: Text,
        children: Children,
        attributes: Attributes,
        marks: Marks,
    ) -> Self {
        Self {
            id,
            kind,
            attributes,
            text,
            marks,
            children,
            parent,
            place: PlaceHint::default(),
        }
    }

    /// Returns the id.
    pub fn id(&self) -> &NodeId {
        &self.id
    }

    /// Returns the type: `paragraph`, `inline-text` and so on.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The end of its text and children.
    pub(super) fn end(&self) -> SplitPoint {
        SplitPoint {
            text: self.text.len(),
            children: self.children.len(),
        }
    }

    /// Returns the text, which may be empty.
    pub fn text(&self) -> &Text {
        &self.text
    }

    /// Returns the marks of the text.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Returns the children, in order.
    pub fn children(&self) -> &Children {
        &self.children
    }

    /// Returns the parent; `None` for the root and for a detached node.
    pub fn parent(&self) -> Option<&NodeId> {
        self.parent.as_ref()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("attributes", &self.attributes)
            .field("text", &self.text)
            .field("marks", &self.marks)
            .field("children", &self.children)
            .field("parent", &self.parent)
            .finish()
    }
}
