//! Values of attributes: the depth limit, and reading.
//!
//! One limit, [`MAX_LEVELS`], applies to each value of each attribute. [`BoundedValue`] reads
//! values from data. A Rust value is checked where it becomes a part of a document
//! (`Overlay::apply`) or of a schema.
//!
//! The limit follows from that of JSON readers: serde_json reads 127 nested arrays and objects. The
//! deepest structure of this crate around a value has 12, for a mark that is pasted within a
//! `control`: a list, operation, payload, operations, operation, payload, fragment, nodes, node,
//! marks, mark and attributes. A commit has 8. With 100 levels for the value, 15 are left for the
//! envelope of a log or a message.

use std::cmp::Ordering;
use std::convert::Infallible;
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};
use smol_str::SmolStr;

mod shared;

pub use shared::AttributeValue;

use super::{Attributes, Change, EditError, Mark, MarksChange, cost};
use crate::id::NodeId;

/// The most levels of nested arrays and objects.
pub(crate) const MAX_LEVELS: usize = 100;

/// The depth of a value that exceeds the limit.
pub(crate) fn beyond_limit(value: &Value) -> Option<usize> {
    Some(levels(value)).filter(|&levels| levels > MAX_LEVELS)
}

/// The number of nested arrays and objects. Keeps its own stack, so any depth is safe.
pub(crate) fn levels(value: &Value) -> usize {
    let mut deepest = 0;
    let mut ahead = vec![(value, 0)];
    while let Some((value, around)) = ahead.pop() {
        let level = around + 1;
        match value {
            Value::Array(items) => ahead.extend(items.iter().map(|item| (item, level))),
            Value::Object(fields) => ahead.extend(fields.values().map(|item| (item, level))),
            _ => continue,
        }
        deepest = deepest.max(level);
    }
    deepest
}

/// Passes each part of a value to `visit`: how many values it is, one or none, and how many bytes
/// of a string or a key. Ends with the first error. Keeps its own stack, so any depth is safe.
pub(super) fn visit_sizes<E>(
    value: &Value,
    mut visit: impl FnMut(usize, usize) -> Result<(), E>,
) -> Result<(), E> {
    let mut ahead = vec![value];
    while let Some(value) = ahead.pop() {
        visit(1, 0)?;
        match value {
            Value::String(string) => visit(0, string.len())?,
            Value::Array(values) => ahead.extend(values),
            Value::Object(fields) => {
                for (key, value) in fields {
                    visit(0, key.len())?;
                    ahead.push(value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    Ok(())
}

/// The steps to copy, hash or compare an attribute.
pub fn steps(key: &str, value: &Value) -> usize {
    let (mut count, mut length) = (0, key.len());
    match value {
        // Most values, without an allocation.
        Value::String(string) => (count, length) = (1, length + string.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) => count = 1,
        Value::Array(_) | Value::Object(_) => {
            let Ok(()) = visit_sizes(value, |values, bytes| {
                count += values;
                length += bytes;
                Ok::<_, Infallible>(())
            });
        }
    }
    count + length / cost::BYTES
}

/// About how many bytes a value takes.
pub(super) fn bytes(value: &Value) -> usize {
    let mut sum = 0;
    let Ok(()) = visit_sizes(value, |values, bytes| {
        sum += values * size_of::<Value>() + bytes;
        Ok::<_, Infallible>(())
    });
    sum
}

/// Checks values of a node, or of a mark of a node.
fn check<'a>(
    id: &NodeId,
    mark: Option<&SmolStr>,
    values: impl IntoIterator<Item = (&'a SmolStr, &'a Value)>,
) -> Result<(), EditError> {
    for (attribute, value) in values {
        if let Some(levels) = beyond_limit(value) {
            return Err(EditError::TooDeep {
                id: id.clone(),
                mark: mark.cloned(),
                attribute: attribute.clone(),
                levels,
                limit: MAX_LEVELS,
            });
        }
    }
    Ok(())
}

pub(crate) fn check_node(id: &NodeId, attributes: &Attributes) -> Result<(), EditError> {
    check(id, None, attributes.iter())
}

pub fn check_marks<'a>(
    id: &NodeId,
    marks: impl IntoIterator<Item = &'a Mark>,
) -> Result<(), EditError> {
    let mut marks = marks.into_iter();
    marks.try_for_each(|mark| check(id, Some(&mark.kind), mark.attributes.iter()))
}

/// Checks the values that a change adds. Those that it replaces were checked when they were added.
pub(crate) fn check_change(change: &Change) -> Result<(), EditError> {
    match change {
        Change::InsertSubtree { nodes, .. } => nodes.iter().try_for_each(|node| {
            check_node(node.id(), node.attributes())?;
            check_marks(node.id(), node.marks().iter())
        }),
        Change::PatchAttrs { id, patches } => {
            let after = patches.iter().filter_map(|patch| {
                let after = patch.after.as_ref()?;
                Some((&patch.key, &**after))
            });
            check(id, None, after)
        }
        Change::SetMarks {
            id,
            marks: MarksChange { added, .. },
        }
        | Change::SpliceText {
            id,
            marks: Some(MarksChange { added, .. }),
            ..
        } => check_marks(id, added.iter()),
        Change::SplitNode { right, .. } => check_node(&right.id, &right.attributes),
        Change::SpliceText { marks: None, .. }
        | Change::RemoveSubtree { .. }
        | Change::MoveNode { .. }
        | Change::SetType { .. }
        | Change::JoinNodes { .. }
        | Change::SetRoot { .. }
        | Change::SetSelection { .. } => Ok(()),
    }
}

/// A total order of values; the first difference decides. Recurses as deep as the values nest.
pub(crate) fn compare(one: &Value, other: &Value) -> Ordering {
    let kind = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    };
    match (one, other) {
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Number(one), Value::Number(other)) => one.to_string().cmp(&other.to_string()),
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Array(one), Value::Array(other)) => {
            compare_lists(one.iter(), other.iter(), compare)
        }
        (Value::Object(one), Value::Object(other)) => {
            // Equal objects may be in different orders.
            let [one, other] = [one, other].map(|object| {
                let mut fields: Vec<_> = object.iter().collect();
                fields.sort_by_key(|(key, _)| *key);
                fields
            });
            compare_lists(
                one.into_iter(),
                other.into_iter(),
                |(key, value), (other_key, other)| {
                    key.cmp(other_key).then_with(|| compare(value, other))
                },
            )
        }
        _ => kind(one).cmp(&kind(other)),
    }
}

