//! A table of keys in use, each with a state. The keyed lock and the limiter have one.

use hashbrown::HashTable;

/// Identifies a key while it stays in the table. Numbers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyId {
    pub(crate) hash: u64,
    pub(crate) number: u64,
}

/// Keys by their secret hash. Keys are compared only if their hashes are equal, and before any
/// change: that is code of users.
pub(crate) struct KeyTable<K, S> {
    entries: Entries<K, S>,
    /// The entry of the key that was removed last, for reuse.
    spare: Option<Box<KeyEntry<K, S>>>,
    kept: usize,
}

/// Boxed, because the table is rewritten for each key that comes and goes.
type Entries<K, S> = HashTable<Box<KeyEntry<K, S>>>;

pub(crate) struct KeyEntry<K, S> {
    pub(crate) id: KeyId,
    /// Set while it is in the table.
    key: Option<K>,
    pub(crate) state: S,
}

/// The place of a key that is not in the table.
pub(crate) struct VacantKey<'a, K, S> {
    hash: u64,
    entries: &'a mut Entries<K, S>,
    spare: &'a mut Option<Box<KeyEntry<K, S>>>,
}

impl<K, S> KeyTable<K, S> {
    /// Creates a table that always keeps room for `kept` keys, once it had it.
    pub(crate) fn new(kept: usize) -> Self {
        Self {
            entries: HashTable::new(),
            spare: None,
            kept,
        }
    }

    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(&K) -> bool) -> Option<&KeyEntry<K, S>> {
        let found = self.entries.find(hash, |entry| entry.has(hash, &is_it));
        found.map(|entry| &**entry)
    }

    #[inline(always)]
    pub(crate) fn get(&self, id: KeyId) -> Option<&KeyEntry<K, S>> {
        let found = self.entries.find(id.hash, |entry| entry.id == id);
        found.map(|entry| &**entry)
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, id: KeyId) -> Option<&mut KeyEntry<K, S>> {
        let found = self.entries.find_mut(id.hash, |entry| entry.id == id);
        found.map(|entry| &mut **entry)
    }

    #[inline(always)]
    pub(crate) fn place(
        &mut self,
        hash: u64,
        is_it: impl Fn(&K) -> bool,
    ) -> Result<&mut KeyEntry<K, S>, VacantKey<'_, K, S>> {
        let (entries, spare) = (&mut self.entries, &mut self.spare);
        match entries.find_entry(hash, |entry| entry.has(hash, &is_it)) {
            Ok(entry) => Ok(entry.into_mut()),
            Err(absent) => Err(VacantKey {
                hash,
                entries: absent.into_table(),
                spare,
            }),
        }
    }

    /// Removes a key if it is there and `is_idle`, and returns it. Dropping it is code of users.
    #[inline(always)]
    pub(crate) fn remove_if(
        &mut self,
        id: KeyId,
        is_idle: impl FnOnce(&mut KeyEntry<K, S>) -> bool,
    ) -> Option<K> {
        let found = self.entries.find_entry(id.hash, |entry| entry.id == id);
        let mut found = found.ok()?;
        if !is_idle(found.get_mut()) {
            return None;
        }
        let (mut removed, _) = found.remove();
        let key = removed.key.take();
        self.spare = Some(removed);
        let capacity = self.entries.capacity();
        if capacity > self.kept && self.entries.len() <= capacity / 8 {
            self.shrink();
        }
        key
    }

    /// Shrinks the table when seven eighths of it are unused. The hysteresis: before the next
    /// allocation, the number of keys must double or fall by three quarters.
    #[cold]
    fn shrink(&mut self) {
        let room = self.kept.max(self.entries.len() * 2);
        self.entries.shrink_to(room, |entry| entry.id.hash);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &KeyEntry<K, S>> {
        self.entries.iter().map(|entry| &**entry)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut KeyEntry<K, S>> {
        self.entries.iter_mut().map(|entry| &mut **entry)
    }

    /// Returns the number of keys, and for how many there is room.
    pub(crate) fn sizes(&self) -> [usize; 2] {
        [self.entries.len(), self.entries.capacity()]
    }
}

impl<K, S> KeyEntry<K, S> {
    pub(crate) fn key(&self) -> &K {
        self.key.as_ref().expect("it is in the table")
    }

    #[inline(always)]
    fn has(&self, hash: u64, is_it: impl Fn(&K) -> bool) -> bool {
        self.id.hash == hash && self.key.as_ref().is_some_and(is_it)
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
        let hash = self.hash;
        let id = KeyId { hash, number };
        let key = Some(key);
        let entry = match self.spare.take() {
            Some(mut entry) => {
                entry.id = id;
                entry.key = key;
                entry
            }
            None => Box::new(KeyEntry {
                id,
                key,
                state: new(),
            }),
        };
        let added = self
            .entries
            .insert_unique(hash, entry, |entry| entry.id.hash);
        added.into_mut()
    }
}

#[cfg(test)]
#[path = "../tests/unit/key_table.rs"]
mod tests;
