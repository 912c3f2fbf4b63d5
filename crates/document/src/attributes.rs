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
use super::value::{self, AttributeValue, BoundedValue};
use crate::steps::{step, steps};

/// Names with JSON values, sorted by name.
///
/// An attribute is present or absent: setting it to `null` removes it. The arrays and objects of a
/// value nest at most [`MAX_LEVELS`](Self::MAX_LEVELS) deep. Documents, schemas and deserialization
/// reject deeper values. To set one of many takes time in proportion to its own size. Clones share
/// the values. An empty list takes one word.
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
#[derive(Clone, Debug, Default)]
struct Pairs {
    /// The steps to read all of them, so that a limit need not read them.
    steps: usize,
    list: PairList,
}

/// The pairs, sorted by name.
#[derive(Debug)]
enum PairList {
    /// Up to [`FEW`].
    Few(Vec<(SmolStr, AttributeValue)>),
    /// A change of one pair copies a logarithmic part, a clone nothing.
    Many(im::OrdMap<SmolStr, AttributeValue>),
}

/// The steps to change one of many.
const CHANGED: usize = 8;

/// So many attributes are one list: to copy it takes less than a tree of them.
const FEW: usize = 32;

impl Default for PairList {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Clone for PairList {
    fn clone(&self) -> Self {
        match self {
            Self::Few(pairs) => {
                steps(pairs.len());
                Self::Few(pairs.clone())
            }
            Self::Many(pairs) => Self::Many(pairs.clone()),
        }
    }
}

impl PairList {
    fn get(&self, key: &str) -> Option<&AttributeValue> {
        step();
        match self {
            Self::Few(pairs) => pairs.get(find(pairs, key).ok()?).map(|(_, value)| value),
            Self::Many(pairs) => pairs.get(key),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Few(pairs) => pairs.len(),
            Self::Many(pairs) => pairs.len(),
        }
    }

    fn iter(&self) -> AttributesIter<'_> {
        AttributesIter(match self {
            Self::Few(pairs) => PairIter::Few(pairs.iter()),
            Self::Many(pairs) => PairIter::Many(pairs.iter()),
        })
    }

    fn insert(&mut self, key: SmolStr, value: AttributeValue) {
        match self {
            Self::Few(pairs) => match find(pairs, &key) {
                Ok(at) => pairs[at].1 = value,
                Err(at) => {
                    pairs.insert(at, (key, value));
                    if pairs.len() > FEW {
                        *self = Self::Many(std::mem::take(pairs).into_iter().collect());
                    }
                }
            },
            Self::Many(pairs) => {
                steps(CHANGED);
                pairs.insert(key, value);
            }
        }
    }

    fn remove(&mut self, key: &str) {
        match self {
            Self::Few(pairs) => drop(find(pairs, key).map(|at| pairs.remove(at))),
            Self::Many(pairs) => {
                steps(CHANGED);
                pairs.remove(key);
                // The gap prevents repeated conversions.
                if pairs.len() <= FEW / 2 {
                    *self = Self::Few(std::mem::take(pairs).into_iter().collect());
                }
            }
        }
    }
}

impl Pairs {
    fn of(pairs: BTreeMap<SmolStr, AttributeValue>) -> Option<Self> {
        let steps = pairs.iter().map(|(key, value)| value::steps(key, value));
        let steps = steps.sum();
        (!pairs.is_empty()).then(|| Self {
            steps,
            list: match pairs.len() > FEW {
                true => PairList::Many(pairs.into_iter().collect()),
                false => PairList::Few(pairs.into_iter().collect()),
            },
        })
    }
}

impl PartialEq for Pairs {
    fn eq(&self, other: &Self) -> bool {
        self.steps == other.steps && self.list.len() == other.list.len() && {
            steps(self.steps);
            let mut both = self.list.iter().0.zip(other.list.iter().0);
            both.all(|(one, other)| one == other)
        }
    }
}

impl Eq for Pairs {}

impl Hash for Pairs {
    fn hash<H: Hasher>(&self, state: &mut H) {
        steps(self.steps);
        self.list.len().hash(state);
        self.list.iter().0.for_each(|pair| pair.hash(state));
    }
}

/// Iterates over the names and values of [`Attributes`], in the order of the names.
pub struct AttributesIter<'a>(PairIter<'a>);

enum PairIter<'a> {
    Few(std::slice::Iter<'a, (SmolStr, AttributeValue)>),
    Many(im::ordmap::Iter<'a, SmolStr, AttributeValue>),
}

impl<'a> Iterator for PairIter<'a> {
    type Item = (&'a SmolStr, &'a AttributeValue);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Few(pairs) => pairs.next().map(|(name, value)| (name, value)),
            Self::Many(pairs) => pairs.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Few(pairs) => pairs.size_hint(),
            Self::Many(pairs) => pairs.size_hint(),
        }
    }
}

impl fmt::Debug for AttributesIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AttributesIter")
    }
}

