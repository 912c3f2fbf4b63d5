//! Lists that clones share.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::{SmallVec, smallvec};

/// A list whose clones share its items, so a clone takes O(1).
///
/// Dereferences to a slice. Serializes as a list.
///
/// ```
/// use doclock::document::SharedList;
///
/// let list: SharedList<u32> = [1, 2].into_iter().collect();
/// assert_eq!((list.len(), list.clone()[1]), (2, 2));
/// ```
// Most commits have one operation, which makes one change: then a list and its item are one
// allocation.
pub struct SharedList<T>(Option<Arc<SmallVec<[T; 1]>>>);

impl<T> SharedList<T> {
    /// An empty list that takes so many items, at least one, without an allocation.
    #[doc(hidden)]
    pub fn with_room(items: usize) -> Self {
        Self(Some(Arc::new(SmallVec::with_capacity(items))))
    }

    /// Whether it was made with room.
    #[doc(hidden)]
    #[inline]
    pub fn has_room(&self) -> bool {
        self.0.is_some()
    }
}

impl<T: Clone> SharedList<T> {
    /// The items, which no clone shares any more.
    #[doc(hidden)]
    pub fn make_mut(&mut self) -> &mut [T] {
        self.0
            .as_mut()
            .map_or(&mut [], |items| &mut Arc::make_mut(items)[..])
    }

    #[doc(hidden)]
    pub fn push(&mut self, item: T) {
        let Some(items) = &mut self.0 else {
            self.0 = Some(Arc::new(smallvec![item]));
            return;
        };
        let items = Arc::make_mut(items);
        if items.len() == 1 && !items.spilled() {
            items.reserve(3);
        }
        items.push(item);
    }

    /// Keeps the first items only.
    #[doc(hidden)]
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.split_off(len);
        }
    }

    /// Takes the items from an index on.
    pub(crate) fn split_off(&mut self, at: usize) -> Vec<T> {
        match &mut self.0 {
            Some(items) => Arc::make_mut(items).drain(at..).collect(),
            None => Vec::new(),
        }
    }
}

impl<T> Clone for SharedList<T> {
    #[inline]
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for SharedList<T> {
    #[inline]
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Deref for SharedList<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Some(items) => items,
            None => &[],
        }
    }
}

impl<T> FromIterator<T> for SharedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let items: SmallVec<[T; 1]> = items.into_iter().collect();
        Self((!items.is_empty()).then(|| Arc::new(items)))
    }
}

impl<'a, T> IntoIterator for &'a SharedList<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: PartialEq> PartialEq for SharedList<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for SharedList<T> {}

impl<T: fmt::Debug> fmt::Debug for SharedList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: Serialize> Serialize for SharedList<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for SharedList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::deserialize(deserializer)?.into_iter().collect())
    }
}
