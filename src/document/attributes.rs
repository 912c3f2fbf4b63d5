//! The attributes of a node or a mark.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use smol_str::SmolStr;

use super::AttributePatch;
use super::value::{self, Bounded};
use crate::steps::{step, steps};

/// Names with JSON values, sorted by name.
///
/// An attribute is present or absent: setting it to `null` removes it. The arrays and objects of a
/// value nest at most [`MAX_LEVELS`](Self::MAX_LEVELS) deep. Documents, schemas and deserialization
/// reject deeper values. Attributes are stored as a sorted list. An empty list takes one word.
///
/// ```
/// use doclock::document::Attributes;
///
/// let attributes = Attributes::from_iter([("level", 2.into()), ("gone", serde_json::Value::Null)]);
/// assert_eq!(attributes.get("level"), Some(&2.into()));
/// assert_eq!(attributes.len(), 1);
/// ```
#[derive(Clone, Default, PartialEq, Hash)]
pub struct Attributes(Option<Arc<Vec<(SmolStr, Value)>>>);

impl Eq for Attributes {}

/// The pairs of a list, in order.
type PairIter<'a> = std::iter::Map<
    std::slice::Iter<'a, (SmolStr, Value)>,
    fn(&(SmolStr, Value)) -> (&SmolStr, &Value),
>;

/// Names and values in the order of the names.
///
/// ```
/// use doclock::document::Attributes;
///
/// for (name, value) in &Attributes::from_iter([("level", 2.into())]) {
///     assert_eq!((name.as_str(), value), ("level", &2.into()));
/// }
/// ```
impl<'a> IntoIterator for &'a Attributes {
    type Item = (&'a SmolStr, &'a Value);
    type IntoIter = PairIter<'a>;

    fn into_iter(self) -> PairIter<'a> {
        let pairs: &[(SmolStr, Value)] = self.0.as_ref().map_or(&[], |pairs| pairs.as_slice());
        pairs.iter().map(|(name, value)| (name, value))
    }
}

impl Attributes {
    /// The most levels of nested arrays and objects in a value: 100. A number or a string has no
    /// level, `[]` has one, `[{}]` has two.
    ///
    /// The limit leaves room for the arrays and objects around a value, so JSON readers accept
    /// every commit, operation and node that this crate writes.
    pub const MAX_LEVELS: usize = value::MAX_LEVELS;

    /// Returns the value of an attribute.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let pairs = self.0.as_ref()?;
        let at = find(pairs, key).ok()?;
        pairs.get(at).map(|(_, value)| value)
    }

    /// Returns the number of attributes.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |pairs| pairs.len())
    }

    /// Returns whether there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Iterates over names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&SmolStr, &Value)> {
        self.into_iter()
    }

    /// Compares in some total order in which equal attributes are equal.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let by_pair = |(key, value): (&SmolStr, &Value), (other_key, other): (&SmolStr, &Value)| {
            key.cmp(other_key)
                .then_with(|| value::compare(value, other))
        };
        value::compare_lists(self.iter(), other.iter(), by_pair)
    }

    /// Sets or removes attributes. Takes time linear in the patches and in the present attributes.
    pub(super) fn patch(&mut self, patches: &[AttributePatch]) {
        if patches.len() <= Self::FEW {
            for patch in patches {
                self.set(patch.key.clone(), patch.after.clone());
            }
            return;
        }
        let pairs = Arc::make_mut(self.0.get_or_insert_default());
        let known = pairs.len();
        for AttributePatch { key, after, .. } in patches {
            match (find(&pairs[..known], key), after) {
                (Ok(at), after) => pairs[at].1 = after.clone().unwrap_or_default(),
                (Err(_), Some(after)) => pairs.push((key.clone(), after.clone())),
                (Err(_), None) => {}
            }
        }
        pairs.retain(|(_, value)| !value.is_null());
        pairs.sort_by(|(one, _), (other, _)| {
            step();
            one.cmp(other)
        });
        if pairs.is_empty() {
            self.0 = None;
        }
    }

    /// Up to so many patches are applied one by one.
    const FEW: usize = 4;

    pub(crate) fn set(&mut self, key: SmolStr, value: Option<Value>) {
        let value = value.filter(|value| !value.is_null());
        if value.is_none() && self.get(&key).is_none() {
            return;
        }
        let pairs = Arc::make_mut(self.0.get_or_insert_default());
        match (find(pairs, &key), value) {
            (Ok(at), Some(value)) => pairs[at].1 = value,
            (Ok(at), None) => drop(pairs.remove(at)),
            (Err(at), Some(value)) => {
                // The attributes after it move.
                steps(pairs.len() - at);
                pairs.insert(at, (key, value));
            }
            (Err(_), None) => {}
        }
        if pairs.is_empty() {
            self.0 = None;
        }
    }
}

/// The index of an attribute, or the index at which to insert it.
fn find(pairs: &[(SmolStr, Value)], key: &str) -> Result<usize, usize> {
    pairs.binary_search_by(|(known, _)| known.as_str().cmp(key))
}

impl<K: Into<SmolStr>> FromIterator<(K, Value)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(pairs: I) -> Self {
        let map: BTreeMap<_, _> = pairs
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.into(), value))
            .collect();
        Self((!map.is_empty()).then(|| Arc::new(map.into_iter().collect())))
    }
}

impl<K: Into<SmolStr>, const N: usize> From<[(K, Value); N]> for Attributes {
    fn from(pairs: [(K, Value); N]) -> Self {
        pairs.into_iter().collect()
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Attributes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Pairs)
    }
}

struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Attributes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Attributes, A::Error> {
        let mut pairs = BTreeMap::<SmolStr, Value>::new();
        while let Some(key) = map.next_key::<SmolStr>()? {
            if pairs.contains_key(&key) {
                return Err(value::duplicate(&key));
            }
            let Bounded(value) = map.next_value()?;
            pairs.insert(key, value);
        }
        Ok(pairs.into_iter().collect())
    }
}
