//! doclock's global lock, in its two forms: the guard that gives the lock back when dropped, and
//! the id that any thread may give it back with.

use doclock::DataStore;

use super::Subject;
use crate::Result;

const OWNER: &str = "benchmark";

pub struct Guard {
    store: DataStore,
    count: u64,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            store: DataStore::new(),
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
            let _guard = self.store.lock(OWNER)?;
            self.count += 1;
        }
        Ok(())
    }
}

pub struct Id {
    store: DataStore,
    count: u64,
}

impl Default for Id {
    fn default() -> Self {
        Self {
            store: DataStore::new(),
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
            let id = self.store.acquire_lock(OWNER)?;
            self.count += 1;
            self.store.release_lock(id)?;
        }
        Ok(())
    }
}
