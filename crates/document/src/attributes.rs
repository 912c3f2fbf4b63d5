//! The attributes of a node or a mark.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use smol_str::SmolStr;

use super::AttributePatch;
use super::value::{self, BoundedValue};
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
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Attributes(Option<Arc<Pairs>>);

/// At least one pair.
#[derive(Debug, Default)]
struct Pairs {
    /// The steps to read all of them, so that a limit need not read them.
    steps: usize,
    pairs: Vec<(SmolStr, Value)>,
}

impl Pairs {
    fn new(pairs: Vec<(SmolStr, Value)>) -> Option<Self> {
        let steps = pairs.iter().map(steps_of).sum();
        (!pairs.is_empty()).then_some(Self { steps, pairs })
    }
}

impl Clone for Pairs {
    fn clone(&self) -> Self {
        steps(self.steps);
        Self {
            steps: self.steps,
            pairs: self.pairs.clone(),
        }
    }
}

impl PartialEq for Pairs {
    fn eq(&self, other: &Self) -> bool {
        self.steps == other.steps && {
            steps(self.steps);
            self.pairs == other.pairs
        }
    }
}

impl Eq for Pairs {}

impl Hash for Pairs {
    fn hash<H: Hasher>(&self, state: &mut H) {
        steps(self.steps);
        self.pairs.hash(state);
    }
}

fn steps_of((key, value): &(SmolStr, Value)) -> usize {
    value::steps(key, value)
}

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
        self.as_slice().iter().map(|(name, value)| (name, value))
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
        let pairs = self.as_slice();
        let at = find(pairs, key).ok()?;
        pairs.get(at).map(|(_, value)| value)
    }

    fn as_slice(&self) -> &[(SmolStr, Value)] {
        self.0.as_ref().map_or(&[], |pairs| &pairs.pairs)
    }

    /// The steps to copy, hash or compare all names and values.
    #[doc(hidden)]
    pub fn steps(&self) -> usize {
        self.0.as_ref().map_or(0, |pairs| pairs.steps)
    }

    /// Returns the number of attributes.
    pub fn len(&self) -> usize {
        self.as_slice().len()
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
        steps(self.steps().min(other.steps()));
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
        let mut pairs = self.take();
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
        self.0 = Pairs::new(pairs).map(Arc::new);
    }

    /// Takes out all pairs. Copies them if they are shared.
    fn take(&mut self) -> Vec<(SmolStr, Value)> {
        let pairs = self.0.take().map(Arc::unwrap_or_clone);
        pairs.unwrap_or_default().pairs
    }

    /// Up to so many patches are applied one by one.
    const FEW: usize = 4;

    /// Sets an attribute. `None` and `null` remove it.
    ///
    /// ```
    /// use doclock::document::Attributes;
    ///
    /// let mut attributes = Attributes::from_iter([("level", 2.into())]);
    /// attributes.set("done".into(), Some(true.into()));
    /// attributes.set("level".into(), None);
    /// assert_eq!(attributes, Attributes::from_iter([("done", true.into())]));
    /// ```
    pub fn set(&mut self, key: SmolStr, value: Option<Value>) {
        let value = value.filter(|value| !value.is_null());
        if value.is_none() && self.get(&key).is_none() {
            return;
        }
        let Pairs { steps: sum, pairs } = Arc::make_mut(self.0.get_or_insert_default());
        let at = find(pairs, &key);
        if let Ok(at) = at {
            *sum -= steps_of(&pairs[at]);
        }
        if let Some(value) = &value {
            *sum += value::steps(&key, value);
        }
        match (at, value) {
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
        Self(Pairs::new(map.into_iter().collect()).map(Arc::new))
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
        deserializer.deserialize_map(ReadPairs)
    }
}

struct ReadPairs;

impl<'de> Visitor<'de> for ReadPairs {
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
            let BoundedValue(value) = map.next_value()?;
            pairs.insert(key, value);
        }
        Ok(pairs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[a-z]{0,40}".prop_map(Value::from),
            prop::collection::vec("[a-z]{0,9}", 0..5).prop_map(Value::from),
        ]
    }

    proptest! {
        /// A limit counts them, so they may not depend on how the attributes came to be.
        #[test]
        fn steps_are_those_of_the_present_values(
            edits in prop::collection::vec(("[a-e]{1,12}", value()), 0..12),
            later in prop::collection::vec(("[a-e]{1,12}", value()), 0..12),
        ) {
            let mut attributes = Attributes::from_iter(edits);
            let patches: BTreeMap<_, _> = later.into_iter().collect();
            let patches: Vec<AttributePatch> = patches
                .into_iter()
                .map(|(key, value)| AttributePatch {
                    before: attributes.get(&key).cloned(),
                    key: key.into(),
                    after: Some(value).filter(|value| !value.is_null()),
                })
                .collect();
            attributes.patch(&patches);
            let at_once: Attributes = attributes
                .iter()
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            prop_assert_eq!(attributes.steps(), at_once.steps());
            prop_assert_eq!(attributes, at_once);
        }
    }
}
