//! doclock's document lock in its two forms: the guard that releases the lock when dropped, and the
//! id with which any thread may release it.

use doclock::{DataStore, OwnerId};

use super::Subject;
use crate::Result;

/// An editor has its name at hand; making one from a string is not part of the lock.
fn owner() -> OwnerId {
    OwnerId::from("benchmark")
}

pub struct Guard {
    store: DataStore,
    owner: OwnerId,
    count: u64,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            store: DataStore::new(),
            owner: owner(),
            count: 0,
        }
    }
}

impl Subject for Guard {
    fn name(&self) -> &'static str {
        "doclock (guard)"
    }

    fn note(&self) -> &'static str {
        "strictly first in, first out; a named owner, fencing token and statistics with every grant"
    }

    fn run(&mut self, pairs: u32) -> Result {
        for _ in 0..pairs {
            let _guard = self.store.lock(&self.owner)?;
            self.count += 1;
        }
        Ok(())
    }
}

pub struct Id {
    store: DataStore,
    owner: OwnerId,
    count: u64,
}

impl Default for Id {
    fn default() -> Self {
        Self {
            store: DataStore::new(),
            owner: owner(),
            count: 0,
        }
    }
}

impl Subject for Id {
    fn name(&self) -> &'static str {
        "doclock (id)"
    }

    fn note(&self) -> &'static str {
        "the same lock, released by its id"
    }

    fn run(&mut self, pairs: u32) -> Result {
        for _ in 0..pairs {
            let id = self.store.acquire_lock(&self.owner)?;
            self.count += 1;
            self.store.release_lock(id)?;
        }
        Ok(())
    }
}
