//! lockable's pool of locks.

use std::ops::Range;

use lockable::LockPool;

use super::Subject;
use super::kept::Table;
use crate::Result;

pub struct Pool {
    pool: LockPool<u64>,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            pool: LockPool::new(),
        }
    }
}

impl Subject for Pool {
    fn name(&self) -> &'static str {
        "lockable LockPool"
    }

    fn note(&self) -> &'static str {
        "one mutex for the table, one of tokio's per key; through blocking_lock"
    }

    fn run(&self, keys: &mut dyn Iterator<Item = u64>, count: &mut u64) -> Result {
        for key in keys {
            let _guard = self.pool.blocking_lock(key);
            *count += 1;
        }
        Ok(())
    }
}

impl Table for Pool {
    fn hold(&self, keys: Range<u64>, held: &mut dyn FnMut()) -> Result {
        let _guards: Vec<_> = keys.map(|key| self.pool.blocking_lock(key)).collect();
        held();
        Ok(())
    }

    fn keys(&self) -> usize {
        self.pool.num_locked()
    }

    fn room(&self) -> Option<usize> {
        None
    }
}