impl<'a> Iterator for AttributesIter<'a> {
    type Item = (&'a SmolStr, &'a Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(name, value)| (name, &**value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

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
    type IntoIter = AttributesIter<'a>;

    fn into_iter(self) -> AttributesIter<'a> {
        let none = || AttributesIter(PairIter::Few([].iter()));
        self.0.as_ref().map_or_else(none, |pairs| pairs.list.iter())
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
        self.shared(key).map(|value| &**value)
    }

    /// The value of an attribute, to share it.
    pub(super) fn shared(&self, key: &str) -> Option<&AttributeValue> {
        self.0.as_ref()?.list.get(key)
    }

    /// The steps to copy, hash or compare all names and values.
    #[doc(hidden)]
    pub fn steps(&self) -> usize {
        self.0.as_ref().map_or(0, |pairs| pairs.steps)
    }

    /// The steps to find and change so many of them, in a copy if others share them.
    pub(super) fn steps_to_patch(&self, patches: usize) -> usize {
        let is_tree = |pairs: &Arc<Pairs>| matches!(pairs.list, PairList::Many(_));
        match self.0.as_ref().is_some_and(is_tree) {
            true => patches * CHANGED,
            false => FEW + patches,
        }
    }

    /// Returns the number of attributes.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |pairs| pairs.list.len())
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

    /// Sets or removes attributes.
    pub(super) fn patch(&mut self, patches: &[AttributePatch]) {
        for patch in patches {
            self.replace(patch.key.clone(), patch.after.clone());
        }
    }

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
        self.replace(key, value.map(AttributeValue::from));
    }

    fn replace(&mut self, key: SmolStr, value: Option<AttributeValue>) {
        let value = value.filter(|value| !value.is_null());
        let steps_of = |value: &AttributeValue| value::steps(&key, value);
        let before = self.shared(&key).map(steps_of);
        if value.is_none() && before.is_none() {
            return;
        }
        let Pairs { steps: sum, list } = Arc::make_mut(self.0.get_or_insert_default());
        *sum -= before.unwrap_or(0);
        *sum += value.as_ref().map_or(0, steps_of);
        match value {
            Some(value) => list.insert(key, value),
            None => list.remove(&key),
        }
        if list.len() == 0 {
            self.0 = None;
        }
    }
}

/// The index of an attribute, or the index at which to insert it.
fn find(pairs: &[(SmolStr, AttributeValue)], key: &str) -> Result<usize, usize> {
    pairs.binary_search_by(|(known, _)| known.as_str().cmp(key))
}

impl<K: Into<SmolStr>> FromIterator<(K, Value)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(pairs: I) -> Self {
        let present = pairs.into_iter().filter(|(_, value)| !value.is_null());
        let pairs = present.map(|(key, value)| (key.into(), value.into()));
        Self(Pairs::of(pairs.collect()).map(Arc::new))
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
    use std::hash::BuildHasher;

    use proptest::prelude::*;

    use super::*;
    use crate::hashing::Secret;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[a-z]{0,40}".prop_map(Value::from),
            prop::collection::vec("[a-z]{0,9}", 0..5).prop_map(Value::from),
        ]
    }

    #[test]
    fn few_and_many_attributes_are_the_same_list() {
        let name = |nth: usize| SmolStr::from(format!("a{:03}", nth * 7 % 100));
        let mut attributes = Attributes::default();
        let mut model = BTreeMap::new();
        let same = |attributes: &Attributes, model: &BTreeMap<SmolStr, Value>| {
            assert!(attributes.iter().eq(model.iter()));
            assert_eq!(attributes.len(), model.len());
            let at_once = Attributes::from_iter(model.clone());
            assert_eq!(
                (attributes.steps(), attributes),
                (at_once.steps(), &at_once)
            );
            assert_eq!(Secret.hash_one(attributes), Secret.hash_one(&at_once));
            assert_eq!(attributes.compare(&at_once), Ordering::Equal);
        };
        for nth in 0..100 {
            let before = attributes.clone();
            attributes.set(name(nth), Some(nth.into()));
            assert_ne!(before, attributes);
            model.insert(name(nth), nth.into());
            same(&attributes, &model);
        }
        for nth in 0..100 {
            assert_eq!(attributes.get(&name(nth)), Some(&nth.into()));
            attributes.set(name(nth), None);
            model.remove(&name(nth));
            same(&attributes, &model);
        }
        assert!(attributes.is_empty());
    }

    #[test]
    fn versions_share_a_large_value() {
        let large = Value::from("x".repeat(1 << 20));
        let address = |attributes: &Attributes| {
            let value = attributes.get("large").and_then(Value::as_str);
            value.map(str::as_ptr).unwrap()
        };
        let before = Attributes::from_iter([("large", large.clone())]);
        for others in [1, 100] {
            let mut after = before.clone();
            for nth in 0..others {
                after.set(format!("other {nth}").into(), Some(nth.into()));
            }
            assert_eq!(address(&after), address(&before));
            assert_ne!(after, before);
        }
        let kept = before.shared("large").cloned();
        let patch = |before, after| AttributePatch {
            key: "large".into(),
            before,
            after,
        };
        let mut after = before.clone();
        after.patch(&[patch(kept.clone(), None)]);
        after.patch(&[patch(None, kept)]);
        assert_eq!(address(&after), address(&before));
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
                    before: attributes.shared(&key).cloned(),
                    key: key.into(),
                    after: Some(value).filter(|value| !value.is_null()).map(Into::into),
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
