//! A table of keys in use, each with a state. The keyed lock and the limiter have one.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, VacantEntry};
use std::hash::{BuildHasherDefault, Hasher};
use std::{iter, mem};

/// Identifies a key while it stays in the table. Numbers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyId {
    pub(crate) hash: u64,
    pub(crate) number: u64,
}

/// Keys by their secret hash. Keys are compared only if their hashes are equal, and before any
/// change: that is code of users.
pub(crate) struct KeyTable<K, S> {
    buckets: HashMap<u64, Box<KeyEntry<K, S>>, BuildHasherDefault<HashOfKey>>,
    /// The entry of the key that was removed last, for reuse.
    spare: Option<Box<KeyEntry<K, S>>>,
    kept: usize,
    /// How many keys are behind another one with the same hash.
    chained: usize,
}

/// One key. Boxed, because the table is rewritten for each key that comes and goes.
pub(crate) struct KeyEntry<K, S> {
    pub(crate) id: KeyId,
    /// Set while it is in the table.
    key: Option<K>,
    pub(crate) state: S,
    /// A key with the same hash.
    next: Option<Box<Self>>,
}

/// The place of a key that is not in the table.
pub(crate) struct VacantKey<'a, K, S> {
    hash: u64,
    bucket: Bucket<'a, K, S>,
    spare: &'a mut Option<Box<KeyEntry<K, S>>>,
    chained: &'a mut usize,
}

enum Bucket<'a, K, S> {
    Vacant(VacantEntry<'a, u64, Box<KeyEntry<K, S>>>),
    /// Another key has the same hash.
    Shared(&'a mut KeyEntry<K, S>),
}

/// Passes on the hash of a key.
#[derive(Default)]
pub(crate) struct HashOfKey(u64);

impl Hasher for HashOfKey {
    #[inline(always)]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a hash is a number");
    }

    #[inline(always)]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl<K, S> KeyTable<K, S> {
    /// Creates a table that always keeps room for `kept` keys, once it had it.
    pub(crate) fn new(kept: usize) -> Self {
        Self {
            buckets: HashMap::default(),
            spare: None,
            kept,
            chained: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(&K) -> bool) -> Option<&KeyEntry<K, S>> {
        let mut entries = self.buckets.get(&hash)?.iter();
        entries.find(|entry| entry.has_key(&is_it))
    }

    #[inline(always)]
    pub(crate) fn get(&self, id: KeyId) -> Option<&KeyEntry<K, S>> {
        let mut entries = self.buckets.get(&id.hash)?.iter();
        entries.find(|entry| entry.id.number == id.number)
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, id: KeyId) -> Option<&mut KeyEntry<K, S>> {
        let bucket = self.buckets.get_mut(&id.hash)?;
        bucket.find_mut(|entry| entry.id.number == id.number).ok()
    }

    /// Returns a key, or its place.
    #[inline(always)]
    pub(crate) fn place(
        &mut self,
        hash: u64,
        is_it: impl Fn(&K) -> bool,
    ) -> Result<&mut KeyEntry<K, S>, VacantKey<'_, K, S>> {
        let bucket = match self.buckets.entry(hash) {
            Entry::Vacant(bucket) => Bucket::Vacant(bucket),
            Entry::Occupied(bucket) => {
                match bucket.into_mut().find_mut(|entry| entry.has_key(&is_it)) {
                    Ok(entry) => return Ok(entry),
                    Err(last) => Bucket::Shared(last),
                }
            }
        };
        let (spare, chained) = (&mut self.spare, &mut self.chained);
        Err(VacantKey {
            hash,
            bucket,
            spare,
            chained,
        })
    }

    /// Removes a key if it is there and `is_idle`, and returns it. Dropping it is code of users.
    #[inline(always)]
    pub(crate) fn remove_if(
        &mut self,
        id: KeyId,
        is_idle: impl FnOnce(&mut KeyEntry<K, S>) -> bool,
    ) -> Option<K> {
        let Entry::Occupied(mut bucket) = self.buckets.entry(id.hash) else {
            return None;
        };
        let entry = bucket
            .get_mut()
            .find_mut(|entry| entry.id.number == id.number);
        if !is_idle(entry.ok()?) {
            return None;
        }
        let mut removed = match bucket.get().next {
            None => bucket.remove(),
            Some(_) => {
                self.chained -= 1;
                bucket.get_mut().remove(id)
            }
        };
        let key = removed.key.take();
        self.spare = Some(removed);
        let capacity = self.buckets.capacity();
        if capacity > self.kept && self.buckets.len() <= capacity / 8 {
            self.shrink();
        }
        key
    }

    /// Shrinks the table when seven eighths of it are unused. The hysteresis: before the next
    /// allocation, the number of keys must double or fall by three quarters.
    #[cold]
    fn shrink(&mut self) {
        let room = self.kept.max(self.buckets.len() * 2);
        self.buckets.shrink_to(room);
    }

    /// Returns all keys, in any order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &KeyEntry<K, S>> {
        self.buckets.values().flat_map(|bucket| bucket.iter())
    }

    /// Visits all keys, until a visit fails.
    pub(crate) fn try_each<E>(
        &mut self,
        mut visit: impl FnMut(&mut KeyEntry<K, S>) -> Result<(), E>,
    ) -> Result<(), E> {
        for bucket in self.buckets.values_mut() {
            let mut next = Some(bucket);
            while let Some(entry) = next {
                visit(entry)?;
                next = entry.next.as_mut();
            }
        }
        Ok(())
    }

    /// Returns the number of keys, and for how many there is room.
    pub(crate) fn sizes(&self) -> [usize; 2] {
        [self.buckets.len() + self.chained, self.buckets.capacity()]
    }
}

