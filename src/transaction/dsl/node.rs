//! Operations on the type and attributes of a node.

use serde_json::Value;
use smol_str::SmolStr;

use super::map;
use crate::document::Mark;
use crate::transaction::NodeOperation;

/// Sets attributes and leaves the others; `null` removes one.
pub fn set_attrs<K: Into<String>>(attrs: impl IntoIterator<Item = (K, Value)>) -> NodeOperation {
    NodeOperation::SetAttrs { attrs: map(attrs) }
}

/// Removes attributes. A missing attribute is no error.
pub fn remove_attrs<K: Into<SmolStr>>(keys: impl IntoIterator<Item = K>) -> NodeOperation {
    NodeOperation::RemoveAttrs {
        keys: keys.into_iter().map(Into::into).collect(),
    }
}

/// Sets attributes, as [`set_attrs`] does, and replaces the text and the marks if given. A new text
/// without new marks has no marks.
pub fn update_node<K: Into<String>>(
    attrs: impl IntoIterator<Item = (K, Value)>,
    text: impl Into<Option<SmolStr>>,
    marks: impl Into<Option<Vec<Mark>>>,
) -> NodeOperation {
    NodeOperation::Update {
        attrs: map(attrs),
        text: text.into(),
        marks: marks.into(),
    }
}

/// Changes the type of the node, and attributes with it. No other operation changes the type.
pub fn transform_node<K: Into<String>>(
    kind: impl Into<SmolStr>,
    attrs: impl IntoIterator<Item = (K, Value)>,
) -> NodeOperation {
    NodeOperation::TransformNode {
        kind: kind.into(),
        attrs: map(attrs),
    }
}

/// Makes the node the root of the document. It must not have a parent.
pub fn set_root() -> NodeOperation {
    NodeOperation::SetRoot {}
}
