//! Values that versions, changes and histories share.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::BoundedValue;

/// A JSON value of an attribute. Dereferences to a [`Value`].
///
/// A clone takes O(1): clones share an array, an object and a long string. Serializes as the value.
///
/// ```
/// use doclock::document::AttributeValue;
/// use serde_json::{Value, json};
///
/// let rows = AttributeValue::from(json!([1, 2, 3]));
/// assert_eq!(rows.clone(), rows);
/// assert_eq!(rows[0], 1);
/// assert_eq!(Value::from(rows), json!([1, 2, 3]));
/// ```
#[derive(Clone)]
pub struct AttributeValue(Repr);

#[derive(Clone)]
enum Repr {
    Own(Value),
    Shared(Arc<Value>),
}

/// Up to this many bytes, a copy of a string costs no more than a count of its owners.
const SHORT: usize = 64;

impl Deref for AttributeValue {
    type Target = Value;

    #[inline]
    fn deref(&self) -> &Value {
        match &self.0 {
            Repr::Own(value) => value,
            Repr::Shared(value) => value,
        }
    }
}

impl From<Value> for AttributeValue {
    fn from(value: Value) -> Self {
        let is_short = match &value {
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
            Value::String(text) => text.len() <= SHORT,
            Value::Array(_) | Value::Object(_) => false,
        };
        Self(match is_short {
            true => Repr::Own(value),
            false => Repr::Shared(Arc::new(value)),
        })
    }
}

impl From<AttributeValue> for Value {
    /// Copies a value that others share.
    fn from(value: AttributeValue) -> Self {
        match value.0 {
            Repr::Own(value) => value,
            Repr::Shared(value) => Arc::unwrap_or_clone(value),
        }
    }
}

impl PartialEq for AttributeValue {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Shared(one), Repr::Shared(other)) if Arc::ptr_eq(one, other) => true,
            _ => **self == **other,
        }
    }
}

impl Eq for AttributeValue {}

impl PartialEq<Value> for AttributeValue {
    fn eq(&self, other: &Value) -> bool {
        **self == *other
    }
}

impl Hash for AttributeValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for AttributeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for AttributeValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AttributeValue {
    /// Refuses a value that nests deeper than
    /// [`Attributes::MAX_LEVELS`](crate::Attributes::MAX_LEVELS), and an object with a duplicate
    /// field.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BoundedValue::deserialize(deserializer).map(|BoundedValue(value)| value.into())
    }
}