/// Compares the first items that differ; a prefix comes first.
pub(crate) fn compare_lists<T>(
    mut one: impl Iterator<Item = T>,
    mut other: impl Iterator<Item = T>,
    compare: impl Fn(T, T) -> Ordering,
) -> Ordering {
    loop {
        match (one.next(), other.next()) {
            (Some(one), Some(other)) => match compare(one, other) {
                Ordering::Equal => {}
                different => return different,
            },
            (one, other) => return one.is_some().cmp(&other.is_some()),
        }
    }
}

/// A value from data: within the depth limit, without duplicate fields.
pub(crate) struct BoundedValue(pub(crate) Value);

impl<'de> Deserialize<'de> for BoundedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seed = ValueSeed {
            left: MAX_LEVELS,
            limit: MAX_LEVELS,
        };
        seed.deserialize(deserializer).map(Self)
    }
}

/// An operation of unknown type: limited by the depth of JSON readers, without duplicate fields.
pub struct Payload(pub Map<String, Value>);

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const LIMIT: usize = 127;
        let fields = ValueMapVisitor {
            left: LIMIT - 1,
            limit: LIMIT,
        };
        deserializer.deserialize_map(fields).map(Self)
    }
}

/// Reads a value that may have `left` more levels.
#[derive(Clone, Copy)]
struct ValueSeed {
    left: usize,
    limit: usize,
}

impl ValueSeed {
    /// The same inside one more array or object.
    fn inner<E: Error>(self) -> Result<Self, E> {
        match self.left.checked_sub(1) {
            Some(left) => Ok(Self { left, ..self }),
            None => Err(E::custom(format_args!(
                "a value is nested deeper than {} levels",
                self.limit
            ))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Value, A::Error> {
        let Self { left, limit } = self.inner()?;
        ValueMapVisitor { left, limit }
            .visit_map(fields)
            .map(Value::Object)
    }
}

/// Reads the contents of an object.
struct ValueMapVisitor {
    left: usize,
    limit: usize,
}

impl<'de> Visitor<'de> for ValueMapVisitor {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let Self { left, limit } = self;
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if map.contains_key(&name) {
                return Err(duplicate(&name));
            }
            let value = fields.next_value_seed(ValueSeed { left, limit })?;
            map.insert(name, value);
        }
        Ok(map)
    }
}

/// The error for a duplicate field, in the words of serde for a struct.
pub(crate) fn duplicate<E: Error>(name: &str) -> E {
    E::custom(format_args!("duplicate field `{name}`"))
}

/// Names and values, for `deserialize_with`.
pub fn map<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Box<Map<String, Value>>, D::Error> {
    // The object itself is not a part of any of the values.
    let fields = ValueMapVisitor {
        left: MAX_LEVELS,
        limit: MAX_LEVELS,
    };
    deserializer.deserialize_map(fields).map(Box::new)
}

/// An optional value, for `deserialize_with`.
pub(crate) fn option<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    BoundedValue::deserialize(deserializer)
        .map(|BoundedValue(value)| Some(value).filter(|v| !v.is_null()))
}

/// Optional values, for `deserialize_with`.
pub(crate) fn list<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<Value>>, D::Error> {
    let values = Option::<Vec<BoundedValue>>::deserialize(deserializer)?;
    Ok(values.map(|values| {
        values
            .into_iter()
            .map(|BoundedValue(value)| value)
            .collect()
    }))
}
