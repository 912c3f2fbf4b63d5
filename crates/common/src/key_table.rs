//! A table of keys in use, each with a state. The keyed lock and the limiter have one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

/// Identifies a key while it stays in the table. Numbers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyId {
    pub hash: u64,
    pub number: u64,
}

/// Keys by their secret hash. Keys are compared only if their hashes are equal, and before any
/// change: that is code of users.
///
/// It always keeps room for `KEPT` keys, once it had it, and the memory of `SPARES` keys.
pub struct KeyTable<K, S, const KEPT: usize, const SPARES: usize> {
    entries: Entries<K, S>,
    /// Other keys with the hash of one of the entries.
    collided: Vec<Box<KeyEntry<K, S>>>,
    /// The entries of the keys that were removed last, for reuse.
    spares: [Option<Box<KeyEntry<K, S>>>; SPARES],
}

/// Boxed, because the table is rewritten for each key that comes and goes.
type Entries<K, S> = HashMap<u64, Box<KeyEntry<K, S>>, BuildHasherDefault<KeptHash>>;

/// Returns the hash that is the key.
#[derive(Default)]
struct KeptHash(u64);

impl Hasher for KeptHash {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a hash is written as a number")
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

pub struct KeyEntry<K, S> {
    pub id: KeyId,
    /// Set while it is in the table.
    key: Option<K>,
    pub state: S,
}

impl<K, S, const KEPT: usize, const SPARES: usize> Default for KeyTable<K, S, KEPT, SPARES> {
    fn default() -> Self {
        Self {
            entries: HashMap::default(),
            collided: Vec::new(),
            spares: [const { None }; SPARES],
        }
    }
}

impl<K, S, const KEPT: usize, const SPARES: usize> KeyTable<K, S, KEPT, SPARES> {
    #[inline(always)]
    pub fn find(&self, hash: u64, is_it: impl Fn(&K) -> bool) -> Option<&KeyEntry<K, S>> {
        self.first(hash, |entry| entry.has(hash, &is_it))
    }

    #[inline(always)]
    pub fn get(&self, id: KeyId) -> Option<&KeyEntry<K, S>> {
        self.first(id.hash, |entry| entry.id == id)
    }

    #[inline(always)]
    fn first(&self, hash: u64, is_it: impl Fn(&KeyEntry<K, S>) -> bool) -> Option<&KeyEntry<K, S>> {
        let entry = self.entries.get(&hash)?;
        match is_it(entry) {
            true => Some(entry),
            false => {
                let entry = self.collided.iter().find(|entry| is_it(entry));
                entry.map(|entry| &**entry)
            }
        }
    }

    #[inline(always)]
    pub fn get_mut(&mut self, id: KeyId) -> Option<&mut KeyEntry<K, S>> {
        let entry = self.entries.get_mut(&id.hash)?;
        match entry.id == id {
            true => Some(entry),
            false => {
                let entry = self.collided.iter_mut().find(|entry| entry.id == id);
                entry.map(|entry| &mut **entry)
            }
        }
    }

    /// Returns the entry of the key that `is` this one, and whether it was added. If there is none,
    /// takes the key, if `number` returns one for it. Its state is that of a key that was removed,
    /// or a new one.
    #[inline(always)]
    pub fn find_or_add(
        &mut self,
        hash: u64,
        key: &mut Option<K>,
        is: impl Fn(&K, &Option<K>) -> bool,
        number: impl FnOnce() -> Option<u64>,
        new: impl FnOnce() -> S,
    ) -> Option<(&mut KeyEntry<K, S>, bool)> {
        let is_it = |own: &K| is(own, key);
        let place = match self.entries.entry(hash) {
            Entry::Occupied(entry) if entry.get().has(hash, is_it) => {
                return Some((entry.into_mut(), false));
            }
            Entry::Occupied(_) => {
                let mut others = self.collided.iter();
                if let Some(index) = others.position(|entry| entry.has(hash, is_it)) {
                    return Some((&mut self.collided[index], false));
                }
                None
            }
            Entry::Vacant(place) => Some(place),
        };
        let number = number()?;
        let (id, key) = (KeyId { hash, number }, key.take());
        let entry = match self.spares.iter_mut().find_map(Option::take) {
            Some(mut entry) => {
                (entry.id, entry.key) = (id, key);
                entry
            }
            None => Box::new(KeyEntry {
                id,
                key,
                state: new(),
            }),
        };
        let entry = match place {
            Some(place) => place.insert(entry),
            None => {
                self.collided.push(entry);
                self.collided.last_mut().expect("one was added")
            }
        };
        Some((entry, true))
    }

    /// Removes a key if it is there and `is_idle`, and returns it. Dropping it is code of users.
    #[inline(always)]
    pub fn remove_if(
        &mut self,
        id: KeyId,
        is_idle: impl FnOnce(&mut KeyEntry<K, S>) -> bool,
    ) -> Option<K> {
        let mut place = match self.entries.entry(id.hash) {
            Entry::Occupied(entry) if entry.get().id == id => Some(entry),
            _ => None,
        };
        let mut index = 0;
        let entry = match &mut place {
            Some(place) => place.get_mut(),
            None => {
                index = self.collided.iter().position(|entry| entry.id == id)?;
                &mut self.collided[index]
            }
        };
        if !is_idle(entry) {
            return None;
        }
        let mut others = self.collided.iter();
        let next = others.position(|other| other.id.hash == id.hash);
        let mut removed = match (place, next) {
            (None, _) => self.collided.swap_remove(index),
            (Some(place), None) => place.remove(),
            (Some(mut place), Some(next)) => place.insert(self.collided.swap_remove(next)),
        };
        let key = removed.key.take();
        if let Some(spare) = self.spares.iter_mut().find(|spare| spare.is_none()) {
            *spare = Some(removed);
        }
        let capacity = self.entries.capacity();
        if capacity > KEPT && self.entries.len() <= capacity / 8 {
            self.shrink();
        }
        key
    }

    /// Shrinks the table when seven eighths of it are unused. The hysteresis: before the next
    /// allocation, the number of keys must double or fall by three quarters.
    #[cold]
    fn shrink(&mut self) {
        self.entries.shrink_to(KEPT.max(self.entries.len() * 2));
    }

    pub fn iter(&self) -> impl Iterator<Item = &KeyEntry<K, S>> {
        self.entries
            .values()
            .chain(&self.collided)
            .map(|entry| &**entry)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut KeyEntry<K, S>> {
        let entries = self.entries.values_mut().chain(&mut self.collided);
        entries.map(|entry| &mut **entry)
    }

    /// Returns the number of keys, and for how many there is room.
    pub fn sizes(&self) -> [usize; 2] {
        [
            self.entries.len() + self.collided.len(),
            self.entries.capacity(),
        ]
    }
}

impl<K, S> KeyEntry<K, S> {
    /// Names an entry that was added without its key.
    #[inline]
    pub fn set_key(&mut self, key: K) {
        self.key = Some(key);
    }

    pub fn key(&self) -> &K {
        self.key.as_ref().expect("it is in the table")
    }

    #[inline(always)]
    fn has(&self, hash: u64, is_it: impl Fn(&K) -> bool) -> bool {
        self.id.hash == hash && self.key.as_ref().is_some_and(is_it)
    }
}

#[cfg(test)]
#[path = "../tests/unit/key_table.rs"]
mod tests;
