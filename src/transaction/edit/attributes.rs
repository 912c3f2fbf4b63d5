//! Operations on the type and attributes of a node.

use serde_json::{Map, Value};
use smol_str::SmolStr;

use super::Edited;
use crate::document::Mark;
use crate::id::NodeId;
use crate::store::Draft;

pub(super) fn remove_attrs(on: &mut Draft, id: &NodeId, keys: Vec<SmolStr>) -> Edited {
    Ok(on.set_attrs(id, keys.into_iter().map(|key| (key, Value::Null)))?)
}

/// The text comes first, because it removes the old marks.
pub(super) fn update(
    on: &mut Draft,
    id: &NodeId,
    attrs: Map<String, Value>,
    text: Option<SmolStr>,
    marks: Option<Vec<Mark>>,
) -> Edited {
    on.set_attrs(id, attrs)?;
    if let Some(text) = text {
        on.set_text(id, text)?;
    }
    if let Some(marks) = marks {
        super::marks::set_marks(on, id, marks)?;
    }
    Ok(())
}

pub(super) fn transform_node(
    on: &mut Draft,
    id: &NodeId,
    kind: SmolStr,
    attrs: Map<String, Value>,
) -> Edited {
    on.set_type(id, kind)?;
    Ok(on.set_attrs(id, attrs)?)
}