impl<K, S> KeyEntry<K, S> {
    pub(crate) fn key(&self) -> &K {
        self.key.as_ref().expect("it is in the table")
    }

    #[inline(always)]
    fn has_key(&self, is_it: impl Fn(&K) -> bool) -> bool {
        self.key.as_ref().is_some_and(is_it)
    }

    /// Returns the entries with the same hash, from this one on.
    #[inline(always)]
    fn iter(&self) -> impl Iterator<Item = &Self> {
        iter::successors(Some(self), |entry| entry.next.as_deref())
    }

    /// Returns an entry with the same hash, or the last of them.
    #[inline(always)]
    fn find_mut(&mut self, is_it: impl Fn(&Self) -> bool) -> Result<&mut Self, &mut Self> {
        let mut entry = self;
        loop {
            if is_it(entry) {
                return Ok(entry);
            }
            if entry.next.is_none() {
                return Err(entry);
            }
            entry = entry.next.as_mut().expect("it has a next");
        }
    }

    /// Removes one of several entries with the same hash.
    #[cold]
    fn remove(self: &mut Box<Self>, id: KeyId) -> Box<Self> {
        if self.id.number == id.number {
            let next = self.next.take().expect("there are several");
            return mem::replace(self, next);
        }
        let mut place = &mut self.next;
        while place.as_ref().is_some_and(|it| it.id.number != id.number) {
            place = &mut place.as_mut().expect("looked at").next;
        }
        let mut removed = place.take().expect("it was found");
        *place = removed.next.take();
        removed
    }
}

impl<'a, K, S> VacantKey<'a, K, S> {
    /// Adds the key. The state is that of the key that was removed last, or a new one.
    #[inline(always)]
    pub(crate) fn insert(
        self,
        number: u64,
        key: K,
        new: impl FnOnce() -> S,
    ) -> &'a mut KeyEntry<K, S> {
        let id = KeyId {
            hash: self.hash,
            number,
        };
        let key = Some(key);
        let entry = match self.spare.take() {
            Some(mut entry) => {
                entry.id = id;
                entry.key = key;
                entry
            }
            None => boxed(id, key, new()),
        };
        match self.bucket {
            Bucket::Vacant(bucket) => bucket.insert(entry),
            Bucket::Shared(last) => {
                *self.chained += 1;
                last.next.insert(entry)
            }
        }
    }
}

#[cold]
fn boxed<K, S>(id: KeyId, key: Option<K>, state: S) -> Box<KeyEntry<K, S>> {
    Box::new(KeyEntry {
        id,
        key,
        state,
        next: None,
    })
}

#[cfg(test)]
#[path = "../tests/unit/key_table.rs"]
mod tests;
