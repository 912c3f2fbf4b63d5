//! Operations on the type and attributes of a node, and on which node is the root.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use smol_str::SmolStr;

use super::fitting::{fits_blocks, is_text_block};
use super::{Edited, NodeOperation, OperationOn, SizeCheck, marks, text_size};
use crate::document::fit::FitEdit;
use crate::document::{Budget, Limit, Mark, plan, value};
use crate::id::NodeId;
use crate::store::Draft;
use crate::transaction::operation::unit;

/// Sets attributes and leaves the others; `null` removes one.
pub fn set_attrs<K: Into<String>>(attrs: impl IntoIterator<Item = (K, Value)>) -> NodeOperation {
    SetAttrs { attrs: map(attrs) }.into()
}

/// See [`set_attrs`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetAttrs {
    /// Names and values of the attributes; `null` removes one.
    #[serde(deserialize_with = "value::map")]
    pub attrs: Box<Map<String, Value>>,
}

impl OperationOn<NodeId> for SetAttrs {
    without!(positions);

    fn size(&self, budget: &Budget) -> SizeCheck {
        budget.patch(&self.attrs)
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        Ok(on.set_attrs(id, *self.attrs)?)
    }
}

/// Removes attributes. A missing attribute is no error.
pub fn remove_attrs<K: Into<SmolStr>>(keys: impl IntoIterator<Item = K>) -> NodeOperation {
    RemoveAttrs {
        keys: keys.into_iter().map(Into::into).collect(),
    }
    .into()
}

/// See [`remove_attrs`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoveAttrs {
    /// Names of the attributes.
    pub keys: Vec<SmolStr>,
}

impl OperationOn<NodeId> for RemoveAttrs {
    without!(positions);

    fn size(&self, budget: &Budget) -> SizeCheck {
        self.keys.iter().try_for_each(|key| budget.name(key))
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let keys = self.keys.into_iter();
        Ok(on.set_attrs(id, keys.map(|key| (key, Value::Null)))?)
    }
}

/// Sets attributes, as [`set_attrs`] does, and replaces the text and the marks if given. A new text
/// without new marks has no marks.
pub fn update_node<K: Into<String>>(
    attrs: impl IntoIterator<Item = (K, Value)>,
    text: impl Into<Option<SmolStr>>,
    marks: impl Into<Option<Vec<Mark>>>,
) -> NodeOperation {
    Update {
        attrs: map(attrs),
        text: text.into(),
        marks: marks.into(),
    }
    .into()
}

/// See [`update_node`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Update {
    /// Names and values of attributes; `null` removes one.
    #[serde(
        default,
        deserialize_with = "value::map",
        skip_serializing_if = "empty"
    )]
    pub attrs: Box<Map<String, Value>>,
    /// The new text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<SmolStr>,
    /// The new marks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<Vec<Mark>>,
}

impl OperationOn<NodeId> for Update {
    fn size(&self, budget: &Budget) -> SizeCheck {
        let mut text = self.text.iter();
        text.try_for_each(|text| text_size(budget, text))?;
        budget.patch(&self.attrs)?;
        self.marks.iter().try_for_each(|marks| budget.marks(marks))
    }

    fn to_scalars(&mut self, on: &mut Draft, id: &NodeId) -> Edited {
        match &mut self.marks {
            Some(marks) => unit::of_marks(on, id, self.text.as_deref(), marks),
            None => Ok(()),
        }
    }

    /// The text comes before the marks, because it removes the old ones.
    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        on.set_attrs(id, *self.attrs)?;
        if let Some(text) = self.text {
            on.set_text(id, text)?;
        }
        match self.marks {
            Some(marks) => marks::replace_all(on, id, marks),
            None => Ok(()),
        }
    }
}

/// Changes the type of the node, and attributes with it. No other operation changes the type.
pub fn transform_node<K: Into<String>>(
    kind: impl Into<SmolStr>,
    attrs: impl IntoIterator<Item = (K, Value)>,
) -> NodeOperation {
    TransformNode {
        kind: kind.into(),
        attrs: map(attrs),
    }
    .into()
}

/// See [`transform_node`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TransformNode {
    /// The new type.
    #[serde(rename = "type")]
    pub kind: SmolStr,
    /// Names and values of attributes; `null` removes one.
    #[serde(
        default,
        deserialize_with = "value::map",
        skip_serializing_if = "empty"
    )]
    pub attrs: Box<Map<String, Value>>,
}

impl OperationOn<NodeId> for TransformNode {
    without!(positions);

    fn size(&self, budget: &Budget) -> SizeCheck {
        budget.name(&self.kind)?;
        budget.patch(&self.attrs)
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let node = plan::find(on, id)?;
        if is_text_block(on, node.kind()) && is_text_block(on, &self.kind) {
            on.spend(Limit::Steps, |_| node.attributes().steps())?;
            let schema = on.schema();
            let is_gone =
                |name: &str| schema.is_some_and(|it| !it.allows_attribute(&self.kind, name));
            // A copy that shares the values.
            let mut attributes = node.attributes().clone();
            for (name, _) in node.attributes().iter().filter(|(name, _)| is_gone(name)) {
                attributes.set(name.clone(), None);
            }
            for (name, value) in self.attrs.iter() {
                attributes.set(name.into(), Some(value.clone()).filter(|it| !it.is_null()));
            }
            if fits_blocks(on, id, None, &FitEdit::SetType(&self.kind, &attributes))? {
                return Ok(());
            }
        }
        on.set_type(id, self.kind)?;
        Ok(on.set_attrs(id, *self.attrs)?)
    }
}

/// Makes the node the root of the document. It must not have a parent.
pub fn set_root() -> NodeOperation {
    SetRoot {}.into()
}

/// See [`set_root`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetRoot {}

impl OperationOn<NodeId> for SetRoot {
    without!(size, positions);

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        Ok(on.set_root(id)?)
    }
}

/// Names and values, as an operation has them.
pub(super) fn map<K: Into<String>>(
    pairs: impl IntoIterator<Item = (K, Value)>,
) -> Box<Map<String, Value>> {
    let pairs = pairs.into_iter();
    Box::new(pairs.map(|(key, value)| (key.into(), value)).collect())
}

fn empty(attrs: &Map<String, Value>) -> bool {
    attrs.is_empty()
}
