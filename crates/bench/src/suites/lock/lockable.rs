//! lockable's pool of locks by key, the closest to a lock with named owners.

use lockable::LockPool;

use super::Subject;
use crate::Result;

const KEY: u64 = 1;

pub struct Pool {
    pool: LockPool<u64>,
    count: u64,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            pool: LockPool::new(),
            count: 0,
        }
    }
}

impl Subject for Pool {
    fn name(&self) -> &'static str {
        "lockable LockPool"
    }

    fn note(&self) -> &'static str {
        "one lock per key, always the same key; through blocking_lock"
    }

    fn run(&mut self, pairs: u32) -> Result {
        for _ in 0..pairs {
            let _guard = self.pool.blocking_lock(KEY);
            self.count += 1;
        }
        Ok(())
    }
}
