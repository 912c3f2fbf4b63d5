//! One node of a document.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::{Attributes, Children, Cut, Marks, Text};
use crate::id::NodeId;

/// A node: an id, a type, attributes, a text with marks, children in order, and the parent that
/// lists it.
///
/// Serializes in camelCase with the children and the parent as ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

impl Node {
    /// The id.
    pub fn id(&self) -> &NodeId {
        &self.id
    }

    /// The type: `paragraph`, `inline-text` and so on.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Behind all of its text and children.
    pub(super) fn end(&self) -> Cut {
        Cut {
            text: self.text.len(),
            children: self.children.len(),
        }
    }

    /// The text; empty where there is none.
    pub fn text(&self) -> &Text {
        &self.text
    }

    /// The marks over the text.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// The children, in order.
    pub fn children(&self) -> &Children {
        &self.children
    }

    /// The parent; `None` for the root and for a node that is attached nowhere.
    pub fn parent(&self) -> Option<&NodeId> {
        self.parent.as_ref()
    }
}
